"""Estimators that read the rows more than once: fits make the passes, finalize refuses too few."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import write_rows

import probclass_core as pc
from probclass_core.authoring import FloatArray, Rows, notes_of, number, with_notes
from probclass_core.errors import DataError, SpecError
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.estimation.statistics import refine
from probclass_core.model.stored import model_from_bundle
from probclass_core.training.shards import plan_shards


class Trimmed(GaussianDiagonal):
    """A normal of the rows within 3 of ``center``, the mean that the previous pass found."""

    name = "trimmed"

    class Options(GaussianDiagonal.Options):
        center: float | None = number(None, at_least=-np.inf, doc="Center of the rows to use.")

    options: Options

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        (name,) = self.features.names
        center = self.options.center
        if center is not None:
            values = rows.numbers(name)
            near = pa.array(np.where(np.abs(values - center) < 3.0, values, np.nan))
            rows = Rows(pa.record_batch({name: near}))
        return super().summarize(rows, classes, weights)

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parameters = super().finalize(statistics, classes)
        return with_notes(parameters, **notes_of(parameters), center=self.options.center)

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any]:
        count, mean = (statistics[name].to_numpy() for name in ("count", "mean"))
        return {"center": float(count @ mean / count.sum())}


def trimmed(allowed: int) -> type[pc.Estimator]:
    """The estimator with another number of passes."""

    class Allowed(Trimmed):
        passes = allowed

    return Allowed


SPEC = pc.ModelSpec("y", [pc.Block("trimmed", ["x"]), pc.Block("gaussian_diagonal", ["z"])])
X = [0.0, 1.0, 2.0, 11.0, 1.0, 2.0, 3.0, 12.0]  # means 4, then 1.5 of those within 3 of it
TABLE = pa.table({"x": X, "y": list("aaaabbbb"), "z": X})


def centers(passes: int) -> list[float | None]:
    """The center that the last pass had, for each number of passes allowed."""
    result = []
    for allowed in range(1, passes + 1):
        with pc.trying(trimmed(allowed)):
            result.append(notes_of(pc.fit(TABLE, SPEC).parameters["trimmed"])["center"])
    return result


def test_a_fit_makes_as_many_passes_as_the_trait_allows() -> None:
    # All rows: mean 4. Within 3 of 4 are 2, 2 and 3, with mean 7 / 3. Within 3 of that: 6 rows.
    assert centers(4) == pytest.approx([None, 4.0, 7 / 3, 1.5])


def test_a_model_records_the_options_that_the_user_gave() -> None:
    with pc.trying(trimmed(4)):
        model = pc.fit(TABLE, SPEC)
        assert model.spec == SPEC
        assert model.training["passes"] == 4
        assert pc.fit(TABLE, model.spec).id == model.id
        assert model_from_bundle(model.to_bundle()).id == model.id
    with pc.trying(trimmed(1)):
        assert "passes" not in pc.fit(TABLE, SPEC).training


def test_passes_made_by_hand_give_the_model_of_a_fit() -> None:
    with pc.trying(trimmed(3)):
        statistics = pc.summarize(TABLE, SPEC)
        for made in (1, 2):
            refined = refine(statistics, passes=made)
            assert refined is not None
            halves = [pc.summarize(TABLE[rows], refined) for rows in (slice(0, 3), slice(3, 8))]
            statistics = pc.merge(halves)
        assert refine(statistics, passes=3) is None
        by_hand = pc.finalize(statistics, early=True)
        assert by_hand.parameters["trimmed"] == pc.fit(TABLE, SPEC).parameters["trimmed"]


def test_finalizing_before_the_last_pass_needs_early() -> None:
    with pc.trying(trimmed(2)):
        statistics = pc.summarize(TABLE, SPEC)
        with pytest.raises(SpecError, match=r"block 'trimmed' asks for another pass.*refine"):
            pc.finalize(statistics)
        early = pc.finalize(statistics, early=True)
        assert notes_of(early.parameters["trimmed"])["center"] is None


def test_a_reader_cannot_be_read_in_a_second_pass() -> None:
    message = "a reader can be read only once; pass a table or a path"
    with pc.trying(trimmed(2)), pytest.raises(DataError, match=message):
        pc.fit(TABLE.to_reader(), SPEC)


def test_every_pass_caches_its_own_statistics(tmp_path: Path) -> None:
    """A fit with cached statistics reads nothing in any pass; shards give the same model."""
    for start in range(0, 8, 2):
        write_rows(tmp_path / f"part={start}", TABLE[start : start + 2])
    rows, cache = str(tmp_path), str(tmp_path / "_cache")
    with pc.trying(trimmed(3)):
        cold = pc.fit(rows, SPEC)
        for shard in plan_shards(rows, SPEC, cache=cache, min_rows=4).shards:
            pc.summarize(rows, SPEC, shard=shard, cache=cache)
        first, again = (pc.fit(rows, SPEC, cache=cache) for _ in range(2))
        assert cold.id == first.id == again.id
    assert first.training["cache"] == {"units": 4, "reused": 0}  # in the last pass
    assert again.training["cache"] == {"units": 4, "reused": 4}


def test_refine_may_return_only_options_of_the_estimator() -> None:
    class Forgetful(GaussianDiagonal):
        name = "forgetful"
        passes = 2

        def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any]:
            return {"center": 0.0}

    with pc.trying(Forgetful), pytest.raises(SpecError, match="has no option 'center'"):
        pc.fit(TABLE, pc.ModelSpec("y", [pc.Block("forgetful", ["x"])]))
