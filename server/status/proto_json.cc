#include "server/status/proto_json.h"

#include <cmath>

namespace tally {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

constexpr int kSingular = -1;

Json FiniteOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string EnumName(const FieldDescriptor& field, int number) {
  const auto* value = field.enum_type()->FindValueByNumber(number);
  return value == nullptr ? std::to_string(number) : value->name();
}

// The field's value, or its element `index` if it is repeated.
Json Value(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& get = *message.GetReflection();
  const bool one = index == kSingular;
  const FieldDescriptor* f = &field;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? get.GetInt32(message, f) : get.GetRepeatedInt32(message, f, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? get.GetInt64(message, f) : get.GetRepeatedInt64(message, f, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? get.GetUInt32(message, f) : get.GetRepeatedUInt32(message, f, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? get.GetUInt64(message, f) : get.GetRepeatedUInt64(message, f, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FiniteOrNull(one ? get.GetFloat(message, f) : get.GetRepeatedFloat(message, f, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FiniteOrNull(one ? get.GetDouble(message, f)
                              : get.GetRepeatedDouble(message, f, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? get.GetBool(message, f) : get.GetRepeatedBool(message, f, index);
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? get.GetString(message, f) : get.GetRepeatedString(message, f, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumName(field, one ? get.GetEnumValue(message, f)
                                 : get.GetRepeatedEnumValue(message, f, index));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ProtoToJson(one ? get.GetMessage(message, f)
                             : get.GetRepeatedMessage(message, f, index));
  }
  return nullptr;
}

std::string KeyText(const Json& key) {
  return key.is_string() ? key.get<std::string>() : key.dump();
}

// By key: the map's own order differs from run to run.
Json MapOf(const Message& message, const FieldDescriptor& field) {
  const auto& type = *field.message_type();
  std::map<std::string, Json> sorted;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    const Message& entry = message.GetReflection()->GetRepeatedMessage(message, &field, i);
    sorted[KeyText(Value(entry, *type.map_key(), kSingular))] =
        Value(entry, *type.map_value(), kSingular);
  }
  Json object = Json::object();
  for (auto& [key, value] : sorted) object[key] = std::move(value);
  return object;
}

Json ArrayOf(const Message& message, const FieldDescriptor& field) {
  Json array = Json::array();
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    array.push_back(Value(message, field, i));
  }
  return array;
}

}  // namespace

Json ProtoToJson(const Message& message) {
  Json object = Json::object();
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.type() == FieldDescriptor::TYPE_BYTES) continue;
    Json& value = object[field.name()];
    if (field.is_map()) {
      value = MapOf(message, field);
    } else {
      value = field.is_repeated() ? ArrayOf(message, field) : Value(message, field, kSingular);
    }
  }
  return object;
}

Json SnapshotToJson(const StatusSnapshot& snapshot) {
  Json object = {{"version", snapshot.version},
                 {"address", snapshot.address},
                 {"uptime_seconds", absl::ToDoubleSeconds(snapshot.uptime)},
                 {"jobs", Json::array()},
                 {"workers", Json::array()}};
  for (const v1::JobStatus& job : snapshot.jobs) object["jobs"].push_back(ProtoToJson(job));
  for (const v1::WorkerInfo& worker : snapshot.workers) {
    object["workers"].push_back(ProtoToJson(worker));
  }
  return object;
}

std::string JsonText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tally
