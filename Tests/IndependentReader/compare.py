#!/usr/bin/env python3
"""Compares the independent reader with the program, on a random store.

compare.py MORAINE SCRATCH [--seed N] [--io mapped|positional]
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import traceback

import forged
import read_store
from moraine_format import Violation


class Drive:
    """One `moraine drive` process, and the contents that the store must have."""

    def __init__(self, options, directory, model, segment_size=8192):
        self.model = model
        self.process = subprocess.Popen(
            [options.moraine, "drive", directory, "--segment-size", str(segment_size), "--durability", "none",
             "--io", options.io],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *commands):
        self.process.stdin.write("\n".join(commands) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer.startswith("ok"), f"{commands[0][:60]}: {answer}"

    def put(self, key, value):
        self.model[key] = value
        return f"put {key.hex() or '-'} {value.hex() or '-'}"

    def delete(self, key):
        self.model.pop(key, None)
        return f"del {key.hex() or '-'}"

    def end(self, kills):
        if kills:
            self.process.send_signal(signal.SIGKILL)
        else:
            self.ask("close")
        self.process.communicate()


    def kill_midway(self, commands, answers):
        """Sends SIGKILL after some answers, while the process executes the commands after them."""
        def send():
            try:
                for lines in commands:
                    self.process.stdin.write("\n".join(lines) + "\n")
                self.process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass

        sender = threading.Thread(target=send)
        sender.start()
        answered = 0
        for answered in range(1, answers + 1):
            answer = self.process.stdout.readline().strip()
            assert answer.startswith("ok"), f"{commands[answered - 1][0][:60]}: {answer}"
        self.process.send_signal(signal.SIGKILL)
        sender.join()
        answered += len(self.process.stdout.read().splitlines())
        self.process.wait()
        return answered


def value(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return b""
    if kind == 1:
        return rng.randbytes(rng.randrange(1, 300))
    if kind == 2 and rng.randrange(20) == 0:
        return rng.randbytes(9000) + bytes(12000)
    return (rng.randbytes(rng.randrange(1, 9)) * 400)[:rng.randrange(1, 1500)]


def workload(drive, rng, steps):
    """Sends random commands one after the other, and applies them to the model."""
    keys = [b""] + [rng.randbytes(rng.randrange(1, 40)) for _ in range(60)]

    def operation():
        key = rng.choice(keys)
        return drive.delete(key) if rng.randrange(4) == 0 else drive.put(key, value(rng))

    for _ in range(steps):
        chance = rng.randrange(12)
        if chance == 0:
            count = rng.randrange(1, 12)
            yield [f"batch {count}", *[operation() for _ in range(count)]]
        elif chance == 1:
            yield ["sync"]
        else:
            yield [operation()]


def work(drive, rng, steps):
    for lines in workload(drive, rng, steps):
        drive.ask(*lines)


def shared(options, directory, rng):
    """Stores similar documents, so that compaction gives their segments dictionaries."""
    drive = Drive(options, directory, {}, segment_size=1 << 17)
    for life in range(2):
        for number in range(life * 900, life * 900 + 1500):
            document = {"id": number, "name": rng.choice(["Ada", "Grace", "Edsger", "Barbara"]),
                        "address": {"city": rng.choice(["Oslo", "Lima"]), "country": "somewhere"},
                        "preferences": {"newsletter": rng.random() < 0.5, "language": "en-GB"},
                        "created": rng.randrange(1 << 30), "roles": ["reader", "writer"]}
            drive.ask(drive.put(b"%d" % number, json.dumps(document).encode()))
        drive.ask(drive.put(b"random %d" % life, rng.randbytes(2000)))
        for number in rng.sample(range(900), 200):
            drive.ask(drive.delete(b"%d" % number))
        drive.ask("compact")
    drive.end(kills=False)
    count = check(options, directory, drive.model)
    dictionaries = 0
    for name in os.listdir(directory):
        if name.endswith(".segment"):
            with open(os.path.join(directory, name), "rb") as file:
                dictionaries += file.read(104)[100:] != bytes(4)
    assert dictionaries > 0, "no segment has a dictionary"
    return count, dictionaries


def killed_midway(options, directory, rng, steps):
    """Checks that a killed store has the state after the last answered command or a later one."""
    drive = Drive(options, directory, {})
    commands, states = [], [{}]
    for lines in workload(drive, rng, steps):
        commands.append(lines)
        states.append(dict(drive.model))
    answered = drive.kill_midway(commands, rng.randrange(steps // 2, steps))
    copy = directory + "-copy"
    shutil.copytree(directory, copy)
    ours = read_store.lines(copy)
    assert ours == dumped(options, directory), "after SIGKILL the program shows other records"
    assert held(ours) in states[answered:], f"not a state at or after {answered} answers"
    return copy


def keyspaces(options, directory, rng):
    """Writes the same keys to several keyspaces, and a segment or two to the unnamed one."""
    names = ["", "users", "settings", "été"]
    for name in names:
        ids = [rng.randrange(50) for _ in range(60)]
        lines = "".join(f'{{"id":{key},"of":"{name} {rng.random()}"}}\n' for key in ids)
        arguments = [options.moraine, "load", directory, "--batch", "9", "--keyspace", name]
        subprocess.run(arguments, input=lines, text=True, check=True, capture_output=True)
        ours = read_store.lines(directory, name)
        program = dump(options, directory, name)
        assert ours == ordered(program.stdout), f"keyspace {name}: other records"
        assert len(ours) == len(set(ids)), f"keyspace {name}: {len(ours)} records"
    subprocess.run([options.moraine, "compact", directory], check=True, capture_output=True)
    for name in names:
        ours = read_store.lines(directory, name)
        assert ours == ordered(dump(options, directory, name).stdout), f"{name}: compacted"
    return len(names)


def expiring(options, directory, rng):
    """Checks the times of entries that expire: the reader finds what the program was given, in the
    log and after a compaction. All times are far in the future, so that nothing is hidden."""
    model, expiries = {}, {}
    soonest = 4102444800000  # 2100-01-01
    for life in range(2):
        drive = Drive(options, directory, model)
        for _ in range(200):
            key = rng.randbytes(1)
            expiries.pop(key, None)
            if rng.randrange(5) == 0:
                drive.ask(drive.delete(key))
                continue
            line = drive.put(key, value(rng))
            if rng.randrange(3) == 0:
                drive.ask(line)
                continue
            expiries[key] = rng.choice([
                soonest + rng.randrange(1 << 40), rng.randrange(soonest, 1 << 63)])
            drive.ask(f"putx{line.removeprefix('put')} {expiries[key]}")
        if life == 1:
            drive.ask("compact")
        drive.end(kills=life == 0)
        check(options, directory, model)
        found = {}
        for line in read_store.expiries(directory):
            key, _, expiry = line.split(" ")
            found[bytes.fromhex(key)] = int(expiry)
        assert found == expiries, f"life {life}: other times of {len(found)} entries that expire"
    return len(expiries)


def dump(options, directory, keyspace=""):
    return subprocess.run(
        [options.moraine, "dump", directory, "--format", "hex", "--keyspace", keyspace],
        capture_output=True, text=True)


def ordered(text):
    return sorted(text.splitlines(), key=lambda line: int(line.split(" ")[1]))


def dumped(options, directory):
    program = dump(options, directory)
    assert program.returncode == 0, program.stderr
    return ordered(program.stdout)


def held(lines):
    parts = (line.split(" ") for line in lines)
    return {bytes.fromhex(key.strip("-")): bytes.fromhex(text.strip("-")) for key, _, text in parts}


def check(options, directory, model):
    """Runs the reader first, because the program may repair the store when it opens it."""
    ours = read_store.lines(directory)
    theirs = dumped(options, directory)
    assert ours == theirs, f"{len(ours)} lines against {len(theirs)}"
    assert held(ours) == model, f"{len(ours)} records against {len(model)} in the model"
    return len(ours)


def damage(options, copy, rng, count):
    """Damages one place of a killed store: both refuse the store, or both read the same."""
    scratch = copy + "-damaged"
    names = sorted(name for name in os.listdir(copy) if name.endswith(".segment")
                   and os.path.getsize(os.path.join(copy, name)))[-2:]
    for _ in range(count):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(copy, scratch)
        path = os.path.join(scratch, rng.choice(names + ["MANIFEST"]))
        with open(path, "rb") as file:
            data = bytearray(file.read())
        place, kind = rng.randrange(len(data)), rng.choice(["flip", "cut", "zeros"])
        if kind == "flip":
            data[place] ^= rng.randrange(1, 256)
        elif kind == "cut":
            del data[place:]
        else:
            data[place:] = bytes(len(data) - place)
        with open(path, "wb") as file:
            file.write(data)
        try:
            ours = read_store.lines(scratch)
        except Violation:
            ours = None
        program = dump(options, scratch)
        assert program.returncode in (0, 3), f"dump ends with {program.returncode}"
        theirs = ordered(program.stdout) if program.returncode == 0 else None
        assert ours == theirs, f"{kind} at {place} of {path}: only one reads it, or not the same"


def exit_codes(directory, rng):
    """Checks exit codes: 0 with the lines; 3 with the file on standard error; 2 for wrong usage."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "read_store.py")

    def run(*arguments):
        return subprocess.run(
            [sys.executable, script, *arguments], capture_output=True, text=True)

    sound = run(directory)
    assert (sound.returncode, sound.stdout.splitlines()) == (0, read_store.lines(directory))
    assert run().returncode == run(directory + "-none").returncode == 2, "misuse does not exit 2"
    broken = directory + "-broken"
    shutil.copytree(directory, broken)
    with open(os.path.join(broken, "MANIFEST"), "r+b") as file:
        file.truncate(rng.randrange(160))
    answer = run(broken)
    assert answer.returncode == 3 and not answer.stdout, "a cut manifest does not exit 3"
    assert answer.stderr.startswith("MANIFEST at "), answer.stderr


