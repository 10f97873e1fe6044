"""What to check of a scored partition and of an evaluation, from which value on, and what to do.

A partition is checked before its commit, without labels, against the training rows and against
earlier partitions, whose health is in their commit records (`Reference`). A difference counts only
if it is larger than its threshold and than `z` standard errors, and only if every reference shows
it: a July is unlike the training rows of a whole year, but like the July before. What a season does
not change, such as nulls, is not compared with the last partition, so that a fault that persists is
reported every time; nor are drift and prior, once there is a partition a year before.

An evaluation is judged once labels have come, see `Watch.judge`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.analysis.health.bin_counts import divergence, largest_change, percent
from probclass_core.analysis.health.report import Health
from probclass_core.arrow.parts import is_date_part
from probclass_core.errors import HealthError, SpecError, nearest, one_of

Action = Literal["ignore", "warn", "fail", "rollback"]

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

LABEL_CHECKS: Mapping[str, str] = {
    "accuracy": "accuracy below that of the class with the largest prior",
    "log_loss": "log loss above that of the class prior, in nats",
    "min_accuracy": "least accuracy",
    "max_log_loss": "largest log loss, in nats",
    "accuracy_drop": "accuracy below that of the evaluation at the promotion",
    "log_loss_rise": "log loss above that of the evaluation at the promotion, in nats",
}
"""Checks of an evaluation, and what their thresholds mean."""

_REQUIRED = ("z", "label_z", "min_rows")
_ACTIONS = ("ignore", "warn", "fail", "rollback")
_MOST_SENTENCES = 5
"""Verdicts that an error repeats."""

_PREDICTED_BY_MISTAKE = 0.25
"""Largest part of its usual share for which a class that vanished may still be predicted."""

_LEAST_EXPECTED_ROWS = 30
"""Rows of a class that the references let expect, below which its absence says nothing."""


@dataclass(frozen=True)
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
    action: Action
    subject: str | None
    value: float | None
    threshold: float | None
    reference: str | None
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


@dataclass(frozen=True)
class Watch:
    """Thresholds of all checks, and what to do about those that are not passed.

    A threshold of None turns its check off. By default a check that is not passed is a warning,
    which is logged and recorded with the commit.

    Attributes:
        missing: share of the rows without a column of the model, above which it is reported; see
            ``missing_columns`` of `score` for columns that no file has.
        nulls: 0.1 more nulls than in training and in earlier partitions. Sources lose a column
            wholly or for the rows of one device or region, which is far more.
        unseen: 0.05 of the rows with a category that training never saw, which a few new products
            or words do not reach.
        outside: 0.05 of the numbers outside the training range. Of rows like those of the training
            about 2 in n are, and after a change of the unit most of them.
        rare: 0.1 of the rows with a density below the 1 % quantile, where 0.01 is usual.
        drift: 0.25 bits between the column and what the model expects of it. Two normal
            distributions are that far apart if their means differ by 1.25 standard deviations; a
            month of the weather differs from that of the year before by up to 0.22.
        prior: 0.25, the change of the mean posterior of a class. That of Beijing's months differs
            from the year before by up to 0.24.
        vanished: 0.15 of the share that was usual, of a class of which at least 30 rows were to be
            expected; two standard errors of the estimate included.
        expected_accuracy: 0, below the majority's by more than the interval of the estimate.
        expected_log_loss: 0, above the prior's by more than the interval of the estimate.
        rows: 1.8 times as many rows as in each earlier partition, or as few: a partition that was
            loaded twice has twice as many, a short month 0.9 times.
        accuracy: 0, below the majority's by more than `label_z` standard errors.
        log_loss: 0, above the prior's by more than `label_z` standard errors.
        min_accuracy: least accuracy, off by default.
        max_log_loss: largest log loss, off by default.
        accuracy_drop: 0.1 below the evaluation at the promotion.
        log_loss_rise: 0.2 nats above the evaluation at the promotion.
        z: standard errors from which on a difference is more than chance. At 4, one partition of
            300 with 50 columns is reported by chance, if its rows are independent.
        min_rows: rows of a partition from which on its distributions are checked: rare, drift,
            prior, vanished and the expected scores. Few rows that follow each other, such as the 24
            hours of a day, are alike, and unlike those of any other day.
        label_z: the same for evaluations, which are few: at 2, one of 40 that are exactly as good
            as a floor is reported.
        ignore: checks that are not made.
        fail: checks that stop the commit: `score` raises a `HealthError`, and nothing is written.
            Of an evaluation: the task fails once it is recorded.
        rollback: checks of an evaluation that roll back the alias of the model.

    Raises:
        SpecError: if a check is unknown or named twice, or a threshold is not a number.
    """

    missing: float | None = 0.0
    nulls: float | None = 0.1
    unseen: float | None = 0.05
    outside: float | None = 0.05
    rare: float | None = 0.1
    drift: float | None = 0.25
    prior: float | None = 0.25
    vanished: float | None = 0.15
    expected_accuracy: float | None = 0.0
    expected_log_loss: float | None = 0.0
    rows: float | None = 1.8
    accuracy: float | None = 0.0
    log_loss: float | None = 0.0
    min_accuracy: float | None = None
    max_log_loss: float | None = None
    accuracy_drop: float | None = 0.1
    log_loss_rise: float | None = 0.2
    z: float = 4.0
    min_rows: float = 300
    label_z: float = 2.0
    ignore: Sequence[str] = ()
    fail: Sequence[str] = ()
    rollback: Sequence[str] = ()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _ACTIONS:
                object.__setattr__(self, field.name, _check_names(field.name, value))
            elif value is not None or field.name in _REQUIRED:
                object.__setattr__(self, field.name, _check_threshold(field.name, value))
        listed = [name for action in ("ignore", "fail", "rollback") for name in self._of(action)]
        for name in listed:
            if listed.count(name) > 1:
                raise SpecError(f"check {name!r} of a watch has several actions; give it one.")
        if early := [name for name in self.rollback if name in CHECKS]:
            raise SpecError(
                f"check {early[0]!r} is made before the commit and cannot roll back; use fail, or "
                f"roll back for one of {one_of(LABEL_CHECKS)}."
            )

    def _of(self, action: str) -> Sequence[str]:
        names: Sequence[str] = getattr(self, action)
        return names

    def action(self, check: str) -> Action:
        """What to do if a check is not passed; ``"ignore"`` if it is turned off."""
        if getattr(self, check) is None or check in self.ignore:
            return "ignore"
        if check in self.fail:
            return "fail"
        return "rollback" if check in self.rollback else "warn"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: those that differ from the defaults."""
        values = dataclasses.asdict(self)
        defaults = dataclasses.asdict(Watch()) if values else {}
        return {
            name: list(value) if name in _ACTIONS else value
            for name, value in values.items()
            if value != defaults[name]
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Watch:
        """The inverse of `to_dict`: thresholds by name, and lists of checks by action.

        Args:
            values: such as ``{"nulls": 0.2, "rows": null, "fail": ["nulls", "missing"]}``. In TOML,
                which has no null, ``"off"`` turns a check off.

        Raises:
            SpecError: if a name is unknown, or a value is invalid.
        """
        if not isinstance(values, Mapping):
            raise SpecError(f"a watch is a table of thresholds and actions, got {values!r}.")
        known = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise SpecError(
                    f"a watch has no {name!r}; it has {one_of(known)}.{nearest(str(name), known)}"
                )
        fields: dict[str, Any] = {
            name: None if value == "off" else value for name, value in values.items()
        }
        return cls(**fields)

    @classmethod
    def parse(cls, watch: WatchOption) -> Watch | None:
        """The watch that an argument means: `True` is the default, False or None is none.

        Raises:
            SpecError: if it is something else, or not valid.
        """
        if isinstance(watch, Watch):
            return watch
        if watch is None or watch is False:
            return None
        if watch is True:
            return cls()
        if isinstance(watch, Mapping):
            return cls.from_dict(watch)
        raise SpecError(f"watch must be a Watch, a mapping, True or False, got {watch!r}.")

    def check(
        self,
        health: Health,
        references: Iterable[Reference] = (),
        *,
        missing: Mapping[str, float] | None = None,
        seasonal: bool = False,
    ) -> list[Verdict]:
        """Check a partition before its commit.

        Args:
            health: the health of the partition.
            references: earlier partitions, the last one first.
            missing: share of the rows in files without a column of the model, by column.
            seasonal: whether the partition is a time, such as a month. Until there is one a year
                before, a season cannot be told from a fault: drift and prior then have twice their
                thresholds, and are not checked without any earlier partition; nor is vanished. The
                rows of a month are of that month, which tells nothing: drift and outside of such
                parts of dates are not checked.

        Returns:
            A verdict for each check that is not passed.
        """
        earlier = list(references)
        if seasonal:
            health = _without_dates(health)
        found = [
            *self._missing(missing or {}),
            *self._shares(health, earlier),
            *self._rows(health, earlier),
        ]
        if health.rows >= self.min_rows:
            found += [
                *self._rare(health, earlier),
                *self._drift(health, earlier, seasonal),
                *self._prior(health, earlier, seasonal),
                *self._vanished(health, earlier, seasonal),
                *self._expected(health),
            ]
        return [verdict for verdict in found if verdict.action != "ignore"]

    def judge(
        self,
        evaluation: Evaluation | Mapping[str, Any],
        promoted: Evaluation | Mapping[str, Any] | None = None,
    ) -> list[Verdict]:
        """Judge an evaluation on labeled rows.

        Args:
            evaluation: the evaluation, or its `Evaluation.to_dict`.
            promoted: evaluation of the same model when it was promoted, or None.

        Returns:
            A verdict for each check that is not passed.
        """
        own, other = _Scores.of(evaluation), None if promoted is None else _Scores.of(promoted)
        found = [*self._floors(own), *([] if other is None else self._drops(own, other))]
        return [verdict for verdict in found if verdict.action != "ignore"]

    def _verdict(
        self,
        check: str,
        sentence: str,
        *,
        value: float | None,
        threshold: float | None,
        subject: str | None = None,
        reference: str | None = None,
    ) -> Verdict:
        return Verdict(
            check, self.action(check), subject, value, threshold, reference, f"{sentence}."
        )

    def _missing(self, missing: Mapping[str, float]) -> Iterator[Verdict]:
        for column, share in missing.items():
            if self.missing is not None and share > self.missing:
                yield self._verdict(
                    "missing",
                    f"Column {column!r} of the model is missing for {percent(share)} of the rows, "
                    "which are scored as if it was null",
                    value=share,
                    threshold=self.missing,
                    subject=column,
                )

    def _shares(self, health: Health, earlier: Sequence[Reference]) -> Iterator[Verdict]:
        """Nulls, unseen categories, and numbers outside the training range."""
        what = {
            "nulls": "is null",
            "unseen": "has categories that training never saw",
            "outside": "is outside the range of the training rows",
        }
        for column, own in health.columns.items():
            for check, phrase in what.items():
                share, most = getattr(own, check), getattr(self, check)
                if share is None or most is None:
                    continue
                usual = {"training": own.training_nulls if check == "nulls" else 0.0}
                for one in _of_season(earlier):
                    before = one.health.columns.get(column)
                    usual[one.name] = None if before is None else getattr(before, check)
                known = {name: value for name, value in usual.items() if value is not None}
                # A model that was saved before it recorded nulls: only a column of nulls is odd.
                name, value = max(known.items(), key=lambda item: item[1], default=("", 1 - most))
                error = math.sqrt(max(value * (1 - value), 0.25 / health.rows) / health.rows)
                if share >= value + max(most, self.z * error) and share > value:
                    listed = ", ".join(f"{percent(v)} in {n}" for n, v in known.items())
                    yield self._verdict(
                        check,
                        f"Column {column!r} {phrase} in {percent(share)} of {health.rows:,} rows"
                        f"{f' ({listed})' if listed else ''}; the limit is {percent(most)} more",
                        value=share,
                        threshold=value + most,
                        subject=column,
                        reference=name or None,
                    )

    def _rare(self, health: Health, earlier: Sequence[Reference]) -> Iterator[Verdict]:
        own = health.log_density
        if own is None or self.rare is None:
            return
        # Rows with p(x) = 0 are rare, too; without density quantiles they are all that is known.
        phrase, usual = "a density below the 1 % quantile of the training rows", 0.01
        share = own.rare
        if share is None:
            share, phrase, usual = own.impossible, "a density of 0", 0.0
        known = {"training": usual}
        for one in _of_season(earlier):
            before = one.health.log_density
            if before is None:
                continue
            value = before.impossible if own.rare is None else before.rare
            if value is not None:
                known[one.name] = value
        name, value = max(known.items(), key=lambda item: item[1])
        error = math.sqrt(max(value * (1 - value), 0.25 / health.sampled) / health.sampled)
        if share > value + max(self.rare, self.z * error):
            listed = ", ".join(f"{percent(v)} in {n}" for n, v in known.items())
            yield self._verdict(
                "rare",
                f"{percent(share)} of {health.rows:,} rows have {phrase} ({listed}); the limit is "
                f"{percent(self.rare)} more",
                value=share,
                threshold=value + self.rare,
                reference=name,
            )

    def _drift(
        self, health: Health, earlier: Sequence[Reference], seasonal: bool
    ) -> Iterator[Verdict]:
        if self.drift is None or (seasonal and not earlier):
            return
        compared, factor = _compared(earlier, seasonal=seasonal)
        for column, own in health.columns.items():
            limit = max(factor * self.drift, self.z * (own.drift_error or 0.0))
            if own.drift is None or own.drift <= limit:
                continue
            known = {"training": own.drift}
            for one in compared:
                before = one.health.columns.get(column)
                distance = None if before is None else divergence(own, before)
                if distance is not None:
                    known[one.name] = distance
            name, value = min(known.items(), key=lambda item: item[1])
            if value > limit:
                listed = " and ".join(f"{v:.2f} bits from {n}" for n, v in known.items())
                yield self._verdict(
                    "drift",
                    f"The values of column {column!r} differ by {listed}; the limit is "
                    f"{factor * self.drift:.4g}. {largest_change(own)}",
                    value=value,
                    threshold=factor * self.drift,
                    subject=column,
                    reference=name,
                )

    def _prior(
        self, health: Health, earlier: Sequence[Reference], seasonal: bool
    ) -> Iterator[Verdict]:
        """Shares of classes that moved: by mean posterior, which no assumption can mislead."""
        if self.prior is None or (seasonal and not earlier):
            return
        compared, factor = _compared(earlier, seasonal=seasonal)
        own = {label: one.expected for label, one in health.classes.items()}
        shares = {"training": {label: one.prior for label, one in health.classes.items()}}
        for one in compared:
            shares[one.name] = {label: c.expected for label, c in one.health.classes.items()}
        moves = {
            name: max(
                ((label, own[label] - usual[label]) for label in own if label in usual),
                key=lambda move: abs(move[1]),
                default=("", 0.0),
            )
            for name, usual in shares.items()
        }
        name, (label, move) = min(moves.items(), key=lambda item: abs(item[1][1]))
        if abs(move) > max(factor * self.prior, self.z * math.sqrt(0.25 / health.rows)):
            listed = " and ".join(f"{percent(usual[label])} in {n}" for n, usual in shares.items())
            yield self._verdict(
                "prior",
                f"Class {label!r} has a mean posterior of {percent(own[label])}, instead of "
                f"{listed}; the limit is a change of {percent(factor * self.prior)}",
                value=own[label],
                threshold=factor * self.prior,
                subject=label,
                reference=name,
            )

    def _vanished(
        self, health: Health, earlier: Sequence[Reference], seasonal: bool
    ) -> Iterator[Verdict]:
        if seasonal and not _of_season(earlier):
            return
        for label, own in health.classes.items():
            if self.vanished is None or own.estimated is None or own.error is None:
                continue
            usual = {"training": own.prior}
            for one in _of_season(earlier):
                before = one.health.classes.get(label)
                if before is not None and before.estimated is not None:
                    usual[one.name] = before.estimated
            name, least = min(usual.items(), key=lambda item: item[1])
            if (
                least * health.rows >= _LEAST_EXPECTED_ROWS
                and own.estimated + 2 * own.error < self.vanished * least
                and own.predicted < _PREDICTED_BY_MISTAKE * least
            ):
                listed = ", ".join(f"{percent(v)} in {n}" for n, v in usual.items())
                yield self._verdict(
                    "vanished",
                    f"Class {label!r} has vanished: {percent(own.estimated)} of the rows by "
                    f"estimate, {listed}",
                    value=own.estimated,
                    threshold=self.vanished * least,
                    subject=label,
                    reference=name,
                )

    def _expected(self, health: Health) -> Iterator[Verdict]:
        accuracy, loss = health.accuracy, health.log_loss
        if (
            self.expected_accuracy is not None
            and accuracy.upper is not None
            and accuracy.baseline is not None
            and accuracy.upper < accuracy.baseline - self.expected_accuracy
        ):
            yield self._verdict(
                "expected_accuracy",
                f"The expected accuracy is {accuracy.expected:.4f} (at most {accuracy.upper:.4f}), "
                f"less than that of the most frequent class, {accuracy.baseline:.4f}",
                value=accuracy.expected,
                threshold=accuracy.baseline - self.expected_accuracy,
                reference="majority",
            )
        if (
            self.expected_log_loss is not None
            and loss.lower is not None
            and loss.baseline is not None
            and loss.lower > loss.baseline + self.expected_log_loss
        ):
            yield self._verdict(
                "expected_log_loss",
                f"The expected log loss is {loss.expected:.4f} (at least {loss.lower:.4f}), more "
                f"than that of the class prior, {loss.baseline:.4f}",
                value=loss.expected,
                threshold=loss.baseline + self.expected_log_loss,
                reference="prior",
            )

    def _rows(self, health: Health, earlier: Sequence[Reference]) -> Iterator[Verdict]:
        valid = {one.name: one.health.rows for one in earlier}
        if self.rows is None or not valid:
            return
        name, before = min(valid.items(), key=lambda one: abs(math.log(health.rows / one[1])))
        difference = abs(math.log(health.rows / before))
        chance = self.z * math.sqrt(1 / health.rows + 1 / before)
        if difference > max(math.log(self.rows), chance):
            listed = ", ".join(f"{rows:,} in {one}" for one, rows in valid.items())
            yield self._verdict(
                "rows",
                f"The partition has {health.rows:,} rows ({listed}); the limit is a factor of "
                f"{self.rows:.4g}",
                value=health.rows,
                threshold=before * (self.rows if health.rows > before else 1 / self.rows),
                reference=name,
            )

    def _floors(self, own: _Scores) -> Iterator[Verdict]:
        if (
            self.accuracy is not None
            and own.accuracy is not None
            and own.baseline_accuracy is not None
        ):
            floor = own.baseline_accuracy - self.accuracy
            if own.accuracy + self.label_z * own.accuracy_gain_error < floor:
                yield self._verdict(
                    "accuracy",
                    f"The accuracy on {own.rows:,} labeled rows is {own.accuracy:.4f}, less than "
                    f"that of the class with the largest prior, {own.baseline_accuracy:.4f} "
                    f"(standard error of the difference {own.accuracy_gain_error:.4f})",
                    value=own.accuracy,
                    threshold=floor,
                    reference="majority",
                )
        if self.log_loss is not None:
            limit = own.baseline_log_loss + self.log_loss
            if own.log_loss - self.label_z * own.log_loss_gain_error > limit:
                yield self._verdict(
                    "log_loss",
                    f"The log loss on {own.rows:,} labeled rows is {own.log_loss:.4f}, more than "
                    f"that of the class prior, {own.baseline_log_loss:.4f} (standard error of the "
                    f"difference {own.log_loss_gain_error:.4f})",
                    value=_finite(own.log_loss),
                    threshold=_finite(limit),
                    reference="prior",
                )
        if (
            self.min_accuracy is not None
            and own.accuracy is not None
            and own.accuracy + self.label_z * own.accuracy_error < self.min_accuracy
        ):
            yield self._verdict(
                "min_accuracy",
                f"The accuracy on {own.rows:,} labeled rows is {own.accuracy:.4f} (standard "
                f"error {own.accuracy_error:.4f}), less than {self.min_accuracy:.4g}",
                value=own.accuracy,
                threshold=self.min_accuracy,
            )
        if (
            self.max_log_loss is not None
            and own.log_loss - self.label_z * own.log_loss_error > self.max_log_loss
        ):
            yield self._verdict(
                "max_log_loss",
                f"The log loss on {own.rows:,} labeled rows is {own.log_loss:.4f} (standard "
                f"error {own.log_loss_error:.4f}), more than {self.max_log_loss:.4g}",
                value=_finite(own.log_loss),
                threshold=self.max_log_loss,
            )

    def _drops(self, own: _Scores, before: _Scores) -> Iterator[Verdict]:
        if (
            self.accuracy_drop is not None
            and own.accuracy is not None
            and before.accuracy is not None
        ):
            error = math.hypot(own.accuracy_error, before.accuracy_error)
            limit = before.accuracy - max(self.accuracy_drop, self.label_z * error)
            if own.accuracy < limit:
                yield self._verdict(
                    "accuracy_drop",
                    f"The accuracy on {own.rows:,} labeled rows is {own.accuracy:.4f}, and was "
                    f"{before.accuracy:.4f} on {before.rows:,} rows at the promotion; the limit is "
                    f"{self.accuracy_drop:.4g} less",
                    value=own.accuracy,
                    threshold=before.accuracy - self.accuracy_drop,
                    reference="promotion",
                )
        if self.log_loss_rise is not None:
            error = math.hypot(own.log_loss_error, before.log_loss_error)
            limit = before.log_loss + max(self.log_loss_rise, self.label_z * error)
            if own.log_loss > limit:
                yield self._verdict(
                    "log_loss_rise",
                    f"The log loss on {own.rows:,} labeled rows is {own.log_loss:.4f}, and was "
                    f"{before.log_loss:.4f} on {before.rows:,} rows at the promotion; the limit is "
                    f"{self.log_loss_rise:.4g} more",
                    value=_finite(own.log_loss),
                    threshold=_finite(before.log_loss + self.log_loss_rise),
                    reference="promotion",
                )


WatchOption = Watch | Mapping[str, Any] | bool | None
"""A watch, its values, `True` for the default, or False or None for none."""


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
class _Scores:
    """The scores of an evaluation and their standard errors, if the rows are independent."""

    rows: int
    accuracy: float | None
    baseline_accuracy: float | None
    accuracy_error: float
    accuracy_gain_error: float
    log_loss: float
    baseline_log_loss: float
    log_loss_error: float
    log_loss_gain_error: float

    @classmethod
    def of(cls, evaluation: Evaluation | Mapping[str, Any]) -> _Scores:
        values = evaluation if isinstance(evaluation, Mapping) else evaluation.to_dict()
        accuracy, decided = values["accuracy"], values["decided"]
        baseline = values["baseline_accuracy"]
        error = 0.0 if accuracy is None else math.sqrt(accuracy * (1 - accuracy) / decided)
        return cls(
            rows=values["rows"],
            accuracy=accuracy,
            baseline_accuracy=baseline,
            accuracy_error=error,
            accuracy_gain_error=_gain_error(values),
            log_loss=_infinite(values["log_loss"]),
            baseline_log_loss=_infinite(values["baseline_log_loss"]),
            log_loss_error=values.get("log_loss_error") or 0.0,
            log_loss_gain_error=values.get("log_loss_gain_error") or 0.0,
        )


def _gain_error(values: Mapping[str, Any]) -> float:
    """Standard error of the accuracy less that of the class with the largest prior.

    It is that of paired differences, as in the test of McNemar: rows about which both are right or
    both are wrong do not count. A record without its tables gives the largest that it can be.
    """
    rows, baseline = values["decided"], values["baseline_accuracy"]
    if baseline is None:
        return 0.0
    gain = values["accuracy"] - baseline
    differing = float(rows)
    confusion = [
        [count for name, count in row.items() if name != "class"]
        for row in values.get("confusion") or ()
    ]
    correct = sum(row[number] for number, row in enumerate(confusion))
    for number, row in enumerate(confusion):
        if math.isclose(sum(row) / rows, baseline, abs_tol=1e-12):
            differing = sum(row) + correct - 2 * row[number]
    return math.sqrt(max(0.0, differing / rows - gain**2) / rows)


def _compared(earlier: Sequence[Reference], *, seasonal: bool) -> tuple[Sequence[Reference], float]:
    """Earlier partitions to compare with, and the factor of the threshold; see `Watch.check`."""
    close = _of_season(earlier)
    return close or earlier[:1], 2.0 if seasonal and not close else 1.0


def _without_dates(health: Health) -> Health:
    """The health without what parts of dates such as ``month(time)`` say of a partition by time."""
    columns = {
        name: replace(own, drift=None, outside=None) if is_date_part(name) else own
        for name, own in health.columns.items()
    }
    return replace(health, columns=columns)


def _of_season(references: Sequence[Reference]) -> list[Reference]:
    """The references of the same season."""
    return [one for one in references if one.season]


def _check_names(action: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise SpecError(f"{action} of a watch must be a list of checks, got {names!r}.")
    known = (*CHECKS, *LABEL_CHECKS)
    for name in names:
        if name not in known:
            raise SpecError(
                f"a watch has no check {name!r}; it has {one_of(known)}."
                + nearest(str(name), known)
            )
    return tuple(names)


def _check_threshold(name: str, value: Any) -> float:
    number = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with suppress(ValueError):  # a template renders numbers as text
            number = float(value)
    lowest, bound = (1.0, "above 1") if name == "rows" else (0.0, "of at least 0")
    if not (math.isfinite(number) and (number > 1.0 if name == "rows" else number >= lowest)):
        off = "" if name in _REQUIRED else ', or None (in TOML "off") to turn the check off'
        raise SpecError(f"{name} of a watch must be a number {bound}{off}; got {value!r}.")
    return number


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _infinite(value: float | None) -> float:
    return math.inf if value is None else float(value)
