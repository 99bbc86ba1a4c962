#include "server/audit/snapshot_check.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/checkpoint/safetensors.h"
#include "common/layout/chunk_grid.h"

namespace tally {
namespace {

constexpr char kSource[] = "snapshot";

v1::Difference At(uint64_t round, const std::string& block, const std::string& source) {
  v1::Difference difference;
  difference.set_round(round);
  difference.set_block(block);
  difference.set_source(source);
  return difference;
}

v1::Difference Problem(uint64_t round, const std::string& block, const std::string& problem) {
  v1::Difference difference = At(round, block, kSource);
  difference.set_problem(problem);
  return difference;
}

v1::Difference Unequal(v1::Difference difference, uint64_t expected, uint64_t found) {
  difference.set_expected(DigestToString(expected));
  difference.set_found(DigestToString(found));
  return difference;
}

// `arrays` float32 arrays of the layout's size in one file, perhaps unaligned.
absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenArrays(const std::string& folder,
                                                            const std::string& name,
                                                            const Layout& layout, size_t arrays) {
  auto file = SafetensorsFile::Open(absl::StrCat(folder, "/", name));
  if (!file.ok()) {
    const std::string path = absl::StrCat(folder, "/");
    std::string message(file.status().message());
    if (const size_t at = message.find(path); at != message.npos) message.erase(at, path.size());
    return absl::DataLossError(message);
  }
  const uint64_t expected = layout.size() * sizeof(float) * arrays;
  if ((*file)->data().size() != expected ||
      reinterpret_cast<uintptr_t>((*file)->data().data()) % alignof(float) != 0) {
    return absl::DataLossError(absl::StrCat(name, ": expected ", expected,
                                            " aligned bytes of data, found ",
                                            (*file)->data().size()));
  }
  return file;
}

absl::Span<const float> Floats(const SafetensorsFile& file) {
  return {reinterpret_cast<const float*>(file.data().data()), file.data().size() / sizeof(float)};
}

std::string Said(const SafetensorsFile& file, const std::string& key) {
  const auto entry = file.metadata().find(key);
  return entry == file.metadata().end() ? "nothing" : entry->second;
}

using Differences = std::vector<v1::Difference>;

void CheckTensors(const Layout& layout, const SafetensorsFile& file, uint64_t round,
                  Differences& out) {
  const auto& tensors = file.tensors();
  bool same = tensors.size() == layout.tensors().size();
  for (size_t i = 0; same && i < tensors.size(); ++i) {
    same = tensors[i].name == layout.tensors()[i].name &&
           tensors[i].shape == layout.tensors()[i].shape && tensors[i].dtype == DType::kF32;
  }
  if (!same) out.push_back(Problem(round, "", "model.safetensors: other tensors than the layout's"));
}

void CheckMetadata(const SafetensorsFile& file, uint64_t round, const std::string& key,
                   const std::string& expected, Differences& out) {
  const std::string found = Said(file, key);
  if (found == expected) return;
  out.push_back(Problem(round, "", absl::StrCat(key, ": expected ", expected, ", found ", found)));
}

void CheckModel(const SnapshotStore& store, const Fold& fold, Differences& out) {
  const Layout& layout = store.layout();
  const uint64_t round = fold.round();
  const auto file = OpenArrays(store.PathOf(round), "model.safetensors", layout, 1);
  if (!file.ok()) return out.push_back(Problem(round, "", std::string(file.status().message())));
  CheckTensors(layout, **file, round, out);
  CheckMetadata(**file, round, "tally.round", absl::StrCat(round), out);
  CheckMetadata(**file, round, "tally.layout_digest", DigestToString(layout.digest()), out);
  CheckMetadata(**file, round, "tally.parameters_digest", DigestToString(fold.digest()), out);
  CheckMetadata(**file, round, "tally.state_slots", absl::StrCat(fold.state().size()), out);
  if (fold.mask() != nullptr) {
    CheckMetadata(**file, round, "tally.mask_digest",
                  DigestToString(Digest64(fold.mask()->Serialize())), out);
  }
  const std::vector<uint64_t> chunks = DenseChunkDigests(layout, Floats(**file));
  for (v1::Difference& difference :
       CompareDigests(layout, fold, kSource, ParametersDigestOf(chunks),
                      BlockDigestsOf(layout, chunks))) {
    out.push_back(std::move(difference));
  }
}

void CheckState(const SnapshotStore& store, const Fold& fold, Differences& out) {
  const Layout& layout = store.layout();
  const std::vector<absl::Span<const float>> state = fold.state();
  if (state.empty()) return;
  const auto file =
      OpenArrays(store.PathOf(fold.round()), "state.safetensors", layout, state.size());
  if (!file.ok()) {
    return out.push_back(Problem(fold.round(), "", std::string(file.status().message())));
  }
  for (size_t slot = 0; slot < state.size(); ++slot) {
    const float* found = Floats(**file).data() + slot * layout.size();
    for (const LayoutBlock& block : layout.blocks()) {
      if (std::memcmp(found + block.first, state[slot].data() + block.first,
                      block.count * sizeof(float)) == 0) {
        continue;
      }
      out.push_back(Problem(fold.round(), block.name,
                            absl::StrCat("state.safetensors: slot.", slot, " differs")));
    }
  }
}

void CheckMask(const SnapshotStore& store, const Fold& fold, Differences& out) {
  if (fold.mask() == nullptr) return;
  const auto bytes = ReadFile(absl::StrCat(store.PathOf(fold.round()), "/mask.pb"));
  if (bytes.ok() && *bytes == fold.mask()->Serialize()) return;
  out.push_back(Problem(fold.round(), "", bytes.ok() ? "mask.pb: not the ledger's mask"
                                                     : "mask.pb: it cannot be read"));
}

}  // namespace

std::vector<v1::Difference> CompareSnapshot(const SnapshotStore& store, const Fold& fold) {
  Differences differences;
  CheckModel(store, fold, differences);
  CheckState(store, fold, differences);
  CheckMask(store, fold, differences);
  return differences;
}

std::vector<v1::Difference> CompareDigests(const Layout& layout, const Fold& fold,
                                           const std::string& source, uint64_t found,
                                           absl::Span<const uint64_t> found_blocks) {
  Differences differences;
  const std::vector<uint64_t> expected = fold.block_digests();
  for (size_t i = 0; i < found_blocks.size(); ++i) {
    if (found_blocks[i] == expected[i]) continue;
    differences.push_back(Unequal(At(fold.round(), layout.blocks()[i].name, source), expected[i],
                                  found_blocks[i]));
  }
  if (differences.empty() && found != fold.digest()) {
    differences.push_back(Unequal(At(fold.round(), "", source), fold.digest(), found));
  }
  return differences;
}

}  // namespace tally
