#include "server/job/registry.h"

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/job/states.h"
#include "tests/common/base/temp_folder.h"

namespace tally {
namespace {

using testing::TempFolder;
using testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() { Restart(); }

  void Restart() {
    registry_.reset();
    auto opened = JobRegistry::Open(folder_.path(), &clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    registry_ = *std::move(opened);
  }
  std::string Submit(const std::string& token) {
    v1::JobSpec spec;
    spec.set_name("fashion");
    auto submitted = registry_->Submit(spec, token);
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    return submitted->job_id;
  }
  v1::JobStatus Get(const std::string& job_id) { return *registry_->Get(job_id); }
  void SetRound(const std::string& job_id, uint64_t round) {
    registry_->UpdateProgress(job_id, [&](v1::JobStatus& status) { status.set_round(round); });
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    for (const v1::JobStatus& status : registry_->List()) ids.push_back(status.job_id());
    return ids;
  }

  const TempFolder folder_;
  ManualClock clock_;
  std::unique_ptr<JobRegistry> registry_;
};

TEST_F(RegistryTest, NothingYet) {
  EXPECT_TRUE(registry_->List().empty());
  EXPECT_THAT(registry_->Queue(), IsEmpty());
  EXPECT_THAT(registry_->Unfinished(), IsEmpty());
  TALLY_EXPECT_OK(registry_->SaveProgress());
}

TEST_F(RegistryTest, NewestFirstAndQueueInOrder) {
  Submit("a");
  Submit("b");
  Submit("c");
  EXPECT_THAT(Ids(), ElementsAre("job-3", "job-2", "job-1"));
  ASSERT_EQ(registry_->Queue().size(), 3u);
  EXPECT_EQ(registry_->Queue()[0].job_id, "job-1");
  EXPECT_EQ(registry_->List()[0].queue_position(), 3u);
  EXPECT_EQ(Get("job-1").queue_position(), 1u);
}

TEST_F(RegistryTest, TokenIsCheckedAndIdempotent) {
  EXPECT_EQ(Submit("same"), "job-1");
  EXPECT_EQ(Submit("same"), "job-1");
  EXPECT_THAT(Ids(), ElementsAre("job-1"));
  v1::JobSpec other;
  other.set_name("other");
  EXPECT_THAT(registry_->Submit(other, "same"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("job-1")));
  for (const std::string& token : {std::string(), std::string("a b"), std::string(65, 'x')}) {
    EXPECT_THAT(registry_->Submit(other, token),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token")));
  }
}

TEST_F(RegistryTest, SameTokenFromManyThreadsIsOneJob) {
  std::vector<std::thread> threads;
  std::atomic<int> created = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { created += registry_->Submit(v1::JobSpec(), "t")->created; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created, 1);
  EXPECT_EQ(registry_->List().size(), 1u);
}

TEST_F(RegistryTest, LifeOfAJob) {
  clock_.Advance(absl::Seconds(10));
  Submit("a");
  EXPECT_EQ(Get("job-1").state(), v1::PENDING);
  EXPECT_EQ(Get("job-1").submitted_at(), 10);
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1", "w2"}));
  EXPECT_EQ(Get("job-1").state(), v1::WAITING);
  EXPECT_EQ(Get("job-1").workers(1).name(), "w2");
  EXPECT_EQ(Get("job-1").workers(1).index(), 1u);
  EXPECT_EQ(Get("job-1").queue_position(), 0u);
  clock_.Advance(absl::Seconds(5));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::RUNNING, ""));
  clock_.Advance(absl::Seconds(5));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::PAUSED, "1 worker attached, minimum 2"));
  EXPECT_EQ(Get("job-1").reason(), "1 worker attached, minimum 2");
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::RUNNING, ""));
  EXPECT_EQ(Get("job-1").reason(), "");
  EXPECT_EQ(Get("job-1").started_at(), 15);
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::FINALIZING, ""));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::SUCCEEDED, ""));
  EXPECT_EQ(Get("job-1").finished_at(), 20);
  EXPECT_THAT(registry_->Unfinished(), IsEmpty());
}

