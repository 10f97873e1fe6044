"""The effect of one column: its distribution in each class, and each class given its value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.distributions.reading import null_share, read_column, training_ends
from probclass_core.analysis.evaluation import true_classes
from probclass_core.arguments import checked_number
from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    as_table,
    check_columns,
    one_batch,
)
from probclass_core.arrow.parts import select, source_columns
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError, SpecError
from probclass_core.estimation.marginals import Curve, Levels
from probclass_core.model.model import Model
from probclass_core.model.posterior import log_of, normalize
from probclass_core.plots.style import (
    GREY,
    INK,
    axis_label,
    blank_figure,
    class_style,
    legend_beside,
    plain_axes,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID = 801
_LEVEL = 1e-3
"""Curves are drawn down to about this fraction of their peak."""
_UNBOUNDED = 300.0
"""Log densities above this, as at a value that K points share, count as infinite; in nats."""
_MIN_BARS, _MAX_BARS = 10, 60
_MARGIN = 0.02
_LOWEST_STEP = 0.01
_MISSING = "missing"
_SLACK = 1.3
"""How much farther than a normal density another one may reach down to a fraction of its peak."""
_BEYOND = 0.25
"""What is drawn beyond the training rows if the mean is unknown, as a part of their range."""


def effect(model: Model, column: str, *, data: Any = None, most: int = 15) -> Figure:
    """Plot what a column says about the class: p(x | class), and P(class | x) next to it.

    P(class | x) is Bayes' rule for this column alone, P(class) p(x | class) divided by the sum over
    the classes: what the model knows of the class after it has seen x and no other column. Dotted
    lines are the prior P(class). Block weights, a calibration and other columns are left out.

    p(x | class) is read from the block that models the column by itself if there is one, otherwise
    from a joint block, whose other columns are summed out. It has the form that the block gives it:

    - numbers with a density are curves, over the range of the training rows; counts are
      probabilities of whole numbers. A class with a single value (a point mass) is a vertical line,
      and an infinite density (neighbors that coincide) is a gap.
    - numbers in bins are steps of height P(bin | class) divided by the width of the bin; bars of
      P(bin | class) if some bins are so narrow that the steps of the others could not be seen.
    - categories, terms of a text, presence and absence are bars.
    - null, if the model has it as a level, is the last bar, ``missing``; of numbers the legend has
      its probability in each class.

    A column that other columns are given and that no block models has the frequencies of its values
    in the training rows of each class.

    Args:
        model: fitted model.
        column: column that the model reads, or a part of a date, such as ``"hour(pickup)"``.
        data: table or frame to show as histograms on the scale of the curves, one per class, or a
            single one if it has no label column; for a column of numbers.
        most: maximum number of categories to plot, those that contribute most to the mutual
            information of column and class; the others are summed.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: if the model does not read the column, or `most` is less than 1.
        DataError: if the data's column is missing, not numeric or infinite.
        NotSupportedError: if matplotlib is not installed, or neither the mean of a density nor the
            range of the training rows is known.
    """
    checked_number("most", most, 1)
    if (found := read_column(model, column)) is None:
        raise NotSupportedError(
            f"the model has no distribution of column {column!r}: training saw no value of it, or "
            "its estimator does not describe it."
        )
    own, missing = found[1], null_share(model, column)
    if isinstance(own, Curve):
        return _draw_numbers(model, column, own, missing, data)
    levels = own.without_missing()
    # Several bins of numbers, and not only absence and presence.
    if levels.cuts is not None and len(levels.names) > 1 and not levels.is_presence:
        bins = BinCurve.of(model, column, levels)
        if data is not None or _is_legible(bins):
            return _draw_numbers(model, column, bins, missing, data)
    if data is not None:
        raise SpecError(f"column {column!r} has categories; data is for a column of numbers.")
    return _draw_categories(model, column, levels, missing, most)


# Numbers: curves or steps over a common axis, the classes in front of each other.


@dataclass(frozen=True, kw_only=True)
class BinCurve(Curve):
    """The density of bins of numbers, constant in each.

    Attributes:
        corners: both ends of each bin, ascending, ``(2 m,)``; the outer ones are the range of the
            training rows.
    """

    corners: FloatArray

    @classmethod
    def of(cls, model: Model, column: str, levels: Levels) -> BinCurve:
        """The bins of a column whose levels have cuts and do not include null."""
        cuts: list[float] = [] if levels.cuts is None else levels.cuts.tolist()
        low, high = training_ends(model, column=column) or (None, None)
        # Of an unknown range, the outer bins are as wide as the others on average.
        first, last = (cuts[0], cuts[-1]) if cuts else (0.0, 0.0)
        width = (last - first) / max(len(cuts) - 1, 1) or max(0.5, 0.5 * abs(first))
        low = low if low is not None and (low < first or not cuts) else first - width
        high = high if high is not None and (high > last or not cuts) else last + width
        edges = np.array([low, *cuts, max(high, np.nextafter(low, np.inf))])
        logs = log_of(levels.probability / np.diff(edges)[:, None])

        def log_density(values: FloatArray) -> FloatArray:
            place = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(logs) - 1)
            outside = (values < edges[0]) | (values > edges[-1])
            found = np.where(outside[:, None], -np.inf, logs[place])
            return np.where(np.isnan(values)[:, None], 0.0, found)

        ends = np.nextafter(edges[1:-1], -np.inf)  # a bin includes its lower end only
        corners = np.stack([edges[:-1], np.append(ends, edges[-1])], axis=1).ravel()
        return cls(log_density, low=float(edges[0]), high=float(edges[-1]), corners=corners)


def class_points(
    model: Model, column: str, curve: Curve, position: int, level: float, size: int
) -> FloatArray | None:
    """Ascending points where a class has most of its density.

    They reach from the mean as far as a normal density falls to a fraction of its peak, and
    somewhat farther. If the mean is unknown, they cover the training rows.

    Args:
        model: the model.
        column: one of its columns of numbers.
        curve: the curve of the column.
        position: position of the class.
        level: the fraction of the peak.
        size: number of points; fewer for whole numbers and bins.

    Returns:
        The points; None if the class has no density: no value, or a single one.

    Raises:
        NotSupportedError: if neither the mean nor the range of the training rows is known.
    """
    if isinstance(curve, BinCurve):
        return curve.corners
    mean, variance, ends = curve.mean, curve.variance, training_ends(model, column=column)
    if variance is not None and not variance[position] > 0.0:
        return None
    if mean is not None and variance is not None and np.isfinite(variance[position]):
        reach = _SLACK * math.sqrt(-2.0 * math.log(level) * variance[position])
        low, high = mean[position] - reach, mean[position] + reach
    elif ends is not None:
        margin = _BEYOND * (ends[1] - ends[0]) or 0.5
        low, high = ends[0] - margin, ends[1] + margin
    else:
        raise NotSupportedError(
            f"the model knows neither the mean nor the range of column {column!r}, so that its "
            "density cannot be plotted."
        )
    points = np.linspace(max(low, curve.low), min(high, curve.high), size)
    return np.unique(np.round(points)) if curve.whole else points


def _draw_numbers(
    model: Model, column: str, curve: Curve, missing: FloatArray | None, data: Any
) -> Figure:
    figure = blank_figure(8.0, 5.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    shown = [*(training_ends(model, column=column) or ())]
    if data is not None:
        (values,), codes = rows_by_class(model, data, [column])
        shown = [*shown, values.min(), values.max()]
        _draw_histograms(upper, model, values, codes)
    _draw_curves(upper, lower, model, column, curve, missing, shown)
    if shown and min(shown) < max(shown):
        margin = _MARGIN * (max(shown) - min(shown))
        lower.set_xlim(min(shown) - margin, max(shown) + margin)
    upper.set_ylim(bottom=0.0)
    upper.set_ylabel("probability" if curve.whole else "density")
    lower.set_ylim(0.0, 1.0)
    lower.set_ylabel("probability")
    lower.set_xlabel(axis_label(column))
    for position, prior in enumerate(np.exp(model.log_prior)):
        color = class_style(position).color
        lower.axhline(prior, color=color, lw=1.0, ls=":", label="_prior")
    note = "" if data is None else "; filled: the data"
    _finish(figure, upper, lower, model, column, "P" if curve.whole else "p", note)
    return figure


def _is_legible(bins: BinCurve) -> bool:
    """Whether the lowest bin can be seen next to the highest one, on one scale."""
    heights = bins.log_density(bins.corners).max(axis=1)
    return bool(heights.min() > math.log(_LOWEST_STEP) + heights.max())


def _draw_curves(
    upper: Axes,
    lower: Axes,
    model: Model,
    column: str,
    curve: Curve,
    missing: FloatArray | None,
    shown: list[float],
) -> None:
    is_curve = not isinstance(curve, BinCurve)
    points = np.linspace(min(shown), max(shown), _GRID) if shown and is_curve else np.empty(0)
    for position, name in enumerate(model.class_names):
        line = _line(position)
        label = short(name) + ("" if missing is None else f": {missing[position]:.1%} missing")
        own = class_points(model, column, curve, position, _LEVEL, _GRID)
        if own is not None:
            logs = curve.log_density(own)[:, position]
            density = np.where(logs > _UNBOUNDED, np.nan, np.exp(np.minimum(logs, _UNBOUNDED)))
            marker = class_style(position).marker if curve.whole else ""
            upper.plot(own, density, marker=marker, markersize=4, label=label, **line)
            points = np.union1d(points, own)
        elif curve.mean is not None:
            upper.axvline(curve.mean[position], label=label, **line)
    points = np.unique(np.round(points)) if curve.whole else points
    logs = np.minimum(curve.log_density(points), _UNBOUNDED)
    if missing is not None:
        logs = logs + log_of(1.0 - missing)
    for position, share in enumerate(_shares(model, logs).T):
        lower.plot(points, share, label="_class", **_line(position))


def rows_by_class(
    model: Model, data: Any, columns: Sequence[str]
) -> tuple[list[FloatArray], IntArray]:
    """Numeric features of a table and the class of each row; rows with a null are left out.

    Args:
        model: model whose classes and label column apply.
        data: table or frame; see `arrays.as_table`. The label column may be missing.
        columns: ``d`` numeric features.

    Returns:
        ``d`` arrays ``(n,)``, and class positions ``(n,)``, `MISSING` if the class is unknown.

    Raises:
        DataError: if a column is missing, not numeric or infinite, or every row has a null.
    """
    table = as_table(data)
    sources = table.select(source_columns(table.schema, columns))
    features = Rows(select(_one_batch(sources), columns, model.time_zones))
    values = [features.numbers(name) for name in columns]
    label = model.spec.label
    codes = np.full(table.num_rows, MISSING, dtype=np.intp)
    if label is not None and label in table.schema.names:
        check_columns(table.schema, [label])
        codes, _ = true_classes(model, _one_batch(table.select([label])))
    complete = ~np.any([np.isnan(column) for column in values], axis=0)
    if not complete.any():
        raise DataError(f"no row of the data has a value in {' and '.join(map(repr, columns))}.")
    return [column[complete] for column in values], codes[complete]


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return one_batch(rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)])


def _draw_histograms(axes: Axes, model: Model, values: FloatArray, codes: IntArray) -> None:
    edges = _bar_edges(values)
    labeled = codes != MISSING
    if not labeled.any():
        heights = np.histogram(values, edges, density=True)[0]
        axes.stairs(heights, edges, fill=True, color=GREY, alpha=0.4, label="all rows")
        return
    for position in range(len(model.class_names)):
        class_values = values[codes == position]
        if len(class_values):
            heights = np.histogram(class_values, edges, density=True)[0]
            axes.stairs(heights, edges, fill=True, color=class_style(position).color, alpha=0.25)


def _bar_edges(values: FloatArray) -> FloatArray:
    """Edges of about √n bars; for whole numbers, every bar covers equally many of them."""
    low, high = values.min(), values.max()
    bars = int(np.clip(np.sqrt(len(values)), _MIN_BARS, _MAX_BARS))
    if low < high and max(-low, high) < 2.0**52 and np.all(values == np.round(values)):
        step = max(1.0, np.ceil((high - low + 1.0) / bars))
        return np.arange(low - 0.5, high + step, step)
    return np.histogram_bin_edges(values, bars)


# Categories: bars side by side in each class, and stacked bars of the classes.


def _draw_categories(
    model: Model, column: str, levels: Levels, missing: FloatArray | None, most: int
) -> Figure:
    names, probability = _chosen_levels(model, column, levels, missing, most)
    classes, shares = len(model.classes), _shares(model, log_of(probability))
    figure = blank_figure(9.0, 1.3 + len(names) * (0.14 + np.clip(0.11 * classes, 0.2, 1.1)))
    left, right = figure.subplots(1, 2, sharey=True)
    place = np.arange(len(names))
    height = 0.8 / classes
    start = np.zeros(len(names))
    for position, name in enumerate(model.class_names):
        bar = {**class_style(position).bar, "linewidth": 0.5}
        y = place - 0.4 + (position + 0.5) * height
        left.barh(y, probability[:, position], height, label=short(name), **bar)
        right.barh(place, shares[:, position], 0.8, left=start, **bar)
        start = start + shares[:, position]
    for edge in np.cumsum(np.exp(model.log_prior))[:-1]:
        right.axvline(edge, color=INK, lw=1.2, ls=":")
    left.set_yticks(place, names)
    left.set_ylim(len(names) - 0.5, -0.5)
    left.set_xlim(left=0.0)
    right.set_xlim(0.0, 1.0)
    for axes in (left, right):
        axes.set_xlabel("probability")
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=5)
    left.set_ylabel(axis_label(column))
    _finish(figure, left, right, model, column, "P")
    return figure


def _chosen_levels(
    model: Model, column: str, levels: Levels, missing: FloatArray | None, most: int
) -> tuple[list[str], FloatArray]:
    """Names and P(value | class) of the levels to draw: the others are summed, null comes last."""
    from scipy.special import rel_entr  # takes time to import

    names = [short(str(name)) for name in levels.names]
    probability = levels.probability
    if all(name.lstrip("-").isdigit() for name in names):
        order = np.argsort([float(name) for name in names], kind="stable")
        names, probability = [names[index] for index in order], probability[order]
    if missing is not None:
        probability = probability * (1.0 - missing)
    if len(names) > most:
        prior = np.exp(model.log_prior)
        joint = probability * prior
        # The contribution of each category to the mutual information with the class.
        information = rel_entr(joint, joint.sum(axis=1, keepdims=True) * prior).sum(axis=1)
        chosen = np.sort(np.argsort(-information, kind="stable")[:most])
        others = np.delete(np.arange(len(names)), chosen)
        rest = probability[others].sum(axis=0, keepdims=True)
        names = [*(names[index] for index in chosen), f"{len(others):,} others"]
        probability = np.concatenate([probability[chosen], rest])
    if missing is not None:
        names, probability = [*names, _MISSING], np.concatenate([probability, missing[None]])
    return names, probability


def _shares(model: Model, log_likelihood: FloatArray) -> FloatArray:
    """P(class | x) from log p(x | class), ``(n, k)``: the prior where every class is impossible."""
    return normalize(log_likelihood + model.log_prior, model.log_prior).probability


def _line(position: int) -> dict[str, Any]:
    """The line of a class."""
    style = class_style(position)
    return {"color": style.color, "ls": style.dashes}


def _finish(
    figure: Figure,
    of_values: Axes,
    of_classes: Axes,
    model: Model,
    column: str,
    symbol: str,
    note: str = "",
) -> None:
    from matplotlib.lines import Line2D

    name, label = short(column), short(model.spec.label or "class")
    plain_axes(of_values, f"In each class: {symbol}({name} | {label}){note}")
    plain_axes(of_classes, f"For each value: P({label} | {name})")
    prior = Line2D([], [], color=INK, ls=":", lw=1.2, label="prior")
    legend_beside(figure, of_values, axis_label(label), prior)
