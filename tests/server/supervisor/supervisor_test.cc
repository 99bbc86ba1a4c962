#include "server/supervisor/supervisor.h"

#include <deque>
#include <filesystem>
#include <functional>

#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"
#include "tests/common/spec/valid_spec.h"

namespace tally::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

// What a session was sent.
class Mailbox final : public SessionLink {
 public:
  void Send(v1::SessionDown down) override {
    absl::MutexLock lock(&mutex_);
    words_.push_back(std::move(down));
  }
  void Close(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
  }
  // Waits for the next word.
  v1::SessionDown Next() {
    absl::MutexLock lock(&mutex_);
    const auto some = [this] { return !words_.empty(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&some), absl::Seconds(60))) {
      ADD_FAILURE() << "nothing was sent";
      return {};
    }
    v1::SessionDown word = std::move(words_.front());
    words_.pop_front();
    return word;
  }
  absl::Status WaitUntilClosed() {
    absl::MutexLock lock(&mutex_);
    const auto closed = [this] { return !closed_.ok(); };
    mutex_.AwaitWithTimeout(absl::Condition(&closed), absl::Seconds(60));
    return closed_;
  }

 private:
  absl::Mutex mutex_;
  std::deque<v1::SessionDown> words_;
  absl::Status closed_;
};

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() { Start(); }
  ~SupervisorTest() override { Stop(); }
  void Start() {
    registry_ = *JobRegistry::Open(folder_.path());
    models_ = *ModelStore::Open(folder_.path());
    SupervisorOptions options;
    options.state_dir = folder_.path();
    options.heartbeat = heartbeat_;
    supervisor_ = Supervisor::Start(options, registry_.get(), models_.get(), &metrics_);
  }
  void Stop() {
    supervisor_.reset();
    registry_.reset();
  }
  v1::Hello HelloOf(const std::string& name, const std::string& instance = "1") {
    v1::Hello hello;
    hello.set_name(name);
    hello.set_instance(instance);
    hello.set_device("cpu");
    hello.add_data_sets()->set_name("fashion-mnist");
    hello.add_architectures("mlp");
    return hello;
  }
  std::shared_ptr<Mailbox> Join(const std::string& name, const std::string& instance = "1") {
    auto mailbox = std::make_shared<Mailbox>();
    EXPECT_THAT(supervisor_->OnHello(HelloOf(name, instance), "10.0.0.1:1", mailbox), IsOk());
    EXPECT_TRUE(mailbox->Next().has_welcome());
    return mailbox;
  }
  std::string Submit(const std::string& token) { return Submit(token, [](v1::WorkersSpec&) {}); }
  std::string Submit(const std::string& token, const std::function<void(v1::WorkersSpec&)>& change) {
    v1::JobSpec spec = ValidSpec();
    spec.mutable_workers()->set_count(1);
    spec.mutable_workers()->set_quorum(1);
    spec.mutable_workers()->set_minimum(1);
    change(*spec.mutable_workers());
    const auto submitted = supervisor_->Submit(spec, token);
    EXPECT_THAT(submitted, IsOk());
    return submitted->job_id;
  }

  // A worker's word that it has left the job.
  void Leave(const std::string& name, const std::string& job, const std::string& error = "",
             const std::string& instance = "1") {
    v1::JobLeft left;
    left.set_job_id(job);
    left.set_error(error);
    supervisor_->OnLeft(HelloOf(name, instance), left);
  }
  // As if its first round were open.
  void SayRunning(const std::string& job) {
    EXPECT_THAT(registry_->Transition(job, v1::RUNNING, ""), IsOk());
  }
  std::vector<std::string> PlacesOf(const std::string& job) {
    std::vector<std::string> names;
    const v1::JobStatus status = *registry_->Get(job);
    for (const v1::JobWorker& place : status.workers()) names.push_back(place.name());
    return names;
  }
  std::vector<std::string> Log(const std::string& job) {
    std::vector<std::string> messages;
    const std::vector<v1::JobEvent> events = *registry_->Events(job, 0);
    for (const v1::JobEvent& event : events) messages.push_back(event.message());
    return messages;
  }

  TempFolder folder_;
  absl::Duration heartbeat_ = absl::Seconds(60);
  Metrics metrics_;
  std::unique_ptr<JobRegistry> registry_;
  std::unique_ptr<ModelStore> models_;
  std::unique_ptr<Supervisor> supervisor_;
};

TEST_F(SupervisorTest, AssignsReleasesAndAssignsAgain) {
  const auto mailbox = Join("a");
  const std::string first = Submit("1");
  const v1::Assignment assignment = mailbox->Next().assignment();
  EXPECT_EQ(assignment.job_id(), first);
  EXPECT_EQ(assignment.count(), 1);
  const std::string second = Submit("2");
  EXPECT_THAT(supervisor_->Cancel(first, "enough"), IsOk());
  EXPECT_EQ(mailbox->Next().release().job_id(), first);
  v1::JobLeft left;
  left.set_job_id(first);
  supervisor_->OnLeft(HelloOf("a"), left);
  EXPECT_EQ(mailbox->Next().assignment().job_id(), second);
}

