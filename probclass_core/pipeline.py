"""The road end to end: fit, score and evaluate tables.

table → fragments → statistics → parameters → log-likelihoods → posterior → table
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from probclass_core.engines.local import ordered_map
from probclass_core.errors import SpecError, TableError
from probclass_core.evaluation import Evaluation, Evaluator
from probclass_core.model import Model, finalize
from probclass_core.scoring import PosteriorFormat, Scorer
from probclass_core.spec import ModelSpec
from probclass_core.statistics import Statistics, merge, summarize_batches
from probclass_core.tables import open_table
from probclass_core.tables.filters import Where
from probclass_core.tables.table import Fragment, Plan, Table

Progress = Callable[[int, int | None], None]
"""Told ``(rows done, rows in all if known)`` after each batch and once more right before a commit.
What it raises ends the work, and nothing is committed."""

_MERGE_EVERY = 256
"""Fragments after which their statistics are merged, so that many files fit in memory."""


def fit(
    source: Any,
    spec: ModelSpec,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Model:
    """Train a model: ``finalize(summarize(source, spec))``.

    Args:
        source: a path, table, frame, reader or dataset; see `tables.open_table`.
        spec: the model.
        partition: read this partition only, such as ``{"month": "2014-01"}``.
        where: read these rows only: ``[("month", ">=", "2013-01"), …]``, all of which must hold.
        workers: threads; by default every processor. The model does not depend on it.
        progress: see `Progress`.

    Raises:
        SpecError: the spec does not fit the table's columns.
        DataError: the rows cannot carry the model.
        TableError: the table or partition is not there or cannot be read.
        PluginError: an estimator is unknown.
    """
    table = open_table(source)
    statistics, plan = _summarize(table, spec, partition, where, workers, progress)
    model = finalize(statistics)
    origin = {
        "source": table.uri,
        "snapshot": plan.snapshot,
        "partition": _plain(partition),
        "where": _plain(where),
    }
    training = {**model.training, **{k: v for k, v in origin.items() if v is not None}}
    return dataclasses.replace(model, training=training)


def summarize(
    source: Any,
    spec: ModelSpec,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Statistics:
    """Sufficient statistics of a table: the first step of training; arguments as for `fit`."""
    return _summarize(open_table(source), spec, partition, where, workers, progress)[0]


def _summarize(
    table: Table,
    spec: ModelSpec,
    partition: Mapping[str, Any] | None,
    where: Where,
    workers: int | None,
    progress: Progress | None,
) -> tuple[Statistics, Plan]:
    plan = table.plan(spec.training_columns, partition=partition, where=where)
    counter = _Counter(progress, plan.rows)

    def of(fragment: Fragment) -> Statistics:
        return summarize_batches(spec, plan.schema, fragment.read(), counter.add)

    # An empty table still has a schema for the spec to be checked against.
    parts = [summarize_batches(spec, plan.schema, ())]
    for part in ordered_map(of, plan.fragments, workers):
        parts.append(part)
        if len(parts) > _MERGE_EVERY:
            parts = [merge(parts)]
    return merge(parts), plan


def evaluate(
    model: Model,
    source: Any,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a model on labelled rows; arguments as for `fit`.

    Raises:
        DataError: a column is missing, or no row has a label the model knows.
        TableError: the table or partition is not there or cannot be read.
    """
    columns = (model.spec.label, *model.spec.features)
    plan = open_table(source).plan(columns, partition=partition, where=where)
    counter = _Counter(progress, plan.rows)
    evaluator = Evaluator(model)
    for part in ordered_map(evaluator.measure, counter.counted(plan.batches()), workers):
        evaluator.add(part)
    return evaluator.result()


@dataclass(frozen=True)
class ScoreReport:
    """What a scoring did.

    Attributes:
        rows: rows that stand in the sink because of this call or of an equal one before it.
        partitions: the partitions concerned; empty for an unpartitioned table.
        skipped: how many of the commits were already there and left alone.
        model_id: content id of the model.
        uri: of the sink.
        commit_id: digest of model, input, configuration and partition; over all partitions.
        seconds: wall time.
    """

    rows: int
    partitions: Sequence[Mapping[str, Any]]
    skipped: int
    model_id: str
    uri: str
    commit_id: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        return plain


