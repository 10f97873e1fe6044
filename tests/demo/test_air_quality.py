"""What the demo is to show: knowing how the weather hangs together pays, month after month."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

import probclass_core as pc
from probclass_core.demo.lake import lay_out

SPECS = Path(__file__).parents[2] / "dags" / "specs"
MONTHS = [f"{year}-{month:02d}" for year in range(2010, 2015) for month in range(1, 13)]


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[pc.Evaluation]]:
    """Each model on each month from 2011 on, trained on the twelve before it.

    A month's statistics are made once and merged into the twelve years that it is part of.
    """
    lake = lay_out(tmp_path_factory.mktemp("demo") / "lake")
    found = {}
    for path in SPECS.glob("*.toml"):
        spec = pc.ModelSpec.from_file(path)
        parts = [pc.summarize(lake, spec, partition={"month": month}) for month in MONTHS]
        found[path.stem] = [
            pc.evaluate(
                pc.finalize(pc.merge(parts[at - 12 : at])), lake, partition={"month": MONTHS[at]}
            )
            for at in range(12, len(MONTHS))
        ]
    return found


def test_a_year_of_months_merged_is_the_year_fitted(tmp_path: Path) -> None:
    lake = lay_out(tmp_path / "lake")
    spec = pc.ModelSpec.from_file(SPECS / "air_full.toml")
    parts = [pc.summarize(lake, spec, partition={"month": month}) for month in MONTHS[:12]]
    assert pc.finalize(pc.merge(parts)).id == pc.fit(lake, spec, where=[("month", "<", "2011")]).id


def test_the_figures_seen_once_are_seen_again(
    evaluations: dict[str, list[pc.Evaluation]],
) -> None:
    full, naive = evaluations["air_full"], evaluations["air_naive"]
    assert len(full) == len(naive) == 48
    assert fmean(e.baseline_accuracy for e in full) == pytest.approx(0.392, abs=5e-4)
    assert fmean(e.accuracy for e in naive) == pytest.approx(0.513, abs=5e-4)
    assert fmean(e.log_loss for e in naive) == pytest.approx(1.066, abs=5e-4)
    assert fmean(e.accuracy for e in full) == pytest.approx(0.563, abs=5e-4)
    assert fmean(e.log_loss for e in full) == pytest.approx(0.922, abs=5e-4)


@pytest.mark.parametrize("months", [12, 48], ids=["the demo's year", "all four years"])
def test_full_beats_naive_and_both_beat_the_prior(
    evaluations: dict[str, list[pc.Evaluation]], months: int
) -> None:
    full, naive = (evaluations[name][-months:] for name in ("air_full", "air_naive"))
    assert (
        fmean(e.log_loss for e in full)
        < fmean(e.log_loss for e in naive)
        < fmean(e.baseline_log_loss for e in naive)
    )
