#include "server/ledger/snapshot.h"

#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/digest.h"
#include "common/base/fault_point.h"
#include "common/base/file.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/checkpoint/safetensors_writer.h"
#include "common/layout/chunk_grid.h"

namespace tally {
namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kStateFile[] = "state.safetensors";
constexpr char kConfigFile[] = "config.json";
constexpr char kMaskFile[] = "mask.pb";
constexpr char kRoundKey[] = "tally.round";
constexpr char kLayoutKey[] = "tally.layout_digest";
constexpr char kParametersKey[] = "tally.parameters_digest";
constexpr char kSlotsKey[] = "tally.state_slots";
constexpr char kStateKey[] = "tally.state_digest";
constexpr char kMaskKey[] = "tally.mask_digest";

constexpr uint64_t kMaxSlots = 16;

using FloatSpans = absl::Span<const absl::Span<const float>>;

std::string NameOf(uint64_t round) { return absl::StrFormat("%010d", round); }

std::vector<TensorInfo> ModelTensors(const Layout& layout) {
  std::vector<TensorInfo> tensors;
  for (const LayoutTensor& tensor : layout.tensors()) {
    tensors.push_back({tensor.name, DType::kF32, tensor.shape});
  }
  return tensors;
}

std::vector<TensorInfo> StateTensors(const Layout& layout, size_t slots) {
  std::vector<TensorInfo> tensors;
  for (size_t slot = 0; slot < slots; ++slot) {
    tensors.push_back({absl::StrCat("slot.", slot), DType::kF32, {layout.size()}});
  }
  return tensors;
}

// Over each slot's digest, taken as that of parameters is.
uint64_t StateDigest(const Layout& layout, FloatSpans state) {
  Digester digester;
  for (const absl::Span<const float> slot : state) {
    digester.AddUint64(ParametersDigest(layout, slot));
  }
  return digester.Finish();
}

absl::Status CheckSizes(const Layout& layout, absl::Span<const float> parameters,
                        FloatSpans state) {
  if (state.size() > kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot: expected at most ", kMaxSlots, " arrays of state"));
  }
  if (parameters.size() != layout.size()) {
    return absl::InvalidArgumentError(absl::StrCat("snapshot: expected ", layout.size(),
                                                   " parameters, found ", parameters.size()));
  }
  for (const absl::Span<const float> slot : state) {
    if (slot.size() != layout.size()) {
      return absl::InvalidArgumentError(absl::StrCat("snapshot: expected ", layout.size(),
                                                     " state elements, found ", slot.size()));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteArrays(const std::string& path, std::vector<TensorInfo> tensors,
                         const SafetensorsMetadata& metadata, FloatSpans arrays) {
  TALLY_ASSIGN_OR_RETURN(const auto writer,
                         SafetensorsWriter::Create(path, std::move(tensors), metadata));
  for (const absl::Span<const float> array : arrays) {
    TALLY_RETURN_IF_ERROR(writer->Append(array.first(array.size() / 2)));
    FaultPoint("snapshot.mid_write");
    TALLY_RETURN_IF_ERROR(writer->Append(array.subspan(array.size() / 2)));
  }
  return writer->Finish();
}

absl::Status CheckMetadata(const SafetensorsFile& file, const std::string& key,
                           const std::string& expected) {
  const auto found = file.metadata().find(key);
  if (found != file.metadata().end() && found->second == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(file.path(), ": ", key, ": expected ", expected, ", found ",
                   found == file.metadata().end() ? "none" : found->second));
}

// Another job's snapshot is no damage: it must not be skipped in silence.
absl::Status CheckLayout(const SafetensorsFile& file, const Layout& layout) {
  const absl::Status status = CheckMetadata(file, kLayoutKey, DigestToString(layout.digest()));
  return status.ok() ? status : absl::FailedPreconditionError(status.message());
}

absl::Status CheckTensors(const SafetensorsFile& file, const std::vector<TensorInfo>& expected) {
  const auto same = [](const TensorInfo& a, const TensorInfo& b) {
    return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
  };
  if (!std::equal(file.tensors().begin(), file.tensors().end(), expected.begin(), expected.end(),
                  same)) {
    return absl::DataLossError(absl::StrCat(file.path(), ": other tensors than the layout's"));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const float>> FloatsOf(const SafetensorsFile& file) {
  const absl::string_view data = file.data();
  if (reinterpret_cast<uintptr_t>(data.data()) % alignof(float) != 0) {
    return absl::DataLossError(absl::StrCat(file.path(), ": its data section is not aligned"));
  }
  return absl::MakeConstSpan(reinterpret_cast<const float*>(data.data()),
                             data.size() / sizeof(float));
}

// A file that ought to be there and whole.
absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenWhole(const std::string& path) {
  auto file = SafetensorsFile::Open(path);
  if (absl::IsInvalidArgument(file.status()) || absl::IsNotFound(file.status())) {
    return absl::DataLossError(file.status().message());
  }
  return file;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, "renaming", from);
  return absl::OkStatus();
}

bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool SameContents(const Snapshot& snapshot, absl::Span<const float> parameters, FloatSpans state,
                  const std::string& config_json, const Mask* mask) {
  const std::string found = snapshot.mask() == nullptr ? "" : snapshot.mask()->Serialize();
  return snapshot.config_json() == config_json && snapshot.state().size() == state.size() &&
         found == (mask == nullptr ? "" : mask->Serialize()) &&
         std::equal(state.begin(), state.end(), snapshot.state().begin(), SameBits) &&
         SameBits(parameters, snapshot.parameters());
}

}  // namespace

absl::StatusOr<SnapshotStore> SnapshotStore::Open(const std::string& folder, Layout layout) {
  TALLY_RETURN_IF_ERROR(MakeFolders(folder));
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (!absl::StartsWith(it->path().filename().string(), kSnapshotTemporaryPrefix)) continue;
    spdlog::warn("snapshots: removing {}, left half-made by a crash", it->path().string());
    TALLY_RETURN_IF_ERROR(RemoveTree(it->path().string()));
  }
  if (error) return ErrnoStatus(error.value(), "listing", folder);
  return SnapshotStore(folder, std::move(layout));
}

SnapshotStore SnapshotStore::OpenToRead(const std::string& folder, Layout layout) {
  return SnapshotStore(folder, std::move(layout));
}

std::string SnapshotStore::PathOf(uint64_t round) const {
  return absl::StrCat(folder_, "/", NameOf(round));
}

absl::Status SnapshotStore::WriteFiles(const std::string& path, uint64_t round,
                                       absl::Span<const float> parameters, FloatSpans state,
                                       const std::string& config_json, uint64_t digest,
                                       const Mask* mask) const {
  if (const int error = FaultErrno("snapshot.errno"); error != 0) {
    return ErrnoStatus(error, "writing", path);
  }
  TALLY_RETURN_IF_ERROR(MakeFolders(path));
  if (!config_json.empty()) {
    TALLY_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(path, "/", kConfigFile), config_json));
  }
  SafetensorsMetadata metadata = {{"format", "pt"},
                                  {kRoundKey, absl::StrCat(round)},
                                  {kLayoutKey, DigestToString(layout_.digest())}};
  if (!state.empty()) {
    SafetensorsMetadata of_state = metadata;
    of_state[kStateKey] = DigestToString(StateDigest(layout_, state));
    TALLY_RETURN_IF_ERROR(WriteArrays(absl::StrCat(path, "/", kStateFile),
                                      StateTensors(layout_, state.size()), of_state, state));
  }
  if (mask != nullptr) {
    const std::string bytes = mask->Serialize();
    metadata[kMaskKey] = DigestToString(Digest64(bytes));
    TALLY_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(path, "/", kMaskFile), bytes));
  }
  metadata[kParametersKey] = DigestToString(digest);
  metadata[kSlotsKey] = absl::StrCat(state.size());
  return WriteArrays(absl::StrCat(path, "/", kModelFile), ModelTensors(layout_), metadata,
                     {parameters});
}

