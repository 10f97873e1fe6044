"""Scoring with a watch: faults that are injected are reported, or stop the commit."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import DataError, HealthError, SpecError
from probclass_core.scoring.reports import ScoreReport

MONTHS = [f"{year}-{month:02d}" for year in (2012, 2013) for month in range(1, 13)]
FAULTY = "2013-09"
SPEC = pc.ModelSpec(
    "state", {"gaussian_diagonal": ["temperature", "pressure"], "categorical": ["device"]}
)


def rows(month: str, count: int = 600, ill: float = 0.2) -> pa.Table:
    """A month with a season: the temperature in °C, and a class that depends on the columns."""
    random = np.random.default_rng(int(month.replace("-", "")))
    state = random.choice(["ill", "well"], count, p=[ill, 1 - ill])
    season = -8.0 * np.cos(2 * np.pi * int(month[-2:]) / 12)
    sick = state == "ill"
    device = np.where(random.random(count) < np.where(sick, 0.8, 0.3), "a", "b")
    return pa.table(
        {
            "temperature": random.normal(12 + season + 6 * sick, 3),
            "pressure": random.normal(1000 + 12 * sick, 5),
            "device": device,
            "state": state,
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("watched") / "lake"
    for month in MONTHS:
        write_rows(path / f"month={month}", rows(month))
    return path


@pytest.fixture(scope="module")
def model(lake: Path) -> pc.Model:
    where = "month < 2013-01"
    return pc.with_density_quantiles(pc.fit(lake, SPEC, where=where), lake, where=where)


@pytest.fixture(scope="module")
def scored(lake: Path, model: pc.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All months before the faulty one, which have no verdict."""
    sink = tmp_path_factory.mktemp("watched") / "scored"
    report = pc.score(model, lake, sink, where=f"month < {FAULTY}")
    assert report.warnings == []
    return sink


def with_column(name: str, change: Callable[[Any], Any]) -> Callable[[pa.Table], pa.Table]:
    """A fault that changes one column."""

    def inject(table: pa.Table) -> pa.Table:
        changed = pa.array(change(table[name].to_numpy()))
        return table.set_column(table.schema.get_field_index(name), name, changed)

    return inject


NULL = with_column("pressure", lambda x: [None] * len(x))
FAHRENHEIT = with_column("temperature", lambda x: 1.8 * x + 32.0)


def renamed(table: pa.Table) -> pa.Table:
    return table.rename_columns({"pressure": "air_pressure"})


def twice(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table])


