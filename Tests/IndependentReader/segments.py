"""Segments: header and records, each checked against FileFormat.md."""

from collections import namedtuple

from moraine_format import Newer, Violation, crc32c, lz4_block

PUT, DELETE, MARK, FOOTER = 1, 2, 3, 4
LONGEST = (1 << 30) + (1 << 20)
Record = namedtuple("Record", "offset end sequence kind batch keyspace count expiry key value")
Mark = namedtuple("Mark", "durable digest")


def number(data, offset, size):
    return int.from_bytes(data[offset:offset + size], "little")


class Segment:
    """A segment: its header, and its records one after the other."""

    def __init__(self, name, data, manifest, entry):
        self.name, self.data, self.number = name, data, entry.number
        self._check_header(manifest, entry)
        self.is_compacted = bool(number(data, 96, 4) & 1)
        self.is_clustered = bool(number(data, 96, 4) & 1 << 16)
        self.dictionary = data[128:128 + number(data, 100, 4)]
        self.seed = data[16:32] + data[32:40] + data[40:48] + data[80:88]

    def fail(self, offset, what):
        raise Violation(self.name, offset, what)

    def refuse(self, offset, what):
        raise Newer(self.name, offset, what)

    def _check_header(self, manifest, entry):
        data = self.data
        if len(data) < 128 or data[:8] != b"MORAINES":
            self.fail(0, "the file is not a segment")
        self.start = number(data, 12, 4)
        dictionary = number(data, 100, 4)
        if not 128 <= self.start <= min(len(data), 128 + 65536) or self.start % 8:
            self.fail(12, "the header length is not plausible")
        if crc32c(data[:124] + data[128:self.start]) != number(data, 124, 4):
            self.fail(124, "the checksum of the header is wrong")
        flags = number(data, 96, 4)
        if number(data, 8, 2) != 1 or number(data, 10, 2) or any(data[108:124]) or flags >> 17:
            self.refuse(8, "the format version is newer than this reader")
        is_clustered = bool(flags & 1 << 16)
        if is_clustered and not flags & 1:
            self.fail(96, "a clustered segment was not written by compaction")
        if is_clustered != bool(entry.flags & 8) or (is_clustered and entry.flags & 7 != 5):
            self.fail(96, "the manifest disagrees on the order of the records")
        if number(data, 104, 4) and not flags & 4:
            self.fail(96, "the header names an encryption key, but no encryption")
        if flags & 4:
            self.refuse(96, "the segment is encrypted")
        if number(data, 64, 8) >= 1 << 56:
            self.fail(64, "the first sequence number is not plausible")
        if self.start != (128 + dictionary + 7) // 8 * 8 or bool(flags & 8) != bool(dictionary):
            self.fail(100, "fields of the header contradict each other")
        if any(data[128 + dictionary:self.start]):
            self.refuse(128 + dictionary, "the padding is not zero")
        if data[16:32] != manifest.store_id:
            self.fail(16, "the segment belongs to another store")
        if number(data, 32, 8) != entry.epoch or number(data, 40, 8) != entry.number:
            self.fail(32, "the epoch or number differs from the manifest")
        if number(data, 72, 8) > manifest.generation:
            self.fail(72, "the segment is newer than the manifest")
        self.predecessor = tuple(number(data, place, 8) for place in (48, 56, 64))

    def checksum(self, offset, length):
        place = offset.to_bytes(8, "little") + length.to_bytes(4, "little")
        return crc32c(self.seed + place + self.data[offset + 8:offset + length])

    def record(self, offset, limit):
        """Returns the record at an offset; None when there is no valid record."""
        data = self.data
        if offset + 20 > limit:
            return None
        length = number(data, offset, 4)
        if not 20 <= length <= LONGEST or offset + length > limit:
            return None
        if self.checksum(offset, length) != number(data, offset + 4, 4):
            return None
        end = min((offset + length + 3) // 4 * 4, limit)
        if any(data[offset + length:end]):
            return None
        return self._parse(offset, length, end)

    def _parse(self, offset, length, end):
        data = self.data
        sequence, kind_byte = number(data, offset + 8, 7), data[offset + 15]
        kind, codec, batch = kind_byte & 15, kind_byte >> 4 & 3, kind_byte >> 6
        flags, key_length = data[offset + 16], number(data, offset + 17, 3)
        place, last = offset + 20, offset + length
        if not 1 <= kind <= 4 or codec > 2 or batch > 2 or flags & 0xC0:
            self.refuse(offset, "the record has an unknown kind, codec or flag")

        def take(size, wanted):
            nonlocal place
            if not wanted:
                return 0
            place += size
            return number(data, place - size, size)

        raw_length = take(4, codec)
        count = take(4, batch == 2)
        keyspace = take(2, flags & 1)
        expiry = take(8, flags & 2)
        take(8, flags & 4)
        place += take(2, flags & 16)
        if flags & 32:
            self.refuse(offset, "the extension is required and its tag is unknown")
        if place + key_length > last or key_length > 65536:
            self.refuse(offset, "an extension ends after the end of the record")
        key, stored = data[place:place + key_length], data[place + key_length:last]
        value = self._value(offset, kind, codec, stored, raw_length)
        if kind in (MARK, FOOTER) and (flags or codec or batch or key):
            self.refuse(offset, "the mark has extensions")
        return Record(offset, end, sequence, kind, batch, keyspace, count, expiry, key, value)

    def _value(self, offset, kind, codec, stored, raw_length):
        if kind == DELETE and (stored or codec):
            self.refuse(offset, "the delete has a value")
        if kind == MARK and len(stored) != 32 or kind == FOOTER and len(stored) != 64:
            self.refuse(offset, "the mark has a wrong length")
        if len(stored) > 1 << 30:
            self.refuse(offset, "the value is too long")
        if codec == 0:
            return stored
        if raw_length > 255 * len(stored) + 64 or raw_length > 1 << 30:
            self.refuse(offset, "the raw length is not plausible")
        if codec == 2 and not self.dictionary:
            self.fail(offset, "the segment has no dictionary")
        value = lz4_block(stored, raw_length, self.dictionary if codec == 2 else b"")
        if value is None:
            self.fail(offset, "the value cannot be decompressed")
        return value

    def mark(self, record):
        return Mark(number(record.value, 0, 8), number(record.value, 16, 16))

    def farthest_promise(self, start):
        """Returns the farthest promise of the valid sync marks at or after an offset."""
        farthest = 0
        for offset in range((start + 3) // 4 * 4, len(self.data) - 51, 4):
            if number(self.data, offset, 4) == 52 and self.data[offset + 15] == MARK:
                record = self.record(offset, len(self.data))
                if record and record.kind == MARK:
                    farthest = max(farthest, self.mark(record).durable)
        return farthest