// Its JobLeft got lost with the stream; the heartbeat says that it is free.
TEST_F(SupervisorTest, WorkerThatSaysItIsFreeIsFreeOnceItsJobIsOver) {
  const auto mailbox = Join("a");
  const std::string first = Submit("1");
  EXPECT_TRUE(mailbox->Next().has_assignment());
  EXPECT_THAT(supervisor_->OnHeartbeat(HelloOf("a"), {}), IsOk());
  EXPECT_EQ(supervisor_->Workers()[0].job_id(), first) << "the job goes on";
  EXPECT_THAT(supervisor_->Cancel(first, "enough"), IsOk());
  EXPECT_TRUE(mailbox->Next().has_release());
  EXPECT_THAT(supervisor_->OnHeartbeat(HelloOf("a"), {}), IsOk());
  const std::string second = Submit("2");
  EXPECT_EQ(mailbox->Next().assignment().job_id(), second);
}

TEST_F(SupervisorTest, WorkerThatComesBackTakesItsPlaceAgain) {
  const auto mailbox = Join("a");
  const std::string job = Submit("1");
  EXPECT_TRUE(mailbox->Next().has_assignment());
  supervisor_->OnSessionEnd(HelloOf("a"), mailbox.get());
  EXPECT_TRUE(supervisor_->Workers().empty());
  EXPECT_EQ(Join("a")->Next().assignment().job_id(), job);
}

TEST_F(SupervisorTest, NewerSessionOfOneDaemonReplacesTheOlder) {
  const auto older = Join("a");
  const auto newer = Join("a");
  EXPECT_THAT(older->WaitUntilClosed(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("newer session")));
  supervisor_->OnSessionEnd(HelloOf("a"), older.get());
  EXPECT_EQ(supervisor_->Workers().size(), 1);
}

