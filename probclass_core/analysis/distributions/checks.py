"""The checks of a watch: of a partition before its commit, and of an evaluation once labels came.

A check is not passed if a difference is larger than its threshold and than chance. Shares of faulty
values are compared with the training rows alone, so that a fault that persists is reported every
time. What changes with the season, distributions and the number of rows, is compared with the
partitions before, too, and reported if it differs from each: when it changes, and not again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from probclass_core.analysis.distributions.health import ColumnHealth, Health
from probclass_core.arrow.parts import is_date_part
from probclass_core.errors import HealthError

CHECKS = ("missing", "nulls", "unseen", "outside", "rare", "drift", "prior", "rows")
"""Checks before the commit, without labels; see `Watch`."""

LABEL_CHECKS = ("accuracy", "log_loss", "min_accuracy", "accuracy_drop")
"""Checks of an evaluation; see `Watch`."""

SURE = 4.0
"""Standard errors from which on a difference of partitions is more than chance: with 50 columns,
one partition of 300 is reported by chance, if its rows are independent."""

SURE_OF_SCORES = 2.0
"""The same of evaluations, which are few: one of 40 is reported that is exactly as good as a
floor."""

_MOST_SENTENCES = 5
"""Verdicts that an error repeats."""

Action = Literal["ignore", "warn", "fail", "rollback"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A check that a partition or an evaluation did not pass.

    Attributes:
        check: name of the check; see `CHECKS` and `LABEL_CHECKS`.
        action: ``"warn"``, ``"fail"`` or ``"rollback"``.
        subject: the column or the class, or None for all rows.
        value: what was found.
        threshold: from which value on the check is not passed.
        reference: what it was compared with, such as ``"training"`` or ``"month=2013-09"``: the one
            that it is closest to.
        sentence: all of this in a sentence.
    """

    check: str
    action: Action = "warn"
    subject: str | None = None
    value: float | None
    threshold: float | None
    reference: str | None = None
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_dict`."""
        fields: dict[str, Any] = {
            field.name: values.get(field.name) for field in dataclasses.fields(cls)
        }
        return cls(**fields)


def raise_failed(verdicts: Iterable[Verdict], where: str) -> None:
    """Refuse a partition if a check says so.

    Args:
        verdicts: all verdicts of the partition.
        where: the partition, to begin the message.

    Raises:
        HealthError: if the action of a verdict is ``"fail"``.
    """
    failed = [verdict for verdict in verdicts if verdict.action == "fail"]
    if failed:
        shown = " ".join(verdict.sentence for verdict in failed[:_MOST_SENTENCES])
        more = len(failed) - _MOST_SENTENCES
        raise HealthError(
            f"{where}: {shown}{f' And {more} more.' if more > 0 else ''} Nothing of it was "
            "written; correct the rows, or leave the check out of the watch's fail.",
            [verdict.to_dict() for verdict in failed],
        )


@dataclass(frozen=True)
class PartitionToCheck:
    """A partition before its commit.

    Attributes:
        thresholds: those of a `Watch`, by name.
        health: the health of the partition.
        earlier: health of earlier partitions by name, the last one first.
        missing: share of the rows in files without a column of the model, by column.
        in_order: whether the partition is one of a sequence, see `Watch.check`.
    """

    thresholds: Mapping[str, Any]
    health: Health
    earlier: Mapping[str, Health]
    missing: Mapping[str, float]
    in_order: bool

    def verdicts(self) -> Iterator[Verdict]:
        """The checks that the partition does not pass."""
        for column, share in self.missing.items():
            if share > 0.0:
                yield Verdict(
                    check="missing",
                    subject=column,
                    value=share,
                    threshold=0.0,
                    sentence=f"Column {column!r} of the model is missing for {_percent(share)} of "
                    "the rows, which are scored as if it was null.",
                )
        yield from self._shares()
        if self.earlier:
            yield from self._rows()
        if self._has_distributions and (self.earlier or not self.in_order):
            yield from self._drift()
            yield from self._prior()

    @property
    def _has_distributions(self) -> bool:
        return bool(self.health.rows >= self.thresholds["min_rows"])

    def _shares(self) -> Iterator[Verdict]:
        """Shares of rows above what is usual in training."""
        rows = self.health.rows
        for check, column, share, usual, what in self.health.shares():
            most = self.thresholds[check]
            if share is None or usual is None or most is None or share <= usual:
                continue
            if check == "outside" and self._is_date_of_partition(str(column)):
                continue
            if check == "rare" and not self._has_distributions:
                continue
            error = math.sqrt(max(usual * (1.0 - usual), 0.25 / rows) / rows)
            if share >= usual + max(most, SURE * error):
                training = f" ({_percent(usual)} in training)" if check == "nulls" else ""
                yield Verdict(
                    check=check,
                    subject=column,
                    value=share,
                    threshold=usual + most,
                    reference="training",
                    sentence=f"{what} in {_percent(share)} of {rows:,} rows{training}; the limit "
                    f"is {_percent(usual + most)}.",
                )

    def _rows(self) -> Iterator[Verdict]:
        factor, rows = self.thresholds["rows"], self.health.rows
        if factor is None:
            return
        before = {name: health.rows for name, health in self.earlier.items()}
        name, change = _nearest({name: abs(math.log(rows / of)) for name, of in before.items()})
        chance = SURE * math.sqrt(1 / rows + 1 / before[name])
        if change > max(math.log(factor), chance):
            yield Verdict(
                check="rows",
                value=rows,
                threshold=before[name] * (factor if rows > before[name] else 1 / factor),
                reference=name,
                sentence=f"The partition has {rows:,} rows, {name} had {before[name]:,}"
                f"{' and the others more unlike' if len(before) > 1 else ''}; the limit is a "
                f"factor of {factor:.4g}.",
            )

    def _drift(self) -> Iterator[Verdict]:
        threshold = self.thresholds["drift"]
        for column, own in self.health.columns.items():
            if threshold is None or own.drift is None or self._is_date_of_partition(column):
                continue
            limit = max(threshold, SURE * (own.drift_error or 0.0))
            if own.drift <= limit:  # what is like the training need not be compared with the rest
                continue
            distances = {"training": own.drift}
            for name, health in self.earlier.items():
                before = health.columns.get(column)
                if before is not None and (bits := own.distance(before)) is not None:
                    distances[name] = bits
            name, value = _nearest(distances)
            if value > limit:
                nearest = "" if name == "training" else f" and by {value:.2f} bits from {name}"
                yield Verdict(
                    check="drift",
                    subject=column,
                    value=value,
                    threshold=threshold,
                    reference=name,
                    sentence=f"The values of column {column!r} differ by {own.drift:.2f} bits from "
                    f"training{nearest}; the limit is {threshold:.4g}. {_largest_change(own)}.",
                )

    def _prior(self) -> Iterator[Verdict]:
        """The class that moved most, by its mean posterior, which no assumption can mislead."""
        threshold, classes = self.thresholds["prior"], self.health.classes
        if threshold is None or not classes:
            return
        moves = []
        for label, own in classes.items():
            shares = {"training": own.prior}
            for name, health in self.earlier.items():
                if label in health.classes:
                    shares[name] = health.classes[label].expected
            name, move = _nearest({name: abs(own.expected - of) for name, of in shares.items()})
            moves.append((move, label, name, shares[name]))
        # Of two classes, which move alike, the first.
        move, label, name, share = max(moves, key=lambda one: round(one[0], 12))
        if move > max(threshold, SURE * math.sqrt(0.25 / self.health.rows)):
            found = classes[label].expected
            yield Verdict(
                check="prior",
                subject=label,
                value=found,
                threshold=threshold,
                reference=name,
                sentence=f"Class {label!r} has a mean posterior of {_percent(found)}, instead of "
                f"{_percent(share)} in {name}; the limit is a change of {_percent(threshold)}.",
            )

    def _is_date_of_partition(self, column: str) -> bool:
        """Whether it is a part of a date such as ``month(time)``: rows of a month are of it."""
        return self.in_order and is_date_part(column)


def judge_scores(
    thresholds: Mapping[str, Any], own: Mapping[str, Any], promoted: Mapping[str, Any] | None
) -> Iterator[Verdict]:
    """The checks that an evaluation does not pass.

    Args:
        thresholds: those of a `Watch`, by name.
        own: the evaluation, as `Evaluation.to_dict` has it.
        promoted: evaluation of the same model when it was promoted, likewise, or None.
    """
    rows, accuracy = f"on {own['rows']:,} labeled rows is", own["accuracy"]
    for check, floor, error, reference, less in _floors(thresholds, own, promoted):
        if accuracy < floor - error:
            yield Verdict(
                check=check,
                value=accuracy,
                threshold=floor,
                reference=reference,
                sentence=f"The accuracy {rows} {accuracy:.4f}, {less}.",
            )
    # An infinite log loss is None.
    loss, usual = (
        math.inf if own[name] is None else own[name] for name in ("log_loss", "baseline_log_loss")
    )
    error = own["log_loss_gain_error"] or 0.0
    if loss - SURE_OF_SCORES * error > usual:
        yield Verdict(
            check="log_loss",
            value=own["log_loss"],
            threshold=own["baseline_log_loss"],
            reference="prior",
            sentence=f"The log loss {rows} {loss:.4f}, more than that of the class prior, "
            f"{usual:.4f} (standard error of the difference {error:.4f}).",
        )


def _floors(
    thresholds: Mapping[str, Any], own: Mapping[str, Any], promoted: Mapping[str, Any] | None
) -> Iterator[tuple[str, float, float, str | None, str]]:
    """Check, floor of the accuracy, what chance gives below it, reference, and words, of each."""
    if own["accuracy"] is None:  # all rows were rejected
        return
    baseline, error = own["baseline_accuracy"], own["accuracy_gain_error"]
    less = (
        f"less than that of the class with the largest prior, {baseline:.4f} (standard error of "
        f"the difference {error:.4f})"
    )
    yield "accuracy", baseline, SURE_OF_SCORES * error, "majority", less
    least, error = thresholds["min_accuracy"], _accuracy_error(own)
    if least is not None:
        less = f"less than {least:.4g} (standard error {error:.4f})"
        yield "min_accuracy", least, SURE_OF_SCORES * error, None, less
    drop = thresholds["accuracy_drop"]
    if drop is not None and promoted is not None and promoted["accuracy"] is not None:
        before, error = promoted["accuracy"], math.hypot(error, _accuracy_error(promoted))
        less = (
            f"and was {before:.4f} on {promoted['rows']:,} rows at the promotion; the limit is "
            f"{drop:.4g} less"
        )
        # The threshold, unless chance alone reaches below it.
        floor = before - drop
        yield "accuracy_drop", floor, max(0.0, SURE_OF_SCORES * error - drop), "promotion", less


def _accuracy_error(evaluation: Mapping[str, Any]) -> float:
    """Standard error of the accuracy of independent rows."""
    accuracy = evaluation["accuracy"]
    return math.sqrt(accuracy * (1.0 - accuracy) / evaluation["decided"])


def _nearest(distances: Mapping[str, float]) -> tuple[str, float]:
    """The name of the smallest distance, the first of equal ones, and the distance."""
    return min(distances.items(), key=lambda item: item[1])


def _largest_change(column: ColumnHealth) -> str:
    """The bin of a column that changed most against the model, as a sentence."""
    assert column.expected is not None  # drift is measured against it
    shares = np.array(column.counts) / sum(column.counts)
    number = int(np.argmax(np.abs(shares - column.expected)))
    if number < len(column.values):
        where = f"{column.values[number]!r} is"
    elif column.values:
        where = "other values are"
    elif not number:
        where = f"values below {column.cuts[0]:.4g} are"
    elif number == len(column.cuts):
        where = f"values of at least {column.cuts[-1]:.4g} are"
    else:
        where = f"values from {column.cuts[number - 1]:.4g} to {column.cuts[number]:.4g} are"
    found, usual = _percent(float(shares[number])), _percent(column.expected[number])
    return f"Its {where} {found} of the rows instead of {usual}"


def _percent(share: float) -> str:
    """A share in percent with three digits."""
    return f"{100 * share:.3g} %"
