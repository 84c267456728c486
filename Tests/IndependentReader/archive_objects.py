"""Objects of an archive, each checked against ArchiveFormat.md alone."""

import re
from collections import namedtuple
from unicodedata import normalize

from moraine_format import Newer, Violation, crc32c, lz4_block
from segments import number

FENCE, TAIL, GAP, BEAT, CLOSE = 1, 2, 3, 4, 5
ZERO = bytes(16)
MAXIMUM = {"term": 10**10 - 1, "checkpoint": 10**10 - 1, "position": 10**15 - 1,
           "counter": (1 << 63) - 1, "sequence": (1 << 56) - 1, "segment": 4 << 30,
           "object": 1 << 62}
DATA_NAME = re.compile(r"obj/([0-9]{10})/[0-9a-f]{32}\Z")

Reference = namedtuple("Reference", "name length checksum")
Piece = namedtuple("Piece", "segment epoch salt start length")
End = namedtuple("End", "segment epoch salt offset")
Keyspace = namedtuple("Keyspace", "id is_ordered name")
Stored = namedtuple("Stored", "segment epoch salt length name object_length")


class Fields:
    """The fields of an object, in their order. The checksum has been verified."""

    def __init__(self, name, data, place, end):
        self.name, self.data, self.place, self.end = name, data, place, end

    def fail(self, what, place=None):
        raise Violation(self.name, self.place if place is None else place, what)

    def refuse(self, what, place=None):
        raise Newer(self.name, self.place if place is None else place, what)

    def bytes(self, size):
        if self.place + size > self.end:
            self.fail("the object ends within a field")
        self.place += size
        return self.data[self.place - size:self.place]

    def number(self, size):
        return int.from_bytes(self.bytes(size), "little")

    def limited(self, what, lowest, highest):
        value = self.number(8)
        if not lowest <= value <= highest:
            self.fail(f"{what} {value} is not possible", self.place - 8)
        return value

    def text(self):
        length = self.number(2)
        if length > 255:
            self.fail("a text is too long", self.place - 2)
        try:
            return self.bytes(length).decode()
        except UnicodeDecodeError:
            self.fail("a text is not UTF-8")

    def data_name(self):
        text = self.text()
        match = DATA_NAME.match(text)
        if not match or int(match[1]) == 0:
            self.fail("a text is not the name of a data object")
        return text

    def reference(self):
        return Reference(self.data_name(), self.limited("the length", 1, MAXIMUM["object"]),
                         self.number(4))

    def finish(self):
        if self.place != self.end:
            self.fail("bytes follow the last field")


def record(name, data, magic):
    """Returns the fields of an object with version, flags, and a checksum at its end."""
    if len(data) < 16 or data[:8] != magic:
        raise Violation(name, 0, f"the object does not begin with {magic.decode()}")
    if crc32c(data[:-4]) != number(data, len(data) - 4, 4):
        raise Violation(name, len(data) - 4, "the checksum is wrong")
    if number(data, 8, 2) != 1 or number(data, 10, 2):
        raise Newer(name, 8, "the version is newer than this reader")
    return Fields(name, data, 12, len(data) - 4)


class Identity:
    def __init__(self, name, data):
        fields = record(name, data, b"MORAINEA")
        self.archive_id, self.store_id = fields.bytes(16), fields.bytes(16)
        self.created = fields.number(8)
        if any(fields.bytes(8)):
            fields.refuse("the archive is encrypted, or a reserved byte is not zero", 52)
        fields.finish()


class Term:
    def __init__(self, name, data):
        fields = record(name, data, b"MORAINET")
        self.archive_id = fields.bytes(16)
        self.term = fields.limited("the term", 1, MAXIMUM["term"])
        self.nonce, self.created, self.instance_id = (
            fields.bytes(16), fields.number(8), fields.bytes(16))
        self.writer = fields.text()
        fields.finish()


class Checkpoint:
    def __init__(self, name, data):
        fields = record(name, data, b"MORAINEK")
        self.archive_id = fields.bytes(16)
        self.number = fields.limited("the number", 1, MAXIMUM["checkpoint"])
        self.position = fields.limited("the position", 1, MAXIMUM["position"])
        self.term = fields.limited("the term", 1, MAXIMUM["term"])
        self.nonce = fields.bytes(16)
        self.epoch = fields.limited("the epoch", 1, MAXIMUM["counter"])
        self.last = fields.limited("the sequence number", 0, MAXIMUM["sequence"])
        self.digest, self.live_count = fields.number(16), fields.number(8)
        self.milliseconds = fields.number(8)
        self.contents = fields.reference()
        if int(DATA_NAME.match(self.contents.name)[1]) > self.term:
            fields.fail("the contents are of a later term")
        fields.finish()


