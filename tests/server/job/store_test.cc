#include "server/job/store.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"

namespace tally {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::IsOk;
using testing::TempFolder;
using testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec Spec(const std::string& name = "fashion") {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.set_seed(UINT64_MAX);
  spec.mutable_learning_rate()->set_peak(1e-3);
  for (const char* key : {"a", "b", "c", "d"}) (*spec.mutable_workers()->mutable_labels())[key] = "1";
  return spec;
}

std::unique_ptr<JobStore> OpenStore(const TempFolder& folder) {
  auto store = JobStore::Open(folder.path());
  if (!store.ok()) ADD_FAILURE() << store.status();
  return *std::move(store);
}

v1::JobStatus Status(const std::string& job_id, v1::JobState state) {
  v1::JobStatus status;
  status.set_job_id(job_id);
  status.set_state(state);
  return status;
}

v1::JobEvent Event(const std::string& message) {
  v1::JobEvent event;
  event.set_time(12.5);
  event.set_level("info");
  event.set_worker("w1");
  event.set_message(message);
  return event;
}

TEST(Store, EmptyAtFirst) {
  const TempFolder folder;
  EXPECT_THAT(*OpenStore(folder)->Load(), IsEmpty());
  EXPECT_THAT(*OpenStore(folder)->Load(), IsEmpty());
}

TEST(Store, MakesTheFolder) {
  const TempFolder folder;
  TALLY_EXPECT_OK(JobStore::Open(folder.path() + "/a/b"));
}

TEST(Store, JobOutlivesTheStore) {
  const TempFolder folder;
  {
    auto store = OpenStore(folder);
    TALLY_ASSERT_OK_AND_ASSIGN(const auto inserted, store->Insert(Spec(), "t", 7.25));
    EXPECT_EQ(inserted.job_id, "job-1");
    EXPECT_TRUE(inserted.created);
    v1::JobStatus status = Status("job-1", v1::RUNNING);
    status.set_reason("because");
    status.set_started_at(8.5);
    status.set_round(41);
    TALLY_ASSERT_OK(store->SaveAssignment(status, {"w2", "w1"}));
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const auto jobs, OpenStore(folder)->Load());
  ASSERT_EQ(jobs.size(), 1u);
  const v1::JobStatus& status = jobs[0].status;
  EXPECT_EQ(status.job_id(), "job-1");
  EXPECT_EQ(status.state(), v1::RUNNING);
  EXPECT_EQ(status.reason(), "because");
  EXPECT_EQ(status.submitted_at(), 7.25);
  EXPECT_EQ(status.started_at(), 8.5);
  EXPECT_EQ(status.round(), 41u);
  EXPECT_TRUE(MessageDifferencer::Equals(status.spec(), Spec()));
  EXPECT_THAT(jobs[0].workers, ElementsAre("w2", "w1"));
}

TEST(Store, SameTokenGivesTheSameJobAlsoAfterARestart) {
  const TempFolder folder;
  TALLY_ASSERT_OK(OpenStore(folder)->Insert(Spec(), "t", 1));
  auto store = OpenStore(folder);
  TALLY_ASSERT_OK_AND_ASSIGN(const auto again, store->Insert(Spec(), "t", 2));
  EXPECT_EQ(again.job_id, "job-1");
  EXPECT_FALSE(again.created);
  EXPECT_EQ((*store->Load())[0].status.submitted_at(), 1);
  EXPECT_EQ(store->Insert(Spec(), "other", 3)->job_id, "job-2");
}

TEST(Store, TokenWithAnotherSpecSaysWhatDiffers) {
  const TempFolder folder;
  auto store = OpenStore(folder);
  TALLY_ASSERT_OK(store->Insert(Spec(), "t", 1));
  v1::JobSpec other = Spec();
  other.mutable_learning_rate()->set_peak(2e-3);
  EXPECT_THAT(store->Insert(other, "t", 2),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("token t"), HasSubstr("job-1"),
                             HasSubstr("learning_rate.peak"))));
  EXPECT_EQ(store->Load()->size(), 1u);
}

TEST(Store, NumbersAreNeverUsedAgain) {
  const TempFolder folder;
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(OpenStore(folder)->Insert(Spec(), absl::StrCat("t", i), 1)->job_id,
              absl::StrCat("job-", i));
  }
}

