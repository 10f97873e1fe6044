"""A label that is a measurement or an id is refused before its values are modeled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import DataError
from probclass_core.sklearn import ProbClassifier
from probclass_core.training.shards import plan_shards

RANDOM = np.random.default_rng(0)
ROWS = 53_940


def rows_with(label: Any, columns: int = 6) -> pa.Table:
    """Rows of a label, with columns that it does not depend on."""
    numbers = {f"x{i}": RANDOM.normal(size=len(label)).round(2) for i in range(columns)}
    kinds = RANDOM.choice(["fair", "good", "ideal"], len(label))
    return pa.table({**numbers, "cut": kinds, "y": label})


PRICES = rows_with(RANDOM.permutation(np.arange(ROWS) % 1680) + 326)
IDS = rows_with([f"customer {i}" for i in range(3000)])
SPEC = pc.ModelSpec("y", {"gaussian_full": ["x0", "x1"], "categorical": "cut"})
TRAINED: dict[str, Callable[[pa.Table], Any]] = {
    "fit": lambda table: pc.fit(table, label="y"),
    "auto": lambda table: pc.ModelSpec.auto(table, "y"),
    "a spec": lambda table: pc.fit(table, SPEC),
    "a reader": lambda table: pc.fit(table.to_reader(), label="y"),
    "cross_validate": lambda table: pc.cross_validate(table, SPEC),
    "ProbClassifier": lambda table: ProbClassifier().fit(
        table.drop_columns("y"), table["y"].to_numpy()
    ),
    "merged statistics": lambda table: pc.finalize(
        pc.merge([pc.summarize(table[:1500], SPEC), pc.summarize(table[1500:], SPEC)])
    ),
}


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("by", TRAINED)
def test_prices_and_ids_are_refused_at_once(by: str) -> None:
    began = process_time()
    with pytest.raises(DataError, match=r"label 'y' has at least 1,680 .* Bin or group"):
        TRAINED[by](PRICES)
    with pytest.raises(DataError, match=r"\(customer .* an id has.* max_classes"):
        TRAINED[by](IDS)
    assert process_time() - began < 4.0


def test_a_sorted_label_is_refused_although_its_first_rows_have_few_values() -> None:
    with pytest.raises(DataError, match="as a measurement or an id has"):
        pc.fit(PRICES.sort_by("y"), label="y")


def test_a_mapped_training_is_refused_when_its_parts_are_merged(tmp_path: Path) -> None:
    lake, store = tmp_path / "lake", tmp_path / "store"
    for part in range(3):
        write_rows(lake / f"part={part}", PRICES.slice(part * 18_000, 18_000))
    plan = plan_shards(lake, SPEC, cache=store, min_rows=1)
    assert len(plan.shards) > 1
    for shard in plan.shards:
        pc.summarize(lake, SPEC, shard=shard, cache=store)
    with pytest.raises(DataError, match="as a measurement or an id has"):
        pc.fit(lake, SPEC, cache=store)


def test_fractions_are_refused_as_labels() -> None:
    prices = PRICES["y"].to_numpy() + 0.5
    with pytest.raises(DataError, match=r"1680 distinct values .* bin it into classes"):
        pc.fit(PRICES.set_column(7, "y", [prices]), label="y")
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        ProbClassifier().fit(PRICES.drop_columns("y"), prices)


@pytest.mark.parametrize(
    "label",
    [
        np.arange(2000) % 100,  # few
        np.arange(6000) % 300,  # 300 codes of 20 rows
        [f"kind {i % 300}" for i in range(1500)],  # 300 texts of 5 rows
        np.arange(60_000) % 1200,  # 1,200 codes of 50 rows
    ],
    ids=["100 codes", "300 codes", "300 texts", "1,200 codes"],
)
def test_many_classes_with_enough_rows_are_trained(label: Any) -> None:
    table = rows_with(label, columns=2)
    model = pc.fit(table, pc.ModelSpec("y", {"gaussian_diagonal": ["x0", "x1"]}))
    assert len(model.classes) == len(set(np.asarray(label).tolist()))


@pytest.mark.nightly
def test_a_sample_of_few_rows_of_each_class_is_no_reason_to_refuse() -> None:
    """Blocks are chosen on 32,768 rows, less than 50 of each of 1,010 classes."""
    table = rows_with(np.arange(60_600) % 1010, columns=1)
    assert pc.ModelSpec.auto(table, "y", effort="fast").label == "y"


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_max_classes_allows_them_wherever_a_model_is_described(tmp_path: Path) -> None:
    ids = IDS[:110]
    derived = {"effort": "fast", "max_classes": 110}
    assert pc.ModelSpec.auto(ids, "y", **derived).max_classes == 110  # type: ignore[arg-type]
    spec = pc.ModelSpec("y", {"gaussian_diagonal": "x0"}, max_classes=110)
    assert len(pc.fit(ids, spec).classes) == 110
    (tmp_path / "spec.toml").write_text(
        'label = "y"\nmax_classes = 110\n[[blocks]]\nestimator = "gaussian_diagonal"\n'
        'columns = ["x0"]\n'
    )
    assert pc.ModelSpec.from_file(tmp_path / "spec.toml") == spec
    assert pc.ModelSpec.from_dict(spec.to_dict()) == spec
    with pytest.raises(DataError, match="too many for classes"):
        pc.fit(ids, label="y")
    labels = ids["y"].to_numpy()
    classifier = ProbClassifier("gaussian_diagonal", max_classes=110)
    assert len(classifier.fit(ids.select(["x0"]), labels).classes_) == 110


def test_a_limit_of_the_user_is_kept() -> None:
    table = rows_with(np.arange(90) % 9, columns=1)
    spec = pc.ModelSpec("y", {"gaussian_diagonal": "x0"}, max_classes=8)
    with pytest.raises(DataError, match="9 different values, and the spec allows max_classes"):
        pc.fit(table, spec)


def test_a_spec_without_a_limit_keeps_its_digest() -> None:
    assert "max_classes" not in SPEC.to_dict()
