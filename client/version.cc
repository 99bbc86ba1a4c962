#include "client/commands.h"
#include "client/json.h"
#include "client/text.h"
#include "common/base/status.h"

namespace tally {
namespace {

void Print(Session& session, const absl::StatusOr<v1::GetVersionResponse>& server) {
  if (session.options().json) {
    nlohmann::ordered_json json;
    json["client"] = TALLY_VERSION;
    json["server"] = server.ok() ? ToJson(*server) : nlohmann::ordered_json(nullptr);
    session.out() << JsonLine(json) << std::endl;
    return;
  }
  session.out() << "client " << TALLY_VERSION << std::endl;
  if (!server.ok()) return;
  session.out() << "server " << Printable(server->version()) << std::endl;
  if (!server->status_address().empty()) {
    session.out() << "status http://" << Printable(server->status_address()) << "/" << std::endl;
  }
}

// The client's own version stands also when there is no server to ask.
absl::Status Version(Session& session) {
  const auto server = session.Call(&v1::JobService::Stub::GetVersion, v1::GetVersionRequest());
  Print(session, server);
  return server.status();
}

}  // namespace

void AddVersion(CommandLine& line) {
  Session& session = line.session;
  AddCommand(line, "version", "Print the versions of client and server", kAskTime,
             [&session] { return Version(session); });
}

}  // namespace tally
