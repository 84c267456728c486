#!/usr/bin/env python3
"""Reads an archive of a store; written from ArchiveFormat.md and FileFormat.md alone.

archive_reader.py DIR [--position P] [--extract OUT]

DIR is the root of the archive: the folder with the object `archive`. Verifies every object and the
chain of commits, rebuilds the segments at the newest position, or at position P, and prints them.
With --extract writes the store to a folder, which read_store.py can read, and verifies it. Exit
code 0: valid; 2: usage; 3: the archive violates ArchiveFormat.md, or lacks that position; 7: a part
of it is of a later version.
"""

import argparse
import os
import re
import sys

import read_store
from archive_objects import (
    DATA_NAME, FENCE, GAP, ZERO, Checkpoint, Commit, Contents, Head, Identity, Term, container)
from moraine_format import Newer, Violation, crc32c
from segments import FOOTER, MARK, Segment, number

NAMES = {"term": re.compile("[0-9]{10}"), "chk": re.compile("[0-9]{10}"),
         "log": re.compile("[0-9]{15}")}


class State:
    """The segments and the manifest of the store after a commit."""

    def __init__(self, contents, segments):
        self.manifest = read_store.Manifest(contents.manifest)
        self.bytes = contents.manifest
        self.segments = segments
        self.order = [entry.number for entry in self.manifest.entries]
        self.epoch, self.last = self.manifest.epoch, self.manifest.last
        self.digest, self.live_count = self.manifest.digest, None
        self.keyspaces, self.epochs = [], []

    def apply(self, commit):
        if commit.kind == FENCE and commit.instance_id != ZERO:
            self.epochs.append((commit.epoch, commit.first, commit.instance_id))
        self.epoch, self.last = commit.epoch, commit.last
        self.digest, self.live_count = commit.digest, commit.live_count
        self.keyspaces += commit.keyspaces
        start = 0
        for piece in commit.pieces:
            data = self.segments.setdefault(piece.segment, b"")
            if len(data) != piece.start:
                raise Violation(commit.name, 0, f"a piece of segment {piece.segment} begins at "
                                f"{piece.start}, and the last one ended at {len(data)}")
            data += commit.payload[start:start + piece.length]
            start += piece.length
            check_segment(commit.name, data, piece)
            self.segments[piece.segment] = data
            if piece.segment not in self.order:
                self.order.append(piece.segment)

    def has_end(self, end):
        """Returns whether a segment of the state ends where a commit says that the log ends."""
        data = self.segments.get(end.segment, b"")
        stored = tuple(number(data, place, 8) for place in (40, 32, 80))
        return len(data) == end.offset and stored == (end.segment, end.epoch, end.salt)


def check_segment(name, data, entry):
    """Checks that a segment's header has the number, the epoch and the salt that an entry says."""
    stored = tuple(number(data, place, 8) for place in (40, 32, 80))
    if len(data) < 128 or stored != (entry.segment, entry.epoch, entry.salt):
        raise Violation(name, 0, f"the bytes of segment {entry.segment} are of another segment")


