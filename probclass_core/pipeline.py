"""The road end to end: fit, score and evaluate tables.

table → fragments → statistics → parameters → log-likelihoods → posterior → table
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, get_args

import pyarrow as pa

from probclass_core.analysis.evaluation import Evaluation, Evaluator
from probclass_core.errors import DataError, SpecError, TableError, expect, one_of
from probclass_core.estimation.passes import refine
from probclass_core.estimation.statistics import Statistics, merge, summarize_batches
from probclass_core.execution.engine import Engine, EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.io.filters import Where
from probclass_core.io.footers import with_footer_cache
from probclass_core.io.memory import ReaderTable
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef
from probclass_core.io.table import Plan, Table
from probclass_core.model.decision import DecisionOption
from probclass_core.model.model import LOAD_HINT, Model, finalize
from probclass_core.scoring.batch import PosteriorFormat
from probclass_core.scoring.partition import Overwrite, Scoring, digest, plain
from probclass_core.spec import ModelSpec
from probclass_core.store.statistics_cache import CachedStatistics, CacheOption, StatisticsCache
from probclass_core.training.shards import Shard
from probclass_core.work import measures, summaries, written

Progress = Callable[[int, int | None], None]
"""Told ``(rows done, rows in all if known)`` after each batch and once more right before a commit.
What it raises ends the work, and nothing is committed."""

_MAKE_ONE = "make one by ModelSpec.from_file"
"""The mend where the path of a spec stands for the spec itself."""

_MERGE_EVERY = 256
"""Fragments after which their statistics are merged, so that many files fit in memory."""


def fit(
    source: Any,
    spec: ModelSpec,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: Progress | None = None,
    cache: CacheOption = None,
) -> Model:
    """Train a model: ``finalize(summarize(source, spec))``.

    Where an estimator asks for another pass over the rows, they are summarized once more, see
    `refine`; ``model.training["passes"]`` says how often they were.

    Args:
        source: a path, table, frame, reader or dataset; see `tables.open_table`.
        spec: the model.
        partition: read this partition only, such as ``{"month": "2014-01"}``.
        where: read these rows only: ``[("month", ">=", "2013-01"), …]``, all of which must hold.
        engine: who reads and summarizes: ``"threads"``, by default, ``"processes"``, ``"spark"``,
            an executor, a Spark session; see `EngineOption`. The model does not depend on it.
        workers: of the engine; by default every processor. The model does not depend on it.
        progress: see `Progress`.
        cache: a model store, or its URI, that keeps the statistics of fragments: those that are
            there are not read, the others are read and kept. `True` is the store that the
            environment variable ``PROBCLASS_STORE`` names. The model does not depend on it;
            ``model.training["cache"]`` says how many fragments there were, and how many reused.

    Raises:
        SpecError: the spec does not fit the table's columns, or there is no cache to be `True`.
        DataError: the rows cannot carry the model, or come from a reader, which can be read once,
            and another pass is due.
        TableError: the table or partition is not there or cannot be read.
        PluginError: an estimator or an engine is unknown.
        StoreError: the cache cannot be opened.
    """
    expect(spec, ModelSpec, _MAKE_ONE)
    cached = StatisticsCache.open(cache)
    kept = None if cached is None else cached.for_spec(spec)
    table = _opened(source, kept)
    plan = table.plan(
        spec.training_columns, partition=partition, where=where, allow_dictionaries=True
    )
    with open_engine(engine, workers) as opened:
        statistics, reused = _summarize(plan, spec, opened, progress, kept)
        passes = 1
        while (refined := refine(statistics, passes=passes)) is not None:
            if isinstance(table, ReaderTable):
                raise DataError(
                    "the model needs another pass over the rows, and a reader can be read once; "
                    "give a table or a path."
                )
            kept = None if cached is None else cached.for_spec(refined)
            statistics, reused = _summarize(plan, refined, opened, progress, kept)
            passes += 1
    if statistics.rows == 0 and (asked := plain(where)):
        raise DataError(f"there is nothing to train on: no row of the source meets {asked}.")
    model = finalize(statistics, early=True)
    training = {**model.training, **origin(table, plan, partition, where)}
    if passes > 1:
        training["passes"] = passes
    if cached is not None:
        training["cache"] = {"fragments": len(plan.fragments), "reused": reused}
    return dataclasses.replace(model, spec=spec, training=training)


def origin(
    table: Table, plan: Plan, partition: Mapping[str, Any] | None, where: Where
) -> dict[str, Any]:
    """Which rows were read, as plain values, for provenance; what does not apply is left out."""
    values = {
        "source": table.uri,
        "snapshot": plan.snapshot,
        "version": plan.version,
        "partition": plain(partition),
        "where": plain(where),
    }
    return {key: value for key, value in values.items() if value is not None}


def summarize(
    source: Any,
    spec: ModelSpec,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: Progress | None = None,
    cache: CacheOption = None,
    shard: Shard | str | None = None,
) -> Statistics:
    """Sufficient statistics of a table: the first step of training; arguments as for `fit`.

    With ``shard``, they are those of a part of it, as `plan_shards` has cut it.
    """
    expect(spec, ModelSpec, _MAKE_ONE)
    cached = StatisticsCache.open(cache)
    kept = None if cached is None else cached.for_spec(spec)
    table = _opened(source, kept)
    part = None if shard is None else Shard.parse(shard)
    plan = table.plan(
        spec.training_columns, partition=partition, where=where, allow_dictionaries=True
    )
    if part is not None:
        plan = part.part_of(plan)
    with open_engine(engine, workers) as opened:
        return _summarize(plan, spec, opened, progress, kept)[0]


def _opened(source: Any, kept: CachedStatistics | None) -> Table:
    """The table, which opens no file that statistics are kept of."""
    table = open_table(source)
    return table if kept is None else with_footer_cache(table, kept)


def _summarize(
    plan: Plan,
    spec: ModelSpec,
    engine: Engine,
    progress: Progress | None,
    kept: CachedStatistics | None,
) -> tuple[Statistics, int]:
    """Statistics, and how many fragments came from the cache."""
    counter = RowCounter(progress, plan.rows)
    # An empty table still has a schema for the spec to be checked against.
    parts = [summarize_batches(spec, plan.schema, ())]
    for part in summaries(plan, spec, engine, kept, counter.add):
        parts.append(part)
        if len(parts) > _MERGE_EVERY:
            parts = [merge(parts)]
    return merge(parts), 0 if kept is None else kept.reused


def evaluate(
    model: Model,
    source: Any,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    decision: DecisionOption = "map",
    engine: EngineOption = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a model on labeled rows; arguments as for `fit`, and the decision rule.

    Raises:
        DataError: a column is missing, or no row has a label the model knows.
        SpecError: the decision rule does not fit the model.
        NotSupportedError: it asks for a density that a block knows only up to a term.
        TableError: the table or partition is not there or cannot be read.
    """
    expect(model, Model, LOAD_HINT)
    columns = (model.spec.label, *model.spec.features)
    plan = open_table(source).plan(
        columns, partition=partition, where=where, allow_dictionaries=True
    )
    counter = RowCounter(progress, plan.rows)
    evaluator = Evaluator(model, decision)
    with open_engine(engine, workers) as opened:
        for part in measures(plan, evaluator, opened):
            counter.add(part.rows)
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
        return {**vars(self), "partitions": plain(self.partitions)}


