#!/usr/bin/env python3
"""Broken networks between the machines of a test and servers that speak HTTP.

proxy.py --self-test        shows that each mode has its effect
proxy.py --serve SEED       opens links, as lines of JSON on standard input command; `Network`
                            starts this process and writes the commands

A link is one way from a machine to a server: a port of this machine, whose connections lead to the
server's port. The state of a link can change while connections are open:

    blocked     "requests", "answers" or both: no byte passes in this direction. The connections stay
                open and keep their bytes; new connections hang. Afterwards the bytes arrive, also
                when the client has given up: late requests.
    latency     seconds that each byte needs, in each direction
    rate        bytes a second, in each direction, of all connections together
    resets      {"chance": 0.1, "parts": [...]}: the share of the requests whose connection is reset,
                and where:
                  header   within the header of the request
                  body     within its body
                  lost     after the server has answered; no byte of the answer arrives
                  answer   within the answer
                  cut      within the answer, by an orderly end instead of a reset
    cut         the number of bytes after which a connection ends, both directions together

Which requests are reset, and after which byte, follows from the seed and the order of the requests.
`freeze` blocks the connections that are open, and not those that follow, until `thaw`.
"""

import asyncio
import collections
import json
import pathlib
import random
import select
import socket
import struct
import subprocess
import sys
import threading

DIRECTIONS = ("requests", "answers")
PARTS = ("header", "body", "lost", "answer", "cut")
CALM = {"blocked": [], "latency": 0, "rate": None, "resets": None, "cut": None}
#: The most bytes of one step, so that a slow link sends evenly.
PIECE = 16 << 10
#: The most pieces that a link keeps of one direction of a connection.
KEPT_PIECES = 64
END, RESET = object(), object()


class Broken(Exception):
    """The connection ends here: with a reset, or orderly."""

    def __init__(self, is_reset=True):
        self.is_reset = is_reset


class Framing:
    """The requests and answers of one connection, and where one of them is to be broken."""

    def __init__(self, link):
        self.link = link
        self.header = b""           # The part of a request's header that has arrived.
        self.body_left = 0
        self.fate = None            # (part, fraction) of the request that was forwarded last.
        self.body_end = None        # How much of the body is forwarded when its rest is not.
        self.answer_end = None
        self.answered = 0

    def request(self, piece):
        """Returns the parts of a piece to forward, each with whether the connection then breaks."""
        parts = []
        while piece:
            if self.body_left:
                body, piece = piece[:self.body_left], piece[self.body_left:]
                if self.body_end is not None and len(body) >= self.body_end:
                    return parts + [(body[:self.body_end], "body")]
                if self.body_end is not None:
                    self.body_end -= len(body)
                self.body_left -= len(body)
                parts.append((body, None))
                continue
            self.header += piece
            end = self.header.find(b"\r\n\r\n")
            if end < 0:
                break
            header, piece = self.header[:end + 4], self.header[end + 4:]
            self.header = b""
            self.begin(header)
            if self.fate and self.fate[0] == "header":
                return parts + [(header[:1 + int(self.fate[1] * (len(header) - 1))], "header")]
            parts.append((header, None))
            if self.body_end == 0:
                return parts + [(b"", "body")]
        return parts

    def begin(self, header):
        self.body_left, self.body_end = content_length(header), None
        self.answered, self.answer_end = 0, None
        self.fate = self.link.fate()
        if self.fate and self.fate[0] == "body":
            if self.body_left:
                self.body_end = int(self.fate[1] * self.body_left)
            else:
                self.fate = ("header", self.fate[1])

    def answer(self, piece):
        """Returns the part of a piece to forward, and how the connection then breaks, or None."""
        if not self.fate or piece.startswith(b"HTTP/1.1 100"):
            return piece, None
        part, fraction = self.fate
        if part == "lost":
            return b"", part
        if self.answer_end is None:
            end = piece.find(b"\r\n\r\n")
            whole = len(piece) if end < 0 else end + 4 + content_length(piece[:end + 4])
            self.answer_end = int(fraction * whole)
        left = self.answer_end - self.answered
        self.answered += len(piece)
        return (piece, None) if len(piece) <= left else (piece[:left], part)


def content_length(header):
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


class Connection:
    def __init__(self, link, reader, writer):
        self.link = link
        self.client = (reader, writer)
        self.server = None
        self.is_frozen = False
        self.has_client = True
        self.forwarded = 0
        self.framing = Framing(link)

    async def run(self):
        self.link.connections.add(self)
        try:
            self.server = await asyncio.open_connection(*self.link.target)
            requests = asyncio.create_task(self.forward("requests", self.client[0], self.server[1]))
            try:
                # The server ends its side after that of the client has ended.
                await self.forward("answers", self.server[0], self.client[1])
            finally:
                requests.cancel()
        except Broken as broken:
            self.end(broken.is_reset)
        except OSError:
            self.end(True)
        finally:
            self.end(False)
            self.link.connections.discard(self)

    def end(self, is_reset):
        for _, writer in filter(None, (self.client, self.server)):
            if writer.transport.is_closing():
                continue
            if is_reset:
                reset(writer)
            else:
                writer.close()

    async def forward(self, direction, reader, writer):
        queue = asyncio.Queue(KEPT_PIECES)
        reading = asyncio.create_task(self.read(direction, reader, queue))
        try:
            while True:
                due, piece = await queue.get()
                await self.until_open(direction, due)
                if piece is END:
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                if piece is RESET:
                    raise Broken()
                await self.send(direction, piece, writer)
        except Broken as broken:
            # The other direction waits for bytes that cannot come.
            self.end(broken.is_reset)
            raise
        finally:
            reading.cancel()

    async def read(self, direction, reader, queue):
        while True:
            try:
                piece = await reader.read(PIECE) or END
            except OSError:
                piece = RESET
            if direction == "requests" and piece in (END, RESET):
                self.has_client = False
            await queue.put((asyncio.get_running_loop().time() + self.link.latency, piece))
            if piece in (END, RESET):
                return

    async def until_open(self, direction, due):
        await sleep_until(due)
        if self.is_blocked(direction):
            self.link.counts[f"held {direction}"] += 1
            await self.link.until(lambda: not self.is_blocked(direction))

    def is_blocked(self, direction):
        return self.is_frozen or direction in self.link.blocked

    async def send(self, direction, piece, writer):
        await self.link.wait_for_rate(direction, len(piece))
        await self.until_open(direction, 0)
        if direction == "requests":
            parts = self.framing.request(piece)
            if not self.has_client:
                self.link.counts["late requests"] += 1
        else:
            parts = [self.framing.answer(piece)]
        for part, broken in parts:
            limit = self.link.cut
            is_cut = limit is not None and self.forwarded + len(part) >= limit
            if is_cut:
                part, broken = part[:max(0, limit - self.forwarded)], "cut"
            self.forwarded += len(part)
            writer.write(part)
            await writer.drain()
            if broken:
                self.link.counts["cut" if is_cut else f"reset {broken}"] += 1
                raise Broken(is_reset=broken != "cut")


