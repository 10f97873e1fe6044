"""Serves the S3 protocol on a free port of loopback until its input ends.

Run by the Python of ``.venv-servers``, for what it needs does not go with what the tests need.
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
