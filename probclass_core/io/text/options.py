"""How to read text files: options of a `TableRef` next to those of its storage."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from probclass_core.errors import TableMismatchError, check_known
from probclass_core.io.references import TableRef

_COMPRESSED = r"(\.(gz|bz2|zst|lz4|br))?"

NAMES = {
    "csv": re.compile(rf".*\.(csv|tsv|tab){_COMPRESSED}", re.IGNORECASE),
    "jsonl": re.compile(rf".*\.(jsonl|ndjson|json){_COMPRESSED}", re.IGNORECASE),
}
"""Usual names of the files of each format."""


@dataclass(frozen=True)
class TextOptions:
    """How to read text files.

    In the query of a URI, types are ``types=fare:double,zone:string``, and other lists have commas:
    ``csv+file:///data/trips.txt?delimiter=;&null=-,unknown``.

    Attributes:
        types: types of columns, by Arrow's names or as `pa.DataType`; those of the other columns
            are inferred.
        delimiter: one character between fields; by default a tab in ``.tsv`` files, else a comma.
        decimal: decimal point.
        null: texts that mean null in all columns, in addition to the empty text.
        encoding: encoding of the text.
        names: names of the columns if the files have no header.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    delimiter: str | None = None
    decimal: str = "."
    null: tuple[str, ...] = ()
    encoding: str = "utf-8"
    names: tuple[str, ...] | None = None

    @classmethod
    def separate(cls, ref: TableRef, supported: frozenset[str]) -> tuple[Self, dict[str, Any]]:
        """Separate the options of text files from those of the storage.

        Args:
            ref: address of the table.
            supported: names of the options that the format has.

        Raises:
            TableError: if an option has an invalid value, or a local path has an unknown one.
        """
        given = {name: ref.options[name] for name in ref.options if name in supported}
        storage = {name: ref.options[name] for name in ref.options if name not in supported}
        if storage and "://" not in ref.uri:
            unknown = f"{ref.uri}: unknown option"
            check_known(storage, supported, unknown, "there are", TableMismatchError)
        parsers: dict[str, Callable[[Any], Any]] = dict.fromkeys(supported, _text)
        parsers |= {"types": _types, "null": _texts, "names": _texts}
        try:
            values = {name: parsers[name](value) for name, value in given.items()}
            options = cls(**values)
            "".encode(options.encoding)
            for name in ("delimiter", "decimal"):
                if len(values.get(name, ",").encode()) != 1:
                    raise ValueError(f"{name} must be one ASCII character")
        except (TypeError, ValueError, LookupError) as error:
            raise TableMismatchError(f"{ref.uri}: invalid options {given}: {error}.") from error
        return options, storage


def _types(value: Any) -> dict[str, pa.DataType]:
    if isinstance(value, str):
        value = dict(_pair(part) for part in value.split(","))
    return {str(name): _type(kind) for name, kind in dict(value).items()}


def _type(kind: Any) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(kind)
    except ValueError:
        names = "int64, double, string, bool, date32 or timestamp[us]"
        raise ValueError(f"{kind!r} is not a type of Arrow, such as {names}") from None


def _pair(text: str) -> tuple[str, str]:
    name, colon, kind = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} is not column:type")
    return name, kind


def _texts(value: Any) -> tuple[str, ...]:
    texts = value.split(",") if isinstance(value, str) else list(value)
    return tuple(_text(text) for text in texts)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def names_files(ref: TableRef, kind: str) -> bool:
    """Whether a table consists of files with the usual names of a format.

    A file or a pattern is recognized by its own name, a local directory by the first file in it
    that is of this format or of Parquet. Directories of an object store are not listed.
    """
    is_named = NAMES[kind].fullmatch
    files = _visible_files(Path(ref.uri)) if "://" not in ref.uri else iter(())
    known = (file for file in files if is_named(file) or file.endswith(".parquet"))
    return is_named(next(known, ref.uri.rstrip("/"))) is not None


def _visible_files(folder: Path) -> Iterator[str]:
    """Yield the names of the files in a folder that are not hidden, at any depth.

    In the order of the file system: sinks are recognized once for each partition, and to list a
    folder of many partitions each time would take time quadratic in their number.
    """
    with suppress(OSError), os.scandir(folder) as entries:  # opening the table will report it
        for entry in entries:
            if entry.name.startswith(("_", ".")):
                continue
            if entry.is_dir():
                yield from _visible_files(Path(entry.path))
            else:
                yield entry.name
