"""Checks of a partition before its commit, without labels: against training and earlier partitions.

A difference counts only if it is larger than its threshold and than `SURE` standard errors. Values
are compared with the training rows alone, so that a fault that persists is reported every time.
Distributions, which change with the season, are compared with the partitions before, too, and
reported if they differ from each: when they change, and not again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probclass_core.analysis.distributions.health import ColumnHealth, Health
from probclass_core.analysis.distributions.verdicts import Verdict
from probclass_core.arrow.parts import is_date_part

CHECKS = (
    "missing",
    "nulls",
    "unseen",
    "outside",
    "rare",
    "drift",
    "prior",
    "rows",
)
"""Checks before the commit, without labels; see `Watch`."""

SURE = 4.0
"""Standard errors from which on a difference is more than chance: with 50 columns, one partition of
300 is reported by chance, if its rows are independent."""

_OF_VALUES = {
    "nulls": "is null",
    "unseen": "has categories that training never saw",
    "outside": "is outside the range of the training rows",
}
"""Checks of the values of a column, and what they say."""


@dataclass(frozen=True)
class UnlabeledChecks:
    """The checks of one partition.

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
        yield from self._missing_columns()
        yield from self._values()
        yield from self._rows()
        if self.health.rows < self.thresholds["min_rows"]:
            return
        yield from self._rare()
        if self.earlier or not self.in_order:
            yield from self._drift()
            yield from self._prior()

    def _missing_columns(self) -> Iterator[Verdict]:
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

    def _values(self) -> Iterator[Verdict]:
        """Nulls, unseen categories, and numbers outside the training range."""
        rows = self.health.rows
        for name, column in self.health.columns.items():
            for check, words in _OF_VALUES.items():
                share, most = getattr(column, check), self.thresholds[check]
                if not share or most is None:
                    continue
                if check == "outside" and self._is_date_of_partition(name):
                    continue
                usual = column.training_nulls if check == "nulls" else 0.0
                if usual is None or not self._exceeds(share, usual, most, rows):
                    continue
                training = f" ({_percent(usual)} in training)" if check == "nulls" else ""
                yield Verdict(
                    check=check,
                    subject=name,
                    value=share,
                    threshold=usual + most,
                    reference="training",
                    sentence=f"Column {name!r} {words} in {_percent(share)} of {rows:,} rows"
                    f"{training}; the limit is {_percent(most)} more.",
                )

    def _rows(self) -> Iterator[Verdict]:
        factor, rows = self.thresholds["rows"], self.health.rows
        known = {name: health.rows for name, health in self.earlier.items()}
        if factor is None or not known:
            return
        name, before = min(known.items(), key=lambda one: abs(math.log(rows / one[1])))
        chance = SURE * math.sqrt(1 / rows + 1 / before)
        if abs(math.log(rows / before)) > max(math.log(factor), chance):
            yield Verdict(
                check="rows",
                value=rows,
                threshold=before * (factor if rows > before else 1 / factor),
                reference=name,
                sentence=f"The partition has {rows:,} rows, {name} had {before:,}"
                f"{' and the others more unlike' if len(known) > 1 else ''}; the limit is a factor "
                f"of {factor:.4g}.",
            )

    def _rare(self) -> Iterator[Verdict]:
        own, most = self.health.log_density, self.thresholds["rare"]
        if own is None or most is None:
            return
        # Rows with p(x) = 0 are rare, too; without density quantiles they are all that is known.
        phrase, usual, share = "a density of 0", 0.0, own.impossible
        if own.rare is not None:
            phrase, usual, share = "a density below the 1 % quantile of training", 0.01, own.rare
        if self._exceeds(share, usual, most, self.health.sampled):
            yield Verdict(
                check="rare",
                value=share,
                threshold=usual + most,
                reference="training",
                sentence=f"{_percent(share)} of {self.health.rows:,} rows have {phrase}; the limit "
                f"is {_percent(usual + most)}.",
            )

    def _drift(self) -> Iterator[Verdict]:
        threshold = self.thresholds["drift"]
        if threshold is None:
            return
        for column, own in self.health.columns.items():
            limit = max(threshold, SURE * (own.drift_error or 0.0))
            if own.drift is None or own.drift <= limit or self._is_date_of_partition(column):
                continue
            known = {"training": own.drift}
            for name, health in self.earlier.items():
                before = health.columns.get(column)
                bits = None if before is None else own.distance(before)
                if bits is not None:
                    known[name] = bits
            name, value = min(known.items(), key=lambda item: item[1])
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
        """Shares of classes that moved: by mean posterior, which no assumption can mislead."""
        threshold = self.thresholds["prior"]
        if threshold is None:
            return
        classes = self.health.classes
        usual = {"training": {label: one.prior for label, one in classes.items()}}
        for name, health in self.earlier.items():
            usual[name] = {label: one.expected for label, one in health.classes.items()}
        moves = {
            name: max(
                (
                    (abs(classes[label].expected - share), label, share)
                    for label, share in of.items()
                    if label in classes
                ),
                key=lambda move: round(move[0], 12),  # of two classes, which move alike, the first
                default=(0.0, "", 0.0),
            )
            for name, of in usual.items()
        }
        name, (move, label, share) = min(moves.items(), key=lambda item: item[1][0])
        if move > max(threshold, SURE * math.sqrt(0.25 / self.health.rows)):
            yield Verdict(
                check="prior",
                subject=label,
                value=classes[label].expected,
                threshold=threshold,
                reference=name,
                sentence=f"Class {label!r} has a mean posterior of "
                f"{_percent(classes[label].expected)}, instead of {_percent(share)} in {name}; the "
                f"limit is a change of {_percent(threshold)}.",
            )

    @staticmethod
    def _exceeds(share: float, usual: float, most: float, rows: int) -> bool:
        """Whether a share of rows is above the usual one by more than allowed, and than chance."""
        error = math.sqrt(max(usual * (1.0 - usual), 0.25 / rows) / rows)
        return share > usual and share >= usual + max(most, SURE * error)

    def _is_date_of_partition(self, column: str) -> bool:
        """Whether it is a part of a date such as ``month(time)``: rows of a month are of it."""
        return self.in_order and is_date_part(column)


def _largest_change(column: ColumnHealth) -> str:
    """The bin of a column that changed most against the model, as a sentence."""
    assert column.expected is not None  # drift is measured against it
    expected, total = np.array(column.expected), sum(column.counts)
    shares = np.array(column.counts) / total
    number = int(np.argmax(np.abs(shares - expected)))
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
    found, usual = _percent(float(shares[number])), _percent(float(expected[number]))
    return f"Its {where} {found} of the rows instead of {usual}"


def _percent(share: float) -> str:
    """A share in percent with three digits."""
    return f"{100 * share:.3g} %"
