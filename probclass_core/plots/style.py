"""The common style of plots: distinguishable colors, markers and lines, short names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from probclass_core.arrow.arrays import IntArray
from probclass_core.errors import NotSupportedError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Dashes = str | tuple[float, tuple[float, ...]]

LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
"""Colors of lines and markers, after Okabe and Ito (2008): distinguishable with every common kind
of color vision; dark ones first, without their yellow."""

GREY, INK = "#999999", "#222222"

HATCHES = ("", "//", "..", "xx")
_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
_DASHES: tuple[Dashes, ...] = (
    "-",
    (0, (6, 2)),
    (0, (6, 2, 1.5, 2)),
    (0, (1.5, 1.5)),
    (0, (3, 1.5, 3, 5)),
)

_MAX_POINTS = 5_000
"""Maximum number of rows plotted as points; larger tables are sampled."""

_MAX_NAME_LENGTH, _MAX_LABEL_LENGTH, _NAMES_PER_COLUMN = 28, 60, 12


@dataclass(frozen=True)
class ClassStyle:
    """The style of a class: color, marker and line all differ from those of its neighbors."""

    color: str
    marker: str
    dashes: Dashes
    hatch: str

    @property
    def bar(self) -> dict[str, Any]:
        """Arguments of matplotlib's bars."""
        return {"color": self.color, "hatch": self.hatch, "edgecolor": "white"}


def class_style(position: int) -> ClassStyle:
    """The style of the class at a position; the first 280 differ."""
    return ClassStyle(
        LINES[position % len(LINES)],
        _MARKERS[position % len(_MARKERS)],
        _DASHES[position % len(_DASHES)],
        HATCHES[position // len(LINES) % len(HATCHES)],
    )


def blank_figure(width: float, height: float) -> Figure:
    """An empty figure with constrained layout that shows itself; width and height in inches.

    Raises:
        NotSupportedError: if matplotlib is not installed.
    """
    try:
        from probclass_core.plots.figure import Figure
    except ImportError as error:
        raise NotSupportedError("plots need matplotlib: pip install 'probclass[plots]'.") from error
    return Figure(figsize=(width, height), layout="constrained")


def plain_axes(axes: Axes, title: str) -> None:
    """Remove the top and right spines and set the title at the left."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def legend_beside(figure: Figure, axes: Axes, title: str | None = None, *others: Artist) -> None:
    """Add the legend of the axes at their right, followed by other artists with labels."""
    handles, names = axes.get_legend_handles_labels()
    names += [str(other.get_label()) for other in others]
    figure.set_figwidth(max(figure.get_figwidth(), least_width(names)))
    figure.legend(
        [*handles, *others],
        names,
        loc="outside right upper",
        frameon=False,
        title=title,
        handlelength=3.0,
        fontsize=10 if len(names) <= _NAMES_PER_COLUMN else 8,
        ncols=_legend_columns(names),
    )


def least_width(names: Sequence[str]) -> float:
    """Inches that a figure with these names in its legend needs, so that its axes have room."""
    return 3.9 + _legend_columns(names) * (0.5 + 0.08 * max(map(len, names), default=0))


def _legend_columns(names: Sequence[str]) -> int:
    return 1 + (len(names) - 1) // (2 * _NAMES_PER_COLUMN)


def axis_label(column: str) -> str:
    """The axis label of a column."""
    return short(column.replace("_", " "), _MAX_LABEL_LENGTH)


def short(name: str, max_length: int = _MAX_NAME_LENGTH) -> str:
    """A name as text of a plot; a very long one loses its middle, as long names differ at the ends.

    Dollar signs are escaped, so that they do not start a formula.
    """
    if len(name) > max_length:
        half = max_length // 2
        name = f"{name[: half - 1]}…{name[-half:]}"
    return re.sub(r"\\?\$", r"\\$", name)


def few_names(names: Sequence[str]) -> str:
    """Names of columns on one line: ``age and 7 more``."""
    return ", ".join(names) if len(names) <= 2 else f"{names[0]} and {len(names) - 1} more"


def sample(rows: int) -> IntArray:
    """Positions of at most 5,000 of the rows, drawn at random, the same ones each time."""
    if rows <= _MAX_POINTS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, _MAX_POINTS, replace=False))
