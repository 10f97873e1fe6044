"""What type checkers, and so editors, know about results; `make lint` checks this file."""

from __future__ import annotations

from typing import assert_type

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import probclass_core as pc


def results() -> None:
    model = pc.fit("rows.parquet", label="y")
    assert_type(model, pc.Model)
    assert_type(pc.load("model"), pc.Model)
    assert_type(model.predict_proba({}), NDArray[np.float64])
    assert_type(model.plot.effect("x"), Figure)
    evaluation = pc.evaluate(model, "rows.parquet")
    assert_type(evaluation.log_loss, float)
    assert_type(pc.ModelSpec.auto("rows.parquet", "y").blocks, tuple[pc.Block, ...])
    assert_type(pc.score(model, "rows.parquet", "scored").rows, int)
    assert_type(pc.compare("rows.parquet", []).best, str)
