#!/usr/bin/env python3
"""Several processes write one store, and one of them is killed repeatedly at random moments.

kills.py MORAINE DIRECTORY [--kills N] [--processes N] [--seed N] [--durability LEVEL] [--io MODE]
         [--segment-size BYTES] [--deadline SECONDS]

After each kill the survivors continue without reopening, and a new process joins them. The script
checks that all processes see every acknowledged write of every process; that the unit in progress
when its process died is present completely or not at all; and that sequence numbers are unique and
rise for each process. At the end all processes close, and one process opens the store exclusively
and verifies it. On a violation, also when a process does not answer before the deadline, the script
prints the command that repeats it; the exit code is 1.
"""

import argparse
import os
import random
import shutil
import subprocess
import threading
import time

import children


class Process:
    """One `moraine drive --shared` process, with a ledger of the writes that it acknowledged."""

    def __init__(self, number, options):
        self.name = f"{number:x}"
        self.random = random.Random(f"{options.seed} {number}")
        self.acknowledged = {}      # key -> value, None for a deleted key
        self.in_air = []            # [(key, value)] of the unit without an answer
        self.last_sequence = 0
        self.sequences = []
        self.units = 0
        self.mode = options.io or self.random.choice(["mapped", "positional"])
        self.deadline = options.deadline
        self.child = children.start(
            [options.moraine, "drive", options.store, "--shared", "--io", self.mode,
             "--durability", options.durability, "--segment-size", str(options.segment_size)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.failure = None
        self.is_stopping = False
        self.is_dead = False
        self.go_on()

    def go_on(self):
        self.is_stopping = False
        self.thread = threading.Thread(target=self.write_on, daemon=True)
        self.thread.start()

    def ask(self, line):
        return children.ask(self.child, line, self.deadline)

    def write_on(self):
        try:
            while not self.is_stopping:
                self.write_once()
        except Exception as error:  # The main thread reports it.
            if not (self.is_dead and isinstance(error, OSError)):
                self.failure = f"process {self.name}: {str(error) or type(error).__name__}"

    def operation(self):
        key = f"{self.name}-{self.random.randrange(40)}".encode().hex()
        if self.random.random() < 0.2:
            return key, None
        size = self.random.choice([0, 3, 40, 400])
        return key, self.random.randbytes(size).hex() or "-"

    def write_once(self):
        count = self.random.choice([1, 1, 1, 4])
        unit = [self.operation() for _ in range(count)]
        self.in_air = unit
        lines = [f"del {key}" if value is None else f"put {key} {value}" for key, value in unit]
        if count > 1:
            lines.insert(0, f"batch {count}")
        answer = self.ask("\n".join(lines))
        if not answer.startswith("ok"):
            raise AssertionError(f"{lines[0]} was answered {answer}")
        if answer != "ok -":
            sequence = int(answer.split()[1])
            if sequence <= self.last_sequence and count == 1:
                raise AssertionError(f"sequence {sequence} after {self.last_sequence}")
            self.last_sequence = max(sequence, self.last_sequence)
            if count == 1:
                self.sequences.append(sequence)
        for key, value in unit:
            self.acknowledged[key] = value
        self.in_air = []
        self.units += 1
        if self.random.random() < 0.01 and self.ask("compact") != "ok":
            raise AssertionError("compact failed")
        if self.random.random() < 0.1:
            key = self.random.choice(list(self.acknowledged))
            self.check(self, key)

    def check(self, owner, key):
        """Checks that this process sees the write that `owner` acknowledged."""
        answer = self.ask(f"get {key}")
        expected = answer_of(owner.acknowledged[key])
        if answer != expected:
            raise AssertionError(f"get {key} is {answer[:40]}, and {expected[:40]} was acknowledged "
                                 f"by {owner.name}")

    def kill(self):
        self.is_dead = True
        children.kill(self.child)
        self.thread.join()
        children.forget(self.child)
        if self.failure:
            raise AssertionError(self.failure)

    def stop(self):
        self.is_stopping = True
        self.thread.join()


def answer_of(value):
    return "none" if value is None else f"value {value}"


def settle(dead, reader):
    """Compares the writes that a killed process acknowledged with the store. The unit without an
    answer must be present completely or not at all; the ledger records which."""
    touched = {}
    for key, value in dead.in_air:
        touched[key] = value
    found = {key: reader.ask(f"get {key}") for key in set(dead.acknowledged) | set(touched)}
    happened = [key for key in touched
                if answer_of(touched[key]) != answer_of(dead.acknowledged.get(key))]
    did = {found[key] == answer_of(touched[key]) for key in happened}
    if len(did) > 1:
        raise AssertionError(f"half a batch of {dead.name} is there: {dead.in_air}")
    if did == {True}:
        dead.acknowledged.update(touched)
    for key, value in dead.acknowledged.items():
        if found[key] != answer_of(value):
            raise AssertionError(f"{key} is {found[key][:40]}, and {answer_of(value)[:40]} was "
                                 f"acknowledged by {dead.name}, which was killed")


def run(options):
    rng = random.Random(options.seed)
    processes = [Process(number, options) for number in range(options.processes)]
    gone, born = [], options.processes
    for kill in range(options.kills):
        time.sleep(rng.uniform(0.0, 0.12))
        victim = processes.pop(rng.randrange(len(processes)))
        victim.kill()
        for process in processes:
            if process.failure:
                raise AssertionError(process.failure)
        # The survivors pause for a moment, so that one of them can answer.
        survivor = processes[rng.randrange(len(processes))]
        survivor.stop()
        if survivor.failure:
            raise AssertionError(survivor.failure)
        settle(victim, survivor)
        gone.append(victim)
        survivor.go_on()
        processes.append(Process(born, options))
        born += 1
        if (kill + 1) % 25 == 0:
            print(f"  {kill + 1} kills", flush=True)
    for process in processes:
        process.stop()
        if process.failure:
            raise AssertionError(process.failure)
    everything = gone + processes
    for reader in processes:
        for owner in everything:
            for key in owner.acknowledged:
                reader.check(owner, key)
    numbers = [number for process in everything for number in process.sequences]
    if len(numbers) != len(set(numbers)):
        raise AssertionError("a sequence number was given twice")
    for process in processes:
        process.child.stdin.close()
        if process.child.wait(options.deadline) != 0:
            raise AssertionError(f"closing ended with {process.child.returncode}")
    verification = subprocess.run([options.moraine, "verify", options.store], capture_output=True,
                                  timeout=options.deadline)
    if verification.returncode != 0:
        raise AssertionError(f"verify: {verification.stdout.decode()}{verification.stderr.decode()}")
    live = sum(value is not None for owner in everything for value in owner.acknowledged.values())
    listed = subprocess.run([options.moraine, "scan", options.store, "--keys-only"],
                            capture_output=True, check=True, timeout=options.deadline).stdout
    if len(listed.splitlines()) != live:
        raise AssertionError(f"{len(listed.splitlines())} keys, and {live} were acknowledged")
    units = sum(process.units for process in everything)
    print(f"{options.kills} kills among {options.processes} processes, {units} acknowledged units, "
          f"{live} live keys, 0 violations")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("moraine")
    parser.add_argument("directory")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--durability", default="none")
    parser.add_argument("--io")
    parser.add_argument("--segment-size", type=int, default=20000)
    parser.add_argument("--deadline", type=float, default=children.DEADLINE)
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    os.makedirs(options.directory)
    options.store = os.path.join(options.directory, "store")
    children.report_failures(lambda: run(options))


main()
