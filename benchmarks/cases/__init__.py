"""The cases, one file per subject; each ends with a tuple ``CASES``.

train_gaussian     diagonal and full normals from Parquet
train_categorical  text columns from Parquet
train_default      the default model, which chooses its blocks
layouts            four trainings and a scoring, of files in many layouts
retrain            a window of days after one new day, with cached statistics
engines            training by threads, by processes and by Spark
score              Parquet in, posteriors in Parquet out
score_sql          the query of a model in DuckDB
watch              a wide table scored with the health of its rows
knn                nearest neighbors, in few dimensions and in many
startup            a first fit, and the example DAGs parsed
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.case import Case

MODULES = (
    "train_gaussian",
    "train_categorical",
    "train_default",
    "layouts",
    "retrain",
    "engines",
    "score",
    "score_sql",
    "watch",
    "knn",
    "startup",
)


def all_cases() -> Iterator[tuple[str, Case[Any]]]:
    """Every case, with the name of the module that defines it."""
    for name in MODULES:
        module = f"{__name__}.{name}"
        cases: Sequence[Case[Any]] = importlib.import_module(module).CASES
        for case in cases:
            yield module, case
