"""Serve the S3 protocol on a free port of localhost until standard input ends.

The Python of ``.venv-servers`` runs it, because its requirements conflict with those of the tests.
moto compares the ETag of a conditional PUT and then writes, where S3 does both in one step, so a
lock makes them one step here.
"""

from __future__ import annotations

import sys
import threading

from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from moto.s3.responses import S3Response

LOCK = threading.Lock()
put_object = S3Response.put_object


def put_object_alone(self: S3Response) -> object:
    with LOCK:
        return put_object(self)


S3Response.put_object = put_object_alone

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
_, port = server.get_host_and_port()
sys.stdout.write(f"port {port}\n")
sys.stdout.flush()
sys.stdin.read()
server.stop()
