#!/usr/bin/env python3
"""Reads a Moraine store; written from FileFormat.md alone.  read_store.py [--expiry] DIR [KEYSPACE]

Prints `<key hex> <sequence> <value hex>` for every live record of the keyspace of that name, or of
the unnamed one, by sequence. With --expiry it prints `<key hex> <sequence> <milliseconds>` for
those of them that expire, counted from 1970. It has no clock: it hides no record that has expired.
Exit code 0: valid; 2: usage; 3: the store violates FileFormat.md; 7: a part of the store is of a
later version.
"""

import os
import sys
from collections import namedtuple
from unicodedata import normalize

from moraine_format import Newer, Violation, crc32c, digest_of, siphash13
from segments import DELETE, FOOTER, MARK, PUT, Segment, number

Entry = namedtuple("Entry", "number length count first last live epoch flags")
SEALED, CUT = 1, 2


class Manifest:
    def __init__(self, data):
        def fail(offset, what):
            raise Violation("MANIFEST", offset, what)

        if len(data) < 164 or data[:8] != b"MORAINEM" or number(data, 12, 4) != len(data):
            fail(0, "the file is not a manifest")
        if crc32c(data[:-4]) != number(data, len(data) - 4, 4):
            fail(len(data) - 4, "the checksum is wrong")
        if number(data, 8, 2) != 1 or number(data, 10, 2) or number(data, 152, 4) >> 16:
            raise Newer("MANIFEST", 8, "the format version is newer than this reader")
        self.store_id = data[16:32]
        self.k0, self.k1 = number(data, 48, 8), number(data, 56, 8)
        self.watermark_segment, self.watermark = number(data, 104, 8), number(data, 112, 8)
        self.compacted_through = number(data, 120, 8)
        self.digest = number(data, 128, 16)
        self.epoch, self.generation = number(data, 64, 8), number(data, 72, 8)
        self.last, self.next_number = number(data, 80, 8), number(data, 88, 8)
        if number(data, 96, 8) > self.last:
            fail(96, "deletes after the last sequence number cannot have been dropped")
        payloads = self._sections(data, fail)
        self.entries = self._entries(payloads[1], fail)
        self._check_keyspaces(payloads[2], fail)
        if len(payloads[3]) % 32:
            fail(160, "the list of epochs ends within an entry")
        self._check_cuts(payloads[4], fail)
        self._check_ordered(payloads[5], fail)

    def _sections(self, data, fail):
        """Reads the sections. A tag may occur repeatedly; each payload holds complete entries."""
        payloads = {1: b"", 2: b"", 3: b"", 4: b"", 5: b"", 7: b""}
        place = 160
        for _ in range(number(data, 156, 4)):
            if place + 8 > len(data) - 4:
                fail(place, "a section ends after the end of the file")
            tag, flags, length = (number(data, place, 2), number(data, place + 2, 2),
                                  number(data, place + 4, 4))
            place += 8
            if place + length > len(data) - 4:
                fail(place, "a section ends after the end of the file")
            if tag in payloads:
                if length % {1: 72, 2: 1, 3: 32, 4: 24, 5: 4, 7: 56}[tag]:
                    fail(place, "a section ends within an entry")
                payloads[tag] += data[place:place + length]
            elif flags & 1:
                raise Newer("MANIFEST", place, "the section is required and its tag is unknown")
            place += length
        if place != len(data) - 4:
            fail(place, "bytes follow the last section")
        return payloads

    def _entries(self, payload, fail):
        if len(payload) % 72:
            fail(160, "a section ends within an entry")
        entries = []
        for start in range(0, len(payload), 72):
            fields = [number(payload, start + 8 * index, 8) for index in range(7)]
            entry = Entry(*fields, number(payload, start + 56, 4))
            if any(payload[start + 60:start + 72]):
                raise Newer("MANIFEST", 160, f"reserved bytes of segment {entry.number} are not zero")
            if entry.number >= self.next_number or entry.epoch > self.epoch:
                fail(88, f"the number or epoch of segment {entry.number} is too large")
            if entry.last > self.last:
                fail(80, f"sequence numbers of segment {entry.number} exceed the last one of the store")
            entries.append(entry)
        if len({entry.number for entry in entries}) < len(entries):
            fail(160, "a segment is listed twice")
        is_open = [not entry.flags & SEALED for entry in entries]
        if sum(is_open) > 2 or is_open != sorted(is_open):
            fail(160, "a segment is open that must be sealed")
        return entries

    def _check_cuts(self, payload, fail):
        cuts = [(number(payload, place, 8), number(payload, place + 8, 8))
                for place in range(0, len(payload), 24)]
        if len(cuts) > 64 or any(not 0 < cut[0] < 1 << 63 or cut[1] > self.last for cut in cuts):
            fail(160, "the list of cuts is not plausible")
        for before, after in zip(cuts, cuts[1:]):
            if before[0] >= after[0] or before[1] >= after[1]:
                fail(160, "the sequence numbers of the cuts do not rise")

    def _check_keyspaces(self, payload, fail):
        place = 0
        self.keyspaces = {0: ""}
        self.indexes = {}
        while place < len(payload):
            end = place + 4 + number(payload, place + 3, 1)
            if place + 4 > len(payload) or end > len(payload):
                fail(160, "the list of keyspaces ends within an entry")
            try:
                name = payload[place + 4:end].decode()
            except UnicodeDecodeError:
                fail(160, "the name of a keyspace is not UTF-8")
            identifier = number(payload, place, 2)
            self.indexes[identifier] = number(payload, place + 2, 1)
            if self.indexes[identifier] > 1:
                raise Newer("MANIFEST", 160, "a keyspace has an unknown index")
            if identifier >= 0xFF00:
                fail(160, "a keyspace of the system has a name")
            spellings = [normalize("NFC", other) for other in self.keyspaces.values()]
            if identifier in self.keyspaces or normalize("NFC", name) in spellings:
                fail(160, "two keyspaces have the same number or name")
            self.keyspaces[identifier] = name
            place = end

    def _check_ordered(self, payload, fail):
        ordered = []
        for place in range(0, len(payload), 4):
            if number(payload, place + 2, 2) != 1:
                raise Newer("MANIFEST", 160, "an ordered keyspace has an unknown index")
            ordered.append(number(payload, place, 2))
        if sorted(set(ordered)) != ordered or not set(ordered) <= set(self.keyspaces):
            fail(160, "the list of ordered keyspaces is not plausible")
        if any((index == 1) != (identifier in ordered) for identifier, index in self.indexes.items()):
            fail(160, "the indexes of the keyspaces contradict each other")

    @property
    def is_clean(self):
        return all(entry.flags & SEALED for entry in self.entries)