TEST_F(RegistryTest, JobOfNoRoundsGoesStraightToItsEnd) {
  Submit("a");
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1"}));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::FINALIZING, ""));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::SUCCEEDED, ""));
  EXPECT_GE(Get("job-1").finished_at(), Get("job-1").started_at());
}

TEST_F(RegistryTest, CancelDuringDispatch) {
  Submit("a");
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::CANCELLED, "by request"));
  EXPECT_THAT(registry_->Assign("job-1", {"w1"}),
              StatusIs(kRefused, AllOf(HasSubstr("job-1"), HasSubstr("CANCELLED"))));
  EXPECT_THAT(registry_->Queue(), IsEmpty());
  Submit("b");
  TALLY_ASSERT_OK(registry_->Assign("job-2", {"w1"}));
  TALLY_ASSERT_OK(registry_->Transition("job-2", v1::CANCELLED, "by request"));
  EXPECT_THAT(registry_->Transition("job-2", v1::RUNNING, "late"),
              StatusIs(kRefused, HasSubstr("job-2 has ended: CANCELLED")));
  Restart();
  EXPECT_EQ(Get("job-1").state(), v1::CANCELLED);
  EXPECT_EQ(Get("job-2").state(), v1::CANCELLED);
  EXPECT_EQ(Get("job-2").reason(), "by request");
}

TEST_F(RegistryTest, AssignOrCancelWinsNeverBoth) {
  for (int i = 1; i <= 20; ++i) {
    const std::string job_id = Submit(absl::StrCat("t", i));
    absl::Status assigned;
    std::thread dispatch([&] { assigned = registry_->Assign(job_id, {"w1"}); });
    const absl::Status cancelled = registry_->Transition(job_id, v1::CANCELLED, "");
    dispatch.join();
    TALLY_EXPECT_OK(cancelled);
    EXPECT_EQ(Get(job_id).state(), v1::CANCELLED);
    // An assignment that came first is to be seen, so that its workers can be released.
    EXPECT_EQ(Get(job_id).workers_size(), assigned.ok() ? 1 : 0);
  }
}

TEST_F(RegistryTest, WaitingNeedsWorkers) {
  Submit("a");
  EXPECT_THAT(registry_->Transition("job-1", v1::WAITING, ""), StatusIs(kRefused, HasSubstr("workers")));
  EXPECT_THAT(registry_->Assign("job-1", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found none")));
  EXPECT_EQ(Get("job-1").state(), v1::PENDING);
}

TEST_F(RegistryTest, TerminalStateKeepsItsReasonAndTime) {
  Submit("a");
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::CANCELLED, "first"));
  clock_.Advance(absl::Seconds(5));
  TALLY_EXPECT_OK(registry_->Transition("job-1", v1::CANCELLED, "second"));
  SetRound("job-1", 7);
  EXPECT_EQ(Get("job-1").reason(), "first");
  EXPECT_EQ(Get("job-1").finished_at(), 0 + Get("job-1").submitted_at());
  EXPECT_EQ(Get("job-1").round(), 0u);
}

TEST_F(RegistryTest, RepeatedStateChangesOnlyTheReason) {
  Submit("a");
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1"}));
  TALLY_EXPECT_OK(registry_->Transition("job-1", v1::WAITING, "0 of 1 workers ready"));
  EXPECT_EQ(Get("job-1").reason(), "0 of 1 workers ready");
  TALLY_EXPECT_OK(registry_->Transition("job-1", v1::WAITING, ""));
  EXPECT_EQ(Get("job-1").reason(), "0 of 1 workers ready");
}

