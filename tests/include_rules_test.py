#!/usr/bin/env python3
"""Enforces who may include whom: the rooms of the source tree, and no cycles.

  include_rules_test.py ROOT [--program BUILD/bin/tally-server ...]   checks the tree, and that the
                                                                      programs load no LibTorch
  include_rules_test.py --self-test                                   each breach is noticed
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOMS = ("common", "server", "worker", "client", "proto", "tests")
# From a room to the rooms that it may include besides itself. tests/ may include everything.
MAY_INCLUDE = {
    "proto": set(),
    "common": {"proto"},
    "server": {"common", "proto"},
    "worker": {"common", "proto"},
    "client": {"common", "proto"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
FOLDER_DEPS = re.compile(r"tally_folder\(([^)]*)\)", re.S)


def source_files(root):
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            for name in names:
                if name.endswith((".h", ".cc", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(folder, name), root)


class Tree:
    """The sources below a root: who includes what, and which folder (CMake target) each is of."""

    def __init__(self, root):
        self.root = root
        self.includes = {}  # file -> [(line number, quoted?, path)]
        for path in sorted(source_files(root)):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                self.includes[path] = [
                    (number, match[1] == '"', match[2])
                    for number, match in enumerate(map(INCLUDE.match, file), 1) if match]

    def ours(self):
        """(file, line, included file) for includes of the tree's own files."""
        for path, includes in self.includes.items():
            for number, quoted, target in includes:
                if quoted and target in self.includes:
                    yield path, number, target

    def folder(self, path):
        """The nearest folder with a CMakeLists.txt: sub-folders without one are plug-ins of it."""
        folder = os.path.dirname(path)
        while "/" in folder and not os.path.exists(
                os.path.join(self.root, folder, "CMakeLists.txt")):
            folder = os.path.dirname(folder)
        return folder

    def cmake_deps(self, folder):
        """What a folder may use by its CMakeLists.txt, itself and indirect ones included."""
        seen, todo = set(), [folder]
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            try:
                with open(os.path.join(self.root, at, "CMakeLists.txt"), encoding="utf-8") as file:
                    text = re.sub(r"#.*", "", file.read())
            except FileNotFoundError:
                continue
            for call in FOLDER_DEPS.findall(text):
                words = call.split("DEPS", 1)[-1].split()
                todo += [word.replace("_", "/", 1) for word in words
                         if word.split("_")[0] in ("common", "server")]
        return seen


def room_breaches(tree):
    for path, number, target in tree.ours():
        room, other = path.split("/")[0], target.split("/")[0]
        if room in MAY_INCLUDE and other != room and other not in MAY_INCLUDE[room]:
            yield f"{path}:{number}: {room}/ may not include {other}/: {target}"


def torch_breaches(tree):
    for path, includes in tree.includes.items():
        if path.startswith(("worker/", "tests/worker/", "tests/bench/worker/")):
            continue
        for number, _, target in includes:
            if TORCH.match(target):
                yield f"{path}:{number}: LibTorch is worker/'s alone: {target}"


def missing_files(tree):
    for path, includes in tree.includes.items():
        for number, quoted, target in includes:
            generated = target.endswith((".pb.h", ".pb.cc"))
            if (quoted and target.split("/")[0] in ROOMS and not generated and
                    target not in tree.includes):
                yield f"{path}:{number}: no such file from the root: {target}"


# base <- {config, layout, checkpoint, wire, rpc, spec, reduction} <- update
def layer_breaches(tree):
    for path, number, target in tree.ours():
        here, there = tree.folder(path), tree.folder(target)
        if not path.startswith("common/") or not target.startswith("common/") or here == there:
            continue
        if here == "common/base":
            yield f"{path}:{number}: common/base includes nothing of ours: {target}"
        elif there == "common/update":
            yield f"{path}:{number}: common/update is above {here}: {target}"


def undeclared_breaches(tree):
    """Only folders whose target is one tally_folder() call: all of common/ and server/."""
    for path, number, target in tree.ours():
        here, there = tree.folder(path), tree.folder(target)
        if not path.startswith(("common/", "server/")) or here == there or "/" not in there:
            continue
        if there not in tree.cmake_deps(here):
            yield f"{path}:{number}: {here}/CMakeLists.txt has no {there}: {target}"


def find_cycle(edges):
    """One cycle of a graph {node: set of nodes} as a list, or None."""
    done, on_path = set(), []

    def visit(node):
        if node in on_path:
            return on_path[on_path.index(node):] + [node]
        if node in done:
            return None
        on_path.append(node)
        for other in sorted(edges.get(node, ())):
            cycle = visit(other)
            if cycle:
                return cycle
        on_path.pop()
        done.add(node)
        return None

    for node in sorted(edges):
        cycle = visit(node)
        if cycle:
            return cycle
    return None


def cycles(tree):
    files, folders = {}, {}
    for path, _, target in tree.ours():
        files.setdefault(path, set()).add(target)
        here, there = tree.folder(path), tree.folder(target)
        if here != there:
            folders.setdefault(here, set()).add(there)
    for what, edges in (("files", files), ("folders", folders)):
        cycle = find_cycle(edges)
        if cycle:
            yield f"cycle of {what}: " + " -> ".join(cycle)


