"""What became of the rows of partitions after they were scored: rewritten, or deleted, upstream.

Labels that come later are written to the same rows. So a partition counts as rewritten only if its
number of rows changed; what was served stays in any case, until somebody scores it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probclass_core.errors import ProbClassError
from probclass_core.io.filters import partition_text, typed_partition
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef
from probclass_core.store.model_store import ModelStore


def changed_since_scored(
    store: ModelStore,
    name: str,
    source: Any,
    sink: str | Path | TableRef,
    partition: Mapping[str, Any],
    count: int,
) -> list[str]:
    """The last partitions before one whose rows are not those that were scored, in order.

    Only footers are read. A partition that cannot be read is left to whoever reads it.

    Args:
        store: store of the model.
        name: name of the model.
        source: table of the rows, with one partition column.
        sink: scored table.
        partition: partition that is scored now.
        count: number of scored partitions before it to look at.

    Returns:
        A sentence for each, without a period.

    Raises:
        StoreError: if the records cannot be read.
        TableError: if the source cannot be opened.
    """
    if name not in store.models():
        return []
    table, uri = open_table(source), TableRef.parse(sink).uri
    ((column, last),) = typed_partition(table.schema, partition).items()
    scored = {
        typed_partition(table.schema, one["partition"])[column]: one["rows"]
        for record in store.scorings(name)
        if record.sink == uri
        for one in record.partitions
        if {*one["partition"]} == {column}
    }
    found = []
    existing = {one[column] for one in table.partitions()}
    for value in sorted(value for value in scored if value is not None and value < last)[-count:]:
        one = {column: value}
        if value not in existing:
            found.append(f"{partition_text(one)} was scored and is gone from the source")
            continue
        try:
            rows = table.plan([column], partition=one).rows
        except ProbClassError:
            continue
        if rows is not None and scored[value] is not None and rows != scored[value]:
            found.append(
                f"{partition_text(one)} had {scored[value]:,} rows when it was scored, and has "
                f"{rows:,} now"
            )
    return found
