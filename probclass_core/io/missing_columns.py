"""Columns of a model that files lack, and that would be read as null in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import pyarrow as pa

from probclass_core.arrow.parts import part_of, source_columns
from probclass_core.errors import DataError, nearest, one_of
from probclass_core.io.filters import Where
from probclass_core.io.table import Plan, Query, Source, Unit

MissingColumns = Literal["error", "warn", "allow"]
"""What happens if no file that is read has a column of the model: an error, or it is read as null,
with or without a warning. A column that only some of the files have is a warning, except for
``"allow"``."""


def with_missing_columns(table: Source, features: Sequence[str], policy: MissingColumns) -> Source:
    """The table, in which columns of features that it lacks are null if the policy says so.

    Raises:
        SpecError: if the policy is unknown.
    """
    names = table.schema.names
    missing = []
    for feature in features if policy != "error" else ():
        part = part_of(feature)
        column = feature if feature in names or part is None else part.column
        if column not in names:
            missing.append(column)
    return TableWithNulls(table, tuple(dict.fromkeys(missing))) if missing else table


def missing_shares(
    plan: Plan, table: Source, features: Sequence[str], policy: MissingColumns, where: str
) -> dict[str, float]:
    """Share of the rows in files without a column of the features, by column; none if allowed.

    Args:
        plan: rows to read.
        table: table that they are read from.
        features: features of the model.
        policy: what to do about a column that no file has.
        where: the rows, in messages.

    Raises:
        DataError: if no file has a column, and the policy is ``"error"``.
    """
    if policy == "allow" or not plan.missing or not plan.rows:
        return {}
    columns = source_columns(table.schema, features)
    shares = {name: plan.missing[name] / plan.rows for name in columns if name in plan.missing}
    absent = [name for name, share in shares.items() if share == 1.0]
    if absent and policy == "error":
        # A renamed column is none that the model reads under its own name.
        others = [name for name in table.schema.names if name not in {*plan.missing, *columns}]
        plural = "s" if len(absent) > 1 else ""
        raise DataError(
            f"{where}: no file has column{plural} {one_of(absent)} of the model."
            f"{nearest(absent[0], others)} Correct the files, or read {'them' if plural else 'it'} "
            "as null with missing_columns='warn'."
        )
    return shares


class TableWithNulls(Source):
    """A table with further columns that are null in all rows.

    Args:
        table: the table.
        names: names of the columns.
    """

    def __init__(self, table: Source, names: tuple[str, ...]) -> None:
        self.table, self.names = table, names
        self.uri, self.partition_columns = table.uri, table.partition_columns

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.table.schema, *((name, pa.null()) for name in self.names)])

    def partitions(self, where: Where = None) -> Sequence[Mapping[str, Any]]:
        return self.table.partitions(where)

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        names = self.schema.names if columns is None else list(columns)
        plan = self.table.plan([name for name in names if name not in self.names], **query)
        fields = [
            pa.field(name, pa.null()) if name in self.names else plan.schema.field(name)
            for name in names
        ]
        schema = pa.schema(fields)
        absent = {name: plan.rows or 0 for name in names if name in self.names}
        return replace(
            plan,
            schema=schema,
            units=[UnitWithNulls(unit.digest, unit, schema) for unit in plan.units],
            missing={**plan.missing, **absent},
        )


@dataclass(frozen=True)
class UnitWithNulls(Unit):
    """A unit whose other columns are null.

    Attributes:
        digest: see `Unit`.
        unit: the unit.
        schema: all columns.
    """

    digest: str | None
    unit: Unit
    schema: pa.Schema

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.unit.read():
            columns = [
                batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows)
                for name in self.schema.names
            ]
            yield pa.RecordBatch.from_arrays(columns, names=self.schema.names)
