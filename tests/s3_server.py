"""Serve the S3 protocol on a free port of localhost until standard input ends.

The Python of ``.venv-servers`` runs it, because its requirements conflict with those of the tests.
"""

from __future__ import annotations

import sys

from moto.moto_server.threaded_moto_server import ThreadedMotoServer

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
_, port = server.get_host_and_port()
sys.stdout.write(f"port {port}\n")
sys.stdout.flush()
sys.stdin.read()
server.stop()
