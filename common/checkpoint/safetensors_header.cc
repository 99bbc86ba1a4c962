#include "common/checkpoint/safetensors_header.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/checkpoint/strict_json.h"

namespace tally {
namespace {

using nlohmann::json;

absl::Status CheckName(absl::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("expected a tensor name, found an empty one");
  if (name.find('\0') != name.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a tensor name without NUL, found one in ",
                     json(std::string(name)).dump(-1, ' ', true, json::error_handler_t::replace)));
  }
  if (name == kSafetensorsMetadataKey) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a tensor name, found the reserved ", name));
  }
  return absl::OkStatus();
}

absl::Status Found(absl::string_view expected, const json& found) {
  constexpr size_t kMostText = 80;
  const std::string text = found.dump(-1, ' ', true, json::error_handler_t::replace);
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, ", found ", text.substr(0, kMostText)));
}

absl::StatusOr<std::vector<uint64_t>> WholeNumbers(const json& value, absl::string_view what) {
  const std::string expected = absl::StrCat(what, " as an array of whole numbers");
  if (!value.is_array()) return Found(expected, value);
  std::vector<uint64_t> numbers;
  for (const json& item : value) {
    if (!item.is_number_unsigned()) return Found(expected, value);
    numbers.push_back(item.get<uint64_t>());
  }
  return numbers;
}

absl::Status CheckMembers(const json& tensor) {
  if (!tensor.is_object()) return Found("an object", tensor);
  for (const char* member : {"dtype", "shape", "data_offsets"}) {
    if (!tensor.contains(member)) return Found(absl::StrCat("a ", member), tensor);
  }
  if (tensor.size() != 3) return Found("dtype, shape and data_offsets alone", tensor);
  return absl::OkStatus();
}

absl::Status ReadDType(const json& value, TensorInfo& tensor) {
  const auto dtype =
      value.is_string() ? DTypeFromName(value.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype.has_value()) return Found("a known dtype", value);
  tensor.dtype = *dtype;
  return absl::OkStatus();
}

absl::Status ReadOffsets(const json& value, uint64_t data_bytes, TensorInfo& tensor) {
  TALLY_ASSIGN_OR_RETURN(const auto offsets, WholeNumbers(value, "data_offsets"));
  if (offsets.size() != 2) return Found("two data_offsets", value);
  if (offsets[1] < offsets[0]) return Found("data_offsets that begin before they end", value);
  if (offsets[1] > data_bytes) {
    return Found(absl::StrCat("data_offsets within the ", data_bytes,
                              " bytes of data there are (a file cut short?)"),
                 value);
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  return absl::OkStatus();
}

absl::StatusOr<TensorInfo> ReadTensor(const std::string& name, const json& value,
                                      uint64_t data_bytes) {
  TensorInfo tensor;
  tensor.name = name;
  TALLY_RETURN_IF_ERROR(CheckMembers(value));
  TALLY_RETURN_IF_ERROR(ReadDType(value["dtype"], tensor));
  TALLY_ASSIGN_OR_RETURN(tensor.shape, WholeNumbers(value["shape"], "shape"));
  TALLY_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(tensor));
  TALLY_RETURN_IF_ERROR(ReadOffsets(value["data_offsets"], data_bytes, tensor));
  if (tensor.bytes() != bytes) {
    return Found(absl::StrCat(bytes, " bytes for ", DescribeType(tensor)), value["data_offsets"]);
  }
  return tensor;
}

absl::StatusOr<SafetensorsMetadata> ReadMetadata(const json& value) {
  if (!value.is_object()) return Found("an object", value);
  SafetensorsMetadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return Found(absl::StrCat("a string for ", key), text);
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

std::string Quoted(const std::string& name) { return absl::StrCat("tensor \"", name, "\""); }

// `tensors` are sorted by offset.
absl::Status CheckContiguous(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  uint64_t at = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != at) {
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(tensor.name), ": expected its data to begin at ", at, ", where the one before ends, ",
          "found ", tensor.begin, tensor.begin < at ? ": an overlap" : ": a gap"));
    }
    at = tensor.end;
  }
  if (at == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("expected the file to end with the last tensor, ",
                                                 "found ", data_bytes - at, " trailing bytes"));
}

