#include "worker/checkpoint/checkpoint_saver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace tally {

CheckpointSaver::CheckpointSaver(CheckpointFolder folder, absl::Duration every, Report report,
                                 const Clock* clock)
    : folder_(std::move(folder)),
      every_(every),
      report_(std::move(report)),
      clock_(clock),
      last_(clock->Steady()) {}

bool CheckpointSaver::Due() const { return !writing_ && clock_->Steady() - last_ >= every_; }

void CheckpointSaver::Save(JobCheckpoint checkpoint) {
  Wait();
  last_ = clock_->Steady();
  writing_ = true;
  thread_ = std::thread([this, checkpoint = std::move(checkpoint)]() mutable {
    Write(checkpoint);
    checkpoint = {};  // its memory goes before another copy may be made
    writing_ = false;
  });
}

void CheckpointSaver::SaveNow(const JobCheckpoint& checkpoint) {
  Wait();
  if (every_ == absl::InfiniteDuration()) return;
  last_ = clock_->Steady();
  Write(checkpoint);
}

void CheckpointSaver::Wait() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointSaver::Write(const JobCheckpoint& checkpoint) {
  const absl::Duration start = clock_->Steady();
  const absl::Status written = folder_.Write(checkpoint);
  spdlog::debug("checkpoint of round {}: writing it took {}", checkpoint.round,
                absl::FormatDuration(clock_->Steady() - start));
  const bool was_failing = std::exchange(failing_, !written.ok());
  if (!written.ok() && !was_failing) {
    report_("warning", absl::StrCat("its checkpoint is not written, training goes on: ",
                                    written.message()));
  }
  if (written.ok() && was_failing) report_("info", "its checkpoints are written again");
}

}  // namespace tally
