"""The plot of the posterior over time: its areas, and its errors."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.dates import num2date

from probclass_core.plots import posterior_over_time


@pytest.fixture
def scored() -> pa.Table:
    """Two days with an empty one between them; the class of one row is null."""
    return pa.table(
        {
            "time": [datetime(2014, 3, 3, 5), datetime(2014, 3, 1, 1), datetime(2014, 3, 1, 23)],
            "air": [None, "good", "bad"],
            "prediction": ["bad", "good", "good"],
            "probability": [0.9, 0.8, 0.6],
            "p_bad": [0.9, 0.2, 0.4],
            "p_good": [0.1, 0.8, 0.6],
            "log_density": [0.0, 0.0, 0.0],
            "model_id": ["m", "m", "m"],
        }
    )


def heights(axis: object, area: int) -> dict[date, float]:
    """The height of a stacked area on each of its days."""
    heights_by_day: dict[date, list[float]] = {}
    for path in axis.collections[area].get_paths():  # type: ignore[attr-defined]
        for x, y in path.vertices:
            if not np.isclose(x % 1, 0.5):  # not where the steps of two days meet
                heights_by_day.setdefault(num2date(x).date(), []).append(y)
    return {day: max(values) - min(values) for day, values in heights_by_day.items()}


def test_areas_are_daily_means(scored: pa.Table) -> None:
    (axis,) = posterior_over_time(scored, "time").axes
    assert [area.get_label() for area in axis.collections] == ["bad", "good"]
    drawn = heights(axis, 0)
    assert drawn[date(2014, 3, 1)] == pytest.approx(0.3)
    assert drawn[date(2014, 3, 3)] == pytest.approx(0.9)
    assert date(2014, 3, 2) not in drawn
    assert heights(axis, 1)[date(2014, 3, 1)] == pytest.approx(0.7)


def test_observed_shares_are_in_a_second_panel(scored: pa.Table) -> None:
    above, below = posterior_over_time(scored, "time", label="air").axes
    assert heights(below, 0)[date(2014, 3, 1)] == pytest.approx(0.5)
    assert date(2014, 3, 3) not in heights(below, 0)
    colors = [[tuple(a.get_facecolor()[0]) for a in axis.collections] for axis in (above, below)]
    assert colors[0] == colors[1]
    assert len(set(colors[0])) == 2


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_days_follow_the_time_zone_of_the_column(scored: pa.Table, unit: str) -> None:
    zoned = pa.chunked_array([[datetime(2014, 2, 28, 17)] * 3], pa.timestamp(unit, "UTC"))
    beijing = scored.set_column(0, "time", zoned.cast(pa.timestamp(unit, "Asia/Shanghai")))
    (axis,) = posterior_over_time(beijing, "time").axes
    assert date(2014, 3, 1) in heights(axis, 0)


def test_one_day_can_be_plotted(scored: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    posterior_over_time(scored.slice(1), "time", label="air").savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")
