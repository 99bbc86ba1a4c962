// The two sides that exchange_bench compares: Tally's exchange, and a bare gRPC stream that moves the
// same bytes between the same processes and does nothing else.
#pragma once

#include <cstdint>
#include <string>

namespace tally::bench {

struct Size {
  uint64_t parameters = 0;
  uint32_t workers = 4;
  uint32_t rounds = 12;
  bool apply = false;  // Tally's workers also apply each aggregate
  std::string method = "vote";  // vote: distributed_lion; float32 or bf16: a lo-fi finish

  uint64_t bits() const { return method == "vote" ? 1 : method == "bf16" ? 16 : 32; }  // an element
};

// Servers print "PORT n", then serve until SIGTERM. Workers print a line "ROUND seconds" a round, and
// Tally's also "BITS up down". All return an exit code.
int RunTallyServer(const std::string& state_dir);
int RunTallyWorker(const Size& size, const std::string& server, uint32_t index);
// 0 once the job is queued.
int SubmitTallyJob(const Size& size, const std::string& server);
int RunBareServer(const Size& size);
int RunBareWorker(const Size& size, const std::string& server);

}  // namespace tally::bench
