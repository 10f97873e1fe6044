"""Weights fitted on what blocks say of groups of rows that they were not trained on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_values import weights_of
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import probclass_core as pc
from probclass_core.errors import DataError, SpecError
from probclass_core.model.block_weights import below_best
from probclass_core.model.left_out import MOST_GROUPS, group_numbers
from probclass_core.training.shards import plan_shards

DAYS = 6


def visits(days: int = DAYS, per_day: int = 60, seed: int = 3) -> pd.DataFrame:
    """Rows of days: ``knows`` tells the class, ``today`` tells it by another sign on each day."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(days), per_day)
    ill = random.integers(0, 2, len(day))
    sign = random.choice([-1.0, 1.0], days)[day]
    return pd.DataFrame(
        {
            "state": np.where(ill == 1, "ill", "well"),
            "knows": 0.8 * ill + random.normal(size=len(day)),
            "today": 100.0 * day + 3.0 * sign * ill + random.normal(size=len(day)),
            "day": day,
        }
    )


def lake_of(frame: pd.DataFrame, root: Path, column: str = "day") -> Path:
    """A table partitioned by a column."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_to_dataset(table, root, partition_cols=[column])
    return root


KNOWS = pc.Block("gaussian_diagonal", ["knows"], "knows")
TODAY = pc.Block("discretized", ["today"], "today")
SPEC = pc.ModelSpec("state", [KNOWS, TODAY], block_weights="fit")


def test_weights_solve_the_problem_that_is_documented(tmp_path: Path) -> None:
    """Penalty, weights and biases against another solver, on models of the other days."""
    frame = visits()
    model = pc.fit(lake_of(frame, tmp_path / "lake"), SPEC)
    day = frame["day"].to_numpy()
    factors = np.zeros((2, len(day), 2))
    for number in range(DAYS):
        rest = frame[day != number].drop(columns="day")
        for block, factor in zip((KNOWS, TODAY), factors, strict=True):
            one = pc.fit(rest, pc.ModelSpec("state", [block]))
            said = one.log_likelihood_by_block(frame[day == number])[:, :, 0]
            factor[day == number] = below_best(said)
    truth = (frame["state"] == "well").to_numpy(dtype=int)
    prior = np.log(model.priors["prior"].to_numpy())

    def posteriors(terms: np.ndarray, rows: np.ndarray) -> np.ndarray:
        scores = np.tensordot(terms[:2], factors[:, rows], 1) + prior + terms[2:]
        return np.asarray(log_softmax(scores, axis=1))

    def losses(terms: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return -posteriors(terms, rows)[np.arange(rows.sum()), truth[rows]]

    errors = np.ones(2)

    def solve(rows: np.ndarray, penalty: float) -> np.ndarray:
        def loss(terms: np.ndarray) -> float:
            held_back = penalty * errors @ terms[:2] + 0.5 * (terms[2:] ** 2).sum()
            return float(losses(terms, rows).sum() + held_back)

        bounds = [(0, 1)] * 2 + [(None, None)] * 2
        return np.asarray(minimize(loss, np.zeros(4), bounds=bounds).x)

    excess = np.exp(posteriors(solve(day >= 0, 6.0), day >= 0)) - np.eye(2)[truth]
    slopes = (factors * excess).sum(axis=2)
    by_day = np.array(
        [[of_block[day == number].sum() for number in range(DAYS)] for of_block in slopes]
    )
    effect = DAYS * by_day.var(axis=1) / (slopes**2).sum(axis=1)
    errors = np.sqrt(np.maximum(effect, 1.0))
    assert errors[1] > 1.5  # `today` errs alike in all rows of a day
    penalties = (2.0, 6.0, 20.0, 60.0)
    unseen = [
        sum(losses(solve(day % 4 != fold, penalty), day % 4 == fold).sum() for fold in range(4))
        for penalty in penalties
    ]
    fitted = model.training["block_weights"]
    assert fitted["penalty"] == penalties[np.argmin(unseen)]
    of_each = [solve(day >= 0, penalty) for penalty in penalties]
    mean = softmax(-DAYS * np.array(unseen) / len(day)) @ of_each
    unseen_loss = losses(mean, day >= 0).mean()
    shares = np.exp(posteriors(mean, day >= 0))
    recency = 0.25 ** (DAYS - 1 - day)
    of_class, expected = (recency @ values for values in (np.eye(2)[truth], shares))
    mean[2:] += 0.5 * np.log((of_class + 3.0) / (expected + 3.0))
    assert [*weights_of(model).values()] == pytest.approx(mean, abs=5e-3)
    assert fitted["groups"] == DAYS
    assert fitted["log_loss"] == pytest.approx(unseen_loss, abs=1e-5)


def test_a_column_of_a_table_in_memory_is_as_good_as_partitions(tmp_path: Path) -> None:
    """But for its order: only partitions are known to be in that of time."""
    frame = visits()
    by_partition = weights_of(pc.fit(lake_of(frame, tmp_path / "lake"), SPEC))
    blocks = {name: by_partition[name] for name in ("knows", "today")}
    named = dataclasses.replace(SPEC, groups="day")
    as_dates = frame.assign(
        day=pd.Timestamp("2024-01-01") + pd.to_timedelta(frame["day"], unit="D")
    )
    for one in (frame, as_dates):
        weights = weights_of(pc.fit(one, named))
        assert {name: weights[name] for name in blocks} == pytest.approx(blocks, abs=1e-6)
    parts = [pc.summarize(rows, SPEC) for _, rows in frame.groupby("day")]
    by_hand = pc.finalize(pc.merge(parts), groups=parts, early=True)
    assert weights_of(by_hand) == pytest.approx(by_partition, abs=1e-6)


def seasons(logits: list[float], per_day: int = 300) -> pd.DataFrame:
    """Rows of days, whose classes `knows` tells apart and are as frequent as some logits say."""
    random = np.random.default_rng(5)
    day = np.repeat(np.arange(len(logits)), per_day)
    ill = random.uniform(size=len(day)) < 1.0 / (1.0 + np.exp(-np.array(logits)[day]))
    state = np.where(ill, "ill", "well")
    knows = 0.8 * ill + random.normal(size=len(day))
    return pd.DataFrame({"state": state, "knows": knows, "day": day})


def test_biases_follow_the_shares_of_the_latest_partitions(tmp_path: Path) -> None:
    """A quarter of the way from those of all, and nowhere if shares stay the same."""
    spec = dataclasses.replace(SPEC, blocks=(KNOWS,))
    ratio = {}
    for name, logits in {"steady": [0.0] * 13, "rising": np.linspace(-3, 1, 13).tolist()}.items():
        frame = seasons(logits)
        past, next_day = frame[frame["day"] < 12], frame[frame["day"] == 12]
        drifting = pc.fit(lake_of(past, tmp_path / name), spec)
        level = pc.fit(past, dataclasses.replace(spec, groups="day"))
        by_name = [weights_of(one) for one in (drifting, level)]
        follows = [weights["ill"] - weights["well"] for weights in by_name]
        moved = follows[0] - follows[1]
        mean = np.log(past["state"].eq("ill").mean() / past["state"].eq("well").mean())
        assert moved == pytest.approx(0.25 * (logits[11] - mean), abs=0.1)
        ratio[name] = (
            pc.evaluate(drifting, next_day).log_loss / pc.evaluate(level, next_day).log_loss
        )
    assert ratio["steady"] < 1.003
    assert ratio["rising"] < 0.98


def test_what_a_block_knows_of_a_day_is_not_trusted_on_the_next(tmp_path: Path) -> None:
    """Rows left out alone are among rows of their day; a new day has no such rows."""
    frame = visits(days=20)
    lake = lake_of(frame[frame["day"] < 14], tmp_path / "lake")
    later = frame[frame["day"] >= 14].drop(columns="day")
    by_day, by_row = (
        pc.fit(lake, pc.ModelSpec.auto(lake, "state", groups=groups))
        for groups in ("partitions", None)
    )
    losses = {
        name: pc.evaluate(one, later).log_loss
        for name, one in {"day": by_day, "row": by_row}.items()
    }
    assert losses["day"] < pc.evaluate(by_day, later).baseline_log_loss
    assert losses["day"] < 0.9 * losses["row"]
    grouped = dataclasses.replace(by_row.spec, groups="day")
    validated = pc.cross_validate(frame, {"day": grouped, "row": by_row.spec}, groups="day")
    assert validated.best == "day"


def test_the_name_of_a_group_tells_nothing_of_its_classes() -> None:
    """The others have fewer rows of the classes of a group: no estimate may give that away."""
    random = np.random.default_rng(4)
    day = np.repeat(np.arange(12), 100)
    ill = random.uniform(size=1200) < random.uniform(0.1, 0.9, 12)[day]
    frame = pd.DataFrame(
        {"state": np.where(ill, "ill", "well"), "knows": ill + random.normal(size=1200)}
    )
    frame["day"] = [f"day {number}" for number in day]
    names = pc.Block("categorical", ["day"], "name")
    spec = pc.ModelSpec("state", [KNOWS, names], block_weights="fit", groups="day")
    model = pc.fit(frame, spec)
    assert weights_of(model)["name"] == pytest.approx(0.0, abs=1e-6)
    alone = pc.fit(frame, dataclasses.replace(spec, blocks=(KNOWS,)))
    assert weights_of(model)["knows"] == pytest.approx(weights_of(alone)["knows"], rel=1e-3)


def test_shards_and_kept_statistics_give_one_model(tmp_path: Path) -> None:
    frame = visits(days=15)
    lake, store = lake_of(frame, tmp_path / "lake"), tmp_path / "store"
    expected = pc.fit(lake, SPEC, workers=1)
    for shard in plan_shards(lake, SPEC, cache=store, min_rows=1, most=4).shards:
        pc.summarize(lake, SPEC, shard=shard, cache=store)
    cached = pc.fit(lake, SPEC, cache=store)
    assert cached.training["cache"] == {"units": 15, "reused": 15}
    assert cached.id == expected.id
    assert expected.training["block_weights"]["groups"] == MOST_GROUPS
    lake_of(visits(days=16).query("day == 15"), lake)
    assert pc.fit(lake, SPEC, cache=store).training["cache"] == {"units": 16, "reused": 15}


def test_rows_are_left_out_alone_where_groups_tell_nothing(tmp_path: Path) -> None:
    """One partition, one for each class, or nearly all rows in one: nothing is predicted from."""
    frame = visits()
    alone = weights_of(pc.fit(frame.drop(columns="day"), SPEC))
    small = frame.assign(day=(np.arange(len(frame)) < 9).astype(int))
    classes = frame.assign(day=frame["state"])
    for name, one in {"one": frame.assign(day=0), "small": small, "classes": classes}.items():
        model = pc.fit(lake_of(one, tmp_path / name), SPEC)
        assert weights_of(model) == pytest.approx(alone, abs=1e-6)
        assert "groups" not in model.training["block_weights"]
    off = pc.fit(lake_of(frame, tmp_path / "off"), dataclasses.replace(SPEC, groups=None))
    assert weights_of(off) == pytest.approx(alone, abs=1e-6)


def test_a_class_of_one_group_says_nothing_there() -> None:
    frame = visits()
    frame.loc[frame["day"] == 2, "state"] = np.where(np.arange(60) < 5, "gone", "well")
    model = pc.fit(frame, dataclasses.replace(SPEC, groups="day"))
    assert model.training["block_weights"]["groups"] == DAYS
    assert np.isfinite([*weights_of(model).values()]).all()
    assert model.predict_proba(frame).sum(axis=1) == pytest.approx(1.0)


def test_groups_of_a_spec_survive_files() -> None:
    for groups in ("partitions", None, "day", ["day", "customer"]):
        spec = dataclasses.replace(SPEC, groups=groups)
        assert pc.ModelSpec.from_dict(spec.to_dict()) == spec
    assert "groups" not in SPEC.to_dict()


def test_columns_that_cannot_be_groups_are_refused() -> None:
    frame = visits().assign(words=[["a"]] * 60 * DAYS)
    with pytest.raises(DataError, match=r"groups: column 'words' is list<.*name a column of text"):
        pc.fit(frame, dataclasses.replace(SPEC, groups="words"))
    with pytest.raises(DataError, match="no column 'customer'"):
        pc.fit(frame, label="state", groups="customer")
    with pytest.raises(SpecError, match=r"groups= is for a spec that is derived"):
        pc.fit(frame, SPEC, groups="day")


@given(
    st.lists(
        st.tuples(st.tuples(st.none() | st.integers(0, 40)), st.integers(0, 1000)),
        min_size=1,
        max_size=60,
    )
)
def test_groups_are_runs_of_neighbors(parts: list[tuple[tuple[int | None], int]]) -> None:
    """Equal keys are one group, groups are in order, and there are at most twelve."""
    keys, rows = zip(*parts, strict=True)
    numbers = group_numbers(keys, rows)
    in_order = [
        number
        for _, number in sorted(
            zip(keys, numbers, strict=True), key=lambda pair: (pair[0][0] is not None, pair[0])
        )
    ]
    assert in_order == sorted(in_order)
    assert len({*zip(keys, numbers, strict=True)}) == len({*keys})
    distinct = len({*keys})
    assert {*numbers} == {*range(max(numbers) + 1)}
    assert len({*numbers}) <= MOST_GROUPS or not sum(rows)
    if distinct <= MOST_GROUPS:
        assert len({*numbers}) == distinct
