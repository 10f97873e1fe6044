"""Errors of file systems and of Arrow, translated into one line that names the location."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from probclass_core.errors import (
    ProbClassError,
    TableError,
    TableMismatchError,
    one_line,
    shown_cause,
)


@contextmanager
def translate_read_errors(
    location: str, *, pass_missing: bool = False, error: type[ProbClassError] = TableError
) -> Iterator[None]:
    """Raise an error of ours for one that a file system or Arrow raises while reading.

    A damaged file is an error that a retry does not fix, a `TableMismatchError`. One that was cut
    off may still be written.

    Args:
        location: path or URI that is read.
        pass_missing: whether FileNotFoundError is left to the caller.
        error: class of the error to raise.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as cause:
        if pass_missing and isinstance(cause, FileNotFoundError):
            raise
        if error is TableError and _is_damaged(cause):
            error = TableMismatchError
        raise error(f"cannot read {location}: {_reason(cause)}.") from shown_cause(cause)


@contextmanager
def translate_write_errors(
    location: str, *, error: type[ProbClassError] = TableError
) -> Iterator[None]:
    """Raise an error of ours for one that a file system or Arrow raises before a commit is done.

    Args:
        location: path or URI that is written.
        error: class of the error to raise.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as cause:
        raise error(
            f"cannot write {location}: {_reason(cause)}; the existing data is unchanged."
        ) from shown_cause(cause)


_ENCRYPTED = re.compile(r"encrypted metadata|cannot decrypt", re.IGNORECASE)
"""Part of Arrow's errors for an encrypted file."""

_DAMAGED = re.compile(r"corrupt|deserialize thrift|decompress", re.IGNORECASE)
"""Part of Arrow's errors for a damaged file, some of which are errors of the system as well."""

_CUT_OFF = re.compile("magic bytes not found|file size is")
"""Part of Arrow's errors for a file of Parquet without an end."""

_SYSTEM = re.compile(r"Detail: \[errno \d+\] ([^.]+)")
"""End of Arrow's errors of a local disk, whose begin repeats the path."""


def _is_damaged(cause: Exception) -> bool:
    is_invalid = isinstance(cause, pa.ArrowInvalid) or _DAMAGED.search(str(cause))
    return bool(is_invalid) and not _CUT_OFF.search(str(cause))


def _reason(cause: Exception) -> str:
    if _ENCRYPTED.search(str(cause)):
        return "it is encrypted; write it again without encryption"
    if isinstance(cause, pa.ArrowInvalid) and _CUT_OFF.search(str(cause)):
        return (
            "it is not a Parquet file, or was cut off; write it again, name the format of a text "
            "file, as in TableRef(…, format='csv') or 'jsonl', or begin the name of a file that is "
            "not data with '_'"
        )
    if isinstance(cause, OSError) and cause.filename and cause.strerror:
        return cause.strerror  # the whole text repeats the path
    of_system = _SYSTEM.search(str(cause))
    return one_line(cause) if of_system is None else of_system[1]
