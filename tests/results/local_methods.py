#!/usr/bin/env python3
"""Runs lo-fi and FISH Mask on Fashion-MNIST and prints the tables of docs/results.md.

    tests/results/local_methods.py lofi|fish [--seeds 42 52 62] [--bin DIR]

Needs the release build (build/release/bin, or --bin), dataset-fashion-mnist and python3-numpy. One server and
four workers on loopback, each with its own quarter of the training rows, and an mlp of 784-256-64-10. Models
are downloaded and scored here, in numpy, on the test split and on a shifted one (see `shifted`).
"""
import argparse
import gzip
import json
import pathlib
import statistics
import struct
import sys
import tempfile

import numpy

from compare_methods import DATA, ROOT, WORKERS, Cluster, spread

MODEL = "{architecture: mlp, config: {input_size: 784, hidden_sizes: [256, 64], num_labels: 10, hidden_act: relu}}"
BATCH = 64
BASE_ROUNDS = 800
RATE = 5e-4  # of lo-fi's fine-tuning
EPOCH = 60000 // WORKERS // BATCH  # local steps of one pass over a worker's rows


def read_idx(name: str) -> numpy.ndarray:
    with gzip.open(f"{DATA}/{name}.gz") as file:
        magic = struct.unpack(">I", file.read(4))[0]
        extents = struct.unpack(f">{magic & 255}I", file.read(4 * (magic & 255)))
        return numpy.frombuffer(file.read(), numpy.uint8).reshape(extents)


def write_idx(path: pathlib.Path, array: numpy.ndarray) -> None:
    head = struct.pack(f">I{array.ndim}I", 0x0800 | array.ndim, *array.shape)
    path.write_bytes(head + array.tobytes())


def write_data_set(folder: pathlib.Path, images, labels, test) -> None:
    folder.mkdir()
    for prefix, (x, y) in {"train": (images, labels), "t10k": test}.items():
        write_idx(folder / f"{prefix}-images-idx3-ubyte", x)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", y)


def shifted(images: numpy.ndarray) -> list:
    """The three shifts, of which tables have the mean: Gaussian noise of deviation 40 grey levels (seed 1), blur by
    the mean of 3 x 3 pixels, and contrast halved around the grey level 64."""
    x = images.astype(numpy.float32)
    noise = x + numpy.random.default_rng(1).normal(0, 40, x.shape)
    padded = numpy.pad(x, ((0, 0), (1, 1), (1, 1)), mode="edge")
    blur = sum(padded[:, i:i + 28, j:j + 28] for i in range(3) for j in range(3)) / 9
    contrast = 64 + 0.5 * (x - 64)
    return [numpy.clip(numpy.rint(v), 0, 255).astype(numpy.uint8) for v in (noise, blur, contrast)]


def load(folder: pathlib.Path) -> list:
    """Weights and biases of the mlp's layers, in order."""
    bytes_ = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", bytes_[:8])[0]
    header = json.loads(bytes_[8:8 + size])
    header.pop("__metadata__", None)
    entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"][0])
    tensors = {name: numpy.frombuffer(bytes_[8 + size:][slice(*e["data_offsets"])], numpy.float32)
               .reshape(e["shape"]) for name, e in entries}
    weights = [name for name in tensors if name.endswith("weight")]
    return [(tensors[name], tensors[name[:-len("weight")] + "bias"]) for name in weights]


def logits(layers: list, images: numpy.ndarray) -> numpy.ndarray:
    x = images.reshape(len(images), -1).astype(numpy.float32) / 127.5 - 1  # worker/model/pixel_scaling.h
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        if i + 1 < len(layers):
            x = numpy.maximum(x, 0)
    return x


