#!/usr/bin/env python3
"""A server that speaks S3, for tests: moto, one request at a time.

moto_server.py PORT [--bare]

moto checks whether an object exists and writes it in two steps, so that several of many concurrent
requests can create one name. The lock makes each request one step. With --bare there is no lock: the
check of a store of objects must refuse such a server.
"""

import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *arguments):
        pass


def main():
    port, is_bare = int(sys.argv[1]), "--bare" in sys.argv[2:]
    inner = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def serialized(environment, start):
        with lock:
            return list(inner(environment, start))

    run_simple("127.0.0.1", port, inner if is_bare else serialized, threaded=True,
               request_handler=Handler)


main()