TEST_F(RegistryTest, HeldJobsStayHeldAlsoAfterARestart) {
  Submit("a");
  Submit("b");
  EXPECT_TRUE(*registry_->Hold("job-1", "lunch"));
  EXPECT_FALSE(*registry_->Hold("job-1", "")) << "no news";
  EXPECT_EQ(Get("job-1").state(), v1::PENDING);
  EXPECT_EQ(Get("job-1").reason(), "held by a person: lunch");
  TALLY_ASSERT_OK(registry_->Assign("job-2", {"w1"}));
  TALLY_ASSERT_OK(registry_->Transition("job-2", v1::RUNNING, ""));
  EXPECT_TRUE(*registry_->Hold("job-2", ""));
  registry_->UpdateProgress("job-2", [](v1::JobStatus& status) { status.set_held(false); });
  Restart();
  EXPECT_TRUE(Get("job-1").held());
  EXPECT_TRUE(Get("job-2").held());
  EXPECT_EQ(registry_->Queue()[0].held, "held by a person: lunch");
  EXPECT_TRUE(*registry_->Unhold("job-1"));
  EXPECT_FALSE(*registry_->Unhold("job-1"));
  EXPECT_EQ(registry_->Queue()[0].held, std::nullopt);
  Restart();
  EXPECT_FALSE(Get("job-1").held());
}

TEST_F(RegistryTest, HoldingWhatIsDoneIsRefused) {
  Submit("a");
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1"}));
  EXPECT_TRUE(*registry_->Hold("job-1", ""));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::FINALIZING, ""));
  EXPECT_FALSE(Get("job-1").held());
  EXPECT_THAT(registry_->Hold("job-1", ""),
              StatusIs(kRefused, HasSubstr("job-1 is FINALIZING: its rounds are done")));
  EXPECT_FALSE(*registry_->Unhold("job-1"));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::SUCCEEDED, ""));
  EXPECT_THAT(registry_->Hold("job-1", ""),
              StatusIs(kRefused, HasSubstr("job-1 has ended: SUCCEEDED")));
  EXPECT_THAT(registry_->Unhold("job-1"),
              StatusIs(kRefused, HasSubstr("job-1 has ended: SUCCEEDED")));
  EXPECT_THAT(registry_->Transition("job-1", v1::CANCELLED, ""),
              StatusIs(kRefused, HasSubstr("job-1 has ended: SUCCEEDED")));
}

TEST_F(RegistryTest, PlacesKeepWhatTheyHaveDone) {
  Submit("a");
  EXPECT_THAT(registry_->SetPlaces("job-1", {"w1"}), StatusIs(kRefused, HasSubstr("PENDING")));
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1", "w2"}));
  registry_->UpdateProgress("job-1", [](v1::JobStatus& status) {
    status.mutable_workers(1)->set_contributions(7);
  });
  TALLY_ASSERT_OK(registry_->SetPlaces("job-1", {"w1", ""}));
  TALLY_ASSERT_OK(registry_->SetPlaces("job-1", {"w1", "w3", "w4"}));
  Restart();
  EXPECT_THAT(registry_->Unfinished()[0].workers, ElementsAre("w1", "w3", "w4"));
  const v1::JobStatus status = Get("job-1");
  ASSERT_EQ(status.workers_size(), 3);
  EXPECT_EQ(status.workers(1).name(), "w3");
  EXPECT_EQ(status.workers(1).contributions(), 7u);
  EXPECT_EQ(status.workers(2).index(), 2u);
}

TEST_F(RegistryTest, DrainedWorkersStayDrainedAlsoAfterARestart) {
  TALLY_ASSERT_OK(registry_->Drain("w1", "disk"));
  TALLY_ASSERT_OK(registry_->Drain("w2", ""));
  TALLY_ASSERT_OK(registry_->Undrain("w2"));
  Restart();
  EXPECT_THAT(registry_->Drained(), ElementsAre(std::make_pair("w1", "disk")));
}

TEST_F(RegistryTest, UnknownJob) {
  const auto not_found = StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-5: no such job"));
  EXPECT_THAT(registry_->Get("job-5"), not_found);
  EXPECT_THAT(registry_->Transition("job-5", v1::RUNNING, ""), not_found);
  EXPECT_THAT(registry_->Assign("job-5", {"w"}), not_found);
  EXPECT_THAT(registry_->AddEvent("job-5", "info", "", "x"), not_found);
  EXPECT_THAT(registry_->Events("job-5", 0), not_found);
  EXPECT_THAT(registry_->Subscribe("job-5", Interest::kStatus, [](const auto&) {}), not_found);
  SetRound("job-5", 1);
  registry_->Unsubscribe(99);
  EXPECT_THAT(registry_->Get("../x\n"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("../x")));
}

