#include "worker/checkpoint/job_checkpoint.h"

#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/digest.h"
#include "common/base/fault_point.h"
#include "common/base/status.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/safetensors_writer.h"
#include "common/wire/frame.h"

namespace tally {
namespace {

constexpr char kFormat[] = "tally-worker-checkpoint";
constexpr char kVersion[] = "1";
constexpr char kParameters[] = "parameters";
constexpr char kUpdateState[] = "update_state.";
constexpr char kMask[] = "mask";
constexpr char kLocalWork[] = "local.work";
constexpr char kLocalValues[] = "local.values";
constexpr char kMethod[] = "method.";
constexpr char kContribution[] = "contribution.";
constexpr char kSpec[] = "contribution.spec";
constexpr char kEnd[] = "contribution.end";
constexpr char kDigest[] = "digest";

// A tensor and where its bytes lie, in memory or in the mapped file.
struct Piece {
  TensorInfo tensor;
  absl::string_view bytes;
};

Piece FloatPiece(std::string name, const std::vector<float>& values) {
  return {{std::move(name), DType::kF32, {values.size()}},
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}};
}

Piece BytePiece(std::string name, absl::string_view bytes) {
  return {{std::move(name), DType::kU8, {bytes.size()}}, bytes};
}

// Serialised messages that pieces point to.
struct Messages {
  std::string spec, end, work;
};

std::vector<Piece> PiecesOf(const JobCheckpoint& checkpoint, Messages& messages) {
  std::vector<Piece> pieces = {FloatPiece(kParameters, checkpoint.parameters)};
  for (size_t i = 0; i < checkpoint.update_state.size(); ++i) {
    pieces.push_back(FloatPiece(absl::StrCat(kUpdateState, i), checkpoint.update_state[i]));
  }
  if (!checkpoint.mask.empty()) pieces.push_back(BytePiece(kMask, checkpoint.mask));
  for (const auto& [name, values] : checkpoint.method_state) {
    pieces.push_back(FloatPiece(absl::StrCat(kMethod, name), values));
  }
  if (checkpoint.local.has_value()) {
    messages.work = checkpoint.local->work.SerializeAsString();
    pieces.push_back(BytePiece(kLocalWork, messages.work));
    pieces.push_back(FloatPiece(kLocalValues, checkpoint.local->values));
  }
  if (!checkpoint.contribution.has_value()) return pieces;
  const KeptContribution& kept = *checkpoint.contribution;
  messages.spec = kept.spec.SerializeAsString();
  messages.end = kept.end.SerializeAsString();
  pieces.push_back(BytePiece(kSpec, messages.spec));
  pieces.push_back(BytePiece(kEnd, messages.end));
  for (const auto& [index, payload] : kept.chunks) {
    pieces.push_back(
        BytePiece(absl::StrCat(kContribution, index),
                  {reinterpret_cast<const char*>(payload.begin()), payload.size()}));
  }
  return pieces;
}

void AddText(Digester& digester, absl::string_view text) {
  digester.AddUint64(text.size());
  digester.Add(text);
}

// Of everything but the digest itself.
std::string DigestOf(const SafetensorsMetadata& metadata, const std::vector<Piece>& pieces) {
  Digester digester;
  for (const auto& [key, value] : metadata) {
    if (key == kDigest) continue;
    AddText(digester, key);
    AddText(digester, value);
  }
  for (const Piece& piece : pieces) {
    AddText(digester, piece.tensor.name);
    AddText(digester, DTypeName(piece.tensor.dtype));
    AddText(digester, piece.bytes);
  }
  return DigestToString(digester.Finish());
}

SafetensorsMetadata MetadataOf(const JobCheckpoint& checkpoint) {
  return {{"format", kFormat},
          {"version", kVersion},
          {"job_key", DigestToString(checkpoint.key.job_key)},
          {"layout", DigestToString(checkpoint.key.layout)},
          {"worker", absl::StrCat(checkpoint.key.worker)},
          {"round", absl::StrCat(checkpoint.round)},
          {"history", DigestToString(checkpoint.history)},
          {"position", absl::StrCat(checkpoint.position)},
          {"last_samples", absl::StrCat(checkpoint.last_samples)}};
}

absl::Status Missing(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(what, ": missing or not as this version writes it"));
}

absl::Status ReadText(const SafetensorsMetadata& metadata, const std::string& key,
                      absl::string_view expected) {
  const auto found = metadata.find(key);
  const std::string value = found == metadata.end() ? "nothing" : found->second;
  if (value == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(key, ": expected ", expected, ", found ", value));
}

template <typename T>
absl::Status ReadDecimal(const SafetensorsMetadata& metadata, const std::string& key, T* value) {
  const auto found = metadata.find(key);
  if (found == metadata.end() || !absl::SimpleAtoi(found->second, value)) return Missing(key);
  return absl::OkStatus();
}

absl::Status ReadHex(const SafetensorsMetadata& metadata, const std::string& key, uint64_t* value) {
  const auto found = metadata.find(key);
  if (found == metadata.end() || !absl::SimpleHexAtoi(found->second, value)) return Missing(key);
  return absl::OkStatus();
}

