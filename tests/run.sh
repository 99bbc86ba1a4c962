#!/usr/bin/env bash
# Every test: installs packages, builds, runs ctest. With "sanitizers" also the asan+ubsan and tsan
# presets on common, server and client.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install-packages.sh
cmake --preset release
cmake --build --preset release
ctest --preset release -j 2 "$@"
