"""One partition of a scored table: planned, compared with what stands there, written, committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.decision import Decision, DecisionRule
from probclass_core.engine import Engine
from probclass_core.errors import TableError
from probclass_core.model import Model
from probclass_core.scoring import PosteriorFormat, Scorer
from probclass_core.table_format import TableRef
from probclass_core.tables import open_sink
from probclass_core.tables.filters import Where, typed_partition
from probclass_core.tables.table import AppendableSink, Plan, Sink, Staged, Table, TypedPartition

Overwrite = Literal["partition", "append", "never"]
"""What becomes of rows that stand in the sink: replaced, added to, or a reason to refuse."""

Counted = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class ScoredPartition:
    """The rows to read, how to score them, and where the result is to stand.

    Attributes:
        plan: the rows.
        scorer: the model, bound to their schema.
        sink: the place.
        overwrite: what becomes of rows that stand there.
        commit: what identifies the result: model, input, configuration, partition, their digest;
            and beyond that the source, its version, and the run.
    """

    plan: Plan
    scorer: Scorer
    sink: Sink
    overwrite: Overwrite
    commit: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        model: Model,
        table: Table,
        place: TableRef,
        partition: Mapping[str, Any],
        *,
        where: Where,
        columns: Sequence[str] | None,
        posterior: PosteriorFormat,
        decision: Decision,
        overwrite: Overwrite,
        run_id: str | None,
    ) -> ScoredPartition:
        """Plan a partition; nothing is written yet.

        Raises:
            DataError: a column is not there.
            SpecError: a kept column has the name of a scored one, or the rule does not fit.
            TableError: the partition is not there, or the place cannot take it, or not be added to.
        """
        typed = typed_partition(table.schema, partition)
        # Outermost first, as in the source.
        partition = {n: typed[n] for n in (*table.partition_columns, *typed) if n in typed}
        columns = (columns,) if isinstance(columns, str) else columns
        chosen = list(table.schema.names) if columns is None else list(columns)
        features = [name for name in model.spec.features if name not in chosen]
        named = [name for name in partition if name not in (*chosen, *features)]
        plan = table.plan([*chosen, *features, *named], partition=partition or None, where=where)
        # What the directories of the sink spell out does not stand in its files as well.
        kept = [name for name in chosen if name not in partition]
        scorer = Scorer(model, plan.schema, kept, posterior, decision)
        identity = {
            "model_id": model.id,
            "input": plan.snapshot,
            "partition": plain(partition),
            "where": plain(where),
            "schema": [[field.name, str(field.type)] for field in scorer.schema],
            **({} if scorer.rule == DecisionRule() else {"decision": scorer.rule.to_dict()}),
        }
        commit = {
            "commit_id": digest(identity),
            **identity,
            "source": table.uri,
            "input_version": plan.version,
            **({} if run_id is None else {"run_id": run_id}),
        }
        sink = open_sink(place, TypedPartition(partition, table.schema))
        if overwrite == "append":
            if not isinstance(sink, AppendableSink):
                raise TableError(
                    f"{place.uri}: rows cannot be added to tables of this format; score with "
                    "overwrite='partition'."
                )
            if plan.snapshot is None:
                raise TableError(
                    "rows in memory have no state by which a rerun would know that they were added "
                    "before; append from a file or a table."
                )
        return cls(plan, scorer, sink, overwrite, commit)

    @property
    def commit_id(self) -> str:
        """Digest of model, input, configuration and partition."""
        return str(self.commit["commit_id"])

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """The record of what stands there, where it came of the very same; else none.

        Where rows are added, that is one commit of several; else it is the only one.
        """
        if not self.plan.snapshot:
            return None
        if self.overwrite == "append" and isinstance(self.sink, AppendableSink):
            records: Iterable[Mapping[str, Any] | None] = self.sink.commits()
        else:
            records = (self.sink.commit,)
        return next(
            (one for one in records if one is not None and one.get("commit_id") == self.commit_id),
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
        if self.overwrite == "never" and self.sink.occupied:
            raise TableError(
                f"{self.sink.place} is there already and came of other inputs; remove it, or "
                "score with overwrite='partition'."
            )
        if isinstance(self.sink, AppendableSink):
            appended = self.overwrite == "append"
            leaving = () if appended else [part.sink.partition for part in parts]
            self.sink.check_columns(self.scorer.schema, leaving)

    def stage(self) -> AbstractContextManager[Staged]:
        """The place for the scored rows, which no reader sees before it is published."""
        stage = self.sink.stage
        if self.overwrite == "append" and isinstance(self.sink, AppendableSink):
            stage = self.sink.stage_more
        return stage(self.scorer.schema, self.commit)

    def write(self, engine: Engine, counted: Counted, before_commit: Callable[[], None]) -> int:
        """Score, stage and commit.

        Args:
            engine: threads of this process.
            counted: passes batches on, telling the progress of them.
            before_commit: called once all rows are staged; what it raises prevents the commit.

        Returns:
            Rows written; 0 where there were none, and then nothing was committed.
        """

        def scored(batch: pa.RecordBatch) -> pa.RecordBatch:
            return self.scorer.score(inside(batch, self.sink.partition))

        with self.stage() as staged:
            for batch in engine.map(scored, counted(self.plan.batches())):
                staged.write(batch)
            return committed(staged, before_commit)


def committed(staged: Staged, before_commit: Callable[[], None]) -> int:
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
