// The HTTP endpoint: / (a page), /status, /jobs/ID, /metrics, /healthz.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/rpc/address.h"
#include "server/status/metrics.h"
#include "server/status/status_source.h"

namespace tally {

class StatusServer {
 public:
  // Listens, on its own threads, once it returns. Port 0 takes a free one. UNAVAILABLE names the
  // address if it cannot be listened on. `source` and `metrics` outlive the server.
  static absl::StatusOr<std::unique_ptr<StatusServer>> Start(const Address& listen,
                                                             StatusSource* source,
                                                             const Metrics* metrics);
  ~StatusServer();

  // With the real port.
  const Address& address() const;
  // Closes the port and waits for requests being answered. Repeating it does nothing.
  void Stop();

 private:
  struct Impl;
  explicit StatusServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tally
