#!/usr/bin/env bash
# Tally's main job on one machine: a server, four workers and the client train a classifier on
# Fashion-MNIST with Distributed Lion, one bit a parameter each way, and download the result.
#
#   deploy/demo.sh [JOB.yaml]      default: deploy/jobs/fashion-mnist.yaml
#
# The model is left in build/demo/model, the logs in build/demo/logs. Ctrl-C stops everything.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
job_file=$(realpath "${1:-$root/deploy/jobs/fashion-mnist.yaml}")
cd "$root"

workers=4
out=$root/build/demo
bin=$root/build/release/bin
data=/usr/share/datasets/fashion-mnist
pids=()

say() { printf '\n== %s\n' "$*"; }

# Everything started below dies with this script, however it ends.
cleanup() {
  trap - EXIT INT TERM
  if [ "${#pids[@]}" -gt 0 ]; then
    kill "${pids[@]}" 2>/dev/null || true
    for _ in $(seq 50); do
      kill -0 "${pids[@]}" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
  fi
  if [ -n "${state:-}" ]; then rm -rf "$state"; fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "packages"
deploy/install-packages.sh

say "build (release)"
cmake --preset release
cmake --build --preset release --target tally-server tally-worker tally

say "server and $workers workers on this machine"
state=$(mktemp -d "${TMPDIR:-/tmp}/tally-demo.XXXXXX")
mkdir -p "$out/logs"
cat > "$state/server.yaml" <<YAML
listen: "127.0.0.1:0"
status: "127.0.0.1:0"
state_dir: $state/server
heartbeat: 1s
YAML
"$bin/tally-server" "$state/server.yaml" > "$out/logs/server.log" 2>&1 &
pids+=($!)

# The ports are chosen by the system; the server's log names them.
wait_for_line() {
  for _ in $(seq 100); do
    if grep -q "$2" "$1"; then return 0; fi
    kill -0 "${pids[0]}" 2>/dev/null || break
    sleep 0.1
  done
  echo "demo.sh: the server did not start:" >&2
  tail -n 20 "$1" >&2
  exit 1
}
wait_for_line "$out/logs/server.log" 'serving on'
server=$(sed -n 's/.*serving on //p' "$out/logs/server.log" | head -n 1)
wait_for_line "$out/logs/server.log" 'status on'
status_url=$(sed -n 's/.*status on //p' "$out/logs/server.log" | head -n 1)
export TALLY_SERVER=$server

for i in $(seq "$workers"); do
  cat > "$state/worker-$i.yaml" <<YAML
server: "$server"
name: worker-$i
device: auto
threads: 1
state_dir: $state/worker-$i
data:
  fashion-mnist: {format: idx, path: $data, shared: true}
YAML
  "$bin/tally-worker" "$state/worker-$i.yaml" > "$out/logs/worker-$i.log" 2>&1 &
  pids+=($!)
done
echo "server $server, status page $status_url, logs in build/demo/logs"

say "tally submit $(realpath --relative-to="$root" "$job_file") --watch"
"$bin/tally" submit "$job_file" --watch
job=$("$bin/tally" list --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["job_id"])')

say "tally download $job"
"$bin/tally" download "$job" -o "$out/model" --force

say "the downloaded model on the test images"
architecture=$("$bin/tally" status "$job" --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["spec"]["model"]["architecture"])')
"$bin/tally-worker" "$state/worker-1.yaml" --evaluate "$out/model" \
  --architecture "$architecture" --data-set fashion-mnist

say "what went over the network"
"$bin/tally" status "$job" --json | python3 deploy/traffic.py
echo "status page while the server runs: $status_url"
