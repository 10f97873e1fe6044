"""Rows of a table that a caller asked for: how many have a label, which columns files lack."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack

import pyarrow as pa

from probclass_core.arguments import ColumnName, checks_arguments
from probclass_core.arrow.arrays import class_labels
from probclass_core.arrow.bundle import as_json
from probclass_core.arrow.parts import part_of, source_columns
from probclass_core.errors import DataError, ProbClassError, nearest, one_of
from probclass_core.io.filters import Where, parse_where, partition_text
from probclass_core.io.open import format_of, open_table
from probclass_core.io.references import TableRef
from probclass_core.io.table import Plan, Query, Source, Unit

log = logging.getLogger(__name__)

MissingColumns = Literal["error", "warn", "allow"]
"""What happens if no file that is read has a column of the model: an error, or it is read as null,
with or without a warning. A column that only some of the files have is a warning, except for
``"allow"``."""


@dataclass(frozen=True)
class Selection:
    """Rows of a table.

    Attributes:
        table: table to read.
        partition: partition to read, or None for all.
        where: rows to read, or None for all; see `filters.Where`. Text is parsed.

    Raises:
        SpecError: if text is not a condition.
    """

    table: Source
    partition: Mapping[str, Any] | None = None
    where: Where = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", parse_where(self.where))

    def plan(
        self,
        columns: Sequence[str],
        features: Sequence[str] = (),
        missing_columns: MissingColumns | None = None,
    ) -> Plan:
        """Plan the units to read; text columns may be dictionaries.

        Args:
            columns: columns of the table.
            features: features of a model, whose columns are read; see `arrow.parts`.
            missing_columns: what to do about columns of features that files lack; None checks only
                that the table has them.

        Raises:
            DataError: if a column is missing.
            SpecError: if `missing_columns` is unknown.
        """
        table = self.table
        if missing_columns is not None:
            table = with_missing_columns(table, features, missing_columns)
        sources = source_columns(table.schema, features) if features else ()
        names = list(dict.fromkeys((*columns, *sources)))
        plan = table.plan(
            names, partition=self.partition, where=self.where, allow_dictionaries=True
        )
        if missing_columns is not None:
            rows = partition_text(self.partition or {}) or str(self.table.uri or "the source")
            shares = missing_shares(plan, table, features, missing_columns, rows)
            for name, share in shares.items():
                log.warning(
                    "%s: column %r of the model is missing for %.3g %% of the rows, which are read "
                    "as if it was null.",
                    rows,
                    name,
                    100 * share,
                )
        return plan

    @classmethod
    def plan_alone(
        cls,
        source: Any,
        partition: Mapping[str, Any] | None,
        where: Where,
        *arguments: Any,
    ) -> Plan:
        """Plan rows of a source whose other rows are not needed.

        Other partitions of Parquet files are not even listed, unless the plan needs columns that
        only they have, or fails, so that the error says what there is.

        Args:
            source: table, path or object; see `open_table`.
            partition: partition to read, or None for all.
            where: rows to read, or None for all.
            arguments: those of `plan`.

        Raises:
            TableError: as `open_table`, or if the partition does not exist.
            DataError, SpecError: as `plan`.
        """
        is_address = isinstance(source, (str, Path, TableRef))
        if is_address and isinstance(partition, Mapping) and partition:
            ref = TableRef.parse(source)
            if ref.version is None and format_of(ref).name == "parquet":
                from probclass_core.io.parquet.discovery import parquet_table

                with suppress(ProbClassError):
                    return cls(parquet_table(ref, partition), partition, where).plan(*arguments)
        return cls(open_table(source), partition, where).plan(*arguments)

    def provenance(self, plan: Plan) -> dict[str, Any]:
        """Which rows a plan reads, as plain JSON values; values that do not apply are left out."""
        values = {
            "source": self.table.uri,
            "snapshot": plan.snapshot,
            "version": plan.version,
            "partition": as_json(self.partition),
            "where": as_json(self.where),
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True)
class LabelCounts:
    """How many rows have a label.

    Attributes:
        rows: number of rows.
        labeled: number of rows whose label is not null.
    """

    rows: int
    labeled: int

    @property
    def share(self) -> float:
        """Share of the rows that have a label; 0 without rows."""
        return self.labeled / self.rows if self.rows else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The counts and the share as plain JSON values."""
        return {**asdict(self), "share": self.share}


@checks_arguments
def count_labels(
    source: Any,
    label: ColumnName,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
) -> LabelCounts:
    """Count the rows of a table that have a label, to know whether labels have arrived.

    Only the label and the columns of the filter are read.

    Args:
        source: path, table, frame, reader or dataset; see `open_table`.
        label: the class column.
        partition: partition to count, such as ``{"month": "2014-01"}``; by default all.
        where: rows to count, as for `fit`; by default all.

    Raises:
        DataError: if there is no such column, or its type does not fit classes.
        TableError: if the table or partition does not exist or cannot be read.

    Examples:
        >>> counts = count_labels("lake", "air", partition={"month": "2014-01"})  # doctest: +SKIP
        >>> counts.labeled, counts.rows                                           # doctest: +SKIP
        (737, 744)
    """
    plan = Selection.plan_alone(source, partition, where, [label])
    rows = labeled = 0
    for batch in plan.batches():
        rows += batch.num_rows
        labeled += batch.num_rows - class_labels(batch, label).null_count
    return LabelCounts(rows, labeled)


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
