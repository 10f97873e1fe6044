"""The result of the demo: modeling the covariance of the weather improves the predictions."""

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
    """Evaluations of each model on each month from 2011, trained on the twelve months before.

    The statistics of a month are computed once and merged into twelve training sets.
    """
    lake = lay_out(tmp_path_factory.mktemp("demo") / "lake")
    evaluations_by_spec = {}
    for path in SPECS.glob("*.toml"):
        spec = pc.ModelSpec.from_file(path)
        parts = [pc.summarize(lake, spec, partition={"month": month}) for month in MONTHS]
        evaluations_by_spec[path.stem] = [
            pc.evaluate(
                pc.finalize(pc.merge(parts[index - 12 : index])),
                lake,
                partition={"month": MONTHS[index]},
            )
            for index in range(12, len(MONTHS))
        ]
    return evaluations_by_spec


def test_a_year_of_months_merged_is_the_year_fitted(tmp_path: Path) -> None:
    lake = lay_out(tmp_path / "lake")
    spec = pc.ModelSpec.from_file(SPECS / "air_full.toml")
    parts = [pc.summarize(lake, spec, partition={"month": month}) for month in MONTHS[:12]]
    assert pc.finalize(pc.merge(parts)).id == pc.fit(lake, spec, where=[("month", "<", "2011")]).id


@pytest.mark.nightly
def test_mean_metrics_are_reproduced(
    evaluations: dict[str, list[pc.Evaluation]],
) -> None:
    full, naive = evaluations["air_full"], evaluations["air_naive"]
    assert len(full) == len(naive) == 48
    assert fmean(e.baseline_accuracy for e in full) == pytest.approx(0.392, abs=5e-4)
    assert fmean(e.accuracy for e in naive) == pytest.approx(0.513, abs=5e-4)
    assert fmean(e.log_loss for e in naive) == pytest.approx(1.066, abs=5e-4)
    assert fmean(e.accuracy for e in full) == pytest.approx(0.563, abs=5e-4)
    assert fmean(e.log_loss for e in full) == pytest.approx(0.922, abs=5e-4)


@pytest.mark.nightly
@pytest.mark.parametrize("months", [12, 48], ids=["the demo's year", "all four years"])
def test_pool_beats_full_beats_naive_and_all_beat_the_prior(
    evaluations: dict[str, list[pc.Evaluation]], months: int
) -> None:
    pool, full, naive = (
        evaluations[name][-months:] for name in ("air_pool", "air_full", "air_naive")
    )
    assert (
        fmean(e.log_loss for e in pool)
        < fmean(e.log_loss for e in full)
        < fmean(e.log_loss for e in naive)
        < fmean(e.baseline_log_loss for e in naive)
    )
