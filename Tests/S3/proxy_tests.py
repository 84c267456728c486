"""Each mode of proxy.py has its effect. `proxy.py --self-test` runs these tests."""

import http.server
import pathlib
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import proxy  # noqa: E402


class Server(http.server.ThreadingHTTPServer):
    """Answers a PUT with its body twice, and a GET with as many bytes as the path says."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies = []
        self.failures = 0
        self.arrived = threading.Condition()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def note(self, body):
        with self.arrived:
            self.bodies.append(body)
            self.arrived.notify_all()

    def note_failure(self):
        with self.arrived:
            self.failures += 1
            self.arrived.notify_all()

    def wait(self, condition):
        with self.arrived:
            return self.arrived.wait_for(condition, 10)

    def handle_error(self, request, address):
        self.note_failure()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            self.server.note_failure()
            self.close_connection = True
            return
        self.server.note(body)
        self.answer(body * 2)

    def do_GET(self):
        self.answer(b"x" * int(self.path[1:]))

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Client:
    """One connection, which sees each byte and each end as it comes."""

    def __init__(self, port, timeout=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.file = self.socket.makefile("rb")

    def put(self, body):
        self.socket.sendall(b"PUT /name HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
                            % len(body) + body)

    def get(self, count):
        self.socket.sendall(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % count)

    def answer(self):
        """Returns the body of an answer."""
        length = None
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name == b"Content-Length":
                length = int(value)
        if length is None:
            raise EOFError
        body = self.file.read(length)
        if len(body) < length:
            raise EOFError
        return body

    def rest(self):
        """Returns what arrives until the connection ends, and whether a reset ends it."""
        found = b""
        try:
            while piece := self.socket.recv(65536):
                found += piece
            return found, False
        except ConnectionResetError:
            return found, True

    def hangs(self, seconds=0.3):
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(10)

    def close(self):
        self.file.close()
        self.socket.close()


class ProxyTests(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.network = proxy.Network(1)
        self.port = self.network.open("a", self.server.server_address[1])
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.close()
        self.network.close()
        self.server.shutdown()
        self.server.server_close()

    def client(self, timeout=10):
        self.clients.append(Client(self.port, timeout))
        return self.clients[-1]

    def set(self, **state):
        self.network.set(["a"], **state)

    def count(self, name):
        return self.network.counts()[name]

    def test_calm_link_passes_requests_of_all_lengths(self):
        client = self.client()
        for length in (0, 1, 1000, 1 << 20):
            client.put(b"y" * length)
            self.assertEqual(client.answer(), b"y" * 2 * length)
        self.assertEqual(self.count("requests"), 4)

    def test_blocked_answers_arrive_after_the_partition(self):
        client = self.client()
        client.put(b"1")
        client.answer()
        self.set(blocked=["answers"])
        client.put(b"2")
        self.assertTrue(self.server.wait(lambda: self.server.bodies == [b"1", b"2"]))
        self.assertTrue(client.hangs())
        self.set(blocked=[])
        self.assertEqual(client.answer(), b"22")
        self.assertEqual(self.count("held answers"), 1)

    def test_blocked_requests_arrive_after_the_partition(self):
        for blocked in (["requests"], ["requests", "answers"]):
            client = self.client()
            client.put(b"1")
            client.answer()
            before = len(self.server.bodies)
            self.set(blocked=blocked)
            client.put(b"2")
            self.assertTrue(client.hangs())
            self.assertEqual(len(self.server.bodies), before)
            self.set(blocked=[])
            self.assertEqual(client.answer(), b"22")
            self.assertEqual(len(self.server.bodies), before + 1)

    def test_request_arrives_late_when_its_client_has_gone(self):
        client = self.client()
        client.put(b"1")
        client.answer()
        self.set(blocked=["requests", "answers"])
        client.put(b"late")
        client.close()
        self.assertTrue(self.server.bodies == [b"1"])
        # The end of the client must have arrived, too.
        time.sleep(0.2)
        self.set(blocked=[])
        self.assertTrue(self.server.wait(lambda: self.server.bodies == [b"1", b"late"]))
        self.assertEqual(self.count("late requests"), 1)

    def test_new_connections_hang_until_the_partition_ends(self):
        for _ in range(3):
            self.set(blocked=["requests"])
            began = time.monotonic()
            with self.assertRaises(TimeoutError):
                self.client(timeout=0.5)
            timer = threading.Timer(0.5, lambda: self.set(blocked=[]))
            timer.start()
            client = self.client()
            self.assertGreater(time.monotonic() - began, 0.9)
            timer.join()
            client.put(b"1")
            self.assertEqual(client.answer(), b"11")

    def test_frozen_connections_hang_and_new_ones_pass(self):
        first = self.client()
        first.put(b"1")
        first.answer()
        self.network.freeze(["a"])
        first.put(b"2")
        self.assertTrue(first.hangs())
        second = self.client()
        second.put(b"3")
        self.assertEqual(second.answer(), b"33")
        self.network.thaw(["a"])
        self.assertEqual(first.answer(), b"22")
        self.assertEqual(self.server.bodies, [b"1", b"3", b"2"])

    def test_latency_delays_each_direction(self):
        client = self.client()
        self.set(latency=0.1)
        for _ in range(3):
            began = time.monotonic()
            client.put(b"1")
            client.answer()
            self.assertGreater(time.monotonic() - began, 0.19)

    def test_rate_limits_the_bytes_of_all_connections(self):
        self.set(rate=200_000)
        clients = [self.client(), self.client()]
        began = time.monotonic()
        for client in clients:
            client.get(100_000)
        for client in clients:
            self.assertEqual(len(client.answer()), 100_000)
        self.assertGreater(time.monotonic() - began, 0.9)
        self.set(rate=None)
        began = time.monotonic()
        clients[0].get(200_000)
        clients[0].answer()
        self.assertLess(time.monotonic() - began, 0.9)

    def test_reset_in_a_request_leaves_no_whole_request(self):
        for part in ("header", "body"):
            self.set(resets={"chance": 1, "parts": [part]})
            for _ in range(10):
                client = self.client()
                client.put(b"z" * 100_000)
                self.assertEqual(client.rest(), (b"", True), part)
            self.assertEqual(self.count(f"reset {part}"), 10)
        self.assertEqual(self.server.bodies, [])
        self.assertTrue(self.server.wait(lambda: self.server.failures >= 10))

    def test_lost_answer_has_had_its_effect(self):
        self.set(resets={"chance": 1, "parts": ["lost"]})
        for number in range(10):
            client = self.client()
            client.put(b"%d" % number)
            self.assertEqual(client.rest(), (b"", True))
        self.assertEqual(self.server.bodies, [b"%d" % number for number in range(10)])
        self.assertEqual(self.count("reset lost"), 10)

    def test_reset_in_an_answer_cuts_it(self):
        lengths = set()
        for part, is_reset in (("answer", True), ("cut", False)):
            self.set(resets={"chance": 1, "parts": [part]})
            for number in range(10):
                client = self.client()
                client.put(b"w" * 50_000)
                found, was_reset = client.rest()
                self.assertEqual(was_reset, is_reset)
                self.assertLess(len(found), 100_000)
                lengths.add(len(found))
            self.assertEqual(self.count(f"reset {part}"), 10)
        self.assertEqual(len(self.server.bodies), 20)
        self.assertGreater(max(lengths), 10_000)

    def test_part_of_the_requests_is_reset(self):
        self.set(resets={"chance": 0.3, "parts": ["lost"]})
        lost = 0
        for _ in range(100):
            client = self.client()
            client.put(b"1")
            lost += self.is_lost(client)
        self.assertTrue(10 < lost < 50, lost)
        self.assertEqual(lost, self.count("reset lost"))

    def is_lost(self, client):
        try:
            client.answer()
            return False
        except (ConnectionResetError, EOFError):
            return True

    def test_same_seed_breaks_the_same_requests(self):
        outcomes = []
        for _ in range(2):
            network = proxy.Network(7)
            self.port = network.open("b", self.server.server_address[1])
            network.set(["b"], resets={"chance": 0.5, "parts": ["answer", "lost"]})
            lengths = []
            for _ in range(30):
                client = self.client()
                client.get(2000)
                client.socket.shutdown(socket.SHUT_WR)
                lengths.append(len(client.rest()[0]))
            outcomes.append((lengths, network.counts()["reset answer"]))
            network.close()
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertTrue(0 < outcomes[0][1] < 30)

    def test_connection_ends_after_some_bytes(self):
        self.set(cut=30_000)
        client = self.client()
        client.get(100_000)
        found, was_reset = client.rest()
        self.assertFalse(was_reset)
        self.assertTrue(29_000 < len(found) < 30_000, len(found))
        self.assertEqual(self.count("cut"), 1)

    def test_unreachable_server_resets(self):
        port = self.network.open("c", 1)
        with self.assertRaises(ConnectionResetError):
            client = Client(port)
            self.clients.append(client)
            client.socket.recv(1)


def main():
    unittest.main(module=sys.modules[__name__], argv=["proxy.py"], verbosity=2)


if __name__ == "__main__":
    main()
