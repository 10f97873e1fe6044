"""Parts of dates, and numbers in text, as features: values, and models against plain columns."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakes import write_rows
from refusals import refused

import probclass_core as pc
from probclass_core.arrow.parts import PARTS, parts_of_type, select
from probclass_core.errors import DataError, SpecError

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "+05:30")

# Nanoseconds begin in 1677; Arrow knows no daylight saving time after 2037.
SECONDS = st.integers(-9_000_000_000, 2_145_000_000)


def parts_of(values: pa.Array) -> Mapping[str, list[Any]]:
    names = [f"{part}(t)" for part in parts_of_type(values.type)]
    batch = pa.record_batch([values], names=["t"])
    return {name[: -len("(t)")]: select(batch, [name])[name].to_pylist() for name in names}


def expected_parts(moment: datetime | date | time, below_seconds: float = 0.0) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if isinstance(moment, date):
        parts |= {name: getattr(moment, name) for name in ("year", "month", "day")}
        parts["day_of_year"] = moment.timetuple().tm_yday
        parts["weekday"] = moment.isoweekday()
    if isinstance(moment, (datetime, time)):
        seconds = moment.minute * 60 + moment.second + below_seconds
        parts |= {"hour": moment.hour, "minute": moment.minute}
        parts["time_of_day"] = moment.hour + seconds / 3600
    return parts


def assert_same(actual: Mapping[str, list[Any]], expected: Mapping[str, Any]) -> None:
    assert set(actual) == set(expected)
    for name, values in actual.items():
        assert values[1] is None
        if name == "time_of_day":
            assert 0.0 <= values[0] < 24.0
            assert math.isclose(values[0], expected[name], rel_tol=1e-14, abs_tol=1e-14)
        else:
            assert values[0] == expected[name], name


@given(SECONDS, st.integers(0, 10**9 - 1), st.sampled_from(list(UNITS)), st.sampled_from(ZONES))
def test_parts_of_timestamps_are_those_of_datetime(
    seconds: int, nanoseconds: int, unit: str, zone: str
) -> None:
    below = nanoseconds * UNITS[unit] // 10**9
    count = seconds * UNITS[unit] + below
    naive = pa.array([count, None], pa.timestamp(unit))
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    expected = expected_parts(moment, below / UNITS[unit])
    assert_same(parts_of(naive), expected)
    assert_same(parts_of(naive.dictionary_encode()), expected)
    offset = timedelta(hours=5, minutes=30)
    if zone == "+05:30":
        local = moment + offset
    else:
        local = moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    aware = naive.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
    assert_same(parts_of(aware), expected_parts(local, below / UNITS[unit]))


@given(st.dates(), st.times())
def test_parts_of_dates_and_times_are_those_of_datetime(day: date, clock: time) -> None:
    for kind in (pa.date32(), pa.date64()):
        assert_same(parts_of(pa.array([day, None], kind)), expected_parts(day))
    for unit, kind in (("s", pa.time32), ("ms", pa.time32), ("us", pa.time64), ("ns", pa.time64)):
        below = clock.microsecond * UNITS[unit] // 10**6
        count = ((clock.hour * 60 + clock.minute) * 60 + clock.second) * UNITS[unit] + below
        values = pa.array([count, None], pa.int32() if kind is pa.time32 else pa.int64())
        expected = expected_parts(clock.replace(microsecond=0), below / UNITS[unit])
        assert_same(parts_of(values.cast(kind(unit))), expected)


def test_a_column_without_values_has_parts_without_values() -> None:
    assert parts_of(pa.nulls(1)) == {part: [None] for part in PARTS}


FEATURES = ("hour(pickup)", "weekday(pickup)", "time_of_day(pickup)")


def trips(rows: int = 600) -> pa.Table:
    """Times in New York, some of them null, tolls as text, and a class that depends on both."""
    noise = np.random.default_rng(5)
    moments = noise.integers(0, 60 * 86_400 * 10**6, rows)
    kind = pa.timestamp("us", "America/New_York")
    pickup = pa.array(moments, pa.int64(), mask=noise.random(rows) < 0.1).cast(kind)
    hours = np.asarray(pac.fill_null(pac.hour(pickup), 0))
    late = noise.random(rows) < np.where(hours > 15, 0.8, 0.3)
    return pa.table(
        {
            "pickup": pickup,
            "fare": noise.lognormal(2.0 + late, 0.5),
            "toll": np.where(noise.random(rows) < 0.1, "?", (late * 2 + 1).astype(str)),
            "tip": np.where(late, "yes", "no"),
        }
    )


def with_columns(table: pa.Table) -> pa.Table:
    """The same with a column for each part, and without the times and texts."""
    pickup, toll = (table[name].combine_chunks() for name in ("pickup", "toll"))
    local = pac.local_timestamp(pickup)
    midnight = pac.floor_temporal(local, unit="day")
    seconds = pac.subtract(local, midnight).cast(pa.int64())
    return pa.table(
        {
            "hour(pickup)": pac.hour(local),
            "weekday(pickup)": pac.add(pac.day_of_week(local), 1),
            "time_of_day(pickup)": pac.divide(seconds.cast(pa.float64()), 3.6e9),
            "fare": table["fare"],
            "number(toll)": pac.if_else(pac.equal(toll, "?"), None, toll).cast(pa.float64()),
            "tip": table["tip"],
        }
    )


SPEC = pc.ModelSpec(
    "tip",
    [
        pc.Block("categorical", ["hour(pickup)", "weekday(pickup)"]),
        pc.Block("discretized", "time_of_day(pickup)"),
        pc.Block("gaussian_diagonal", ["fare", "number(toll)"]),
        pc.Block("categorical", "hour(pickup)", "pair", given="weekday(pickup)"),
    ],
    block_weights="fit",
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return trips()


@pytest.fixture(scope="module")
def plain(table: pa.Table) -> pc.Model:
    """The model of plain columns with the same names and values."""
    return pc.fit(with_columns(table), SPEC)


def written(table: pa.Table, folder: Path) -> Path:
    for number in range(3):
        write_rows(folder / f"part={number}", table.slice(200 * number, 200))
    return folder


@pytest.fixture(scope="module")
def files(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(table, tmp_path_factory.mktemp("trips") / "table")


@pytest.fixture(scope="module")
def plain_files(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(with_columns(table), tmp_path_factory.mktemp("plain") / "table")


def test_a_model_of_parts_is_the_model_of_such_columns(
    table: pa.Table, files: Path, plain_files: Path, tmp_path: Path
) -> None:
    model = pc.fit(files, SPEC, cache=str(tmp_path))
    plain = pc.fit(plain_files, SPEC)
    assert model.parameters == plain.parameters
    assert model.block_weights == plain.block_weights
    cached = pc.fit(files, SPEC, cache=str(tmp_path))
    assert cached.training["cache"] == {"units": 3, "reused": 3}
    assert cached.id == model.id
    shards = [
        pc.merge([pc.summarize(rows, SPEC, shard=f"{n}:{n + 1}") for n in range(3)])
        for rows in (files, plain_files)
    ]
    assert shards[0].tables == shards[1].tables
    np.testing.assert_array_equal(
        model.predict_proba(table), model.predict_proba(with_columns(table))
    )


def test_parts_in_frames(table: pa.Table, plain: pc.Model) -> None:
    expected = plain.predict_proba(with_columns(table))
    pandas = table.to_pandas()
    assert isinstance(pandas["pickup"].dtype, pd.DatetimeTZDtype)
    for frame in (pandas, pl.from_arrow(table)):
        np.testing.assert_array_equal(pc.fit(frame, SPEC).predict_proba(frame), expected)


def test_everything_that_reads_rows_computes_parts(
    table: pa.Table, plain: pc.Model, files: Path, tmp_path: Path
) -> None:
    columns = with_columns(table)
    assert pc.evaluate(plain, files).log_loss == pytest.approx(
        pc.evaluate(plain, columns).log_loss, rel=1e-12
    )
    pc.score(plain, files, tmp_path / "scored", options=pc.ScoringOptions(columns=["fare"]))
    scored = pq.read_table(tmp_path / "scored").sort_by("fare")
    proba = plain.predict_proba(table.sort_by("fare"))
    assert scored.column_names[0] == "fare"
    assert "pickup" not in scored.column_names
    np.testing.assert_array_equal(scored["p_yes"], proba[:, 1])
    calibrated = [pc.calibrate(plain, rows) for rows in (table, columns)]
    assert calibrated[0].calibration == calibrated[1].calibration
    by_hour = pc.fit(table, pc.ModelSpec("tip", [pc.Block("categorical", "hour(pickup)")]))
    ledgers = [pc.explain(by_hour, rows, rows=[4]) for rows in (table, columns)]
    assert ledgers[0].table.equals(ledgers[1].table)
    values = {line["item"]: line["value"] for line in ledgers[0].table.to_pylist()}
    assert values["hour(pickup)"] == str(columns["hour(pickup)"][4])
    importances = [pc.importance(by_hour, rows).table for rows in (files, columns)]
    assert importances[0] == importances[1]
    scores = [pc.cross_validate(rows, SPEC, folds=3).table for rows in (table, columns)]
    assert scores[0] == scores[1]
    predicted = plain.predict_table(table)
    assert predicted.column_names[:4] == table.column_names


def in_zone(table: pa.Table, zone: str | None) -> pa.Table:
    """The same instants in another time zone, or the times without their zone."""
    pickup = table["pickup"]
    times = pac.local_timestamp(pickup) if zone is None else pickup.cast(pa.timestamp("us", zone))
    return table.set_column(0, "pickup", times)


@pytest.mark.parametrize("weights", [None, "fit"])
def test_rows_are_scored_in_the_time_zone_of_the_training(
    table: pa.Table, tmp_path: Path, weights: Any
) -> None:
    blocks = [pc.Block("categorical", "hour(pickup)"), pc.Block("gaussian_diagonal", FEATURES[2])]
    spec = pc.ModelSpec("tip", blocks, block_weights=weights)
    store = pc.ModelStore(tmp_path)
    model = store.load(store.save(pc.fit(table, spec), "tips").ref)
    assert model.time_zones == dict.fromkeys(model.spec.features, "America/New_York")
    expected = model.predict_proba(table)
    for rows in (in_zone(table, "UTC"), in_zone(table, "Asia/Kolkata")):
        np.testing.assert_array_equal(model.predict_proba(rows), expected)
        path = write_rows(tmp_path / "rows", rows)
        assert pc.evaluate(model, path) == pc.evaluate(model, table)
        ledgers = [pc.explain(model, one, rows=[3]).table for one in (rows, table)]
        assert ledgers[0] == ledgers[1]
    with pytest.raises(DataError, match="has times without a time zone, but"):
        model.predict(in_zone(table, None))
    local = pc.fit(in_zone(table, None), spec)
    np.testing.assert_array_equal(local.predict_proba(in_zone(table, None)), expected)
    with pytest.raises(DataError, match="trained on times without a time zone"):
        local.predict(table)


def test_statistics_of_two_time_zones_do_not_merge(table: pa.Table) -> None:
    spec = pc.ModelSpec("tip", [pc.Block("categorical", "hour(pickup)")])
    parts = [pc.summarize(rows, spec) for rows in (table, in_zone(table, "UTC"))]
    assert pickle.loads(pickle.dumps(parts[0])).features.field(0).metadata
    with pytest.raises(DataError, match="in time zone 'America/New_York' in one part"):
        pc.merge(parts)


def test_a_column_with_the_name_of_a_part_comes_first(table: pa.Table) -> None:
    spec = pc.ModelSpec("tip", [pc.Block("categorical", "hour(pickup)")])
    both = table.append_column("hour(pickup)", pa.array(["always"] * table.num_rows))
    assert pc.fit(both, spec).parameters["categorical"]["value"].unique().to_pylist() == ["always"]


@pytest.mark.parametrize(
    ("feature", "column", "message"),
    [
        ("hours(t)", pa.timestamp("us"), "whose parts are .*Did you mean 'hour\\(t\\)'"),
        (
            "hour(t)",
            pa.date32(),
            "'hour\\(t\\)': column 't' is date32.*'weekday', 'year'.$",
        ),
        (
            "hour(tt)",
            pa.date32(),
            "'hour\\(tt\\)' needs column 'tt'; the table has .*mean 't'",
        ),
    ],
)
def test_a_wrong_part_is_one_clear_error(feature: str, column: pa.DataType, message: str) -> None:
    table = pa.table({"t": pa.nulls(2, column), "tip": ["yes", "no"]})
    spec = pc.ModelSpec("tip", [pc.Block("categorical", feature)])
    with refused((SpecError, DataError), message):
        pc.fit(table, spec)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([10**12], pa.timestamp("s")), "column 't' .* outside of the years 1 to 9999"),
        (pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "outside of the years 1 to 9999"),
        (pa.array([0], pa.timestamp("s", "Mars/Olympus")), "time zone 'Mars/Olympus'"),
    ],
)
def test_dates_that_have_no_parts_are_refused(values: pa.Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        select(pa.record_batch([values], names=["t"]), ["weekday(t)"])


def shifts(days: int, rows: int = 1200, *, start: str = "2014-03-01") -> pa.Table:
    """Moments of some days; the class depends on the hour, the weekday and the month."""
    noise = np.random.default_rng(3)
    moments = np.datetime64(start, "s") + noise.integers(0, days * 86_400, rows)
    at = pa.array(moments)
    odds = 1.5 * np.asarray(pac.greater(pac.hour(at), 11)) + np.asarray(
        pac.greater(pac.day_of_week(at), 4)
    )
    odds = odds + 1.0 * np.asarray(pac.greater(pac.month(at), 6))
    busy = noise.random(rows) < 1 / (1 + np.exp(1.5 - 1.5 * odds))
    return pa.table({"at": at, "busy": busy, "noise": noise.normal(size=rows)})


@pytest.mark.parametrize(
    ("days", "kind", "expected"),
    [
        (730, pa.timestamp("us"), {"hour(at)", "weekday(at)", "month(at)"}),
        (730, pa.date32(), {"weekday(at)", "month(at)"}),
        (60, pa.timestamp("us"), {"hour(at)", "weekday(at)"}),
        (9, pa.timestamp("us"), {"hour(at)"}),
    ],
)
def test_auto_takes_the_parts_that_the_rows_cover(
    days: int, kind: pa.DataType, expected: set[str]
) -> None:
    table = shifts(days)
    dates = table["at"].cast(kind, safe=False)
    table = table.set_column(0, "at", dates)
    spec = pc.ModelSpec.auto(table, "busy", effort="fast")
    assert set(spec.features) - {"noise"} == expected
    (note,) = (note for note in spec.notes if "'at'" in note)
    assert note.startswith("Parts of 'at' that are tried: ")
    assert "the year and the moment itself, because later rows have other ones" in note
    for part, reason in (("month", "less than a year"), ("weekday", "less than two weeks")):
        assert (f"the {part}, because" in note and reason in note) == (
            f"{part}(at)" not in expected
        )


def test_auto_sees_through_unknown_dates_and_midnights() -> None:
    table = shifts(60)
    days = pac.floor_temporal(table["at"], unit="day")
    unknown = pa.scalar(datetime(1900, 1, 1), days.type)
    rows = np.arange(len(days))
    table = table.set_column(0, "at", pac.if_else(pa.array(rows < 5), unknown, days))
    (note,) = (n for n in pc.ModelSpec.auto(table, "busy", effort="fast").notes if "'at'" in n)
    assert "'weekday(at)'" in note
    assert "the hour, because it is the same in all rows" in note
    assert "the month, because the rows cover" in note


def test_auto_of_a_schema_or_reader_takes_hours_and_weekdays(table: pa.Table) -> None:
    table = table.drop_columns("toll")
    for source in (table.schema, table.to_reader()):
        spec = pc.ModelSpec.auto(source, "tip")
        assert spec.features == ("fare", "hour(pickup)", "weekday(pickup)")
    monthly = pc.ModelSpec("tip", [pc.Block("categorical", "month(pickup)")])
    kept = pc.ModelSpec.auto(table.to_reader(), "tip", like=monthly)
    assert kept.features == ("month(pickup)",)


@pytest.mark.parametrize("text", ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"])
def test_auto_says_that_text_is_dates(text: str) -> None:
    table = shifts(60)
    table = table.append_column("written", pac.strftime(table["at"], text))
    spec = pc.ModelSpec.auto(table, "busy", effort="fast")
    assert "written" not in spec.features
    assert any("they are dates as text" in note and "'written'" in note for note in spec.notes)
