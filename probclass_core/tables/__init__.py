"""Tables: where rows come from and where scored rows go.

table       the interface: a Table plans fragments, a Fragment reads record batches
filters     partition and row filters, from plain values to Arrow expressions
memory      tables, frames and readers in memory
parquet     Parquet files and Hive-partitioned directories, read
staging     a partition written aside, checked, and put in place at once
swap        the one atomic step of a commit
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from probclass_core.tables.memory import MemoryTable, ReaderTable
from probclass_core.tables.table import Table

__all__ = ["open_table"]


def open_table(source: Any) -> Table:
    """The table behind a source.

    Args:
        source: a path or URI of Parquet files; a pyarrow Table, RecordBatch, Dataset or
            RecordBatchReader (read once); a pandas or polars DataFrame; a mapping of columns; a
            `Table`.

    Raises:
        TableError: the path holds no Parquet table.
        DataError: the object is none of these.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, pa.RecordBatchReader):
        return ReaderTable(source)
    if isinstance(source, (str, Path)) or _is_dataset(source):
        from probclass_core.tables.parquet import ParquetTable

        return ParquetTable(source)
    return MemoryTable(source)


def _is_dataset(source: Any) -> bool:
    # By name: importing pyarrow.dataset to ask would cost every program a second.
    return any(kind.__name__ == "Dataset" for kind in type(source).__mro__)
