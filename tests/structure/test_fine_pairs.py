"""Pairs of numbers in finer bins: found where two numbers tell the classes apart together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

import probclass_core as pc
from probclass_core.structure.fine_pairs import fine_pairs
from probclass_core.structure.levels import Levels


def board(rows: int, seed: int) -> pd.DataFrame:
    """The fields of a board, of which each number alone tells nothing; a tenth of them wrong."""
    random = np.random.default_rng(seed)
    x, y, wrong = random.uniform(size=(3, rows))
    black = (np.floor(4 * x) + np.floor(4 * y)) % 2 == 0
    return pd.DataFrame(
        {"x": x, "y": y, "field": np.where(black ^ (wrong < 0.1), "black", "white")}
    )


def test_fields_of_a_board_are_told_apart_as_by_boosting() -> None:
    train, test = board(4000, 0), board(4000, 1)
    model = pc.fit(train, label="field")
    peer = HistGradientBoostingClassifier(random_state=0).fit(train[["x", "y"]], train["field"])
    of_peer = log_loss(test["field"], peer.predict_proba(test[["x", "y"]]))
    assert pc.evaluate(model, test).log_loss < 1.05 * of_peer  # bins are blurred at the edges
    assert any("finer bins" in note for note in model.spec.notes)
    assert max(len(cuts) for block in model.spec.blocks for cuts in _cuts(block).values()) >= 7


@pytest.mark.parametrize("day", [pd.NaT, pd.Timestamp("2024-05-01")])
def test_a_date_that_is_the_same_in_all_rows_makes_no_rows_alike(day: pd.Timestamp) -> None:
    rows = board(1000, 0)
    dated = rows.assign(day=pd.Series([day] * len(rows), dtype="datetime64[us]"))
    blocks = pc.ModelSpec.auto(rows, "field").pool
    assert any(block.given for block in blocks)
    assert pc.ModelSpec.auto(dated, "field").pool == blocks


def _cuts(block: pc.Block) -> dict[str, list[float]]:
    return dict(block.options.get("cuts", {}))


def test_the_pair_that_gains_most_is_first() -> None:
    """Its gain by hand: log P(c | other rows of the cell), for 8 bins of equal weight."""
    random = np.random.default_rng(2)
    x, y, noise = random.uniform(size=(3, 400))
    truth = ((x > 0.5) ^ (y > 0.5)).astype(np.intp)  # each number alone tells nothing
    values, codes = [noise, x, y], [np.zeros(400, np.intp)] * 3
    (best, *others) = fine_pairs(values, Levels(codes, [1] * 3, truth, np.ones(400), 2), 3)
    assert (best.first, best.second) == (1, 2)
    assert [len(first) for first, _ in best.cuts] == [15]  # 16 bins tried need 512 contrasted rows
    bins = [
        np.searchsorted(cuts, of, side="right") // 2
        for of, cuts in zip((x, y), best.cuts[0], strict=True)
    ]
    loss = 0.0
    for row in range(400):
        same = (bins[0] == bins[0][row]) & (bins[1] == bins[1][row])
        same[row] = False
        prior = (truth == truth[row]).mean()
        loss -= np.log(((truth[same] == truth[row]).sum() + prior) / (same.sum() + 1)) / 400
    assert loss < 0.5 * np.log(2)
    assert not others  # finer bins of noise lose


def test_few_rows_of_the_rarer_class_have_no_finer_bins() -> None:
    random = np.random.default_rng(3)
    values = list(random.normal(size=(2, 5000)))
    truth = (np.arange(5000) < 40).astype(np.intp)
    codes = [np.zeros(5000, np.intp)] * 2
    assert not fine_pairs(values, Levels(codes, [1] * 2, truth, np.ones(5000), 2), 5)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_nulls_and_repeated_values_are_bins_of_their_own(share: float) -> None:
    train = board(2000, 4)
    train.loc[np.random.default_rng(5).uniform(size=2000) < share, "x"] = np.nan
    train["y"] = train["y"].round(1)
    train.loc[0, "x"] = 0.5
    model = pc.fit(train, label="field")
    assert np.isfinite(model.predict_log_proba(train)).all()


def test_a_weight_counts_as_rows() -> None:
    """A row of weight 3 is three rows: the same pairs and cut points."""
    random = np.random.default_rng(6)
    values = list(random.uniform(size=(2, 300)))
    truth = ((values[0] > 0.5) ^ (values[1] > 0.5)).astype(np.intp)
    weights = random.integers(1, 4, 300)
    codes = [np.zeros(300, np.intp)] * 2
    weighted = fine_pairs(values, Levels(codes, [1] * 2, truth, weights.astype(float), 2), 3)
    rows = Levels(
        [np.repeat(one, weights) for one in codes],
        [1] * 2,
        np.repeat(truth, weights),
        np.ones(weights.sum()),
        2,
    )
    repeated = fine_pairs([np.repeat(one, weights) for one in values], rows, 3)
    assert weighted == repeated
