#pragma once

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "gtest/gtest.h"

namespace tally::testing {

// A folder of its own for each test, removed with the object.
class TempFolder {
 public:
  TempFolder()
      : path_((std::filesystem::path(::testing::TempDir()) / "tally_test_XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder at " << path_;
  }
  ~TempFolder() {
    const absl::Status status = RemoveTree(path_);
    EXPECT_TRUE(status.ok()) << status;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return absl::StrCat(path_, "/", name); }
  // Names of what lies in it, sorted; shows what was left behind.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

}  // namespace tally::testing