def score(
    model: Model,
    source: Any,
    sink: str | Path | TableRef,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    columns: Sequence[str] | None = None,
    posterior: PosteriorFormat = "columns",
    decision: DecisionOption = "map",
    overwrite: Overwrite = "partition",
    run_id: str | None = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> ScoreReport:
    """Score a table into another, which is made where there is none: one atomic commit a partition.

    A partition is replaced whole, or added to; when what stands there came of the same model, input
    and configuration, it is left alone. A reader finds the old rows or the new ones at every
    instant, and never a part of them.

    Args:
        model: what scores.
        source: as for `fit`.
        sink: directory or URI of the scored table, or one ``.parquet`` file; a `TableRef` where
            its format or storage needs more words.
        partition: score these rows only and write them as this partition of the sink; by default,
            each partition of the source in turn, or the whole of an unpartitioned one.
        where: score these rows only; partitions without any are left alone.
        columns: columns to keep in the scored table; all by default.
        posterior: one column per class, or one list column; see `scoring.Scorer`.
        decision: how a class is chosen, and when none is; see `DecisionRule`.
        overwrite: ``"partition"`` replaces what stands there; ``"append"`` adds to it, once for
            each model, input and configuration; ``"never"`` refuses unless it came of the same.
        run_id: name of the run that this is part of, for the record of the commit.
        engine: who scores; as for `fit`. One worker of another process scores a partition, or a
            part of one that is large, and this process alone commits; the files are the same, byte
            for byte.
        workers: of the engine; by default every processor.
        progress: see `Progress`.

    Raises:
        SpecError: a kept column has the name of a scored one, an argument is no choice, or the
            decision rule does not fit the model.
        NotSupportedError: the rule asks for a density that a block knows only up to a term.
        DataError: a column is missing or holds what it must not.
        TableError: source or sink cannot be read or written, the sink has other columns, or the
            source has no rows, or rows outside the partition.
    """
    began = time.monotonic()
    expect(model, Model, LOAD_HINT)
    if overwrite not in get_args(Overwrite):
        choices = one_of(get_args(Overwrite))
        raise SpecError(f"overwrite must be one of {choices}, got {overwrite!r}.")
    table, place = open_table(source), TableRef.parse(sink)
    if table.uri is not None:
        _refuse_overlap(table.uri, place.uri)
    wanted: Sequence[Mapping[str, Any]] = [partition or {}]
    if not partition and table.partition_columns:
        wanted = table.partitions(where)
    scoring = Scoring(
        model=model,
        table=table,
        place=place,
        where=where,
        columns=columns,
        posterior=posterior,
        decision=decision,
        overwrite=overwrite,
        run_id=run_id,
    )
    parts = scoring.parts(wanted)
    counter = RowCounter(progress, _total(part.rows for part in parts))
    standing = [part.standing_rows for part in parts]
    todo = [part for part, rows in zip(parts, standing, strict=True) if rows is None]
    for part in todo if overwrite == "never" else todo[:1]:
        part.check_place(parts)
    for part, rows in zip(parts, standing, strict=True):
        if rows is not None:
            counter.add(part.rows or 0)
    with open_engine(engine, workers) as opened:
        new = deque(written(todo, opened, counter.counted, counter.add, counter.tell))
    written_rows = [new.popleft() if rows is None else rows for rows in standing]
    done = [part for part, rows in zip(parts, written_rows, strict=True) if rows]
    if not done:
        raise TableError(f"{table.uri or 'the source'} has no rows to score.")
    commits = [part.commit_id for part in done]
    return ScoreReport(
        rows=sum(written_rows),
        partitions=[part.sink.partition for part in done if part.sink.partition],
        skipped=len(parts) - len(todo),
        model_id=model.id,
        uri=place.uri,
        commit_id=commits[0] if len(commits) == 1 else digest(commits),
        seconds=time.monotonic() - began,
    )


def _refuse_overlap(source: str, sink: str) -> None:
    """A sink in its source would be read as rows of it; a source in its sink would be replaced.

    Raises:
        TableError: one of them is, or lies in, the other.
    """
    (one, source), (other, sink) = _located(source), _located(sink)
    if one == other:
        raise TableError(f"{sink} is the source; write the scored table somewhere else.")
    if other in one.parents or one in other.parents:
        inner, outer = (sink, source) if one in other.parents else (source, sink)
        raise TableError(f"{inner} lies in {outer}; write the scored table outside its source.")


def _located(uri: str) -> tuple[PurePath, str]:
    """Where a URI lies, to compare, and its name for messages."""
    if "://" in uri:
        return PurePosixPath(uri), uri
    path = Path(uri).resolve()
    return path, str(path)


def _total(rows: Iterable[int | None]) -> int | None:
    """The sum of them; none where one is not known."""
    known = list(rows)
    return None if None in known else sum(filter(None, known))


class RowCounter:
    """Rows done, counted from many threads, told to one `Progress`."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def add(self, rows: int) -> None:
        with self._lock:
            self._done += rows
            self.tell()

    def tell(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total)

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            self.add(batch.num_rows)
