"""One partition of a scored table: planned, compared with what stands there, written, committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.errors import TableError
from probclass_core.execution.engine import Engine
from probclass_core.io.filters import Where, typed_partition
from probclass_core.io.open import open_sink
from probclass_core.io.references import TableRef
from probclass_core.io.table import (
    AppendableSink,
    Plan,
    Sink,
    StagedPart,
    StagedPartition,
    Table,
    TypedPartition,
)
from probclass_core.model.decision import DecisionOption, DecisionRule
from probclass_core.model.model import Model
from probclass_core.scoring.batch import PosteriorFormat, Scorer

Overwrite = Literal["partition", "append", "never"]
"""What becomes of rows that stand in the sink: replaced, added to, or a reason to refuse."""

_FRAGMENTS_KEPT = 64
"""Fragments up to which the plans of partitions are kept until their turn comes: a footer takes
some 3 kB a column."""

PART_ROWS = 2**24
"""Rows of a partition beyond which it is several files, each the work of one worker."""

_MOST_PARTS = 4096
"""Files of a partition, however many rows it has."""

Counted = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Passes batches on, and tells the progress of them."""


@dataclass(frozen=True)
class Scoring:
    """What the partitions of one call have in common; see `pipeline.score`."""

    model: Model
    table: Table
    place: TableRef
    where: Where
    columns: Sequence[str] | None
    posterior: PosteriorFormat
    decision: DecisionOption
    overwrite: Overwrite
    run_id: str | None
    _scorers: dict[bytes, tuple[Scorer, list[list[str]]]] = field(default_factory=dict, init=False)

    def parts(self, partitions: Iterable[Mapping[str, Any]]) -> list[ScoredPartition]:
        """Plan partitions, as `part` does; of many, the plans of the first ones are kept."""
        found: list[ScoredPartition] = []
        fragments = 0
        for one in partitions:
            part = self.part(one)
            found.append(part if fragments < _FRAGMENTS_KEPT else replace(part, planned=None))
            fragments += 0 if part.planned is None else len(part.planned.fragments)
        return found

    def plan(self, partition: Mapping[str, Any]) -> Plan:
        """Its rows: the columns to keep, those of the model, and those of the partition."""
        chosen = self._chosen
        features = [name for name in self.model.spec.features if name not in chosen]
        named = [name for name in partition if name not in (*chosen, *features)]
        columns = [*chosen, *features, *named]
        return self.table.plan(columns, partition=partition or None, where=self.where)

    def part(self, partition: Mapping[str, Any]) -> ScoredPartition:
        """Plan a partition; nothing is written yet.

        Raises:
            DataError: a column is not there.
            SpecError: a kept column has the name of a scored one, or the rule does not fit.
            TableError: the partition is not there, or the place cannot take it, or not be added to.
        """
        typed = typed_partition(self.table.schema, partition)
        # Outermost first, as in the source.
        partition = {n: typed[n] for n in (*self.table.partition_columns, *typed) if n in typed}
        plan = self.plan(partition)
        scorer, schema = self._scorer(plan.schema, partition)
        identity = {
            "model_id": self.model.id,
            "input": plan.snapshot,
            "partition": plain(partition),
            "where": self._plain_where,
            "schema": schema,
            **({} if scorer.rule == DecisionRule() else {"decision": scorer.rule.to_dict()}),
        }
        commit = {
            "commit_id": digest(identity),
            **identity,
            "source": self.table.uri,
            "input_version": plan.version,
            **({} if self.run_id is None else {"run_id": self.run_id}),
        }
        sink = open_sink(self.place, TypedPartition(partition, self.table.schema))
        if self.overwrite == "append":
            if not isinstance(sink, AppendableSink):
                raise TableError(
                    f"{self.place.uri}: rows cannot be added to tables of this format; score with "
                    "overwrite='partition'."
                )
            if plan.snapshot is None:
                raise TableError(
                    "rows in memory have no state by which a rerun would know that they were added "
                    "before; append from a file or a table."
                )
        return ScoredPartition(self, scorer, sink, commit, plan.rows, plan)

    @cached_property
    def _chosen(self) -> list[str]:
        if self.columns is None:
            return list(self.table.schema.names)
        return [self.columns] if isinstance(self.columns, str) else list(self.columns)

    @cached_property
    def _plain_where(self) -> Any:
        return plain(self.where)

    def _scorer(
        self, schema: pa.Schema, partition: Mapping[str, Any]
    ) -> tuple[Scorer, list[list[str]]]:
        """For batches of such a schema, and the columns it makes, as plain values.

        Thousands of partitions with the same columns share one.
        """
        # What the directories of the sink spell out does not stand in its files as well.
        kept = [name for name in self._chosen if name not in partition]
        key = schema.serialize().to_pybytes() + json.dumps(kept).encode()
        if key not in self._scorers:
            scorer = Scorer(self.model, schema, kept, self.posterior, self.decision)
            columns = [[column.name, str(column.type)] for column in scorer.schema]
            self._scorers[key] = scorer, columns
        return self._scorers[key]


