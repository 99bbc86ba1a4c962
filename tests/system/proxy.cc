#include "tests/system/proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/system/process.h"

namespace tally::testing {
namespace {

// Of one direction. More is left in the sender's socket.
constexpr size_t kMostBuffered = 256 << 10;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

int NewSocket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

uint16_t PortOf(const std::string& address) {
  uint32_t port = 0;
  if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) {
    GiveUp("no port: " + address);
  }
  return static_cast<uint16_t>(port);
}

// Loopback either connects or refuses at once. -1: refused.
int Connect(const std::string& target) {
  const sockaddr_in address = Loopback(PortOf(target));
  const int socket = NewSocket();
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return socket;
  }
  ::close(socket);
  return -1;
}

void MakeReady(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
}

// With a reset, so that both ends see a broken connection and not an orderly end.
void Break(int socket) {
  const linger now = {1, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(socket);
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// False when the connection has ended.
bool Receive(int socket, std::string& bytes) {
  char buffer[64 << 10];
  const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
  if (got > 0) bytes.append(buffer, static_cast<size_t>(got));
  return got > 0 || (got < 0 && WouldBlock());
}

bool Send(int socket, std::string& bytes) {
  const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent > 0) bytes.erase(0, static_cast<size_t>(sent));
  return sent >= 0 || WouldBlock();
}

short Wanted(const std::string& incoming, const std::string& outgoing) {
  return static_cast<short>((incoming.size() < kMostBuffered ? POLLIN : 0) |
                            (outgoing.empty() ? 0 : POLLOUT));
}

}  // namespace

Proxy::Proxy(const std::string& target) : target_(target), listener_(NewSocket()) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, SOMAXCONN) != 0 || ::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    GiveUp("no port for a proxy");
  }
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  MakeReady(listener_);
  thread_ = std::thread([this] { Run(); });
}

Proxy::~Proxy() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  CutAll();
  for (const int descriptor : {listener_, wake_[0], wake_[1]}) ::close(descriptor);
}

void Proxy::Wake() { (void)!::write(wake_[1], "", 1); }

size_t Proxy::connections() const {
  absl::MutexLock lock(&mutex_);
  return connections_.size();
}

void Proxy::CutAll() {
  {
    absl::MutexLock lock(&mutex_);
    for (Connection& connection : connections_) connection.cut = true;
    DropClosed();
  }
  Wake();
}

void Proxy::CutOne(size_t number) {
  {
    absl::MutexLock lock(&mutex_);
    if (connections_.empty()) return;
    auto it = connections_.begin();
    std::advance(it, number % connections_.size());
    it->cut = true;
    DropClosed();
  }
  Wake();
}

void Proxy::Stall() {
  absl::MutexLock lock(&mutex_);
  stalled_ = true;
}

void Proxy::Resume() {
  {
    absl::MutexLock lock(&mutex_);
    stalled_ = false;
  }
  Wake();
}

void Proxy::DropClosed() {
  connections_.remove_if([](const Connection& connection) {
    if (!connection.cut && !connection.ended) return false;
    for (const int socket : {connection.up.from, connection.up.to}) {
      if (connection.cut) {
        Break(socket);
      } else {
        ::close(socket);
      }
    }
    return true;
  });
}

void Proxy::Accept() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int server = Connect(target_);
  if (server < 0) return Break(client);
  MakeReady(client);
  MakeReady(server);
  connections_.push_back({{client, server, ""}, {server, client, ""}});
}

void Proxy::Serve(Connection& connection, int socket, short events) {
  Flow& in = socket == connection.up.from ? connection.up : connection.down;
  Flow& out = socket == connection.up.from ? connection.down : connection.up;
  bool open = true;
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) open = Receive(socket, in.bytes);
  // Also after an end: the other side gets what was said before it.
  if (!in.bytes.empty()) open = Send(in.to, in.bytes) && open;
  if (open && (events & POLLOUT) != 0) open = Send(socket, out.bytes);
  connection.ended = connection.ended || !open;
}

std::vector<pollfd> Proxy::Polled() const {
  std::vector<pollfd> polled = {{wake_[0], POLLIN, 0}};
  if (stalled_) return polled;
  polled.push_back({listener_, POLLIN, 0});
  for (const Connection& connection : connections_) {
    const Flow &up = connection.up, &down = connection.down;
    polled.push_back({up.from, Wanted(up.bytes, down.bytes), 0});
    polled.push_back({up.to, Wanted(down.bytes, up.bytes), 0});
  }
  return polled;
}

void Proxy::Handle(const pollfd& one) {
  if (one.revents == 0) return;
  if (one.fd == wake_[0]) {
    char bytes[64];
    (void)!::read(wake_[0], bytes, sizeof bytes);
  } else if (one.fd == listener_) {
    Accept();
  }
  // By descriptor: what was cut meanwhile is not there any more.
  for (Connection& connection : connections_) {
    if (connection.ended || (one.fd != connection.up.from && one.fd != connection.up.to)) continue;
    return Serve(connection, one.fd, one.revents);
  }
}

void Proxy::Run() {
  std::vector<pollfd> polled;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      polled = Polled();
    }
    ::poll(polled.data(), polled.size(), -1);
    absl::MutexLock lock(&mutex_);
    if (stalled_) polled.resize(1);
    for (const pollfd& one : polled) Handle(one);
    DropClosed();
  }
}

}  // namespace tally::testing
