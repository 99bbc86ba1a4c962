#include "server/round/close_policy.h"

#include "absl/strings/str_cat.h"

namespace tally {

CloseDecision DecideClose(const RoundProgress& progress, const CloseOptions& options) {
  const bool quorate = progress.contributed >= options.quorum;
  if (progress.awaited == 0 && quorate) {
    return {CloseAction::kClose,
            absl::StrCat("all ", progress.contributed, " awaited workers contributed")};
  }
  if (quorate && progress.since_opening >= progress.deadline) {
    return {CloseAction::kClose, absl::StrCat("deadline reached with ", progress.contributed,
                                              " contributions, quorum ", options.quorum)};
  }
  // Whoever has not contributed may come back and do so; who abstained may not.
  if (progress.abstained + options.quorum > options.workers) {
    return {CloseAction::kFail,
            absl::StrCat(progress.abstained, " of ", options.workers,
                         " contributions cannot be used, quorum ", options.quorum)};
  }
  if (progress.attached < options.minimum) {
    return {CloseAction::kPause, absl::StrCat(progress.attached, " attached, minimum ",
                                              options.minimum)};
  }
  if (progress.awaited == 0) {
    return {CloseAction::kPause,
            absl::StrCat("nobody left to wait for; ", progress.contributed,
                         " contributed, quorum ", options.quorum)};
  }
  // Whoever is awaited may be hung for good: people see it, and the pause limit counts.
  if (progress.since_opening >= progress.deadline) {
    return {CloseAction::kOverdue,
            absl::StrCat("the round's deadline has passed with ", progress.contributed,
                         " contributed, quorum ", options.quorum)};
  }
  return {CloseAction::kWait,
          absl::StrCat("waiting for ", progress.awaited, "; ", progress.contributed,
                       " contributed, quorum ", options.quorum)};
}

}  // namespace tally