TEST_F(RegistryTest, ProgressCannotChangeTheState) {
  Submit("a");
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1"}));
  registry_->UpdateProgress("job-1", [](v1::JobStatus& status) {
    status.set_state(v1::SUCCEEDED);
    status.set_finished_at(3);
    status.set_job_id("job-9");
    status.set_reason("x");
    status.set_loss(0.5);
  });
  EXPECT_EQ(Get("job-1").state(), v1::WAITING);
  EXPECT_EQ(Get("job-1").job_id(), "job-1");
  EXPECT_EQ(Get("job-1").finished_at(), 0);
  EXPECT_EQ(Get("job-1").reason(), "");
  EXPECT_EQ(Get("job-1").loss(), 0.5);
}

TEST_F(RegistryTest, RestartFindsWhatWasUnfinished) {
  for (const char* token : {"a", "b", "c", "d"}) Submit(token);
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1", "w2"}));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::RUNNING, ""));
  TALLY_ASSERT_OK(registry_->Assign("job-2", {"w3"}));
  TALLY_ASSERT_OK(registry_->Transition("job-3", v1::FAILED, "no data"));
  registry_->UpdateProgress("job-1", [](v1::JobStatus& status) {
    status.set_round(40);
    status.mutable_workers(0)->set_attached(true);
  });
  TALLY_ASSERT_OK(registry_->SaveProgress());
  SetRound("job-1", 41);  // after the last save: lost, the ledger knows better
  Restart();
  const auto unfinished = registry_->Unfinished();
  ASSERT_EQ(unfinished.size(), 2u);
  EXPECT_EQ(unfinished[0].status.job_id(), "job-1");
  EXPECT_EQ(unfinished[0].status.state(), v1::RUNNING);
  EXPECT_EQ(unfinished[0].status.spec().name(), "fashion");
  EXPECT_THAT(unfinished[0].workers, ElementsAre("w1", "w2"));
  EXPECT_THAT(unfinished[1].workers, ElementsAre("w3"));
  EXPECT_EQ(Get("job-1").round(), 40u);
  EXPECT_FALSE(Get("job-1").workers(0).attached());
  EXPECT_EQ(Get("job-3").reason(), "no data");
  ASSERT_EQ(registry_->Queue().size(), 1u);
  EXPECT_EQ(registry_->Queue()[0].job_id, "job-4");
}

TEST_F(RegistryTest, WhyAJobWaits) {
  Submit("a");
  registry_->ExplainWait("job-1", "needs 4 workers");
  EXPECT_EQ(Get("job-1").reason(), "needs 4 workers");
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1"}));
  registry_->ExplainWait("job-1", "needs 4 workers");
  registry_->ExplainWait("job-7", "x");
  EXPECT_EQ(Get("job-1").reason(), "");
}

TEST_F(RegistryTest, EventsAreCleanedAndCut) {
  Submit("a");
  TALLY_ASSERT_OK(registry_->AddEvent("job-1", "loud", "w1", "colour \x1b[31m\tand\nline"));
  TALLY_ASSERT_OK(registry_->AddEvent("job-1", "error", "", "bad \xff byte"));
  TALLY_ASSERT_OK(registry_->AddEvent("job-1", "warning", "", std::string(5000, 'x')));
  std::vector<std::string> letters(3000, "ä");
  const std::string umlauts = absl::StrCat("x", absl::StrJoin(letters, ""));
  TALLY_ASSERT_OK(registry_->AddEvent("job-1", "info", "", umlauts));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto events, registry_->Events("job-1", 0));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].level(), "info");
  EXPECT_EQ(events[0].message(), "colour \\x1b[31m\tand\nline");
  EXPECT_EQ(events[1].message(), "bad \\xff byte");
  EXPECT_THAT(events[2].message(), HasSubstr("x … (904 bytes more)"));
  EXPECT_THAT(events[3].message(), HasSubstr("ä … (1906 bytes more)"));
}

