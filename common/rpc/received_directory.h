// Files received from a server, which is not trusted with names or sizes, as a directory that
// appears whole or not at all.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file.h"
#include "proto/tally/v1/control.pb.h"

namespace tally {

class ReceivedDirectory {
 public:
  // Starts a sibling of `path`. INVALID_ARGUMENT if `path` exists and is more than an empty
  // directory, or, with `replace`, anything but a flat directory with a config.json, or if its
  // parent is no place to write to.
  static absl::StatusOr<std::unique_ptr<ReceivedDirectory>> Create(const std::string& path,
                                                                   bool replace);
  // Without Finish nothing is left behind.
  ~ReceivedDirectory();
  ReceivedDirectory(const ReceivedDirectory&) = delete;
  ReceivedDirectory& operator=(const ReceivedDirectory&) = delete;

  // The parts of a file follow one another; the first has its name and size. DATA_LOSS for a name
  // that is not plain or came before, and for more or less data than was announced.
  absl::Status Add(const v1::FilePart& part);
  // DATA_LOSS unless there is at least one file and the last one is whole.
  absl::Status Finish();
  uint64_t bytes() const { return bytes_; }

 private:
  ReceivedDirectory(std::string path, std::string temporary)
      : path_(std::move(path)), temporary_(std::move(temporary)) {}
  absl::Status BeginFile(const v1::FilePart& part);
  absl::Status EndFile();
  absl::Status Write(absl::string_view data);
  absl::Status MoveIntoPlace();

  std::string path_;
  std::string temporary_;  // empty once renamed
  std::set<std::string> names_;
  std::string name_;  // of the file being written
  FileDescriptor file_;
  uint64_t left_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace tally
