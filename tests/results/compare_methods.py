#!/usr/bin/env python3
"""Trains one model with each method on the same samples and prints the table of docs/results.md.

    tests/results/compare_methods.py --model mlp|vit [--rounds N] [--seeds 42 52 62]

Needs the release build (build/release/bin, or --bin) and Debian's dataset-fashion-mnist. One server
and four workers on loopback; every number is read from `tally status JOB --json`.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = "/usr/share/datasets/fashion-mnist"
WORKERS = 4

MODELS = {
    "mlp": ("mlp", '{input_size: 784, hidden_sizes: [256, 128], num_labels: 10, hidden_act: relu}'),
    "vit": ("vit", '{image_size: 28, patch_size: 7, num_channels: 1, hidden_size: 64, '
                   'num_hidden_layers: 4, num_attention_heads: 4, intermediate_size: 128, '
                   'num_labels: 10}'),
}

# Learning rate and decay: Lion's are AdamW's, 2 times smaller and 10 times larger (METHODS of the
# Lion paper: 3 to 10 times; these are the values of our calibration runs).
METHODS = [
    ("Distributed Lion, majority", "{name: distributed_lion, aggregation: majority, weight_decay: 0.1}", 1e-3),
    ("Distributed Lion, average", "{name: distributed_lion, aggregation: average, weight_decay: 0.1}", 1e-3),
    ("global Lion", "{name: global_lion, weight_decay: 0.1}", 1e-3),
    ("global AdamW", "{name: global_adamw, weight_decay: 0.01}", 2e-3),
]


def job_text(model: str, method: str, rate: float, rounds: int, seed: int) -> str:
    architecture, config = MODELS[model]
    return f"""name: compare
model: {{architecture: {architecture}, config: {config}}}
data: {{name: fashion-mnist, shuffle_buffer: 4096}}
method: {method}
learning_rate: {{schedule: cosine, peak: {rate}, final: 0, warmup_rounds: {min(50, rounds // 4)}}}
rounds: {rounds}
batch_size: 64
workers: {{count: {WORKERS}}}
evaluate_every: 0
digest_every: 100
snapshot_every: 0
seed: {seed}
"""


class Cluster:
    """A server and four workers; everything ends with the context."""

    def __init__(self, programs: pathlib.Path, folder: pathlib.Path, worker_yaml=None):
        """worker_yaml(i): the data sets and labels of worker i, as YAML."""
        self.programs, self.folder, self.processes = programs, folder, []
        self.worker_yaml = worker_yaml or (
            lambda i: f"data:\n  fashion-mnist: {{format: idx, path: {DATA}}}\n")

    def __enter__(self) -> "Cluster":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=20)

    def start(self) -> None:
        (self.folder / "server.yaml").write_text(
            f'listen: "127.0.0.1:0"\nstatus: "off"\nstate_dir: {self.folder}/server\n')
        self.run("tally-server", "server")
        self.address = self.wait_for_address(self.folder / "server.log")
        for i in range(WORKERS):
            (self.folder / f"worker-{i}.yaml").write_text(
                f'server: "{self.address}"\nname: worker-{i}\nthreads: 1\n'
                f"state_dir: {self.folder}/worker-{i}\n" + self.worker_yaml(i))
            self.run("tally-worker", f"worker-{i}")

    def run(self, program: str, name: str) -> None:
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes.append(subprocess.Popen(
                [self.programs / program, self.folder / f"{name}.yaml"], stderr=log))

    def wait_for_address(self, log: pathlib.Path) -> str:
        for _ in range(200):
            found = re.search(r"serving on (\S+)", log.read_text())
            if found:
                return found[1]
            if self.processes[0].poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"the server did not start:\n{log.read_text()}")

    def tally(self, *arguments) -> str:
        done = subprocess.run([self.programs / "tally", "--server", self.address, *arguments],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"tally {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def train(self, text: str) -> dict:
        job_file = self.folder / "job.yaml"
        job_file.write_text(text)
        job = json.loads(self.tally("submit", "--json", job_file))["job_id"]
        self.tally("watch", job)
        return json.loads(self.tally("status", job, "--json"))


def spread(values: list) -> str:
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 \
        else f"{values[0]:.2f}"


def row(name: str, jobs: list) -> str:
    accuracy = [100.0 * int(j["evaluation"]["correct"]) / int(j["evaluation"]["count"]) for j in jobs]
    loss = [j["evaluation"]["loss_sum"] / int(j["evaluation"]["count"]) for j in jobs]
    job = jobs[0]
    up = statistics.mean(int(w["bytes_up"]) for w in job["workers"]) / 1e6
    down = statistics.mean(int(w["bytes_down"]) for w in job["workers"]) / 1e6
    mismatches = sum(int(j["mismatches"]) for j in jobs)
    return (f"| {name} | {spread(accuracy)} | {statistics.mean(loss):.3f} | {job['bits_up']:.2f} | "
            f"{job['bits_down']:.2f} | {up:,.1f} | {down:,.1f} | {mismatches} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 52, 62])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder, \
            Cluster(options.bin, pathlib.Path(folder)) as cluster:
        for name, method, rate in METHODS:
            jobs = [cluster.train(job_text(options.model, method, rate, options.rounds, seed))
                    for seed in options.seeds]
            lines.append(row(name, jobs))
            print(lines[-1], file=sys.stderr)
        parameters = int(jobs[0]["parameters"])
    print(f"{options.model}, {parameters:,} parameters, {options.rounds} rounds of {WORKERS} x 64 "
          f"samples, seeds {', '.join(map(str, options.seeds))}:\n")
    print("| method | test accuracy, % | loss | bits up | bits down | MB up | MB down | mismatches |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
