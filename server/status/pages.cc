#include "server/status/pages.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/status/proto_json.h"

namespace tally {
namespace {

constexpr char kJson[] = "application/json";
constexpr char kHtml[] = "text/html; charset=utf-8";
// Of the Prometheus text format.
constexpr char kMetrics[] = "text/plain; version=0.0.4; charset=utf-8";

Page Error(int status, absl::string_view message) {
  return {status, kJson, JsonText({{"error", std::string(message)}})};
}

Page JobPage(absl::string_view job_id, StatusSource& source) {
  const absl::StatusOr<v1::JobStatus> job = source.Job(std::string(job_id));
  if (job.ok()) return {200, kJson, JsonText(ProtoToJson(*job))};
  return Error(absl::IsNotFound(job.status()) ? 404 : 500, job.status().message());
}

Page HealthPage(StatusSource& source) {
  const absl::Status health = source.Health();
  if (health.ok()) return {200, kJson, JsonText({{"status", "ok"}})};
  return {503, kJson,
          JsonText({{"status", "unavailable"}, {"reason", std::string(health.message())}})};
}

}  // namespace

Page AnswerPage(absl::string_view method, absl::string_view path, StatusSource& source,
                const Metrics& metrics) {
  if (method != "GET" && method != "HEAD") {
    return Error(405, "expected GET or HEAD");
  }
  if (path == "/") return {200, kHtml, std::string(DashboardHtml())};
  if (path == "/status") return {200, kJson, JsonText(SnapshotToJson(source.Get()))};
  if (path == "/metrics") return {200, kMetrics, metrics.Text(source.Get())};
  if (path == "/healthz") return HealthPage(source);
  if (absl::ConsumePrefix(&path, "/jobs/")) return JobPage(path, source);
  return Error(404, "no such page; there are /, /status, /jobs/ID, /metrics and /healthz");
}

}  // namespace tally
