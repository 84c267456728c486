#!/usr/bin/env python3
"""Summarizes an lcov file.  coverage.py LCOV UNCOVERED WORST-FILES

Prints the line coverage of each module. Writes the uncovered lines to the file UNCOVERED, and
prints those of the worst files. Lines that stop the program in an impossible state (`fatalError`,
`precondition`) cannot be reached, but they count as well.
"""

import os
import sys
from collections import defaultdict


def read(path):
    """Returns the counts of each file: {file: {line: count}}. A line may occur more than once."""
    files, name = defaultdict(dict), None
    with open(path, encoding="utf-8") as text:
        for line in text:
            if line.startswith("SF:"):
                name = os.path.relpath(line[3:].strip())
            elif line.startswith("DA:"):
                number, count = (int(part) for part in line[3:].split(",")[:2])
                files[name][number] = max(count, files[name].get(number, 0))
    return files


def ranges(numbers):
    """Joins consecutive numbers: 3, 4, 5, 9 -> (3, 5), (9, 9)."""
    result = []
    for number in sorted(numbers):
        if result and number == result[-1][1] + 1:
            result[-1][1] = number
        else:
            result.append([number, number])
    return result


def listing(name, lines):
    with open(name, encoding="utf-8") as text:
        source = text.read().split("\n")
    missing = [number for number, count in lines.items() if count == 0]
    yield f"{name}: {len(missing)} of {len(lines)} lines"
    for first, last in ranges(missing):
        for number in range(first, last + 1):
            yield f"  {number:4} {source[number - 1]}"


def main():
    files = read(sys.argv[1])
    modules = defaultdict(lambda: [0, 0])
    for name, lines in files.items():
        module = modules[name.split(os.sep)[1]]
        module[0] += sum(count > 0 for count in lines.values())
        module[1] += len(lines)
    least = 100.0
    for module, (reached, total) in sorted(modules.items()):
        least = min(least, 100 * reached / total)
        print(f"{module:16} {100 * reached / total:6.2f} % of {total} lines")
    reached, total = (sum(figures) for figures in zip(*modules.values()))
    print(f"{'together':16} {100 * reached / total:6.2f} % of {total} lines")
    worst = sorted(files.items(), key=lambda item: -sum(not count for count in item[1].values()))
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for name, lines in worst:
            if not all(lines.values()):
                out.write("\n".join(listing(name, lines)) + "\n")
    for name, lines in worst[:int(sys.argv[3])]:
        if not all(lines.values()):
            print("\n".join(listing(name, lines)))
    return least < float(os.environ.get("MORAINE_LEAST_COVERAGE", "0"))


if __name__ == "__main__":
    sys.exit(main())
