#!/usr/bin/env python3
"""Forges files with correct checksums whose contents FileFormat.md forbids, or allows.

forged.py MORAINE SCRATCH: compares the verdicts of the reader and of the program on each
"""

import os
import shutil
import struct
import subprocess
import sys

import read_store
from moraine_format import Newer, Violation, crc32c
from segments import FOOTER, MARK, PUT, number


def manifest(change):
    """Changes the manifest's bytes, and corrects its length and checksum."""
    def forge(directory):
        path = os.path.join(directory, "MANIFEST")
        with open(path, "rb") as file:
            data = bytearray(file.read()[:-4])
        change(data)
        struct.pack_into("<I", data, 12, len(data) + 4)
        with open(path, "wb") as file:
            file.write(data + struct.pack("<I", crc32c(data)))
    return forge


def segment(change):
    """Changes the first segment of the store, and corrects the checksum of its header."""
    def forge(directory):
        path = min(os.path.join(directory, name) for name in os.listdir(directory)
                   if name.endswith(".segment"))
        with open(path, "rb") as file:
            data = bytearray(file.read())
        change(data)
        struct.pack_into("<I", data, 124, crc32c(data[:124] + data[128:number(data, 12, 4)]))
        with open(path, "wb") as file:
            file.write(data)
    return forge


def patch(offset, layout, value):
    return lambda data: struct.pack_into(layout, data, offset, value)


def record(kind, offset, layout, value, which=-1):
    """Changes one record of a kind, the last by default, and corrects its checksum."""
    def change(data):
        place, places = number(data, 12, 4), []
        while place + 20 <= len(data) and number(data, place, 4) >= 20:
            if data[place + 15] & 15 == kind:
                places.append(place)
            place += (number(data, place, 4) + 3) // 4 * 4
        wanted = places[which]
        length = number(data, wanted, 4)
        struct.pack_into(layout, data, wanted + offset, value)
        seed = data[16:48] + data[80:88] + struct.pack("<QI", wanted, length)
        struct.pack_into("<I", data, wanted + 4, crc32c(seed + data[wanted + 8:wanted + length]))
    return segment(change)


def section(tag, flags, payload):
    def change(data):
        struct.pack_into("<I", data, 156, number(data, 156, 4) + 1)
        data += struct.pack("<HHI", tag, flags, len(payload)) + payload
    return manifest(change)


def split(data):
    """Splits the first section, of segments, into two: 30 bytes, then the others."""
    tag, flags, length = struct.unpack_from("<HHI", data, 160)
    data[160:168] = struct.pack("<HHI", tag, flags, 30)
    data[198:198] = struct.pack("<HHI", tag, flags, length - 30)
    struct.pack_into("<I", data, 156, number(data, 156, 4) + 1)


