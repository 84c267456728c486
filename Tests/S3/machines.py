"""Machines that reach the servers of a bucket over links of their own, with clocks of their own."""

import json
import mmap
import os
import pathlib
import random
import shutil
import struct
import subprocess
import threading
import time

from ledger import Violation

#: Codes of errors that a broken network or a later writer explains.
EXPLAINED = ("unavailable", "fenced", "cancelled", "closed")


def build_wrong_clock(folder):
    """Builds the library that shifts the clock of a process."""
    library = pathlib.Path(folder) / "wrong_clock.so"
    compiler = shutil.which("cc") or shutil.which("clang")
    if not compiler:
        raise RuntimeError("wrong clocks need a C compiler, cc or clang")
    source = pathlib.Path(__file__).resolve().parent / "wrong_clock.c"
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library),
                    str(source), "-ldl"], check=True)
    return str(library)


class Machine:
    """A machine: one link to each server, and a clock."""

    def __init__(self, name, network, servers, folder, library):
        self.name, self.network, self.library = name, network, library
        self.clock_file = str(pathlib.Path(folder) / f"clock-{name}")
        with open(self.clock_file, "w+b") as file:
            file.write(bytes(8))
            file.flush()
            self.clock = mmap.mmap(file.fileno(), 8)
        self.links = []
        self.addresses = []
        for number, (bucket, port) in enumerate(servers):
            link = f"{name}{number}"
            own = network.open(link, port)
            self.links.append(link)
            self.addresses.append(bucket.format(port=own))

    def set_clock(self, seconds):
        """Shifts the clock, also of the processes that run."""
        self.clock[:] = struct.pack("=q", seconds)

    @property
    def environment(self):
        return {**os.environ, "SWIFT_BACKTRACE": "enable=no", "LD_PRELOAD": self.library,
                "WRONG_CLOCK": self.clock_file}

    def set(self, **state):
        self.network.set(self.links, **state)

    def calm(self):
        self.network.calm(self.links)

    def start(self, command, **pipes):
        return subprocess.Popen(command, env=self.environment, **pipes)


class Writer:
    """A process `moraine drive --archive`, and the thread that gives it work."""

    def __init__(self, moraine, machine, store, ledger, chance):
        self.random = random.Random(chance.random())
        self.machine = machine
        self.ledger = ledger
        self.answers = []           # Answers to flush, in their order.
        self.errors = []
        self.is_attached = False
        self.is_stopping = False
        self.child = machine.start(
            [moraine, "drive", store, "--archive", chance.choice(machine.addresses),
             "--durability", "none", "--segment-size", "65536"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
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
            self.note(answer)
            raise BrokenPipeError
        self.is_attached = True
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
        if not answer.startswith("err"):
            return
        self.errors.append(answer)
        if answer.split()[1] not in EXPLAINED:
            raise Violation(f"no fault of the network explains this: {answer}")
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

    def finish(self):
        """Writes once more, so that the newest commit has an acknowledged operation."""
        self.is_stopping = True
        self.thread.join()
        self.ledger.add(int(self.ask("put 65 65").split()[1]), "65", "65")
        self.flush()

    @property
    def is_fenced(self):
        return any(error.startswith("err fenced") for error in self.errors)

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.thread.join()
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        self.child.stdout.close()
        if self.violation:
            raise self.violation
