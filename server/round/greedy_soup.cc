#include "server/round/greedy_soup.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tally {
namespace {

bool Counts(const SoupScore& score) { return score.count > 0 && std::isfinite(score.loss_sum); }

std::vector<uint32_t> With(std::vector<uint32_t> members, uint32_t worker) {
  members.insert(std::upper_bound(members.begin(), members.end(), worker), worker);
  return members;
}

}  // namespace

bool IsStrictlyBetter(const SoupScore& a, const SoupScore& b) {
  if (!Counts(a) || !Counts(b)) return Counts(a) && !Counts(b);
  // Cross products: no quotient is rounded. Counts of examples are far below 2^32.
  const auto left = a.correct * b.count, right = b.correct * a.count;
  if (left != right) return left > right;
  return a.loss_sum * static_cast<double>(b.count) < b.loss_sum * static_cast<double>(a.count);
}

SoupDecision DecideSoup(std::vector<SoupCandidate> candidates,
                        absl::Span<const SoupScore> trials) {
  std::sort(candidates.begin(), candidates.end(),
            [](const SoupCandidate& a, const SoupCandidate& b) {
              if (IsStrictlyBetter(a.score, b.score)) return true;
              if (IsStrictlyBetter(b.score, a.score)) return false;
              return a.worker < b.worker;
            });
  SoupDecision decision{.done = candidates.size() == 1, .members = {candidates.front().worker}};
  if (decision.done || trials.empty()) return decision;
  SoupScore best = trials.front();
  for (size_t i = 1; i < candidates.size(); ++i) {
    std::vector<uint32_t> tried = With(decision.members, candidates[i].worker);
    if (i == trials.size()) return {.done = false, .members = std::move(tried)};
    if (!IsStrictlyBetter(trials[i], best)) continue;
    decision.members = std::move(tried);
    best = trials[i];
  }
  decision.done = true;
  return decision;
}

}  // namespace tally
