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

bool LabelsMatch(const v1::WorkersSpec& wanted, const v1::Hello& worker) {
  for (const auto& [key, value] : wanted.labels()) {
    const auto found = worker.labels().find(key);
    if (found == worker.labels().end() || found->second != value) return false;
  }
  return true;
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
  const std::map<std::string, std::string> labels(workers.labels().begin(), workers.labels().end());
  for (const auto& [key, value] : labels) traits.push_back(absl::StrCat("label ", key, "=", value));
  return absl::StrCat(workers.count(), workers.count() == 1 ? " worker" : " workers", " with ",
                      absl::StrJoin(traits, ", "));
}

// Free workers by name, and which waiting job keeps them from the jobs behind it.
struct Pool {
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

std::string WhyItWaits(const v1::JobSpec& spec, const Candidates& found) {
  const size_t match = found.usable.size() + found.kept;
  std::string reason =
      absl::StrCat("needs ", Needs(spec), "; ", match, " free ", match == 1 ? "matches" : "match");
  if (found.kept > 0) {
    absl::StrAppend(&reason, ", ", found.kept, " of them kept for ", *found.kept_for,
                    " before it");
  }
  return reason;
}

}  // namespace

bool Matches(const v1::JobSpec& spec, const v1::Hello& worker) {
  return DeviceMatches(spec.workers().device(), worker.device()) &&
         LabelsMatch(spec.workers(), worker) && HasDataSet(spec.data().name(), worker) &&
         HasArchitecture(spec.model().architecture(), worker);
}

SchedulePlan PlanSchedule(absl::Span<const QueuedJob> queue, absl::Span<const v1::Hello> free) {
  Pool pool;
  for (const v1::Hello& worker : free) pool.free.emplace(worker.name(), &worker);
  SchedulePlan plan;
  for (const QueuedJob& job : queue) {
    Candidates found = FindCandidates(job.spec, pool);
    const size_t needed = job.spec.workers().count();
    if (needed > 0 && found.usable.size() >= needed) {
      found.usable.resize(needed);
      for (const std::string& name : found.usable) pool.free.erase(name);
      plan.start.push_back({job.job_id, std::move(found.usable)});
    } else {
      for (const std::string& name : found.usable) pool.kept_for.emplace(name, job.job_id);
      plan.wait.push_back({job.job_id, WhyItWaits(job.spec, found)});
    }
  }
  return plan;
}

}  // namespace tally
