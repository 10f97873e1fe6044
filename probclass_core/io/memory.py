"""Objects as tables: Arrow tables, data frames, datasets, and readers that can be read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BATCH_ROWS, as_table, in_slices, joined, read_rows
from probclass_core.arrow.bundle import from_ipc, to_ipc
from probclass_core.arrow.types import in_safe_types, safe_types
from probclass_core.errors import TableError
from probclass_core.io.failures import translate_read_errors
from probclass_core.io.table import Plan, Query, Source, Unit, columns_and_filter

if TYPE_CHECKING:
    import pyarrow.dataset as ds

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
            raise _no_row(query)
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


class ArrowDataset(Source):
    """A dataset of pyarrow, read by its own scanner: a unit is a file, or a row group of one.

    Args:
        dataset: the dataset.
    """

    def __init__(self, dataset: ds.Dataset) -> None:
        self._dataset = dataset

    @property
    def schema(self) -> pa.Schema:
        return safe_types(self._dataset.schema)

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        columns, row_filter = columns_and_filter(self.schema, columns, query)
        units = []
        for fragment in self._dataset.get_fragments(filter=row_filter):
            groups = getattr(fragment, "split_by_row_group", lambda whole=fragment: [whole])
            units += [_Fragment(one, self.schema, columns, row_filter) for one in groups()]
        if row_filter is not None and not units:
            raise _no_row(query)
        rows = [unit.fragment.count_rows() for unit in units]
        schema = pa.schema([self.schema.field(name) for name in columns])
        return Plan(schema, units, sum(rows), None, unit_rows=rows)


@dataclass(frozen=True)
class _Fragment(Unit):
    """Some rows of a dataset, as a unit.

    Attributes:
        fragment: a file, row groups of one, or rows in memory.
        schema: all columns.
        columns: columns to read.
        row_filter: rows to read, or None for all.
    """

    fragment: ds.Fragment
    schema: pa.Schema
    columns: Sequence[str]
    row_filter: pc.Expression | None
    digest: None = None

    def __str__(self) -> str:
        return str(getattr(self.fragment, "path", "a dataset in memory"))

    def read(self) -> Iterator[pa.RecordBatch]:
        size = read_rows(pa.schema([self.schema.field(name) for name in self.columns]))
        with translate_read_errors(str(self)):
            batches = self.fragment.to_batches(
                schema=self.schema,
                columns=list(self.columns),
                filter=self.row_filter,
                batch_size=size,
                batch_readahead=2,
                use_threads=False,
            )
            yield from joined(batches, size)


def _no_row(query: Query) -> TableError:
    return TableError(
        f"no row matches partition {dict(query.get('partition') or {})} and where "
        f"{query.get('where')}."
    )


class StreamTable(Source):
    """A stream of batches: one unit, read once.

    Args:
        batches: the reader.
    """

    read_once = True

    def __init__(self, batches: pa.RecordBatchReader) -> None:
        self._batches = batches

    @property
    def schema(self) -> pa.Schema:
        return safe_types(self._batches.schema)

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        columns, row_filter = columns_and_filter(self.schema, columns, query)
        schema = pa.schema([self.schema.field(name) for name in columns])
        return Plan(schema, [_Stream(self._batches, schema, row_filter)], None, None)


@dataclass(frozen=True)
class _Stream(Unit):
    """The rows of a reader, as a unit.

    Attributes:
        batches: the reader.
        schema: columns of the batches.
        row_filter: rows to read, or None for all.
    """

    batches: pa.RecordBatchReader
    schema: pa.Schema
    row_filter: pc.Expression | None
    digest: None = None

    def __str__(self) -> str:
        return "a reader, which can be read once,"

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in map(in_safe_types, self.batches):
            kept = batch if self.row_filter is None else batch.filter(self.row_filter)
            yield from in_slices([kept.select(self.schema.names)], read_rows(self.schema))
