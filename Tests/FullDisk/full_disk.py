#!/usr/bin/env python3
"""Fills a small mounted file system through `moraine drive`, and frees it again:

    mount -t tmpfs -o size=24m tmpfs /mnt/small      (as root; or a loop device with ext4)
    full_disk.py MORAINE /mnt/small [--io MODE]

Checks that every error is noSpace, that deletes and compaction free space, that writing resumes in
the same process, and that no acknowledged write is lost, also after a kill while the disk is full.
"""
import argparse, os, random, signal, subprocess, sys

VALUE = 900


class Driver:
    def __init__(self, options, directory):
        self.process = subprocess.Popen(
            [options.moraine, "drive", directory, "--durability", "none", "--io", options.io],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=dict(os.environ, SWIFT_BACKTRACE="enable=no"))

    def ask(self, *lines):
        self.process.stdin.write(("\n".join(lines) + "\n").encode())
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def expect(condition, what):
    if not condition:
        raise SystemExit(f"VIOLATION: {what}")


def fill(driver, model, rng, prefix):
    """Puts until the disk is full."""
    for number in range(1_000_000):
        key, value = b"%s%d" % (prefix, number), rng.randbytes(VALUE)
        answer = driver.ask(f"put {key.hex()} {value.hex()}")
        if answer.startswith("ok"):
            model[key] = value
            continue
        expect(answer.startswith("err noSpace"), answer)
        return number
    raise SystemExit("VIOLATION: the disk never filled")


def check(driver, model):
    answer = driver.ask("scan")
    expect(answer.startswith(f"count {len(model)} "), f"{answer}, expected {len(model)} keys")
    for key, value in model.items():
        expect(driver.ask(f"get {key.hex()}") == f"value {value.hex()}", f"{key} is another value")


def delete(driver, model, share, rng):
    for key in list(model):
        if rng.random() < share:
            answer = driver.ask(f"del {key.hex()}")
            if answer.startswith("err noSpace"):
                compacted = driver.ask("compact")
                expect(compacted == "ok", f"no compaction on a full disk: {compacted}")
                answer = driver.ask(f"del {key.hex()}")
            expect(answer.startswith("ok "), answer)
            del model[key]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("moraine")
    parser.add_argument("mount")
    parser.add_argument("--io", default="mapped")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, model = random.Random(options.seed), {}
    directory = os.path.join(options.mount, f"full-{options.io}")
    driver = Driver(options, directory)
    first = fill(driver, model, rng, b"a")
    check(driver, model)
    for round in range(6):
        delete(driver, model, 0.6, rng)
        compacted = driver.ask("compact")
        expect(compacted == "ok", f"no compaction after deletes: {compacted}")
        more = fill(driver, model, rng, b"r%d-" % round)
        expect(more > first // 3, f"{more} puts after freeing most of {first}")
        check(driver, model)
        if round % 2:
            driver.kill()
            driver = Driver(options, directory)
            check(driver, model)
    # Overwrite existing keys on the full disk: compaction removes garbage while the writer waits.
    refused = 0
    delete(driver, model, 0.5, rng)
    for _ in range(20_000):
        key, value = rng.choice(list(model)[:200]), rng.randbytes(VALUE)
        answer = driver.ask(f"put {key.hex()} {value.hex()}")
        expect(answer.startswith("ok") or answer.startswith("err noSpace"), answer)
        if answer.startswith("ok"):
            model[key] = value
        else:
            refused += 1
    check(driver, model)
    expect(driver.ask("close") == "ok", "closing a full store")
    code = subprocess.run([options.moraine, "verify", directory], capture_output=True).returncode
    expect(code == 0, f"verify exits {code}")
    print(f"{options.io}: {first} puts filled it; {len(model)} keys at the end; "
          f"{refused} of 20000 overwrites refused; nothing lost")


if __name__ == "__main__":
    main()