class Bench:
    """The cluster, its data and the test sets."""

    def __init__(self, options, folder: pathlib.Path):
        self.folder, self.options = folder, options
        images, labels = read_idx("train-images-idx3-ubyte"), read_idx("train-labels-idx1-ubyte")
        self.test = read_idx("t10k-images-idx3-ubyte"), read_idx("t10k-labels-idx1-ubyte")
        self.shifts = shifted(self.test[0])
        for i in range(WORKERS):
            write_data_set(folder / f"part-{i}", images[i::WORKERS], labels[i::WORKERS], self.test)
        for name, pixels in {"mirrored": images[:, :, ::-1], "upside-down": images[:, ::-1, :]}.items():
            write_data_set(folder / name, pixels, labels, self.test)
        self.cluster = Cluster(options.bin, folder, lambda i: (
            f"labels: {{part: part-{i}}}\n"
            f"data:\n  part: {{format: idx, path: {folder}/part-{i}, shared: false}}\n"
            f"  mirrored: {{format: idx, path: {folder}/mirrored, shared: true}}\n"
            f"  upside-down: {{format: idx, path: {folder}/upside-down, shared: true}}\n"
            f"  fashion-mnist: {{format: idx, path: {DATA}, shared: true}}\n"))
        self.downloads = 0

    def train(self, method: str, rate: float, rounds: int, seed: int, *, data="{name: part}", base=None,
              workers=f"{{count: {WORKERS}}}") -> tuple:
        """The job's status, and its model's folder."""
        model = MODEL if base is None else MODEL[:-1] + f", base: {base}}}"
        status = self.cluster.train(
            f"name: results\nmodel: {model}\ndata: {data}\nmethod: {method}\n"
            f"learning_rate: {{schedule: cosine, peak: {rate}}}\nrounds: {rounds}\nbatch_size: {BATCH}\n"
            f"workers: {workers}\nevaluate_every: 0\ndigest_every: 50\nsnapshot_every: 0\nseed: {seed}\n")
        if int(status["mismatches"]) != 0:
            raise SystemExit(f"{status['job_id']}: a worker's parameters differed from the ledger's")
        self.downloads += 1
        folder = self.folder / f"model-{self.downloads}"
        self.cluster.tally("download", status["job_id"], "-o", folder)
        self.check_score(status, folder)
        return status, folder

    def check_score(self, status: dict, folder) -> None:
        """What is scored here must be the model that the workers have scored: all saw the whole test split."""
        workers = 100 * int(status["evaluation"]["correct"]) / int(status["evaluation"]["count"])
        layers = load(folder)
        here = 100 * float(numpy.mean(numpy.argmax(logits(layers, self.test[0]), 1) == self.test[1]))
        if abs(workers - here) > 0.03:
            raise SystemExit(f"{status['job_id']}: the workers score {workers:.2f}%, this script {here:.2f}%")

    def accuracies(self, outputs) -> tuple:
        """In percent, on the test split and on the mean of the shifts; outputs(images) are logits."""
        def right(images):
            return 100 * float(numpy.mean(numpy.argmax(outputs(images), 1) == self.test[1]))
        return right(self.test[0]), statistics.mean(right(shift) for shift in self.shifts)

    def of_model(self, folder) -> tuple:
        layers = load(folder)
        return self.accuracies(lambda images: logits(layers, images))


def megabytes(status: dict) -> float:
    return statistics.mean(int(w["bytes_up"]) for w in status["workers"]) / 1e6


