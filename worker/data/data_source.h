// A data set on this machine's disk: its shape, and passes over its rows. Formats are folders'
// worth of code behind one interface; see docs/adding-a-data-format.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/example.h"
#include "worker/data/partition.h"

namespace tally {

enum class Split { kTrain, kTest };
// "train", "test".
const char* SplitName(Split split);

struct DataInfo {
  ExampleFormat example;
  uint32_t classes = 0;  // the largest label of both splits plus one
  uint64_t train_examples = 0;  // never 0
  uint64_t test_examples = 0;   // 0: there is no test split

  uint64_t examples(Split split) const {
    return split == Split::kTrain ? train_examples : test_examples;
  }
};

// One pass over some rows in stored order. For one thread.
class ExampleReader {
 public:
  virtual ~ExampleReader() = default;
  // Fills `elements` (format.bytes() of them) and `label`; false when the rows are used up.
  // DATA_LOSS or the like, with the file, when it changed or broke since it was opened.
  virtual absl::StatusOr<bool> Next(char* elements, uint32_t* label) = 0;
};

// Immutable; safe to use from several threads.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual const DataInfo& info() const = 0;
  // The rows must lie in the split. The source must outlive the reader.
  virtual absl::StatusOr<std::unique_ptr<ExampleReader>> Read(Split split, RowSet rows) const = 0;
};

struct DataSourceOptions {
  std::string format;  // a name of DataFormats()
  std::string path;    // a folder
};

// Names that OpenDataSource knows: idx, safetensors.
std::vector<std::string> DataFormats();

// Everything that can be checked without a training pass is: INVALID_ARGUMENT or NOT_FOUND with the
// file and what is wrong with it (cut short, bad magic, counts that differ, 0 rows).
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(const DataSourceOptions& options);

}  // namespace tally