TEST_F(RegistryTest, SubscriberHearsEachKindItWants) {
  Submit("a");
  Submit("b");
  std::vector<std::string> status;
  int both = 0;
  TALLY_ASSERT_OK(registry_->Subscribe("job-1", Interest::kStatus, [&](const v1::JobStatus& now) {
    status.push_back(absl::StrCat(v1::JobState_Name(now.state()), " ", now.round()));
  }));
  TALLY_ASSERT_OK(registry_->Subscribe("job-1", Interest::kStatusAndEvents,
                                       [&](const v1::JobStatus&) { ++both; }));
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1"}));
  TALLY_ASSERT_OK(registry_->AddEvent("job-1", "info", "", "x"));
  SetRound("job-1", 3);
  SetRound("job-2", 9);
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::CANCELLED, ""));
  SetRound("job-1", 4);
  EXPECT_THAT(status, ElementsAre("WAITING 0", "WAITING 3", "CANCELLED 3"));
  EXPECT_EQ(both, 4);
}

TEST_F(RegistryTest, QueuedJobHearsThatItMovesUp) {
  Submit("a");
  Submit("b");
  std::vector<uint32_t> positions;
  TALLY_ASSERT_OK(registry_->Subscribe("job-2", Interest::kStatus, [&](const v1::JobStatus& now) {
    positions.push_back(now.queue_position());
  }));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::CANCELLED, ""));
  EXPECT_THAT(positions, ElementsAre(1));
}

TEST_F(RegistryTest, CallbackRunsWithoutTheLockAndAfterTheDisk) {
  Submit("a");
  std::vector<v1::JobState> seen;
  uint64_t subscription = 0;
  TALLY_ASSERT_OK_AND_ASSIGN(
      subscription, registry_->Subscribe("job-1", Interest::kStatus, [&](const auto& now) {
        seen.push_back(registry_->Get("job-1")->state());
        EXPECT_EQ(now.state(), seen.back());
        TALLY_ASSERT_OK_AND_ASSIGN(Sqlite database, Sqlite::Open(folder_.File("tally.db")));
        EXPECT_EQ(*database.Value("SELECT state FROM jobs"), v1::JobState_Name(now.state()));
        registry_->Unsubscribe(subscription);
      }));
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1"}));
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::RUNNING, ""));
  EXPECT_THAT(seen, ElementsAre(v1::WAITING));
}

TEST_F(RegistryTest, UnsubscribeWaitsForTheCallbackInProgress) {
  Submit("a");
  absl::Notification entered;
  absl::Notification go_on;
  std::atomic<bool> left = false;
  TALLY_ASSERT_OK_AND_ASSIGN(
      const uint64_t subscription,
      registry_->Subscribe("job-1", Interest::kStatus, [&](const v1::JobStatus&) {
        entered.Notify();
        go_on.WaitForNotification();
        left = true;
      }));
  std::thread changer([&] { SetRound("job-1", 1); });
  entered.WaitForNotification();
  // Nobody else waits for that callback.
  EXPECT_EQ(Get("job-1").round(), 1u);
  std::thread releaser([&] { go_on.Notify(); });
  registry_->Unsubscribe(subscription);
  EXPECT_TRUE(left);
  changer.join();
  releaser.join();
}

TEST_F(RegistryTest, NoOlderStatusAfterANewerOneFromManyThreads) {
  Submit("a");
  TALLY_ASSERT_OK(registry_->Assign("job-1", {"w1"}));
  uint64_t last = 0;
  bool ended = false;
  TALLY_ASSERT_OK(registry_->Subscribe("job-1", Interest::kStatus, [&](const auto& now) {
    EXPECT_FALSE(ended);
    EXPECT_GT(now.round() + IsTerminal(now.state()), last);
    last = now.round();
    ended = IsTerminal(now.state());
  }));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        registry_->UpdateProgress("job-1", [](v1::JobStatus& now) { now.set_round(now.round() + 1); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(last, 800u);
  TALLY_ASSERT_OK(registry_->Transition("job-1", v1::CANCELLED, ""));
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace tally
