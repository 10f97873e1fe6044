"""Large buffers of pickled work in a file that the processes of this machine map.

Pickle can leave large buffers out of its bytes. They are written to a temporary file that each
process maps, so the system keeps their pages in memory once, however many processes read them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from probclass_core.errors import TableError

_ALIGNMENT = 64
"""Alignment of the buffers in bytes, as in Arrow."""


@dataclass(frozen=True)
class SharedPickle:
    """A pickle whose large buffers are in a file.

    Attributes:
        pickled: bytes of the pickle.
        path: path of the file; a process that has mapped it no longer needs it.
        ranges: position and size in bytes of each buffer.
    """

    pickled: bytes
    path: str
    ranges: tuple[tuple[int, int], ...]

    def buffers(self) -> list[pa.Buffer]:
        """The buffers to unpickle with: read-only, in shared memory."""
        with pa.memory_map(self.path) as file:
            mapped = file.read_buffer()
        return [mapped.slice(start, size) for start, size in self.ranges]


@contextmanager
def share_buffers(pickled: bytes, buffers: Sequence[memoryview]) -> Iterator[SharedPickle]:
    """Write the buffers to a temporary file, which is removed when the context ends.

    Raises:
        TableError: if the file cannot be written.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="probclass-"))
            ranges = list(_write(buffers, file))
        except OSError as error:
            size = sum(buffer.nbytes for buffer in buffers)
            raise TableError(
                f"cannot write {size:,} bytes for the worker processes to {tempfile.tempdir}: "
                f"{error.strerror}; free some space there, or set TMPDIR to another folder."
            ) from error
        yield SharedPickle(pickled, file.name, tuple(ranges))


def _write(buffers: Sequence[memoryview], file: IO[bytes]) -> Iterator[tuple[int, int]]:
    for buffer in buffers:
        file.write(bytes(-file.tell() % _ALIGNMENT))
        yield file.tell(), buffer.nbytes
        file.write(buffer)
    file.flush()
