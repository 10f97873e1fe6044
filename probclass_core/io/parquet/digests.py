"""Digests of units, under which their statistics are cached.

The digest of a part of a file covers everything that its batches depend on: the location of the
table, the file and its state, the row groups, the columns and the types they are read as, and the
conditions on rows. A condition that all rows of the file meet by its partition is left out, so that
a window that moves over partitions finds the statistics of the partitions it has seen. A unit of
several files has the digest of theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.io.filters import Condition

_VERSION = 1
"""Version of the digests; increase it when they cover something else."""

_TEXT_IS_UNIQUE = (str, int, float, bool, date, datetime, Decimal, type(None))
"""Types whose values are equal if their texts are."""


@dataclass(frozen=True)
class FragmentDigests:
    """Digests of the fragments of one plan.

    Attributes:
        uri: path or URI of the table, or None if its files have no identity.
        schema: schema of the columns to read.
        partition: partition to read, or None.
        where: conditions on the rows, or None.
    """

    uri: str | None
    schema: pa.Schema
    partition: Mapping[str, Any] | None
    where: Sequence[Condition] | pc.Expression | None

    def digest(
        self, state: str, partition: Mapping[str, Any], row_groups: Sequence[int]
    ) -> str | None:
        """Return the digest of a fragment, or None if it has no identity.

        Args:
            state: state of the file.
            partition: partition columns with one value in the whole file, and their values.
            row_groups: numbers of the row groups.
        """
        conditions = self._conditions_within(partition)
        if self.uri is None or conditions is None:
            return None
        return _digest([self._common, state, list(row_groups), conditions])

    @cached_property
    def _common(self) -> str:
        """Digest of what all fragments share: the table, the columns and their types."""
        columns = [[field.name, str(field.type)] for field in self.schema]
        return _digest([_VERSION, absolute_location(str(self.uri)), columns])

    def _conditions_within(self, partition: Mapping[str, Any]) -> list[list[str]] | None:
        """Return the conditions that a partition leaves open, or None if one has no unique text."""
        if self.where is not None and not isinstance(self.where, Sequence):
            return None
        equal = [(name, "==", value) for name, value in (self.partition or {}).items()]
        conditions = []
        for name, operator, value in [*equal, *(self.where or ())]:
            if partition.get(name) is not None:
                continue  # the plan reads the file, so its one value meets the condition
            values = list(value) if isinstance(value, (list, tuple)) else [value]
            if not all(type(item) in _TEXT_IS_UNIQUE for item in values):
                return None
            conditions.append([name, operator, repr(values)])
        return conditions


def unit_digest(parts: Sequence[str | None]) -> str | None:
    """Return the digest of a unit of several files, or None if one has none.

    Args:
        parts: digests of their rows.
    """
    return None if None in parts else _digest([_VERSION, *parts])


def file_digest(table: str, state: str) -> str:
    """Return the digest of a file, under which its footer is cached.

    Args:
        table: location of the table; see `absolute_location`.
        state: state of the file.
    """
    return _digest([_VERSION, table, state])


def absolute_location(uri: str) -> str:
    """Return the URI, or the absolute path without links."""
    return uri if "://" in uri else str(Path(uri).resolve())


def _digest(values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
