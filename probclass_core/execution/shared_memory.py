"""What is large among the work for processes of this machine: once in memory, in a file they map.

Pickle can hand over large buffers beside its own bytes. They are written to a temporary file, and
each process maps it: the system keeps its pages once, whoever reads them.
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
"""Bytes, as Arrow aligns its buffers."""


@dataclass(frozen=True)
class SharedPickle:
    """Something pickled, whose large buffers lie in a file.

    Attributes:
        pickled: the rest.
        path: of the file; who has it mapped can do without it.
        places: first byte and size of each buffer.
    """

    pickled: bytes
    path: str
    places: tuple[tuple[int, int], ...]

    def buffers(self) -> list[pa.Buffer]:
        """To unpickle it with: read-only, in memory that is shared."""
        with pa.memory_map(self.path) as file:
            whole = file.read_buffer()
        return [whole.slice(start, size) for start, size in self.places]


@contextmanager
def shared(pickled: bytes, buffers: Sequence[memoryview]) -> Iterator[SharedPickle]:
    """The buffers in a temporary file, which is gone when the context ends, however it does.

    Raises:
        TableError: it cannot be written.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="probclass-"))
            places = list(_written(buffers, file))
        except OSError as error:
            size = sum(buffer.nbytes for buffer in buffers)
            raise TableError(
                f"cannot write {size:,} bytes for the worker processes into {tempfile.tempdir}: "
                f"{error.strerror}; make room there, or let TMPDIR name another folder."
            ) from error
        yield SharedPickle(pickled, file.name, tuple(places))


def _written(buffers: Sequence[memoryview], file: IO[bytes]) -> Iterator[tuple[int, int]]:
    for buffer in buffers:
        file.write(bytes(-file.tell() % _ALIGNMENT))
        yield file.tell(), buffer.nbytes
        file.write(buffer)
    file.flush()
