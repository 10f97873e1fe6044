"""The benchmark runner: the order of measurements, and which of them count."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import sample_cases

from benchmarks import figures
from benchmarks.__main__ import main
from benchmarks.cases import all_cases
from benchmarks.report import section, targets
from benchmarks.runner import Result, run_case


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def result(cache: Path) -> Result:
    return run_case(sample_cases.counting, "sample_cases", cache, rounds=2)


def test_implementations_take_turns_each_in_its_own_process(cache: Path, result: Result) -> None:
    calls = [line.rsplit(" ", 1) for line in (cache / "calls").read_text().splitlines()]
    names = ["baseline", "right", "almost equal"]
    assert [name for name, _ in calls] == names * 3, "one call to warm up, and 2 rounds"
    assert len({process for _, process in calls}) == len({tuple(call) for call in calls}) == 3


def test_outcomes_equal_to_the_reference_count(result: Result) -> None:
    for name in ("baseline", "right", "almost equal"):
        entry = result.entries[name]
        assert entry.is_valid
        assert len(entry.figures) == len(entry.cpu_seconds) == 2
    assert result.ratio_to_baseline("right") is not None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wrong", "sums differs by 5.0e-04 from right's"),
        ("too few rows", "rows differs by 2.5e-01 from right's"),
        ("incomplete", "gives no sums"),
        ("raises", "ValueError: no such luck"),
        ("exits", "its process ended with 7"),
    ],
)
def test_other_outcomes_are_rejected_with_the_reason(
    result: Result, name: str, reason: str
) -> None:
    entry = result.entries[name]
    assert entry.rejected == reason
    assert not entry.is_valid
    assert result.ratio_to_baseline(name) is None
    assert f"| {name} | rejected: {reason}" in section([result])


def test_a_target_is_met_missed_or_not_measured(result: Result) -> None:
    assert [result.meets(target) for target in result.case.targets] == [True, False, None]
    assert targets([result]).startswith("Met: 1 of 3 targets.")
    assert targets([result]).endswith("≤ 1e+09 × baseline: none, not measured |")


def test_no_figure_counts_if_the_reference_fails(cache: Path) -> None:
    case = dataclasses.replace(sample_cases.counting, reference="raises")
    result = run_case(case, "sample_cases", cache, rounds=1)
    assert not any(entry.is_valid for entry in result.entries.values())
    assert result.entries["right"].rejected == "nothing to compare with: raises failed"


def test_a_fresh_case_starts_a_process_in_each_round(tmp_path: Path) -> None:
    run_case(sample_cases.starting, "sample_cases", tmp_path, rounds=3)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(set(calls)) == len(calls) == 3


@pytest.mark.nightly
@pytest.mark.parametrize(
    "names",
    [
        ["train_gaussian_diagonal", "score_gaussian_diagonal"],
        ["layout_gaussian_diagonal.nulls", "layout_discretized.delta_rs"],
        ["layout_score.files_500", "layout_categorical.nulls"],
    ],
)
def test_cases_run_and_agree(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the layouts, each work once, and each kind of table that is read in another way."""
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "figures")
    options = ["--rows", "2_000", "--repeats", "1", "--record", "--cache", str(tmp_path)]
    assert main([*names, *options]) == 0
    for name in names:
        record = json.loads((tmp_path / "figures" / "cases" / f"{name}.json").read_text())
        assert record["rows"] == 2_000
        assert all("figures" in entry for entry in record["implementations"].values())
        assert {"Python", "pyarrow", "scikit-learn"} <= record["versions"].keys()
    assert not list(tmp_path.glob("*scored.*")), "implementations remove their files"


def test_every_case_has_a_baseline_a_reference_and_valid_targets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cases = [case for _, case in all_cases()]
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        names = {case.reference or case.baseline.name}
        names |= {
            name for target in case.targets for name in (target.implementation, *target.rivals)
        }
        assert names <= case.implementations.keys()
        assert all(each.description for each in case.implementations.values())
    assert main(["--list"]) == 0
    listing = capsys.readouterr().out
    assert all(case.name in listing for case in cases)
