"""What became of the partitions of a scoring, and the error if some of them failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.verdicts import Verdict
from probclass_core.arrow.bundle import as_json
from probclass_core.arrow.display import Part, Report, ShortRepr, counted
from probclass_core.errors import DataError, PartitionError, TableError
from probclass_core.io.filters import partition_text
from probclass_core.io.sink import ColumnChanges

Outcome = Literal["scored", "unchanged", "pending", "empty", "orphaned", "removed", "failed"]

PartitionFailure = DataError | TableError
PARTITION_FAILURES = (DataError, TableError)
"""Errors that may be about one partition only, so that others can be scored nevertheless."""

_NAMES_IN_MESSAGE = 3


@dataclass(frozen=True, repr=False)
class PartitionOutcome(ShortRepr):
    """What `score` or `reconcile` found and did for one partition.

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

    @classmethod
    def of_failure(
        cls, partition: Mapping[str, Any], failure: PartitionFailure
    ) -> PartitionOutcome:
        """The outcome of a partition that failed with an error."""
        transient = failure.is_transient
        return cls(partition, "failed", error=str(failure), is_transient=transient)

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
        rows: number of rows in the sink because of this call or an equal one before it.
        partitions: partitions that were scored; empty for an unpartitioned table.
        commits: for each partition: partition, commit_id, source, input (digest of the rows'
            files), input_version, rule (digest of conditions, columns and decision), rows,
            whether it was skipped, and if it was watched its health and verdicts as JSON values;
            `ModelStore.record_scoring` records them.
        failed: partitions that could not be scored, of the report of a `PartitionError`.
        skipped: number of commits that were already there and left as they are.
        model_id: content id of the model.
        uri: path or URI of the sink.
        commit_id: digest of model, input, configuration and partition; over all commits.
        seconds: wall time.
        changes: columns that the sink gained, and columns of the sink that the rows lack.
    """

    rows: int
    partitions: Sequence[Mapping[str, Any]]
    commits: Sequence[Mapping[str, Any]]
    failed: Sequence[PartitionOutcome]
    skipped: int
    model_id: str
    uri: str
    commit_id: str
    seconds: float
    changes: ColumnChanges = field(default_factory=ColumnChanges)

    def _report(self) -> list[Part]:
        """Rows, sink and model, and the warnings."""
        partitions = f" of {counted(len(self.partitions), 'partition')}" if self.partitions else ""
        there = f"; already there: {counted(self.skipped, 'commit')}" if self.skipped else ""
        title = (
            f"Scored {counted(self.rows, 'row')}{partitions} into {self.uri} by model "
            f"{self.model_id[:12]} in {self.seconds:.1f} s{there}"
        )
        return [
            title,
            self.warnings,
            [f"{one} failed: {one.error}" for one in self.failed],
        ]

    @property
    def health(self) -> list[Health | None]:
        """Health of each of `commits`; None for one that was not watched."""
        values = [commit.get("health") for commit in self.commits]
        return [None if each is None else Health.from_dict(each) for each in values]

    @property
    def verdicts(self) -> list[tuple[Mapping[str, Any], Verdict]]:
        """The checks that partitions did not pass, each with its partition."""
        return verdicts_of(self.commits)

    @property
    def warnings(self) -> list[str]:
        """Columns that became null, and the verdicts, each with its partition, as sentences."""
        return [*self.changes.warnings, *verdict_sentences(self.verdicts)]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values, without the commits."""
        lists = {
            **self.changes.to_dict(),
            "partitions": as_json(self.partitions),
            "failed": [one.to_dict() for one in self.failed],
            "warnings": self.warnings,
        }
        left_out = ("commits", "changes")
        return {name: value for name, value in vars(self).items() if name not in left_out} | lists


class _Report(Protocol):
    @property
    def failed(self) -> Sequence[PartitionOutcome]: ...


def raise_failed(
    report: _Report, first: PartitionFailure | None, count: int, *, dry_run: bool = False
) -> None:
    """Raise the error of the partitions that failed, or their common one if all did.

    Args:
        report: report of the call.
        first: error of the first partition that failed; None if none did.
        count: number of partitions, those that did not fail included.
        dry_run: whether nothing was written because that was asked for.

    Raises:
        PartitionError: if some failed, or all for different reasons.
        DataError, TableError: if all failed for the same reason; its ``report`` is this one.
    """
    if first is None:
        return
    failed = report.failed
    all_failed = len(failed) == count
    if all_failed and len({one.error for one in failed}) == 1:
        first.report = report
        raise first
    named = failed[:_NAMES_IN_MESSAGE]
    # Some errors begin with the name of their partition.
    errors = [(one.error or "").removeprefix(f"{one}: ").rstrip(".") for one in named]
    sentences = "; ".join(f"{one}: {error}" for one, error in zip(named, errors, strict=True))
    more = f"; and {len(failed) - len(named)} more" if len(failed) > len(named) else ""
    rerun = " The others are committed; a rerun takes up only these."
    done = "" if dry_run or all_failed else rerun
    raise PartitionError(
        f"{len(failed)} of {count} partitions failed: {sentences}{more}.{done}", report
    )


def verdicts_of(
    commits: Sequence[Mapping[str, Any]],
) -> list[tuple[Mapping[str, Any], Verdict]]:
    """The checks that the partitions of commits did not pass, each with its partition."""
    return [
        (commit["partition"], Verdict.from_dict(values))
        for commit in commits
        for values in commit.get("verdicts", ())
    ]


def verdict_sentences(verdicts: Sequence[tuple[Mapping[str, Any], Verdict]]) -> list[str]:
    """Verdicts as sentences, each with its partition."""
    return [
        ": ".join(filter(None, [partition_text(partition), str(verdict)]))
        for partition, verdict in verdicts
    ]
