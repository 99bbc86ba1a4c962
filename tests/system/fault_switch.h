// Turns fault points of running processes on and off, by a file that their plan looks for.
#pragma once

#include <string>

#include "tests/common/base/temp_folder.h"

namespace tally::testing {

class FaultSwitch {
 public:
  // A rule of TALLY_FAULT that holds while the switch is on: "ledger.mid_record:kill".
  std::string Rule(const std::string& rule) const { return rule + ":while=" + Path(); }
  void On() const;
  void Off() const;

 private:
  std::string Path() const { return folder_.File("on"); }
  const TempFolder folder_;
};

}  // namespace tally::testing
