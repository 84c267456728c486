#!/usr/bin/env python3
"""Tests power failures of real file systems.  Needs root, fuse3 and libfuse3-dev:

    power.py MORAINE [--rounds N] [--seed N] [--only CASE] [--file-system ext4|xfs]

The file system is on a loop device over a disk that can refuse writes (failing_disk.c). The script
writes a store through `moraine drive`. Then the disk fails, the process is killed, and the next
process writes. A copy of the disk's bytes is the state that the power failure leaves. The store on the
copy must have every operation that was acknowledged as durable, and its state must be a prefix of the
operations. A failure prints the command that repeats it.
"""
import argparse, os, pathlib, random, re, shutil, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout.strip()


class Disk:
    """A file system of 300 MB on a disk that refuses writes on request."""

    def __init__(self, ground, program, kind):
        self.ground, self.kind = pathlib.Path(ground), kind
        self.backing = self.ground / "backing"
        self.refuse = self.ground / "backing.refuse"
        self.fuse, self.mount, self.copy = (self.ground / n for n in ("fuse", "mount", "copy"))
        for place in (self.fuse, self.mount, self.copy):
            place.mkdir()
        with open(self.backing, "wb") as file:
            file.truncate((310 if kind == "xfs" else 64) << 20)
        run(f"mkfs.{kind}", "-q", str(self.backing))
        self.server = subprocess.Popen([program, str(self.backing), str(self.fuse), "-f", "-s"])
        while not (self.fuse / "disk").exists():
            if self.server.poll() is not None:
                raise SystemExit("the FUSE server ended")
            time.sleep(0.01)
        self.loop = run("losetup", "--direct-io=on", "-f", "--show", str(self.fuse / "disk"))
        run("mount", self.loop, str(self.mount))

    def fail(self, files):
        """Refuses writes to the blocks of these files from now on. The journal still works."""
        lines = []
        for file in files:
            listed = subprocess.run(
                ["filefrag", "-v", "-b4096", str(file)], capture_output=True, text=True)
            # A compaction may have removed the file.
            for line in listed.stdout.splitlines():
                match = re.match(r" *\d+: +\d+\.\. +\d+: +(\d+)\.\. +(\d+):", line)
                if match:
                    lines.append(f"{int(match[1]) * 4096} {(int(match[2]) + 1) * 4096}")
        waiting = self.refuse.with_suffix(".tmp")
        waiting.write_text("\n".join(lines) + "\n")
        waiting.rename(self.refuse)

    def mend(self):
        self.refuse.unlink(missing_ok=True)

    def after_power_failure(self):
        """Mounts a copy of the disk's present bytes."""
        image = self.ground / "image"
        shutil.copyfile(self.backing, image)
        options = "loop,nouuid" if self.kind == "xfs" else "loop"
        run("mount", "-o", options, str(image), str(self.copy))
        return self.copy

    def close(self):
        self.mend()
        for place in (self.copy, self.mount):
            subprocess.run(["umount", "-q", str(place)], capture_output=True)
        subprocess.run(["losetup", "-d", self.loop], capture_output=True)
        subprocess.run(["fusermount3", "-u", str(self.fuse)], capture_output=True)
        self.server.wait(10)


