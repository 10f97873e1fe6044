"""Train a categorical from Parquet: text columns, counted by class.

Two floors: the columns read as text, and read as the dictionaries that the file stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import probclass_core
from benchmarks.case import OURS, Bar, Case, Outcome
from benchmarks.cases.train_gaussian import asked_of_duckdb
from benchmarks.lake import CLASSES, LABEL, VALUES, Lake, categories

SCAN = "bare scan, as dictionaries"


def counted(lake: Lake, returned: Any) -> Outcome:
    """Counts by feature, class and value, of whatever a contestant has them in."""
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
    counts = np.zeros((len(lake.features), len(CLASSES), VALUES))
    for feature, label, value, count in cells:
        place = lake.features.index(feature), CLASSES.index(label)
        counts[(*place, int(value.removeprefix("value-")))] = count
    return {"rows": counts[0].sum(), "counts": counts}


train_categorical: Case[Lake] = Case(
    name="train_categorical",
    title="train categorical from Parquet",
    rows=4_000_000,
    prepare=categories,
    reference="DuckDB SQL",
    bars=(Bar(1.5, SCAN), Bar(1.0, "Polars SQL")),
    outcome=counted,
    tolerance=0.0,
)
CASES = (train_categorical,)

_KNOWN = pa.array([f"value-{code:02d}" for code in range(VALUES)])


@train_categorical.contestant(SCAN, is_floor=True)
def scan_dictionaries(lake: Lake) -> Outcome:
    """pyarrow.dataset to batches, all threads, dictionary_columns set."""
    return {"rows": sum(batch.num_rows for batch in _dictionaries(lake))}


@train_categorical.contestant("bare scan, as text", is_floor=True)
def scan_text(lake: Lake) -> Outcome:
    """pyarrow.dataset to batches, all threads."""
    batches = ds.dataset(lake.path).to_batches(columns=lake.columns)
    return {"rows": sum(batch.num_rows for batch in batches)}


@train_categorical.contestant(OURS)
def fit(lake: Lake) -> pa.Table:
    """fit, all threads."""
    block = probclass_core.Block("categorical", list(lake.features))
    model = probclass_core.fit(lake.path, probclass_core.ModelSpec(label=LABEL, blocks=[block]))
    return model.parameters["categorical"]


@train_categorical.contestant("DuckDB SQL")
def duckdb_sql(lake: Lake) -> list[tuple[Any, ...]]:
    """count(*) GROUP BY label, column, one query for each column."""
    cells: list[tuple[Any, ...]] = []
    for x in lake.features:
        query = f"SELECT '{x}', {LABEL}, {x}, count(*) FROM '{lake.path}' GROUP BY {LABEL}, {x}"
        cells += asked_of_duckdb(query)
    return cells


@train_categorical.contestant("Polars SQL")
def polars_sql(lake: Lake) -> list[tuple[str, pl.DataFrame]]:
    """one count(*) GROUP BY label, column for each column, collected together."""
    context = pl.SQLContext(lake=pl.scan_parquet(lake.path))
    queries = [
        context.execute(f"SELECT {LABEL}, {x}, COUNT(*) AS n FROM lake GROUP BY {LABEL}, {x}")
        for x in lake.features
    ]
    return list(zip(lake.features, pl.collect_all(queries), strict=True))


@train_categorical.contestant("scikit-learn, streaming")
def sklearn_streaming(lake: Lake) -> Outcome:
    """CategoricalNB.partial_fit on codes, batch by batch."""
    from sklearn.naive_bayes import CategoricalNB

    model = CategoricalNB(min_categories=VALUES)
    for batch in ds.dataset(lake.path).to_batches(columns=lake.columns):
        codes = [pc.index_in(batch[name], value_set=_KNOWN).to_numpy() for name in lake.features]
        model.partial_fit(np.column_stack(codes), batch[LABEL].to_numpy(False), CLASSES)
    counts = np.stack(model.category_count_)
    return {"rows": counts[0].sum(), "counts": counts}


def _dictionaries(lake: Lake) -> Any:
    form = ds.ParquetFileFormat(read_options={"dictionary_columns": lake.columns})
    return ds.dataset(lake.path, format=form).to_batches(columns=lake.columns)