absl::Status SnapshotStore::Write(uint64_t round, absl::Span<const float> parameters,
                                  FloatSpans state, const std::string& config_json,
                                  std::optional<uint64_t> digest, const Mask* mask) const {
  TALLY_RETURN_IF_ERROR(CheckSizes(layout_, parameters, state));
  const auto existing = Open(round);
  if (existing.ok() && SameContents(**existing, parameters, state, config_json, mask)) {
    return absl::OkStatus();
  }
  if (!digest.has_value()) digest = ParametersDigest(layout_, parameters);
  const std::string temporary = absl::StrCat(folder_, "/", kSnapshotTemporaryPrefix, NameOf(round));
  absl::Status status = WriteFiles(temporary, round, parameters, state, config_json, *digest, mask);
  FaultPoint("snapshot.before_rename");
  if (status.ok()) status = Remove(round);
  if (status.ok()) status = Rename(temporary, PathOf(round));
  if (!status.ok()) {
    RemoveTree(temporary).IgnoreError();  // else Open() removes it
    return status;
  }
  FaultPoint("snapshot.after_rename");
  return SyncFolder(folder_);
}

absl::Status SnapshotStore::OpenModel(Snapshot& snapshot) const {
  TALLY_ASSIGN_OR_RETURN(snapshot.model_,
                         OpenWhole(absl::StrCat(snapshot.path_, "/", kModelFile)));
  const SafetensorsFile& file = *snapshot.model_;
  TALLY_RETURN_IF_ERROR(CheckLayout(file, layout_));
  TALLY_RETURN_IF_ERROR(CheckMetadata(file, kRoundKey, absl::StrCat(snapshot.round_)));
  TALLY_RETURN_IF_ERROR(CheckTensors(file, ModelTensors(layout_)));
  TALLY_ASSIGN_OR_RETURN(snapshot.parameters_, FloatsOf(file));
  snapshot.chunk_digests_ = DenseChunkDigests(layout_, snapshot.parameters_);
  snapshot.parameters_digest_ = ParametersDigestOf(snapshot.chunk_digests_);
  return CheckMetadata(file, kParametersKey, DigestToString(snapshot.parameters_digest_));
}