FAULTS: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a column null in one partition": (NULL, "nulls"),
    "°C to °F": (FAHRENHEIT, "outside"),
    "a sensor that is stuck": (with_column("pressure", lambda x: np.full(len(x), 1001.0)), "drift"),
    "categories that training never saw": (
        with_column("device", lambda x: ["c"] * 60 + ["a"] * (len(x) - 60)),
        "unseen",
    ),
    "a prior that moved from 20 to 60 %": (lambda table: rows(FAULTY, ill=0.6), "prior"),
    "a partition loaded twice": (twice, "rows"),
    "a partition nearly empty": (lambda table: table.slice(0, 40), "rows"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_stops_the_commit_if_its_check_fails(
    fault: str, lake: Path, model: pc.Model, scored: Path, tmp_path: Path
) -> None:
    """By default it is a warning; the same rows without the fault have none."""
    inject, check = FAULTS[fault]
    source, sink = tmp_path / "lake", tmp_path / "scored"
    shutil.copytree(lake / f"month={FAULTY}", source / f"month={FAULTY}")
    shutil.copytree(scored, sink)
    assert pc.score(model, source, sink).warnings == []
    shutil.rmtree(sink / f"month={FAULTY}")
    write_rows(source / f"month={FAULTY}", inject(rows(FAULTY)))
    message = rf"month={FAULTY}: .*Nothing of it was written"
    with pytest.raises(HealthError, match=message) as info:
        pc.score(model, source, sink, options=pc.ScoringOptions(watch={"fail": [check]}))
    assert {verdict["check"] for verdict in info.value.verdicts} == {check}
    assert not (sink / f"month={FAULTY}").exists()
    report = pc.score(model, source, sink)
    assert check in {verdict.check for _, verdict in report.verdicts}
    ignored = pc.score(
        model, source, tmp_path / "other", options=pc.ScoringOptions(watch=pc.Watch(ignore=[check]))
    )
    assert check not in {verdict.check for _, verdict in ignored.verdicts}


@pytest.mark.parametrize("verb", ["score", "evaluate", "health"])
def test_a_renamed_column_is_an_error(
    verb: str, lake: Path, model: pc.Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be read as null in silence. The same where the whole table lacks it."""
    source, sink = tmp_path / "lake", tmp_path / "scored"
    for month in ("2013-08", FAULTY):
        write_rows(source / f"month={month}", rows(month))

    where: dict[str, Any] = {"partition": {"month": FAULTY}}

    def score(**options: Any) -> ScoreReport:
        return pc.score(model, source, sink, options={"columns": "state", **options}, **where)

    calls: dict[str, Callable[..., Any]] = {
        "score": score,
        "evaluate": partial(pc.evaluate, model, source, **where),
        "health": partial(pc.health, model, source, **where),
    }
    call = calls[verb]
    for others in (True, False):
        if not others:
            write_rows(source / "month=2013-08", renamed(rows("2013-08")))
        write_rows(source / f"month={FAULTY}", renamed(rows(FAULTY)))
        with pytest.raises(DataError, match=r"'pressure'.*Did you mean 'air_pressure'"):
            call()
        assert not sink.exists()
        for choice, warned in (("warn", True), ("allow", False)):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                call(missing_columns=choice)
            missing = "'pressure' of the model is missing for 100 %"
            assert any(missing in text for text in caplog.messages) == warned
            shutil.rmtree(sink, ignore_errors=True)
    with pytest.raises(SpecError, match="missing_columns must be one of"):
        call(missing_columns="ignore")


def test_a_column_that_some_files_lack_is_a_warning(
    lake: Path, model: pc.Model, tmp_path: Path
) -> None:
    source = tmp_path / "lake"
    write_rows(source / f"month={FAULTY}", rows(FAULTY))
    part = source / f"month={FAULTY}" / "part-1.parquet"
    pq.write_table(rows(FAULTY, 200).drop_columns("pressure"), part)
    report = pc.score(model, source, tmp_path / "scored")
    (missing,) = (verdict for _, verdict in report.verdicts if verdict.check == "missing")
    assert missing.sentence == (
        "Column 'pressure' of the model is missing for 25 % of the rows, which are scored as if it "
        "was null."
    )
    with pytest.raises(HealthError, match="'pressure' of the model is missing for 25 %"):
        pc.score(
            model,
            source,
            tmp_path / "other",
            options=pc.ScoringOptions(watch={"fail": ["missing"]}),
        )
    report = pc.score(
        model, source, tmp_path / "other", options=pc.ScoringOptions(missing_columns="allow")
    )
    assert "missing" not in {verdict.check for _, verdict in report.verdicts}


def test_warnings_are_the_same_for_every_engine_and_are_logged(
    lake: Path, model: pc.Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those that compare a month with one that the same call has scored."""
    source = tmp_path / "lake"
    shutil.copytree(lake, source)
    write_rows(source / f"month={FAULTY}", twice(rows(FAULTY)))
    where = "month >= 2013-07 and month <= 2013-10"
    with caplog.at_level(logging.WARNING):
        report = pc.score(model, source, tmp_path / "threads", where=where)
    (warning,) = report.warnings
    assert warning == (
        "month=2013-09: The partition has 1,200 rows, month=2013-08 had 600 and the others more "
        "unlike; the limit is a factor of 1.8."
    )
    assert [record.getMessage() for record in caplog.records] == report.warnings
    assert report.to_dict()["warnings"] == report.warnings
    other = pc.score(
        model, source, tmp_path / "processes", where=where, engine="processes", workers=2
    )
    assert other.warnings == report.warnings


def test_without_a_watch_nothing_is_checked(lake: Path, model: pc.Model, tmp_path: Path) -> None:
    source = tmp_path / "lake"
    write_rows(source / f"month={FAULTY}", FAHRENHEIT(rows(FAULTY)))
    report = pc.score(model, source, tmp_path / "scored", options=pc.ScoringOptions(watch=False))
    assert (report.warnings, report.health) == ([], [None])
    with pytest.raises(SpecError, match="a watch has no 'nuls'"):
        pc.score(model, source, tmp_path / "scored", options=pc.ScoringOptions(watch={"nuls": 1}))
    with pytest.raises(SpecError, match="a watch must be a Watch"):
        pc.score(model, source, tmp_path / "scored", options=pc.ScoringOptions(watch="all"))  # type: ignore[arg-type]


def test_a_column_of_the_partitions_is_not_unlike_the_training(tmp_path: Path) -> None:
    regions = ["eu", "us", "__HIVE_DEFAULT_PARTITION__"]
    for number, region in enumerate(regions):
        for month in MONTHS[:5]:
            path = tmp_path / "lake" / f"region={region}" / f"month={month}"
            write_rows(path, rows(month, ill=0.2 + 0.2 * number))
    spec = pc.ModelSpec("state", {"categorical": "region"}, groups="month")
    first = pc.fit(tmp_path / "lake", spec, where=f"month < {MONTHS[3]}")
    report = pc.score(first, tmp_path / "lake", tmp_path / "scored")
    assert report.warnings == []

    write_rows(tmp_path / "lake" / "region=br" / f"month={MONTHS[4]}", rows(MONTHS[4]))
    (warning,) = pc.score(first, tmp_path / "lake", tmp_path / "scored").warnings
    assert "'region' has categories that training never saw in 100 %" in warning
