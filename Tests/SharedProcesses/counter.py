#!/usr/bin/env python3
"""Several processes increment one counter by compare and set, and one of them is killed repeatedly.

counter.py MORAINE DIRECTORY [--increments N] [--kills N] [--processes N] [--seed N] [--io MODE]
           [--deadline SECONDS]

Each process reads the counter with its sequence number, and sets it to the next number if the
sequence number is still the same. A process that is killed may have set the counter without
answering. At the end the counter must be at least the number of acknowledged increments, and at most
that number and one more for each kill. On a violation, also when a process does not answer before the
deadline, the script prints the command that repeats it; the exit code is 1.
"""

import argparse
import os
import random
import shutil
import subprocess
import threading
import time

import children

KEY = b"counter".hex()


class Process:
    def __init__(self, options, total):
        self.total = total
        self.acknowledged = self.conflicts = 0
        self.is_dead = False
        self.failure = None
        self.deadline = options.deadline
        self.child = children.start(
            [options.moraine, "drive", options.store, "--shared", "--io", options.io,
             "--durability", "none", "--segment-size", str(options.segment_size)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.thread = threading.Thread(target=self.count_on, daemon=True)
        self.thread.start()

    def ask(self, line):
        return children.ask(self.child, line, self.deadline)

    def count_on(self):
        try:
            while self.total.wanted():
                self.increment()
        except Exception as error:  # The main thread reports it.
            if not (self.is_dead and isinstance(error, OSError)):
                self.failure = str(error) or type(error).__name__

    def increment(self):
        seen = self.ask(f"getv {KEY}")
        if seen == "none":
            condition, value = "absent", 0
        else:
            _, condition, text = seen.split()
            value = int(text, 16)
        answer = self.ask(f"cas {KEY} {condition} {value + 1:016x}")
        if answer.startswith("ok "):
            self.acknowledged += 1
            self.total.add()
        elif answer.startswith("err conflict"):
            self.conflicts += 1
        else:
            raise AssertionError(f"cas was answered {answer}")

    def kill(self):
        self.is_dead = True
        children.kill(self.child)
        self.thread.join()
        children.forget(self.child)


class Total:
    def __init__(self, goal):
        self.goal, self.count, self.lock = goal, 0, threading.Lock()

    def wanted(self):
        return self.count < self.goal

    def add(self):
        with self.lock:
            self.count += 1


def check(processes):
    for process in processes:
        if process.failure:
            raise AssertionError(process.failure)


def run(options):
    rng = random.Random(options.seed)
    total = Total(options.increments)
    processes = [Process(options, total) for _ in range(options.processes)]
    everyone = list(processes)
    kills = 0
    while total.wanted():
        check(everyone)
        if kills * options.increments < options.kills * total.count:
            victim = processes.pop(rng.randrange(len(processes)))
            time.sleep(rng.uniform(0.0, 0.01))
            victim.kill()
            kills += 1
            processes.append(Process(options, total))
            everyone.append(processes[-1])
        time.sleep(0.001)
    for process in processes:
        process.thread.join()
    check(everyone)
    found = int(processes[0].ask(f"get {KEY}").split()[1], 16)
    for process in processes:
        process.ask("close")
        process.child.wait(options.deadline)
    acknowledged = sum(process.acknowledged for process in everyone)
    conflicts = sum(process.conflicts for process in everyone)
    if not acknowledged <= found <= acknowledged + kills:
        raise AssertionError(
            f"the counter is {found}; {acknowledged} increments were acknowledged, {kills} kills")
    subprocess.run([options.moraine, "verify", options.store], check=True,
                   stdout=subprocess.DEVNULL, timeout=options.deadline)
    print(f"{acknowledged} increments, {conflicts} conflicts, {kills} kills among "
          f"{options.processes} processes: the counter is {found}, nothing lost")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("moraine")
    parser.add_argument("directory")
    parser.add_argument("--increments", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--io", default="mapped")
    parser.add_argument("--segment-size", type=int, default=4096)
    parser.add_argument("--deadline", type=float, default=children.DEADLINE)
    options = parser.parse_args()
    options.store = os.path.join(options.directory, "store")
    shutil.rmtree(options.directory, ignore_errors=True)
    os.makedirs(options.directory)
    children.report_failures(lambda: run(options))


main()
