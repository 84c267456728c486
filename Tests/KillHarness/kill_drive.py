#!/usr/bin/env python3
"""Kills `moraine drive` with SIGKILL at random moments, on one accumulating store.

After every kill each acknowledged operation must be there, and nothing else; the one operation
without an answer may be there, whole, or not. Replay: the command line with --seed.

    kill_drive.py MORAINE DIR [--kills N] [--durability LEVEL] [--io MODE] [--seed N]
                 [--segment-size N] [--checkpoint-floor N]
"""
import argparse, os, random, signal, subprocess, sys, threading, time

FNV, MASK = 0x100000001B3, (1 << 64) - 1


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * FNV) & MASK
    return h


def digest(model):
    total = 0
    for key, value in model.items():
        total += fnv(len(key).to_bytes(8, "little") + key + value)
    return f"count {len(model)} {total & MASK:016x}"


def apply(model, operations):
    for key, value in operations:
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value


def text(operations):
    lines = []
    for key, value in operations:
        lines.append(f"put {key.hex()} {value.hex() or '-'}" if value is not None else f"del {key.hex()}")
    return ([f"batch {len(lines)}"] if len(lines) > 1 else []) + lines


class Driver:
    def __init__(self, options):
        self.process = subprocess.Popen(
            [options.moraine, "drive", options.directory, "--durability", options.durability,
             "--io", options.io, "--segment-size", str(options.segment_size),
             "--checkpoint-floor", str(options.checkpoint_floor)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=dict(os.environ, SWIFT_BACKTRACE="enable=no"))

    def ask(self, lines):
        self.process.stdin.write(("\n".join(lines) + "\n").encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode().strip()
        if not answer:
            raise BrokenPipeError
        return answer


def random_operations(rng):
    def one():
        key = b"key%d" % rng.randrange(300)
        if rng.random() < 0.25:
            return key, None
        return key, rng.randbytes(rng.randrange(40)) * rng.randrange(1, 6)
    return [one() for _ in range(rng.randrange(2, 6) if rng.random() < 0.2 else 1)]


def check(driver, model, unanswered):
    seen = driver.ask(["scan"])
    if seen == digest(model):
        return model
    if unanswered:
        apply(after := dict(model), unanswered)
        if seen == digest(after):
            return after
    raise SystemExit(f"VIOLATION: the store has {seen}, expected {digest(model)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("moraine")
    parser.add_argument("directory")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--durability", default="none")
    parser.add_argument("--io", default="mapped")
    parser.add_argument("--segment-size", type=int, default=16384)
    parser.add_argument("--checkpoint-floor", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    rng, model, unanswered, acknowledged = random.Random(options.seed), {}, None, 0
    print(f"seed {options.seed}, {options.durability}, {options.io}", flush=True)
    for _ in range(options.kills):
        driver = Driver(options)
        model = check(driver, model, unanswered)
        unanswered = None
        killer = threading.Timer(
            rng.random() * 0.05, lambda p=driver.process: p.send_signal(signal.SIGKILL))
        killer.start()
        try:
            while True:
                # Changes nothing that can be seen; a kill in the midst of it must not either.
                # It ends with an index checkpoint.
                if rng.random() < 0.03 and (answer := driver.ask(["compact"])) != "ok":
                    raise SystemExit(f"VIOLATION: {answer}")
                unanswered = random_operations(rng)
                answer = driver.ask(text(unanswered))
                if not answer.startswith("ok"):
                    raise SystemExit(f"VIOLATION: {answer}")
                apply(model, unanswered)
                unanswered, acknowledged = None, acknowledged + 1
        except (BrokenPipeError, ConnectionResetError):
            pass
        killer.join()
        driver.process.wait()
        driver.process.stdout.close()
        try:
            driver.process.stdin.close()
        except BrokenPipeError:
            pass
    driver = Driver(options)
    model = check(driver, model, unanswered)
    assert driver.ask(["close"]) == "ok"
    print(f"{options.kills} kills, {acknowledged} acknowledged, {len(model)} keys: all there")


main()
