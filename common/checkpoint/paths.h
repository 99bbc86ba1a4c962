#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tally {

// "PATH.tmp.PID.N", in the same folder so that a rename can move it into place; N differs between
// calls within a process.
std::string TemporaryBeside(const std::string& path);

// The folder that `path` lies in, "." if it names none.
std::string FolderOf(const std::string& path);

// True if `name` can only name something directly inside a folder: no separator, no NUL, neither
// "." nor "..", 1 to 255 bytes. For names that come out of files and requests.
bool IsPlainFileName(absl::string_view name);

}  // namespace tally
