#!/usr/bin/env python3
"""Writers of an archive in a bucket are killed and stopped at random moments, and the server too.

kills.py MORAINE DIRECTORY ADDRESS... [--kills N] [--seed N] [--seconds N] [--pid N]

Each ADDRESS is one endpoint of the same archive: s3://BUCKET/PREFIX?endpoint=…. A writer (`moraine
drive --archive`) writes and flushes until it is killed, or stopped while a second writer takes over
with a restored store. A ledger has the writes and what a flush has acknowledged. With --pid the
server of this process id is stopped for a while. ceph_tests.py runs the same with a cluster, whose
gateways are stopped and killed, and whose OSDs are killed.

After each round the archive is written again, by the same store or by a restored one. Restored
stores must have every acknowledged write, and exactly the state of one moment. A writer that was
stopped must not acknowledge what the archive does not have. On a violation the script prints the
command that repeats it; the exit code is 1.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True


class Violation(Exception):
    pass


class Ledger:
    """The writes of one history: one operation for each sequence number."""

    def __init__(self):
        self.operations = []        # (sequence, key, value or None)
        self.acknowledged = 0
        self.unanswered = None      # The key and the value of the operation without an answer.

    @property
    def last(self):
        return self.operations[-1][0] if self.operations else 0

    def add(self, sequence, key, value):
        if sequence <= self.last:
            raise Violation(f"sequence {sequence} after {self.last}")
        self.operations.append((sequence, key, value))

    def state(self, through):
        state = {}
        for sequence, key, value in self.operations:
            if sequence > through:
                break
            state[key] = value
        return {key: value for key, value in state.items() if value is not None}

    def cut(self, through):
        """Forgets the writes that a restored store does not have."""
        self.operations = [entry for entry in self.operations if entry[0] <= through]


class Writer:
    """A process `moraine drive --archive`, and the thread that gives it work."""

    def __init__(self, options, store, address, ledger, seed):
        self.random = random.Random(seed)
        self.ledger = ledger
        self.answers = []           # Answers to flush, in their order.
        self.errors = []
        self.is_stopping = False
        self.child = subprocess.Popen(
            [options.moraine, "drive", store, "--archive", address, "--durability", "none",
             "--segment-size", "65536"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "SWIFT_BACKTRACE": "enable=no"})
        self.violation = None
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def ask(self, line):
        self.child.stdin.write((line + "\n").encode())
        self.child.stdin.flush()
        answer = self.child.stdout.readline().decode()
        if not answer.endswith("\n"):
            raise BrokenPipeError
        return answer.strip()

    def work(self):
        try:
            self.begin()
            while not self.is_stopping:
                self.step()
        except (BrokenPipeError, ValueError, OSError):
            pass
        except Violation as violation:
            self.violation = violation

    def begin(self):
        """Compares the store with the ledger: the last write of a killed writer may exist."""
        answer = self.ask("stats")
        if answer.startswith("err"):
            self.errors.append(answer)
            raise BrokenPipeError
        last = json.loads(answer.split(" ", 1)[1])["lastSequence"]
        if last == self.ledger.last + 1 and self.ledger.unanswered:
            self.ledger.add(last, *self.ledger.unanswered)
        self.ledger.unanswered = None
        if last != self.ledger.last:
            raise Violation(f"the store ends at {last}, and the ledger at {self.ledger.last}")

    def step(self):
        chance = self.random.random()
        if chance < 0.06:
            return self.flush()
        if chance < 0.063:
            return self.note(self.ask("checkpoint"))
        if chance < 0.067:
            return self.note(self.ask("compact"))
        key = f"key {self.random.randrange(60)}".encode().hex()
        value = self.random.randbytes(self.random.choice([1, 20, 300, 3000])).hex()
        if self.random.random() < 0.2:
            value = None
        self.ledger.unanswered = (key, value)
        answer = self.ask(f"del {key}" if value is None else f"put {key} {value}")
        if answer.startswith("err"):
            # A fenced store writes nothing more.
            self.ledger.unanswered = None
            return self.note(answer)
        if answer != "ok -":
            self.ledger.add(int(answer.split()[1]), key, value)
        self.ledger.unanswered = None

    def note(self, answer):
        if answer.startswith("err"):
            self.errors.append(answer)
            time.sleep(0.01)

    def flush(self):
        answer = self.ask("flush")
        if not answer.startswith("ok"):
            return self.note(answer)
        sequence = int(answer.split()[1])
        self.answers.append(sequence)
        if sequence < self.ledger.last:
            raise Violation(f"flush acknowledged {sequence} after the write {self.ledger.last}")
        self.ledger.acknowledged = sequence

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.thread.join()
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        if self.violation:
            raise self.violation


class Run:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.folder = pathlib.Path(options.directory)
        self.store_count = 0
        self.counts = dict.fromkeys(
            ["kills", "take-overs", "lost machines", "server faults", "flushes", "restored",
             "not attached"], 0)
        self.ledger = Ledger()
        self.store = self.new_store()
        self.cluster = None
        self.writers = []

    def close(self):
        """Ends the processes that a violation has left."""
        for writer in self.writers:
            writer.child.kill()
            writer.child.wait()

    def new_store(self):
        self.store_count += 1
        return str(self.folder / f"store-{self.store_count}.moraine")

    def address(self):
        return self.random.choice(self.options.address)

    def command(self, *arguments):
        return subprocess.run(
            [self.options.moraine, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)

    def writer(self, store, ledger):
        writer = Writer(self.options, store, self.address(), ledger, self.random.random())
        self.writers.append(writer)
        return writer

    def restore(self):
        """Restores the archive, and compares it with the ledger.

        Returns the directory and the last sequence number of the restored store."""
        path = self.new_store()
        for _ in range(20):
            done = self.command("restore", self.address(), path, "--json")
            if done.returncode != 10:
                break
            time.sleep(0.5)
        if done.returncode != 0:
            raise Violation(f"the archive cannot be restored ({done.returncode}): {done.stderr}")
        sequence = json.loads(done.stdout)["sequence"]
        if self.ledger.unanswered and sequence == self.ledger.last + 1:
            self.ledger.add(sequence, *self.ledger.unanswered)
            self.ledger.unanswered = None
        if not self.ledger.acknowledged <= sequence <= self.ledger.last:
            raise Violation(f"restored {sequence}; acknowledged {self.ledger.acknowledged}, "
                            f"written {self.ledger.last}")
        dumped = self.command("dump", path, "--format", "hex")
        found = {}
        for line in dumped.stdout.splitlines():
            key, _, value = line.split(" ")
            found[key] = value
        if found != self.ledger.state(sequence):
            raise Violation(f"the state restored at {sequence} is not the state written there")
        self.counts["restored"] += 1
        return path, sequence

    def adopt(self, path, sequence):
        """Goes on with a restored store: the machine of the writer is lost."""
        shutil.rmtree(self.store)
        self.counts["lost machines"] += 1
        self.store = path
        self.ledger.cut(sequence)
        self.ledger.unanswered = None

    def take_over(self, first):
        """Stops a writer, lets another store take over, and continues the first."""
        first.child.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        before = len(first.answers)
        old = self.ledger
        self.ledger = Ledger()
        self.ledger.operations = list(old.operations)
        self.ledger.acknowledged, self.ledger.unanswered = old.acknowledged, old.unanswered
        path, sequence = self.restore()
        self.ledger.cut(sequence)
        self.ledger.unanswered = None
        second = self.writer(path, self.ledger)
        end = time.monotonic() + 30
        while not second.answers and second.thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        took_over = bool(second.answers)
        first.child.send_signal(signal.SIGCONT)
        if took_over:
            self.counts["take-overs"] += 1
            end = time.monotonic() + 60
            while not any("fenced" in error for error in first.errors):
                if time.monotonic() > end or not first.thread.is_alive():
                    raise Violation(f"the earlier writer was not fenced: {first.errors[-3:]}")
                time.sleep(0.01)
            if any(answer > sequence for answer in first.answers[before:]):
                raise Violation(f"the earlier writer acknowledged {first.answers[before:]}, and the "
                                f"history continued from {sequence}")
        first.is_stopping = True
        self.end(first)
        old_store = self.store
        self.store = path
        if took_over:
            shutil.rmtree(old_store)
            return second
        # The second writer has acknowledged nothing; both histories may go on in the archive.
        self.end(second)
        restored, sequence = self.restore_either(old, self.ledger)
        shutil.rmtree(old_store)
        self.adopt(restored, sequence)
        return None

    def restore_either(self, first, second):
        try:
            self.ledger = second
            return self.restore()
        except Violation:
            self.ledger = first
            return self.restore()

    def end(self, writer):
        writer.kill()
        self.counts["flushes"] += len(writer.answers)
        if writer.errors and not writer.answers:
            self.counts["not attached"] += 1

    def fault(self):
        """Begins a fault of the server. Returns what ends it."""
        kind = self.random.random()
        if self.options.pid and kind < 0.4:
            os.kill(self.options.pid, signal.SIGSTOP)
            self.counts["server faults"] += 1
            return lambda: os.kill(self.options.pid, signal.SIGCONT)
        if not self.cluster or kind > 0.6:
            return None
        self.counts["server faults"] += 1
        if kind < 0.2:
            name = self.random.choice(["rgw1", "rgw2"])
            self.cluster.signal(name, signal.SIGSTOP)
            return lambda: self.cluster.signal(name, signal.SIGCONT)
        name = self.random.choice(["rgw1", "rgw2"] if kind < 0.4 else ["osd0", "osd1", "osd2"])
        self.cluster.signal(name, signal.SIGKILL)
        return lambda: self.cluster.restart(name)

    def round(self):
        writer = self.writer(self.store, self.ledger)
        # The moments are from the start of the process: also the attach is interrupted.
        time.sleep(self.random.uniform(0, self.options.seconds))
        end_fault = self.fault()
        time.sleep(self.random.uniform(0, 1))
        if self.random.random() < 0.25 and writer.answers:
            # Without a fault, so that the second writer can attach.
            if end_fault:
                end_fault()
                end_fault = None
            later = self.take_over(writer)
            if later is None:
                return
            writer = later
            time.sleep(self.random.uniform(0, 0.5))
        self.end(writer)
        self.counts["kills"] += 1
        if end_fault:
            end_fault()
        if self.ledger.acknowledged and self.random.random() < 0.3:
            path, sequence = self.restore()
            if self.random.random() < 0.5:
                self.adopt(path, sequence)
            else:
                shutil.rmtree(path)

    def finish(self):
        """Writes in peace, and restores."""
        writer = self.writer(self.store, self.ledger)
        end = time.monotonic() + 120
        while not writer.answers and time.monotonic() < end and writer.thread.is_alive():
            time.sleep(0.05)
        self.end(writer)
        if not writer.answers:
            raise Violation(f"the archive cannot be written at the end: {writer.errors[-1:]}")
        path, _ = self.restore()
        verified = self.command("archive-verify", self.address())
        if verified.returncode != 0:
            raise Violation(f"the archive is not sound: {verified.stderr}")
        print(verified.stdout.strip())

    def run(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        subprocess.run([self.options.moraine, "drive", self.store], input=b"put 61 61\n",
                       stdout=subprocess.DEVNULL, check=True)
        self.ledger.add(1, "61", "61")
        created = self.command("archive", self.store, self.options.address[0], "--create")
        if created.returncode != 0:
            raise Violation(f"the archive cannot be created: {created.stderr}")
        self.ledger.acknowledged = 1
        while self.counts["kills"] < self.options.kills:
            self.round()
            if self.counts["kills"] % 20 == 0:
                print(f"  {self.counts}", flush=True)
        self.finish()
        shutil.rmtree(self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("moraine")
    parser.add_argument("directory")
    parser.add_argument("address", nargs="+")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="the longest life of a writer")
    parser.add_argument("--pid", type=int, help="the process of the server, which is stopped")
    options = parser.parse_args()
    run = Run(options)
    try:
        run.run()
    except Violation as violation:
        print(f"VIOLATION with --seed {options.seed}: {violation}\n{run.counts}\nrepeat with: "
              f"{' '.join(sys.argv)}", file=sys.stderr)
        return 1
    finally:
        run.close()
    print(f"no violation, seed {options.seed}: {run.counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
