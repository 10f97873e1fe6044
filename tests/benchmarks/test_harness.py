"""The benchmark harness: who is measured, in what order, and whose figures count."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import made_up
import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import lake
from benchmarks.__main__ import main
from benchmarks.catalog import all_cases
from benchmarks.contest import Result, difference, hold
from benchmarks.report import as_dict, section


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def result(cache: Path) -> Result:
    return hold(made_up.made_up, "made_up", cache, rounds=2)


def test_contestants_take_turns_each_in_a_process_of_its_own(cache: Path, result: Result) -> None:
    lines = [line.rsplit(" ", 1) for line in (cache / "diary").read_text().splitlines()]
    assert [name for name, _ in lines] == ["floor", "right", "as right"] * 3, "warm-up and 2 rounds"
    assert len({process for _, process in lines}) == len({tuple(line) for line in lines}) == 3


def test_what_equals_the_reference_counts(result: Result) -> None:
    for name in ("floor", "right", "as right"):
        entry = result.entries[name]
        assert entry.counts
        assert len(entry.figures) == len(entry.cpu_seconds) == 2
    assert result.to_floor("right") is not None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wrong", "sums differs by 5.0e-04 from right's"),
        ("short", "rows differs by 2.5e-01 from right's"),
        ("silent", "gives no sums"),
        ("broken", "ValueError: no such luck"),
        ("gone", "its process ended with 7"),
    ],
)
def test_what_differs_is_rejected_with_the_reason(result: Result, name: str, reason: str) -> None:
    entry = result.entries[name]
    assert entry.rejected == reason
    assert not entry.counts
    assert result.to_floor(name) is None
    assert f"| {name} | rejected: {reason}" in section(result)


def test_a_bar_is_met_or_missed_or_not_measured(result: Result) -> None:
    assert [result.clears(bar) for bar in result.case.bars] == [True, False, None]
    assert [bar["met"] for bar in as_dict(result)["bars"]] == [True, False, None]


def test_without_the_reference_no_figure_counts(cache: Path) -> None:
    case = dataclasses.replace(made_up.made_up, reference="broken")
    found = hold(case, "made_up", cache, rounds=1)
    assert not any(entry.counts for entry in found.entries.values())
    assert found.entries["right"].rejected == "nothing to compare with: broken failed"


def test_a_fresh_case_starts_anew_each_round(tmp_path: Path) -> None:
    found = hold(made_up.fresh, "made_up", tmp_path, rounds=3)
    processes = (tmp_path / "diary").read_text().splitlines()
    assert len(set(processes)) == len(processes) == 3
    assert all(5.0 < megabytes < 500.0 for megabytes in found.entries["one"].figures)


@pytest.mark.parametrize(
    ("value", "truth", "equal"),
    [
        (4, 4.0, True),
        ([1e9, 2.0], [1e9 + 0.1, 2.0], True),
        ([1e-12, 2.0], [0.0, 2.0], True),
        ([1.0, 2.1], [1.0, 2.0], False),
        ([1.0, np.nan], [1.0, 2.0], False),
        ([1.0], [1.0, 2.0], False),
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["a", "c"], False),
    ],
)
def test_outcomes_are_equal_up_to_rounding(value: object, truth: object, equal: bool) -> None:
    assert (difference(value, truth, 1e-9) is None) == equal


def test_a_generated_table_is_kept_and_begins_as_a_shorter_one(tmp_path: Path) -> None:
    short, long = (lake.numbers(tmp_path, rows) for rows in (1_000, lake.ROW_GROUP + 500))
    written = Path(long.path).stat().st_mtime_ns
    assert lake.numbers(tmp_path, lake.ROW_GROUP + 500) == long
    assert Path(long.path).stat().st_mtime_ns == written
    table = pq.read_table(long.path)
    assert table.num_rows == lake.ROW_GROUP + 500
    assert pq.ParquetFile(long.path).num_row_groups == 2
    assert table.slice(0, 1_000).equals(pq.read_table(short.path))


def test_real_cases_run_agree_and_report(tmp_path: Path) -> None:
    names = ["train_gaussian_diagonal", "score_gaussian_diagonal"]
    out = tmp_path / "out"
    sizes = ["--rows", "2_000", "--repeats", "1", "--out", str(out), "--cache", str(tmp_path)]
    assert main([*names, *sizes]) == 0
    found = json.loads((out / "benchmarks.json").read_text())
    assert [case["name"] for case in found["cases"]] == names
    assert {case["rows"] for case in found["cases"]} == {2_000}
    contestants = [one for case in found["cases"] for one in case["contestants"]]
    assert [one["rejected"] for one in contestants] == [None] * len(contestants)
    assert {"Python", "pyarrow", "scikit-learn"} <= found["versions"].keys()
    assert (out / "ratios.png").read_bytes().startswith(b"\x89PNG")
    assert "Bar: probclass" in (out / "benchmarks.md").read_text()
    assert not list(tmp_path.glob("*.scored.*")), "contestants leave no files behind"


def test_a_name_that_no_case_has_lists_those_there_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["no_such_case", "--out", str(tmp_path)]) == 2
    assert "train_gaussian_diagonal" in capsys.readouterr().err


def test_every_case_has_a_floor_a_reference_and_bars_that_name_contestants(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cases = [case for _, case in all_cases()]
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        named = {case.reference or case.floor.name}
        named |= {name for bar in case.bars for name in (bar.contestant, bar.against)}
        assert named <= case.contestants.keys()
        assert all(contestant.does for contestant in case.contestants.values())
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(case.name in listed for case in cases)
