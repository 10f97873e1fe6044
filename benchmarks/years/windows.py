"""How well models of the latest months predict the next one, by how many months they are of.

python -m benchmarks.years.windows [--out DIR] 12 24 36
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import probclass_core as pc
from benchmarks.years.results import FIRST, month_range
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.demo.lake import lay_out

ROOT = Path(__file__).parents[2]
SCORED = range(14, 60)
"""March 2011 to December 2014, as in operation, among the months of the lake."""


def predict(lake: Path, store: pc.ModelStore, count: int) -> list[Evaluation]:
    """Evaluate each month by the default model of the `count` months before it, if there are."""
    months, found = month_range(FIRST, SCORED.stop), []
    for at in SCORED:
        where = f"month >= {months[max(0, at - count)]} and month < {months[at]}"
        spec = pc.ModelSpec.auto(lake, "air", exclude=["pm25"], where=where, cache=store, workers=1)
        model = pc.fit(lake, spec, where=where, cache=store, workers=1)
        found.append(pc.evaluate(model, lake, partition={"month": months[at]}, workers=1))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the mean log losses."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.years.windows")
    parser.add_argument("counts", type=int, nargs="*", default=[12, 24, 36])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "cache" / "windows")
    options = parser.parse_args(arguments)
    lake, store = options.out / "lake", pc.ModelStore(options.out / "models")
    lay_out(lake)
    for count in options.counts:
        evaluations = predict(lake, store, count)
        worse = sum("log_loss" in each.worse_than_prior for each in evaluations)
        mean = np.mean([each.log_loss for each in evaluations])
        print(f"{count} months: {mean:.3f}, {worse} worse than the prior", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