TEST(Store, AssignmentIsWholeOrAbsent) {
  const TempFolder folder;
  auto store = OpenStore(folder);
  TALLY_ASSERT_OK(store->Insert(Spec(), "t", 1));
  // One worker twice breaks the table's rule after the state was written.
  EXPECT_FALSE(store->SaveAssignment(Status("job-1", v1::WAITING), {"w1", "w1"}).ok());
  TALLY_ASSERT_OK_AND_ASSIGN(auto jobs, store->Load());
  EXPECT_EQ(jobs[0].status.state(), v1::PENDING);
  EXPECT_THAT(jobs[0].workers, IsEmpty());
  TALLY_EXPECT_OK(store->SaveAssignment(Status("job-1", v1::WAITING), {"w1", "w2"}));
  TALLY_EXPECT_OK(store->SaveAssignment(Status("job-1", v1::WAITING), {"w3"}));
  EXPECT_THAT((*store->Load())[0].workers, ElementsAre("w3"));
}

TEST(Store, ProgressDoesNotTouchStateNorATerminalJob) {
  const TempFolder folder;
  auto store = OpenStore(folder);
  TALLY_ASSERT_OK(store->Insert(Spec(), "t", 1));
  v1::JobStatus progress = Status("job-1", v1::SUCCEEDED);
  progress.set_round(5);
  TALLY_ASSERT_OK(store->SaveProgress(progress));
  EXPECT_EQ((*store->Load())[0].status.state(), v1::PENDING);
  EXPECT_EQ((*store->Load())[0].status.round(), 5u);
  v1::JobStatus end = Status("job-1", v1::CANCELLED);
  end.set_finished_at(9);
  end.set_round(6);
  TALLY_ASSERT_OK(store->SaveState(end));
  progress.set_round(7);
  TALLY_ASSERT_OK(store->SaveProgress(progress));
  EXPECT_EQ((*store->Load())[0].status.round(), 6u);
}

TEST(Store, UnknownJobs) {
  const TempFolder folder;
  auto store = OpenStore(folder);
  const auto not_found = absl::StatusCode::kNotFound;
  EXPECT_THAT(store->SaveState(Status("job-9", v1::FAILED)), StatusIs(not_found, HasSubstr("job-9")));
  EXPECT_FALSE(store->AddEvent("job-9", Event("x")).ok());
  EXPECT_THAT(*store->Events("job-9", 0, 10), IsEmpty());
  for (const char* id : {"", "job-", "job-01", "job-+1", "job- 1", "JOB-1", "1", "job-1x",
                         "job-99999999999999999999", "job-18446744073709551615"}) {
    EXPECT_THAT(JobNumberOf(id), StatusIs(not_found, HasSubstr("expected a job's id"))) << id;
  }
  EXPECT_EQ(*JobNumberOf("job-12"), 12u);
}

TEST(Store, EventsInOrderFromAnyPoint) {
  const TempFolder folder;
  auto store = OpenStore(folder);
  TALLY_ASSERT_OK(store->Insert(Spec(), "t", 1));
  EXPECT_THAT(*store->Events("job-1", 0, 10), IsEmpty());
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(*store->AddEvent("job-1", Event(absl::StrCat("line ", i))), i);
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const auto all, store->Events("job-1", 0, 10));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].message(), "line 1");
  EXPECT_EQ(all[0].time(), 12.5);
  EXPECT_EQ(all[0].level(), "info");
  EXPECT_EQ(all[0].worker(), "w1");
  EXPECT_EQ(store->Events("job-1", 2, 10)->at(0).sequence(), 3u);
  EXPECT_THAT(*store->Events("job-1", 3, 10), IsEmpty());
  EXPECT_EQ(store->Events("job-1", 0, 2)->size(), 2u);
  EXPECT_THAT(*store->Events("job-1", 0, 0), IsEmpty());
}

TEST(Store, EventsOfJobsDoNotMix) {
  const TempFolder folder;
  auto store = OpenStore(folder);
  TALLY_ASSERT_OK(store->Insert(Spec(), "t1", 1));
  TALLY_ASSERT_OK(store->Insert(Spec(), "t2", 1));
  TALLY_ASSERT_OK(store->AddEvent("job-1", Event("one")));
  EXPECT_EQ(*store->AddEvent("job-2", Event("two")), 1u);
  EXPECT_EQ(store->Events("job-2", 0, 10)->at(0).message(), "two");
}

TEST(Store, EventsOutliveTheStore) {
  const TempFolder folder;
  {
    auto store = OpenStore(folder);
    TALLY_ASSERT_OK(store->Insert(Spec(), "t", 1));
    TALLY_ASSERT_OK(store->AddEvent("job-1", Event("before")));
  }
  auto store = OpenStore(folder);
  EXPECT_EQ(*store->AddEvent("job-1", Event("after")), 2u);
  EXPECT_EQ(store->Events("job-1", 0, 10)->at(0).message(), "before");
}