def lofi(bench: Bench) -> None:
    steps = 2 * EPOCH
    local = f"local: {{steps: {steps}, optimiser: adamw}}"
    table = {}

    def add(row, accuracies, sent):
        table.setdefault(row, []).append((*accuracies, sent))

    for seed in bench.options.seeds:
        _, base = bench.train("{name: global_adamw}", 1e-3, BASE_ROUNDS, seed, data="{name: fashion-mnist}")
        add("the base", bench.of_model(base), 0)
        alone = [bench.train(f"{{name: lofi, {local}}}", RATE, 1, seed, base=base,
                             workers=f"{{count: 1, labels: {{part: part-{i}}}}}") for i in range(WORKERS)]
        scores = [bench.of_model(model) for _, model in alone]
        add("a worker alone (mean of four)", [statistics.mean(s) for s in zip(*scores)], 0)
        add("the best worker alone", max(scores), 0)
        layers = [load(model) for _, model in alone]
        add("logit ensemble of the four", bench.accuracies(
            lambda images: sum(logits(model, images) for model in layers)), 0)
        for name, method, data in [
                ("lo-fi, one average", f"{{name: lofi, {local}}}", "{name: part}"),
                ("lo-fi in bf16", f"{{name: lofi, {local[:-1]}, dtype: bf16}}}}", "{name: part}"),
                ("lo-fi, greedy soup (a tenth held out)", f"{{name: lofi, {local}, lofi: {{soup: greedy}}}}",
                 "{name: part, hold_out_every: 10}"),
                ("lo-fi, 0.7 of the way from the base", f"{{name: lofi, {local}, lofi: {{interpolate: 0.7}}}}",
                 "{name: part}")]:
            status, model = bench.train(method, RATE, 1, seed, base=base, data=data)
            add(name, bench.of_model(model), megabytes(status))
        repeated = f"{{name: lofi, local: {{steps: {steps // 12}, optimiser: adamw}}, lofi: {{outer: nesterov}}}}"
        status, model = bench.train(repeated, RATE, 12, seed, base=base)
        add("12 averages, Nesterov outside (DiLoCo)", bench.of_model(model), megabytes(status))
        status, model = bench.train("{name: global_adamw}", RATE, steps, seed, base=base)
        add("AdamW, communicating each step", bench.of_model(model), megabytes(status))
        print(f"seed {seed} done", file=sys.stderr)
    print(f"{WORKERS} workers, {steps} steps of {BATCH} samples each from a base of {BASE_ROUNDS} rounds, seeds "
          f"{', '.join(map(str, bench.options.seeds))}:\n")
    print("| model | test accuracy, % | shifted, % | MB up a worker |\n|---|---|---|---|")
    for name, runs in table.items():
        test, shift, sent = zip(*runs)
        print(f"| {name} | {spread(test)} | {spread(shift)} | {statistics.mean(sent):,.1f} |")


def fish(bench: Bench) -> None:
    every, epochs = 10, 2
    rounds = epochs * EPOCH // every
    local = f"local: {{steps: {every}, optimiser: adamw}}"
    table = {}
    for seed in bench.options.seeds:
        _, base = bench.train("{name: global_adamw}", 1e-3, BASE_ROUNDS, seed,
                              data=f"{{name: {bench.options.base}}}")
        for workers in (2, 4):
            def add(row, method):
                status, model = bench.train(method, 1e-3, rounds, seed, base=base,
                                            workers=f"{{count: {workers}}}")
                table.setdefault((workers, row), []).append((bench.of_model(model)[0], megabytes(status)))
            add("the base", f"{{name: lofi, local: {{steps: 1, optimiser: sgd}}, "
                            f"lofi: {{outer_learning_rate: 1e-9}}}}") if workers == 2 else None
            add("dense", f"{{name: lofi, {local[:-1]}, weights: samples}}}}")
            for density in bench.options.densities:
                for kind in ("empirical", "random"):
                    samples = "" if kind == "random" else ", samples: 256"
                    for refresh, words in ((EPOCH // every, "refreshed each epoch"), (0, "fixed")):
                        add(f"{100 * density:g}%, {'FISH' if kind != 'random' else 'random'}, {words}",
                            f"{{name: fish, {local}, fish: {{density: {density}, fisher: {kind}{samples}, "
                            f"refresh_every: {refresh}}}}}")
            add("10%, FISH, refreshed each epoch, one bit a value",
                f"{{name: fish, {local[:-1]}, dtype: sign}}, "
                f"fish: {{density: 0.1, samples: 256, refresh_every: {EPOCH // every}}}}}")
        print(f"seed {seed} done", file=sys.stderr)
    print(f"{rounds} exchanges after {every} local steps of {BATCH} samples each, from a base trained on "
          f"{bench.options.base} images, seeds {', '.join(map(str, bench.options.seeds))}:\n")
    print("| mask | 2 workers, % | MB up | 4 workers, % | MB up |\n|---|---|---|---|---|")
    for row in dict.fromkeys(row for _, row in table):
        cells = []
        for workers in (2, 4):
            runs = table.get((workers, row))
            cells += [spread([a for a, _ in runs]), f"{statistics.mean(b for _, b in runs):,.1f}"] if runs else ["", ""]
        print(f"| {row} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("table", choices=("lofi", "fish"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 52, 62])
    parser.add_argument("--densities", type=float, nargs="+", default=[0.005, 0.02, 0.1])
    parser.add_argument("--base", choices=("mirrored", "upside-down"), default="mirrored",
                        help="fish: what the base has been trained on, near the task or far from it")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        with bench.cluster:
            (lofi if options.table == "lofi" else fish)(bench)


if __name__ == "__main__":
    main()