class Archive:
    def __init__(self, root):
        self.root = root
        self.identity = Identity("archive", self.load("archive"))
        self.terms = self.numbered("term", Term, lambda term: term.term)
        self.checkpoints = self.numbered("chk", Checkpoint, lambda checkpoint: checkpoint.number)
        self.commits = self.numbered("log", Commit, lambda commit: commit.position)
        self.check_numbers("term", self.terms)
        self.check_numbers("chk", self.checkpoints)
        self.check_hint()
        self.check_objects()
        self.check_checkpoints()
        self.find_head()
        self.check_chain()
        self.contents = {}

    def load(self, name):
        try:
            with open(os.path.join(self.root, *name.split("/")), "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise Violation(name, 0, "the object is missing") from None

    def numbered(self, folder, kind, number_of):
        objects = {}
        path = os.path.join(self.root, folder)
        for entry in sorted(os.listdir(path)) if os.path.isdir(path) else []:
            name = f"{folder}/{entry}"
            if not NAMES[folder].fullmatch(entry):
                raise Violation(name, 0, "the name is not one of an archive")
            value = kind(name, self.load(name))
            self.check_owner(name, value)
            if number_of(value) != int(entry):
                raise Violation(name, 0, "the object has another number than its name")
            objects[int(entry)] = value
        return objects

    def check_owner(self, name, value):
        if value.archive_id != self.identity.archive_id:
            raise Violation(name, 12, "the object belongs to another archive")

    def check_numbers(self, folder, objects):
        """Terms and checkpoints are never removed."""
        if sorted(objects) != list(range(1, len(objects) + 1)):
            raise Violation(folder, 0, "a number is missing")

    def check_hint(self):
        if os.path.exists(os.path.join(self.root, "head")):
            self.check_owner("head", Head("head", self.load("head")))

    def check_objects(self):
        """Checks every data object, also those to which nothing refers."""
        folder = os.path.join(self.root, "obj")
        for term in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            for entry in sorted(os.listdir(os.path.join(folder, term))):
                name = f"obj/{term}/{entry}"
                if not DATA_NAME.match(name) or int(term) not in self.terms:
                    raise Violation(name, 0, "the name is not one of an archive")
                container(name, self.load(name))

    def check_checkpoints(self):
        before = None
        for index, checkpoint in sorted(self.checkpoints.items()):
            if checkpoint.term not in self.terms:
                raise Violation(f"chk/{index:010d}", 44, "no such term exists")
            if before and (before.position > checkpoint.position or before.term > checkpoint.term):
                raise Violation(f"chk/{index:010d}", 36, "the position or the term falls")
            before = checkpoint

    def find_head(self):
        """Finds the commits that count: those up to the first hole above the newest checkpoint."""
        self.trusted = max((each.position for each in self.checkpoints.values()), default=0)
        self.head = self.trusted
        while self.head + 1 in self.commits:
            self.head += 1
        if self.head == 0:
            raise Violation("log", 0, "the archive has no commit")
        if max(self.commits, default=0) > self.head:
            raise Violation(f"log/{self.head + 1:015d}", 0, "the commit is missing")

    def check_chain(self):
        """Checks the commits from the head to the first one that exists.

        A commit below the newest checkpoint that does not precede the next one was written after
        the cleaning of its position. It counts as missing, and so do those before it.
        """
        self.first = self.head + 1
        for position in range(self.head, 0, -1):
            commit, after = self.commits.get(position), self.commits.get(position + 1)
            if commit is None:
                break
            if self.first <= self.head and after.previous != commit.nonce:
                if position > self.trusted:
                    raise Violation(after.name, 64, "the commit does not follow the one before it")
                break
            if self.first <= self.head:
                self.check_step(commit, after)
            self.first = position
        at_head = self.commits.get(self.trusted + 1)
        for checkpoint in self.checkpoints.values():
            if checkpoint.position == self.trusted and at_head:
                if at_head.previous != checkpoint.nonce:
                    raise Violation(at_head.name, 64, "the commit does not follow the checkpoint")
            if checkpoint.position >= self.first:
                self.check_state(checkpoint)
        for position in range(self.first, self.head + 1):
            if self.commits[position].kind == FENCE:
                self.check_base(self.commits[position])
            if self.commits[position].term not in self.terms:
                raise Violation(self.commits[position].name, 40, "no such term exists")

    def check_step(self, before, after):
        if after.kind == FENCE:
            if after.term <= before.term:
                raise Violation(after.name, 40, "the term of a fence does not rise")
            return
        self.check_end(before, after)
        if after.term != before.term:
            raise Violation(after.name, 40, "the term changes without a fence")
        if after.epoch != before.epoch:
            raise Violation(after.name, 80, "the epoch changes without a fence")
        if after.first != before.last + 1:
            raise Violation(after.name, 88, "the sequence numbers are not contiguous")

    def check_end(self, before, after):
        """Checks the end of the log in a commit that adds nothing to the log."""
        is_same = after.pieces or after.kind == GAP or after.end == before.end
        # The first commits may be older than the first bytes of the log.
        if not is_same and before.end:
            raise Violation(after.name, 184, "the log ends elsewhere, and has gained no bytes")

    def check_state(self, checkpoint):
        commit = self.commits[checkpoint.position]
        if not commit.is_cut or commit.term > checkpoint.term or (
                commit.nonce, commit.epoch, commit.last, commit.digest, commit.live_count) != (
                checkpoint.nonce, checkpoint.epoch, checkpoint.last, checkpoint.digest,
                checkpoint.live_count):
            raise Violation(f"chk/{checkpoint.number:010d}", 36,
                            "the checkpoint has another state than its commit")

    def check_base(self, fence):
        base = self.commits.get(fence.base) if fence.base >= self.first else next(
            (each for each in self.checkpoints.values() if each.position == fence.base), None)
        begins = fence.instance_id != ZERO
        if base is None:
            return  # The empty state, or the log was cleaned there.
        if not getattr(base, "is_cut", True) or (base.last, base.digest) != (
                fence.base_last, fence.base_digest):
            raise Violation(fence.name, 136, "the base has another state")
        if hasattr(base, "end"):
            self.check_end(base, fence)
        if (fence.epoch > base.epoch) != begins or fence.epoch < base.epoch:
            raise Violation(fence.name, 80, "the epoch does not follow that of the base")

    def contents_of(self, name, reference):
        """Returns the contents of a checkpoint or of a gap, and the bytes of the segments."""
        data = self.load(reference.name)
        if len(data) != reference.length or crc32c(data) != reference.checksum:
            raise Violation(reference.name, 0, f"the object differs from the reference in {name}")
        contents = Contents(reference.name, container(reference.name, data))
        self.check_owner(reference.name, contents)
        manifest = read_store.Manifest(contents.manifest)
        if manifest.store_id != self.identity.store_id:
            raise Violation(reference.name, 0, "the manifest is of another store")
        listed = [(entry.number, entry.epoch, entry.length) for entry in manifest.entries]
        if listed != [(each.segment, each.epoch, each.length) for each in contents.segments] or (
                not manifest.is_clean):
            raise Violation(reference.name, 0, "the manifest lists other segments")
        segments = {}
        for stored in contents.segments:
            data = self.load(stored.name)
            if len(data) != stored.object_length:
                raise Violation(stored.name, len(data), "the object has another length")
            segments[stored.segment] = container(stored.name, data)
            if len(segments[stored.segment]) != stored.length:
                raise Violation(stored.name, 16, "the segment has another length")
            check_segment(stored.name, segments[stored.segment], stored)
        return contents, segments

    def is_kept(self, reference):
        return os.path.exists(os.path.join(self.root, *reference.name.split("/")))

    def newest_cut(self):
        """Returns the position of the newest state of the history that ends at the head."""
        position = self.head
        while position in self.commits and not self.commits[position].is_cut:
            commit = self.commits[position]
            position = commit.base if commit.kind == FENCE else position - 1
        return position

    def precedes(self, checkpoint, commit):
        """Returns whether a commit builds on a checkpoint whose own commit is no longer kept."""
        if commit.kind == FENCE and commit.base != commit.position - 1:
            return (commit.base_last, commit.base_digest) == (checkpoint.last, checkpoint.digest)
        return commit.previous == checkpoint.nonce

    def state(self, position):
        """Returns the state after the commit at a position."""
        path, start = [], None
        at = position
        while start is None:
            checkpoint = next((each for each in reversed(self.checkpoints.values())
                               if each.position == at and self.is_kept(each.contents)), None)
            is_current = at >= self.first and at <= self.head
            if checkpoint and (is_current or not path or self.precedes(checkpoint, path[-1])):
                start = (f"chk/{checkpoint.number:010d}", checkpoint.contents, checkpoint)
            elif not is_current:
                raise Violation(f"log/{at:015d}", 0, "the archive does not hold this state any more")
            elif self.commits[at].kind == GAP:
                start = (self.commits[at].name, self.commits[at].contents, self.commits[at])
            else:
                path.append(self.commits[at])
                at = path[-1].base if path[-1].kind == FENCE else at - 1
                if at == 0:
                    raise Violation(path[-1].name, 0, "no checkpoint precedes this state")
        if path and not path[0].is_cut:
            raise Violation(path[0].name, 11, "the commit does not end at a cut")
        name, reference, source = start
        state = State(*self.contents_of(name, reference))
        if (state.epoch, state.last, state.digest) != (source.epoch, source.last, source.digest):
            raise Violation(reference.name, 0, f"the manifest has another state than {name}")
        state.live_count = source.live_count
        if not isinstance(source, Checkpoint):
            if not state.has_end(source.end) if source.end else state.segments:
                raise Violation(name, 184, "the log does not end with a segment of the contents")
        for commit in reversed(path):
            state.apply(commit)
        return state


def entry_of(state, segment, manifest):
    """Returns the manifest's entry of a segment, from its records."""
    data, listed = state.segments[segment], {entry.number: entry for entry in manifest.entries}
    flags = number(data, 96, 4)
    kinds = (4 if flags & 1 else 0) | (8 if flags & 1 << 16 else 0)
    entry = read_store.Entry(segment, len(data), 0, 0, 0, 0, number(data, 32, 8), 1 | kinds)
    reader = Segment(f"{segment:010d}.segment", data, manifest, entry)
    place, has_footer, sequences = reader.start, False, []
    while place < len(data):
        record = reader.record(place, len(data))
        if record is None:
            reader.fail(place, "the segment ends within a record")
        place, has_footer = record.end, record.kind == FOOTER
        if record.kind not in (MARK, FOOTER):
            sequences.append(record.sequence)
    live = listed[segment].live if segment in listed else 0
    return entry._replace(
        count=len(sequences), first=min(sequences, default=0), last=max(sequences, default=0),
        live=live, flags=entry.flags | (0 if has_footer else 2))


def manifest_of(state):
    """Returns the bytes of a manifest with the state's segments, all of them sealed or cut."""
    manifest = state.manifest
    manifest.generation = max([manifest.generation]
                              + [number(data, 72, 8) for data in state.segments.values()]) + 1
    entries = [entry_of(state, segment, manifest) for segment in state.order]
    payloads = manifest._sections(state.bytes, None)
    payloads[1] = b"".join(
        b"".join(value.to_bytes(8, "little") for value in entry[:7])
        + entry.flags.to_bytes(4, "little") + bytes(12) for entry in entries)
    ordered = {number(payloads[5], place, 2) for place in range(0, len(payloads[5]), 4)}
    for keyspace in state.keyspaces:
        name = keyspace.name.encode()
        if keyspace.is_ordered:
            ordered.add(keyspace.id)
        if keyspace.id and keyspace.id not in manifest.keyspaces:
            payloads[2] += keyspace.id.to_bytes(2, "little") + bytes(
                [keyspace.is_ordered, len(name)]) + name
    payloads[5] = b"".join(each.to_bytes(2, "little") + b"\x01\x00" for each in sorted(ordered))
    instance = state.bytes[32:48]
    for epoch, first, instance in state.epochs:
        if epoch > manifest.epoch:
            payloads[3] += epoch.to_bytes(8, "little") + first.to_bytes(8, "little") + instance
    data = bytearray(state.bytes[:160])
    data[32:48] = instance if state.epoch > manifest.epoch else state.bytes[32:48]
    highest = max([manifest.next_number] + [segment + 1 for segment in state.segments])
    for place, value in ((64, state.epoch), (72, manifest.generation), (80, state.last),
                         (88, highest), (104, 0), (112, 0)):
        data[place:place + 8] = value.to_bytes(8, "little")
    data[128:144] = state.digest.to_bytes(16, "little")
    sections = [(tag, payload) for tag, payload in payloads.items() if tag <= 3 or payload]
    data[156:160] = len(sections).to_bytes(4, "little")
    for tag, payload in sections:
        data += tag.to_bytes(2, "little") + (tag != 4).to_bytes(2, "little")
        data += len(payload).to_bytes(4, "little") + payload
    data[12:16] = (len(data) + 4).to_bytes(4, "little")
    return bytes(data) + crc32c(bytes(data)).to_bytes(4, "little")


def extract(state, folder):
    """Writes the store to a folder, and verifies it: each record, the digest, the count."""
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise Violation(folder, 0, "the folder is not empty")
    files = {f"{segment:010d}.segment": data for segment, data in state.segments.items()}
    for name, data in {**files, "MANIFEST": manifest_of(state)}.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    live = read_store.Reader(folder).read()
    if len(live) != state.live_count:
        raise Violation("MANIFEST", 0, f"the store has {len(live)} live records instead of "
                        f"{state.live_count}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--position", type=int)
    parser.add_argument("--extract", metavar="OUT")
    options = parser.parse_args()
    try:
        archive = Archive(options.root)
        position = archive.newest_cut() if options.position is None else options.position
        state = archive.state(position)
        print(f"position {position} of {archive.head}, epoch {state.epoch}, sequence {state.last}, "
              f"{state.live_count} live records, digest {state.digest.to_bytes(16, 'little').hex()}")
        for segment in state.order:
            print(f"{segment:010d}.segment {len(state.segments[segment])}")
        if options.extract:
            extract(state, options.extract)
    except Violation as violation:
        print(violation, file=sys.stderr)
        return 7 if isinstance(violation, Newer) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