TEST(Store, OldEventsAreDroppedAndALineSaysSo) {
  const TempFolder folder;
  auto store = OpenStore(folder);
  TALLY_ASSERT_OK(store->Insert(Spec(), "t", 1));
  for (uint64_t i = 1; i <= JobStore::kEventsPerJob + 5; ++i) {
    TALLY_ASSERT_OK(store->AddEvent("job-1", Event(absl::StrCat("line ", i))));
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const auto first, store->Events("job-1", 0, 2));
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].sequence(), 5u);
  EXPECT_THAT(first[0].message(), HasSubstr("lines 1 to 5 are not kept"));
  EXPECT_EQ(first[1].message(), "line 6");
  // Going on from there repeats nothing.
  EXPECT_EQ(store->Events("job-1", first[0].sequence(), 1)->at(0).message(), "line 6");
  EXPECT_EQ(store->Events("job-1", 0, 1'000'000)->size(), JobStore::kEventsPerJob + 1);
}

TEST(Store, SecondServerOnTheSameFolder) {
  const TempFolder folder;
  auto first = OpenStore(folder);
  EXPECT_THAT(JobStore::Open(folder.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("state_dir"), HasSubstr(folder.path()),
                             HasSubstr("locked by process"))));
  first.reset();
  TALLY_EXPECT_OK(JobStore::Open(folder.path()));
}

TEST(Store, NewerSchemaIsRefusedAndLeftAlone) {
  const TempFolder folder;
  OpenStore(folder);
  {
    TALLY_ASSERT_OK_AND_ASSIGN(Sqlite database, Sqlite::Open(folder.File("tally.db")));
    TALLY_ASSERT_OK(database.Execute("PRAGMA user_version = 3"));
  }
  EXPECT_THAT(JobStore::Open(folder.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("tally.db"), HasSubstr("expected schema version 2 or older, found 3"))));
  TALLY_ASSERT_OK_AND_ASSIGN(Sqlite database, Sqlite::Open(folder.File("tally.db")));
  EXPECT_EQ(*database.Value("PRAGMA user_version"), "3");
}

// As the first version wrote it.
constexpr char kVersion1[] = R"sql(
CREATE TABLE jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL UNIQUE,
  spec BLOB NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, submitted REAL NOT NULL,
  started REAL NOT NULL, finished REAL NOT NULL, summary BLOB NOT NULL) STRICT;
CREATE TABLE workers (job INTEGER NOT NULL REFERENCES jobs (number), position INTEGER NOT NULL,
  name TEXT NOT NULL, PRIMARY KEY (job, position), UNIQUE (job, name)) STRICT, WITHOUT ROWID;
CREATE TABLE events (job INTEGER NOT NULL REFERENCES jobs (number), sequence INTEGER NOT NULL,
  time REAL NOT NULL, level TEXT NOT NULL, worker TEXT NOT NULL, message TEXT NOT NULL,
  PRIMARY KEY (job, sequence)) STRICT, WITHOUT ROWID;
INSERT INTO jobs VALUES (1, 't', x'', 'RUNNING', 'because', 1, 2, 0, x'');
INSERT INTO jobs VALUES (2, 'u', x'', 'PENDING', '', 1, 0, 0, x'');
INSERT INTO workers VALUES (1, 0, 'w2'), (1, 1, 'w1');
INSERT INTO events VALUES (1, 1, 5, 'info', 'w1', 'attached');
PRAGMA application_id = 0x54616c79;
PRAGMA user_version = 1;
)sql";

TEST(Store, FileOfTheFirstVersionIsTakenOver) {
  const TempFolder folder;
  {
    TALLY_ASSERT_OK_AND_ASSIGN(Sqlite database, Sqlite::Open(folder.File("tally.db")));
    TALLY_ASSERT_OK(database.Execute(kVersion1));
  }
  {
    const auto store = OpenStore(folder);
    TALLY_ASSERT_OK_AND_ASSIGN(const auto jobs, store->Load());
    ASSERT_EQ(jobs.size(), 2u);
    EXPECT_EQ(jobs[0].status.state(), v1::RUNNING);
    EXPECT_EQ(jobs[0].status.reason(), "because");
    EXPECT_FALSE(jobs[0].status.held());
    EXPECT_THAT(jobs[0].workers, ElementsAre("w2", "w1"));
    EXPECT_THAT(jobs[1].workers, IsEmpty());
    TALLY_ASSERT_OK_AND_ASSIGN(const auto events, store->Events("job-1", 0, 10));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_THAT(*store->LoadDrained(), IsEmpty());
    TALLY_EXPECT_OK(store->SaveAssignment(jobs[0].status, {"", "w1", ""}));
    EXPECT_EQ(store->Insert(Spec(), "v", 1)->job_id, "job-3");
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const auto jobs, OpenStore(folder)->Load());
  EXPECT_THAT(jobs[0].workers, ElementsAre("", "w1", ""));
}

