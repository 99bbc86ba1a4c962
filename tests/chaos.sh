#!/usr/bin/env bash
# The long form of the chaos test: tests/chaos.sh [--faults N] [--seed S]
# Builds and runs; prints the seed, and on failure what was done. The same seed and number of faults
# give the same schedule.
set -euo pipefail
cd "$(dirname "$0")/.."

faults=300
seed=$RANDOM
while (($# > 0)); do
  case "$1 ${2:+value}" in
    "--faults value") faults=$2 ;;
    "--seed value") seed=$2 ;;
    *)
      echo "usage: tests/chaos.sh [--faults N] [--seed S]" >&2
      exit 4
      ;;
  esac
  shift 2
done

deploy/install-packages.sh
cmake --preset release
cmake --build --preset release --target tests_system
TALLY_CHAOS_FAULTS=$faults TALLY_CHAOS_SEED=$seed \
  build/release/tests/system/tests_system --gtest_filter='ChaosTest.*'
