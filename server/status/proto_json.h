// Protobuf messages as JSON for programs that read the status endpoint.
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"
#include "server/status/status_source.h"

namespace tally {

// Each field under its name in the .proto, also where it has its default; enums by name. 64-bit
// integers are numbers (protobuf's own JSON makes them strings), NaN and infinities are null. Fields
// of type bytes are left out.
nlohmann::ordered_json ProtoToJson(const google::protobuf::Message& message);

// {version, address, uptime_seconds, jobs, workers}.
nlohmann::ordered_json SnapshotToJson(const StatusSnapshot& snapshot);

// One line. What is no UTF-8 becomes U+FFFD.
std::string JsonText(const nlohmann::ordered_json& json);

}  // namespace tally
