"""Parameter tables as people read them: a row per column or value, a column per class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from probclass_airflow.ui.shown import brief, number, plain, share

_MOST_ROWS, _MOST_CLASSES, _MOST_GRIDS = 24, 12, 40


@dataclass(frozen=True)
class Cell:
    """Text, a smaller text beside it, and a bar from 0 to 1 below it where that says something."""

    text: str
    aside: str = ""
    bar: float | None = None


@dataclass(frozen=True)
class Grid:
    """A table to be shown.

    Attributes:
        title: what it is of; empty for a block as a whole.
        head: names of the columns.
        rows: a name, then a cell for each further column.
        more: what is not shown, in words; empty where all is.
    """

    title: str
    head: list[str]
    rows: list[tuple[str, list[Cell]]]
    more: str = ""


def grids(block: dict[str, Any], table: pa.Table, classes: Sequence[Any]) -> list[Grid]:
    """What a block's parameters say, told by the columns of their table.

    Args:
        block: of the spec, as a dict.
        table: its parameters.
        classes: the model's classes, the largest first.
    """
    held = set(table.column_names)
    shown = classes[:_MOST_CLASSES]
    beyond = _beyond(len(classes) - len(shown), "classes")
    if {"feature", "mean", "variance"} <= held:
        cells = {
            (row["feature"], row["class"]): _normal(row["mean"], row["variance"])
            for row in table.to_pylist()
        }
        return [_pivot("", block["columns"], shown, cells, beyond)]
    if {"mean", "covariance"} <= held:
        return _covariances(block, table, shown, beyond)
    if {"feature", "rate"} <= held:
        cells = {
            (row["feature"], row["class"]): Cell(number(row["rate"]), "a row")
            for row in table.to_pylist()
        }
        return [_pivot("", block["columns"], shown, cells, beyond)]
    if {"feature", "log_probability"} <= held:
        return _masses(table, shown, beyond)
    return [_raw(table)]


def _normal(mean: float, variance: float) -> Cell:
    return Cell(number(mean), f"± {number(math.sqrt(variance))}")


def _covariances(
    block: dict[str, Any], table: pa.Table, classes: Sequence[Any], beyond: str
) -> list[Grid]:
    columns = block["columns"]
    tensors = table["covariance"].combine_chunks().to_numpy_ndarray()
    cells, correlations = {}, []
    for name, mean, covariance in zip(
        table["class"].to_pylist(), table["mean"].to_pylist(), tensors, strict=True
    ):
        spread = [math.sqrt(max(variance, 0.0)) for variance in covariance.diagonal()]
        for at, column in enumerate(columns):
            cells[column, name] = _normal(mean[at], covariance[at, at])
        if name in classes and 1 < len(columns) <= _MOST_CLASSES:
            rows = []
            for i, column in enumerate(columns[1:], 1):
                told = [_correlation(covariance[i, j], spread[i] * spread[j]) for j in range(i)]
                rows.append((column, told + [Cell("")] * (len(columns) - 1 - i)))
            correlations.append(Grid(f"Correlations in {name}", ["", *columns[:-1]], rows))
    return [_pivot("", columns, classes, cells, beyond), *correlations]


def _correlation(covariance: float, scale: float) -> Cell:
    if scale <= 0.0:
        return Cell("–")
    r = float(covariance / scale)
    return Cell(f"{r:+.2f}".replace("-", "−"), bar=abs(r))


def _masses(table: pa.Table, classes: Sequence[Any], beyond: str) -> list[Grid]:
    """One grid for each column that has values or bins; terms stand in one grid together."""
    held = set(table.column_names)
    found: dict[str, dict[tuple[str, Any], float]] = {}
    for row in table.to_pylist():
        if "value" in held:
            title, name = row["feature"], plain(row["value"])
        elif {"lower", "upper"} <= held:
            title, name = row["feature"], _bin(row["lower"], row["upper"])
        else:
            title, name = "", row["feature"]
        log_probability = row["log_probability"]
        found.setdefault(title, {})[name, row["class"]] = math.exp(log_probability)
    grids = []
    for title, masses in list(found.items())[:_MOST_GRIDS]:
        names = list(dict.fromkeys(name for name, _ in masses))
        if len(names) > _MOST_ROWS and not {"lower", "upper"} <= held:
            largest = {name: max(masses.get((name, c), 0.0) for c in classes) for name in names}
            names.sort(key=lambda name: -largest[name])
        elif all(name.lstrip("-").isdecimal() for name in names):
            names.sort(key=int)
        most = max(masses.values()) or 1.0
        cells = {key: Cell(share(p), bar=p / most) for key, p in masses.items()}
        grids.append(_pivot(title, names, classes, cells, beyond))
    if len(found) > _MOST_GRIDS:
        rest = _beyond(len(found) - _MOST_GRIDS, "columns")
        grids.append(Grid("", [], [], rest))
    return grids


def _bin(lower: float, upper: float) -> str:
    if math.isinf(lower):
        return "any" if math.isinf(upper) else f"below {number(upper)}"
    if math.isinf(upper):
        return f"from {number(lower)}"
    return f"{number(lower)} to {number(upper)}"


def _pivot(
    title: str,
    names: Sequence[str],
    classes: Sequence[Any],
    cells: dict[tuple[str, Any], Cell],
    beyond: str,
) -> Grid:
    none = Cell("–")
    rows = [
        (name, [cells.get((name, each), none) for each in classes]) for name in names[:_MOST_ROWS]
    ]
    rest = [_beyond(len(names) - len(rows), "rows"), beyond]
    head = ["", *(plain(each) for each in classes)]
    return Grid(title, head, rows, ", ".join(filter(None, rest)))


def _raw(table: pa.Table) -> Grid:
    """The first rows as they are: of an estimator whose parameters are like no other's."""
    head = table.column_names
    rows = []
    for row in table.slice(0, _MOST_ROWS).to_pylist():
        first, *rest = (brief(plain(row[name])) for name in head)
        rows.append((first, [Cell(text) for text in rest]))
    return Grid("", list(head), rows, _beyond(table.num_rows - len(rows), "rows"))


def _beyond(count: int, what: str) -> str:
    return f"{count:,} more {what}" if count > 0 else ""