NEWER = {
    "another manifest version": manifest(patch(8, "<H", 2)),
    "a manifest flag to be understood": manifest(patch(152, "<I", 1 << 20)),
    "entry bytes that must be zero": manifest(patch(168 + 60, "<B", 1)),
    "a section to be understood": section(77, 1, b"abcd"),
    "a keyspace of another index": section(2, 1, b"\1\0\7\1a"),
    "an ordered keyspace of another index": section(5, 1, b"\0\0\2\0"),
    "another segment version": segment(patch(8, "<H", 2)),
    "header bytes that must be zero": segment(patch(110, "<B", 1)),
    "a header flag to be understood": segment(patch(96, "<I", 1 << 17)),
    "an encrypted segment": segment(patch(96, "<I", 4)),
    "a record of an unknown kind": record(PUT, 15, "<B", 9),
    "a record of an unknown codec": record(PUT, 15, "<B", 0x31),
    "a record of an unknown batch field": record(PUT, 15, "<B", 0xC1),
    "a record with an unknown flag": record(PUT, 16, "<B", 0x40),
    "an extension to be understood": record(PUT, 16, "<B", 0x20),
    "a key beyond its record": record(PUT, 17, "<H", 5000),
    "an impossible raw length": record(PUT, 15, "<B", 0x11),
    "a mark with a flag": record(MARK, 16, "<B", 8),
    "footer bytes that must be zero": record(FOOTER, 20 + 50, "<B", 1),
}
FORBIDDEN = {
    "an epoch before the segments'": manifest(patch(64, "<Q", 0)),
    "a last sequence before the segments'": manifest(patch(80, "<Q", 1)),
    "a feed horizon after the last sequence": manifest(patch(96, "<Q", 1 << 40)),
    "a next number that is listed": manifest(patch(88, "<Q", 1)),
    "sections that are not there": manifest(patch(156, "<I", 9)),
    "an entry in two sections": manifest(split),
    "half a keyspace": section(2, 1, bytes([1, 0, 0, 9])),
    "a name for keyspace 0": section(2, 1, b"\0\0\0\1a"),
    "a keyspace of the system": section(2, 1, b"\0\xff\0\1a"),
    "a keyspace without a name": section(2, 1, b"\1\0\0\0"),
    "two names for a keyspace": section(2, 1, b"\1\0\0\1a\1\0\0\1b"),
    "two keyspaces of a name": section(2, 1, b"\1\0\0\1a\2\0\0\1a"),
    "two spellings of a name": section(2, 1, b"\1\0\0\2\xc3\xa9\2\0\0\3e\xcc\x81"),
    "an ordered keyspace that is not listed": section(5, 1, b"\1\0\1\0"),
    "an ordered keyspace that only one section knows": section(2, 1, b"\1\0\1\1a"),
    "an ordered keyspace listed twice": section(5, 1, b"\0\0\1\0\0\0\1\0"),
    "cuts that fall": section(4, 0, struct.pack("<QQQQQQ", 2, 0, 1, 1, 1, 1)),
    "a cut after the log": section(4, 0, struct.pack("<QQQ", 1, 1 << 40, 1)),
    "half a cut": section(4, 0, bytes(12)),
    "a later generation": segment(patch(72, "<Q", 999)),
    "a key id without the flag": segment(patch(104, "<I", 5)),
    "another store": segment(patch(16, "<Q", 5)),
    "a predecessor after all numbers": segment(patch(64, "<Q", 1 << 56)),
    "a batch count": record(PUT, 15, "<B", 0x81),
    "a batch without an end": record(PUT, 15, "<B", 0x41),
    "a keyspace that is not listed": record(PUT, 16, "<H", 1 | 2 << 8),
    "a clustered segment that no compaction wrote": segment(patch(96, "<I", 1 << 16)),
    "a clustered segment that the manifest does not name so":
        segment(patch(96, "<I", 1 << 16 | 1)),
    "a sequence number that does not rise": record(PUT, 8, "<I", 1),
    "a footer of another count": record(FOOTER, 20, "<Q", 9),
    "a footer of another first number": record(FOOTER, 28, "<Q", 2),
    "a footer of another last number": record(FOOTER, 36, "<Q", 1),
    "an older footer": record(FOOTER, 8, "<I", 1),
    "another footer digest": record(FOOTER, 20 + 32, "<Q", 1),
    "a mark that promises too much": record(MARK, 20, "<Q", 1 << 20),
    "an older mark": record(MARK, 8, "<I", 0),
}
ALLOWED = {
    "nothing": manifest(lambda data: None),
    "an unknown flag": manifest(patch(152, "<I", 2)),
    "an unknown section": section(77, 0, b"abcd"),
    "unknown section flags": section(77, 0xFFFE, b"abcd"),
    "a segment flag of the manifest": manifest(patch(168 + 58, "<H", 1)),
    "an ordered unnamed keyspace": section(5, 1, b"\0\0\1\0"),
    "a cut": section(4, 0, struct.pack("<QQQ", 1, 1, 1)),
    "a mark far ahead": record(MARK, 12, "<B", 1),
    "a tag again": section(1, 1, b""),
    "keyspaces": section(2, 1, b"\1\0\0\1a\7\0\0\1b"),
    "an unknown header flag": segment(patch(96, "<I", 1 << 9)),
}
# Forgeries of a store whose first segment is clustered. Its records are a = 3, b = 2, c = 4, d = 1;
# the next segment has b = 5, so that b = 2 is not live.
CLUSTERED_NEWER = {
    "a record of an unknown kind in a clustered segment": record(PUT, 15, "<B", 9),
}
CLUSTERED_FORBIDDEN = {
    "a clustered segment that its header does not name so": segment(patch(96, "<I", 1)),
    "a sequence number that occurs twice": record(PUT, 8, "<I", 3, which=1),
    "a sequence number that occurs twice, not in neighbours": record(PUT, 8, "<I", 1, which=1),
    "a batch in a clustered segment": record(PUT, 15, "<B", 0x41, which=1),
    "a clustered record after the next segment": record(PUT, 8, "<I", 9, which=1),
    "a clustered footer of another first number": record(FOOTER, 28, "<Q", 2),
    "a clustered footer of another last number": record(FOOTER, 36, "<Q", 3),
}
CLUSTERED_ALLOWED = {
    "nothing in a clustered store": manifest(lambda data: None),
    "an unknown header flag of a clustered segment": segment(patch(96, "<I", 1 << 16 | 1 << 9 | 1)),
}


