#!/usr/bin/env python3
"""Several processes run transactions over lists in one store, and one of them is killed repeatedly.

histories.py MORAINE DIRECTORY [--transactions N] [--kills N] [--processes N] [--seed N] [--io MODE]
             [--ordered] [--deadline SECONDS]

Each transaction reads lists and appends its id to some of them, so the lists say who has read whose
write (Kingsbury and Alvaro, "Elle", VLDB 2020). At the end the dependencies between the transactions
must have no circle: one writes after another (ww), reads what another has written (wr), has read what
another replaces (rw), or begins after another has ended (rt). A transaction of a killed process counts
when its id is in a list, and then it must be in all lists to which it was about to append. On a
violation, also when a process says nothing before the deadline, the script prints the command that
repeats it; the exit code is 1.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import threading
import time

import children


class Process:
    first_id = 1
    ids_each = 1_000_000

    def __init__(self, options, history):
        self.is_dead = False
        self.history = history
        first, Process.first_id = Process.first_id, Process.first_id + Process.ids_each
        command = [options.moraine, "crash-test", "transactions", options.store, "--io", options.io,
                   "--seed", str(options.seed * 1000 + first // Process.ids_each),
                   "--first-id", str(first)]
        if options.ordered:
            command.append("--ordered")
        self.deadline = options.deadline
        self.heard = time.monotonic()
        self.child = children.start(command, stdout=subprocess.PIPE)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.child.stdout:
                if not line.endswith(b"\n"):
                    break
                self.history.add(json.loads(line))
                self.heard = time.monotonic()
            if not self.is_dead:
                self.history.failure = f"a process ended by itself with {self.child.wait()}"
        except Exception as error:  # The main thread reports it.
            self.history.failure = str(error) or type(error).__name__

    def check(self):
        if time.monotonic() - self.heard > self.deadline:
            raise AssertionError(
                f"process {self.child.pid} has said nothing for {self.deadline} s")

    def kill(self):
        self.is_dead = True
        children.kill(self.child)
        self.thread.join()
        children.forget(self.child)


class History:
    def __init__(self):
        self.began, self.committed, self.failure = {}, {}, None
        #: The lists to which the last attempt of a transaction was about to append.
        self.intended = {}
        self.lock = threading.Lock()

    def add(self, line):
        with self.lock:
            if "moment" in line:
                self.began[line["began"]] = line["moment"]
            elif "intends" in line:
                self.intended[line["id"]] = line["intends"]
            else:
                self.committed[line["id"]] = line


def complete(history, final):
    """Adds the transactions of killed processes whose ids are in the lists. Their appends are those
    that the process was about to commit, not those that are found: so half a transaction is seen."""
    committed = dict(history.committed)
    for name, ids in final.items():
        for number in ids:
            if number in committed:
                continue
            if number not in history.intended:
                raise AssertionError(
                    f"G1a: {name} has {number}, which no process was about to commit")
            committed[number] = {
                "id": number, "reads": {}, "appends": history.intended[number],
                "began": history.began[number], "ended": float("inf")}
    return committed


def check_lists(committed, final):
    for name, ids in final.items():
        if len(set(ids)) != len(ids):
            raise AssertionError(f"G0: {name} has an id twice")
        for number in ids:
            if name not in committed[number]["appends"]:
                raise AssertionError(f"G1a: {number} has not appended to {name}")
    for each in committed.values():
        for name in each["appends"]:
            if each["id"] not in final.get(name, []):
                raise AssertionError(f"lost: {name} lacks {each['id']}")
        for name, ids in each["reads"].items():
            if final.get(name, [])[:len(ids)] != ids:
                raise AssertionError(f"G1: {each['id']} has read {ids} of {name}")


def dependencies(committed, final):
    edges = {number: {} for number in committed}

    def add(one, other, kind):
        if one != other:
            edges[one].setdefault(other, kind)

    for ids in final.values():
        for one, other in zip(ids, ids[1:]):
            add(one, other, "ww")
    for each in committed.values():
        for name, ids in each["reads"].items():
            if ids:
                add(ids[-1], each["id"], "wr")
            after = final.get(name, [])[len(ids):]
            if after:
                add(each["id"], after[0], "rw")
    # An edge from each transaction to the first ones after its end would be as good; all of them are
    # too many. One node for each moment between them: "after time t" leads to all that begin later.
    order = sorted(committed.values(), key=lambda each: each["began"])
    for place, each in enumerate(order):
        edges[("time", place)] = {each["id"]: "rt"}
        if place + 1 < len(order):
            edges[("time", place)][("time", place + 1)] = "rt"
    starts = [each["began"] for each in order]
    for each in order:
        low, high = 0, len(starts)
        while low < high:
            middle = (low + high) // 2
            if starts[middle] > each["ended"]:
                high = middle
            else:
                low = middle + 1
        if low < len(starts):
            edges[each["id"]].setdefault(("time", low), "rt")
    return edges


def circle(edges):
    state = {}
    for start in edges:
        if start in state:
            continue
        state[start] = 1
        stack = [(start, iter(edges[start]))]
        while stack:
            node, rest = stack[-1]
            for other in rest:
                if state.get(other) == 1:
                    names = [node for node, _ in stack]
                    found = names[names.index(other):] + [other]
                    return " -> ".join(
                        f"{one} {edges[one][two]}" for one, two in zip(found, found[1:]))
                if other not in state:
                    state[other] = 1
                    stack.append((other, iter(edges[other])))
                    break
            else:
                state[node] = 2
                stack.pop()
    return None


def run(options):
    rng = random.Random(options.seed)
    history = History()
    processes = [Process(options, history) for _ in range(options.processes)]
    kills = 0
    while len(history.committed) < options.transactions and not history.failure:
        for process in processes:
            process.check()
        if kills * options.transactions < options.kills * len(history.committed):
            victim = processes.pop(rng.randrange(len(processes)))
            time.sleep(rng.uniform(0.0, 0.01))
            victim.kill()
            kills += 1
            processes.append(Process(options, history))
        time.sleep(0.001)
    for process in processes:
        process.kill()
    if history.failure:
        raise AssertionError(history.failure)
    answer = subprocess.run(
        [options.moraine, "crash-test", "transactions", options.store, "--io", options.io,
         "--count", "0"], check=True, stdout=subprocess.PIPE, timeout=options.deadline)
    final = json.loads(answer.stdout)
    committed = complete(history, final)
    check_lists(committed, final)
    found = circle(dependencies(committed, final))
    if found:
        raise AssertionError(f"a circle: {found}")
    print(f"{len(history.committed)} transactions of {options.processes} processes, "
          f"{len(committed) - len(history.committed)} more by processes that were killed, "
          f"{kills} kills: strictly serializable")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("moraine")
    parser.add_argument("directory")
    parser.add_argument("--transactions", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--io", choices=["mapped", "positional"], default="mapped")
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--deadline", type=float, default=children.DEADLINE)
    options = parser.parse_args()
    options.moraine = os.path.abspath(options.moraine)
    options.store = os.path.join(options.directory, "lists")
    shutil.rmtree(options.store, ignore_errors=True)
    os.makedirs(options.directory, exist_ok=True)
    children.report_failures(lambda: run(options))


if __name__ == "__main__":
    main()
