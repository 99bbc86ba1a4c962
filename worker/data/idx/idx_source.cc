#include "worker/data/idx/idx_source.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/data/idx/idx_file.h"

namespace tally {
namespace {

struct IdxSplit {
  IdxFile images;
  std::vector<uint8_t> labels;
};

class IdxReader : public ExampleReader {
 public:
  IdxReader(std::unique_ptr<ByteStream> stream, const IdxSplit& split, RowSet rows)
      : stream_(std::move(stream)), split_(split), rows_(rows), row_(rows.first) {}

  absl::StatusOr<bool> Next(char* elements, uint32_t* label) override {
    if (read_ == rows_.count) return false;
    const uint64_t bytes = split_.images.row_bytes();
    TALLY_RETURN_IF_ERROR(stream_->Skip((row_ - next_in_stream_) * bytes));
    TALLY_RETURN_IF_ERROR(stream_->Read(elements, bytes));
    *label = split_.labels[row_];
    next_in_stream_ = row_ + 1;
    row_ += rows_.step;
    ++read_;
    return true;
  }

 private:
  std::unique_ptr<ByteStream> stream_;
  const IdxSplit& split_;
  const RowSet rows_;
  uint64_t row_;
  uint64_t next_in_stream_ = 0;
  uint64_t read_ = 0;
};

class IdxSource : public DataSource {
 public:
  IdxSource(DataInfo info, IdxSplit train, IdxSplit test)
      : info_(std::move(info)), train_(std::move(train)), test_(std::move(test)) {}

  const DataInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<ExampleReader>> Read(Split split, RowSet rows) const override {
    const IdxSplit& from = split == Split::kTrain ? train_ : test_;
    TALLY_ASSIGN_OR_RETURN(auto stream, OpenIdxData(from.images));
    return std::make_unique<IdxReader>(std::move(stream), from, rows);
  }

 private:
  const DataInfo info_;
  const IdxSplit train_;
  const IdxSplit test_;
};

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// The file as it lies in the folder, plain or compressed; nullopt if neither is there.
std::optional<std::string> FindFile(const std::string& folder, absl::string_view name) {
  std::string path = absl::StrCat(folder, "/", name);
  if (Exists(path)) return path;
  path += ".gz";
  if (Exists(path)) return path;
  return std::nullopt;
}

absl::StatusOr<std::string> RequireFile(const std::string& folder, absl::string_view name) {
  if (auto path = FindFile(folder, name)) return *std::move(path);
  return absl::NotFoundError(
      absl::StrCat(folder, ": expected the file ", name, " or ", name, ".gz, found neither"));
}

absl::StatusOr<IdxSplit> OpenSplit(const std::string& folder, absl::string_view prefix) {
  IdxSplit split;
  TALLY_ASSIGN_OR_RETURN(const std::string images,
                         RequireFile(folder, absl::StrCat(prefix, "-images-idx3-ubyte")));
  TALLY_ASSIGN_OR_RETURN(const std::string labels_path,
                         RequireFile(folder, absl::StrCat(prefix, "-labels-idx1-ubyte")));
  TALLY_ASSIGN_OR_RETURN(split.images, CheckIdxFile(images, 3));
  TALLY_ASSIGN_OR_RETURN(const IdxFile labels, CheckIdxFile(labels_path, 1));
  if (labels.rows() != split.images.rows()) {
    return absl::InvalidArgumentError(absl::StrCat(labels_path, ": expected ", split.images.rows(),
                                                   " labels, one for each row of ", images,
                                                   ", found ", labels.rows()));
  }
  if (labels.rows() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(images, ": expected at least 1 row, found 0"));
  }
  split.labels.resize(labels.rows());
  TALLY_ASSIGN_OR_RETURN(auto stream, OpenIdxData(labels));
  TALLY_RETURN_IF_ERROR(
      stream->Read(reinterpret_cast<char*>(split.labels.data()), split.labels.size()));
  return split;
}

// An empty split if none of its files is there; half a split is an error.
absl::StatusOr<IdxSplit> OpenTestSplit(const std::string& folder) {
  if (!FindFile(folder, "t10k-images-idx3-ubyte") && !FindFile(folder, "t10k-labels-idx1-ubyte")) {
    return IdxSplit{};
  }
  return OpenSplit(folder, "t10k");
}

uint32_t Classes(const IdxSplit& split) {
  if (split.labels.empty()) return 0;
  return *std::max_element(split.labels.begin(), split.labels.end()) + uint32_t{1};
}

absl::Status CheckSameShape(const IdxSplit& train, const IdxSplit& test) {
  if (test.labels.empty()) return absl::OkStatus();
  const auto expected = absl::MakeConstSpan(train.images.extents).subspan(1);
  const auto found = absl::MakeConstSpan(test.images.extents).subspan(1);
  if (expected == found) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(test.images.path, ": expected images of ",
                                                 ShapeText(expected), " as in ", train.images.path,
                                                 ", found ", ShapeText(found)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenIdxSource(const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(IdxSplit train, OpenSplit(path, "train"));
  TALLY_ASSIGN_OR_RETURN(IdxSplit test, OpenTestSplit(path));
  const auto& extents = train.images.extents;
  DataInfo info;
  info.example = {{1, extents[1], extents[2]}, ElementType::kUint8};
  info.classes = std::max(Classes(train), Classes(test));
  info.train_examples = train.labels.size();
  info.test_examples = test.labels.size();
  TALLY_RETURN_IF_ERROR(CheckSameShape(train, test));
  return std::make_unique<IdxSource>(std::move(info), std::move(train), std::move(test));
}

}  // namespace tally
