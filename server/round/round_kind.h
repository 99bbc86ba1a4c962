// What a round is, by its spec.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

// Its aggregate is an index set.
inline bool IsMaskRound(const v1::RoundSpec& spec) { return spec.mask_size() != 0; }

// Nobody contributes to it: the server makes its aggregate alone.
inline bool IsServersOwn(const v1::RoundSpec& spec) {
  return IsMaskRound(spec) && spec.fisher() == "random";
}

// It moves what is trained: a step of the job.
inline bool IsTraining(const v1::RoundSpec& spec) {
  return !spec.buffers() && !IsMaskRound(spec);
}

// Its contributions took long to make and are not to be lost: they are kept on the disk.
inline bool StagesOnDisk(const v1::RoundSpec& spec) {
  return spec.local_steps() != 0 || (IsMaskRound(spec) && !IsServersOwn(spec));
}

// For people.
inline absl::string_view PhaseOf(const v1::RoundSpec& spec) {
  if (spec.buffers()) return "buffers";
  if (IsMaskRound(spec)) return "scores for a mask";
  return spec.local_steps() != 0 ? "local steps" : "gradients";
}

inline std::string ContributionsFolder(const std::string& job_folder) {
  return absl::StrCat(job_folder, "/contributions");
}

}  // namespace tally
