"""Objects as tables: Arrow tables, data frames, datasets, and readers that can be read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BATCH_ROWS, as_table, in_slices, read_rows
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
        schema = pa.schema([self.schema.field(name) for name in columns])
        fragments: list[ds.Fragment] = []
        for fragment in self._dataset.get_fragments(filter=row_filter):
            groups = getattr(fragment, "split_by_row_group", lambda whole=fragment: [whole])
            fragments += groups()
        if row_filter is not None and not fragments:
            raise _no_row(query)
        scan = {"columns": columns, "filter": row_filter, "batch_size": read_rows(schema)}
        scan |= {"schema": self.schema, "batch_readahead": 2, "use_threads": False}
        units = [
            _Batches(
                str(getattr(one, "path", "a dataset in memory")),
                partial(one.to_batches, **scan),
                schema,
            )
            for one in fragments
        ]
        rows = [fragment.count_rows() for fragment in fragments]
        return Plan(schema, units, sum(rows), None, unit_rows=rows)


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
        name, batches = "a reader, which can be read once,", self._batches.__iter__
        return Plan(schema, [_Batches(name, batches, schema, row_filter)], None, None)


@dataclass(frozen=True)
class _Batches(Unit):
    """Batches of an object, as a unit.

    Attributes:
        name: what is read, in messages.
        batches: returns the batches.
        schema: columns to read.
        row_filter: rows to read, or None for all.
    """

    name: str
    batches: Callable[[], Iterable[pa.RecordBatch]]
    schema: pa.Schema
    row_filter: pc.Expression | None = None
    digest: None = None

    def __str__(self) -> str:
        return self.name

    def read(self) -> Iterator[pa.RecordBatch]:
        with translate_read_errors(self.name):
            for batch in map(in_safe_types, self.batches()):
                kept = batch if self.row_filter is None else batch.filter(self.row_filter)
                yield from in_slices([kept.select(self.schema.names)], read_rows(self.schema))


def _no_row(query: Query) -> TableError:
    named = {"partition": query.get("partition"), "where": query.get("where")}
    chosen = [f"{name} {value}" for name, value in named.items() if value is not None]
    return TableError(f"no row matches {' and '.join(chosen)}.")
