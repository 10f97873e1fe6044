"""A scored table day by day: the mean posterior, and the observed classes for comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow.arrays import FloatArray, check_columns
from probclass_core.errors import DataError, one_of
from probclass_core.plots.style import AREAS, HATCHES, blank_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PREFIX = "p_"


def posterior_over_time(scored: pa.Table, time: str, *, label: str | None = None) -> Figure:
    """Plot the daily mean posterior as stacked areas, class by class.

    If the model is calibrated, the mean posterior of a day equals the share of each class among its
    rows; pass `label` to see the observed shares in a second panel, in the same colors.

    Args:
        scored: scored table with one ``p_<class>`` column per class, in any row order.
        time: name of its timestamp or date column.
        label: name of its column of observed classes, null if unobserved; or None.

    Returns:
        A matplotlib figure; days without rows are left blank.

    Raises:
        DataError: if a column is missing, `time` has no times, or all of them are null.
        NotSupportedError: if matplotlib is not installed.
    """
    figure = blank_figure(11.0, 3.4 * (1 if label is None else 2))
    from matplotlib import rc_context
    from matplotlib.ticker import PercentFormatter

    classes = _classes(scored)
    check_columns(scored.schema, [time] if label is None else [time, label])
    days = _days(scored[time], time)
    calendar = _calendar(days)
    panels = [("Posterior, mean of the day", [scored[_PREFIX + name] for name in classes])]
    if label is not None:
        observed = pc.cast(scored[label], pa.string())
        panels.append(
            (
                f"Observed {label}, share of the day's rows",
                [pc.equal(observed, name) for name in classes],
            )
        )

    axes: list[Axes] = list(figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0])
    for axis, (title, columns) in zip(axes, panels, strict=True):
        shares = _daily_means(days, columns, calendar)
        with rc_context({"date.converter": "concise"}):
            areas = axis.stackplot(
                calendar,
                shares,
                labels=classes,
                colors=AREAS,
                step="mid",
                linewidth=0.0,
                antialiased=False,  # otherwise each area shines through at the edge of its neighbor
            )
        for i, area in enumerate(areas):
            area.set_hatch(HATCHES[i // len(AREAS) % len(HATCHES)])
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylim(0.0, 1.0)
        axis.margins(x=0.0)
        axis.yaxis.set_major_formatter(PercentFormatter(xmax=1.0))
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("day")
    handles, names = axes[0].get_legend_handles_labels()
    # Reversed, so that the legend has the order in which the areas are stacked.
    figure.legend(
        handles[::-1], names[::-1], loc="outside right upper", frameon=False, title="class"
    )
    return figure


def _classes(scored: pa.Table) -> list[str]:
    names = scored.column_names
    if "probability" in names and "log_density" in names:
        columns = names[names.index("probability") + 1 : names.index("log_density")]
        if columns and all(name.startswith(_PREFIX) for name in columns):
            return [name[len(_PREFIX) :] for name in columns]
    raise DataError(
        f"no p_<class> columns between 'probability' and 'log_density' among {one_of(names)}; "
        "score with posterior='columns'."
    )


def _days(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    if not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
        raise DataError(f"column {name!r} is {values.type}; a plot over time needs dates or times.")
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = pc.local_timestamp(values)
    if values.null_count == len(values):
        raise DataError(f"no row of the scored table has a value in {name!r}.")
    return pc.cast(pc.floor_temporal(values, unit="day"), pa.date32())


def _calendar(days: pa.ChunkedArray) -> NDArray[np.datetime64]:
    """Every day from the first to the last, at least two, so that the areas have a width."""
    ends = pc.min_max(days)
    first, last = (np.datetime64(ends[end].as_py(), "D") for end in ("min", "max"))
    return np.arange(first, max(last, first + 1) + 1)


def _daily_means(
    days: pa.ChunkedArray, columns: list[pa.ChunkedArray], calendar: NDArray[np.datetime64]
) -> FloatArray:
    """The mean of each column on each day, (n_columns, n_days).

    Days without values are NaN, which a stacked plot leaves blank.
    """
    names = [str(i) for i in range(len(columns))]
    values = [pc.cast(column, pa.float64()) for column in columns]
    table = pa.table([days, *values], names=["day", *names]).drop_null()
    means = table.group_by("day").aggregate([(name, "mean") for name in names])
    position = (means["day"].to_numpy() - calendar[0]).astype(int)
    shares = np.full((len(columns), len(calendar)), np.nan)
    for row, name in zip(shares, names, strict=True):
        row[position] = means[f"{name}_mean"].to_numpy()
    return shares
