#include "worker/data/data_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "worker/data/idx/idx_source.h"
#include "worker/data/safetensors/safetensors_source.h"

namespace tally {
namespace {

struct DataFormat {
  const char* name;
  absl::StatusOr<std::unique_ptr<DataSource>> (*open)(const std::string& path);
};

// A new format is one folder and one line.
constexpr DataFormat kFormats[] = {
    {"idx", OpenIdxSource},
    {"safetensors", OpenSafetensorsSource},
};

}  // namespace

const char* SplitName(Split split) { return split == Split::kTrain ? "train" : "test"; }

std::vector<std::string> DataFormats() {
  std::vector<std::string> names;
  for (const DataFormat& format : kFormats) names.push_back(format.name);
  return names;
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(const DataSourceOptions& options) {
  for (const DataFormat& format : kFormats) {
    if (options.format == format.name) return format.open(options.path);
  }
  return absl::InvalidArgumentError(absl::StrCat("data format: expected one of ",
                                                 absl::StrJoin(DataFormats(), ", "), ", found \"",
                                                 options.format, "\""));
}

}  // namespace tally
