#!/usr/bin/env python3
"""Writes to a store on a btrfs that another program has filled.  Needs root and btrfs-progs:

    btrfs.py MORAINE [--io mapped|positional] [--mkfs PROGRAM]

btrfs writes changed blocks to new places, also in a file whose space was allocated. A change through
a mapping then ends the process with SIGBUS when the disk is full. The script syncs a few records,
fills the disk, and writes into the same blocks. No process may end, a write must be done or refused
with noSpace, and the store must have what it acknowledged, also after a kill. A backup on the same
disk must be a clone. Where the kernel has no btrfs, the script says so and tests nothing; the exit
code is 0.
"""
import argparse, contextlib, itertools, os, pathlib, re, subprocess, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "SharedProcesses"))
sys.dont_write_bytecode = True

import children  # noqa: E402


def kernel_has_btrfs():
    def is_there():
        return "btrfs" in pathlib.Path("/proc/filesystems").read_text().split()

    if not is_there():
        # It may be a module that is not loaded yet. A system without modules has no such program.
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(["modprobe", "btrfs"], capture_output=True, timeout=children.DEADLINE)
    return is_there()


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=children.DEADLINE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")
    return done.stdout.strip()


@contextlib.contextmanager
def disk(options, mixed):
    """A file system on a loop device."""
    with tempfile.TemporaryDirectory(prefix="moraine-btrfs-") as place:
        image, mount = pathlib.Path(place) / "image", pathlib.Path(place) / "mount"
        mount.mkdir()
        with open(image, "wb") as file:
            file.truncate((160 if mixed else 320) << 20)
        run(options.mkfs, "-q", *(["-M"] if mixed else []), image)
        loop = run("losetup", "-f", "--show", image)
        try:
            run("mount", "-t", "btrfs", loop, mount)
            try:
                yield mount
            finally:
                run("umount", mount)
        finally:
            run("losetup", "-d", loop)


def fill(mount):
    with open(mount / "filler", "wb", buffering=0) as file:
        for _ in range(2):
            for size in [1 << 20, 1 << 16, 4096]:
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)
            with contextlib.suppress(OSError):
                os.fsync(file.fileno())


class Case:
    def __init__(self, options, io, shared, mixed, mount):
        self.moraine, self.io, self.shared, self.mixed = options.moraine, io, shared, mixed
        self.store = mount / "store"
        self.model, self.counts = {}, {"ok": 0, "refused": 0}

    def violation(self, what):
        raise SystemExit(f"VIOLATION: {what}   ({self.io}, shared {self.shared}, mixed {self.mixed})")

    @contextlib.contextmanager
    def open(self):
        command = [self.moraine, "drive", str(self.store), "--io", self.io]
        self.process = children.start(
            command + (["--shared"] if self.shared else []), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        try:
            yield
        finally:
            self.process.kill()
            self.process.wait(children.DEADLINE)
            children.forget(self.process)

    def ask(self, line):
        try:
            return children.ask(self.process, line)
        except TimeoutError as error:
            self.violation(str(error))
        except BrokenPipeError:
            code = self.process.wait(children.DEADLINE)
            self.violation(f"{line[:20]}: the process ended with {code}")

    def need(self, line, start):
        answer = self.ask(line)
        if not answer.startswith(start):
            self.violation(f"{line[:20]}: {answer}")

    def change(self, key, value):
        """Puts a value, or deletes the key."""
        answer = self.ask(f"del {key}" if value is None else f"put {key} {value}")
        if answer.startswith("ok"):
            self.model[key] = value
            self.counts["ok"] += 1
        elif answer.startswith("err noSpace"):
            self.counts["refused"] += 1
        else:
            self.violation(f"on a full disk, {key}: {answer}")

    def check(self):
        for key, value in self.model.items():
            self.need(f"get {key}", "none" if value is None else f"value {value}")

    def test(self, mount):
        with self.open():
            for number in range(20):
                self.change(f"{number:02x}", "aa" * 50)
            self.need("sync", "ok")
            # The page of a shared store is synced too, so that its next change needs a new block.
            os.sync()
            fill(mount)
            for number in range(10):
                self.change(f"{number + 20:02x}", "bb" * 50)
                answer = self.ask("sync")
                if not answer.startswith("ok"):
                    self.violation(f"a sync on a full disk: {answer}")
                os.sync()
                self.change(f"{number:02x}", None)
            self.check()
        with self.open():
            # With mixed block groups, opening a killed store needs a block to cut a file.
            if self.ask("get 00").startswith("err noSpace") and not self.mixed:
                self.violation("a killed store does not open on a full disk")
            (mount / "filler").unlink()
            os.sync()
        with self.open():
            self.check()
            self.need("put ff 01", "ok")
            self.need("del 00", "ok")
            self.model |= {"ff": "01", "00": None}
            self.check()
            self.need("close", "ok")
        run(self.moraine, "verify", self.store)
        self.check_backup(mount)

    def check_backup(self, mount):
        backup = mount / "backup"
        run(self.moraine, "backup", self.store, backup)
        extents = [self.extents(path) for path in (self.store, backup)]
        links = [file.stat().st_nlink for file in backup.glob("*.segment")]
        if not extents[0] & extents[1] or links != [1] * len(links):
            self.violation("a backup on the same disk has no clone of a segment")

    def extents(self, place):
        os.sync()
        found = set()
        for file in place.rglob("*.segment"):
            for line in run("filefrag", "-v", file).splitlines():
                if match := re.match(r" *\d+: +\d+\.\. +\d+: +(\d+)\.\.", line):
                    found.add(match[1])
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("moraine", type=os.path.abspath)
    parser.add_argument("--io", choices=["mapped", "positional"])
    parser.add_argument("--mkfs", default="mkfs.btrfs")
    options = parser.parse_args()
    if not kernel_has_btrfs():
        print("no btrfs in this kernel, so nothing was tested on it")
        return
    # In a mount namespace of its own, no mount is left when the script is killed.
    run("mount", "--make-rprivate", "/")
    total = {"ok": 0, "refused": 0}
    cases = itertools.product(["mapped", "positional"], [False, True], [False, True])
    for io, shared, mixed in cases:
        # With mixed block groups, the metadata of a change needs the space that the data takes: then
        # no write through a mapping is safe, and a shared store has a mapping.
        if options.io not in (None, io) or mixed and (io == "mapped" or shared):
            continue
        with disk(options, mixed) as mount:
            case = Case(options, io, shared, mixed, mount)
            case.test(mount)
        for kind, count in case.counts.items():
            total[kind] += count
    print(f"btrfs: {total['ok']} writes done and {total['refused']} refused, no process ended")


if __name__ == "__main__":
    main()