def flips(directory, rng, count):
    """Checks that the reader finds damage, or that the damage changes nothing."""
    sound = read_store.lines(directory)
    names = sorted(os.listdir(directory))
    # LOCK and RESERVE are never read, so a flip there tests little: flip them less often.
    names += 4 * [name for name in names if name == "MANIFEST" or name.endswith(".segment")]
    found = 0
    for _ in range(count):
        path = os.path.join(directory, rng.choice(names))
        with open(path, "rb") as file:
            data = bytearray(file.read())
        if not data:
            continue
        place, change = rng.randrange(len(data)), rng.randrange(1, 256)
        data[place] ^= change
        with open(path, "wb") as file:
            file.write(data)
        try:
            assert read_store.lines(directory) == sound, f"byte {place} of {path}: other values"
        except Violation:
            found += 1
        data[place] ^= change
        with open(path, "wb") as file:
            file.write(data)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("moraine")
    parser.add_argument("scratch")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--io", choices=["mapped", "positional"], default="mapped")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    directory = os.path.join(options.scratch, "store")
    shutil.rmtree(options.scratch, ignore_errors=True)
    os.makedirs(options.scratch)
    try:
        model, total = {}, 0
        for life in range(6):
            drive = Drive(options, directory, model)
            work(drive, rng, 120)
            drive.end(kills=life % 2 == 1)
            total += check(options, directory, model)
        segments = sum(name.endswith(".segment") for name in os.listdir(directory))
        small = os.path.join(options.scratch, "small")
        drive = Drive(options, small, {})
        work(drive, rng, 60)
        drive.end(kills=False)
        exit_codes(small, rng)
        similar = os.path.join(options.scratch, "similar")
        count, dictionaries = shared(options, similar, rng)
        shared_found = flips(similar, rng, 30)
        keyspace_count = keyspaces(options, os.path.join(options.scratch, "keyspaces"), rng)
        forgeries = forged.check(options.moraine, options.scratch)
        found = flips(small, rng, 150)
        for kill in range(8):
            store = os.path.join(options.scratch, f"killed-{kill}")
            damage(options, killed_midway(options, store, rng, 100), rng, 10)
        expiry_count = expiring(options, os.path.join(options.scratch, "expiring"), rng)
    except Exception as failure:  # print the command that repeats any failure
        if not isinstance(failure, (AssertionError, Violation)):
            traceback.print_exc()
        print(f"{failure}\nagain: python3 {sys.argv[0]} {options.moraine} {options.scratch} "
              f"--seed {options.seed} --io {options.io}", file=sys.stderr)
        return 1
    print(f"seed {options.seed}, {options.io}: {total} records in {segments} segments agree; "
          f"{found} of 150 flips found, the others harmless; 8 killed stores, damaged 80 times; "
          f"{forgeries} forgeries; {keyspace_count} keyspaces; "
          f"{expiry_count} times of entries that expire; "
          f"{count} records in segments with {dictionaries} dictionaries "
          f"agree, {shared_found} of 30 flips found there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