absl::Status SnapshotStore::OpenState(Snapshot& snapshot) const {
  const auto entry = snapshot.model_->metadata().find(kSlotsKey);
  uint64_t slots = 0;
  if (entry == snapshot.model_->metadata().end() || !absl::SimpleAtoi(entry->second, &slots) ||
      slots > kMaxSlots) {
    return absl::DataLossError(
        absl::StrCat(snapshot.path_, ": ", kSlotsKey, ": expected 0 to ", kMaxSlots));
  }
  if (slots == 0) return absl::OkStatus();
  TALLY_ASSIGN_OR_RETURN(snapshot.state_file_,
                         OpenWhole(absl::StrCat(snapshot.path_, "/", kStateFile)));
  const SafetensorsFile& file = *snapshot.state_file_;
  TALLY_RETURN_IF_ERROR(CheckLayout(file, layout_));
  TALLY_RETURN_IF_ERROR(CheckMetadata(file, kRoundKey, absl::StrCat(snapshot.round_)));
  TALLY_RETURN_IF_ERROR(CheckTensors(file, StateTensors(layout_, slots)));
  TALLY_ASSIGN_OR_RETURN(const absl::Span<const float> all, FloatsOf(file));
  for (uint64_t slot = 0; slot < slots; ++slot) {
    snapshot.state_.push_back(all.subspan(slot * layout_.size(), layout_.size()));
  }
  return CheckMetadata(file, kStateKey, DigestToString(StateDigest(layout_, snapshot.state_)));
}

absl::Status SnapshotStore::OpenMask(Snapshot& snapshot) const {
  if (snapshot.model_->metadata().count(kMaskKey) == 0) return absl::OkStatus();
  const std::string path = absl::StrCat(snapshot.path_, "/", kMaskFile);
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (absl::IsNotFound(bytes.status())) return absl::DataLossError(bytes.status().message());
  TALLY_RETURN_IF_ERROR(bytes.status());
  TALLY_RETURN_IF_ERROR(CheckMetadata(*snapshot.model_, kMaskKey, DigestToString(Digest64(*bytes))));
  auto mask = Mask::Parse(layout_, *bytes);
  if (!mask.ok()) return WithContext(mask.status(), path);
  snapshot.mask_ = *std::move(mask);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Snapshot>> SnapshotStore::Open(uint64_t round) const {
  std::unique_ptr<Snapshot> snapshot(new Snapshot);
  snapshot->round_ = round;
  snapshot->path_ = PathOf(round);
  if (!std::filesystem::is_directory(snapshot->path_)) {
    return absl::NotFoundError(absl::StrCat("snapshot of round ", round, ": no ", snapshot->path_));
  }
  TALLY_RETURN_IF_ERROR(OpenModel(*snapshot));
  TALLY_RETURN_IF_ERROR(OpenState(*snapshot));
  TALLY_RETURN_IF_ERROR(OpenMask(*snapshot));
  const std::string config = absl::StrCat(snapshot->path_, "/", kConfigFile);
  if (std::filesystem::exists(config)) {
    TALLY_ASSIGN_OR_RETURN(snapshot->config_json_, ReadFile(config));
  }
  return snapshot;
}

absl::StatusOr<std::unique_ptr<Snapshot>> SnapshotStore::Latest(uint64_t at_or_before) const {
  TALLY_ASSIGN_OR_RETURN(std::vector<uint64_t> rounds, List());
  while (!rounds.empty()) {
    const uint64_t round = rounds.back();
    rounds.pop_back();
    if (round > at_or_before) continue;
    auto snapshot = Open(round);
    if (!absl::IsDataLoss(snapshot.status())) return snapshot;
    spdlog::warn("snapshots: skipping the damaged one of round {}: {}", round,
                 snapshot.status().ToString());
  }
  return absl::NotFoundError(absl::StrCat(folder_, ": no whole snapshot of a round up to ",
                                          at_or_before));
}

absl::StatusOr<std::vector<uint64_t>> SnapshotStore::List() const {
  std::error_code error;
  std::vector<uint64_t> rounds;
  for (std::filesystem::directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    uint64_t round = 0;
    if (absl::SimpleAtoi(name, &round) && NameOf(round) == name) rounds.push_back(round);
  }
  if (error) return ErrnoStatus(error.value(), "listing", folder_);
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

absl::Status SnapshotStore::Remove(uint64_t round) const {
  const std::string gone = absl::StrCat(folder_, "/", kSnapshotTemporaryPrefix, "gone.",
                                        NameOf(round));
  TALLY_RETURN_IF_ERROR(RemoveTree(gone));  // an earlier removal that failed half-way
  const absl::Status renamed = Rename(PathOf(round), gone);
  if (absl::IsNotFound(renamed)) return absl::OkStatus();
  TALLY_RETURN_IF_ERROR(renamed);
  return RemoveTree(gone);
}

}  // namespace tally
