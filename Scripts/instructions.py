#!/usr/bin/env python3
"""Evaluates callgrind's files for Scripts/instructions."""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter

# Functions of the allocator and of the Swift runtime. Each call counts as one.
ALLOCATIONS = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"}
RETAINS = {"swift_retain", "swift_retain_n", "swift_bridgeObjectRetain"}
RELEASES = {"swift_release", "swift_release_n", "swift_bridgeObjectRelease"}
NAME = re.compile(r"\((\d+)\)(?: (.*))?")


class Profile:
    """Instructions and calls of one run, by function. Callees have their own instructions."""

    def __init__(self, path):
        self.instructions = Counter()
        self.calls = Counter()
        names = {}
        function = ""
        is_call = False
        for line in open(path, encoding="utf-8"):
            key, equals, rest = line.rstrip("\n").partition("=")
            if equals and key in ("fn", "cfn"):
                number, name = NAME.match(rest).groups()
                if name is not None:
                    # Ignore the file: the compiler may name several files for one function.
                    names[number] = name.split("'")[0]
                if key == "fn":
                    function = names[number]
                else:
                    called = names[number]
            elif equals and key == "calls":
                self.calls[called] += int(rest.split()[0])
                is_call = True
            elif line[:1] in "+-*0123456789" and not equals:
                # The line after a call has the cost of the called function: skip it.
                if not is_call:
                    self.instructions[function] += int(line.split()[1])
                is_call = False


class Row:
    """The difference of two runs, divided by the number of operations."""

    def __init__(self, folder, row, count):
        once, twice = (Profile(f"{folder}/{row}-{n}.out") for n in (count, 2 * count))
        self.count = count
        self.instructions = twice.instructions
        self.instructions.subtract(once.instructions)
        self.calls = twice.calls
        self.calls.subtract(once.calls)

    def each(self, number):
        return number / self.count

    def calls_of(self, names):
        # `abs` avoids minus zero.
        return abs(round(sum(self.each(self.calls[name]) for name in names), 2))

    def figures(self):
        # The cost of starting and ending a process varies slightly. So leave out a function that is
        # called less than once in 200 operations and takes less than half an instruction of each.
        spent = sum(
            spent for name, spent in self.instructions.items()
            if abs(spent) >= self.count / 2 or self.calls[name] >= self.count / 200)
        return {
            "instructions": round(self.each(spent)),
            "allocations": self.calls_of(ALLOCATIONS),
            "retains": self.calls_of(RETAINS),
            "releases": self.calls_of(RELEASES),
        }

    def print_functions(self, limit):
        found = self.instructions.most_common(limit)
        print(f"{'instructions':>12} {'calls':>7}  function")
        for name, (title, _) in zip(demangled([name for name, _ in found]), found):
            each, calls = self.each(self.instructions[title]), self.each(self.calls[title])
            print(f"{each:12.1f} {calls:7.2f}  {name}")


def demangled(names):
    try:
        output = subprocess.run(
            ["swift", "demangle", "--compact"], input="\n".join(names), text=True,
            capture_output=True, check=True).stdout
        return output.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return names


def above(figures, thresholds, tolerance):
    """Yields a message for each figure that is worse than its threshold allows."""
    for row, found in figures.items():
        for name, figure in found.items():
            limit = thresholds.get(row, {}).get(name)
            if limit is None:
                yield f"{row}: {name}: no threshold; --update writes it"
            elif figure > limit * (1 + tolerance / 100) + 0.01:
                yield f"{row}: {name}: {figure} an operation, the threshold is {limit}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("count", type=int)
    parser.add_argument("rows", nargs="+")
    parser.add_argument("--thresholds", required=True)
    parser.add_argument("--tolerance", type=float, required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--functions", type=int, default=0)
    options = parser.parse_args()
    rows = {row: Row(options.folder, row, options.count) for row in options.rows}
    figures = {row: found.figures() for row, found in rows.items()}
    names = ["instructions", "allocations", "retains", "releases"]
    print(f"{'an operation':<14}" + "".join(f"{name:>14}" for name in names))
    for row, found in figures.items():
        print(f"{row:<14}" + "".join(f"{found[name]:>14}" for name in names))
    if options.functions:
        for row, found in rows.items():
            print(f"\n{row}")
            found.print_functions(options.functions)
    try:
        with open(options.thresholds, encoding="utf-8") as file:
            thresholds = json.load(file)
    except FileNotFoundError:
        thresholds = {}
    if options.update:
        with open(options.thresholds, "w", encoding="utf-8") as file:
            json.dump(thresholds | figures, file, indent=2)
            file.write("\n")
        return 0
    worse = list(above(figures, thresholds, options.tolerance))
    for line in worse:
        print(line, file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
