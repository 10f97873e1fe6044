"""Plan the partitions of a scored table and compare them with what was committed before."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Literal

import pyarrow as pa

from probclass_core.arrow.arrays import names_of_columns
from probclass_core.arrow.bundle import as_json, json_digest
from probclass_core.arrow.parts import source_columns
from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.filters import Where, parse_where, partition_text, typed_partition
from probclass_core.io.open import open_sink, open_table
from probclass_core.io.references import TableRef, matches, split_pattern
from probclass_core.io.selection import missing_shares, with_missing_columns
from probclass_core.io.sink import ColumnChanges, Sink, StagedPartition, TypedPartition
from probclass_core.io.table import Plan, Source
from probclass_core.model.contributions import Contributions
from probclass_core.model.decision import DecisionRule
from probclass_core.model.model import Model
from probclass_core.scoring.batch import BatchScorer
from probclass_core.scoring.options import ScoringOptions

log = logging.getLogger(__name__)

Change = Literal["input", "model", "rule"]
"""What changed since a partition was scored: its rows, the model, or conditions, columns and
decision rule."""

_PLANS_KEPT = 64
"""Units up to which the plans of partitions are kept in memory until they are scored: a footer
takes some 3 kB per column."""


class ScoringPlanner:
    """Plans the partitions of one call of `score`; no row is read before the arguments are checked.

    Args:
        model: model to score with.
        source: table, frame, path or URI of the rows.
        sink: scored table.
        where: rows to score.
        options: how to score them.
        provenance: plain JSON values for the commit records.

    Raises:
        TableError: if the source cannot be read, or the sink is inside it or the reverse.
    """

    def __init__(
        self,
        model: Model,
        source: Any,
        sink: str | Path | TableRef,
        where: Where,
        options: ScoringOptions,
        provenance: Mapping[str, Any],
    ) -> None:
        self.model, self.options, self.provenance = model, options, provenance
        self.table, self.sink = open_table(source), TableRef.parse(sink)
        self.where = parse_where(where)
        if self.table.uri is not None:
            _refuse_overlap(self.table.uri, self.sink.uri)
        self._schemas: dict[bytes, tuple[BatchScorer, list[list[str]]]] = {}
        self._sink: Sink | None = None
        self._units_kept = 0

    def plan_partition(self, partition: Mapping[str, Any]) -> PlannedPartition:
        """Plan one partition, or an unpartitioned table; nothing is written yet.

        Args:
            partition: values of partition columns.

        Raises:
            DataError: if a column is missing.
            SpecError: if a passthrough column has the name of a scored one, or the decision rule
                does not fit the model.
            TableError: if the partition does not exist, or the sink cannot store or append it.
        """
        typed = typed_partition(self.table.schema, partition)
        # Outermost first, as in the source.
        partition = {n: typed[n] for n in (*self.table.partition_columns, *typed) if n in typed}
        plan = self.plan_rows(partition)
        missing = missing_shares(
            plan,
            self._readable,
            self.model.spec.features,
            self.options.missing_columns,
            partition_text(partition) or str(self.table.uri or "the source"),
        )
        scorer, columns = self._scorer(self._as_written(plan.schema), partition)
        identity = {
            "model_id": self.model.id,
            "input": plan.snapshot,
            "partition": as_json(partition),
            "where": as_json(self.where),
            "schema": columns,
            **({} if scorer.rule == DecisionRule() else {"decision": scorer.rule.to_dict()}),
            **({} if self.options.prior is None else {"prior": self.options.prior}),
            **({} if self.options.rare is None else {"rare": self.options.rare}),
        }
        record = {
            "commit_id": json_digest(identity),
            **identity,
            "source": self.table.uri,
            "input_version": plan.version,
            **({"provenance": self.provenance} if self.provenance else {}),
        }
        sink = self.open_sink(TypedPartition(partition, self.table.schema))
        if self.options.overwrite == "append":
            self._check_append(sink, plan)
        absent = {name for name, rows in plan.missing.items() if rows == plan.rows}
        present = [[name, kind] for name, kind in columns if name not in absent]
        before = None if present == columns else json_digest({**identity, "schema": present})
        kept = plan if self._units_kept < _PLANS_KEPT else None
        self._units_kept += 0 if kept is None else len(kept.units)
        return PlannedPartition(self, scorer, sink, record, plan.rows, kept, missing, before)

    def plan_rows(self, partition: Mapping[str, Any]) -> Plan:
        """Plan the rows of a partition: passthrough columns, features and partition columns."""
        features = source_columns(self._readable.schema, self.model.spec.features)
        columns = list(dict.fromkeys((*self._passthrough, *features, *partition)))
        return self._readable.plan(
            columns, partition=partition or None, where=self.where, allow_dictionaries=features
        )

    def _as_written(self, schema: pa.Schema) -> pa.Schema:
        """The schema of rows that are read, with text that is read as dictionaries as text."""
        read_as = self._readable.schema
        return pa.schema(
            one.with_type(one.type.value_type)
            if pa.types.is_dictionary(one.type)
            and not pa.types.is_dictionary(read_as.field(one.name).type)
            else one
            for one in schema
        )

    @cached_property
    def _readable(self) -> Source:
        """The table with the columns of the model that it lacks, if that is allowed."""
        return with_missing_columns(
            self.table, self.model.spec.features, self.options.missing_columns
        )

    def open_sink(self, partition: TypedPartition) -> Sink:
        """Open a partition of the sink; all share what the first has read of the table.

        Raises:
            TableError: if the sink cannot store the partition.
        """
        if self._sink is not None:
            return self._sink.sibling(partition)
        sink = open_sink(self.sink, partition)
        if self.options.schema == "evolve":
            contributed = Contributions(self.model).columns if self.options.contributions else []
            sink = sink.evolving([*self._passthrough, *contributed])
        self._sink = sink
        return sink

    def _check_append(self, sink: Sink, plan: Plan) -> None:
        if not sink.appends:
            raise TableMismatchError(
                f"{self.sink.uri}: tables of this format cannot be appended to; score with "
                "overwrite='partition', or write a Delta table."
            )
        if plan.snapshot is None:
            raise TableMismatchError(
                "rows in memory cannot be appended: a rerun could not know that they were appended "
                "before; append from a file or a table."
            )

    @cached_property
    def _passthrough(self) -> list[str]:
        columns = self.options.columns
        return names_of_columns(self.table.schema) if columns is None else list(columns)

    def _scorer(
        self, schema: pa.Schema, partition: Mapping[str, Any]
    ) -> tuple[BatchScorer, list[list[str]]]:
        """The scorer for batches of a schema, and its columns and types as JSON values.

        Thousands of partitions with the same columns share one.
        """
        # The directories of the sink store the partition columns; its files need not repeat them.
        columns = [name for name in self._passthrough if name not in partition]
        key = schema.serialize().to_pybytes() + json.dumps(columns).encode()
        if key not in self._schemas:
            scorer = BatchScorer(self.model, schema, replace(self.options, columns=columns))
            self._schemas[key] = scorer, [[one.name, str(one.type)] for one in scorer.schema]
        return self._schemas[key]


@dataclass(frozen=True)
class PlannedPartition:
    """A partition to score: rows to read, how to score them, and where to commit the result.

    Attributes:
        planner: planner that made it.
        scorer: model prepared for the schema of the rows.
        sink: where the scored partition is committed.
        record: commit record: model, input, configuration and partition with their digest
            ``commit_id``, the source, its version, and the provenance.
        rows: number of rows to read, before any filter, or None if unknown.
        kept_plan: plan of the rows, or None if it was dropped to save memory.
        missing: share of the rows in files without a column of the model, by column.
        id_before_columns: id of the same commit before the source gained columns that no file of
            the partition has; None if it has gained none. Its rows differ by these nulls only.
    """

    planner: ScoringPlanner
    scorer: BatchScorer
    sink: Sink
    record: Mapping[str, Any]
    rows: int | None
    kept_plan: Plan | None
    missing: Mapping[str, float] = field(default_factory=dict)
    id_before_columns: str | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the rows, planned again if it was dropped.

        Raises:
            TableError: if the files have changed since they were first planned.
        """
        if self.kept_plan is not None:
            return self.kept_plan
        plan = self.planner.plan_rows(self.sink.partition)
        if (plan.snapshot, plan.rows) != (self.record["input"], self.rows):
            raise TableError(
                f"{self.planner.table.uri}: files of partition {dict(self.sink.partition)} changed "
                "while other partitions were scored; nothing was written for it: run it again."
            )
        return plan

    @property
    def commit_id(self) -> str:
        """Digest of model, input, configuration and partition."""
        return str(self.record["commit_id"])

    def committed_by(self, record: Mapping[str, Any]) -> bool:
        """Whether a commit record is that of an equal commit: of the same rows, model and rule."""
        committed = record.get("commit_id")
        equal = committed is not None and committed in (self.commit_id, self.id_before_columns)
        return equal and bool(self.record["input"])

    def changes_since(self, record: Mapping[str, Any]) -> tuple[Change, ...]:
        """What differs from the commit that wrote the partition before.

        The columns follow from the model, the input and the arguments, so they are a change of the
        rule only if neither of the others changed.

        Args:
            record: record of that commit.
        """

        def differ(*names: str) -> bool:
            return any(self.record.get(name) != record.get(name) for name in names)

        changes: list[Change] = []
        if differ("input") or not self.record["input"]:  # rows in memory may have changed
            changes.append("input")
        if differ("model_id"):
            changes.append("model")
        if differ("where", "decision", "prior", "rare") or (not changes and differ("commit_id")):
            changes.append("rule")
        return tuple(changes)

    def brief_commit(self, record: Mapping[str, Any], *, skipped: bool) -> dict[str, Any]:
        """A commit without what is equal in all partitions of a sink, for a report.

        Args:
            record: record of the commit, with its rows.
            skipped: whether it was there before.
        """
        rule = {key: self.record.get(key) for key in ("where", "schema", "decision")}
        rule |= {key: self.record[key] for key in ("prior", "rare") if key in self.record}
        names = ("partition", "source", "input", "input_version")
        of_commit = ("commit_id", "rows", "health", "verdicts")
        return {
            **{name: self.record[name] for name in names},
            "rule": json_digest(rule),
            **{name: record[name] for name in of_commit if name in record},
            "skipped": skipped,
        }

    def commit_records(self) -> Sequence[Mapping[str, Any]]:
        """Records of the commits in the sink: several if rows are appended, else at most one."""
        if self._appends:
            return self.sink.commit_records
        record = self.sink.commit_record
        return [] if record is None else [record]

    def check_absent(self) -> None:
        """Check that the partition does not exist yet, with ``overwrite="never"``.

        Raises:
            TableError: if it exists, made from other inputs.
        """
        if self.planner.options.overwrite == "never" and self.sink.exists:
            raise TableMismatchError(
                f"{self.sink.location} already exists and was made from other inputs; remove it, "
                "or score with overwrite='partition'."
            )

    def check_sink(self, partitions: Sequence[PlannedPartition]) -> ColumnChanges:
        """Check that the sink accepts the rows.

        Args:
            partitions: all partitions that are to be written, this one included.

        Returns:
            How the columns differ from those of the sink.

        Raises:
            TableError: if the table has other columns.
        """
        keeps_columns = self._appends or self.planner.options.schema == "same"
        replaced = () if keeps_columns else [one.sink.partition for one in partitions]
        changes = self.sink.check_columns(self.scorer.schema, replaced)
        if changes.added:
            log.info("%s gains the columns %s", self.sink.location, ", ".join(changes.added))
        for warning in changes.warnings:
            log.warning("%s", warning)
        return changes

    def stage(self) -> AbstractContextManager[StagedPartition]:
        """Stage the partition: no reader sees the scored rows before they are published."""
        return self.sink.stage(self.scorer.schema, self.record, append=self._appends)

    @property
    def _appends(self) -> bool:
        return self.planner.options.overwrite == "append"


def _refuse_overlap(source: str, sink: str) -> None:
    """Refuse a sink inside its source, which would be read as rows of it, and the reverse.

    Raises:
        TableError: if one of them is the other or inside it.
    """
    base, pattern = split_pattern(source)
    (source_path, source), (sink_path, sink) = _resolve(source), _resolve(sink)
    folder = _resolve(base)[0]
    below = sink_path.relative_to(folder).as_posix() if folder in sink_path.parents else None
    if pattern is not None and below is not None and matches(below, pattern, below=True):
        raise TableMismatchError(f"{sink} matches {source}; write the scored table somewhere else.")
    if source_path == sink_path:
        raise TableMismatchError(f"{sink} is the source; write the scored table somewhere else.")
    if sink_path in source_path.parents or source_path in sink_path.parents:
        inner, outer = (sink, source) if source_path in sink_path.parents else (source, sink)
        raise TableMismatchError(
            f"{inner} is inside {outer}; write the scored table outside its source."
        )


def _resolve(uri: str) -> tuple[PurePath, str]:
    """The absolute path of a URI, to compare, and its name in messages."""
    if "://" in uri:
        return PurePosixPath(uri), uri
    path = Path(uri).resolve()
    return path, str(path)
