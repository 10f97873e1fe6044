"""What tells one fragment from another: the name under which its statistics are kept.

A digest covers all that the batches of a fragment depend on: the table's place, the file and its
state, the row groups, the columns and the types they are read as, and the conditions on rows.
Conditions that a file's partition answers for all of its rows are left out, so that a window which
moves over partitions finds the digests of those it has met before.
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

from probclass_core.io.filters import Where

_VERSION = 1
"""Of the digests; to be raised when they are made of something else."""

_OF_THEIR_TEXT = (str, int, float, bool, date, datetime, Decimal, type(None))
"""Types of which equal texts mean equal values."""


@dataclass(frozen=True)
class FragmentDigests:
    """Digests of the fragments of one plan.

    Attributes:
        uri: of the table; without one, files have no identity.
        schema: of the columns that are read.
        partition: values of columns that rows must have.
        where: conditions that they must meet.
    """

    uri: str | None
    schema: pa.Schema
    partition: Mapping[str, Any] | None
    where: Where

    def of(self, state: str, keys: Mapping[str, Any], row_groups: Sequence[int]) -> str | None:
        """The digest of one fragment; none where it has no identity, or a condition no text.

        Args:
            state: tells one state of the file from another.
            keys: partition columns that have one value in the whole file, and that value.
            row_groups: numbers of those that are read.
        """
        conditions = self._left(keys)
        if self.uri is None or conditions is None:
            return None
        named = [self._common, state, list(row_groups), conditions]
        return _digest(named)

    @cached_property
    def _common(self) -> str:
        """What the fragments share: the place of the table, the columns and their types."""
        columns = [[field.name, str(field.type)] for field in self.schema]
        return _digest([_VERSION, place_of(str(self.uri)), columns])

    def _left(self, keys: Mapping[str, Any]) -> list[list[str]] | None:
        """The conditions that the partition has not answered, as text; none if they have none."""
        if self.where is not None and not isinstance(self.where, Sequence):
            return None
        equal = [(name, "==", value) for name, value in (self.partition or {}).items()]
        left = []
        for name, operator, value in [*equal, *(self.where or ())]:
            if keys.get(name) is not None:
                continue  # the file is read, so its one value meets the condition
            values = list(value) if isinstance(value, (list, tuple)) else [value]
            if not all(type(one) in _OF_THEIR_TEXT for one in values):
                return None
            left.append([name, operator, repr(values)])
        return left


def file_digest(place: str, state: str) -> str:
    """The digest of a file of a table, under which its footer is kept.

    Args:
        place: of the table.
        state: tells one state of the file from another.
    """
    return _digest([_VERSION, place, state])


def place_of(uri: str) -> str:
    """The place of a table, by whatever relative path it is reached."""
    return uri if "://" in uri else str(Path(uri).resolve())


def _digest(values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
