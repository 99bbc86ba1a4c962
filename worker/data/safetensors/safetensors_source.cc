#include "worker/data/safetensors/safetensors_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "worker/data/safetensors/shard.h"

namespace tally {
namespace {

class ShardedSplit {
 public:
  absl::Status Add(Shard shard) {
    if (!shards_.empty() && shard.format() != shards_[0].format()) {
      return absl::InvalidArgumentError(
          absl::StrCat(shard.path(), ": expected ", Describe(shards_[0].format()), " as in ",
                       shards_[0].path(), ", found ", Describe(shard.format())));
    }
    rows_ += shard.rows();
    classes_ = std::max(classes_, shard.classes());
    ends_.push_back(rows_);
    shards_.push_back(std::move(shard));
    return absl::OkStatus();
  }

  bool empty() const { return shards_.empty(); }
  uint64_t rows() const { return rows_; }
  uint32_t classes() const { return classes_; }
  const ExampleFormat& format() const { return shards_[0].format(); }
  const std::string& first_path() const { return shards_[0].path(); }

  // row < rows().
  void Read(uint64_t row, char* elements, uint32_t* label) const {
    const size_t shard = std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin();
    const uint64_t first = shard == 0 ? 0 : ends_[shard - 1];
    shards_[shard].Read(row - first, elements, label);
  }

 private:
  std::vector<Shard> shards_;
  std::vector<uint64_t> ends_;  // rows up to and with each shard
  uint64_t rows_ = 0;
  uint32_t classes_ = 0;
};

class ShardedReader : public ExampleReader {
 public:
  ShardedReader(const ShardedSplit& split, RowSet rows) : split_(split), rows_(rows) {}

  absl::StatusOr<bool> Next(char* elements, uint32_t* label) override {
    if (read_ == rows_.count) return false;
    split_.Read(rows_.first + read_++ * rows_.step, elements, label);
    return true;
  }

 private:
  const ShardedSplit& split_;
  const RowSet rows_;
  uint64_t read_ = 0;
};

class SafetensorsSource : public DataSource {
 public:
  SafetensorsSource(DataInfo info, ShardedSplit train, ShardedSplit test)
      : info_(std::move(info)), train_(std::move(train)), test_(std::move(test)) {}

  const DataInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<ExampleReader>> Read(Split split, RowSet rows) const override {
    return std::make_unique<ShardedReader>(split == Split::kTrain ? train_ : test_, rows);
  }

 private:
  const DataInfo info_;
  const ShardedSplit train_;
  const ShardedSplit test_;
};

absl::StatusOr<std::vector<std::string>> ShardPaths(const std::string& folder,
                                                    absl::string_view prefix) {
  std::vector<std::string> paths;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (absl::StartsWith(name, prefix) && absl::EndsWith(name, ".safetensors")) {
      paths.push_back(entries->path().string());
    }
  }
  if (error) return ErrnoStatus(error.value(), "cannot list", folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::StatusOr<ShardedSplit> OpenSplit(const std::string& folder, absl::string_view prefix) {
  TALLY_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ShardPaths(folder, prefix));
  ShardedSplit split;
  for (const std::string& path : paths) {
    TALLY_ASSIGN_OR_RETURN(Shard shard, Shard::Open(path));
    TALLY_RETURN_IF_ERROR(split.Add(std::move(shard)));
  }
  return split;
}

absl::Status CheckSplits(const std::string& folder, const ShardedSplit& train,
                         const ShardedSplit& test) {
  if (train.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": expected files train-*.safetensors, found none"));
  }
  if (train.rows() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(train.first_path(), ": expected at least 1 row, found 0"));
  }
  if (!test.empty() && test.format() != train.format()) {
    return absl::InvalidArgumentError(
        absl::StrCat(test.first_path(), ": expected ", Describe(train.format()), " as in ",
                     train.first_path(), ", found ", Describe(test.format())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenSafetensorsSource(const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(ShardedSplit train, OpenSplit(path, "train-"));
  TALLY_ASSIGN_OR_RETURN(ShardedSplit test, OpenSplit(path, "test-"));
  TALLY_RETURN_IF_ERROR(CheckSplits(path, train, test));
  DataInfo info{train.format(), std::max(train.classes(), test.classes()), train.rows(),
                test.rows()};
  return std::make_unique<SafetensorsSource>(std::move(info), std::move(train), std::move(test));
}

}  // namespace tally