def score(
    model: Model,
    source: Any,
    sink: str | Path,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    columns: Sequence[str] | None = None,
    posterior: PosteriorFormat = "columns",
    overwrite: str = "partition",
    workers: int | None = None,
    progress: Progress | None = None,
) -> ScoreReport:
    """Score a table into a Parquet table, one atomic commit per partition.

    The sink has the source's partitions. A partition is replaced whole; when the one that stands
    there came of the same model, input and configuration, it is left alone. A reader finds the old
    partition or the new one at every instant.

    Args:
        model: what scores.
        source: as for `fit`.
        sink: directory of the scored table, or one ``.parquet`` file.
        partition: score this partition only; by default, each partition of the source in turn.
        where: score these rows only; partitions without any are left alone.
        columns: columns to keep in the scored table; all by default.
        posterior: one column per class, or one list column; see `scoring.Scorer`.
        overwrite: ``"partition"`` replaces what stands there; ``"never"`` refuses unless it came of
            the same inputs.
        workers: threads; by default every processor.
        progress: see `Progress`.

    Raises:
        SpecError: a kept column has the name of a scored one, or an argument is no choice.
        DataError: a column is missing or holds what it must not.
        TableError: source or sink cannot be read or written, or the source has no rows.
    """
    from probclass_core.tables.parquet import local_path
    from probclass_core.tables.staging import ParquetSink

    began = time.monotonic()
    if overwrite not in ("partition", "never"):
        raise SpecError(f"overwrite must be 'partition' or 'never', got {overwrite!r}.")
    table, root = open_table(source), local_path(sink)
    if table.uri is not None and Path(table.uri).resolve() == root.resolve():
        raise TableError(f"{root} is the source; write the scored table somewhere else.")
    partitions: list[Mapping[str, Any] | None] = [partition]
    if partition is None and table.partition_columns:
        partitions = list(table.partitions(where))
    elif partition is not None and set(partition) != set(table.partition_columns):
        raise TableError(
            f"partition {dict(partition)} must name the partition columns of the source, "
            f"{list(table.partition_columns)}, no others; choose rows with where."
        )
    plans = [(part, _score_plan(table, model, part, where, columns)) for part in partitions]
    total = [plan.rows for _, plan in plans]
    counter = _Counter(progress, None if None in total else sum(filter(None, total)))
    rows, skipped, commits = 0, 0, []
    for part, plan in plans:
        kept = _kept_columns(table, plan, columns)
        scorer = Scorer(model, plan.schema, kept, posterior)
        place = ParquetSink(root, _in_order(part, table.partition_columns))
        commit = _commit_record(scorer, plan, part, where)
        standing = place.commit
        if standing and plan.snapshot and standing.get("commit_id") == commit["commit_id"]:
            skipped += 1
            rows += int(standing["rows"]) if "rows" in standing else plan.rows or 0
            counter.add(plan.rows or 0)
        else:
            if overwrite == "never" and place.target.exists():
                raise TableError(f"{place.target} is there already; overwrite='never' keeps it.")
            with place.stage(scorer.schema, commit) as staged:
                batches = counter.counted(plan.batches())
                for batch in ordered_map(scorer.score, batches, workers):
                    staged.write(batch)
                if not staged.rows:
                    raise TableError(f"{table.uri or 'the source'} has no rows to score.")
                counter.add(0)  # the last chance to stop before the commit
                staged.publish()
            rows += staged.rows
        commits.append(commit["commit_id"])
    return ScoreReport(
        rows=rows,
        partitions=[part for part in partitions if part],
        skipped=skipped,
        model_id=model.id,
        uri=str(root),
        commit_id=commits[0] if len(commits) == 1 else _digest(commits),
        seconds=time.monotonic() - began,
    )


def _score_plan(
    table: Table,
    model: Model,
    partition: Mapping[str, Any] | None,
    where: Where,
    columns: Sequence[str] | None,
) -> Plan:
    read = list(table.schema.names) if columns is None else list(columns)
    read += [name for name in model.spec.features if name not in read]
    return table.plan(read, partition=partition, where=where)


def _kept_columns(table: Table, plan: Plan, columns: Sequence[str] | None) -> list[str]:
    """The passthrough columns; those that the sink's directories spell out are not among them."""
    chosen = plan.schema.names if columns is None else columns
    return [name for name in chosen if name not in table.partition_columns]


def _in_order(
    partition: Mapping[str, Any] | None, columns: Sequence[str]
) -> Mapping[str, Any] | None:
    return None if partition is None else {name: partition[name] for name in columns}


def _commit_record(
    scorer: Scorer, plan: Plan, partition: Mapping[str, Any] | None, where: Where
) -> dict[str, Any]:
    record = {
        "model_id": scorer.model.id,
        "input": plan.snapshot,
        "partition": _plain(partition),
        "where": _plain(where),
        "schema": [[field.name, str(field.type)] for field in scorer.schema],
    }
    return {"commit_id": _digest(record), **record}


class _Counter:
    """Rows done, counted from many threads, told to one `Progress`."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def add(self, rows: int) -> None:
        with self._lock:
            self._done += rows
            if self._progress is not None:
                self._progress(self._done, self._total)

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            self.add(batch.num_rows)


def _plain(value: Any) -> Any:
    """As JSON has it; what it has not (expressions, times) as text."""
    return json.loads(json.dumps(value, default=str))


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
