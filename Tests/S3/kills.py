#!/usr/bin/env python3
"""Writers of an archive in a bucket are killed and stopped, over networks that break.

kills.py MORAINE DIRECTORY ADDRESS... [--kills N] [--histories N] [--seed N] [--seconds N] [--pid N]
         [--plant newest-commit]

Each ADDRESS is one endpoint of the same bucket: s3://BUCKET/PREFIX?endpoint=http://HOST:PORT. Each of
some histories, which run at the same time, has an archive of its own and three machines: two that
write in turn, and one that restores. Each machine reaches the endpoints over links of its own
(proxy.py) and has a clock of its own (wrong_clock.c).

A writer (`moraine drive --archive`) writes and flushes until it is killed, or until the other
machine takes over with a restored store, while the first is stopped or cut off. Before that its
links are slow, cut off in one direction or both, reset in the middle of requests and answers, or
lose answers; its clock is wrong by up to two hours, or jumps; and with --pid or a cluster
(ceph_tests.py) a server is stopped or killed. Requests of killed writers may arrive seconds later.

A ledger has the writes and what a flush has acknowledged. Restored stores must have every
acknowledged write, and exactly the state of one moment. A writer that was stopped or cut off must
not acknowledge what the archive does not have. On a violation the script prints the command that
repeats it; the exit code is 1, and DIRECTORY has a journal and the objects of each archive (with
boto3). With --plant the newest commit of each archive is removed after it
was acknowledged, which must be a violation (needs boto3).
"""

import argparse
import collections
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
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import machines  # noqa: E402
import proxy  # noqa: E402
from ledger import Ledger, Violation  # noqa: E402

#: The links of a machine for a while. Their share of the rounds is below.
WEATHERS = {
    "calm": {},
    "slow links": {"latency": 0.05, "rate": 1_000_000},
    "very slow links": {"latency": 0.15, "rate": 100_000},
    "unreliable links": {"resets": {"chance": 0.02, "parts": list(proxy.PARTS)}},
}
WEATHER_SHARES = (45, 30, 10, 15)
BLOCKED = (["requests"], ["answers"], ["requests", "answers"])
#: Longer than a request waits for its answer.
LONG = (32, 38)
CLOCKS = (0, 0, 7200, -7200, 3600, -3600, 1200, -1200)


class ServerFaults:
    """Stops and kills servers, one at a time, for all histories."""

    def __init__(self, pid=None, cluster=None):
        self.pid, self.cluster = pid, cluster
        self.lock = threading.Lock()

    def begin(self, chance, counts):
        """Begins a fault. Returns what ends it, or None."""
        kind = chance.random()
        gateway = chance.choice(["rgw1", "rgw2"])
        osd = chance.choice(["osd0", "osd1", "osd2"])
        if not (self.pid or self.cluster) or not self.lock.acquire(blocking=False):
            return None
        if self.pid:
            counts["server stops"] += 1
            return self.stopped(self.pid)
        if kind < 0.4:
            counts["gateway stops"] += 1
            return self.stopped(self.cluster.processes[gateway])
        name = gateway if kind < 0.7 else osd
        counts["gateway kills" if name == gateway else "OSD kills"] += 1
        self.cluster.signal(name, signal.SIGKILL)
        return self.ending(lambda: self.cluster.restart(name))

    def stopped(self, pid):
        os.kill(pid, signal.SIGSTOP)
        return self.ending(lambda: os.kill(pid, signal.SIGCONT))

    def ending(self, action):
        def end():
            try:
                action()
            finally:
                self.lock.release()
        return end


