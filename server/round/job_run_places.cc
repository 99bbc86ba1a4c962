// Places: a job begins with a count of them and may grow; one that its worker has left for good can be
// given to another worker, with its index and so its partition of the data.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"

namespace tally {

std::vector<std::string> JobRun::workers() const {
  absl::MutexLock lock(&published_mutex_);
  return published_places_;
}

uint32_t JobRun::open_places() const {
  if (ended_) return 0;
  const std::vector<std::string> places = workers();
  const auto taken = static_cast<uint32_t>(
      places.size() - static_cast<size_t>(std::count(places.begin(), places.end(), "")));
  return MostPlaces() - std::min(MostPlaces(), taken);
}

uint32_t JobRun::MostPlaces() const {
  return std::max(options_.spec.workers().max(), options_.spec.workers().count());
}

void JobRun::PublishPlaces() {
  {
    absl::MutexLock lock(&published_mutex_);
    published_places_ = places_;
  }
  observer_->OnWorkers(places_);
  PublishWorkers();
}

uint32_t JobRun::TakenPlaces() const {
  return static_cast<uint32_t>(places_.size() -
                               static_cast<size_t>(std::count(places_.begin(), places_.end(), "")));
}

absl::StatusOr<uint32_t> JobRun::AddWorker(const std::string& worker) {
  absl::MutexLock lock(&mutex_);
  if (const absl::StatusOr<uint32_t> index = IndexOf(worker); index.ok()) {
    leaving_.erase(*index);
    return index;
  }
  if (IsTerminalState()) {
    return absl::FailedPreconditionError(absl::StrCat("job ", options_.job_id, " has ended"));
  }
  if (open_places() == 0) {
    return absl::ResourceExhaustedError(absl::StrCat("job ", options_.job_id, " has no open place"));
  }
  const auto vacant = std::find(places_.begin(), places_.end(), "");
  const auto index = static_cast<uint32_t>(vacant - places_.begin());
  if (vacant == places_.end()) {
    places_.emplace_back();
    stats_.emplace_back().set_index(index);
    resynchronise_.push_back(false);
  }
  places_[index] = worker;
  stats_[index].set_name(worker);  // what the place has done so far stays: its data goes on there
  resynchronise_[index] = false;
  observer_->OnEvent("info", worker, absl::StrCat("takes place ", index, " in the job"));
  PublishPlaces();
  return index;
}

void JobRun::RemoveWorker(const std::string& worker, const std::string& reason) {
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    const absl::StatusOr<uint32_t> index = IndexOf(worker);
    if (!index.ok() || IsTerminalState()) return;
    leaving_[*index] = reason;
    VacateLeaving(effects);
    Advance(effects);
    OpenNextRound(effects);
  }
  Finish(std::move(effects));
}

// Those that the open round still waits for stay until its end.
void JobRun::VacateLeaving(Effects& effects) {
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    const auto [index, reason] = *it;
    if (round_ != nullptr && round_->IsAwaited(index)) {
      ++it;
      continue;
    }
    it = leaving_.erase(it);
    Vacate(index, reason, effects);
  }
}

void JobRun::Vacate(uint32_t index, const std::string& reason, Effects& effects) {
  const std::string worker = std::exchange(places_[index], "");
  stats_[index].clear_name();
  returning_.erase(index);
  observer_->OnEvent("info", worker, absl::StrCat("leaves the job: ", reason));
  if (const auto found = members_.find(worker); found != members_.end()) {
    const std::shared_ptr<Attachment> gone = found->second;
    if (!gone->finish.has_value()) {
      Send(*gone, StopFrame(state_, reason), effects);
      gone->finish = absl::OkStatus();
    }
    members_.erase(found);
    Forget(*gone, effects);
    ElectIfNeeded(effects);
  }
  PublishPlaces();
}

}  // namespace tally