class Head:
    def __init__(self, name, data):
        fields = record(name, data, b"MORAINEH")
        self.archive_id = fields.bytes(16)
        self.term = fields.limited("the term", 0, MAXIMUM["term"])
        self.checkpoint = fields.limited("the checkpoint", 0, MAXIMUM["checkpoint"])
        self.position = fields.limited("the position", 0, MAXIMUM["position"])
        fields.finish()


class Contents:
    def __init__(self, name, data):
        fields = record(name, data, b"MORAINEL")
        self.archive_id = fields.bytes(16)
        self.segments = [self._segment(fields) for _ in range(fields.number(4))]
        self.manifest = fields.bytes(fields.number(4))
        fields.finish()

    def _segment(self, fields):
        return Stored(
            fields.limited("the segment", 1, MAXIMUM["counter"]),
            fields.limited("the epoch", 1, MAXIMUM["counter"]), fields.number(8),
            fields.limited("the length", 1, MAXIMUM["segment"]), fields.data_name(),
            fields.limited("the length", 1, MAXIMUM["object"]))


class Commit:
    def __init__(self, name, data):
        self.name = name
        if len(data) < 16 or data[:8] != b"MORAINEC":
            raise Violation(name, 0, "the object is not a commit")
        length = number(data, 12, 4)
        if not 236 <= length <= min(16 << 20, len(data)):
            raise Violation(name, 12, "the length of the header is not plausible")
        if crc32c(data[:length - 4]) != number(data, length - 4, 4):
            raise Violation(name, length - 4, "the checksum of the header is wrong")
        fields = Fields(name, data, 8, length - 4)
        if fields.number(2) != 1:
            fields.refuse("the version is newer than this reader")
        self.kind, flags = fields.number(1), fields.number(1)
        if self.kind not in (FENCE, TAIL, GAP, BEAT, CLOSE) or flags > 1:
            fields.refuse("the commit has an unknown kind or flag")
        self.is_cut = bool(flags & 1)
        fields.bytes(4)
        self._fixed(fields)
        self._lists(fields)
        fields.finish()
        self._check(fields)
        payload = data[length:]
        if len(payload) != self.payload_length:
            fields.fail("the payload has another length than the header says", len(data))
        self.payload = container(name, payload, length) if payload else b""
        if len(self.payload) != sum(piece.length for piece in self.pieces):
            fields.fail("the payload has another raw length than the pieces", length + 16)

    def _fixed(self, fields):
        self.archive_id = fields.bytes(16)
        self.position = fields.limited("the position", 1, MAXIMUM["position"])
        self.term = fields.limited("the term", 1, MAXIMUM["term"])
        self.nonce, self.previous = fields.bytes(16), fields.bytes(16)
        self.epoch = fields.limited("the epoch", 1, MAXIMUM["counter"])
        self.first = fields.limited("the sequence number", 1, MAXIMUM["sequence"] + 1)
        self.last = fields.limited("the sequence number", 0, MAXIMUM["sequence"])
        self.digest, self.live_count = fields.number(16), fields.number(8)
        self.milliseconds = fields.number(8)
        self.base = fields.number(8)
        self.base_last = fields.limited("the sequence number", 0, MAXIMUM["sequence"])
        self.base_digest = fields.number(16)
        self.instance_id = fields.bytes(16)
        end = End(*(fields.number(8) for _ in range(4)))
        self.end = end if any(end) else None
        self.payload_length = fields.number(8)

    def _lists(self, fields):
        self.keyspaces = []
        for _ in range(fields.number(2)):
            identifier, flags = fields.number(2), fields.number(1)
            if flags > 1:
                fields.refuse("a keyspace has unknown flags")
            self.keyspaces.append(Keyspace(identifier, bool(flags), fields.text()))
        self.contents = None
        if fields.number(2):
            fields.place -= 2
            self.contents = fields.reference()
        self.pieces = []
        for _ in range(fields.number(4)):
            self.pieces.append(Piece(*(fields.number(8) for _ in range(4)), fields.number(4)))

    def _check(self, fields):
        def require(condition, what):
            if not condition:
                fields.fail(what, 0)

        is_fence = self.kind == FENCE
        require(self.nonce != ZERO and (self.previous == ZERO) == (self.position == 1),
                "a nonce is zero, or the first commit has one before it")
        require(is_fence or self.position > 1, "the first commit is no fence")
        require(self.first <= self.last + 1, "the sequence numbers fall")
        require(self.kind not in (BEAT, CLOSE) or self.first == self.last + 1,
                "a commit without operations has sequence numbers")
        if is_fence:
            require(self.first == self.base_last + 1, "the fence does not begin after its base")
            require(self.base or not self.base_last and not self.base_digest,
                    "the state before the first commit is not empty")
            require(self.base < self.position, "the base is not before the fence")
        else:
            require(not (self.base or self.base_last or self.base_digest or any(self.instance_id)),
                    "a commit that is no fence has a base")
        require((self.kind == GAP) == (self.contents is not None), "the contents are misplaced")
        if self.contents:
            require(int(DATA_NAME.match(self.contents.name)[1]) <= self.term,
                    "the contents are of a later term")
        require(self.is_cut or self.kind in (FENCE, TAIL) and not (self.digest or self.live_count),
                "a commit without a cut has the state of one")
        self._check_lists(require)

    def _check_lists(self, require):
        for keyspace in self.keyspaces:
            require((keyspace.id == 0) == (keyspace.name == ""), "a keyspace has a wrong name")
            require(keyspace.id < 0xFF00, "a keyspace of the system has a name")
        for values in ({keyspace.id for keyspace in self.keyspaces},
                       {normalize("NFC", keyspace.name) for keyspace in self.keyspaces}):
            require(len(values) == len(self.keyspaces), "a keyspace occurs twice")
        require(not self.pieces or self.kind in (FENCE, TAIL), "pieces are misplaced")
        require(len(self.pieces) <= 65536, "there are too many pieces")
        require(sum(piece.length for piece in self.pieces) <= 64 << 20, "the pieces are too long")
        require(bool(self.pieces) == bool(self.payload_length), "the payload is misplaced")
        for piece in self.pieces:
            require(1 <= piece.segment <= MAXIMUM["counter"] and 1 <= piece.epoch <= self.epoch
                    and piece.length and piece.start + piece.length <= MAXIMUM["segment"],
                    "a piece is not possible")
        require(len({piece.segment for piece in self.pieces}) == len(self.pieces),
                "a segment has two pieces")
        require(not self.end or 1 <= self.end.segment <= MAXIMUM["counter"]
                and 1 <= self.end.epoch <= self.epoch
                and 1 <= self.end.offset <= MAXIMUM["segment"],
                "the end of the log is not possible")
        ends = [End(piece.segment, piece.epoch, piece.salt, piece.start + piece.length)
                for piece in self.pieces]
        require(not ends or self.end in ends, "the log does not end with a piece")


