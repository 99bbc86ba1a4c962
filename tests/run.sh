#!/usr/bin/env bash
# Every test: installs packages, builds, runs ctest. Arguments go to ctest. tests/sanitize.sh has the
# sanitizer builds.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install-packages.sh
cmake --preset release
cmake --build --preset release
ctest --preset release -j 2 "$@"
