"""What changed upstream: scored partitions were rewritten or deleted, or a region is missing.

Labels that come later are written to the same rows. So a partition counts as rewritten only if its
number of rows changed; what was served stays in any case, until somebody scores it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probclass_core.errors import ProbClassError
from probclass_core.io.filters import partition_text, typed_partition
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef
from probclass_core.operation.order import time_column
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
        source: table of the rows.
        sink: scored table.
        partition: partition that is scored now, such as a day, with all its regions.
        count: number of scored partitions before it, such as days, to look at.

    Returns:
        A sentence for each, without a period.

    Raises:
        StoreError: if the records cannot be read.
        TableError: if the source cannot be opened.
    """
    if name not in store.models():
        return []
    table, uri = open_table(source), TableRef.parse(sink).uri
    column, last = time_column(table, partition)
    columns = table.partition_columns
    scored: dict[Any, dict[str, Mapping[str, Any]]] = {}
    for record in store.scorings(name):
        for part in record.partitions if record.sink == uri else ():
            if {*part["partition"]} == {*columns}:
                typed = typed_partition(table.schema, part["partition"])
                of_value = scored.setdefault(typed[column], {})
                of_value[_text(columns, typed)] = {**part, "partition": typed}
    existing = {_text(columns, one) for one in table.partitions()}
    found = []
    looked_at = sorted(value for value in scored if value is not None and value < last)[-count:]
    for text, part in (one for value in looked_at for one in scored[value].items()):
        if text not in existing:
            found.append(f"{text} was scored and is gone from the source")
            continue
        try:
            rows = table.plan([column], partition=part["partition"]).rows
        except ProbClassError:
            continue
        if rows is not None and part["rows"] is not None and rows != part["rows"]:
            found.append(
                f"{text} had {part['rows']:,} rows when it was scored, and has {rows:,} now"
            )
    return found


def missing_beside(source: Any, partition: Mapping[str, Any], count: int) -> list[str]:
    """The regions or the like that partitions before one have, and it does not.

    Args:
        source: table of the rows.
        partition: partition that is scored now, such as a day, with all its regions.
        count: number of partitions before it, such as days, to compare it with.

    Returns:
        A sentence for each, without a period; none if the table has no rows of the partition.

    Raises:
        TableError: if the source cannot be opened.
    """
    table = open_table(source)
    column, last = time_column(table, partition)
    regions: dict[Any, list[str]] = {}
    for one in table.partitions():
        others = [name for name in table.partition_columns if name != column]
        regions.setdefault(one[column], []).append(_text(others, one))
    here = regions.get(last)
    if here is None:
        return []
    before = sorted(value for value in regions if value is not None and value < last)
    newest = {region: value for value in before[len(before) - count :] for region in regions[value]}
    return [
        f"{column}={last} has no {region}, and {column}={value} has"
        for region, value in newest.items()
        if region not in here
    ]


def _text(columns: Sequence[str], partition: Mapping[str, Any]) -> str:
    return partition_text({name: partition[name] for name in columns})
