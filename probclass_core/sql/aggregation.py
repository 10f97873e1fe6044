"""Sufficient statistics that a database computes by GROUP BY, so that no row leaves it.

Three kinds of queries read the rows::

    rows      number of rows, and of those without a label
    classes   rows of each class; values, minimum and maximum of each feature
    blocks    sums about the means of each class, and counts of distinct values

Deviations are taken from the mean of the class before they are multiplied; E[x²] − m² is never
computed. Where SQL has no clean answer, such as for infinite numbers, `NeedsRows` is raised, and
the rows are read, which gives the result or the error of every other source.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    FloatArray,
    batch_rows,
    check_columns,
    class_labels,
    is_numeric_type,
    label_codes,
    sorted_classes,
)
from probclass_core.arrow.parts import feature_schema
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import is_number_type
from probclass_core.errors import DataError
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.formulas import Column, Condition, Expression, IsNull
from probclass_core.estimation.kinds.kind import ClassSums, Deviation, DistinctRows, Sums
from probclass_core.estimation.kinds.summary import ClassCounts, profile_table
from probclass_core.estimation.statistics import PROFILE, Accumulator, Statistics, bind
from probclass_core.spec.model_spec import Block, ModelSpec
from probclass_core.sql.connections import Database, SqlColumn
from probclass_core.sql.dialects import Dialect, Stages
from probclass_core.sql.render import Renderer, Sql

_LARGEST = 1e100
"""Larger numbers, whose squares add up beyond float64, are left to the rows."""

_TINY = 1e-150
"""Where arithmetic raises errors, smaller deviations are 0."""

_PER_QUERY = 600
"""Results of one query: PostgreSQL allows 1,664, SQLite 2,000."""

_MOST_TABLES = 64
"""Tables of distinct rows that are merged at once, the previous result included."""


class NeedsRows(Exception):
    """The statistics cannot be computed by the database, for the reason given."""


class Aggregation:
    """The statistics of a spec, computed by a database.

    Args:
        database: the open database.
        source: the rows as SQL: a table named ``t``, and a condition.
        columns: columns of the source that the spec reads.
        spec: the model.
    """

    def __init__(
        self, database: Database, source: str, columns: Mapping[str, SqlColumn], spec: ModelSpec
    ) -> None:
        self._database = database
        self._dialect = database.dialect
        self._source = source
        self._columns = columns
        self._spec = spec
        self._schema = pa.schema([(name, column.type) for name, column in columns.items()])

    def statistics(self) -> Statistics:
        """The statistics of all rows.

        Raises:
            NeedsRows: if rows must be read.
            DataError, SpecError: as `summarize_batches`.
            DataError: if the table changed between the queries.
            TableError: if a query fails.
        """
        spec = self._spec
        check_columns(self._schema, spec.label_and_weight)
        if spec.takes_sample:
            raise NeedsRows("the model needs a sample of them")
        if spec.weight is not None:
            raise NeedsRows("they have weights")
        features = feature_schema(self._schema, spec.features)
        estimators = bind(spec, features)
        aggregates = {
            str(block.name): self._aggregates(block, estimators[str(block.name)])
            for block in spec.blocks
        }
        rows, null_labels = self._count_rows()
        self._count_classes(rows - null_labels)
        blocks: dict[str, pa.Table] = {}
        if len(self._classes):
            sums = {name: each for name, each in aggregates.items() if isinstance(each, Sums)}
            blocks = self._sums(sums)
            for name, each in aggregates.items():
                if isinstance(each, DistinctRows):
                    blocks[name] = self._distinct(estimators[name], each)
        counts = {
            "class": self._classes,
            "rows": self._class_rows,
            "count": self._class_rows.astype(np.float64),
        }
        tables = {
            "classes": ClassCounts(spec, self._classes.type).merge([pa.table(counts)]),
            **{name: blocks[name] for name in estimators if name in blocks},
            PROFILE: self._profile,
        }
        return Statistics(spec, features, tables, rows, null_labels)

    def _aggregates(self, block: Block, estimator: Estimator) -> Sums | DistinctRows:
        found = None
        if _describes_summarize(type(estimator)):
            found = estimator.aggregates()
        if found is None:
            raise NeedsRows(f"block {block.name!r} ({block.estimator}) has no aggregates")
        parts = [column for column in block.inputs if column not in self._columns]
        if parts:
            raise NeedsRows(f"{parts[0]!r} is a part of a column")
        return found

    # Queries.

    def _input(self, renderer: _RowRenderer) -> str:
        """The label g, and the columns that expressions need."""
        columns = {"g": self._label(), **renderer.columns.levels[0]}
        listed = ", ".join(f"{text} AS {name}" for name, text in columns.items())
        return f"SELECT {listed}\n  FROM {self._source}"

    def _label(self) -> str:
        label = self._spec.label
        assert label is not None  # without one, a sample of the rows is needed
        if not pa.types.is_floating(self._schema.field(label).type):
            return self._read_as(label)
        renderer = _RowRenderer(self._dialect, self._schema)
        renderer.number(label)
        return next(iter(renderer.columns.levels[0].values()))

    def _read_as(self, name: str) -> str:
        return self._columns[name].read_as(self._dialect, name)

    def _as_double(self, text: str) -> str:
        return f"CAST({text} AS {self._dialect.double})"

    def _read(self, query: str, schema: pa.Schema) -> pa.Table:
        batches = self._database.batches(query, schema, batch_rows(len(schema)))
        return pa.Table.from_batches(batches, schema)

    def _count_rows(self) -> tuple[int, int]:
        """Number of rows, and of those without a label.

        Raises:
            DataError: if the label column has an unsuitable type.
        """
        self._labels(pa.array([], self._schema.field(self._spec.label).type))
        query = f"SELECT COUNT(*), COUNT(*) - COUNT({self._label()}) FROM {self._source}"
        ((rows, null_labels),) = self._database.rows(query)
        return int(rows), int(null_labels)

    def _count_classes(self, labeled: int) -> None:
        """The classes, and what the rows have in each feature."""
        features = list(dict.fromkeys(self._spec.features))
        renderer = _RowRenderer(self._dialect, self._schema)
        wanted: list[str] = []
        for name in features:
            if is_numeric_type(self._schema.field(name).type):
                value = renderer.number(name).text
                wanted += [f"COUNT({value})", f"MIN({value})", f"MAX({value})"]
            else:
                value = renderer.columns.add("r", self._read_as(name), 0).text
                wanted += [f"COUNT({value})", "NULL", "NULL"]
        classes, sums = self._by_class(renderer, [], wanted, None)
        self._classes = sorted_classes(classes)
        order = label_codes(self._classes, classes)
        rows, found = sums[order, 0], sums[order, 1:]
        self._class_rows = rows.astype(np.int64)
        if rows.sum() != labeled:
            raise _changed()
        found = found.reshape(len(classes), len(features), 3)
        total = int(rows.sum())
        profile: list[tuple[int, int, float | None, float | None]] = []
        self._complete: set[str] = set()
        self._extremes: dict[str, float] = {}
        for number, name in enumerate(features):
            values, low, high = found[:, number].T
            nulls = total - int(values.sum())
            if not nulls:
                self._complete.add(name)
            least = float(np.fmin.reduce(low, initial=np.nan))
            most = float(np.fmax.reduce(high, initial=np.nan))
            self._extremes[name] = max(abs(least), abs(most))
            is_number = is_number_type(self._schema.field(name).type) and least == least
            profile.append(
                (total, nulls, least + 0.0, most + 0.0) if is_number else (total, nulls, None, None)
            )
            if np.isinf([least, most]).any():
                raise NeedsRows(f"column {name!r} has infinite values")
        self._profile = profile_table(features, profile)

    def _by_class(
        self,
        renderer: _RowRenderer,
        deviations: Sequence[str],
        wanted: Sequence[str],
        expected: FloatArray | None,
    ) -> tuple[pa.Array, FloatArray]:
        """Run aggregates by class, in as many queries as they need.

        Args:
            renderer: what the aggregates need of each row.
            deviations: columns of `renderer` whose mean is needed.
            wanted: aggregates as SQL.
            expected: number of rows of each of ``_classes``, or None in the first query.

        Returns:
            Classes, and the number of their rows and the aggregates, ``(k, 1 + m)``; null is NaN.
        """
        results: list[FloatArray] = []
        classes: pa.Array | None = None
        for start in range(0, max(len(wanted), 1), _PER_QUERY):
            part = ["COUNT(*)", *wanted[start : start + _PER_QUERY]]
            names = [f"a{number}" for number in range(len(part))]
            listed = ", ".join(
                f"{self._as_double(text)} AS {name}" for text, name in zip(part, names, strict=True)
            )
            query = (
                f"{self._with(renderer, deviations)}\nSELECT g, {listed} FROM pc_values GROUP BY g"
            )
            label = self._schema.field(self._spec.label)
            schema = pa.schema([label, *((name, pa.float64()) for name in names)])
            table = self._read(query, schema)
            labels = self._labels(table.column(0).combine_chunks()).dictionary_decode()
            numbers = np.array(
                [column.to_pylist() for column in table.columns[1:]], dtype=np.float64
            ).reshape(len(names), -1)
            if classes is None:
                classes = labels if expected is None else self._classes
            order = label_codes(classes, labels)
            if len(labels) != len(classes) or (order < 0).any():
                raise _changed()
            numbers = numbers.T[order]
            if expected is not None and (numbers[:, 0] != expected).any():
                raise _changed()
            results.append(numbers if not results else numbers[:, 1:])
        assert classes is not None
        return classes, np.concatenate(results, axis=1)

    def _labels(self, column: pa.Array) -> pa.DictionaryArray:
        batch = pa.RecordBatch.from_arrays([column], names=[self._spec.label])
        return class_labels(batch, self._spec.label)

    def _with(self, renderer: _RowRenderer, deviations: Sequence[str]) -> str:
        stages = Stages()
        stages.add("input", self._input(renderer))
        stages.add("rows", f"SELECT * FROM {stages.last} WHERE g IS NOT NULL")
        if deviations:
            means = ", ".join(f"AVG({name}) AS m_{name}" for name in deviations)
            stages.add("means", f"SELECT g AS mg, {means} FROM pc_rows GROUP BY g")
            listed = ", ".join(f"m_{name}" for name in deviations)
            joined = "pc_rows JOIN pc_means ON g = mg"
            stages.add("centered", f"SELECT pc_rows.*, {listed}\n  FROM {joined}")
        for level, columns in enumerate(renderer.columns.levels[1:], 1):
            stages.extend(f"values{level}", columns)
        stages.add("values", f"SELECT * FROM {stages.last}")
        return str(stages)

    # Blocks.

    def _sums(self, blocks: Mapping[str, Sums]) -> dict[str, pa.Table]:
        """The statistics of blocks that are made of sums."""
        if not blocks:
            return {}
        renderer = _RowRenderer(self._dialect, self._schema, self._complete)
        terms: dict[tuple[str, Hashable], str] = {}
        refused: list[str] = []
        for name, block in blocks.items():
            for key, expression in block.terms.items():
                terms[name, key] = renderer.expression(expression, 0).within(2)
            decided = [renderer.condition(condition, 0) for condition in block.refused]
            refused += [each.text for each in decided if isinstance(each, Sql)]
        for column in renderer.deviations:
            if self._extremes[column] > _LARGEST:
                raise NeedsRows(f"column {column!r} has values beyond {_LARGEST:g}")
        means = list(renderer.deviations.values())
        complete = [renderer.number(name).text for name in self._complete & renderer.numbers]
        distinct = list(dict.fromkeys(terms.values()))
        wanted = [f"SUM(CASE WHEN {' OR '.join(refused) or '1 = 0'} THEN 1 ELSE 0 END)"]
        wanted += [f"COUNT({column})" for column in complete]
        wanted += [f"MIN(m_{column})" for column in means]
        wanted += [f"SUM({term})" for term in distinct]
        rows = self._class_rows.astype(np.float64)
        classes, found = self._by_class(renderer, means, wanted, rows)
        parts = iter(np.nan_to_num(found[:, 1:], nan=0.0).T)
        if next(parts).any():
            raise NeedsRows("an estimator refuses some of the values")
        for _ in complete:
            if (next(parts) != rows).any():
                raise _changed()
        centers = dict(zip(renderer.deviations, parts, strict=False))
        sums = dict(zip(distinct, parts, strict=True))
        return {
            name: block.statistics(
                ClassSums(classes, {key: sums[terms[name, key]] for key in block.terms}, centers)
            )
            for name, block in blocks.items()
        }

    def _distinct(self, estimator: Estimator, block: DistinctRows) -> pa.Table:
        """The statistics of a block of distinct rows."""
        merged: Accumulator[pa.Table] = Accumulator(
            estimator.merge, lambda tables: len(tables) >= _MOST_TABLES
        )
        for group in block.groups:
            rows = 0.0
            for batch in self._distinct_rows(group):
                label, count, *columns = batch.columns
                counts = count.to_numpy()
                rows += float(counts.sum())
                features = pa.RecordBatch.from_arrays(columns, names=list(group))
                merged.add(estimator.summarize(Rows(features), self._labels(label), counts))
            if rows != self._class_rows.sum():
                raise _changed()
        return merged.result()

    def _distinct_rows(self, group: Sequence[str]) -> Iterator[pa.RecordBatch]:
        renderer = _RowRenderer(self._dialect, self._schema)
        names = [renderer.columns.add("r", self._read_as(name), 0).text for name in group]
        keys = ", ".join(["g", *names])
        query = (
            f"{self._with(renderer, [])}\nSELECT g, {self._as_double('COUNT(*)')} AS n, "
            f"{', '.join(names)} FROM pc_values GROUP BY {keys}"
        )
        schema = pa.schema(
            [
                self._schema.field(self._spec.label),
                ("n", pa.float64()),
                *(self._schema.field(name) for name in group),
            ]
        )
        return iter(self._database.batches(query, schema, batch_rows(len(schema))))


class _RowRenderer(Renderer):
    """Renders expressions of rows, whose class is a column.

    Args:
        dialect: dialect to write.
        schema: columns of the source.
        complete: columns without nulls.

    Attributes:
        deviations: columns whose mean in the class is needed, with their name in the query.
        numbers: columns that are read as numbers.
    """

    def __init__(self, dialect: Dialect, schema: pa.Schema, complete: Iterable[str] = ()) -> None:
        super().__init__(dialect, schema, "t")
        self.deviations: dict[str, str] = {}
        self.numbers: set[str] = set()
        self._complete_columns = set(complete)

    def number(self, name: str) -> Sql:
        self.numbers.add(name)
        return super().number(name)

    def condition(self, condition: Condition, at: int) -> Sql | bool:
        if isinstance(condition, IsNull) and isinstance(condition.argument, Column):
            name = condition.argument.name
            self.numbers.add(name)
            if name in self._complete_columns:
                return False
        return super().condition(condition, at)

    def _compute(self, expression: Expression, at: int) -> Sql:
        if not isinstance(expression, Deviation):
            return super()._compute(expression, at)
        column = self.number(expression.column).text
        self.deviations[expression.column] = column
        text = f"{column} - m_{column}"
        if self.dialect.raises:
            literal = self.dialect.literal
            text = f"CASE WHEN ABS({text}) < {literal(_TINY)} THEN {literal(0.0)} ELSE {text} END"
        return self.columns.add("d", text, 1)


def _describes_summarize(estimator: type) -> bool:
    """Whether no subclass has another ``summarize`` than the one that ``aggregates`` is about."""
    order = estimator.__mro__
    summarize, aggregates = (
        next(place for place, kind in enumerate(order) if name in vars(kind))
        for name in ("summarize", "aggregates")
    )
    return aggregates <= summarize


def _changed() -> DataError:
    return DataError(
        "the table changed while its statistics were computed; run the training again, or in a "
        "transaction with a snapshot, such as REPEATABLE READ."
    )
