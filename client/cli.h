#pragma once

#include <string>
#include <vector>

#include "client/exit_code.h"
#include "client/session.h"

namespace tally {

// The whole command but for the process around it. `arguments` are without the program's name.
ExitCode RunCli(const std::vector<std::string>& arguments, Console console, Interrupt& interrupt);

}  // namespace tally
