// What a process takes, by /proc.
#pragma once

#include <sys/types.h>

namespace tally::testing {

// VmRSS; -1 if there is no such process.
long ResidentKilobytes(pid_t pid);
// RssAnon: without the pages of files, which come and go.
long AnonymousKilobytes(pid_t pid);
long OpenDescriptors(pid_t pid);
long ThreadCount(pid_t pid);

}  // namespace tally::testing
