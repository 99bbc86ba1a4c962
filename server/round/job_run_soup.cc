// The greedy soup: contributions are all here, and averages of some of them are scored by the workers,
// one after the other, before the round's aggregate is made of those that the scores have chosen.
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

SoupScore ScoreOf(const v1::HeldOutScore& score) {
  return {score.correct(), score.count(), score.loss_sum()};
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
  ContinueSoup(effects);
}

void JobRun::ContinueSoup(Effects& effects) {
  const SoupDecision decision = DecideSoup(soup_->candidates, soup_->trials);
  soup_->members = decision.members;
  soup_->sent = soup_->answered = false;
  soup_->sum = {};
  effects.round = round_;
  if (!decision.done) {
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

// Sends the average of `members` to everybody who is there. Without the lock: the payloads are read from
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
    Broadcast(TrialChunkFrame(round->spec().round(), index, *chunk), effects);
  }
  absl::MutexLock lock(&mutex_);
  if (round != round_ || !soup_.has_value()) return;
  v1::Trial trial;
  trial.set_round(round->spec().round());
  trial.set_number(static_cast<uint32_t>(soup_->trials.size()));
  trial.set_chunks(static_cast<uint32_t>(digests.size()));
  trial.set_digest(DigestOfChunks(digests));
  Broadcast(TrialFrame(trial), effects);
  soup_->sent = true;
  soup_->since = options_.clock->Steady();
  soup_->awaited.clear();
  for (const auto& [name, member] : members_) {
    if (member->phase == AttachmentPhase::kLive) soup_->awaited.insert(member->index);
  }
}

void JobRun::OnTrialScore(const Attachment& from, const v1::TrialScore& scored, Effects& effects) {
  if (!soup_.has_value() || !soup_->sent || round_->spec().round() != scored.round() ||
      scored.number() != soup_->trials.size() || soup_->awaited.erase(from.index) == 0) {
    return;
  }
  soup_->answered = true;
  const SoupScore score = ScoreOf(scored.score());
  if (score.correct <= score.count) {
    soup_->sum.correct += score.correct;
    soup_->sum.count += score.count;
    soup_->sum.loss_sum += score.loss_sum;
  }
  if (soup_->awaited.empty()) EndTrial(effects);
}

void JobRun::EndTrial(Effects& effects) {
  observer_->OnEvent("info", "", absl::StrCat("round ", round_->spec().round(), ": the average of workers ",
                                              absl::StrJoin(soup_->members, ", "), ": ",
                                              Words(soup_->sum)));
  soup_->trials.push_back(soup_->sum);
  ContinueSoup(effects);
}

// Who is gone, or has not scored in the round's deadline, is done without. With nobody left to score the
// same average is sent again to those who come back, until the deadline.
void JobRun::EnforceSoup(Effects& effects) {
  if (!soup_.has_value() || !soup_->sent) return;
  const absl::Duration deadline =
      absl::Milliseconds(static_cast<int64_t>(round_->spec().deadline_ms()));
  const bool late = options_.clock->Steady() - soup_->since >= deadline;
  if (!soup_->awaited.empty() && !late) return;
  if (soup_->answered || late) return EndTrial(effects);
  if (LiveMembers() == 0) return;
  soup_->sent = false;
  effects.round = round_;
  effects.trial = soup_->members;
}

}  // namespace tally