class Writer:
    """One `moraine drive` process that puts random values."""

    def __init__(self, case, directory):
        self.case = case
        command = [case.moraine, "drive", str(directory), "--durability", "none",
                   "--segment-size", str(case.segment), "--io", case.io]
        self.process = subprocess.Popen(
            command + (["--shared"] if case.shared else []), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=dict(os.environ, SWIFT_BACKTRACE="enable=no"))
        case.writers.append(self)

    def ask(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()

    def write(self, count, log):
        """Puts random values until an error, and appends the acknowledged puts to the log."""
        for _ in range(count):
            key = self.case.rng.randrange(40)
            value = self.case.rng.randbytes(self.case.rng.randrange(1, 900))
            answer = self.ask(f"put {key:04x} {value.hex()}")
            if not answer.startswith("ok"):
                return answer
            log.append((f"{key:04x}", value.hex()))
        return "ok"

    def kill(self):
        self.process.kill()
        self.process.wait()


class Case:
    #: Number of rounds in which the disk refused the sync.
    failed = 0

    def __init__(self, options, name, kind, seed):
        self.moraine, self.name, self.kind, self.seed = options.moraine, name, kind, seed
        self.rng = random.Random(f"{name} {kind} {seed}")
        self.io = self.rng.choice(["mapped", "positional"])
        self.shared = self.rng.random() < 0.3
        self.segment = self.rng.choice([4096, 30_000, 1 << 20])
        #: The acknowledged operations in order, and the number of those that are durable.
        self.log, self.durable = [], 0
        self.writers = []

    def violation(self, what):
        raise SystemExit(
            f"VIOLATION: {what}\nrepeat with: power.py {self.moraine} --only {self.name} "
            f"--file-system {self.kind} --seed {self.seed} --rounds 1   ({self.io}, "
            f"shared {self.shared}, segments of {self.segment})")

    def synced(self, writer):
        answer = writer.ask("sync")
        if answer.startswith("ok"):
            self.durable = len(self.log)
        return answer

    def judge(self, place):
        """Opens the remaining store for writing. Checks that it has a prefix of the operations with
        all durable ones, and that it can be written to."""
        writer = Writer(self, place / "store")
        found = {}
        for number in range(40):
            answer = writer.ask(f"get {number:04x}")
            if answer.startswith("err"):
                self.violation(f"{len(self.log)} operations, {self.durable} durable: {answer}")
            if answer != "none":
                found[f"{number:04x}"] = answer.removeprefix("value ")
        state = dict(self.log[:self.durable])
        for key, value in [(None, None)] + self.log[self.durable:]:
            if key is not None:
                state[key] = value
            if state == found:
                break
        else:
            self.violation(f"what is there is no prefix of {len(self.log)} operations with the "
                           f"{self.durable} that are durable")
        if not writer.ask("put ffff 01").startswith("ok") or writer.ask("close") != "ok":
            self.violation("it cannot be written to")
        writer.process.wait()

    # The cases: the events before the power failure.

    def failed_sync(self, disk):
        """A sync fails, the process is killed, and the next process syncs the store as it is."""
        store = disk.mount / "store"
        writer = Writer(self, store)
        writer.write(self.rng.randrange(1, 200), self.log)
        self.synced(writer)
        writer.write(self.rng.randrange(1, 100), self.log)
        disk.fail(store.glob("*.segment"))
        writer.write(self.rng.randrange(1, 20), self.log)
        answer = self.synced(writer)
        # In positional mode the sync may allocate the blocks now, at a place that does not fail.
        Case.failed += not answer.startswith("ok")
        writer.kill()
        disk.mend()
        self.next_process(disk, store)

    def next_process(self, disk, store):
        writer = Writer(self, store)
        # From now on this state, a prefix of the acknowledged operations, is the log.
        found = {}
        for number in range(40):
            answer = writer.ask(f"get {number:04x}")
            if answer.startswith("err"):
                if self.is_read_only(disk):
                    return
                self.violation(f"the next process: {answer}")
            if answer != "none":
                found[f"{number:04x}"] = answer.removeprefix("value ")
        lengths = [n for n in range(self.durable, len(self.log) + 1)
                   if dict(self.log[:n]) == found]
        if not lengths:
            self.violation("the next process sees no prefix")
        del self.log[lengths[-1]:]
        if writer.ask("get 0000").startswith("err"):
            return
        self.log = list(found.items())
        self.durable = 0
        if self.synced(writer).startswith("ok"):
            writer.write(self.rng.randrange(1, 60), self.log)
            if self.rng.random() < 0.5:
                self.synced(writer)
        writer.kill()

    def is_read_only(self, disk):
        """Returns whether the file system is read-only because it could not write its journal."""
        try:
            (disk.mount / "probe").touch()
            (disk.mount / "probe").unlink()
            return False
        except OSError:
            return True

    def killed(self, disk):
        """A process is killed, the next process continues, and the power fails."""
        store = disk.mount / "store"
        if self.rng.random() < 0.5:
            store.mkdir()
        writer = Writer(self, store)
        writer.write(self.rng.randrange(1, 120), self.log)
        if self.rng.random() < 0.5:
            self.synced(writer)
        writer.kill()
        self.next_process(disk, store)

    def made_beforehand(self, disk):
        """The directory exists before the store, and its name is not on the disk yet."""
        store = disk.mount / "store"
        store.mkdir()
        writer = Writer(self, store)
        writer.write(self.rng.randrange(1, 20), self.log)
        if not self.synced(writer).startswith("ok"):
            self.violation("a sync failed")
        writer.kill()

    def brim(self, disk):
        """The writer of a store with three keys is killed while the disk is completely full."""
        store = disk.mount / "store"
        writer = Writer(self, store)
        for key in range(3):
            if not writer.ask(f"put {key:04x} 01").startswith("ok"):
                self.violation("an empty disk refuses a put")
            self.log.append((f"{key:04x}", "01"))
        filler = os.open(disk.mount / "filler", os.O_CREAT | os.O_WRONLY)
        for size in [1 << 20, 1 << 16, 4096]:
            try:
                while True:
                    os.write(filler, b"x" * size)
            except OSError:
                pass
        try:
            for number in range(100_000):
                os.close(os.open(disk.mount / str(number), os.O_CREAT | os.O_EXCL))
        except OSError:
            pass
        os.close(filler)
        writer.kill()
        writer = Writer(self, store)
        for line, answer in [("get 0000", "value 01"), ("get 0002", "value 01"), ("del 0001", "ok"),
                             ("get 0001", "none"), ("sync", "ok"), ("close", "ok")]:
            found = writer.ask(line)
            if not found.startswith(answer):
                self.violation(f"on a full disk, {line}: {found}")
        writer.process.wait()
        self.log = [("0000", "01"), ("0002", "01")]
        self.durable = 2
        # judge() needs a writable copy.
        (disk.mount / "filler").unlink()
        os.sync()


CASES = {"failed-sync": Case.failed_sync, "killed": Case.killed,
         "made-beforehand": Case.made_beforehand, "brim": Case.brim}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("moraine", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=10, help="seeds of each case")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--file-system", choices=["ext4", "xfs"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moraine-disks-") as place:
        program = os.path.join(place, "failing_disk")
        flags = run("pkg-config", "--cflags", "--libs", "fuse3").split()
        run("clang", "-O1", str(HERE / "failing_disk.c"), "-o", program, *flags)
        count = 0
        for seed in range(options.seed, options.seed + options.rounds):
            for kind in [options.file_system] if options.file_system else ["ext4", "xfs"]:
                for name in [options.only] if options.only else CASES:
                    ground = tempfile.mkdtemp(dir=place)
                    case, disk = Case(options, name, kind, seed), Disk(ground, program, kind)
                    try:
                        CASES[name](case, disk)
                        case.judge(disk.after_power_failure())
                    finally:
                        for writer in case.writers:
                            writer.kill()
                        disk.close()
                        shutil.rmtree(ground, ignore_errors=True)
                    count += 1
        print(f"{count} power failures of real file systems, {Case.failed} after a sync that the "
              "disk refused: 0 violations")


if __name__ == "__main__":
    main()
