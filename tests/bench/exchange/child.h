// A role of the benchmark in a process of its own, and what it prints.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace tally::bench {

class Child {
 public:
  // This program again, with these arguments.
  explicit Child(const std::vector<std::string>& arguments);
  // Ends it with SIGTERM if it is still there, and waits.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The next line, without its end; empty at the end of the output.
  std::string ReadLine();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  std::FILE* output_ = nullptr;
};

// A line of a process's /proc/PID/status, in bytes: RssAnon and RssFile now, VmHWM at most.
double StatusBytes(pid_t pid, const std::string& key);
// VmHWM starts anew from what is resident now.
void ForgetPeak(pid_t pid);

double Median(std::vector<double> values);

}  // namespace tally::bench