class State:
    """The live records, and their digest."""

    def __init__(self, manifest):
        self.manifest = manifest
        self.live = {}
        self.newest = {}
        self.digest = 0
        self.last = 0

    def apply(self, record):
        k0 = self.manifest.k0 ^ record.keyspace
        hashed = siphash13(record.key, k0, self.manifest.k1)
        name = (record.keyspace, record.key)
        old, was_put = self.newest.get(name, (0, False))
        if record.sequence <= old:
            return  # an older version, which compaction has moved after a newer one
        self.newest[name] = (record.sequence, record.kind == PUT)
        if was_put:
            self.digest -= digest_of(hashed, old)
            del self.live[name]
        if record.kind == PUT:
            self.live[name] = (record.sequence, record.value, record.expiry)
            self.digest += digest_of(hashed, record.sequence)
        self.digest %= 1 << 128


class Reader:
    def __init__(self, directory):
        self.directory = directory
        self.manifest = Manifest(self.load("MANIFEST"))
        self.state = State(self.manifest)

    def load(self, name):
        try:
            with open(os.path.join(self.directory, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise Violation(name, 0, "the file is missing") from None

    def read(self):
        before = None
        for entry in self.manifest.entries:
            name = f"{entry.number:010d}.segment"
            data = self.load(name)
            if entry.flags & SEALED:
                self.read_sealed(Segment(name, self.cut(name, data, entry), self.manifest, entry),
                                 entry)
                continue
            segment = Segment(name, data, self.manifest, entry)
            if before is not None and not self.follows(segment, before):
                continue
            before = (entry, *self.read_open(segment, entry))
        if self.manifest.is_clean and self.state.digest != self.manifest.digest:
            raise Violation("MANIFEST", 128, "the digest does not match the segments")
        return self.state.live

    def cut(self, name, data, entry):
        is_longer = len(data) > entry.length and entry.flags & CUT
        if len(data) != entry.length and not is_longer:
            raise Violation(name, len(data), "the length differs from the length in the manifest")
        return data[:entry.length]

    def read_sealed(self, segment, entry):
        end, footer, count, first, last = self.replay(segment)
        if end != len(segment.data) or (footer is None) != bool(entry.flags & CUT):
            segment.fail(end, "a sealed segment ends before its listed end")
        if (count, first, last) != (entry.count, entry.first, entry.last):
            segment.fail(0, "the records differ from the counts in the manifest")

    def read_open(self, segment, entry):
        end, footer, _, _, _ = self.replay(segment)
        promised = self.promise
        if self.manifest.watermark_segment == entry.number:
            promised = max(promised, self.manifest.watermark)
        if footer is None:
            promised = max(promised, segment.farthest_promise(end))
        if promised > end:
            segment.fail(end, f"{promised} bytes were durable, and records among them are missing")
        return end, footer is not None

    def follows(self, segment, before):
        """Returns whether an open segment after another one counts."""
        entry, end, is_whole = before
        if is_whole:
            if segment.predecessor == (0, 0, 0):
                # It was created before the previous segment ended.
                return True
            if (segment.predecessor[:2] != (entry.number, end)
                    or segment.predecessor[2] < self.state.last):
                segment.fail(48, "the segment does not follow the previous segment")
            self.state.last = segment.predecessor[2]
            return True
        if self.manifest.watermark_segment == segment.number:
            raise Violation("MANIFEST", 104, "the previous segment was durable, and its end is missing")
        if segment.farthest_promise(segment.start):
            segment.fail(segment.start, "the previous segment was durable, and its end is missing")
        return False

    def replay(self, segment):
        """Applies the complete units. Returns their end, the footer, count, first, last."""
        offset = end = segment.start
        pending, footer, self.promise = [], None, 0
        before = self.state.last
        # The numbers that were read: needed only where they do not rise.
        self.sequences = set()
        count = first = last = 0
        while footer is None:
            record = segment.record(offset, len(segment.data))
            if record is None:
                break
            offset = record.end
            if record.kind in (MARK, FOOTER):
                self.check_mark(segment, record, pending)
                end = offset
                if record.kind == FOOTER:
                    footer = record
                continue
            pending.append(self.checked(segment, record, pending, before))
            if record.batch == 1:
                continue
            if record.batch == 2 and record.count != len(pending):
                segment.fail(record.offset, "the count of records in the batch is wrong")
            for operation in pending:
                self.state.apply(operation)
                count, last = count + 1, max(last, operation.sequence)
                first = min(first or operation.sequence, operation.sequence)
            pending, end = [], offset
        if footer and tuple(number(footer.value, at, 8) for at in (0, 8, 16)) != (
                count, first, last):
            segment.fail(footer.offset, "the footer does not match the records")
        return end, footer, count, first, last

    def checked(self, segment, record, pending, before):
        if record.keyspace < 0xFF00 and record.keyspace not in self.manifest.keyspaces:
            segment.fail(record.offset, "the manifest does not list the keyspace")
        if record.offset >= 1 << 30:
            segment.fail(record.offset, "a record begins after 1 GiB")
        if record.sequence <= (before if segment.is_clustered else self.state.last):
            segment.fail(record.offset, "the sequence number does not rise")
        if segment.is_clustered:
            if record.sequence in self.sequences:
                segment.fail(record.offset, "the sequence number occurs twice")
            self.sequences.add(record.sequence)
        if segment.is_clustered and record.batch:
            segment.fail(record.offset, "a clustered segment contains a batch")
        if pending and (record.batch == 0 or record.sequence != pending[-1].sequence + 1):
            segment.fail(record.offset, "the batch is incomplete")
        self.state.last = max(self.state.last, record.sequence)
        return record

    def check_mark(self, segment, record, pending):
        if pending:
            segment.fail(record.offset, "a mark interrupts the batch")
        if record.sequence < self.state.last:
            segment.fail(record.offset, "the sequence number of the mark is too small")
        if record.kind == MARK and segment.mark(record).durable > record.offset:
            segment.fail(record.offset, "the mark names durable bytes that do not precede it")
        if record.kind == FOOTER and any(record.value[48:]):
            segment.refuse(record.offset, "reserved bytes of the footer are not zero")
        at = 16 if record.kind == MARK else 32
        if self.manifest.compacted_through < record.sequence:
            if number(record.value, at, 16) != self.state.digest:
                segment.fail(record.offset, "the digest does not match the records")
        if record.kind == MARK:
            self.promise = max(self.promise, segment.mark(record).durable)


def rows(directory, keyspace):
    """Returns sequence, key, value and expiry (0 for never) of each live record, by sequence."""
    names = os.listdir(directory)
    if "MANIFEST" not in names and not any(name.endswith(".segment") for name in names):
        return []
    reader = Reader(directory)
    live = reader.read()
    return sorted((sequence, name[1], value, expiry)
                  for name, (sequence, value, expiry) in live.items()
                  if reader.manifest.keyspaces.get(name[0]) == keyspace)


def lines(directory, keyspace=""):
    return [f"{key.hex() or '-'} {sequence} {value.hex() or '-'}"
            for sequence, key, value, _ in rows(directory, keyspace)]


def expiries(directory, keyspace=""):
    return [f"{key.hex() or '-'} {sequence} {expiry}"
            for sequence, key, _, expiry in rows(directory, keyspace) if expiry]


def main():
    arguments = sys.argv[1:]
    printed = lines
    if arguments[:1] == ["--expiry"]:
        printed = expiries
        del arguments[0]
    if len(arguments) not in (1, 2) or not os.path.isdir(arguments[0]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        for line in printed(*arguments):
            print(line)
    except Violation as violation:
        print(violation, file=sys.stderr)
        return 7 if isinstance(violation, Newer) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
