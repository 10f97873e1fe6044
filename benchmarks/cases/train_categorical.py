"""Train a categorical from Parquet: text columns, counted by class.

There are two baselines: read the columns as text, and as the dictionaries that the file stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import probclass_core
from benchmarks.case import NUMPY, OURS, Case, Outcome, Target
from benchmarks.cases.train_gaussian import DUCKDB, POLARS, query_duckdb, without_kernels
from benchmarks.datasets import CLASSES, LABEL, VALUES, Dataset, categories

SCAN = "bare scan, as dictionaries"


def to_counts(data: Dataset, returned: Any) -> Outcome:
    """Counts by feature, class and value, from any form in which they are returned."""
    if isinstance(returned, dict):
        return returned
    if isinstance(returned, pa.Table):
        columns = ["feature", "class", "value", "count"]
        cells: Iterable[tuple[Any, ...]] = zip(
            *(returned[name].to_pylist() for name in columns), strict=True
        )
    elif isinstance(returned[0][1], pl.DataFrame):
        cells = ((x, *row) for x, frame in returned for row in frame.rows())
    else:
        cells = returned
    counts = np.zeros((len(data.features), len(CLASSES), VALUES))
    for feature, label, value, count in cells:
        if value is None:
            continue
        position = data.features.index(feature), CLASSES.index(label)
        counts[(*position, int(value.removeprefix("value-")))] = count
    return {"rows": counts[0].sum(), "counts": counts}


train_categorical: Case[Dataset] = Case(
    name="train_categorical",
    title="train categorical from Parquet",
    rows=4_000_000,
    prepare=categories,
    reference=DUCKDB,
    targets=(Target(1.0, SCAN), Target(0.5, POLARS)),
    outcome=to_counts,
    tolerance=0.0,
)
CASES = (train_categorical,)

_KNOWN = pa.array([f"value-{code:02d}" for code in range(VALUES)])


@train_categorical.implementation(SCAN, is_baseline=True)
def scan_dictionaries(data: Dataset) -> Outcome:
    """pyarrow.dataset to batches, all threads, dictionary_columns set."""
    batches = data.arrow(dictionaries=data.columns).to_batches(columns=data.columns)
    return {"rows": sum(batch.num_rows for batch in batches)}


@train_categorical.implementation("bare scan, as text", is_baseline=True)
def scan_text(data: Dataset) -> Outcome:
    """pyarrow.dataset to batches, all threads."""
    return {"rows": sum(b.num_rows for b in data.arrow().to_batches(columns=data.columns))}


@train_categorical.implementation(OURS)
def fit(data: Dataset) -> pa.Table:
    """fit, all threads."""
    block = probclass_core.Block("categorical", list(data.features))
    model = probclass_core.fit(data.path, probclass_core.ModelSpec(label=LABEL, blocks=[block]))
    return model.parameters["categorical"]


@train_categorical.implementation(NUMPY)
def fit_by_numpy(data: Dataset) -> pa.Table:
    """fit without probclass-kernels, all threads."""
    without_kernels()
    return fit(data)


@train_categorical.implementation(DUCKDB)
def duckdb_sql(data: Dataset) -> list[tuple[Any, ...]]:
    """count(*) GROUP BY label, column, one query for each column."""
    cells: list[tuple[Any, ...]] = []
    for x in data.features:
        query = f"SELECT '{x}', {LABEL}, {x}, count(*) FROM {data.sql} GROUP BY {LABEL}, {x}"
        cells += query_duckdb(query)
    return cells


@train_categorical.implementation(POLARS)
def polars_counts(data: Dataset) -> list[tuple[str, pl.DataFrame]]:
    """len, grouped by class and value, for each column, collected together."""
    table = data.polars()
    queries = [table.group_by(LABEL, x).len() for x in data.features]
    return list(zip(data.features, pl.collect_all(queries), strict=True))


@train_categorical.implementation("scikit-learn, streaming")
def sklearn_streaming(data: Dataset) -> Outcome:
    """CategoricalNB.partial_fit on codes, batch by batch."""
    from sklearn.naive_bayes import CategoricalNB

    model = CategoricalNB(min_categories=VALUES)
    for batch in data.arrow().to_batches(columns=data.columns):
        codes = [pc.index_in(batch[name], value_set=_KNOWN).to_numpy() for name in data.features]
        model.partial_fit(np.column_stack(codes), batch[LABEL].to_numpy(False), CLASSES)
    counts = np.stack(model.category_count_)
    return {"rows": counts[0].sum(), "counts": counts}