def forge(source, target, change):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    change(target)


def verdict(directory):
    try:
        return read_store.lines(directory), 0, "reads it"
    except Violation as violation:
        return None, 7 if isinstance(violation, Newer) else 3, str(violation)


def make(moraine, store, lines, *options):
    """Makes a store."""
    shutil.rmtree(store, ignore_errors=True)
    os.makedirs(store)
    subprocess.run(
        [moraine, "drive", store, "--durability", "none", *options], check=True, text=True,
        stdout=subprocess.DEVNULL, input="".join(line + "\n" for line in lines))
    return store


def forgeries(moraine, scratch):
    """Makes the stores to forge. Returns the store, the forgeries and the verdict for each group."""
    plain = make(
        moraine, os.path.join(scratch, "forged-from"),
        ["put 6b31 76", "sync", "put 6b32 7777777777", "sync", "close"])
    clustered = make(
        moraine, os.path.join(scratch, "forged-from-clustered"),
        ["put 64 01", "put 62 02", "put 61 03", "put 63 04", "compact", "put 62 05", "close"],
        "--ordered")
    return [(plain, NEWER, 7), (plain, FORBIDDEN, 3), (plain, ALLOWED, 0),
            (clustered, CLUSTERED_NEWER, 7), (clustered, CLUSTERED_FORBIDDEN, 3),
            (clustered, CLUSTERED_ALLOWED, 0)]


def check(moraine, scratch):
    """Checks that the reader and the program refuse the forbidden files, and no others."""
    target, count = os.path.join(scratch, "forged"), 0
    for store, cases, outcome in forgeries(moraine, scratch):
        expected = read_store.lines(store) if outcome == 0 else None
        for name, change in cases.items():
            forge(store, target, change)
            lines, found, text = verdict(target)
            assert (lines, found) == (expected, outcome), f"forged: {name}: {text}"
            code = verify(moraine, target).returncode
            assert code == outcome, f"forged: {name}: verify exits {code}"
            count += 1
    return count


def verify(moraine, target):
    return subprocess.run([moraine, "verify", target], capture_output=True, text=True)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    target = os.path.join(sys.argv[2], "forged")
    for store, cases, outcome in forgeries(sys.argv[1], sys.argv[2]):
        for name, change in cases.items():
            forge(store, target, change)
            program = verify(sys.argv[1], target)
            print(f"expected {outcome}: {name}: moraine verify exits {program.returncode}; "
                  f"reader: {verdict(target)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
