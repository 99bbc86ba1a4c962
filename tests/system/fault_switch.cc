#include "tests/system/fault_switch.h"

#include <filesystem>

#include "common/base/file.h"
#include "common/base/status_matchers.h"

namespace tally::testing {

void FaultSwitch::On() const { TALLY_EXPECT_OK(WriteFileAtomically(Path(), "")); }

void FaultSwitch::Off() const { std::filesystem::remove(Path()); }

}  // namespace tally::testing
