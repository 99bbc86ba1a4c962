// When checkpoints are written, and on which thread: training waits for a copy, never for the disk.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "worker/checkpoint/checkpoint_folder.h"

namespace tally {

// For one thread. A write that fails is reported and tried again when the next one is due.
class CheckpointSaver {
 public:
  // `report` may be called from the thread that writes; it gets a level and a line for the job's
  // log. `every` infinite: nothing is ever written.
  using Report = std::function<void(const std::string& level, const std::string& message)>;
  CheckpointSaver(CheckpointFolder folder, absl::Duration every, Report report,
                  const Clock* clock = &Clock::System());
  // Waits for the write at work.
  ~CheckpointSaver() { Wait(); }

  // The interval is over and no write is at work.
  bool Due() const;
  // Begins to write it; only when Due().
  void Save(JobCheckpoint checkpoint);
  // Writes it before it returns, whenever the last one was.
  void SaveNow(const JobCheckpoint& checkpoint);
  // Until no write is at work.
  void Wait();

 private:
  void Write(const JobCheckpoint& checkpoint);

  const CheckpointFolder folder_;
  const absl::Duration every_;
  const Report report_;
  const Clock* const clock_;
  absl::Duration last_;  // of the clock: when the last write began, at first the construction
  std::atomic<bool> writing_{false};
  bool failing_ = false;  // whoever writes owns it
  std::thread thread_;
};

}  // namespace tally
