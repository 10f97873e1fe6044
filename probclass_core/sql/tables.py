"""Numbers of a model in tables to join, for models that are too large to write into a query.

A term of one column is computed on rows of row, term and value: the columns below each other,
joined with the numbers of each term, which has one column for each class. Terms whose formulas
differ in numbers only share a table. The terms are then added up for each row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation.formulas import (
    Categories,
    Column,
    Condition,
    Distance,
    Expression,
    IsCode,
    Lookup,
)
from probclass_core.sql.dialects import Dialect
from probclass_core.sql.render import Columns, Rendered, Renderer, Sql, by_class, nodes

_MOST_COLUMNS = 1500
"""Columns of a table; PostgreSQL allows 1,600."""

_VALUES_OF_INSERT = 20_000
"""About how many values one INSERT has."""

_UNSEEN, _NULL = -2, -1
"""Cells of values that training never saw, and of null, where categories are joined."""


_GROUP = "~"
"""Where the alias of a group's table is put in the names of its columns."""


@dataclass(frozen=True)
class Table:
    """A table of numbers.

    Attributes:
        name: quoted name.
        columns: names and types.
        rows: literals of its rows.
    """

    name: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]]

    def statements(self, dialect: Dialect) -> list[str]:
        """Statements that create and fill it; it is replaced."""
        listed = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        step = max(1, _VALUES_OF_INSERT // len(self.columns))
        values = [f"({', '.join(row)})" for row in self.rows]
        return [
            f"DROP TABLE IF EXISTS {self.name}",
            f"CREATE TABLE {self.name} ({listed}){dialect.storage}",
            *(
                f"INSERT INTO {self.name} VALUES\n" + ",\n".join(values[start : start + step])
                for start in range(0, len(values), step)
            ),
        ]


@dataclass
class _Group:
    """Terms of one block whose formulas differ in numbers only.

    Attributes:
        block: name of the block.
        texts: SQL of the terms for each class.
        columns: columns that the SQL uses besides those of the join.
        rows: numbers of each term, ``(number of columns, k)``.
        values: SQL of the value of each term.
    """

    block: str
    texts: list[str]
    columns: Columns
    rows: list[FloatArray] = field(default_factory=list)
    values: list[str] = field(default_factory=list)


class LongTerms:
    """The terms of a model that are computed on rows of row, term and value.

    Args:
        renderer: of the query; it gets the columns that the terms need.
        size: number of classes ``k``.
        name: name of the tables without its last part, in parts.
        model_id: its beginning is part of the names, so a query joins its own model's numbers.
    """

    def __init__(
        self, renderer: Renderer, size: int, name: str | Sequence[str], model_id: str
    ) -> None:
        self.renderer = renderer
        self.dialect = renderer.dialect
        self.size = size
        parts = name.split(".") if isinstance(name, str) else list(name)
        if not parts or not all(parts):
            raise SpecError(
                f"tables {name!r} is not the name of a table; give a name such as schema.model."
            )
        *self._schema, self._name = parts
        self._model_id = model_id
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._words: list[tuple[str, str, Lookup]] = []  # block, value and term
        self._cells: list[tuple[str, str, Lookup]] = []

    def take(self, block: str, term: Expression) -> bool:
        """Take a term; False if it must be written into the query, as that of several columns."""
        if isinstance(term, Lookup):
            (code, *others) = term.codes
            if isinstance(code, Categories) and not others and self.renderer.is_words(code.column):
                self._words.append((block, self.renderer.words(code.column).text, term))
            else:
                self._cells.append((block, self.renderer.cell(term).text, term))
            return True
        names = {node.name for node in nodes(term) if isinstance(node, Column)}
        if len(names) != 1 or any(isinstance(node, (Lookup, IsCode)) for node in nodes(term)):
            return False
        (name,) = names
        term_renderer = _TermRenderer(self.renderer, self.size)
        first = term_renderer.text(term, 0)
        group = self._groups.get((block, first, str(term_renderer.columns.levels)))
        if group is None:
            key = block, first, str(term_renderer.columns.levels)
            texts = [first, *(term_renderer.text(term, at) for at in range(1, self.size))]
            group = self._groups[key] = _Group(block, texts, term_renderer.columns)
        group.rows.append(np.array(term_renderer.numbers).reshape(-1, self.size))
        group.values.append(self.renderer.number(name).text)
        return True

    @property
    def is_empty(self) -> bool:
        return not (self._groups or self._words or self._cells)

    def _table_name(self, what: str) -> str:
        name = f"{self._name}_{self._model_id[:12]}_{what}"
        return ".".join(map(self.dialect.identifier, [*self._schema, name]))

    def _number(self, value: float) -> str:
        if math.isnan(value):
            raise NotSupportedError("a number of the model is NaN, which tables cannot have.")
        return self.dialect.literal(float(value))

    @functools.cached_property
    def tables(self) -> dict[str, Table]:
        """The tables by their alias in the query."""
        dialect, first, tables = self.dialect, 1, {}
        for place, group in enumerate(self._groups.values(), 1):
            width = len(group.rows[0])
            names = [f"c{at}_{c}" for at in range(1, width + 1) for c in range(1, self.size + 1)]
            tables[f"g{place}"] = Table(
                self._table_name(f"terms_{place}"),
                [("term", dialect.integer), *((name, dialect.double) for name in names)],
                [
                    [str(term), *map(self._number, numbers.ravel())]
                    for term, numbers in enumerate(group.rows, first)
                ],
            )
            first += len(group.rows)
        lookups = [*self._words, *self._cells]
        if self._words:
            tables["w"] = Table(
                self._table_name("categories"),
                [("term", dialect.integer), ("word", dialect.string), ("cell", dialect.integer)],
                [
                    [str(term), dialect.string_literal(word), str(cell)]
                    for term, (_, _, lookup) in enumerate(self._words, first)
                    for cell, word in enumerate(_categories(lookup))
                ],
            )
        if lookups:
            names = [f"v{c}" for c in range(1, self.size + 1)]
            tables["n"] = Table(
                self._table_name("cells"),
                [
                    ("term", dialect.integer),
                    ("cell", dialect.integer),
                    *((name, dialect.double) for name in names),
                ],
                [
                    [str(term), str(cell), *map(self._number, values)]
                    for term, (_, _, lookup) in enumerate(lookups, first)
                    for cell, values in self._values_of(lookup, term < first + len(self._words))
                ],
            )
        for table in tables.values():
            if len(table.columns) > _MOST_COLUMNS:
                raise NotSupportedError(
                    f"table {table.name} would have {len(table.columns):,} columns, and engines "
                    f"allow about {_MOST_COLUMNS:,}; score the model by pc.score."
                )
        return tables

    @staticmethod
    def _values_of(lookup: Lookup, is_word: bool) -> list[tuple[int, FloatArray]]:
        values = lookup.table.reshape(len(lookup.table), -1).T
        cells = list(range(len(values)))
        if is_word:
            cells[-2:] = _UNSEEN, _NULL
        return list(zip(cells, values, strict=True))

    # The query.

    def arrays(self) -> dict[str, list[str]]:
        """SQL of the values of all terms: numbers ``x``, words ``s`` and cells ``c``."""
        kinds = {
            "x": [value for group in self._groups.values() for value in group.values],
            "s": [value for _, value, _ in self._words],
            "c": [value for _, value, _ in self._cells],
        }
        total = sum(map(len, kinds.values()))
        arrays, before = {}, 0
        for name, values in kinds.items():
            if values:
                after = total - before - len(values)
                arrays[name] = ["NULL"] * before + values + ["NULL"] * after
            before += len(values)
        return arrays

    def is_complete(self) -> str:
        """Condition that the tables have all rows."""
        return " AND ".join(
            f"(SELECT COUNT(*) FROM {table.name}) = {len(table.rows)}"
            for table in self.tables.values()
        )

    def stages(
        self, source: str, kept: Sequence[str], blocks: Sequence[str]
    ) -> list[tuple[str, str]]:
        """Common table expressions from the columns of a row to the sums of its terms.

        Args:
            source: table with a column ``id`` of different numbers, and those of `arrays`.
            kept: columns that the sums come with.
            blocks: names of the blocks; sums are ``s{block}_{class}``, both from 1. One sum for all
                if it is empty.
        """
        dialect, tables = self.dialect, self.tables
        carried = ["id", *kept]
        arrays = self.arrays()
        stages = [("pc_long", dialect.explode(", ".join(carried), arrays, source))]
        last, listed = "pc_long", [f"l.{name} AS {name}" for name in [*carried, "term"]]
        if "x" in arrays:
            listed.append("l.x AS x")
        cell = "l.c"
        if "w" in tables:
            words = sum(len(group.values) for group in self._groups.values())
            joined = f"CASE WHEN l.s IS NULL THEN {_NULL} ELSE COALESCE(w.cell, {_UNSEEN}) END"
            if "c" in arrays or words:
                other = "l.c" if "c" in arrays else "NULL"
                upper = words + len(self._words)
                joined = (
                    f"CASE WHEN l.term > {words} AND l.term <= {upper} THEN {joined} "
                    f"ELSE {other} END"
                )
            columns = ", ".join([*listed, f"{joined} AS cell"])
            body = (
                f"SELECT {columns} FROM pc_long AS l "
                f"LEFT JOIN {tables['w'].name} AS w ON w.term = l.term AND w.word = l.s"
            )
            stages.append(("pc_cells", body))
            last, cell = "pc_cells", "l.cell"
        joins = []
        for alias, table in tables.items():
            if alias == "w":
                continue
            condition = f"{alias}.term = l.term"
            if alias == "n":
                condition += f" AND n.cell = {cell}"
                listed += [f"n.{name} AS {name}" for name, _ in table.columns[2:]]
            else:
                listed += [f"{alias}.{name} AS {alias}{name}" for name, _ in table.columns[1:]]
            joins.append(f"LEFT JOIN {table.name} AS {alias} ON {condition}")
        body = f"SELECT {', '.join(listed)} FROM {last} AS l {' '.join(joins)}"
        stages.append(("pc_joined", body))
        last = self._named(stages)
        sums = [
            f"SUM({self._term(at, block)}) AS s{number}_{at + 1}"
            for number, block in enumerate(blocks or [None], 1)
            for at in range(self.size)
        ]
        body = f"SELECT {', '.join([*carried, *sums])} FROM {last} GROUP BY {', '.join(carried)}"
        stages.append(("pc_terms", body))
        return stages

    def _named(self, stages: list[tuple[str, str]]) -> str:
        """Add the columns that terms use several times; the name of the last stage."""
        depth = max((len(group.columns.levels) for group in self._groups.values()), default=0)
        for level in range(depth):
            columns = [
                f"{_in_group(text, place)} AS {_in_group(name, place)}"
                for place, group in enumerate(self._groups.values(), 1)
                if level < len(group.columns.levels)
                for name, text in group.columns.levels[level].items()
            ]
            if columns:
                stages.append(
                    (f"pc_terms{level}", f"SELECT *, {', '.join(columns)} FROM {stages[-1][0]}")
                )
        return stages[-1][0]

    def _term(self, at: int, block: str | None) -> str:
        """SQL of a term of a block, or of all blocks, for the class at a position."""
        cases, last = [], 0
        for place, group in enumerate(self._groups.values(), 1):
            first, last = last + 1, last + len(group.values)
            if block in (None, group.block):
                text = _in_group(group.texts[at], place)
                cases.append((first, last, text))
        for kind in (self._words, self._cells):
            for name, _, _ in kind:
                last += 1
                if block in (None, name):
                    cases.append((last, last, f"v{at + 1}"))
        merged: list[tuple[int, int, str]] = []
        for first, last, text in cases:
            if merged and merged[-1][2] == text and merged[-1][1] == first - 1:
                merged[-1] = merged[-1][0], last, text
            else:
                merged.append((first, last, text))
        if not merged:
            return self.dialect.literal(0.0)
        if len(merged) == 1 and block is None:
            return merged[0][2]
        listed = " ".join(f"WHEN term >= {a} AND term <= {b} THEN {text}" for a, b, text in merged)
        return f"CASE {listed} ELSE {self.dialect.literal(0.0)} END"


class _TermRenderer(Renderer):
    """Renders a term of one column with its numbers as columns of a table.

    Args:
        renderer: of the query.
        size: number of classes ``k``.
    """

    def __init__(self, renderer: Renderer, size: int) -> None:
        super().__init__(renderer.dialect, pa.schema([]), "")
        self._folder = renderer
        self._size = size
        self._places: dict[int, int] = {}
        self._kept: list[object] = []  # ids stay those of these nodes
        self.numbers: list[FloatArray] = []

    def number(self, name: str) -> Sql:
        return Sql("x", 0)

    def _named(self, value: Sql) -> Sql:
        if value.text == "x" or value.text.lstrip(_GROUP).isidentifier():
            return value
        return self.columns.add(f"{_GROUP}v", value.text, value.level)

    def expression(self, expression: Expression, position: int) -> Rendered:
        if _has_columns(expression):
            return super().expression(expression, position)
        if not by_class(expression):
            return self._folder.expression(expression, position)
        values = [self._folder.expression(expression, at) for at in range(self._size)]
        return self._column(expression, np.array(values, dtype=np.float64), position)

    def condition(self, condition: Condition, at: int) -> Sql | bool:
        if _has_columns(condition):
            return super().condition(condition, at)
        values = [self._folder.condition(condition, at) for at in range(self._size)]
        column = self._column(condition, np.array(values, dtype=np.float64), at)
        return Sql(f"{column.text} = {self.dialect.literal(1.0)}", column.level)

    def _column(self, node: object, values: FloatArray, at: int) -> Sql:
        place = self._places.get(id(node))
        if place is None:
            place = self._places[id(node)] = len(self.numbers) + 1
            self._kept.append(node)
            self.numbers.append(values)
        return Sql(f"{_GROUP}c{place}_{at + 1}", 0)


def _in_group(text: str, place: int) -> str:
    return text.replace(_GROUP, f"g{place}")


def _categories(lookup: Lookup) -> Sequence[str]:
    (code,) = lookup.codes
    assert isinstance(code, Categories)
    return code.values


def _has_columns(node: Expression | Condition) -> bool:
    return any(isinstance(each, (Column, Distance, Lookup)) for each in nodes(node))
