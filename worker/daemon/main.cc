// tally-worker: trains on this machine's data and exchanges votes with the server.
#include "worker/daemon/program.h"

int main(int argc, char** argv) { return tally::RunProgram(argc, argv); }
