// Files streamed as FileParts: a base model to a worker, a result to a client.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/tally/v1/control.pb.h"
#include "server/service/pull_stream.h"

namespace tally {

class FileStream final : public PullStream<grpc::ServerWriteReactor<v1::FilePart>, v1::FilePart> {
 public:
  // A stream of these files of `folder`, or one that ends with the error.
  static grpc::ServerWriteReactor<v1::FilePart>* Serve(
      const absl::StatusOr<std::string>& folder, const std::vector<std::string>& names);

 private:
  FileStream(std::string folder, std::vector<std::string> names)
      : folder_(std::move(folder)), names_(std::move(names)) {}
  Pulled Pull() override;
  absl::Status OpenNext(v1::FilePart& part);

  const std::string folder_;
  const std::vector<std::string> names_;
  size_t next_ = 0;
  std::ifstream file_;
  uint64_t left_ = 0;  // bytes of the file that is being sent
};

// Regular files of a folder, config.json first, the others by name.
absl::StatusOr<std::vector<std::string>> ModelFiles(const std::string& folder);

}  // namespace tally