def container(name, data, start=0):
    """Returns the raw bytes of a container, which begins at an offset of its object."""
    def fail(offset, what):
        raise Violation(name, start + offset, what)

    if len(data) < 28 or data[:8] != b"MORAINEO":
        fail(0, "the bytes are not a container")
    block, raw_length = number(data, 12, 4), number(data, 16, 8)
    if not 4096 <= block <= 16 << 20 or raw_length > 4 << 30:
        fail(12, "the lengths of the container are not plausible")
    count = (raw_length + block - 1) // block
    place = 24 + 4 * count + 4
    if place > len(data):
        fail(len(data), "the container ends within its table")
    if crc32c(data[:place - 4]) != number(data, place - 4, 4):
        fail(place - 4, "the checksum of the container's table is wrong")
    if number(data, 8, 2) != 1 or data[10] > 1 or data[11]:
        raise Newer(name, start + 8, "the container is newer than this reader")
    parts = []
    for index in range(count):
        length, raw = number(data, 24 + 4 * index, 4), min(block, raw_length - index * block)
        is_shorter = data[10] == 1 and 0 < length < raw <= 255 * length + 64
        if length != raw and not is_shorter:
            fail(24 + 4 * index, "the stored length of a block is not plausible")
        stored = data[place:place + length]
        if place + length + 4 > len(data) or crc32c(stored) != number(data, place + length, 4):
            fail(place, f"block {index} is damaged")
        part = stored if length == raw else lz4_block(stored, raw)
        if part is None:
            fail(place, f"block {index} cannot be decompressed")
        parts.append(part)
        place += length + 4
    if place != len(data):
        fail(place, "bytes follow the last block")
    return b"".join(parts)
