// tally-worker's command line. In the library, so that the tests can link it with fault points.
#pragma once

namespace tally {

// The exit code; docs/operating.md.
int RunProgram(int argc, char** argv);

}  // namespace tally
