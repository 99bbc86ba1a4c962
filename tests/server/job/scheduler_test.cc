#include "server/job/scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

KnownWorker Worker(const std::string& name, const std::string& device = "cpu",
                   const std::string& data_set = "mnist", const std::string& rack = "") {
  v1::Hello hello;
  hello.set_name(name);
  hello.set_device(device);
  hello.add_data_sets()->set_name(data_set);
  hello.add_architectures("mlp");
  if (!rack.empty()) (*hello.mutable_labels())["rack"] = rack;
  return {hello};
}

KnownWorker Worker(const std::string& name, WorkerUse use) {
  KnownWorker worker = Worker(name);
  worker.use = use;
  return worker;
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

OpenJob Open(const std::string& id, uint32_t open_places, std::set<std::string> unwanted = {}) {
  return {id, Job(id, 2).spec, open_places, std::move(unwanted)};
}

SchedulePlan PlanQueue(std::vector<QueuedJob> queue, std::vector<KnownWorker> workers) {
  return PlanSchedule(queue, {}, workers);
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

std::vector<std::string> Growth(const SchedulePlan& plan) {
  std::vector<std::string> lines;
  for (const JobGrowth& grow : plan.grow) lines.push_back(grow.job_id + ": " + grow.worker);
  return lines;
}

TEST(Scheduler, NothingToDo) {
  EXPECT_THAT(Starts(PlanQueue({}, {})), IsEmpty());
  const SchedulePlan idle = PlanQueue({}, {Worker("a")});
  EXPECT_THAT(idle.start, IsEmpty());
  EXPECT_THAT(idle.wait, IsEmpty());
}

TEST(Scheduler, NoWorkers) {
  const SchedulePlan plan = PlanQueue({Job("job-1", 1)}, {});
  EXPECT_THAT(Starts(plan), IsEmpty());
  EXPECT_THAT(Waits(plan), ElementsAre("job-1: needs 1 worker with data set mnist, architecture "
                                       "mlp; 0 free match; no worker is connected"));
}

TEST(Scheduler, IndicesAreByNameWhateverTheOrderOfArrival) {
  const auto expected = ElementsAre("job-1: a b c");
  EXPECT_THAT(Starts(PlanQueue({Job("job-1", 3)}, {Worker("c"), Worker("a"), Worker("b")})),
              expected);
  EXPECT_THAT(Starts(PlanQueue({Job("job-1", 3)}, {Worker("b"), Worker("c"), Worker("a")})),
              expected);
}

TEST(Scheduler, TakesNoMoreThanItNeeds) {
  const SchedulePlan plan =
      PlanQueue({Job("job-1", 2), Job("job-2", 1)}, {Worker("a"), Worker("b"), Worker("c")});
  EXPECT_THAT(Starts(plan), ElementsAre("job-1: a b", "job-2: c"));
}

TEST(Scheduler, OneShort) {
  const SchedulePlan plan =
      PlanQueue({Job("job-1", 4)}, {Worker("a"), Worker("b"), Worker("c")});
  EXPECT_THAT(Starts(plan), IsEmpty());
  EXPECT_THAT(Waits(plan), ElementsAre("job-1: needs 4 workers with data set mnist, architecture "
                                       "mlp; 3 free match"));
}

TEST(Scheduler, SmallJobDoesNotOvertakeALargeOneThatWantsTheSameWorkers) {
  const SchedulePlan plan =
      PlanQueue({Job("job-1", 3), Job("job-2", 1)}, {Worker("a"), Worker("b")});
  EXPECT_THAT(Starts(plan), IsEmpty());
  EXPECT_THAT(Waits(plan),
              ElementsAre("job-1: needs 3 workers with data set mnist, architecture mlp; 2 free "
                          "match",
                          "job-2: needs 1 worker with data set mnist, architecture mlp; 2 free "
                          "match, 2 of them kept for job-1 before it"));
}

TEST(Scheduler, JobThatWantsOtherWorkersGoesAhead) {
  const SchedulePlan plan = PlanQueue({Job("job-1", 3), Job("job-2", 1, "cifar10")},
                                         {Worker("a"), Worker("b"), Worker("c", "cpu", "cifar10")});
  EXPECT_THAT(Starts(plan), ElementsAre("job-2: c"));
  EXPECT_EQ(plan.wait.size(), 1u);
}

TEST(Scheduler, JobBehindUsesWhatTheWaitingOneCannot) {
  QueuedJob first = Job("job-1", 2);
  first.spec.mutable_workers()->set_device("cuda");
  const SchedulePlan plan = PlanQueue(
      {first, Job("job-2", 2)}, {Worker("a", "cuda:0"), Worker("b"), Worker("c"), Worker("d")});
  EXPECT_THAT(Starts(plan), ElementsAre("job-2: b c"));
}

TEST(Scheduler, ZeroWorkersNeverStarts) {
  EXPECT_THAT(PlanQueue({Job("job-1", 0)}, {Worker("a")}).start, IsEmpty());
}

struct MatchCase {
  const char* what;
  KnownWorker worker;
  bool expected;
};

TEST(Scheduler, Matching) {
  QueuedJob job = Job("job-1", 1);
  job.spec.mutable_workers()->set_device("cuda");
  (*job.spec.mutable_workers()->mutable_labels())["rack"] = "7";
  KnownWorker other_model = Worker("a", "cuda:0", "mnist", "7");
  other_model.hello.set_architectures(0, "vit");
  const MatchCase cases[] = {
      {"all of it", Worker("a", "cuda:1", "mnist", "7"), true},
      {"device", Worker("a", "cpu", "mnist", "7"), false},
      {"data set", Worker("a", "cuda:1", "mnist2", "7"), false},
      {"label's value", Worker("a", "cuda:1", "mnist", "8"), false},
      {"no label", Worker("a", "cuda:1", "mnist"), false},
      {"architecture", other_model, false},
  };
  for (const MatchCase& each : cases) {
    EXPECT_EQ(Matches(job.spec, each.worker.hello), each.expected) << each.what;
  }
}

TEST(Scheduler, ModelFromABaseNeedsNoArchitecture) {
  QueuedJob job = Job("job-1", 1);
  job.spec.mutable_model()->clear_architecture();
  EXPECT_TRUE(Matches(job.spec, Worker("a").hello));
}

TEST(Scheduler, ReasonNamesEverythingAsked) {
  QueuedJob job = Job("job-1", 2);
  job.spec.mutable_workers()->set_device("cuda");
  (*job.spec.mutable_workers()->mutable_labels())["rack"] = "7";
  (*job.spec.mutable_workers()->mutable_labels())["gpu"] = "h200";
  EXPECT_THAT(Waits(PlanQueue({job}, {Worker("a", "cuda:0", "mnist", "7")})),
              ElementsAre("job-1: needs 2 workers with data set mnist, architecture mlp, device "
                          "cuda, label gpu=h200, label rack=7; 0 free match; 1 without label gpu=h200"));
}

TEST(Scheduler, ReasonSaysWhyTheOtherWorkersAreOfNoUse) {
  KnownWorker other_model = Worker("f");
  other_model.hello.set_architectures(0, "vit");
  EXPECT_THAT(
      Waits(PlanQueue({Job("job-1", 3)},
                      {Worker("a"), Worker("b", WorkerUse::kBusy), Worker("c", WorkerUse::kDrained),
                       Worker("d", "cpu", "cifar10"), Worker("e", "cpu", "cifar10"), other_model})),
      ElementsAre("job-1: needs 3 workers with data set mnist, architecture mlp; 1 free matches; "
                  "1 busy, 1 drained, 1 without architecture mlp, 2 without data set mnist"));
}

TEST(Scheduler, WorkersThatAnEarlierJobTakesAreBusyForThoseBehind) {
  const SchedulePlan plan = PlanQueue({Job("job-1", 1), Job("job-2", 1)}, {Worker("a")});
  EXPECT_THAT(Starts(plan), ElementsAre("job-1: a"));
  EXPECT_THAT(Waits(plan), ElementsAre("job-2: needs 1 worker with data set mnist, architecture "
                                       "mlp; 0 free match; 1 busy"));
}

TEST(Scheduler, HeldJobNeitherTakesNorKeeps) {
  QueuedJob held = Job("job-1", 1);
  held.held = "held by a person: lunch";
  const SchedulePlan plan = PlanQueue({held, Job("job-2", 1)}, {Worker("a")});
  EXPECT_THAT(Starts(plan), ElementsAre("job-2: a"));
  EXPECT_THAT(Waits(plan), ElementsAre("job-1: held by a person: lunch"));
}

TEST(Scheduler, NobodyGetsADrainedOrABusyWorker) {
  const SchedulePlan plan =
      PlanSchedule(std::vector<QueuedJob>{Job("job-1", 1)}, std::vector<OpenJob>{Open("job-0", 5)},
                   std::vector<KnownWorker>{Worker("a", WorkerUse::kDrained),
                                            Worker("b", WorkerUse::kBusy)});
  EXPECT_THAT(Starts(plan), IsEmpty());
  EXPECT_THAT(Growth(plan), IsEmpty());
}

struct GrowthCase {
  const char* what;
  std::vector<QueuedJob> queue;
  std::vector<OpenJob> open;
  std::vector<KnownWorker> workers;
  std::vector<std::string> expected;
};

TEST(Scheduler, Growth) {
  QueuedJob held = Job("job-9", 1);
  held.held = "held by a person";
  const GrowthCase cases[] = {
      {"nothing open", {}, {Open("job-1", 0)}, {Worker("a")}, {}},
      {"as many as there are places", {}, {Open("job-1", 2)},
       {Worker("c"), Worker("a"), Worker("b")}, {"job-1: a", "job-1: b"}},
      {"the oldest first", {}, {Open("job-1", 1), Open("job-2", 1)}, {Worker("a"), Worker("b")},
       {"job-1: a", "job-2: b"}},
      {"only those that match", {}, {Open("job-1", 3)}, {Worker("a", "cpu", "cifar10"), Worker("b")},
       {"job-1: b"}},
      {"after those that start", {Job("job-5", 1)}, {Open("job-1", 3)}, {Worker("a"), Worker("b")},
       {"job-1: b"}},
      {"left to a job that waits", {Job("job-5", 3)}, {Open("job-1", 3)}, {Worker("a"), Worker("b")},
       {}},
      {"not left to one that wants others", {Job("job-5", 3, "cifar10")}, {Open("job-1", 3)},
       {Worker("a"), Worker("b", "cpu", "cifar10")}, {"job-1: a"}},
      {"not left to a held one", {held}, {Open("job-1", 1)}, {Worker("a")}, {"job-1: a"}},
      {"unwanted ones go to the next", {}, {Open("job-1", 1, {"a"}), Open("job-2", 1)},
       {Worker("a"), Worker("b")}, {"job-1: b", "job-2: a"}},
  };
  for (const GrowthCase& each : cases) {
    EXPECT_EQ(Growth(PlanSchedule(each.queue, each.open, each.workers)), each.expected)
        << each.what;
  }
}

}  // namespace
}  // namespace tally
