"""Score a table: Parquet in, posteriors in Parquet out, with no column copied and with all.

The baselines read the same columns and write a scored table whose posteriors were computed before.
They do not compute, commit or sync. One writes with pyarrow's default settings; the others use the
settings of our writer, which writes dictionaries for the text of this table, whose values repeat,
and none for its numbers. All files are compressed with snappy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import probclass_core
from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.cases.train_gaussian import DUCKDB, POLARS, connect, fit, matrix
from benchmarks.datasets import CLASSES, ID, LABEL, ROW_GROUP, Dataset, numbers
from benchmarks.peers import duckdb_query, polars_query

BASELINE = "bare read + write, one thread"
DEFAULTS = "bare read + write, one thread, default settings"
SKLEARN = "scikit-learn, streaming"


@dataclass(frozen=True)
class Scoring:
    """What is scored, and how.

    Attributes:
        data: the table.
        estimator: family of the model, `gaussian_diagonal` or `gaussian_full`.
        copied: columns to copy.
    """

    data: Dataset
    estimator: str
    copied: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        rest = [name for name in self.copied if name not in self.data.features]
        return [*rest, *self.data.features]


@dataclass(frozen=True)
class ScoredFile:
    """A scored file.

    Attributes:
        path: path of the file.
        is_copy: whether its posteriors were copied and are not those of its rows.
    """

    path: Path
    is_copy: bool = False


def summarize(scoring: Scoring, file: ScoredFile) -> Outcome:
    """Totals and means of the columns of the file, which is then removed."""
    table = pq.read_table(file.path)
    file.path.unlink()
    totals: Outcome = {"rows": table.num_rows, "columns": len(table.column_names)}
    if ID in scoring.copied:
        totals = {**totals, "ids": pc.sum(table[ID]).as_py()}
    if file.is_copy:
        return totals
    decided = [pc.sum(pc.equal(table["prediction"], name)).as_py() for name in CLASSES]
    posterior = [pc.mean(table[f"p_{name}"]).as_py() for name in CLASSES]
    means = {name: pc.mean(table[name]).as_py() for name in ("probability", "log_density")}
    return {**totals, **means, "decided": decided, "posterior": posterior}


def prepared(estimator: str, *, all_columns: bool) -> Callable[[Path, int], Scoring]:
    """A function that prepares the scoring of `numbers`."""

    def prepare(cache: Path, rows: int) -> Scoring:
        data = numbers(cache, rows)
        return Scoring(data, estimator, (ID, *data.features, LABEL) if all_columns else ())

    return prepare


def scoring_case(estimator: str, *, all_columns: bool = False) -> Case[Scoring]:
    """A case for an estimator, with all columns copied or none."""
    copied = "all columns" if all_columns else "no column"
    case: Case[Scoring] = Case(
        name=f"score_{estimator}{'_all' if all_columns else ''}",
        title=f"score {estimator} to Parquet, {copied} copied",
        rows=4_000_000,
        prepare=prepared(estimator, all_columns=all_columns),
        reference=DUCKDB,
        targets=(Target(0.8, (DUCKDB, POLARS)), Target(1 / 3, SKLEARN)),
        outcome=summarize,
    )
    case.implementation(DEFAULTS, is_baseline=True)(copy_by_default)
    case.implementation(BASELINE, is_baseline=True)(copy_on_one_thread)
    case.implementation("bare read + write", is_baseline=True)(copy)
    case.implementation(OURS)(score)
    case.implementation(DUCKDB)(duckdb_copy)
    case.implementation(POLARS)(polars_sink)
    case.implementation(SKLEARN)(sklearn_streaming)
    return case


def copy_by_default(scoring: Scoring) -> ScoredFile:
    """pyarrow.dataset to batches with use_threads=False, ParquetWriter with default settings."""
    return _copy(scoring, use_threads=False, use_dictionary=True)


def copy_on_one_thread(scoring: Scoring) -> ScoredFile:
    """pyarrow.dataset to batches with use_threads=False, ParquetWriter."""
    return _copy(scoring, use_threads=False)


def copy(scoring: Scoring) -> ScoredFile:
    """pyarrow.dataset to batches on all threads, ParquetWriter."""
    return _copy(scoring, use_threads=True)


def _copy(scoring: Scoring, *, use_threads: bool, use_dictionary: bool | None = None) -> ScoredFile:
    scored = _scored_row_group(scoring)
    copied = len(scoring.copied)

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column(name) for name in scoring.copied]
        rest = scored.slice(0, batch.num_rows).columns[copied:]
        return pa.RecordBatch.from_arrays([*columns, *rest], schema=scored.schema)

    path = _stream(
        scoring, scored.schema, rows, use_threads=use_threads, use_dictionary=use_dictionary
    )
    return ScoredFile(path, is_copy=True)


def _stream(
    scoring: Scoring,
    schema: pa.Schema,
    to_scored: Callable[[pa.RecordBatch], pa.RecordBatch],
    *,
    use_threads: bool = True,
    use_dictionary: bool | None = None,
) -> Path:
    """Read, score and write by row group; by default with the settings of our writer."""
    path = scoring.data.scratch("scored")
    dictionaries = _dictionaries(schema) if use_dictionary is None else use_dictionary
    with pq.ParquetWriter(path, schema, use_dictionary=dictionaries) as writer:
        for batch in scoring.data.arrow().to_batches(
            columns=scoring.columns, batch_size=ROW_GROUP, use_threads=use_threads
        ):
            writer.write_batch(to_scored(batch), row_group_size=ROW_GROUP)
    return path


def _dictionaries(schema: pa.Schema) -> list[str]:
    return [
        field.name
        for field in schema
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
    ]


@functools.cache
def _scored_row_group(scoring: Scoring) -> pa.RecordBatch:
    """One row group of the scored table."""
    path = scoring.data.scratch("row-group")
    first = scoring.data.arrow().head(ROW_GROUP)
    probclass_core.score(_model(scoring), first, path, options={"columns": scoring.copied})
    table = pq.read_table(path).combine_chunks()
    path.unlink()
    return table.to_batches()[0]


def score(scoring: Scoring) -> ScoredFile:
    """score, all threads, committed and synced."""
    path = scoring.data.scratch("scored")
    probclass_core.score(
        _model(scoring), scoring.data.path, path, options={"columns": scoring.copied}
    )
    return ScoredFile(path)


@functools.cache
def _model(scoring: Scoring) -> probclass_core.Model:
    """A model fitted on the first rows."""
    return fit(_sample(scoring.data), scoring.data.features, scoring.estimator)


def _sample(data: Dataset) -> pa.Table:
    return data.arrow().head(ROW_GROUP, columns=data.columns)


def duckdb_copy(scoring: Scoring) -> ScoredFile:
    """COPY of one query with the densities, a log-sum-exp and a CASE."""
    path, data = scoring.data.scratch("scored"), scoring.data
    query = duckdb_query(_model(scoring), data.features, data.sql, scoring.copied)
    connect().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION snappy)")
    return ScoredFile(path)


def polars_sink(scoring: Scoring) -> ScoredFile:
    """The same as lazy expressions, sink_parquet."""
    path, data = scoring.data.scratch("scored"), scoring.data
    rows = polars_query(_model(scoring), data.features, data.polars(), scoring.copied)
    rows.sink_parquet(path, compression="snappy")
    return ScoredFile(path)


def sklearn_streaming(scoring: Scoring) -> ScoredFile:
    """Joint log-likelihoods of GaussianNB or QDA, batch by batch, ParquetWriter."""
    return _score_by(scoring, _sklearn_joint(scoring))


@functools.cache
def _sklearn_joint(scoring: Scoring) -> Callable[[np.ndarray], np.ndarray]:
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import GaussianNB

    sample = _sample(scoring.data)
    rows, labels = matrix(sample, scoring.data.features), sample[LABEL].to_numpy()
    if scoring.estimator == "gaussian_diagonal":
        naive_bayes = GaussianNB(var_smoothing=0.0).fit(rows, labels)
        joint: Callable[[np.ndarray], np.ndarray] = naive_bayes.predict_joint_log_proba
        return joint
    qda: Any = QuadraticDiscriminantAnalysis().fit(rows, labels)
    constant = 0.5 * rows.shape[1] * np.log(2.0 * np.pi)  # left out by scikit-learn
    return lambda batch: qda.decision_function(batch) - constant


def _score_by(scoring: Scoring, joint: Callable[[np.ndarray], np.ndarray]) -> ScoredFile:
    """Write a scored table from joint log-likelihoods."""
    from scipy.special import logsumexp

    schema = _scored_row_group(scoring).schema
    names, model_id = pa.array(CLASSES), _scored_row_group(scoring)["model_id"][0]

    def columns(batch: pa.RecordBatch) -> Iterator[pa.Array]:
        yield from (batch.column(name) for name in scoring.copied)
        log_joint = joint(matrix(batch, scoring.data.features))
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

    return ScoredFile(_stream(scoring, schema, rows))


CASES = tuple(
    scoring_case(estimator, all_columns=all_columns)
    for estimator in ("gaussian_diagonal", "gaussian_full")
    for all_columns in (False, True)
)
