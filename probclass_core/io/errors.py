"""Errors of file systems and of Arrow, translated into `TableError` with the location."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from probclass_core.errors import TableError, one_line


@contextmanager
def translate_read_errors(location: str, *, pass_missing: bool = False) -> Iterator[None]:
    """Raise TableError for an error while reading.

    Args:
        location: path or URI that is read.
        pass_missing: whether FileNotFoundError is left to the caller.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if pass_missing and isinstance(error, FileNotFoundError):
            raise
        raise TableError(f"cannot read {location}: {one_line(error)}.") from error


@contextmanager
def translate_write_errors(location: str) -> Iterator[None]:
    """Raise TableError for an error while writing, before anything was committed.

    Args:
        location: path or URI of the partition that is written.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"cannot write {location}: {one_line(error)}; the existing data is unchanged."
        ) from error
