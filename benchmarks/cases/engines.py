"""Train by threads, by processes and by Spark.

Spark ML is the library to compare with; it reads the rows with Spark's own readers.
"""

from __future__ import annotations

import functools
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import probclass_core as pc
from benchmarks.case import OURS, Case, Outcome
from benchmarks.cases.train_gaussian import SCAN, moments, scan, spark_ml, spark_session
from benchmarks.datasets import LABEL, Dataset, numbers

WORKERS = 2

engines: Case[Dataset] = Case(
    name="engines",
    title="train gaussian_diagonal by threads, processes and Spark",
    rows=4_000_000,
    prepare=numbers,
    reference=OURS,
)
CASES = (engines,)

engines.implementation(SCAN, is_baseline=True)(scan)


@engines.implementation(OURS)
def by_threads(data: Dataset) -> Outcome:
    """fit, two threads."""
    return _fit(data, None)


@engines.implementation("processes, started")
def by_processes(data: Dataset) -> Outcome:
    """fit with an executor of two processes, started before the timing."""
    return _fit(data, _pool())


@engines.implementation("processes, new")
def by_new_processes(data: Dataset) -> Outcome:
    """fit with engine='processes', including the start of two processes."""
    return _fit(data, "processes")


@engines.implementation("Spark")
def by_spark(data: Dataset) -> Outcome:
    """fit with a session in local mode, started before the timing."""
    return _fit(data, spark_session())


@engines.implementation("Spark ML")
def by_spark_ml(data: Dataset) -> Outcome:
    """NaiveBayes of gaussian type, in the same session."""
    outcome: Outcome = spark_ml(data)
    return outcome


def _fit(data: Dataset, engine: Any) -> Outcome:
    block = pc.Block("gaussian_diagonal", list(data.features))
    spec = pc.ModelSpec(label=LABEL, blocks=[block])
    model = pc.fit(data.path, spec, engine=engine, workers=WORKERS)
    return moments(model)


@functools.cache
def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"))
