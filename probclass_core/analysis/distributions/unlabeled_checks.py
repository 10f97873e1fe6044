"""Checks of a partition before its commit, without labels: against training and earlier partitions.

A difference counts only if it is larger than its threshold and than `Watch.z` standard errors, and
only if every reference shows it: a July is unlike the training rows of a whole year, but like the
July before. What a season does not change, such as nulls, is not compared with the last partition,
so that a fault that persists is reported every time; nor are drift and prior, once there is a
partition a year before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probclass_core.analysis.distributions.bin_counts import distance, largest_change, percent
from probclass_core.analysis.distributions.health import ColumnHealth, Health
from probclass_core.analysis.distributions.verdicts import Verdict
from probclass_core.arrow.parts import is_date_part

if TYPE_CHECKING:
    from probclass_core.analysis.distributions.watch import Watch

CHECKS: Mapping[str, str] = {
    "missing": "a column of the model is missing in some of the files",
    "nulls": "share of nulls in a column above that of the references, from 0 to 1",
    "unseen": "share of categories that training never saw above that of the references",
    "outside": "share of numbers outside the training range above that of the references",
    "rare": "share of rows with a density below the training's 1 % quantile, or of 0",
    "drift": "divergence of a column from the references, in bits from 0 to 1",
    "prior": "change of the mean posterior of a class, from 0 to 1",
    "vanished": "estimated share of a class, as a part of the share that was usual",
    "expected_accuracy": "expected accuracy below that of the most frequent class",
    "expected_log_loss": "expected log loss above that of the class prior, in nats",
    "rows": "factor by which the number of rows exceeds, or falls short of, the references",
}
"""Checks before the commit, without labels, and what their thresholds mean."""

_OF_VALUES = {
    "nulls": "is null",
    "unseen": "has categories that training never saw",
    "outside": "is outside the range of the training rows",
}
"""Checks of the values of a column, and what they say."""

_PREDICTED_BY_MISTAKE = 0.25
"""Largest part of its usual share for which a class that vanished may still be predicted."""

_LEAST_EXPECTED_ROWS = 30
"""Rows of a class that the references let expect, below which its absence says nothing."""


@dataclass(frozen=True)
class Reference:
    """An earlier partition to compare with.

    Attributes:
        name: its partition as text, such as ``"month=2013-09"``.
        health: its health.
        season: whether it is of the same season, a year before.
    """

    name: str
    health: Health
    season: bool = False


class UnlabeledChecks:
    """The checks of one partition.

    Args:
        watch: thresholds.
        health: the health of the partition.
        earlier: earlier partitions, the last one first.
        missing: share of the rows in files without a column of the model, by column.
        seasonal: whether the partition is a time, see `Watch.check`.
    """

    def __init__(
        self,
        watch: Watch,
        health: Health,
        earlier: Sequence[Reference],
        missing: Mapping[str, float],
        *,
        seasonal: bool,
    ) -> None:
        self._watch = watch
        self._health = health
        self._missing = missing
        self._earlier = earlier
        self._year_before = [one for one in earlier if one.season]
        # Without a year before, a season cannot be told from a fault.
        self._compared = self._year_before or earlier[:1]
        self._tolerance = 2.0 if seasonal and not self._year_before else 1.0
        self._seasonal = seasonal

    def verdicts(self) -> Iterator[Verdict]:
        """The checks that the partition does not pass."""
        yield from self._missing_columns()
        yield from self._values()
        yield from self._rows()
        if self._health.rows < self._watch.min_rows:
            return
        yield from self._rare()
        if self._earlier or not self._seasonal:
            yield from self._drift()
            yield from self._prior()
        if self._year_before or not self._seasonal:
            yield from self._vanished()
        yield from self._expected_accuracy()
        yield from self._expected_log_loss()

    def _missing_columns(self) -> Iterator[Verdict]:
        most = self._watch.missing
        for column, share in self._missing.items():
            if most is not None and share > most:
                yield Verdict(
                    check="missing",
                    subject=column,
                    value=share,
                    threshold=most,
                    sentence=f"Column {column!r} of the model is missing for {percent(share)} of "
                    "the rows, which are scored as if it was null.",
                )

    def _values(self) -> Iterator[Verdict]:
        """Nulls, unseen categories, and numbers outside the training range."""
        thresholds = {name: getattr(self._watch, name) for name in _OF_VALUES}
        for name, column in self._health.columns.items():
            for check, most in thresholds.items():
                share = getattr(column, check)
                if not share or most is None or share < most:
                    continue
                if check == "outside" and self._is_date_of_season(name):
                    continue
                verdict = self._value(check, name, share, column.training_nulls, most)
                if verdict is not None:
                    yield verdict

    def _value(
        self, check: str, column: str, share: float, training_nulls: float | None, most: float
    ) -> Verdict | None:
        rows = self._health.rows
        usual = {"training": training_nulls if check == "nulls" else 0.0}
        for one in self._year_before:
            before = one.health.columns.get(column)
            usual[one.name] = None if before is None else getattr(before, check)
        known = {name: value for name, value in usual.items() if value is not None}
        # A model that was saved before it recorded nulls: only a column of nulls is odd.
        name, value = max(known.items(), key=lambda item: item[1], default=("", 1 - most))
        error = math.sqrt(max(value * (1 - value), 0.25 / rows) / rows)
        if share < value + max(most, self._watch.z * error) or share <= value:
            return None
        listed = f" ({_listed(known, ', ')})" if known else ""
        return Verdict(
            check=check,
            subject=column,
            value=share,
            threshold=value + most,
            reference=name or None,
            sentence=f"Column {column!r} {_OF_VALUES[check]} in {percent(share)} of {rows:,} rows"
            f"{listed}; the limit is {percent(most)} more.",
        )

    def _rows(self) -> Iterator[Verdict]:
        factor, rows = self._watch.rows, self._health.rows
        known = {one.name: one.health.rows for one in self._earlier}
        if factor is None or not known:
            return
        name, before = min(known.items(), key=lambda one: abs(math.log(rows / one[1])))
        difference = abs(math.log(rows / before))
        chance = self._watch.z * math.sqrt(1 / rows + 1 / before)
        if difference > max(math.log(factor), chance):
            listed = ", ".join(f"{count:,} in {one}" for one, count in known.items())
            yield Verdict(
                check="rows",
                value=rows,
                threshold=before * (factor if rows > before else 1 / factor),
                reference=name,
                sentence=f"The partition has {rows:,} rows ({listed}); the limit is a factor of "
                f"{factor:.4g}.",
            )

    def _rare(self) -> Iterator[Verdict]:
        own, most = self._health.log_density, self._watch.rare
        if own is None or most is None:
            return
        # Rows with p(x) = 0 are rare, too; without density quantiles they are all that is known.
        phrase, usual = "a density below the 1 % quantile of the training rows", 0.01
        share = own.rare
        if share is None:
            share, phrase, usual = own.impossible, "a density of 0", 0.0
        known = {"training": usual}
        for one in self._year_before:
            before = one.health.log_density
            if before is None:
                continue
            value = before.impossible if own.rare is None else before.rare
            if value is not None:
                known[one.name] = value
        name, value = max(known.items(), key=lambda item: item[1])
        sampled = self._health.sampled
        error = math.sqrt(max(value * (1 - value), 0.25 / sampled) / sampled)
        if share > value + max(most, self._watch.z * error):
            yield Verdict(
                check="rare",
                value=share,
                threshold=value + most,
                reference=name,
                sentence=f"{percent(share)} of {self._health.rows:,} rows have {phrase} "
                f"({_listed(known, ', ')}); the limit is {percent(most)} more.",
            )

    def _drift(self) -> Iterator[Verdict]:
        if self._watch.drift is None:
            return
        threshold = self._tolerance * self._watch.drift
        for column, own in self._health.columns.items():
            limit = max(threshold, self._watch.z * (own.drift_error or 0.0))
            if own.drift is None or own.drift <= limit or self._is_date_of_season(column):
                continue
            known = {"training": own.drift, **self._distances(column, own)}
            name, value = min(known.items(), key=lambda item: item[1])
            if value > limit:
                listed = " and ".join(f"{v:.2f} bits from {n}" for n, v in known.items())
                yield Verdict(
                    check="drift",
                    subject=column,
                    value=value,
                    threshold=threshold,
                    reference=name,
                    sentence=f"The values of column {column!r} differ by {listed}; the limit is "
                    f"{threshold:.4g}. {largest_change(own)}.",
                )

    def _distances(self, column: str, own: ColumnHealth) -> dict[str, float]:
        """The divergence of a column from the partitions to compare with, in bits."""
        found = {}
        for one in self._compared:
            before = one.health.columns.get(column)
            bits = None if before is None else distance(own, before)
            if bits is not None:
                found[one.name] = bits
        return found

    def _prior(self) -> Iterator[Verdict]:
        """Shares of classes that moved: by mean posterior, which no assumption can mislead."""
        if self._watch.prior is None:
            return
        threshold = self._tolerance * self._watch.prior
        classes = self._health.classes
        shares = {"training": {label: one.prior for label, one in classes.items()}}
        for one in self._compared:
            shares[one.name] = {label: c.expected for label, c in one.health.classes.items()}
        moves = {
            name: max(
                (
                    (label, own.expected - usual[label])
                    for label, own in classes.items()
                    if label in usual
                ),
                key=lambda move: abs(move[1]),
                default=("", 0.0),
            )
            for name, usual in shares.items()
        }
        name, (label, move) = min(moves.items(), key=lambda item: abs(item[1][1]))
        chance = self._watch.z * math.sqrt(0.25 / self._health.rows)
        if abs(move) > max(threshold, chance):
            usual = {one: found[label] for one, found in shares.items() if label in found}
            yield Verdict(
                check="prior",
                subject=label,
                value=classes[label].expected,
                threshold=threshold,
                reference=name,
                sentence=f"Class {label!r} has a mean posterior of "
                f"{percent(classes[label].expected)}, instead of {_listed(usual, ' and ')}; the "
                f"limit is a change of {percent(threshold)}.",
            )

    def _vanished(self) -> Iterator[Verdict]:
        part = self._watch.vanished
        for label, own in self._health.classes.items():
            if part is None or own.estimated is None or own.error is None:
                continue
            usual = {"training": own.prior}
            for one in self._year_before:
                before = one.health.classes.get(label)
                if before is not None and before.estimated is not None:
                    usual[one.name] = before.estimated
            name, least = min(usual.items(), key=lambda item: item[1])
            if (
                least * self._health.rows >= _LEAST_EXPECTED_ROWS
                and own.estimated + 2 * own.error < part * least
                and own.predicted < _PREDICTED_BY_MISTAKE * least
            ):
                yield Verdict(
                    check="vanished",
                    subject=label,
                    value=own.estimated,
                    threshold=part * least,
                    reference=name,
                    sentence=f"Class {label!r} has vanished: {percent(own.estimated)} of the rows "
                    f"by estimate, {_listed(usual, ', ')}.",
                )

    def _expected_accuracy(self) -> Iterator[Verdict]:
        below, own = self._watch.expected_accuracy, self._health.accuracy
        if below is None or own.upper is None or own.baseline is None:
            return
        if own.upper < own.baseline - below:
            yield Verdict(
                check="expected_accuracy",
                value=own.expected,
                threshold=own.baseline - below,
                reference="majority",
                sentence=f"The expected accuracy is {own.expected:.4f} (at most {own.upper:.4f}), "
                f"less than that of the most frequent class, {own.baseline:.4f}.",
            )

    def _expected_log_loss(self) -> Iterator[Verdict]:
        above, own = self._watch.expected_log_loss, self._health.log_loss
        if above is None or own.lower is None or own.baseline is None:
            return
        if own.lower > own.baseline + above:
            yield Verdict(
                check="expected_log_loss",
                value=own.expected,
                threshold=own.baseline + above,
                reference="prior",
                sentence=f"The expected log loss is {own.expected:.4f} (at least {own.lower:.4f}), "
                f"more than that of the class prior, {own.baseline:.4f}.",
            )

    def _is_date_of_season(self, column: str) -> bool:
        """Whether a part of a date such as ``month(time)`` says nothing of a partition by time."""
        return self._seasonal and is_date_part(column)


def _listed(shares: Mapping[str, float], separator: str) -> str:
    return separator.join(f"{percent(share)} in {name}" for name, share in shares.items())
