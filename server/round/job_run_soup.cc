// The greedy soup: contributions are all here, and averages of some of them are scored by the workers,
// one after the other, before the round's aggregate is made of those that the scores have chosen.
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "server/ledger/record.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"

namespace tally {
namespace {

// Of no rows unless the numbers can be. A loss that is not finite is a model that has none right: it must
// spoil its own average alone.
SoupScore ScoreOf(const v1::HeldOutScore& score) {
  constexpr uint64_t kMostRows = uint64_t{1} << 31;
  if (score.correct() > score.count() || score.count() > kMostRows) return {};
  if (std::isfinite(score.loss_sum())) return {score.correct(), score.count(), score.loss_sum()};
  return {0, score.count(), 1e6 * static_cast<double>(score.count())};
}

std::string Words(const SoupScore& score) {
  return absl::StrCat(score.correct, " of ", score.count, " held-out rows right");
}

}  // namespace

// No contribution counts any more.
void JobRun::BeginSoup(Effects& effects) {
  closing_ = true;
  soup_.emplace();
  for (uint32_t worker = 0; worker < places_.size(); ++worker) {
    if (!round_->HasContributed(worker)) continue;
    soup_->candidates.push_back({worker, ScoreOf(round_->part(worker).score)});
  }
  RestartSoup(effects);
}

// All averages are compared on the same rows: those of the scorers, which are who has contributed and is
// there. When one of them is lost, what they have scored so far says nothing any more.
void JobRun::RestartSoup(Effects& effects) {
  soup_->trials.clear();
  soup_->awaited.clear();
  soup_->sent = soup_->lost = false;
  if (soup_->scorers.empty()) {
    for (const auto& [name, member] : members_) {
      const bool may = member->phase == AttachmentPhase::kLive && round_->HasContributed(member->index);
      if (may) soup_->scorers.insert(member->index);
    }
  }
  if (soup_->scorers.empty()) {
    return SetState(v1::PAUSED, "no worker is there to score the greedy soup's averages");
  }
  SetState(v1::RUNNING, "");
  ContinueSoup(effects);
}

void JobRun::ContinueSoup(Effects& effects) {
  const SoupDecision decision = DecideSoup(soup_->candidates, soup_->trials);
  soup_->members = decision.members;
  soup_->sent = false;
  soup_->sum = {};
  effects.round = round_;
  if (!decision.done) {
    soup_->sending = true;
    effects.trial = decision.members;
    return;
  }
  observer_->OnEvent("info", "", absl::StrCat("round ", round_->spec().round(), ": the soup has workers ",
                                              absl::StrJoin(decision.members, ", ")));
  observer_->OnProgress([&](v1::JobStatus& status) {
    *status.mutable_soup() = {decision.members.begin(), decision.members.end()};
  });
  round_->RestrictTo(decision.members);
  soup_.reset();
  CloseForContributions(effects);
}

// Sends the average of `members` to the scorers. Without the lock: the payloads are read from
// the disk chunk by chunk.
void JobRun::SendTrial(const std::vector<uint32_t>& members, Effects& effects) {
  const std::shared_ptr<OpenRound> round = effects.round;
  std::vector<uint64_t> digests;
  for (uint32_t index = 0; index < round->grid().size(); ++index) {
    absl::StatusOr<AggregateChunk> chunk = round->ReduceTrial(index, members);
    absl::MutexLock lock(&mutex_);
    if (round != round_ || !soup_.has_value()) return;
    if (!chunk.ok()) {
      return End(v1::FAILED, absl::StrCat("round ", round->spec().round(), ": chunk ", index, ": ",
                                          chunk.status().message()),
                 effects);
    }
    digests.push_back(chunk->digest);
    SendToScorers(TrialChunkFrame(round->spec().round(), index, *chunk), effects);
  }
  absl::MutexLock lock(&mutex_);
  if (round != round_ || !soup_.has_value()) return;
  v1::Trial trial;
  trial.set_round(round->spec().round());
  trial.set_number(static_cast<uint32_t>(soup_->trials.size()));
  trial.set_chunks(static_cast<uint32_t>(digests.size()));
  trial.set_digest(DigestOfChunks(digests));
  SendToScorers(TrialFrame(trial), effects);
  soup_->sending = false;
  soup_->sent = true;
  soup_->since = options_.clock->Steady();
  soup_->awaited = soup_->scorers;
}

void JobRun::SendToScorers(const grpc::ByteBuffer& frame, Effects& effects) {
  for (auto& [name, member] : members_) {
    const bool live = member->phase == AttachmentPhase::kLive;
    if (live && soup_->scorers.count(member->index) > 0) Send(*member, frame, effects);
  }
}

void JobRun::LoseScorer(uint32_t worker) {
  if (!soup_.has_value() || soup_->scorers.erase(worker) == 0) return;
  soup_->awaited.erase(worker);
  soup_->lost = true;  // the timer begins anew
}

void JobRun::OnTrialScore(const Attachment& from, const v1::TrialScore& scored, Effects& effects) {
  if (!soup_.has_value() || !soup_->sent || round_->spec().round() != scored.round() ||
      scored.number() != soup_->trials.size() || soup_->awaited.erase(from.index) == 0) {
    return;
  }
  const SoupScore score = ScoreOf(scored.score());
  if (score.count == 0) return LoseScorer(from.index);
  soup_->sum.correct += score.correct;
  soup_->sum.count += score.count;
  soup_->sum.loss_sum += score.loss_sum;
  if (soup_->awaited.empty() && !soup_->lost) EndTrial(effects);
}

void JobRun::EndTrial(Effects& effects) {
  observer_->OnEvent("info", "", absl::StrCat("round ", round_->spec().round(), ": the average of workers ",
                                              absl::StrJoin(soup_->members, ", "), ": ",
                                              Words(soup_->sum)));
  soup_->trials.push_back(soup_->sum);
  ContinueSoup(effects);
}

// Who has not scored in the round's deadline is no longer asked, as who is gone.
void JobRun::EnforceSoup(Effects& effects) {
  if (!soup_.has_value() || soup_->sending) return;
  const absl::Duration deadline =
      absl::Milliseconds(static_cast<int64_t>(round_->spec().deadline_ms()));
  if (soup_->sent && options_.clock->Steady() - soup_->since >= deadline) {
    for (const uint32_t worker : std::set<uint32_t>(soup_->awaited)) {
      observer_->OnEvent("warning", places_[worker],
                         absl::StrCat("round ", round_->spec().round(),
                                      ": has not scored an average in the round's deadline"));
      LoseScorer(worker);
    }
  }
  const bool nobody = soup_->scorers.empty();
  if (nobody || (soup_->lost && soup_->sent && soup_->awaited.empty())) RestartSoup(effects);
}

}  // namespace tally
