"""Score a table: Parquet in, posteriors in Parquet out.

The floors read the same columns and write a scored table whose posteriors are ready beforehand.
They neither compute nor commit nor sync. One writes as pyarrow does by default; the others have our
writer's settings, which save the dictionaries of numbers that never repeat.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import probclass_core
from benchmarks.case import OURS, Bar, Case, Outcome
from benchmarks.cases.train_gaussian import fitted, matrix
from benchmarks.lake import CLASSES, ID, LABEL, ROW_GROUP, Lake, numbers

FLOOR = "bare read + write, one thread"
DEFAULTS = "bare read + write, one thread, default settings"
KEPT = [ID, LABEL]


@dataclass(frozen=True)
class Written:
    """A scored file.

    Attributes:
        path: the file.
        ready: its posteriors are not those of its rows.
    """

    path: Path
    ready: bool = False


def found(lake: Lake, written: Written) -> Outcome:
    """What the file says, which is then removed."""
    table = pq.read_table(written.path)
    written.path.unlink()
    held: Outcome = {"rows": table.num_rows, "ids": pc.sum(table[ID]).as_py()}
    if written.ready:
        return held
    right = pc.equal(table["prediction"], table[LABEL])
    posterior = [pc.mean(table[f"p_{name}"]).as_py() for name in CLASSES]
    means = {name: pc.mean(table[name]).as_py() for name in ("probability", "log_density")}
    return {**held, **means, "accuracy": pc.mean(right).as_py(), "posterior": posterior}


def case(estimator: str, bar: float) -> Case[Lake]:
    """The same work for each estimator; the bar is beside what anyone would write."""
    return Case(
        name=f"score_{estimator}",
        title=f"score {estimator} to Parquet",
        rows=4_000_000,
        prepare=numbers,
        reference="scikit-learn, streaming",
        bars=(Bar(bar, DEFAULTS), Bar(bar, FLOOR), Bar(1 / 3, "scikit-learn, streaming")),
        outcome=found,
    )


score_diagonal, score_full = case("gaussian_diagonal", 0.8), case("gaussian_full", 1.0)
CASES = (score_diagonal, score_full)


@score_full.contestant(DEFAULTS, is_floor=True)
@score_diagonal.contestant(DEFAULTS, is_floor=True)
def copy_by_default(lake: Lake) -> Written:
    """pyarrow.dataset to batches with use_threads=False, ParquetWriter as it comes."""
    return _copied(lake, use_threads=False, use_dictionary=True)


@score_full.contestant(FLOOR, is_floor=True)
@score_diagonal.contestant(FLOOR, is_floor=True)
def copy_on_one_thread(lake: Lake) -> Written:
    """pyarrow.dataset to batches with use_threads=False, ParquetWriter."""
    return _copied(lake, use_threads=False)


@score_full.contestant("bare read + write", is_floor=True)
@score_diagonal.contestant("bare read + write", is_floor=True)
def copy(lake: Lake) -> Written:
    """pyarrow.dataset to batches on all threads, ParquetWriter."""
    return _copied(lake, use_threads=True)


def _copied(lake: Lake, *, use_threads: bool, use_dictionary: bool | None = None) -> Written:
    ready = _ready(lake)

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = [batch.column(name) for name in KEPT]
        done = ready.slice(0, batch.num_rows).columns[len(KEPT) :]
        return pa.RecordBatch.from_arrays([*kept, *done], schema=ready.schema)

    path = _streamed(
        lake, ready.schema, rows, use_threads=use_threads, use_dictionary=use_dictionary
    )
    return Written(path, ready=True)


def _streamed(
    lake: Lake,
    schema: pa.Schema,
    scored: Callable[[pa.RecordBatch], pa.RecordBatch],
    *,
    use_threads: bool = True,
    use_dictionary: bool | None = None,
) -> Path:
    """Read, call and write, row group by row group; by default with our own writer's settings."""
    path = lake.scratch("scored")
    dataset = ds.dataset(lake.path)
    coded = _dictionaries(schema) if use_dictionary is None else use_dictionary
    with pq.ParquetWriter(path, schema, use_dictionary=coded) as writer:
        for batch in dataset.to_batches(
            columns=[*KEPT, *lake.features], batch_size=ROW_GROUP, use_threads=use_threads
        ):
            writer.write_batch(scored(batch), row_group_size=ROW_GROUP)
    return path


