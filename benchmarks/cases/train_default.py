"""Train the default model, which chooses its blocks, from Parquet: diamonds, by their cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks.case import OURS, Case, Outcome
from benchmarks.datasets import cached

DIAMONDS = Path(__file__).parents[1] / "data" / "diamonds.parquet"
LABEL = "label"


def diamonds(cache: Path, rows: int) -> Path:
    """The rows of the table again and again, in random order."""
    path = cache / f"diamonds-{rows}.parquet"
    table = pq.read_table(DIAMONDS)
    order = np.random.default_rng(0).permutation(np.arange(rows) % table.num_rows)
    cached(path, lambda unfinished: pq.write_table(table.take(pa.array(order)), unfinished))
    return path


train_default: Case[Path] = Case(
    name="train_default",
    title="train the default model from Parquet",
    rows=1_000_000,
    prepare=diamonds,
)
CASES = (train_default,)


@train_default.implementation("bare scan", is_baseline=True)
def scan(path: Path) -> Outcome:
    """pyarrow.dataset to batches, all threads."""
    return {"rows": sum(batch.num_rows for batch in ds.dataset(path).to_batches())}


def _trained(path: Path, spec: pc.ModelSpec) -> Outcome:
    return {"rows": pc.fit(path, spec).training["rows"]}


@train_default.implementation("probclass, its blocks known")
def fit_again(path: Path) -> Outcome:
    """fit with the spec of an earlier fit."""
    if path not in _specs:
        _specs[path] = pc.ModelSpec.auto(path, LABEL)
    return _trained(path, _specs[path])


_specs: dict[Path, pc.ModelSpec] = {}


@train_default.implementation("probclass, effort='fast'")
def fit_fast(path: Path) -> Outcome:
    """ModelSpec.auto with a block for each column, and fit."""
    return _trained(path, pc.ModelSpec.auto(path, LABEL, effort="fast"))


@train_default.implementation(OURS)
def fit(path: Path) -> Outcome:
    """ModelSpec.auto, with pairs and groups of columns, and fit."""
    return _trained(path, pc.ModelSpec.auto(path, LABEL))


@train_default.implementation("scikit-learn, gradient boosting")
def gradient_boosting(path: Path) -> Outcome:
    """read_parquet, and HistGradientBoostingClassifier on categories and numbers."""
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier

    table = pd.read_parquet(path)
    label = table.pop(LABEL)
    text = table.select_dtypes(exclude="number").columns
    table[text] = table[text].astype("category")
    HistGradientBoostingClassifier(categorical_features="from_dtype").fit(table, label)
    return {"rows": len(table)}