absl::Status ReadMetadata(const SafetensorsMetadata& metadata, JobCheckpoint& checkpoint) {
  TALLY_RETURN_IF_ERROR(ReadHex(metadata, "job_key", &checkpoint.key.job_key));
  TALLY_RETURN_IF_ERROR(ReadHex(metadata, "layout", &checkpoint.key.layout));
  TALLY_RETURN_IF_ERROR(ReadDecimal(metadata, "worker", &checkpoint.key.worker));
  TALLY_RETURN_IF_ERROR(ReadDecimal(metadata, "round", &checkpoint.round));
  TALLY_RETURN_IF_ERROR(ReadHex(metadata, "history", &checkpoint.history));
  TALLY_RETURN_IF_ERROR(ReadDecimal(metadata, "position", &checkpoint.position));
  return ReadDecimal(metadata, "last_samples", &checkpoint.last_samples);
}

absl::StatusOr<std::vector<float>> ReadFloats(const Piece& piece) {
  if (piece.tensor.dtype != DType::kF32) return Missing(piece.tensor.name);
  std::vector<float> values(piece.bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), piece.bytes.data(), piece.bytes.size());
  return values;
}

absl::Status ReadContributionPiece(const Piece& piece, KeptContribution& kept) {
  const std::string& name = piece.tensor.name;
  const auto size = static_cast<int>(piece.bytes.size());
  if (name == kSpec) {
    return kept.spec.ParseFromArray(piece.bytes.data(), size) ? absl::OkStatus() : Missing(name);
  }
  if (name == kEnd) {
    return kept.end.ParseFromArray(piece.bytes.data(), size) ? absl::OkStatus() : Missing(name);
  }
  uint32_t index = 0;
  if (!absl::SimpleAtoi(absl::StripPrefix(name, kContribution), &index)) return Missing(name);
  kept.chunks.emplace_back(index, OwnedSlice({piece.bytes.begin(), piece.bytes.end()}));
  return absl::OkStatus();
}

absl::Status ReadLocalPiece(const Piece& piece, KeptLocalWork& local) {
  if (piece.tensor.name == kLocalValues) {
    TALLY_ASSIGN_OR_RETURN(local.values, ReadFloats(piece));
    return absl::OkStatus();
  }
  const bool parsed =
      local.work.ParseFromArray(piece.bytes.data(), static_cast<int>(piece.bytes.size()));
  return parsed ? absl::OkStatus() : Missing(piece.tensor.name);
}

absl::Status ReadPiece(const Piece& piece, JobCheckpoint& checkpoint) {
  absl::string_view name = piece.tensor.name;
  if (name == kParameters) {
    TALLY_ASSIGN_OR_RETURN(checkpoint.parameters, ReadFloats(piece));
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&name, kUpdateState)) {
    TALLY_ASSIGN_OR_RETURN(std::vector<float> values, ReadFloats(piece));
    checkpoint.update_state.push_back(std::move(values));
    return absl::OkStatus();
  }
  if (name == kMask) {
    checkpoint.mask = std::string(piece.bytes);
    return absl::OkStatus();
  }
  if (name == kLocalWork || name == kLocalValues) {
    if (!checkpoint.local.has_value()) checkpoint.local.emplace();
    return ReadLocalPiece(piece, *checkpoint.local);
  }
  if (absl::ConsumePrefix(&name, kMethod)) {
    TALLY_ASSIGN_OR_RETURN(checkpoint.method_state[std::string(name)], ReadFloats(piece));
    return absl::OkStatus();
  }
  if (!absl::ConsumePrefix(&name, kContribution)) return Missing(piece.tensor.name);
  if (!checkpoint.contribution.has_value()) checkpoint.contribution.emplace();
  return ReadContributionPiece(piece, *checkpoint.contribution);
}

absl::StatusOr<JobCheckpoint> Decode(const SafetensorsFile& file) {
  TALLY_RETURN_IF_ERROR(ReadText(file.metadata(), "format", kFormat));
  TALLY_RETURN_IF_ERROR(ReadText(file.metadata(), "version", kVersion));
  std::vector<Piece> pieces;
  for (const TensorInfo& tensor : file.tensors()) pieces.push_back({tensor, file.Bytes(tensor)});
  TALLY_RETURN_IF_ERROR(ReadText(file.metadata(), kDigest, DigestOf(file.metadata(), pieces)));
  JobCheckpoint checkpoint;
  TALLY_RETURN_IF_ERROR(ReadMetadata(file.metadata(), checkpoint));
  for (const Piece& piece : pieces) TALLY_RETURN_IF_ERROR(ReadPiece(piece, checkpoint));
  return checkpoint;
}

}  // namespace

absl::Status WriteJobCheckpoint(const std::string& path, const JobCheckpoint& checkpoint) {
  Messages messages;
  const std::vector<Piece> pieces = PiecesOf(checkpoint, messages);
  SafetensorsMetadata metadata = MetadataOf(checkpoint);
  metadata[kDigest] = DigestOf(metadata, pieces);
  std::vector<TensorInfo> tensors;
  for (const Piece& piece : pieces) tensors.push_back(piece.tensor);
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                         SafetensorsWriter::Create(path, std::move(tensors), metadata));
  for (const Piece& piece : pieces) TALLY_RETURN_IF_ERROR(writer->Append(piece.bytes));
  FaultPoint("worker.mid_checkpoint");
  return writer->Finish();
}

absl::StatusOr<JobCheckpoint> ReadJobCheckpoint(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<SafetensorsFile>> file = SafetensorsFile::Open(path);
  if (absl::IsNotFound(file.status())) return file.status();
  if (!file.ok()) return absl::DataLossError(file.status().message());
  absl::StatusOr<JobCheckpoint> checkpoint = Decode(**file);
  if (!checkpoint.ok()) return WithContext(checkpoint.status(), path);
  return checkpoint;
}

}  // namespace tally