TEST(Store, HoldsAndDrainedWorkersOutliveTheStore) {
  const TempFolder folder;
  {
    const auto store = OpenStore(folder);
    TALLY_ASSERT_OK(store->Insert(Spec(), "t", 1));
    TALLY_ASSERT_OK(store->SaveHold("job-1", true, "lunch"));
    TALLY_ASSERT_OK(store->AddDrained("w1", "disk"));
    TALLY_ASSERT_OK(store->AddDrained("w1", "new disk"));
    TALLY_ASSERT_OK(store->AddDrained("w2", ""));
    TALLY_ASSERT_OK(store->RemoveDrained("w2"));
    EXPECT_THAT(store->SaveHold("job-2", true, ""), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-2")));
  }
  const auto store = OpenStore(folder);
  TALLY_ASSERT_OK_AND_ASSIGN(const auto jobs, store->Load());
  EXPECT_TRUE(jobs[0].status.held());
  EXPECT_EQ(jobs[0].held_reason, "lunch");
  EXPECT_THAT(*store->LoadDrained(), ElementsAre(std::make_pair("w1", "new disk")));
  // Progress does not end a hold.
  TALLY_ASSERT_OK(store->SaveProgress(Status("job-1", v1::PENDING)));
  EXPECT_TRUE((*store->Load())[0].status.held());
}

TEST(Store, FileThatIsNoDatabase) {
  const TempFolder folder;
  TALLY_ASSERT_OK(WriteFileAtomically(folder.File("tally.db"), std::string(8192, 'x')));
  EXPECT_THAT(JobStore::Open(folder.path()),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("tally.db"), HasSubstr("not a database"))));
}

TEST(Store, DatabaseOfAnotherProgram) {
  const TempFolder folder;
  {
    TALLY_ASSERT_OK_AND_ASSIGN(Sqlite database, Sqlite::Open(folder.File("tally.db")));
    TALLY_ASSERT_OK(database.Execute("CREATE TABLE jobs (x)"));
  }
  EXPECT_THAT(JobStore::Open(folder.path()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("another program")));
}

TEST(Store, DamagedPagesAndACutFile) {
  const TempFolder folder;
  {
    auto store = OpenStore(folder);
    for (int i = 0; i < 200; ++i) TALLY_ASSERT_OK(store->Insert(Spec(), absl::StrCat("t", i), 1));
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(folder.File("tally.db")));
  ASSERT_GT(whole.size(), 5u * 4096);
  std::string damaged = whole;
  for (size_t i = 4096; i < damaged.size(); ++i) damaged[i] = '\x5a';
  for (const std::string& bytes : {damaged, whole.substr(0, 2 * 4096)}) {
    TALLY_ASSERT_OK(WriteFileAtomically(folder.File("tally.db"), bytes));
    EXPECT_THAT(JobStore::Open(folder.path()),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("tally.db")));
  }
}

TEST(Store, DamagedSpecIsNamed) {
  const TempFolder folder;
  TALLY_ASSERT_OK(OpenStore(folder)->Insert(Spec(), "t", 1));
  {
    TALLY_ASSERT_OK_AND_ASSIGN(Sqlite database, Sqlite::Open(folder.File("tally.db")));
    TALLY_ASSERT_OK(database.Execute("UPDATE jobs SET spec = x'ffff'"));
  }
  EXPECT_THAT(OpenStore(folder)->Load(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("job-1: its spec is damaged")));
}

TEST(Store, FolderThatCannotBe) {
  const TempFolder folder;
  TALLY_ASSERT_OK(WriteFileAtomically(folder.path() + "/file", "x"));
  EXPECT_THAT(JobStore::Open(folder.path() + "/file/state").status().ToString(), HasSubstr("/file"));
  EXPECT_FALSE(JobStore::Open(folder.path() + "/file/state").ok());
}

}  // namespace
}  // namespace tally
