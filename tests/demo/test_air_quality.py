"""The result of the demo: modeling the covariance of the weather improves the predictions."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

import probclass_core as pc
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.demo.lake import lay_out

pytestmark = pytest.mark.nightly

SPECS = Path(__file__).parents[2] / "dags" / "specs"
MONTHS = [f"{year}-{month:02d}" for year in range(2010, 2015) for month in range(1, 13)]


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Evaluation]]:
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


@pytest.mark.parametrize("months", [12, 48], ids=["the demo's year", "all four years"])
def test_pool_beats_full_beats_naive_and_all_beat_the_prior(
    evaluations: dict[str, list[Evaluation]], months: int
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
