#!/usr/bin/env python3
"""Compares the independent reader of archives with a sample archive of the tests.

compare_archive.py SAMPLE SCRATCH [--seed N]

SAMPLE is the folder that MORAINE_ARCHIVE_SAMPLE named for the tests of MoraineArchive: the archive,
and a backup of each of its states. Each state must be rebuilt, and each damaged object refused.
"""

import argparse
import os
import random
import shutil
import sys

import archive_reader
import read_store
from moraine_format import Violation, crc32c
from segments import number


def verdict(root, position=None):
    """Returns the violation that a reader finds; None when it finds none."""
    try:
        archive = archive_reader.Archive(root)
        archive.state(archive.newest_cut() if position is None else position)
    except Violation as violation:
        return violation
    return None


def find_archive(folder):
    for path, _, files in os.walk(folder):
        if "archive" in files:
            return path
    sys.exit(f"{folder} has no archive")


def compare_states(root, sample, scratch):
    archive = archive_reader.Archive(root)
    positions = sorted(int(name) for name in os.listdir(os.path.join(sample, "states")))
    for position in range(1, archive.head + 1):
        state = os.path.join(sample, "states", str(position))
        if position not in positions:
            assert verdict(root, position), f"position {position} is no cut, and was accepted"
            continue
        out = os.path.join(scratch, f"out-{position}")
        archive_reader.extract(archive.state(position), out)
        for keyspace in read_store.Reader(state).manifest.keyspaces.values():
            expected = read_store.lines(state, keyspace)
            assert read_store.lines(out, keyspace) == expected, f"position {position}: {keyspace}"
    assert archive.newest_cut() == positions[-1]
    assert verdict(root, archive.head + 1), "a position after the head was accepted"
    return len(positions)


def damage(root, scratch, chance):
    """Damages each object: a flipped bit, a byte less, a byte more."""
    copy = os.path.join(scratch, "damaged")
    shutil.copytree(root, copy)
    count = 0
    for path, _, files in sorted(os.walk(copy)):
        for file in sorted(files):
            name = os.path.join(path, file)
            with open(name, "rb") as stream:
                data = stream.read()
            place = chance.randrange(len(data))
            flipped = bytearray(data)
            flipped[place] ^= 1 << chance.randrange(8)
            for changed in (flipped, data[:place], data + b"\0"):
                with open(name, "wb") as stream:
                    stream.write(changed)
                assert verdict(copy), f"{name}: damage at {place} of {len(data)} was accepted"
                count += 1
            with open(name, "wb") as stream:
                stream.write(data)
    assert verdict(copy) is None
    return count


def forge(root, scratch):
    """Breaks the chain of objects, with correct checksums, or by removing objects."""
    def patched(name, place, change):
        def apply(copy):
            path = os.path.join(copy, name)
            with open(path, "rb") as stream:
                data = bytearray(stream.read())
            end = number(data, 12, 4) if name.startswith("log/") else len(data)
            data[place] = (data[place] + change) % 256
            data[end - 4:end] = crc32c(data[:end - 4]).to_bytes(4, "little")
            with open(path, "wb") as stream:
                stream.write(data)
        return apply

    def removed(name):
        return lambda copy: os.remove(os.path.join(copy, name))

    # The newest checkpoint of the sample is at position 4, and a fence with the base 8 at 11.
    log, fence = "log/000000000000008", "log/000000000000011"
    changes = [patched(log, place, 1) 
                for place in (16, 32, 40, 48, 64, 80, 88, 104, 184, 192, 200, 208)]
    changes += [patched("log/000000000000012", place, change) for place, change in
                ((88, 1), (96, -1), (104, 1), (120, 1))]
    changes += [patched(fence, place, change) for place, change in
                ((40, -1), (40, 1), (80, -1), (136, -1), (136, 1), (144, 1), (152, 1))]
    # A beat, a close and a fence, which add nothing to the log.
    changes += [patched(name, place, 1) for place in (184, 192, 200, 208)
                for name in ("log/000000000000005", "log/000000000000006", fence)]
    changes += [patched("chk/0000000002", place, 1) for place in (12, 28, 36, 52, 68, 76, 84, 100)]
    changes += [patched("term/0000000001", place, 1) for place in (12, 28)]
    changes += [patched("archive", place, 1) for place in (12, 28, 52)]
    changes += [removed(name) for name in
                ("archive", "chk/0000000001", "term/0000000001", "term/0000000003", log, fence)]
    for index, change in enumerate(changes):
        copy = os.path.join(scratch, f"forged-{index}")
        shutil.copytree(root, copy)
        change(copy)
        found = verdict(copy)
        if found is None:
            # The chain is right; the records of the newest state show the forgery.
            archive = archive_reader.Archive(copy)
            try:
                archive_reader.extract(archive.state(archive.newest_cut()), copy + "-out")
            except Violation as violation:
                found = violation
        assert found, f"forgery {index} was accepted"
    return len(changes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sample")
    parser.add_argument("scratch")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shutil.rmtree(options.scratch, ignore_errors=True)
    os.makedirs(options.scratch)
    root = find_archive(os.path.join(options.sample, "archive"))
    states = compare_states(root, options.sample, options.scratch)
    count = damage(root, options.scratch, random.Random(options.seed))
    forgeries = forge(root, options.scratch)
    print(f"seed {options.seed}: {states} states rebuilt, {count} damaged objects and {forgeries} "
          "forgeries refused")


if __name__ == "__main__":
    main()
