"""The commits that a scored table consists of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probclass_core.arguments import checks_arguments
from probclass_core.io.filters import Where, parse_where, typed_partition
from probclass_core.io.open import open_sink, open_table
from probclass_core.io.references import TableRef
from probclass_core.io.sink import Sink, TypedPartition


@checks_arguments
def commits(
    sink: str | Path | TableRef,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
) -> list[Mapping[str, Any]]:
    """List the commits that the rows of a scored table come from, without reading the rows.

    Args:
        sink: the scored table, as for `pipeline.score`.
        partition: partition to look at; by default all of them in order.
        where: conditions on partition columns, such as ``"month >= '2014-01'"``.

    Returns:
        Commit records in the order of the partitions: commit_id, model_id, partition, rows, source,
        input (digest of its files), input_version, the configuration, and ``health`` if it was
        recorded; see `Health.from_dict`. Rows of other writers have none, nor has a CSV file.

    Raises:
        TableError: if the table or partition does not exist or cannot be read.
    """
    ref = TableRef.parse(sink)
    table = open_table(ref)
    partitions = [partition or {}]
    if not partition and table.partition_columns:
        partitions = list(table.partitions(parse_where(where)))
    found: list[Mapping[str, Any]] = []
    opened: Sink | None = None
    for values in partitions:
        typed = TypedPartition(typed_partition(table.schema, values), table.schema)
        opened = open_sink(ref, typed) if opened is None else opened.sibling(typed)
        found += opened.commit_records
    return found
