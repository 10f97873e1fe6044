"""Tables in memory: Arrow tables, data frames, lazy frames, and readers that can be read once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BATCH_ROWS, as_table, in_slices, read_rows
from probclass_core.arrow.bundle import from_ipc, to_ipc
from probclass_core.arrow.types import in_safe_types, safe_types
from probclass_core.errors import TableError, one_line
from probclass_core.io.filters import filtered_columns
from probclass_core.io.table import Plan, Query, Source, Unit, columns_and_filter

_UNIT_ROWS = BATCH_ROWS


class MemoryTable(Source):
    """A table or data frame in memory, read in slices.

    Args:
        data: table or data frame; see `arrays.as_table`.
    """

    def __init__(self, data: Any) -> None:
        self._table = as_table(data)

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        columns, row_filter = columns_and_filter(self.schema, columns, query)
        table = self._table if row_filter is None else self._table.filter(row_filter)
        if row_filter is not None and not table.num_rows:
            raise TableError(
                f"no row matches partition {dict(query.get('partition') or {})} and where "
                f"{query.get('where')}; the table has {self._table.num_rows} rows."
            )
        table = table.select(columns)
        slices = [
            _Slice(table.slice(start, _UNIT_ROWS)) for start in range(0, table.num_rows, _UNIT_ROWS)
        ]
        return Plan(table.schema, slices, table.num_rows, None)


@dataclass(frozen=True)
class _Slice(Unit):
    """Some rows of a table in memory, as a unit."""

    table: pa.Table
    digest: None = None

    def __str__(self) -> str:
        return f"{self.table.num_rows} rows in memory"

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrow would pickle the whole table that this is a slice of.
        return _slice_from_ipc, (to_ipc(self.table),)

    def read(self) -> Iterator[pa.RecordBatch]:
        # Chunks depend on how the table was made; equal rows should give equal batches.
        step = read_rows(self.table.schema)
        for start in range(0, self.table.num_rows, step):
            yield from self.table.slice(start, step).combine_chunks().to_batches()


def _slice_from_ipc(rows: bytes) -> _Slice:
    return _Slice(from_ipc(rows))


class StreamTable(Source):
    """A stream of batches: one unit, read once from a reader, or collected from a lazy frame.

    Of a lazy frame only the requested columns are collected, and polars reads ahead by a few
    batches. Rows keep the order that polars gives them.

    Args:
        batches: a reader of batches, or a lazy frame of polars.
    """

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self.read_once = isinstance(batches, pa.RecordBatchReader)

    @cached_property
    def schema(self) -> pa.Schema:
        if self.read_once:
            return safe_types(self._batches.schema)
        with _translate_polars_errors():
            return as_table(self._batches.clear()).schema

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        columns, row_filter = columns_and_filter(self.schema, columns, query)
        schema = pa.schema([self.schema.field(name) for name in columns])
        name, batches = "a reader, which can be read once,", self._batches
        if not self.read_once:
            # Arrow filters the rows, so they are the same as for every other table.
            filtered = sorted(filtered_columns(self.schema, query))
            name, batches = "a lazy frame", batches.select([*dict.fromkeys([*columns, *filtered])])
        return Plan(schema, [_Stream(name, batches, schema, row_filter)], None, None)


@dataclass(frozen=True)
class _Stream(Unit):
    """The rows of a reader or of a lazy frame, as a unit.

    Attributes:
        name: what it is, in messages.
        batches: a reader of batches, or a lazy frame.
        schema: columns of the batches.
        row_filter: rows to read, or None for all.
    """

    name: str
    batches: Any
    schema: pa.Schema
    row_filter: pc.Expression | None
    digest: None = None

    def __str__(self) -> str:
        return self.name

    def read(self) -> Iterator[pa.RecordBatch]:
        rows = read_rows(self.schema)
        is_reader = isinstance(self.batches, pa.RecordBatchReader)
        with nullcontext() if is_reader else _translate_polars_errors():
            for batch in self.batches if is_reader else _collected(self.batches, rows):
                batch = in_safe_types(batch)
                kept = batch if self.row_filter is None else batch.filter(self.row_filter)
                yield from in_slices([kept.select(self.schema.names)], rows)


def _collected(frame: Any, rows: int) -> Iterator[pa.RecordBatch]:
    """Collect a lazy frame in batches of about some rows, or at once before polars 1.34."""
    frames: Iterable[Any]
    if hasattr(frame, "collect_batches"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # polars may change its arguments
            frames = frame.collect_batches(chunk_size=rows, maintain_order=True)
    else:
        frames = [frame.collect()]
    for one in frames:
        yield from as_table(one).combine_chunks().to_batches()


@contextmanager
def _translate_polars_errors() -> Iterator[None]:
    """Raise TableError for an error of polars: a missing file or column, a failing expression."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("polars") and not isinstance(error, OSError):
            raise
        raise TableError(f"cannot collect the lazy frame: {one_line(error)}.") from error
