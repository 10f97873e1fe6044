"""The report of a scoring: what became of each partition, and the error if some failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.watch import Verdict
from probclass_core.arguments import checked_number
from probclass_core.arrow.bundle import as_json, json_digest
from probclass_core.display import Part, Report, ShortRepr, TablePart, counted
from probclass_core.errors import DataError, PartitionError, TableError
from probclass_core.io.filters import partition_text
from probclass_core.io.sink import ColumnChanges
from probclass_core.io.table import balanced_parts
from probclass_core.scoring.selection import Partitions, in_order

Outcome = Literal["scored", "unchanged", "pending", "empty", "orphaned", "removed", "failed"]

PartitionFailure = DataError | TableError
PARTITION_FAILURES = (DataError, TableError)
"""Errors that may be about one partition only, so that others can be scored nevertheless."""

_NAMES_IN_MESSAGE = 3


@dataclass(frozen=True, repr=False)
class PartitionOutcome(ShortRepr):
    """What `score` found and did for one partition.

    Attributes:
        partition: values of the partition columns; empty for an unpartitioned table.
        outcome: ``"scored"``; ``"unchanged"``: scored before from the same input, model and rule;
            ``"pending"``: to be scored, in a dry run or beyond the limit; ``"empty"``: without
            rows; ``"orphaned"``: in the sink, and gone from the source; ``"removed"``: orphaned,
            and removed; ``"failed"``.
        reasons: why a partition was or is to be scored: ``"missing"``, or what changed since:
            ``"input"``, ``"model"``, ``"rule"`` (conditions, columns, decision);
            ``"unrecorded"`` if other writers wrote its rows.
        rows: number of rows in the sink, of a pending partition in the source before any filter;
            None if unknown.
        commit_id: id of the commit that wrote the rows; None if there is none.
        error: why it failed, as one sentence.
        is_transient: whether a failed partition may succeed later without a change.
    """

    partition: Mapping[str, Any]
    outcome: Outcome
    reasons: Sequence[str] = ()
    rows: int | None = None
    commit_id: str | None = None
    error: str | None = None
    is_transient: bool = False

    def __str__(self) -> str:
        return partition_text(self.partition) or "the table"

    @property
    def cause(self) -> str:
        """The error, without the name of the partition, with which some begin."""
        return (self.error or "").removeprefix(f"{self}: ")

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain JSON values, without those that do not apply."""
        values = {**vars(self), "reasons": list(self.reasons)}
        plain = {key: as_json(value) for key, value in values.items() if value not in (None, [])}
        if self.outcome != "failed":
            del plain["is_transient"]
        return plain


