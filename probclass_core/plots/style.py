"""What the pictures share: colors, markers and lines that are told apart, axes with units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probclass_core.arrow.arrays import IntArray
from probclass_core.errors import NotSupportedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Dashes = str | tuple[float, tuple[float, ...]]

AREAS = (
    # Okabe & Ito (2008): told apart with every common kind of color vision.
    "#56b4e9",
    "#e69f00",
    "#d55e00",
    "#009e73",
    "#0072b2",
    "#cc79a7",
    "#f0e442",
    "#999999",
)
"""Fills of areas, class by class."""

LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
"""Thin lines and small markers: the same palette, its dark ones first, and without the yellow."""

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

MOST_POINTS = 5_000
"""Rows drawn as points; of more, as many drawn by lot."""

_UNITS = {
    **{
        unit.lower(): unit
        for unit in ("mm", "cm", "m", "km", "mg", "g", "kg", "ms", "s", "min", "h")
    },
    **{unit.lower(): unit for unit in ("Pa", "hPa", "kPa", "kW", "MW", "kWh", "USD", "EUR")},
    "pct": "%",
    "percent": "%",
    "deg": "°",
    "celsius": "°C",
    "mps": "m/s",
}
_LONGEST_NAME, _LONGEST_LABEL, _MOST_NAMES = 28, 60, 12


@dataclass(frozen=True)
class ClassStyle:
    """How a class looks: color, marker and line all differ from those of its neighbors."""

    color: str
    marker: str
    dashes: Dashes
    hatch: str


def class_style(place: int) -> ClassStyle:
    """The look of the class at this place; 280 of them differ."""
    return ClassStyle(
        LINES[place % len(LINES)],
        _MARKERS[place % len(_MARKERS)],
        _DASHES[place % len(_DASHES)],
        HATCHES[place // len(LINES) % len(HATCHES)],
    )


def blank_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches whose parts make room for one another.

    Raises:
        NotSupportedError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotSupportedError("plots need matplotlib: pip install 'probclass[plots]'.") from error
    return Figure(figsize=(width, height), layout="constrained")


def plain_axes(axes: Axes, title: str) -> None:
    """Two spines, a title at the left."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def legend_beside(figure: Figure, axes: Axes, title: str | None = None) -> None:
    """A legend of what the axes hold, at the right of them."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside right upper",
        frameon=False,
        title=title,
        handlelength=3.0,
        fontsize=10 if len(names) <= _MOST_NAMES else 8,
        ncols=1 + (len(names) - 1) // (2 * _MOST_NAMES),
    )


def axis_label(column: str) -> str:
    """A column as the label of its axis, with the unit that its name ends with.

    Examples:
        >>> axis_label("body_mass_g"), axis_label("sepal_length")
        ('body mass (g)', 'sepal length')
    """
    words = column.split("_")
    unit = _UNITS.get(words[-1].lower()) if len(words) > 1 else None
    if unit is None:
        return short(" ".join(words), _LONGEST_LABEL)
    return f"{short(' '.join(words[:-1]), _LONGEST_LABEL)} ({unit})"


def short(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name as text of a picture, without its middle where it is very long.

    Long names often differ at their ends. A dollar sign is one, and begins no formula.
    """
    if len(name) > longest:
        half = longest // 2
        name = f"{name[: half - 1]}…{name[-half:]}"
    return re.sub(r"\\?\$", r"\\$", name)


def by_lot(rows: IntArray, most: int = MOST_POINTS) -> IntArray:
    """At most so many of the rows, the same ones each time."""
    if len(rows) <= most:
        return rows
    drawn = np.random.default_rng(0).choice(rows, most, replace=False)
    return np.sort(drawn)


def listed(values: Sequence[float]) -> str:
    """Coordinates for a title: ``(6.75, 4.25)``."""
    return f"({', '.join(f'{value:g}' for value in values)})"
