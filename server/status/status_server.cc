#include "server/status/status_server.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "httplib.h"
#include "server/status/pages.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

constexpr size_t kThreads = 4;
// A client that stalls holds a thread, and Stop, for so long.
constexpr time_t kStallSeconds = 2;

void Fill(const Page& page, httplib::Response& response) {
  response.status = page.status;
  response.set_content(page.body, page.type);
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Content-Security-Policy",
                      "default-src 'none'; script-src 'unsafe-inline'; "
                      "style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'");
}

// httplib's default sets SO_REUSEPORT, with which a second server would share the port in silence.
void ReuseAddressOnly(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

absl::Status CannotListen(const Address& address, int error) {
  return absl::UnavailableError(absl::StrCat(
      "status endpoint: cannot listen on ", address.ToString(), ": ",
      error != 0 ? std::strerror(error) : "the host is not an address of this machine"));
}

}  // namespace

struct StatusServer::Impl {
  Address address;
  httplib::Server http;
  absl::Notification listening;
  std::thread thread;
  absl::Mutex mutex;
  bool stopped ABSL_GUARDED_BY(mutex) = false;

  void Configure(StatusSource* source, const Metrics* metrics);
  absl::Status Bind();
  void Serve();
};

void StatusServer::Impl::Configure(StatusSource* source, const Metrics* metrics) {
  http.set_socket_options([](socket_t socket) { ReuseAddressOnly(socket); });
  http.set_read_timeout(kStallSeconds);
  http.set_write_timeout(kStallSeconds);
  // One request a connection: an idle browser holds no thread, and a body of no use is not read.
  http.set_keep_alive_max_count(1);
  // Called once httplib is ready to be stopped; before that stop() would be lost.
  http.new_task_queue = [this]() -> httplib::TaskQueue* {
    listening.Notify();
    return new httplib::ThreadPool(kThreads);
  };
  // In place of httplib's own routes, whose regular expressions recurse over the path.
  http.set_pre_routing_handler(
      [source, metrics](const httplib::Request& request, httplib::Response& response) {
        Fill(AnswerPage(request.method, request.path, *source, *metrics), response);
        return httplib::Server::HandlerResponse::Handled;
      });
}

absl::Status StatusServer::Impl::Bind() {
  errno = 0;
  int port = address.port;
  if (port == 0) {
    port = http.bind_to_any_port(address.host);
  } else if (!http.bind_to_port(address.host, port)) {
    port = -1;
  }
  if (port < 0) return CannotListen(address, errno);
  address.port = static_cast<uint16_t>(port);
  return absl::OkStatus();
}

void StatusServer::Impl::Serve() {
  if (!http.listen_after_bind()) {
    spdlog::error("status endpoint {}: no longer listening", address.ToString());
  }
}

StatusServer::StatusServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StatusServer::~StatusServer() { Stop(); }

absl::StatusOr<std::unique_ptr<StatusServer>> StatusServer::Start(const Address& listen,
                                                                  StatusSource* source,
                                                                  const Metrics* metrics) {
  auto impl = std::make_unique<Impl>();
  impl->address = listen;
  impl->Configure(source, metrics);
  if (const absl::Status bound = impl->Bind(); !bound.ok()) return bound;
  impl->thread = std::thread([raw = impl.get()] { raw->Serve(); });
  impl->listening.WaitForNotification();
  return std::unique_ptr<StatusServer>(new StatusServer(std::move(impl)));
}

const Address& StatusServer::address() const { return impl_->address; }

void StatusServer::Stop() {
  absl::MutexLock lock(&impl_->mutex);
  if (impl_->stopped) return;
  impl_->stopped = true;
  impl_->http.stop();
  impl_->thread.join();
}

}  // namespace tally