class History:
    """One archive, its writers and its ledger."""

    def __init__(self, options, number, faults, library):
        self.options, self.faults, self.number = options, faults, number
        self.random = random.Random(f"{options.seed} {number}")
        self.folder = pathlib.Path(options.directory) / f"history-{number}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.store_count = 0
        self.counts = collections.Counter()
        self.writers = []
        self.ledger = Ledger()
        self.others = []            # Histories that the archive may show until the next flush.
        self.ends = []              # What ends the faults that have not ended.
        self.network = proxy.Network(f"{options.seed} {number}")
        servers = [self.server(address) for address in options.address]
        self.writing, self.waiting, self.reading = (
            machines.Machine(name, self.network, servers, self.folder, library)
            for name in ("a", "b", "c"))
        self.frozen = set()
        self.weather = {}
        self.journal = open(self.folder / "journal", "w", buffering=1)

    def server(self, address):
        """Returns the address of this history's archive, without the port, and the port."""
        parts = urllib.parse.urlsplit(address)
        endpoint = urllib.parse.urlsplit(urllib.parse.parse_qs(parts.query)["endpoint"][0])
        place = f"s3://{parts.netloc}{parts.path}-{self.number}"
        return place + "?endpoint=http://127.0.0.1:{port}", endpoint.port

    def close(self):
        """Ends the processes that a violation has left."""
        for writer in self.writers:
            writer.child.kill()
            writer.child.wait()
        self.end_faults()
        self.network.close()
        self.journal.close()

    def note(self, text):
        """Writes a line to the journal, which explains a violation."""
        self.journal.write(f"{time.time():.3f} {text}\n")

    def save_archive(self):
        """Copies the objects of the archive into the folder, to look at them after a violation."""
        try:
            bucket, prefix, client = self.client()
        except ImportError:
            return
        for key in self.keys(client, bucket, prefix + "/"):
            path = self.folder / "archive" / key[len(prefix) + 1:]
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket, key, str(path))

    def client(self):
        import boto3
        parts = urllib.parse.urlsplit(self.options.address[0])
        endpoint = urllib.parse.parse_qs(parts.query)["endpoint"][0]
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        return parts.netloc, f"{parts.path[1:]}-{self.number}", client

    @staticmethod
    def keys(client, bucket, prefix):
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(entry["Key"] for page in pages for entry in page.get("Contents", []))

    # Stores, commands and writers

    def new_store(self):
        """Returns a path in a folder of its own, which a killed restore leaves."""
        self.store_count += 1
        folder = self.folder / f"{self.store_count}"
        folder.mkdir()
        return str(folder / "store.moraine")

    @staticmethod
    def remove(store):
        shutil.rmtree(pathlib.Path(store).parent)

    def writer(self, machine, store, ledger):
        writer = machines.Writer(self.options.moraine, machine, store, ledger, self.random)
        self.writers.append(writer)
        self.note(f"{machine.name} {writer.child.pid} writes {store} from {ledger.last}")
        return writer

    def end(self, writer):
        self.writers.remove(writer)
        self.note(f"{writer.child.pid} is killed: attached {writer.is_attached}, "
                  f"{len(writer.answers)} flushes to {writer.answers[-1:]}, written "
                  f"{writer.ledger.last}, errors {writer.errors[-1:]}")
        writer.kill()
        self.counts["flushes"] += len(writer.answers)
        if not writer.is_attached:
            self.counts["not attached"] += 1

    def pause(self, most):
        time.sleep(self.random.uniform(0, most))

    @staticmethod
    def wait(condition, seconds):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def is_likely(self, share):
        return self.random.random() < share

    # Links and clocks

    def choose_weather(self, machine):
        name = self.random.choices(list(WEATHERS), WEATHER_SHARES)[0]
        if name != "calm":
            self.counts[name] += 1
        self.weather[machine] = WEATHERS[name]
        if "resets" in WEATHERS[name]:
            # Attaching makes fifty requests, so that hardly one attempt would succeed.
            machine.calm()
        else:
            self.calm(machine)

    def calm(self, machine):
        machine.set(**{**proxy.CALM, **self.weather.get(machine, {})})

    def choose_clock(self, machine):
        offset = self.random.choice(CLOCKS)
        machine.set_clock(offset)
        self.counts["wrong clocks"] += offset != 0

    def block(self, machine):
        blocked = self.random.choice(BLOCKED)
        self.note(f"{machine.name} is cut off: {blocked}")
        self.counts["partitions"] += 1
        self.counts[f"partitions of {' and '.join(blocked)}"] += 1
        machine.set(blocked=blocked)

    def thaw(self):
        for machine in self.frozen:
            self.note(f"late requests of {machine.name} arrive")
            self.network.thaw(machine.links)
        self.frozen = set()

    # Faults, each of which returns what ends it

    def partition(self, writer):
        self.block(writer.machine)
        if self.is_likely(0.02):
            self.counts["long partitions"] += 1
            time.sleep(self.random.uniform(*LONG))
        return lambda: self.calm(writer.machine)

    def resets(self, writer):
        self.counts["times of resets"] += 1
        writer.machine.set(resets={"chance": 0.5, "parts": list(proxy.PARTS)})
        return lambda: self.calm(writer.machine)

    def lost_answers(self, writer):
        self.counts["times of lost answers"] += 1
        writer.machine.set(resets={"chance": 0.7, "parts": ["lost"]})
        return lambda: self.calm(writer.machine)

    def cut(self, writer):
        self.counts["times of cut connections"] += 1
        writer.machine.set(cut=self.random.choice([100, 1000, 10_000, 100_000]))
        return lambda: self.calm(writer.machine)

    def stop(self, writer):
        self.counts["stops"] += 1
        writer.child.send_signal(signal.SIGSTOP)
        if self.is_likely(0.01):
            self.counts["long stops"] += 1
            time.sleep(self.random.uniform(*LONG))
        self.pause(1)
        writer.child.send_signal(signal.SIGCONT)
        return lambda: None

    def clock_jump(self, writer):
        self.counts["clock jumps"] += 1
        self.choose_clock(writer.machine)
        return lambda: None

    def server_fault(self, writer):
        return self.faults.begin(self.random, self.counts) or (lambda: None)

    FAULTS = ((partition, 30), (resets, 12), (lost_answers, 12), (cut, 6), (stop, 25),
              (clock_jump, 8), (server_fault, 15))

    def begin_faults(self, writer):
        kinds, shares = zip(*self.FAULTS)
        for kind in self.random.choices(kinds, shares, k=self.random.choice([0, 1, 1, 2, 3])):
            self.note(f"{kind.__name__} of {writer.child.pid}")
            end = kind(self, writer)
            self.pause(1)
            if self.is_likely(0.5):
                end()
            else:
                self.ends.append(end)

    def end_faults(self):
        ends, self.ends = self.ends, []
        for end in reversed(ends):
            end()

    # Restores

    def restore(self):
        """Restores the archive, and compares it with the ledger, or another possible one.

        Returns the directory and the last sequence number of the restored store, and whether the
        ledger was replaced, so that the present store is of no use."""
        path, output = self.restored()
        sequence = json.loads(output)["sequence"]
        dumped = subprocess.run([self.options.moraine, "dump", path, "--format", "hex"],
                                stdout=subprocess.PIPE, text=True, check=True)
        found = {}
        for line in dumped.stdout.splitlines():
            key, _, value = line.split(" ")
            found[key] = value
        self.counts["restored"] += 1
        reasons = []
        for ledger in [self.ledger, *self.others]:
            reason = ledger.compare(sequence, found)
            if reason is None:
                has_replaced = ledger is not self.ledger
                if has_replaced:
                    self.counts["restored the earlier history"] += 1
                    self.ledger = ledger
                return path, sequence, has_replaced
            reasons.append(reason)
        raise Violation("; or ".join(reasons))

    def restored(self):
        self.choose_clock(self.reading)
        self.choose_weather(self.reading)
        attempt = 0
        while True:
            if attempt == 6:
                self.reading.calm()
            path = self.new_store()
            child = self.reading.start(
                [self.options.moraine, "restore", self.random.choice(self.reading.addresses), path,
                 "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            killed = attempt < 6 and self.disturb(child)
            output, error = child.communicate()
            self.note(f"restore to {path}: {child.returncode} {output.strip()} {error.strip()}")
            if child.returncode == 0:
                return path, output
            self.remove(path)
            if killed:
                continue
            if child.returncode != 10 or attempt == 25:
                raise Violation(f"the archive cannot be restored ({child.returncode}): {error}")
            self.counts["repeated restores"] += 1
            attempt += 1
            time.sleep(0.5)

    def disturb(self, child):
        """Disturbs a restore. Returns whether it was killed."""
        kind = self.random.random()
        if kind > 0.5:
            return False
        self.pause(0.5)
        if kind < 0.15:
            self.counts["killed restores"] += 1
            child.kill()
            return True
        if kind < 0.35:
            self.counts["partitions of a restore"] += 1
            self.block(self.reading)
        else:
            self.reading.set(resets={"chance": 0.3, "parts": list(proxy.PARTS)})
        self.pause(1)
        self.calm(self.reading)
        return False

    def adopt(self, path, sequence):
        """Goes on with a restored store: the machine of the writer is lost."""
        self.remove(self.store)
        self.counts["lost machines"] += 1
        self.note(f"{path} replaces {self.store} at {sequence}")
        self.store = path
        # A late request may still add to the history before.
        self.others = [self.ledger, *self.others]
        self.ledger = self.ledger.continued(sequence)

    # Rounds

    def take_over(self, first):
        """Stops a writer or cuts it off, lets the other machine take over, and continues the first.

        Returns the second writer, or None when it could not attach."""
        is_stopped = self.is_likely(0.5)
        if is_stopped:
            self.counts["stops"] += 1
            first.child.send_signal(signal.SIGSTOP)
        else:
            self.block(first.machine)
        self.pause(0.2)
        before = len(first.answers)
        self.others = []
        old, self.ledger = self.ledger, self.ledger.copy()
        path, sequence, _ = self.restore()
        self.ledger = self.ledger.continued(sequence)
        self.calm(self.waiting)
        self.choose_clock(self.waiting)
        second = self.writer(self.waiting, path, self.ledger)
        has_flushed = self.is_likely(0.5)
        self.wait(lambda: second.answers if has_flushed else second.is_attached
                  or not second.thread.is_alive(), 45)
        took_over = second.is_attached
        if not took_over:
            self.end(second)
        if is_stopped:
            first.child.send_signal(signal.SIGCONT)
        else:
            self.calm(first.machine)
        self.note(f"{second.child.pid} took over: {took_over}")
        if took_over:
            self.counts["take-overs from a stopped writer" if is_stopped
                        else "take-overs from a writer that was cut off"] += 1
            self.must_be_fenced(first, before, sequence)
        first.is_stopping = True
        self.end(first)
        self.others = [old]
        old_store, self.store = self.store, path
        if took_over:
            self.remove(old_store)
            self.writing, self.waiting = self.waiting, self.writing
            return second
        # The second writer has acknowledged nothing; both histories may go on in the archive.
        restored, sequence, _ = self.restore()
        self.remove(old_store)
        self.adopt(restored, sequence)
        return None

    def must_be_fenced(self, first, before, sequence):
        is_over = self.wait(lambda: first.is_fenced or not first.thread.is_alive(), 120)
        if first.violation:
            raise first.violation
        if not is_over or not first.is_fenced:
            raise Violation(f"the earlier writer was not fenced: {first.errors[-3:]}")
        if any(answer > sequence for answer in first.answers[before:]):
            raise Violation(f"the earlier writer acknowledged {first.answers[before:]}, and the "
                            f"history continued from {sequence}")

    def round(self):
        machine = self.writing
        self.choose_clock(machine)
        self.choose_weather(machine)
        writer = self.writer(machine, self.store, self.ledger)
        # The moments are from the start of the process, too: also the attach is interrupted.
        if self.is_likely(0.7):
            self.wait(lambda: writer.is_attached or not writer.thread.is_alive(), 20)
            self.calm(machine)
        self.pause(self.options.seconds)
        self.thaw()
        self.begin_faults(writer)
        if self.is_likely(0.25) and writer.answers:
            # Without a fault, so that the second writer can attach.
            self.end_faults()
            writer = self.take_over(writer)
            if writer is None:
                return
            self.pause(0.5)
        self.end(writer)
        self.counts["kills"] += 1
        if writer.answers:
            self.others = []
        elif writer.is_fenced:
            self.counts["fenced by a late request"] += 1
        if self.is_likely(0.5):
            # What is on its way arrives while the next writer writes.
            self.network.freeze(writer.machine.links)
            self.frozen.add(writer.machine)
        self.end_faults()
        if self.ledger.acknowledged and self.is_likely(0.35):
            path, sequence, has_replaced = self.restore()
            if self.is_likely(0.5) or has_replaced:
                self.adopt(path, sequence)
            else:
                self.remove(path)

    def finish(self):
        """Writes in peace, and restores."""
        self.thaw()
        for _ in range(6):
            self.writing.calm()
            writer = self.writer(self.writing, self.store, self.ledger)
            self.wait(lambda: writer.answers or not writer.thread.is_alive(), 120)
            if writer.answers:
                writer.finish()
            self.end(writer)
            if writer.answers:
                break
        else:
            raise Violation(f"the archive cannot be written at the end: {writer.errors[-1:]}")
        self.others = []
        if self.options.plant:
            self.remove_newest_commit()
        self.restore()
        self.reading.calm()
        verified = subprocess.run(
            [self.options.moraine, "archive-verify", self.reading.addresses[0]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if verified.returncode != 0:
            raise Violation(f"the archive is not sound: {verified.stderr}")
        print(f"  history {self.number}: {verified.stdout.strip()}", flush=True)

    def remove_newest_commit(self):
        """Plants a violation: the archive loses what it has acknowledged."""
        bucket, prefix, client = self.client()
        client.delete_object(Bucket=bucket, Key=self.keys(client, bucket, prefix + "/log/")[-1])

    def begin(self):
        self.store = self.new_store()
        subprocess.run([self.options.moraine, "drive", self.store], input=b"put 61 61\n",
                       stdout=subprocess.DEVNULL, check=True)
        self.ledger.add(1, "61", "61")
        created = subprocess.run(
            [self.options.moraine, "archive", self.store, self.writing.addresses[0], "--create"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if created.returncode != 0:
            raise Violation(f"the archive cannot be created: {created.stderr}")
        self.ledger.acknowledged = 1


class Run:
    """Histories that run at the same time, until some number of writers was killed."""

    def __init__(self, options, cluster=None):
        self.options = options
        faults = ServerFaults(options.pid, cluster)
        folder = pathlib.Path(options.directory)
        folder.mkdir(parents=True, exist_ok=True)
        library = machines.build_wrong_clock(folder)
        self.histories = [
            History(options, number, faults, library) for number in range(options.histories)]
        self.violations = []
        self.printed = 0

    @property
    def counts(self):
        return sum((history.counts for history in self.histories), collections.Counter())

    @property
    def text(self):
        return ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))

    def work(self, history):
        try:
            history.begin()
            while self.counts["kills"] < self.options.kills and not self.violations:
                history.round()
            if not self.violations:
                history.finish()
                history.counts.update(
                    {f"links: {name}": count for name, count in history.network.counts().items()})
        except Violation as violation:
            self.violations.append(f"history {history.number}: {violation}")
            history.note(f"VIOLATION {violation}")
            history.save_archive()
        except BaseException as error:
            self.violations.append(f"history {history.number}: {error!r}")
            raise

    def run(self):
        """Returns whether no promise was broken."""
        threads = [threading.Thread(target=self.work, args=[history])
                   for history in self.histories]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(1)
                if self.counts["kills"] // 20 > self.printed:
                    self.printed = self.counts["kills"] // 20
                    print(f"  {self.text}", flush=True)
        finally:
            for thread in threads:
                thread.join()
            for history in self.histories:
                history.close()
        if self.violations:
            print(f"VIOLATION with --seed {self.options.seed}: " + "\n".join(self.violations)
                  + f"\n{self.text}", file=sys.stderr)
            return False
        shutil.rmtree(self.options.directory)
        print(f"no violation, seed {self.options.seed}: {self.text}")
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("moraine")
    parser.add_argument("directory")
    parser.add_argument("address", nargs="+")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--histories", type=int, default=4, help="archives at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="the longest life of a writer")
    parser.add_argument("--pid", type=int, help="the process of the server, which is stopped")
    parser.add_argument("--plant", choices=["newest-commit"], help="a violation to find")
    options = parser.parse_args()
    if Run(options).run():
        return 0
    print(f"repeat with: {' '.join(sys.argv)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
