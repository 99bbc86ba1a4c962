#include "server/job/scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Hello Worker(const std::string& name, const std::string& device = "cpu",
                 const std::string& data_set = "mnist", const std::string& rack = "") {
  v1::Hello hello;
  hello.set_name(name);
  hello.set_device(device);
  hello.add_data_sets()->set_name(data_set);
  hello.add_architectures("mlp");
  if (!rack.empty()) (*hello.mutable_labels())["rack"] = rack;
  return hello;
}

QueuedJob Job(const std::string& id, uint32_t count, const std::string& data_set = "mnist") {
  QueuedJob job;
  job.job_id = id;
  job.spec.mutable_workers()->set_count(count);
  job.spec.mutable_workers()->set_device("any");
  job.spec.mutable_data()->set_name(data_set);
  job.spec.mutable_model()->set_architecture("mlp");
  return job;
}

std::vector<std::string> Starts(const SchedulePlan& plan) {
  std::vector<std::string> lines;
  for (const JobStart& start : plan.start) {
    std::string line = start.job_id + ":";
    for (const std::string& name : start.workers) line += " " + name;
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> Waits(const SchedulePlan& plan) {
  std::vector<std::string> lines;
  for (const JobWait& wait : plan.wait) lines.push_back(wait.job_id + ": " + wait.reason);
  return lines;
}

TEST(Scheduler, NothingToDo) {
  EXPECT_THAT(Starts(PlanSchedule({}, {})), IsEmpty());
  const SchedulePlan idle = PlanSchedule({}, {Worker("a")});
  EXPECT_THAT(idle.start, IsEmpty());
  EXPECT_THAT(idle.wait, IsEmpty());
}

TEST(Scheduler, NoWorkers) {
  const SchedulePlan plan = PlanSchedule({Job("job-1", 1)}, {});
  EXPECT_THAT(Starts(plan), IsEmpty());
  EXPECT_THAT(Waits(plan), ElementsAre("job-1: needs 1 worker with data set mnist, architecture "
                                       "mlp; 0 free match"));
}

TEST(Scheduler, IndicesAreByNameWhateverTheOrderOfArrival) {
  const auto expected = ElementsAre("job-1: a b c");
  EXPECT_THAT(Starts(PlanSchedule({Job("job-1", 3)}, {Worker("c"), Worker("a"), Worker("b")})),
              expected);
  EXPECT_THAT(Starts(PlanSchedule({Job("job-1", 3)}, {Worker("b"), Worker("c"), Worker("a")})),
              expected);
}

TEST(Scheduler, TakesNoMoreThanItNeeds) {
  const SchedulePlan plan =
      PlanSchedule({Job("job-1", 2), Job("job-2", 1)}, {Worker("a"), Worker("b"), Worker("c")});
  EXPECT_THAT(Starts(plan), ElementsAre("job-1: a b", "job-2: c"));
}

TEST(Scheduler, OneShort) {
  const SchedulePlan plan =
      PlanSchedule({Job("job-1", 4)}, {Worker("a"), Worker("b"), Worker("c")});
  EXPECT_THAT(Starts(plan), IsEmpty());
  EXPECT_THAT(Waits(plan), ElementsAre("job-1: needs 4 workers with data set mnist, architecture "
                                       "mlp; 3 free match"));
}

TEST(Scheduler, SmallJobDoesNotOvertakeALargeOneThatWantsTheSameWorkers) {
  const SchedulePlan plan =
      PlanSchedule({Job("job-1", 3), Job("job-2", 1)}, {Worker("a"), Worker("b")});
  EXPECT_THAT(Starts(plan), IsEmpty());
  EXPECT_THAT(Waits(plan),
              ElementsAre("job-1: needs 3 workers with data set mnist, architecture mlp; 2 free "
                          "match",
                          "job-2: needs 1 worker with data set mnist, architecture mlp; 2 free "
                          "match, 2 of them kept for job-1 before it"));
}

TEST(Scheduler, JobThatWantsOtherWorkersGoesAhead) {
  const SchedulePlan plan = PlanSchedule({Job("job-1", 3), Job("job-2", 1, "cifar10")},
                                         {Worker("a"), Worker("b"), Worker("c", "cpu", "cifar10")});
  EXPECT_THAT(Starts(plan), ElementsAre("job-2: c"));
  EXPECT_EQ(plan.wait.size(), 1u);
}

TEST(Scheduler, JobBehindUsesWhatTheWaitingOneCannot) {
  QueuedJob first = Job("job-1", 2);
  first.spec.mutable_workers()->set_device("cuda");
  const SchedulePlan plan = PlanSchedule(
      {first, Job("job-2", 2)}, {Worker("a", "cuda:0"), Worker("b"), Worker("c"), Worker("d")});
  EXPECT_THAT(Starts(plan), ElementsAre("job-2: b c"));
}

TEST(Scheduler, ZeroWorkersNeverStarts) {
  EXPECT_THAT(PlanSchedule({Job("job-1", 0)}, {Worker("a")}).start, IsEmpty());
}

struct MatchCase {
  const char* what;
  v1::Hello worker;
  bool expected;
};

TEST(Scheduler, Matching) {
  QueuedJob job = Job("job-1", 1);
  job.spec.mutable_workers()->set_device("cuda");
  (*job.spec.mutable_workers()->mutable_labels())["rack"] = "7";
  v1::Hello other_model = Worker("a", "cuda:0", "mnist", "7");
  other_model.set_architectures(0, "vit");
  const MatchCase cases[] = {
      {"all of it", Worker("a", "cuda:1", "mnist", "7"), true},
      {"device", Worker("a", "cpu", "mnist", "7"), false},
      {"data set", Worker("a", "cuda:1", "mnist2", "7"), false},
      {"label's value", Worker("a", "cuda:1", "mnist", "8"), false},
      {"no label", Worker("a", "cuda:1", "mnist"), false},
      {"architecture", other_model, false},
  };
  for (const MatchCase& each : cases) {
    EXPECT_EQ(Matches(job.spec, each.worker), each.expected) << each.what;
  }
}

TEST(Scheduler, ModelFromABaseNeedsNoArchitecture) {
  QueuedJob job = Job("job-1", 1);
  job.spec.mutable_model()->clear_architecture();
  EXPECT_TRUE(Matches(job.spec, Worker("a")));
}

TEST(Scheduler, ReasonNamesEverythingAsked) {
  QueuedJob job = Job("job-1", 2);
  job.spec.mutable_workers()->set_device("cuda");
  (*job.spec.mutable_workers()->mutable_labels())["rack"] = "7";
  (*job.spec.mutable_workers()->mutable_labels())["gpu"] = "h200";
  EXPECT_THAT(Waits(PlanSchedule({job}, {Worker("a", "cuda:0", "mnist", "7")})),
              ElementsAre("job-1: needs 2 workers with data set mnist, architecture mlp, device "
                          "cuda, label gpu=h200, label rack=7; 0 free match"));
}

}  // namespace
}  // namespace tally