class Link:
    """One way from a machine to a server. See the description of the file."""

    def __init__(self, port, seed):
        self.target = ("127.0.0.1", port)
        self.random = random.Random(seed)
        self.counts = collections.Counter()
        self.connections = set()
        self.changed = asyncio.Event()
        self.free_at = dict.fromkeys(DIRECTIONS, 0)
        self.fillers = []
        self.is_accepting = False
        self.tasks = set()
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]
        self.change(CALM)

    def change(self, state):
        for name, value in state.items():
            if name not in CALM:
                raise ValueError(f"no mode {name}")
            setattr(self, name, value)
        self.free_at = dict.fromkeys(DIRECTIONS, 0)
        if self.blocked:
            self.refuse()
        else:
            self.accept()
        self.announce()

    def announce(self):
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, condition):
        while not condition():
            await self.changed.wait()

    def freeze(self):
        for connection in self.connections:
            connection.is_frozen = True

    def thaw(self):
        for connection in self.connections:
            connection.is_frozen = False
        self.announce()

    def fate(self):
        """Returns where the next request breaks, and after which fraction; nil for no break."""
        self.counts["requests"] += 1
        if not self.resets or self.random.random() >= self.resets["chance"]:
            return None
        return self.random.choice(self.resets["parts"]), self.random.random()

    async def wait_for_rate(self, direction, count):
        if not self.rate:
            return
        begin = max(self.free_at[direction], asyncio.get_running_loop().time())
        self.free_at[direction] = begin + count / self.rate
        await sleep_until(self.free_at[direction])

    # New connections

    def accept(self):
        if self.is_accepting:
            return
        self.socket.listen(128)
        names = {filler.getsockname() for filler in self.fillers}
        for filler in self.fillers:
            filler.close()
        self.fillers = []
        self.is_accepting = True
        asyncio.get_running_loop().add_reader(self.socket, self.accept_one, names)

    def accept_one(self, fillers):
        try:
            client, name = self.socket.accept()
        except OSError:
            return
        if name in fillers:
            client.close()
            return
        self.counts["connections"] += 1
        task = asyncio.create_task(self.connect(client))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def connect(self, client):
        client.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=client)
        await Connection(self, reader, writer).run()

    def refuse(self):
        """Fills the queue of the kernel, so that it answers no further connection."""
        if not self.is_accepting:
            return
        self.is_accepting = False
        asyncio.get_running_loop().remove_reader(self.socket)
        self.socket.listen(0)
        while len(self.fillers) < 200:
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self.fillers.append(filler)
            if not select.select([], [filler], [], 0.01)[1]:
                break


async def sleep_until(time):
    wait = time - asyncio.get_running_loop().time()
    if wait > 0:
        await asyncio.sleep(wait)


def reset(writer):
    try:
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    writer.transport.abort()


async def serve(seed):
    links = {}
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command, names, value = json.loads(line)
        answer = None
        if command == "open":
            links[names[0]] = Link(value, f"{seed} {names[0]}")
            answer = links[names[0]].port
        elif command == "counts":
            answer = sum((link.counts for link in links.values()), collections.Counter())
        else:
            for name in names:
                action = getattr(links[name], {"set": "change"}.get(command, command))
                action(value) if command == "set" else action()
        print(json.dumps(answer), flush=True)


class Network:
    """The process that has the links. The calls may come from any thread."""

    def __init__(self, seed):
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).resolve()), "--serve", str(seed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command, names, value=None):
        with self.lock:
            self.process.stdin.write(json.dumps([command, names, value]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the process with the links has ended")
        return json.loads(answer)

    def open(self, name, port):
        """Opens a link to a port of this machine. Returns the link's port."""
        return self.ask("open", [name], port)

    def set(self, names, **state):
        self.ask("set", list(names), state)

    def calm(self, names):
        self.ask("set", list(names), CALM)

    def freeze(self, names):
        self.ask("freeze", list(names))

    def thaw(self, names):
        self.ask("thaw", list(names))

    def counts(self):
        """Returns how often each mode had its effect."""
        return collections.Counter(self.ask("counts", []))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        import proxy_tests
        proxy_tests.main()
    elif len(sys.argv) == 3 and sys.argv[1] == "--serve":
        asyncio.run(serve(sys.argv[2]))
    else:
        sys.exit(__doc__)
