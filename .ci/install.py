"""Install packages with uv, in a tenth of pip's time: python .ci/install.py PYTHON ARGUMENT...

PYTHON is the interpreter of the environment that gets the packages; the arguments are those of
`uv pip install`. As pip does, uv uses the index and the certificates that are set up on a machine.
"""

from __future__ import annotations

import os
import subprocess
import sys


def index_of_pip() -> str:
    """The index that pip is set up to use; empty for the public one."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(command, capture_output=True, text=True, check=False)
    return os.environ.get("PIP_INDEX_URL") or configured.stdout.strip()


def main() -> int:
    """Run uv; its exit status."""
    python, *arguments = sys.argv[1:]
    settings = {"UV_SYSTEM_CERTS": "true", "UV_DEFAULT_INDEX": index_of_pip()}
    command = ["uv", "pip", "install", "--quiet", "--python", python, *arguments]
    return subprocess.call([sys.executable, "-m", *command], env={**settings, **os.environ})


if __name__ == "__main__":
    sys.exit(main())