absl::StatusOr<std::string> MetadataMember(const SafetensorsMetadata& metadata) {
  std::vector<std::string> members;
  for (const auto& [key, value] : metadata) {
    TALLY_ASSIGN_OR_RETURN(const std::string quoted_key, JsonString(key));
    TALLY_ASSIGN_OR_RETURN(const std::string quoted_value, JsonString(value));
    members.push_back(absl::StrCat(quoted_key, ":", quoted_value));
  }
  return absl::StrCat("\"", kSafetensorsMetadataKey, "\":{", absl::StrJoin(members, ","), "}");
}

absl::StatusOr<std::string> TensorMember(const TensorInfo& tensor) {
  TALLY_ASSIGN_OR_RETURN(const std::string name, JsonString(tensor.name));
  return absl::StrCat(name, ":{\"dtype\":\"", DTypeName(tensor.dtype), "\",\"shape\":[",
                      absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", tensor.begin, ",",
                      tensor.end, "]}");
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         uint64_t data_bytes) {
  TALLY_ASSIGN_OR_RETURN(const json object, ParseJsonObject(text));
  SafetensorsHeader header;
  for (const auto& [name, value] : object.items()) {
    if (name == kSafetensorsMetadataKey) {
      auto metadata = ReadMetadata(value);
      if (!metadata.ok()) return WithContext(metadata.status(), kSafetensorsMetadataKey);
      header.metadata = *std::move(metadata);
      continue;
    }
    TALLY_RETURN_IF_ERROR(CheckName(name));
    auto tensor = ReadTensor(name, value, data_bytes);
    if (!tensor.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(name), ": ", tensor.status().message()));
    }
    header.tensors.push_back(*std::move(tensor));
  }
  if (header.tensors.empty()) {
    return absl::InvalidArgumentError("expected at least one tensor, found none");
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  TALLY_RETURN_IF_ERROR(CheckContiguous(header.tensors, data_bytes));
  return header;
}

absl::Status PlaceTensors(std::vector<TensorInfo>& tensors) {
  if (tensors.empty()) return absl::InvalidArgumentError("expected at least one tensor, found none");
  absl::flat_hash_set<absl::string_view> names;
  uint64_t at = 0;
  for (TensorInfo& tensor : tensors) {
    TALLY_RETURN_IF_ERROR(CheckName(tensor.name));
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(tensor.name), ": expected each name once, found it again"));
    }
    const auto bytes = TensorBytes(tensor);
    if (!bytes.ok()) return WithContext(bytes.status(), Quoted(tensor.name));
    tensor.begin = at;
    if (__builtin_add_overflow(at, *bytes, &at)) {
      return absl::OutOfRangeError(absl::StrCat(Quoted(tensor.name), ": the data passes 2^64 bytes"));
    }
    tensor.end = at;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EncodeSafetensorsHeader(const std::vector<TensorInfo>& tensors,
                                                    const SafetensorsMetadata& metadata) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    TALLY_ASSIGN_OR_RETURN(members.emplace_back(), MetadataMember(metadata));
  }
  for (const TensorInfo& tensor : tensors) {
    TALLY_ASSIGN_OR_RETURN(members.emplace_back(), TensorMember(tensor));
  }
  std::string text = absl::StrCat("{", absl::StrJoin(members, ","), "}");
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kSafetensorsMaxHeader) {
    return absl::InvalidArgumentError(absl::StrCat("expected a header of at most ",
                                                   kSafetensorsMaxHeader, " bytes, found ",
                                                   text.size()));
  }
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);  // little-endian
  return file + text;
}

}  // namespace tally
