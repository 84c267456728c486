#!/usr/bin/env python3
"""A server that speaks S3, for tests: moto, one request at a time.

moto_server.py PORT [--slow] [--tls CERTIFICATE KEY]

moto checks whether an object exists and writes it in two steps, so that several of many concurrent
requests can create one name: three of sixty names, when sixteen processes raced. The lock makes each
request one step. Python's server takes the header of a broken connection for a whole one, and moto
checks no digests: such a request, without a length, created an empty object. So the digest of each
body is checked here, as other servers do. With --slow there is no lock, and ten milliseconds between
the two steps, as on a server with a slow disk: the check of a store of objects must refuse it.
"""

import hashlib
import io
import sys
import threading
import time

from moto.s3.models import S3Backend
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *arguments):
        pass


def main():
    port, is_slow = int(sys.argv[1]), "--slow" in sys.argv[2:]
    if is_slow:
        write = S3Backend.put_object

        def write_late(*arguments, **named):
            time.sleep(0.01)
            return write(*arguments, **named)

        S3Backend.put_object = write_late
    inner = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def serialized(environment, start):
        body = environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
        digest = environment.get("HTTP_X_AMZ_CONTENT_SHA256", "")
        if digest != hashlib.sha256(body).hexdigest():
            start("400 Bad Request", [("Content-Type", "application/xml")])
            return [b"<Error><Code>IncompleteBody</Code></Error>"]
        environment["wsgi.input"] = io.BytesIO(body)
        with lock:
            return list(inner(environment, start))

    arguments = sys.argv[2:]
    pair = None
    if "--tls" in arguments:
        index = arguments.index("--tls")
        pair = tuple(arguments[index + 1:index + 3])
    run_simple("127.0.0.1", port, inner if is_slow else serialized, threaded=True,
               request_handler=Handler, ssl_context=pair)


main()
