"""One partition of a scored table: planned, compared with what stands there, written, committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from probclass_core.decision import Decision, DecisionRule
from probclass_core.engines.local import ordered_map
from probclass_core.errors import TableError
from probclass_core.model import Model
from probclass_core.scoring import PosteriorFormat, Scorer
from probclass_core.table_format import TableRef
from probclass_core.tables import open_sink
from probclass_core.tables.filters import Where, typed_partition
from probclass_core.tables.table import Plan, Sink, Table

Counted = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class ScoredPartition:
    """The rows to read, how to score them, and where the result is to stand.

    Attributes:
        plan: the rows.
        scorer: the model, bound to their schema.
        sink: the place.
        commit: what identifies the result: model, input, configuration, partition, their digest.
    """

    plan: Plan
    scorer: Scorer
    sink: Sink
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
    ) -> ScoredPartition:
        """Plan a partition; nothing is written yet.

        Raises:
            DataError: a column is not there.
            SpecError: a kept column has the name of a scored one, or the rule does not fit.
            TableError: the partition is not there, or the place cannot take it.
        """
        typed = typed_partition(table.schema, partition)
        # Outermost first, as in the source.
        partition = {n: typed[n] for n in (*table.partition_columns, *typed) if n in typed}
        columns = (columns,) if isinstance(columns, str) else columns
        chosen = list(table.schema.names) if columns is None else list(columns)
        features = [name for name in model.spec.features if name not in chosen]
        plan = table.plan([*chosen, *features], partition=partition or None, where=where)
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
        commit = {"commit_id": digest(identity), **identity, "input_version": plan.version}
        return cls(plan, scorer, open_sink(place, partition), commit)

    @property
    def commit_id(self) -> str:
        """Digest of model, input, configuration and partition."""
        return str(self.commit["commit_id"])

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """The record of what stands there, where it came of the very same; else none."""
        record = self.sink.commit
        same = record is not None and record.get("commit_id") == self.commit_id
        return record if same and self.plan.snapshot else None

    def write(
        self, counted: Counted, workers: int | None, before_commit: Callable[[], None]
    ) -> int:
        """Score, stage and commit.

        Args:
            counted: passes batches on, telling the progress of them.
            workers: threads.
            before_commit: called once all rows are staged; what it raises prevents the commit.

        Returns:
            Rows written; 0 where there were none, and then nothing was committed.
        """
        with self.sink.stage(self.scorer.schema, self.commit) as staged:
            for batch in ordered_map(self.scorer.score, counted(self.plan.batches()), workers):
                staged.write(batch)
            if staged.rows:
                before_commit()
                staged.publish()
            return staged.rows

    def refuse_other(self) -> None:
        """For ``overwrite="never"``.

        Raises:
            TableError: something stands there that came of other inputs.
        """
        if self.sink.occupied:
            raise TableError(
                f"{self.sink.place} is there already and came of other inputs; remove it, or "
                "score with overwrite='partition'."
            )


def plain(value: Any) -> Any:
    """As JSON has it; what it has not (expressions, times) as text."""
    return json.loads(json.dumps(value, default=str))


def digest(values: Any) -> str:
    """SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
