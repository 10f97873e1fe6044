"""The order of the runs of a model: how far it was judged, and how far partitions are apart.

Runs go forward in time, along one partition column: of a table by region and day, all regions of a
day belong to one run. The ledger of promotions says on which rows challengers were judged, and a
run of older rows, such as one of a backfill beside the schedule, moves no alias.

Upstream, scored partitions may be rewritten or deleted, or a region may be missing. Labels that
come later are written to the same rows. So a partition counts as rewritten only if its number of
rows changed; what was served stays in any case, until somebody scores it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.compute as pc

from probclass_core.errors import ProbClassError, SpecError, one_of
from probclass_core.io.filters import (
    Condition,
    Where,
    parse_where,
    partition_text,
    typed_conditions,
    typed_partition,
)
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef, recorded_uri
from probclass_core.io.table import Source
from probclass_core.store.model_store import ModelStore

_PARTS_OF_DATES = ("year", "month", "day", "hour")
"""Names of partition columns with which one date is often divided."""

_MONTH = re.compile(r"((?:19|20)\d{2})-?(0[1-9]|1[0-2])")


def time_column(table: Source, partition: Mapping[str, Any]) -> tuple[str, Any]:
    """The partition column that the runs of a model are counted along, and its value in a run.

    Args:
        table: partitioned table.
        partition: what a run scores: the value of one of the partition columns.

    Raises:
        SpecError: if `partition` does not name one partition column of the table, or that is only
            a part of its dates, such as the day of the month.
    """
    columns = table.partition_columns
    dated = [name for name in columns if name.lower() in _PARTS_OF_DATES]
    is_part = len(dated) > 1 and any(len(str(partition.get(name, "all"))) < 3 for name in dated)
    if is_part or len(partition) != 1 or not {*partition} <= {*columns}:
        advice = ""
        if is_part:
            advice = "; write it with the whole date in one column, such as day=2014-01-31"
        elif len(columns) > 1:
            one = next(iter({*partition} & {*columns}), columns[-1])
            advice = f"; name the one that is the time, such as {{{one!r}: …}}: a run scores all "
            advice += "partitions with its value"
        raise SpecError(
            f"the windows of a run are counted along one partition column, got {dict(partition)} "
            f"for a table with {one_of(columns) if columns else 'none'}{advice}."
        )
    ((column, value),) = typed_partition(table.schema, partition).items()
    return column, value


def judged_beyond(
    store: ModelStore,
    name: str,
    alias: str,
    table: Source,
    partition: Mapping[str, Any] | None,
    where: Where = None,
) -> str | None:
    """Newest partition on which a version was judged for an alias, if it is newer than some rows.

    Args:
        store: store of the model.
        name: name of the model.
        alias: the alias.
        table: table of labeled rows.
        partition: partition of the rows.
        where: conditions of the rows.

    Returns:
        The partition as text; None if it is not newer, or the ledger does not name one.
    """
    uri = None if table.uri is None else recorded_uri(table.uri)
    named = {column for column, *_ in _of_partitions(table, partition, where) or ()}
    columns = [name for name in table.partition_columns if name in named or not named]
    for entry in store.ledger(name, alias):
        rows = entry.provenance
        if uri is None or rows.get("source") != uri or entry.metrics.get("judged_until"):
            continue
        until = _last(table, columns, rows.get("partition"), rows.get("where"))
        newest = None if until is None else _last(table, columns, partition, where)
        if until is None or newest is None or newest >= until:
            return None
        return partition_text(dict(zip(columns, until, strict=True)))
    return None


def rows_judged(
    table: Source, partition: Mapping[str, Any] | None, where: Where = None
) -> dict[str, Any]:
    """Source, partition and conditions of rows for records; the same for the same partition.

    Args:
        table: table of the rows.
        partition: partition of the rows.
        where: conditions of the rows; equalities of partition columns alone are a partition.
    """
    uri = None if table.uri is None else recorded_uri(table.uri)
    if not isinstance(where, pc.Expression):
        conditions = typed_conditions(table.schema, partition, where)
        equal = {column: value for column, operator, value in conditions if operator == "=="}
        if len(equal) == len(conditions) and equal.keys() <= {*table.partition_columns}:
            partition, where = equal or None, None
    rows = {"source": uri, "partition": partition, "where": where}
    return {key: value for key, value in rows.items() if value is not None}


def steps_between(values: Sequence[Any], first: Any, last: Any) -> int | None:
    """Number of partitions from one to another, if none were missing.

    Args:
        values: values of partitions in order, whose usual distance is one step.
        first: value of a partition.
        last: value of a later one.

    Returns:
        None if the values are neither numbers nor dates.
    """
    positions = [_position(value) for value in (*values, first, last)]
    known = [position for position in positions if position is not None]
    if len(known) < len(positions):
        return None
    steps = [later - earlier for earlier, later in pairwise(known[:-2]) if later > earlier]
    return round((known[-1] - known[-2]) / median(steps)) if steps else None


def _last(
    table: Source, columns: Sequence[str], partition: Mapping[str, Any] | None, where: Where
) -> Any:
    """Values of the newest partition that conditions select; None if there is or is known none."""
    chosen = _of_partitions(table, partition, where)
    if not columns or chosen is None:
        return None
    try:
        found = [tuple(one[column] for column in columns) for one in table.partitions(chosen)]
    except ProbClassError:  # such as a column that the table had when a version was judged
        return None
    return max((values for values in found if None not in values), default=None)


def _of_partitions(
    table: Source, partition: Mapping[str, Any] | None, where: Where
) -> list[Condition] | None:
    """The conditions on partition columns; None if they are not known."""
    try:
        conditions = parse_where(where)
    except ProbClassError:
        return None
    if not isinstance(conditions, list | tuple | None):
        return None
    listed = [*((name, "==", value) for name, value in (partition or {}).items())]
    return [one for one in (*listed, *(conditions or ())) if one[0] in table.partition_columns]


def _position(value: Any) -> float | None:
    """A month, day or time as a number of months or days, or a number; None for anything else."""
    text = value.isoformat() if isinstance(value, date) else str(value)  # a datetime is a date
    if month := _MONTH.fullmatch(text):
        return 12 * int(month[1]) + int(month[2])
    try:
        if text.isdecimal() and len(text) != len("20140131"):
            return int(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() / 86400


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
    table, uri = open_table(source), recorded_uri(TableRef.parse(sink).uri)
    column, last = time_column(table, partition)
    columns = table.partition_columns
    scored: dict[Any, dict[str, Mapping[str, Any]]] = {}
    for record in store.scorings(name):
        for part in record.partitions if recorded_uri(record.sink) == uri else ():
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