@dataclass(frozen=True)
class ScoredPartition:
    """The rows to read, how to score them, and where the result is to stand.

    Attributes:
        scoring: what it shares with others.
        scorer: the model, bound to the schema of the rows.
        sink: the place.
        commit: what identifies the result: model, input, configuration, partition, their digest;
            and beyond that the source, its version, and the run.
        rows: to read, before any row filter; none where nobody knows.
        planned: the plan; none where it was let go of, for it has the footers of all files.
    """

    scoring: Scoring
    scorer: Scorer
    sink: Sink
    commit: Mapping[str, Any]
    rows: int | None
    planned: Plan | None

    @property
    def plan(self) -> Plan:
        """The rows: as they were planned, or an equal plan made anew.

        Raises:
            TableError: the files have changed since the first was made.
        """
        if self.planned is not None:
            return self.planned
        plan = self.scoring.plan(self.sink.partition)
        if (plan.snapshot, plan.rows) != (self.commit["input"], self.rows):
            raise TableError(
                f"{self.scoring.table.uri}: files of {dict(self.sink.partition)} were changed "
                "while other partitions were scored; nothing was written of it: run it again."
            )
        return plan

    @property
    def commit_id(self) -> str:
        """Digest of model, input, configuration and partition."""
        return str(self.commit["commit_id"])

    @property
    def standing_rows(self) -> int | None:
        """How many stand there, where they came of the very same; else none.

        Where rows are added, that is one commit of several; else it is the only one.
        """
        if not self.commit["input"]:
            return None
        if self.scoring.overwrite == "append" and isinstance(self.sink, AppendableSink):
            records: Iterable[Mapping[str, Any] | None] = self.sink.commit_records()
        else:
            records = (self.sink.commit_record,)
        return next(
            (
                int(one["rows"])
                for one in records
                if one is not None and one.get("commit_id") == self.commit_id
            ),
            None,
        )

    def check_place(self, parts: Sequence[ScoredPartition]) -> None:
        """Whether the table can take the rows.

        Args:
            parts: all that are to be written, this one among them.

        Raises:
            TableError: it has other columns; or, for ``overwrite="never"``, something stands there
                that came of other inputs.
        """
        if self.scoring.overwrite == "never" and self.sink.exists:
            raise TableError(
                f"{self.sink.location} is there already and came of other inputs; remove it, or "
                "score with overwrite='partition'."
            )
        if isinstance(self.sink, AppendableSink):
            appended = self.scoring.overwrite == "append"
            leaving = () if appended else [part.sink.partition for part in parts]
            self.sink.check_columns(self.scorer.schema, leaving)

    def stage(self) -> AbstractContextManager[StagedPartition]:
        """The place for the scored rows, which no reader sees before it is published."""
        stage = self.sink.stage
        if self.scoring.overwrite == "append" and isinstance(self.sink, AppendableSink):
            stage = self.sink.stage_append
        return stage(self.scorer.schema, self.commit)

    def write(self, engine: Engine, counted: Counted, before_commit: Callable[[], None]) -> int:
        """Score, stage and commit.

        Args:
            engine: threads of this process.
            counted: see `Counted`.
            before_commit: called once all rows are staged; what it raises prevents the commit.

        Returns:
            Rows written; 0 where there were none, and then nothing was committed.
        """

        def scored(batch: pa.RecordBatch) -> pa.RecordBatch:
            return self.scorer.score(inside(batch, self.sink.partition))

        with self.stage() as staged:
            for plan, part in divided(self.plan, staged):
                batches = counted(plan.batches(self.scorer.model.batch_rows))
                for batch in engine.map(scored, batches):
                    part.write(batch)
                part.finish()
            return committed(staged, before_commit)


def divided(plan: Plan, staged: StagedPartition) -> list[tuple[Plan, StagedPart]]:
    """Which rows of a partition go where: each part is the work of one worker, and a file.

    Their number follows from the plan and the sink alone, so the files are the same whoever writes.
    """
    count = -(-sum(plan.fragment_rows) // PART_ROWS)
    plans = plan.split(min(max(count, 1), _MOST_PARTS))
    places = staged.parts(len(plans))
    return list(zip(plans if len(places) > 1 else [plan], places, strict=True))


def committed(staged: StagedPartition, before_commit: Callable[[], None]) -> int:
    """Publish what is staged, if that is anything, and tell how many rows it has."""
    if staged.rows:
        before_commit()
        staged.publish()
    return staged.rows


def inside(batch: pa.RecordBatch, partition: Mapping[str, Any]) -> pa.RecordBatch:
    """The batch; a row outside the partition is refused, whoever read it.

    Raises:
        TableError: there is one.
    """
    for name, value in partition.items():
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        equal = column.is_null() if value is None else pc.equal(column, value)
        strays = column.filter(pc.invert(pc.fill_null(equal, fill_value=False)))
        if len(strays):
            raise TableError(
                f"{len(strays)} rows lie outside the partition {name}={value}, the first with "
                f"{strays[0].as_py()!r}; nothing was written of it."
            )
    return batch


def plain(value: Any) -> Any:
    """As JSON has it; what it has not (expressions, times) as text."""
    return json.loads(json.dumps(value, default=str))


def digest(values: Any) -> str:
    """SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
