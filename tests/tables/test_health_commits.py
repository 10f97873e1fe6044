"""The health of scored partitions in their commits, in every format and with every engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from backends import FEBRUARY, JANUARY, Backend, appending
from delta_and_iceberg import rows
from lakes import write_rows

import probclass_core as pc
from probclass_core.analysis.distributions.health import Health


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two months in two files of 20 numbered rows; in January, every second x is null."""
    for month in ("2014-01", "2014-02"):
        table = rows(month).drop_columns("month").append_column("n", pa.array(range(40)))
        if month == "2014-01":
            x = pa.array(table["x"].to_numpy(), mask=np.arange(40) % 2 == 0)
            table = table.set_column(0, "x", x)
        write_rows(tmp_path / f"lake/month={month}", table.slice(0, 20), table.slice(20))
    return tmp_path / "lake"


NULLS = pc.Watch(min_rows=10, ignore=["rows"])
"""Checks partitions of few rows, too, for nulls; x has nulls in January, but not in training."""


def test_every_commit_has_the_health_of_its_rows(
    backend: Backend,
    model: pc.Model,
    source: Path,
) -> None:
    sink = backend.ref("scored")
    report = pc.score(model, source, sink, options=pc.ScoringOptions(watch=NULLS))
    expected = [pc.health(model, source, partition=one) for one in (JANUARY, FEBRUARY)]
    assert report.health == expected
    commits = pc.commits(sink)
    assert [commit["partition"] for commit in commits] == [JANUARY, FEBRUARY]
    assert [Health.from_dict(commit["health"]) for commit in commits] == expected
    assert [commit["rows"] for commit in commits] == [40, 40]
    assert pc.commits(sink, partition=FEBRUARY) == commits[1:]
    verdicts = [verdict.to_dict() for _, verdict in report.verdicts]
    assert {(one["check"], one["subject"]) for one in verdicts} >= {("nulls", "x")}
    again = pc.score(model, source, sink, options=pc.ScoringOptions(watch=NULLS))
    assert (again.counts["unchanged"], again.health) == (2, expected)


def test_the_health_that_another_release_recorded_is_not_compared(
    model: pc.Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(values: Mapping[str, Any]) -> Health:
        return from_dict({name: one for name, one in values.items() if name != "entropy"})

    sink, to_dict, from_dict = tmp_path / "scored", Health.to_dict, Health.from_dict
    with monkeypatch.context() as release:
        release.setattr(Health, "to_dict", lambda one: {**to_dict(one), "entropy": 0.5})
        release.setattr(Health, "from_dict", read)
        (health,) = pc.score(model, source, sink, partition=JANUARY).health
    assert health is not None
    assert pc.score(model, source, sink, partition=JANUARY).health == [None]
    report = pc.score(model, source, sink, partition=FEBRUARY)
    assert (report.counts["scored"], report.health == [None]) == (1, False)


@appending
def test_appended_rows_have_a_health_of_their_own(
    backend: Backend, model: pc.Model, source: Path
) -> None:
    """The order of the commits does not matter."""
    sink, expected = backend.ref("scored"), set()
    for where in ("n < 20", "n >= 20"):
        report = pc.score(
            model,
            source,
            sink,
            partition=JANUARY,
            where=where,
            options={"overwrite": "append", "watch": NULLS},
        )
        assert report.verdicts
        expected.add(report.commit_id)
    commits = pc.commits(sink)
    assert {commit["commit_id"] for commit in commits} == expected
    assert [commit["health"]["rows"] for commit in commits] == [20, 20]


def test_without_watching_only_the_health_is_left_out(
    model: pc.Model, source: Path, tmp_path: Path
) -> None:
    reports = [
        pc.score(model, source, tmp_path / f"{watch}", partition=FEBRUARY, options={"watch": watch})
        for watch in (False, True)
    ]
    assert reports[0].commit_id == reports[1].commit_id
    assert reports[0].health == [None]
    records: list[list[dict[str, Any]]] = [
        [dict(commit) for commit in pc.commits(tmp_path / f"{watch}")] for watch in (False, True)
    ]
    for with_health in records[1]:
        del with_health["health"]
    assert records[0] == records[1]


def test_a_csv_file_has_no_commit_but_the_report_has_its_health(
    model: pc.Model, source: Path, tmp_path: Path
) -> None:
    table = pa.concat_tables([rows("2014-01"), rows("2014-02")])
    report = pc.score(model, table, tmp_path / "scored.csv")
    assert report.health == [pc.health(model, table)]
    assert pc.commits(tmp_path / "scored.csv") == []