TEST_F(SupervisorTest, LeaseEndsWithoutHeartbeats) {
  Stop();
  heartbeat_ = absl::Milliseconds(1);
  Start();
  auto mailbox = std::make_shared<Mailbox>();
  EXPECT_THAT(supervisor_->OnHello(HelloOf("a"), "", mailbox), IsOk());
  EXPECT_THAT(mailbox->WaitUntilClosed(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lease")));
  EXPECT_THAT(supervisor_->OnHeartbeat(HelloOf("a"), {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lease has ended")));
}

TEST_F(SupervisorTest, RestartTakesUpUnfinishedJobsAndLeavesCancelledOnesAlone) {
  auto mailbox = Join("a");
  const std::string cancelled = Submit("1");
  EXPECT_TRUE(mailbox->Next().has_assignment());
  EXPECT_THAT(supervisor_->Cancel(cancelled, "enough"), IsOk());
  EXPECT_TRUE(mailbox->Next().has_release());
  EXPECT_THAT(supervisor_->OnHeartbeat(HelloOf("a"), {}), IsOk());
  const std::string job = Submit("2");
  EXPECT_TRUE(mailbox->Next().has_assignment());
  Stop();
  Start();
  EXPECT_EQ(registry_->Get(cancelled)->state(), v1::CANCELLED);
  EXPECT_THAT(supervisor_->FindRun(job), IsOk());
  EXPECT_FALSE(supervisor_->FindRun(cancelled).ok());
  EXPECT_EQ(Join("a")->Next().assignment().job_id(), job);
}

TEST_F(SupervisorTest, FatalErrorOfAWorkerFailsItsJob) {
  const auto mailbox = Join("a");
  const std::string job = Submit("1");
  EXPECT_TRUE(mailbox->Next().has_assignment());
  v1::JobLeft left;
  left.set_job_id(job);
  left.set_error("the model does not fit");
  left.set_fatal(true);
  supervisor_->OnLeft(HelloOf("a"), left);
  EXPECT_EQ(registry_->Get(job)->state(), v1::FAILED);
  EXPECT_THAT(registry_->Get(job)->reason(), HasSubstr("worker a: the model does not fit"));
}

TEST_F(SupervisorTest, HeldJobInTheQueueStaysThereAlsoAfterARestart) {
  const std::string job = Submit("1");
  TALLY_ASSERT_OK_AND_ASSIGN(const v1::JobStatus held, supervisor_->Pause(job, "lunch"));
  EXPECT_TRUE(held.held());
  EXPECT_THAT(supervisor_->Pause(job, ""), IsOk());
  Stop();
  Start();
  const auto mailbox = Join("a");
  EXPECT_EQ(registry_->Get(job)->state(), v1::PENDING);
  EXPECT_EQ(registry_->Get(job)->reason(), "held by a person: lunch");
  const std::string second = Submit("2");
  EXPECT_EQ(mailbox->Next().assignment().job_id(), second) << "it goes ahead";
  EXPECT_THAT(supervisor_->Resume(job), IsOk());
  EXPECT_THAT(supervisor_->Cancel(second, ""), IsOk());
  EXPECT_TRUE(mailbox->Next().has_release());
  Leave("a", second);
  EXPECT_EQ(mailbox->Next().assignment().job_id(), job);
  EXPECT_THAT(Log(job), IsSupersetOf({"held by a person: lunch", "no longer held"}));
}

TEST_F(SupervisorTest, HeldJobWithWorkersIsPausedUntilItIsResumed) {
  const auto mailbox = Join("a");
  const std::string job = Submit("1");
  EXPECT_TRUE(mailbox->Next().has_assignment());
  TALLY_ASSERT_OK_AND_ASSIGN(v1::JobStatus status, supervisor_->Pause(job, "lunch"));
  EXPECT_EQ(status.state(), v1::PAUSED);
  EXPECT_THAT(status.reason(), HasSubstr("lunch"));
  Stop();
  Start();
  TALLY_ASSERT_OK_AND_ASSIGN(status, supervisor_->Resume(job));
  EXPECT_FALSE(status.held());
  EXPECT_THAT(status.reason(), Not(HasSubstr("lunch")));
  EXPECT_THAT(supervisor_->Pause(job, ""), IsOk());
  TALLY_ASSERT_OK_AND_ASSIGN(status, supervisor_->Cancel(job, "enough"));
  EXPECT_FALSE(status.held());
  EXPECT_THAT(supervisor_->Pause(job, ""),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(job + " has ended: CANCELLED")));
}

TEST_F(SupervisorTest, DrainedWorkerLeavesItsJobAndGetsNoOther) {
  const auto a = Join("a");
  const auto b = Join("b");
  const std::string job = Submit("1", [](v1::WorkersSpec& workers) { workers.set_count(2); });
  EXPECT_EQ(a->Next().assignment().index(), 0u);
  EXPECT_EQ(b->Next().assignment().index(), 1u);
  SayRunning(job);
  TALLY_ASSERT_OK_AND_ASSIGN(const v1::WorkerInfo info, supervisor_->Drain("a", "new disk"));
  EXPECT_TRUE(info.drained());
  EXPECT_EQ(info.job_id(), job);
  EXPECT_EQ(a->Next().release().job_id(), job);
  Leave("a", job);
  EXPECT_THAT(PlacesOf(job), ElementsAre("", "b"));
  EXPECT_THAT(Log(job), Contains(HasSubstr("drained by a person: new disk; job-1 ")));
  const std::string waits = Submit("2");
  EXPECT_THAT(registry_->Get(waits)->reason(), HasSubstr("1 busy, 1 drained"));
  supervisor_->OnSessionEnd(HelloOf("a"), a.get());
  Stop();
  Start();
  ASSERT_EQ(supervisor_->Workers().size(), 1u) << "known without being connected";
  EXPECT_TRUE(supervisor_->Workers()[0].drained());
  EXPECT_FALSE(supervisor_->Workers()[0].connected());
  const auto again = Join("a");
  EXPECT_THAT(supervisor_->Undrain("a"), IsOk());
  EXPECT_EQ(again->Next().assignment().job_id(), waits);
}

TEST_F(SupervisorTest, DrainingTwiceKeepsTheReasonAndUnknownWorkersAreRefused) {
  const auto unknown = StatusIs(absl::StatusCode::kNotFound, HasSubstr("worker a: neither connected"));
  EXPECT_THAT(supervisor_->Drain("a", ""), unknown);
  EXPECT_THAT(supervisor_->Undrain("a"), unknown);
  Join("a");
  EXPECT_THAT(supervisor_->Undrain("a"), IsOk()) << "it is not drained: as asked for";
  EXPECT_THAT(supervisor_->Drain("a", "disk"), IsOk());
  EXPECT_THAT(supervisor_->Drain("a", ""), IsOk());
  EXPECT_EQ(registry_->Drained().at("a"), "disk");
}

TEST_F(SupervisorTest, JobGrowsByWorkersThatNobodyElseWants) {
  const auto a = Join("a");
  const std::string job = Submit("1", [](v1::WorkersSpec& workers) { workers.set_max(2); });
  EXPECT_EQ(a->Next().assignment().count(), 1u);
  SayRunning(job);
  const auto b = Join("b");
  const v1::Assignment grown = b->Next().assignment();
  EXPECT_EQ(grown.job_id(), job);
  EXPECT_EQ(grown.index(), 1u);
  EXPECT_EQ(grown.count(), 1u);
  EXPECT_NE(grown.job_key(), 0u);
  EXPECT_THAT(PlacesOf(job), ElementsAre("a", "b"));
  const auto c = Join("c");
  EXPECT_EQ(supervisor_->Workers()[2].job_id(), "") << "no place for a third";
  EXPECT_THAT(registry_->Unfinished()[0].workers, ElementsAre("a", "b"));
}

TEST_F(SupervisorTest, HeldJobDoesNotGrow) {
  const auto a = Join("a");
  const std::string job = Submit("1", [](v1::WorkersSpec& workers) { workers.set_max(2); });
  EXPECT_TRUE(a->Next().has_assignment());
  SayRunning(job);
  EXPECT_THAT(supervisor_->Pause(job, ""), IsOk());
  const auto b = Join("b");
  EXPECT_EQ(supervisor_->Workers()[1].job_id(), "");
}

TEST_F(SupervisorTest, PlaceOfAWorkerThatIsGoneForLongIsGivenToAnother) {
  const auto a = Join("a");
  const std::string job =
      Submit("1", [](v1::WorkersSpec& workers) { workers.set_replace_after_ms(50); });
  EXPECT_TRUE(a->Next().has_assignment());
  SayRunning(job);
  const auto b = Join("b");
  supervisor_->OnSessionEnd(HelloOf("a"), a.get());
  const v1::Assignment assignment = b->Next().assignment();
  EXPECT_EQ(assignment.job_id(), job);
  EXPECT_EQ(assignment.index(), 0u);
  EXPECT_THAT(PlacesOf(job), ElementsAre("b"));
  Join("a");
  EXPECT_EQ(supervisor_->Workers()[0].job_id(), "") << "it is simply free";
}

TEST_F(SupervisorTest, WorkerThatCannotGoOnMakesWayAndDoesNotGetTheJobAgain) {
  const auto a = Join("a");
  const auto b = Join("b");
  const std::string job = Submit("1");
  EXPECT_TRUE(a->Next().has_assignment());
  SayRunning(job);
  Leave("a", job, "out of memory");
  EXPECT_EQ(b->Next().assignment().job_id(), job);
  EXPECT_THAT(PlacesOf(job), ElementsAre("b"));
  Leave("b", job, "out of memory, too");
  EXPECT_THAT(PlacesOf(job), ElementsAre(""));
  EXPECT_EQ(supervisor_->Workers()[0].job_id(), "");
  EXPECT_EQ(supervisor_->Workers()[1].job_id(), "");
  supervisor_->OnSessionEnd(HelloOf("a"), a.get());
  EXPECT_EQ(Join("a", "2")->Next().assignment().job_id(), job) << "started anew";
}

TEST_F(SupervisorTest, ErrorOfAWorkerThatHasNoPlaceAnyMoreDoesNotHurt) {
  const auto a = Join("a");
  const std::string job = Submit("1");
  EXPECT_TRUE(a->Next().has_assignment());
  Leave("b", job, "not a worker of this job");
  EXPECT_EQ(registry_->Get(job)->state(), v1::WAITING);
}

TEST_F(SupervisorTest, JobWhoseFolderIsGoneFailsAndTheOthersGoOn) {
  const auto a = Join("a");
  const auto b = Join("b");
  const std::string lost = Submit("1");
  const std::string other = Submit("2");
  EXPECT_TRUE(a->Next().has_assignment());
  EXPECT_TRUE(b->Next().has_assignment());
  SayRunning(lost);
  registry_->UpdateProgress(lost, [](v1::JobStatus& status) { status.set_round(12); });
  Stop();
  std::filesystem::remove_all(folder_.File("jobs/" + lost));
  Start();
  const v1::JobStatus status = *registry_->Get(lost);
  EXPECT_EQ(status.state(), v1::FAILED);
  EXPECT_THAT(status.reason(), AllOf(HasSubstr("is gone from the server's state directory"),
                                     HasSubstr("round 12"), Not(HasSubstr(folder_.path()))));
  EXPECT_EQ(status.round(), 12u);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("jobs/" + lost)));
  EXPECT_EQ(registry_->Get(other)->state(), v1::WAITING) << "nothing was lost of it";
}

TEST_F(SupervisorTest, ResultThatWasDeletedIsSaidToBeGone) {
  const auto a = Join("a");
  const std::string job = Submit("1");
  EXPECT_TRUE(a->Next().has_assignment());
  EXPECT_THAT(registry_->Transition(job, v1::FINALIZING, ""), IsOk());
  EXPECT_THAT(registry_->Transition(job, v1::SUCCEEDED, ""), IsOk());
  std::filesystem::remove_all(folder_.File("jobs/" + job));
  EXPECT_THAT(supervisor_->ResultFolder(job),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("its model is gone"), Not(HasSubstr(folder_.path())))));
}

}  // namespace
}  // namespace tally::testing