RULES = (room_breaches, torch_breaches, missing_files, layer_breaches, undeclared_breaches, cycles)


def breaches(root):
    tree = Tree(root)
    return [breach for rule in RULES for breach in rule(tree)]


def torch_libraries(program):
    """Names of LibTorch's libraries that the program loads."""
    loaded = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^\s*(lib(?:torch|c10)\S*)", loaded, re.M)


class SelfTest(unittest.TestCase):
    """Each rule, broken once in a tree of a few lines."""

    GOOD = {
        "common/base/CMakeLists.txt": "tally_folder(DEPS absl::status)",
        "common/base/status.h": "",
        "common/layout/CMakeLists.txt": "tally_folder(DEPS common_base proto)",
        "common/layout/layout.h": '#include "common/base/status.h"\n#include "proto/t.pb.h"\n',
        "common/update/CMakeLists.txt": "tally_folder(DEPS common_layout)",
        "common/update/step.h": '#include "common/base/status.h"\n',
        "server/app/CMakeLists.txt": "tally_folder(DEPS common_update)",
        "server/app/main.cc": '#include "common/update/step.h"\n#include <torchure.h>\n',
        "worker/CMakeLists.txt": "",
        "worker/loop.cc": '#include "common/update/step.h"\n#include <torch/torch.h>\n',
        "client/cli.cc": '#include "common/base/status.h"\n',
    }

    def found(self, **changes):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**self.GOOD, **changes}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return breaches(root)

    def expect_breach(self, path, include, words):
        found = self.found(**{path: f"#pragma once\n#include {include}\n"})
        self.assertTrue(any(words in breach for breach in found), found)

    def test_a_clean_tree_passes(self):
        self.assertEqual(self.found(), [])

    def test_rooms(self):
        for path, target, words in (
                ("common/base/x.h", "server/app/main.cc", "common/ may not include server/"),
                ("common/base/x.h", "worker/loop.cc", "common/ may not include worker/"),
                ("common/base/x.h", "client/cli.cc", "common/ may not include client/"),
                ("server/app/x.cc", "worker/loop.cc", "server/ may not include worker/"),
                ("server/app/x.cc", "client/cli.cc", "server/ may not include client/"),
                ("worker/x.cc", "server/app/main.cc", "worker/ may not include server/"),
                ("client/x.cc", "server/app/main.cc", "client/ may not include server/"),
                ("client/x.cc", "worker/loop.cc", "client/ may not include worker/")):
            self.expect_breach(path, f'"{target}"', f"{path}:2: {words}")

    def test_torch_outside_the_worker(self):
        for include in ("<torch/torch.h>", '"ATen/ATen.h"', "<c10/util/Exception.h>"):
            for path in ("server/app/x.cc", "common/base/x.h", "client/x.cc", "tests/client/x.cc"):
                self.expect_breach(path, include, f"{path}:2: LibTorch is worker/'s alone")

    def test_layers_of_common(self):
        self.expect_breach("common/base/x.h", '"common/layout/layout.h"',
                           "common/base includes nothing of ours")
        self.expect_breach("common/layout/x.h", '"common/update/step.h"',
                           "common/update is above common/layout")

    def test_a_folder_that_cmake_does_not_name(self):
        found = self.found(**{
            "common/wire/CMakeLists.txt": "tally_folder(DEPS common_base)",
            "common/wire/frame.h": '#include "common/layout/layout.h"\n'})
        self.assertEqual(found, ["common/wire/frame.h:1: common/wire/CMakeLists.txt has no "
                                 "common/layout: common/layout/layout.h"])

    def test_a_file_that_is_not_there(self):
        self.expect_breach("client/x.cc", '"client/gone.h"', "client/x.cc:2: no such file")

    def test_cycles(self):
        found = self.found(**{"client/a.h": '#include "client/b.h"\n',
                              "client/b.h": '#include "client/a.h"\n'})
        self.assertEqual(found, ["cycle of files: client/a.h -> client/b.h -> client/a.h"])
        found = self.found(**{
            "server/job/CMakeLists.txt": "tally_folder(DEPS server_app)",
            "server/app/CMakeLists.txt": "tally_folder(DEPS common_update server_job)",
            "server/job/a.h": '#include "server/app/b.h"\n', "server/app/b.h": "",
            "server/app/c.h": '#include "server/job/d.h"\n', "server/job/d.h": ""})
        self.assertEqual(found, ["cycle of folders: server/app -> server/job -> server/app"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?")
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        unittest.main(argv=[sys.argv[0]])
    if arguments.root is None:
        parser.error("ROOT is missing")
    found = breaches(arguments.root)
    if not any(source_files(arguments.root)):
        found.append(f"{arguments.root}: no sources there")
    for program in arguments.program:
        found += [f"{program}: loads {name}" for name in torch_libraries(program)]
    print("\n".join(found) or "no breach", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
