#include "server/supervisor/supervisor.h"

#include <deque>

#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"
#include "tests/common/spec/valid_spec.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

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
  v1::Hello HelloOf(const std::string& name) {
    v1::Hello hello;
    hello.set_name(name);
    hello.set_instance("1");
    hello.set_device("cpu");
    hello.add_data_sets()->set_name("fashion-mnist");
    hello.add_architectures("mlp");
    return hello;
  }
  std::shared_ptr<Mailbox> Join(const std::string& name) {
    auto mailbox = std::make_shared<Mailbox>();
    EXPECT_THAT(supervisor_->OnHello(HelloOf(name), "10.0.0.1:1", mailbox), IsOk());
    EXPECT_TRUE(mailbox->Next().has_welcome());
    return mailbox;
  }
  std::string Submit(const std::string& token) {
    v1::JobSpec spec = ValidSpec();
    spec.mutable_workers()->set_count(1);
    spec.mutable_workers()->set_quorum(1);
    spec.mutable_workers()->set_minimum(1);
    const auto submitted = supervisor_->Submit(spec, token);
    EXPECT_THAT(submitted, IsOk());
    return submitted->job_id;
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

}  // namespace
}  // namespace tally::testing
