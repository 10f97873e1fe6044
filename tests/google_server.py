"""Serve the protocols of Google Cloud Storage on a free port until standard input ends.

fake-gcs-server has the JSON interface; a proxy translates uploads of the XML interface to it. Both
run in a process of their own, because pyarrow blocks the threads of Python while it reads.

Run as ``python google_server.py <fake-gcs-server> <port>``.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from urllib.parse import unquote, urlencode

from unreliable import PassingHandler, Proxy

PARTS = b"--part\r\nContent-Type: application/json\r\n\r\n{}\r\n--part\r\n\r\n%b\r\n--part--"


class XmlUploads(PassingHandler):
    """Translates an upload with its condition, which the server checks in one step with it."""

    def pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        if self.command != "PUT" or "?" in self.path:
            return super().pass_on(body)
        bucket, _, key = unquote(self.path).lstrip("/").partition("/")
        query = {"uploadType": "multipart", "name": key}
        if condition := self.headers.get("x-goog-if-generation-match"):
            query["ifGenerationMatch"] = condition
        connection = http.client.HTTPConnection("127.0.0.1", self.owner.target, timeout=60)
        connection.request(
            "POST",
            f"/upload/storage/v1/b/{bucket}/o?{urlencode(query)}",
            PARTS % body,
            {"Content-Type": "multipart/related; boundary=part"},
        )
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        if response.status != 200:
            return response.status, [], answer
        made = json.loads(answer)
        return 200, [("ETag", made["etag"]), ("x-goog-generation", made["generation"])], b""


if __name__ == "__main__":
    program, port = sys.argv[1:]
    proxy = Proxy(int(port), XmlUploads)
    host = ["-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory"]
    address = proxy.endpoint.removeprefix("http://")
    server = subprocess.Popen(
        [program, *host, "-public-host", address, "-external-url", proxy.endpoint],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    sys.stdout.write(f"port {address.rpartition(':')[2]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.terminate()
    server.wait(timeout=30)
    proxy.close()
