// Files streamed as FileParts: a base model to a worker, a result to a client.
#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "proto/tally/v1/control.pb.h"
#include "server/audit/model_as_of.h"
#include "server/audit/task_threads.h"
#include "server/service/pull_stream.h"

namespace tally {

class FileStream final : public PullStream<grpc::ServerWriteReactor<v1::FilePart>, v1::FilePart> {
 public:
  // A stream of these files of `folder`, or one that ends with the error.
  static grpc::ServerWriteReactor<v1::FilePart>* Serve(
      const absl::StatusOr<std::string>& folder, const std::vector<std::string>& names);

  // False once the client has gone.
  using GoOn = std::function<bool()>;
  using MakeModel = std::function<absl::StatusOr<std::unique_ptr<ExportedModel>>(const GoOn&)>;
  // The files of a model that is made first and removed at the end, both by a thread of `threads`,
  // which outlives the stream and whose refusal ends it.
  static grpc::ServerWriteReactor<v1::FilePart>* ServeMade(MakeModel make,
                                                           const std::vector<std::string>& names,
                                                           TaskThreads* threads,
                                                           OpenStreams* streams);
  void OnCancel() override { FinishWith(grpc::Status::CANCELLED); }

 private:
  explicit FileStream(std::vector<std::string> names) : names_(std::move(names)) {}
  // Returns how the stream ends.
  grpc::Status MakeAndKeep(const MakeModel& make);
  // The files of `folder` may go.
  void Begin(const std::string& folder);
  Pulled Pull() override;
  void Ended() override { Over(); }
  void Over();
  absl::Status OpenNext(v1::FilePart& part);

  const std::vector<std::string> names_;
  std::string folder_;  // known when `ready_`
  std::atomic<bool> ready_{false};
  bool made_ = false;  // the thread that made the files ends the stream
  std::atomic<bool> is_over_{false};
  absl::Notification over_;  // the files are read, or nobody reads them any more
  size_t next_ = 0;
  std::ifstream file_;
  uint64_t left_ = 0;  // bytes of the file that is being sent
};

// Regular files of a folder, config.json first, the others by name.
absl::StatusOr<std::vector<std::string>> ModelFiles(const std::string& folder);

}  // namespace tally
