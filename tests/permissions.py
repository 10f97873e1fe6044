"""File permissions in tests, which may run as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run without the rights of root, if the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def make_readable(directory: Path) -> None:
    """Let every user read a directory, unlike those that pytest creates."""
    for path in (directory, *directory.parents):
        if path.stat().st_mode & 0o005 != 0o005:
            path.chmod(0o755)
