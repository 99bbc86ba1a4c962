#include "client/json.h"

#include <cmath>

namespace tally {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string EnumName(const google::protobuf::EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  return value != nullptr ? value->name() : std::to_string(number);
}

Json Singular(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->GetUInt64(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(reflection->GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(reflection->GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumName(*field->enum_type(), reflection->GetEnumValue(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(message, field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection->GetMessage(message, field));
  }
  return nullptr;
}

Json MapOfStrings(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  const auto* type = field->message_type();
  std::map<std::string, Json> sorted;
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(message, field, i);
    sorted[entry.GetReflection()->GetString(entry, type->map_key())] =
        Singular(entry, type->map_value());
  }
  Json object = Json::object();
  for (auto& [key, value] : sorted) object[key] = std::move(value);
  return object;
}

// The protocol's repeated fields are messages, strings and indices.
Json Repeated(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  Json array = Json::array();
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      array.push_back(ToJson(reflection->GetRepeatedMessage(message, field, i)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      array.push_back(reflection->GetRepeatedString(message, field, i));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      array.push_back(reflection->GetRepeatedUInt32(message, field, i));
    }
  }
  return array;
}

}  // namespace

Json ToJson(const Message& message) {
  Json object = Json::object();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->type() == FieldDescriptor::TYPE_BYTES) continue;
    object[field->name()] = field->is_map()        ? MapOfStrings(message, field)
                            : field->is_repeated() ? Repeated(message, field)
                                                   : Singular(message, field);
  }
  return object;
}

std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tally
