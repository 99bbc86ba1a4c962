#include <sys/ioctl.h>
#include <unistd.h>

#include <exception>
#include <iostream>

#include "client/cli.h"
#include "common/rpc/grpc_log.h"

namespace {

int TerminalWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

int main(int argc, char** argv) {
  // Never destroyed: the thread that waits for signals uses it to the end.
  auto* interrupt = new tally::Interrupt;
  tally::TriggerOnSignals(*interrupt);
  tally::RouteGrpcLog();
  const tally::Console console{.out = std::cout,
                               .err = std::cerr,
                               .terminal = isatty(STDOUT_FILENO) == 1,
                               .width = TerminalWidth()};
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return static_cast<int>(tally::RunCli(arguments, console, *interrupt));
  } catch (const std::exception& error) {
    std::cerr << "tally: internal error: " << error.what() << std::endl;
    return static_cast<int>(tally::ExitCode::kInternal);
  }
}
