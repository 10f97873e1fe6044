"""Score a table: Parquet in, posteriors in Parquet out.

The baselines read the same columns and write a scored table whose posteriors were computed before.
They do not compute, commit or sync. One writes with pyarrow's default settings; the others use the
settings of our writer, which writes dictionaries for the text of this table, whose values repeat,
and none for its numbers.
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
from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.cases.train_gaussian import fit, matrix
from benchmarks.datasets import CLASSES, ID, LABEL, ROW_GROUP, Dataset, numbers

BASELINE = "bare read + write, one thread"
DEFAULTS = "bare read + write, one thread, default settings"
COPIED = [ID, LABEL]


@dataclass(frozen=True)
class ScoredFile:
    """A scored file.

    Attributes:
        path: path of the file.
        is_copy: whether its posteriors were copied and are not those of its rows.
    """

    path: Path
    is_copy: bool = False


def summarize(data: Dataset, file: ScoredFile) -> Outcome:
    """Totals and means of the columns of the file, which is then removed."""
    table = pq.read_table(file.path)
    file.path.unlink()
    totals: Outcome = {"rows": table.num_rows, "ids": pc.sum(table[ID]).as_py()}
    if file.is_copy:
        return totals
    right = pc.equal(table["prediction"], table[LABEL])
    posterior = [pc.mean(table[f"p_{name}"]).as_py() for name in CLASSES]
    means = {name: pc.mean(table[name]).as_py() for name in ("probability", "log_density")}
    return {**totals, **means, "accuracy": pc.mean(right).as_py(), "posterior": posterior}


def scoring_case(estimator: str, limit: float) -> Case[Dataset]:
    """A case for an estimator; the limit is a ratio to reading and writing on one thread."""
    return Case(
        name=f"score_{estimator}",
        title=f"score {estimator} to Parquet",
        rows=4_000_000,
        prepare=numbers,
        reference="scikit-learn, streaming",
        targets=(
            Target(limit, DEFAULTS),
            Target(limit, BASELINE),
            Target(1 / 3, "scikit-learn, streaming"),
        ),
        outcome=summarize,
    )


score_diagonal = scoring_case("gaussian_diagonal", 0.8)
score_full = scoring_case("gaussian_full", 1.0)
CASES = (score_diagonal, score_full)


@score_full.implementation(DEFAULTS, is_baseline=True)
@score_diagonal.implementation(DEFAULTS, is_baseline=True)
def copy_by_default(data: Dataset) -> ScoredFile:
    """pyarrow.dataset to batches with use_threads=False, ParquetWriter with default settings."""
    return _copy(data, use_threads=False, use_dictionary=True)


@score_full.implementation(BASELINE, is_baseline=True)
@score_diagonal.implementation(BASELINE, is_baseline=True)
def copy_on_one_thread(data: Dataset) -> ScoredFile:
    """pyarrow.dataset to batches with use_threads=False, ParquetWriter."""
    return _copy(data, use_threads=False)


@score_full.implementation("bare read + write", is_baseline=True)
@score_diagonal.implementation("bare read + write", is_baseline=True)
def copy(data: Dataset) -> ScoredFile:
    """pyarrow.dataset to batches on all threads, ParquetWriter."""
    return _copy(data, use_threads=True)


def _copy(data: Dataset, *, use_threads: bool, use_dictionary: bool | None = None) -> ScoredFile:
    scored = _scored_row_group(data)

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        copied = [batch.column(name) for name in COPIED]
        rest = scored.slice(0, batch.num_rows).columns[len(COPIED) :]
        return pa.RecordBatch.from_arrays([*copied, *rest], schema=scored.schema)

    path = _stream(
        data, scored.schema, rows, use_threads=use_threads, use_dictionary=use_dictionary
    )
    return ScoredFile(path, is_copy=True)


def _stream(
    data: Dataset,
    schema: pa.Schema,
    score: Callable[[pa.RecordBatch], pa.RecordBatch],
    *,
    use_threads: bool = True,
    use_dictionary: bool | None = None,
) -> Path:
    """Read, score and write by row group; by default with the settings of our writer."""
    path = data.scratch("scored")
    dataset = ds.dataset(data.path)
    dictionaries = _dictionaries(schema) if use_dictionary is None else use_dictionary
    with pq.ParquetWriter(path, schema, use_dictionary=dictionaries) as writer:
        for batch in dataset.to_batches(
            columns=[*COPIED, *data.features], batch_size=ROW_GROUP, use_threads=use_threads
        ):
            writer.write_batch(score(batch), row_group_size=ROW_GROUP)
    return path


def _dictionaries(schema: pa.Schema) -> list[str]:
    return [
        field.name
        for field in schema
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
    ]


@functools.cache
def _scored_row_group(data: Dataset) -> pa.RecordBatch:
    """One row group of the scored table."""
    path = data.scratch("row-group")
    first = ds.dataset(data.path).head(ROW_GROUP)
    probclass_core.score(_model(data, "gaussian_diagonal"), first, path, columns=COPIED)
    table = pq.read_table(path).combine_chunks()
    path.unlink()
    return table.to_batches()[0]


@score_diagonal.implementation(OURS)
def score_with_diagonal(data: Dataset) -> ScoredFile:
    """score, all threads, committed and synced."""
    return _score(data, "gaussian_diagonal")


@score_full.implementation(OURS)
def score_with_full(data: Dataset) -> ScoredFile:
    """score, all threads, committed and synced."""
    return _score(data, "gaussian_full")


def _score(data: Dataset, estimator: str) -> ScoredFile:
    path = data.scratch("scored")
    probclass_core.score(_model(data, estimator), data.path, path, columns=COPIED)
    return ScoredFile(path)


@functools.cache
def _model(data: Dataset, estimator: str) -> probclass_core.Model:
    """A model fitted on the first rows."""
    return fit(_sample(data), data.features, estimator)


def _sample(data: Dataset) -> pa.Table:
    return ds.dataset(data.path).head(ROW_GROUP, columns=data.columns)


@score_diagonal.implementation("scikit-learn, streaming")
def sklearn_diagonal(data: Dataset) -> ScoredFile:
    """GaussianNB.predict_joint_log_proba, batch by batch, ParquetWriter."""
    return _score_by(data, _naive_bayes(data).predict_joint_log_proba)


@score_full.implementation("scikit-learn, streaming")
def sklearn_full(data: Dataset) -> ScoredFile:
    """QuadraticDiscriminantAnalysis.decision_function, batch by batch, ParquetWriter."""
    constant = 0.5 * len(data.features) * np.log(2.0 * np.pi)  # left out by scikit-learn
    return _score_by(data, lambda rows: _qda(data).decision_function(rows) - constant)


@functools.cache
def _naive_bayes(data: Dataset) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB(var_smoothing=0.0).fit(*_rows_and_labels(data))


@functools.cache
def _qda(data: Dataset) -> Any:
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    return QuadraticDiscriminantAnalysis().fit(*_rows_and_labels(data))


def _rows_and_labels(data: Dataset) -> Iterable[np.ndarray]:
    sample = _sample(data)
    return matrix(sample, data.features), sample[LABEL].to_numpy()


def _score_by(data: Dataset, joint: Callable[[np.ndarray], np.ndarray]) -> ScoredFile:
    """Write a scored table from joint log-likelihoods."""
    from scipy.special import logsumexp

    schema = _scored_row_group(data).schema
    names, model_id = pa.array(CLASSES), _scored_row_group(data)["model_id"][0]

    def columns(batch: pa.RecordBatch) -> Iterator[pa.Array]:
        yield from (batch.column(name) for name in COPIED)
        log_joint = joint(matrix(batch, data.features))
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

    return ScoredFile(_stream(data, schema, rows))