def _dictionaries(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if not pa.types.is_floating(field.type)]


@functools.cache
def _ready(lake: Lake) -> pa.RecordBatch:
    """One row group of the scored table."""
    path = lake.scratch("ready")
    first = ds.dataset(lake.path).head(ROW_GROUP)
    probclass_core.score(_model(lake, "gaussian_diagonal"), first, path, columns=KEPT)
    table = pq.read_table(path).combine_chunks()
    path.unlink()
    return table.to_batches()[0]


@score_diagonal.contestant(OURS)
def score_with_diagonal(lake: Lake) -> Written:
    """score, all threads, committed and synced."""
    return _scored(lake, "gaussian_diagonal")


@score_full.contestant(OURS)
def score_with_full(lake: Lake) -> Written:
    """score, all threads, committed and synced."""
    return _scored(lake, "gaussian_full")


def _scored(lake: Lake, estimator: str) -> Written:
    path = lake.scratch("scored")
    probclass_core.score(_model(lake, estimator), lake.path, path, columns=KEPT)
    return Written(path)


@functools.cache
def _model(lake: Lake, estimator: str) -> probclass_core.Model:
    """A model of the first rows."""
    return fitted(_sample(lake), lake.features, estimator)


def _sample(lake: Lake) -> pa.Table:
    return ds.dataset(lake.path).head(ROW_GROUP, columns=lake.columns)


@score_diagonal.contestant("scikit-learn, streaming")
def sklearn_diagonal(lake: Lake) -> Written:
    """GaussianNB.predict_joint_log_proba, batch by batch, ParquetWriter."""
    return _scored_by(lake, _naive(lake).predict_joint_log_proba)


@score_full.contestant("scikit-learn, streaming")
def sklearn_full(lake: Lake) -> Written:
    """QuadraticDiscriminantAnalysis.decision_function, batch by batch, ParquetWriter."""
    constant = 0.5 * len(lake.features) * np.log(2.0 * np.pi)  # which it leaves out
    return _scored_by(lake, lambda rows: _quadratic(lake).decision_function(rows) - constant)


@functools.cache
def _naive(lake: Lake) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB(var_smoothing=0.0).fit(*_rows_and_labels(lake))


@functools.cache
def _quadratic(lake: Lake) -> Any:
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    return QuadraticDiscriminantAnalysis().fit(*_rows_and_labels(lake))


def _rows_and_labels(lake: Lake) -> Iterable[np.ndarray]:
    sample = _sample(lake)
    return matrix(sample, lake.features), sample[LABEL].to_numpy()


def _scored_by(lake: Lake, joint: Callable[[np.ndarray], np.ndarray]) -> Written:
    """The scored table from joint log-likelihoods."""
    from scipy.special import logsumexp

    schema = _ready(lake).schema
    names, model_id = pa.array(CLASSES), _ready(lake)["model_id"][0]

    def columns(batch: pa.RecordBatch) -> Iterator[pa.Array]:
        yield from (batch.column(name) for name in KEPT)
        log_joint = joint(matrix(batch, lake.features))
        log_density = logsumexp(log_joint, axis=1)
        probability = np.exp(log_joint - log_density[:, None])
        decision = log_joint.argmax(axis=1)
        yield names.take(pa.array(decision))
        yield pa.array(probability[np.arange(len(decision)), decision])
        yield from (pa.array(column) for column in probability.T)
        yield pa.array(log_density)
        yield pa.repeat(model_id, batch.num_rows)

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(columns(batch)), schema=schema)

    return Written(_streamed(lake, schema, rows))
