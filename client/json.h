#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace tally {

// Every field under its proto name, defaults included; enums as their names, 64-bit integers as
// numbers (protobuf's own JSON has them as strings), NaN and infinities as null, bytes not at all.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// One line, without the newline. Text that is not UTF-8 gets U+FFFD.
std::string JsonLine(const nlohmann::ordered_json& json);

}  // namespace tally
