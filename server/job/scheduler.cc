#include "server/job/scheduler.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tally {
namespace {

bool DeviceMatches(const std::string& wanted, const std::string& found) {
  if (wanted == "cuda") return absl::StartsWith(found, "cuda");
  return wanted.empty() || wanted == "any" || wanted == found;
}

std::map<std::string, std::string> SortedLabels(const v1::WorkersSpec& workers) {
  return {workers.labels().begin(), workers.labels().end()};
}

bool HasDataSet(const std::string& wanted, const v1::Hello& worker) {
  return std::any_of(worker.data_sets().begin(), worker.data_sets().end(),
                     [&](const v1::DataSetInfo& info) { return info.name() == wanted; });
}

// Without a name the architecture is in the base model's config.json, which the worker reads.
bool HasArchitecture(const std::string& wanted, const v1::Hello& worker) {
  return wanted.empty() || std::find(worker.architectures().begin(), worker.architectures().end(),
                                     wanted) != worker.architectures().end();
}

// "4 workers with data set fashion-mnist, architecture vit, device cuda and label rack=7".
std::string Needs(const v1::JobSpec& spec) {
  const v1::WorkersSpec& workers = spec.workers();
  std::vector<std::string> traits = {absl::StrCat("data set ", spec.data().name())};
  if (!spec.model().architecture().empty()) {
    traits.push_back(absl::StrCat("architecture ", spec.model().architecture()));
  }
  if (!workers.device().empty() && workers.device() != "any") {
    traits.push_back(absl::StrCat("device ", workers.device()));
  }
  for (const auto& [key, value] : SortedLabels(workers)) traits.push_back(absl::StrCat("label ", key, "=", value));
  return absl::StrCat(workers.count(), workers.count() == 1 ? " worker" : " workers", " with ",
                      absl::StrJoin(traits, ", "));
}

// The first of the job's wishes that the worker does not meet, as it stands in "2 without label
// rack=7"; empty if it meets all.
std::string Unmet(const v1::JobSpec& spec, const v1::Hello& worker) {
  if (!HasDataSet(spec.data().name(), worker)) {
    return absl::StrCat("without data set ", spec.data().name());
  }
  if (!HasArchitecture(spec.model().architecture(), worker)) {
    return absl::StrCat("without architecture ", spec.model().architecture());
  }
  if (!DeviceMatches(spec.workers().device(), worker.device())) {
    return absl::StrCat("without device ", spec.workers().device());
  }
  for (const auto& [key, value] : SortedLabels(spec.workers())) {
    const auto found = worker.labels().find(key);
    if (found == worker.labels().end() || found->second != value) {
      return absl::StrCat("without label ", key, "=", value);
    }
  }
  return "";
}

// Workers by name, those of them that are free, and which waiting job keeps them from the others.
struct Pool {
  std::map<std::string, const KnownWorker*> workers;
  std::map<std::string, const v1::Hello*> free;
  std::map<std::string, std::string> kept_for;
};

struct Candidates {
  std::vector<std::string> usable;
  size_t kept = 0;
  std::optional<std::string> kept_for;  // the first job that keeps one
};

Candidates FindCandidates(const v1::JobSpec& spec, const Pool& pool) {
  Candidates candidates;
  for (const auto& [name, worker] : pool.free) {
    if (!Matches(spec, *worker)) continue;
    const auto kept = pool.kept_for.find(name);
    if (kept == pool.kept_for.end()) {
      candidates.usable.push_back(name);
      continue;
    }
    ++candidates.kept;
    if (!candidates.kept_for.has_value()) candidates.kept_for = kept->second;
  }
  return candidates;
}

// Why the other workers are of no use to the job: "; 1 busy, 2 without device cuda".
std::string OtherWorkers(const v1::JobSpec& spec, const Pool& pool) {
  if (pool.workers.empty()) return "; no worker is connected";
  std::map<std::string, int> counts;
  for (const auto& [name, worker] : pool.workers) {
    const std::string unmet = Unmet(spec, worker->hello);
    if (!unmet.empty()) {
      ++counts[unmet];
    } else if (worker->use == WorkerUse::kDrained) {
      ++counts["drained"];
    } else if (!pool.free.contains(name)) {
      ++counts["busy"];
    }
  }
  std::vector<std::string> parts;
  for (const auto& [what, count] : counts) parts.push_back(absl::StrCat(count, " ", what));
  return parts.empty() ? "" : absl::StrCat("; ", absl::StrJoin(parts, ", "));
}

std::string WhyItWaits(const v1::JobSpec& spec, const Candidates& found, const Pool& pool) {
  const size_t match = found.usable.size() + found.kept;
  std::string reason =
      absl::StrCat("needs ", Needs(spec), "; ", match, " free ", match == 1 ? "matches" : "match");
  if (found.kept > 0) {
    absl::StrAppend(&reason, ", ", found.kept, " of them kept for ", *found.kept_for,
                    " before it");
  }
  return reason + OtherWorkers(spec, pool);
}

void PlanQueued(const QueuedJob& job, Pool& pool, SchedulePlan& plan) {
  if (job.held.has_value()) {
    plan.wait.push_back({job.job_id, *job.held});
    return;
  }
  Candidates found = FindCandidates(job.spec, pool);
  const size_t needed = job.spec.workers().count();
  if (needed > 0 && found.usable.size() >= needed) {
    found.usable.resize(needed);
    for (const std::string& name : found.usable) pool.free.erase(name);
    plan.start.push_back({job.job_id, std::move(found.usable)});
    return;
  }
  for (const std::string& name : found.usable) pool.kept_for.emplace(name, job.job_id);
  plan.wait.push_back({job.job_id, WhyItWaits(job.spec, found, pool)});
}

void PlanGrowth(const OpenJob& job, Pool& pool, SchedulePlan& plan) {
  uint32_t left = job.open_places;
  for (const std::string& name : FindCandidates(job.spec, pool).usable) {
    if (left == 0) return;
    if (job.unwanted.contains(name)) continue;
    pool.free.erase(name);
    plan.grow.push_back({job.job_id, name});
    --left;
  }
}

}  // namespace

bool Matches(const v1::JobSpec& spec, const v1::Hello& worker) {
  return Unmet(spec, worker).empty();
}

SchedulePlan PlanSchedule(absl::Span<const QueuedJob> queue, absl::Span<const OpenJob> open,
                          absl::Span<const KnownWorker> workers) {
  Pool pool;
  for (const KnownWorker& worker : workers) {
    pool.workers.emplace(worker.hello.name(), &worker);
    if (worker.use == WorkerUse::kFree) pool.free.emplace(worker.hello.name(), &worker.hello);
  }
  SchedulePlan plan;
  for (const QueuedJob& job : queue) PlanQueued(job, pool, plan);
  for (const OpenJob& job : open) PlanGrowth(job, pool, plan);
  return plan;
}

}  // namespace tally