@dataclass(frozen=True, repr=False)
class ScoreReport(Report):
    """Result of `score`.

    Attributes:
        partitions: what was found and done for each partition: those of the source in its order,
            then those of the sink that are gone from the source.
        commits: for each scored or unchanged partition: partition, commit_id, source, input (digest
            of the rows' files), input_version, rule (digest of conditions, columns and decision),
            rows, whether it was there before as ``skipped``, and if it was watched its health and
            verdicts as JSON values; `ModelStore.record_scoring` records them.
        model_id: content id of the model.
        uri: path or URI of the sink.
        seconds: wall time.
        dry_run: whether nothing was written because that was asked for.
        changes: columns that the sink gained, and columns of the sink that the rows lack.
        selected: the partitions that were considered.
    """

    partitions: Sequence[PartitionOutcome]
    commits: Sequence[Mapping[str, Any]]
    model_id: str
    uri: str
    seconds: float
    dry_run: bool = False
    changes: ColumnChanges = field(default_factory=ColumnChanges)
    selected: Partitions = field(default_factory=Partitions)

    @property
    def scored(self) -> list[PartitionOutcome]:
        """The partitions that were scored now."""
        return self._with("scored")

    @property
    def unchanged(self) -> list[PartitionOutcome]:
        """The partitions that were scored before from the same input, model and rule."""
        return self._with("unchanged")

    @property
    def pending(self) -> list[PartitionOutcome]:
        """The partitions that are to be scored: all in a dry run, else those beyond the limit."""
        return self._with("pending")

    @property
    def orphaned(self) -> list[PartitionOutcome]:
        """The partitions of the sink that are gone from the source and were kept."""
        return self._with("orphaned")

    @property
    def removed(self) -> list[PartitionOutcome]:
        """The partitions that were removed from the sink."""
        return self._with("removed")

    @property
    def empty(self) -> list[PartitionOutcome]:
        """The partitions that have no rows or, if they were listed, do not exist."""
        return self._with("empty")

    @property
    def failed(self) -> list[PartitionOutcome]:
        """The partitions that could not be scored; `error` says why."""
        return self._with("failed")

    @property
    def counts(self) -> dict[str, int]:
        """Number of partitions of each outcome; an unpartitioned table is one."""
        return {outcome: len(self._with(outcome)) for outcome in get_args(Outcome)}

    def _with(self, outcome: str) -> list[PartitionOutcome]:
        return [one for one in self.partitions if one.outcome == outcome]

    @property
    def rows(self) -> int:
        """Number of rows in the sink because of this call or an equal one before it."""
        return sum(int(commit["rows"]) for commit in self.commits)

    @property
    def scored_rows(self) -> int:
        """Number of rows that were scored now."""
        return sum(int(commit["rows"]) for commit in self.commits if not commit["skipped"])

    @property
    def commit_id(self) -> str:
        """Digest of model, input, configuration and partition; of several commits, over all."""
        ids = [commit["commit_id"] for commit in self.commits]
        return str(ids[0]) if len(ids) == 1 else json_digest(ids)

    @property
    def health(self) -> list[Health | None]:
        """Health of each of `commits`; None for one that was not watched by this release."""
        return [Health.of_commit(commit) for commit in self.commits]

    @property
    def verdicts(self) -> list[tuple[Mapping[str, Any], Verdict]]:
        """The checks that partitions did not pass, each with its partition."""
        return [
            (commit["partition"], Verdict.from_dict(values))
            for commit in self.commits
            for values in commit.get("verdicts", ())
        ]

    @property
    def warnings(self) -> list[str]:
        """Columns that became null, and the verdicts, each with its partition, as sentences."""
        sentences = [
            ": ".join(filter(None, [partition_text(partition), str(verdict)]))
            for partition, verdict in self.verdicts
        ]
        return [*self.changes.warnings, *sentences]

    def batches(
        self, count: int = 32, min_rows: int = 1_000_000, *, orphaned: bool = False
    ) -> list[Partitions]:
        """Divide the pending partitions into ranges with about the same number of rows.

        Partitions that failed count as well: what cannot be read now may be readable then.

        Args:
            count: largest number of ranges.
            min_rows: number of rows for which a range of its own is worthwhile.
            orphaned: whether the ranges cover the orphaned partitions, too, to remove them.

        Returns:
            The ranges in order, each a ``partition`` of `score`; empty if nothing is pending.

        Raises:
            SpecError: if count is less than 1.
        """
        checked_number("count", count, 1)
        found = self.pending + self.failed + (self.orphaned if orphaned else [])
        pending = [found[at] for at in in_order([one.partition for one in found])]
        if not pending:
            return []
        # A partition of unknown size, as one that cannot be read, counts as one row.
        rows = [max(one.rows or 0, 1) for one in pending]
        parts = balanced_parts(rows, max(1, min(count, sum(rows) // max(min_rows, 1))))
        ranges: dict[int, list[Mapping[str, Any]]] = {}
        for one, part in zip(pending, parts, strict=True):
            ranges.setdefault(part, []).append(one.partition)
        return [replace(self.selected, first=one[0], last=one[-1]) for one in ranges.values()]

    def raise_failed(self, first: PartitionFailure | None) -> None:
        """Raise the error of the partitions that failed, or their common one if all did.

        Args:
            first: error of the first partition that failed; None if none did.

        Raises:
            PartitionError: if some failed, or all for different reasons.
            DataError, TableError: if all failed for the same reason; its ``report`` is this one.
        """
        if first is None:
            return
        failed, count = self.failed, len(self.partitions) - len(self.orphaned)
        all_failed = len(failed) == count
        if all_failed and len({one.error for one in failed}) == 1:
            first.report = self
            raise first
        named = failed[:_NAMES_IN_MESSAGE]
        errors = [one.cause.rstrip(".") for one in named]
        sentences = "; ".join(f"{one}: {error}" for one, error in zip(named, errors, strict=True))
        more = f"; and {len(failed) - len(named)} more" if len(failed) > len(named) else ""
        rerun = " The others are committed; a rerun takes up only these."
        done = "" if self.dry_run or all_failed else rerun
        raise PartitionError(
            f"{len(failed)} of {count} partitions failed: {sentences}{more}.{done}", self
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values, without the partitions that are unchanged."""
        return {
            "rows": self.rows,
            "scored_rows": self.scored_rows,
            **self.counts,
            "partitions": [one.to_dict() for one in self.partitions if one.outcome != "unchanged"],
            "warnings": self.warnings,
            "dry_run": self.dry_run,
            "model_id": self.model_id,
            "uri": self.uri,
            "commit_id": self.commit_id,
            "seconds": self.seconds,
            **self.changes.to_dict(),
        }

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items() if count)
        return f"{self.uri}: {counts or 'no partitions'}"

    def _report(self) -> list[Part]:
        """Rows, sink and model, the warnings, and the partitions that are not unchanged."""
        by = f"by model {self.model_id[:12]} in {self.seconds:.1f} s"
        title = f"Scored {counted(self.scored_rows, 'row')} {by} into {self}"
        parts: list[Part] = [title, self.warnings]
        changed = [one for one in self.partitions if one.outcome != "unchanged"]
        if changed and changed[0].partition:
            columns: dict[str, list[Any]] = {
                "partition": [str(one) for one in changed],
                "outcome": [one.outcome for one in changed],
                "rows": [one.rows for one in changed],
                "reasons": [one.error or ", ".join(one.reasons) for one in changed],
            }
            parts.append(TablePart(columns))
        return parts
