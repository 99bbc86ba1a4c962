#!/usr/bin/env bash
# The tests of common, server and client under the sanitizers: address and undefined behaviour, then
# threads. Presets can be named: tests/sanitize.sh tsan
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install-packages.sh
for preset in "${@:-asan tsan}"; do
  for name in $preset; do
    cmake --preset "$name"
    cmake --build --preset "$name"
    ctest --preset "$name" -j 2
  done
done
