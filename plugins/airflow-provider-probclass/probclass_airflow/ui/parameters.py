"""Parameter tables as grids: a row per column or value, a column per class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from probclass_airflow.ui.formatting import as_text, number, percent, shorten

_MAX_ROWS, _MAX_CLASSES, _MAX_GRIDS = 24, 12, 40


@dataclass(frozen=True)
class Cell:
    """A cell of a grid.

    Attributes:
        text: the value.
        aside: smaller text after it, or empty.
        bar: length of a bar below it, from 0 to 1, or None for no bar.
    """

    text: str
    aside: str = ""
    bar: float | None = None


@dataclass(frozen=True)
class Grid:
    """A table of a page.

    Attributes:
        title: title of the table; empty for the table of a whole block.
        head: names of the columns.
        rows: for each row its name and a cell for each further column.
        more: number of omitted rows and classes, in words; empty if the table is complete.
    """

    title: str
    head: list[str]
    rows: list[tuple[str, list[Cell]]]
    more: str = ""


def grids(block: Mapping[str, Any], table: pa.Table, classes: Sequence[Any]) -> list[Grid]:
    """The parameters of a block, laid out by the columns of their table.

    Args:
        block: the block of the spec, as a dict.
        table: its parameters.
        classes: the model's classes, largest first.
    """
    names = set(table.column_names)
    shown = classes[:_MAX_CLASSES]
    more = _more(len(classes) - len(shown), "classes")
    if {"feature", "mean", "variance"} <= names:
        cells = {
            (row["feature"], row["class"]): _normal(row["mean"], row["variance"])
            for row in table.to_pylist()
        }
        return [_pivot("", block["columns"], shown, cells, more)]
    if {"mean", "covariance"} <= names:
        return _covariances(block, table, shown, more)
    if {"feature", "rate"} <= names:
        cells = {
            (row["feature"], row["class"]): Cell(number(row["rate"]), "per row")
            for row in table.to_pylist()
        }
        return [_pivot("", block["columns"], shown, cells, more)]
    if {"feature", "log_probability"} <= names:
        return _probabilities(table, shown, more)
    return [_raw(table)]


def _normal(mean: float, variance: float) -> Cell:
    return Cell(number(mean), f"± {number(math.sqrt(variance))}")


def _covariances(
    block: Mapping[str, Any], table: pa.Table, classes: Sequence[Any], more: str
) -> list[Grid]:
    columns = block["columns"]
    tensors = table["covariance"].combine_chunks().to_numpy_ndarray()
    cells, correlations = {}, []
    for name, mean, covariance in zip(
        table["class"].to_pylist(), table["mean"].to_pylist(), tensors, strict=True
    ):
        sd = [math.sqrt(max(variance, 0.0)) for variance in covariance.diagonal()]
        for position, column in enumerate(columns):
            cells[column, name] = _normal(mean[position], covariance[position, position])
        if name in classes and 1 < len(columns) <= _MAX_CLASSES:
            rows = []
            for i, column in enumerate(columns[1:], 1):
                lower = [_correlation(covariance[i, j], sd[i] * sd[j]) for j in range(i)]
                rows.append((column, lower + [Cell("")] * (len(columns) - 1 - i)))
            correlations.append(Grid(f"Correlations in {name}", ["", *columns[:-1]], rows))
    return [_pivot("", columns, classes, cells, more), *correlations]


def _correlation(covariance: float, scale: float) -> Cell:
    if scale <= 0.0:
        return Cell("–")
    r = float(covariance / scale)
    return Cell(f"{r:+.2f}".replace("-", "−"), bar=abs(r))


def _probabilities(table: pa.Table, classes: Sequence[Any], more: str) -> list[Grid]:
    """A grid for each column that has values or bins; all terms in one grid."""
    names = set(table.column_names)
    has_bins = {"lower", "upper"} <= names
    if "depth" in names:  # given other columns: the estimates that use all of them
        table = table.filter(pc.equal(table["depth"], pc.max(table["depth"])))
    by_title: dict[str, dict[tuple[str, Any], float]] = {}
    for row in table.to_pylist():
        if "value" in names:
            title, value = row["feature"], _value(row["value"])
            given = [_value(row[name]) for name in table.column_names if name.startswith("given ")]
            value += f" given {', '.join(given)}" if given else ""
        elif has_bins:
            title, value = row["feature"], _bin(row["lower"], row["upper"])
        else:
            title, value = "", row["feature"]
        by_title.setdefault(title, {})[value, row["class"]] = math.exp(row["log_probability"])
    grids = []
    for title, probabilities in list(by_title.items())[:_MAX_GRIDS]:
        values = list(dict.fromkeys(value for value, _ in probabilities))
        if len(values) > _MAX_ROWS and not has_bins:
            highest = {v: max(probabilities.get((v, c), 0.0) for c in classes) for v in values}
            values.sort(key=lambda value: -highest[value])
        elif all(value.lstrip("-").isdecimal() for value in values):
            values.sort(key=int)
        scale = max(probabilities.values()) or 1.0
        cells = {key: Cell(percent(p), bar=p / scale) for key, p in probabilities.items()}
        grids.append(_pivot(title, values, classes, cells, more))
    if len(by_title) > _MAX_GRIDS:
        grids.append(Grid("", [], [], _more(len(by_title) - _MAX_GRIDS, "columns")))
    return grids


def _value(value: Any) -> str:
    """A category as text; null is a value of its own."""
    return "missing" if value is None else as_text(value)


def _bin(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return "missing"
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
    more_classes: str,
) -> Grid:
    missing = Cell("–")
    rows = [
        (name, [cells.get((name, label), missing) for label in classes])
        for name in names[:_MAX_ROWS]
    ]
    more = [_more(len(names) - len(rows), "rows"), more_classes]
    head = ["", *(as_text(label) for label in classes)]
    return Grid(title, head, rows, ", ".join(filter(None, more)))


def _raw(table: pa.Table) -> Grid:
    """The first rows as they are, for an estimator whose parameters have no layout of their own."""
    head = table.column_names
    rows = []
    for row in table.slice(0, _MAX_ROWS).to_pylist():
        first, *others = (shorten(as_text(row[name])) for name in head)
        rows.append((first, [Cell(text) for text in others]))
    return Grid("", list(head), rows, _more(table.num_rows - len(rows), "rows"))


def _more(count: int, noun: str) -> str:
    return f"{count:,} more {noun}" if count > 0 else ""
