"""`Watch`: checks of a partition before its commit, and of an evaluation once labels came.

A check is not passed if a difference is larger than its threshold and than chance. Shares of faulty
values are compared with the training rows alone, so that a fault that persists is reported every
time. What changes with the season, distributions and the number of rows, is compared with the
partitions before, too, and reported if it differs from each: when it changes, and not again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from probclass_core.analysis.distributions.health import ColumnHealth, Health, percent
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.arguments import checked_number, from_fields
from probclass_core.arrow.parts import is_date_part
from probclass_core.display import counted
from probclass_core.errors import HealthError, SpecError, check_known, one_of

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

_ACTIONS: tuple[Action, ...] = ("ignore", "fail", "rollback")
"""Actions whose checks are listed; all others warn."""


@dataclass(frozen=True)
class Verdict:
    """A check that a partition or an evaluation did not pass.

    Attributes:
        check: name of the check; see `CHECKS` and `LABEL_CHECKS`.
        sentence: what was found, in a sentence.
        value: what was found.
        threshold: from which value on the check is not passed.
        subject: the column or the class, or None for all rows.
        reference: what it was compared with, such as ``"training"`` or ``"month=2013-09"``: the one
            that it is closest to.
        action: ``"warn"``, ``"fail"`` or ``"rollback"``.
    """

    check: str
    sentence: str
    value: float | None
    threshold: float | None
    subject: str | None = None
    reference: str | None = None
    action: Action = "warn"

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_dict`."""
        names = (field.name for field in dataclasses.fields(cls))
        fields: dict[str, Any] = {name: values.get(name) for name in names}
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
class Watch:
    """Thresholds of checks, and what to do about those that are not passed.

    By default a check that is not passed is a warning, which is logged and recorded with the
    commit. Checks without a threshold: ``missing`` (a column
    of the model is missing in some of the files), ``accuracy`` and ``log_loss`` (the model is worse
    than none, which always predicts the most frequent class, or the class prior).

    Attributes:
        nulls: 0.1 more nulls than in training: a source loses a column for all rows of a device or
            region, which is far more.
        unseen: 0.05 of the rows with a category that training never saw, which a few new products
            or words do not reach.
        outside: 0.05 of the rows outside the training range; of rows like those of the training
            about 2 in n are, and after a change of the unit most of them.
        rare: 0.1 more rows with a density below the training's 1 % quantile than the usual 0.01.
        drift: 0.5 bits, as between two normal distributions 2 standard deviations apart; a month
            of the weather of Beijing differs from those before by up to 0.495.
        prior: 0.25, the change of the mean posterior of a class; a month of the air of Beijing
            differs from those before by up to 0.22.
        rows: 1.8 times as many rows as any of the partitions before, or as few: a partition that
            was loaded twice has twice as many, a short month 0.9 times.
        min_rows: 300 rows from which on distributions are checked: rare, drift and prior. The 24
            hours of a day are alike, and unlike those of other days.
        min_accuracy: a floor of your own for the accuracy; none by default.
        accuracy_drop: 0.1 less accuracy than in the evaluation at the promotion.
        ignore: checks that are not made.
        fail: checks that stop the commit: `score` raises a `HealthError`, and nothing is written.
            Of an evaluation: the task fails once it is recorded.
        rollback: checks of an evaluation that roll back the alias of the model.

    Raises:
        SpecError: if a check is unknown or named twice, or a threshold is not a number.
    """

    nulls: float = 0.1
    unseen: float = 0.05
    outside: float = 0.05
    rare: float = 0.1
    drift: float = 0.5
    prior: float = 0.25
    rows: float = 1.8
    min_rows: float = 300
    min_accuracy: float = 0.0
    accuracy_drop: float = 0.1
    ignore: Sequence[str] = ()
    fail: Sequence[str] = ()
    rollback: Sequence[str] = ()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            check = _check_names if field.name in _ACTIONS else _check_threshold
            object.__setattr__(self, field.name, check(field.name, value))
        listed = [*self.ignore, *self.fail, *self.rollback]
        for name in listed:
            if listed.count(name) > 1:
                raise SpecError(f"check {name!r} of a watch has several actions; give it one.")
        if early := [name for name in self.rollback if name in CHECKS]:
            raise SpecError(
                f"check {early[0]!r} is made before the commit and cannot roll back; use fail, or "
                f"roll back for one of {one_of(LABEL_CHECKS)}."
            )

    def action(self, check: str) -> Action:
        """What to do if a check is not passed; ``"ignore"`` if it is turned off."""
        actions = (action for action in _ACTIONS if check in getattr(self, action))
        return next(actions, "warn")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: those that differ from the defaults."""
        return {
            name: list(value) if name in _ACTIONS else value
            for name, value in vars(self).items()
            if value != getattr(Watch, name)
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Watch:
        """The inverse of `to_dict`: thresholds by name, and lists of checks by action.

        Args:
            values: such as ``{"nulls": 0.2, "ignore": ["rows"], "fail": ["nulls", "missing"]}``.

        Raises:
            SpecError: if a name is unknown, or a value is invalid.
        """
        return from_fields(cls, values, "a watch")

    @classmethod
    def parse(cls, watch: WatchOption) -> Watch | None:
        """The watch that an argument means: `True` is the default, False or None is none.

        Raises:
            SpecError: if it is something else, or not valid.
        """
        if watch is None or watch is False:
            return None
        return cls() if watch is True else from_fields(cls, watch, "a watch")

    def check(
        self,
        health: Health,
        earlier: Mapping[str, Health] | None = None,
        *,
        missing: Mapping[str, float] | None = None,
        in_order: bool = False,
    ) -> list[Verdict]:
        """Check a partition before its commit.

        Args:
            health: the health of the partition.
            earlier: health of earlier partitions by name, such as ``"month=2013-09"``, the last one
                first.
            missing: share of the rows in files without a column of the model, by column.
            in_order: whether the partition is one of a sequence, such as a month. The first one is
                not checked for drift and prior: its season may not be that of the training. Nor are
                parts of dates for drift and outside: the rows of a month are of that month.

        Returns:
            A verdict for each check that is not passed.
        """
        before = earlier or {}
        verdicts = [*_missing(missing or {}), *_faulty_shares(self, health, in_order)]
        if before:
            verdicts += _changed_rows(self.rows, health.rows, before)
        if health.rows >= self.min_rows and (before or not in_order):
            verdicts += _drifted_columns(self.drift, health, before, in_order)
            if health.classes:
                verdicts += _moved_class(self.prior, health, before)
        return self._with_actions(verdicts)

    def judge(
        self,
        evaluation: Evaluation | Mapping[str, Any],
        promoted: Evaluation | Mapping[str, Any] | None = None,
    ) -> list[Verdict]:
        """Judge an evaluation on labeled rows.

        Args:
            evaluation: the evaluation, or its `Evaluation.to_dict`.
            promoted: evaluation of the same model when it was promoted, such as the ``result`` of
                `ModelStore.evaluation_at_promotion`, or None to compare with none.

        Returns:
            A verdict for each check that is not passed.
        """
        own, before = (
            each.to_dict() if isinstance(each, Evaluation) else each
            for each in (evaluation, promoted)
        )
        assert own is not None
        return self._with_actions([*_low_accuracies(self, own, before), *_high_log_loss(own)])

    def _with_actions(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        acted = [replace(verdict, action=self.action(verdict.check)) for verdict in verdicts]
        return [verdict for verdict in acted if verdict.action != "ignore"]


WatchOption = Watch | Mapping[str, Any] | bool | None
"""A watch, its values, `True` for the default, or False or None for none."""


def _check_names(action: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise SpecError(f"{action} of a watch must be a list of checks, got {names!r}.")
    known = (*CHECKS, *LABEL_CHECKS)
    check_known(names, known, "a watch has no check")
    return tuple(names)


def _check_threshold(name: str, value: Any) -> float:
    fix = "; to turn a check off, list it in ignore"
    least = 1.0 if name == "rows" else 0.0
    number: float = checked_number(
        f"{name} of a watch", value, least, above=name == "rows", fix=fix
    )
    return number


def _missing(columns: Mapping[str, float]) -> Iterator[Verdict]:
    """Columns that are missing in some of the files, by the share of the rows."""
    for column, share in columns.items():
        if share > 0.0:
            sentence = (
                f"Column {column!r} of the model is missing for {percent(share)} of the rows, "
                "which are scored as if it was null."
            )
            yield Verdict("missing", sentence, share, 0.0, column)


def _faulty_shares(watch: Watch, health: Health, in_order: bool) -> Iterator[Verdict]:
    """Shares of rows above what is usual in training."""
    rows = health.rows
    for check, column, share, usual, what in health.shares():
        most = getattr(watch, check)
        if share is None or usual is None or share <= usual:
            continue
        if check == "outside" and in_order and is_date_part(str(column)):
            continue
        if check == "rare" and rows < watch.min_rows:
            continue
        error = math.sqrt(max(usual * (1.0 - usual), 0.25 / rows) / rows)
        if share >= usual + max(most, SURE * error):
            training = f" ({percent(usual)} in training)" if check == "nulls" else ""
            sentence = (
                f"{what} in {percent(share)} of {rows:,} rows{training}; the limit is "
                f"{percent(usual + most)}."
            )
            yield Verdict(check, sentence, share, usual + most, column, "training")


def _changed_rows(factor: float, rows: int, before: Mapping[str, Health]) -> Iterator[Verdict]:
    """Many more rows than any of the partitions before, or fewer."""
    changes = {name: abs(math.log(rows / of.rows)) for name, of in before.items()}
    name, change = _nearest(changes)
    usual = before[name].rows
    if change > max(math.log(factor), SURE * math.sqrt(1 / rows + 1 / usual)):
        others = " and the others more unlike" if len(before) > 1 else ""
        sentence = (
            f"The partition has {counted(rows, 'row')}, {name} had {usual:,}{others}; the limit is "
            f"a factor of {factor:.4g}."
        )
        limit = usual * (factor if rows > usual else 1 / factor)
        yield Verdict("rows", sentence, rows, limit, reference=name)


def _drifted_columns(
    threshold: float, health: Health, before: Mapping[str, Health], in_order: bool
) -> Iterator[Verdict]:
    """Columns unlike the training, and unlike each of the partitions before."""
    for column, own in health.columns.items():
        limit = max(threshold, SURE * (own.drift_error or 0.0))
        if own.drift is None or own.drift <= limit or (in_order and is_date_part(column)):
            continue
        distances = {"training": own.drift}
        for name, of in before.items():
            if column in of.columns and (bits := own.distance(of.columns[column])) is not None:
                distances[name] = bits
        name, value = _nearest(distances)
        if value > limit:
            nearest = "" if name == "training" else f" and by {value:.2f} bits from {name}"
            sentence = (
                f"The values of column {column!r} differ by {own.drift:.2f} bits from training"
                f"{nearest}; the limit is {threshold:.4g}. {_largest_change(own)}."
            )
            yield Verdict("drift", sentence, value, threshold, column, name)


def _moved_class(
    threshold: float, health: Health, before: Mapping[str, Health]
) -> Iterator[Verdict]:
    """The class that moved most, by its mean posterior, which no assumption can mislead."""
    moves = []
    for label, own in health.classes.items():
        shares = {"training": own.prior}
        for name, of in before.items():
            if label in of.classes:
                shares[name] = of.classes[label].expected
        name, move = _nearest({name: abs(own.expected - of) for name, of in shares.items()})
        moves.append((move, label, name, shares[name]))
    # Of two classes, which move alike, the first.
    move, label, name, share = max(moves, key=lambda one: round(one[0], 12))
    if move > max(threshold, SURE * math.sqrt(0.25 / health.rows)):
        found = health.classes[label].expected
        sentence = (
            f"Class {label!r} has a mean posterior of {percent(found)}, instead of "
            f"{percent(share)} in {name}; the limit is a change of {percent(threshold)}."
        )
        yield Verdict("prior", sentence, found, threshold, label, name)


def _low_accuracies(
    watch: Watch, own: Mapping[str, Any], promoted: Mapping[str, Any] | None
) -> Iterator[Verdict]:
    """Whether the accuracy is below the prior's, `min_accuracy`, or the one at the promotion.

    Args:
        watch: the thresholds.
        own: the evaluation, as `Evaluation.to_dict` has it.
        promoted: evaluation of the same model when it was promoted, likewise, or None.
    """
    accuracy = own["accuracy"]
    if accuracy is None:  # all rows were rejected
        return

    def below(
        check: str, floor: float, chance: float, reference: str | None, less: str
    ) -> Iterator[Verdict]:
        if accuracy < floor - chance:
            said = f"The accuracy on {own['rows']:,} labeled rows is {accuracy:.4f}, {less}."
            yield Verdict(check, said, accuracy, floor, reference=reference)

    baseline, gain_error = own["baseline_accuracy"], own["accuracy_gain_error"]
    less = (
        f"less than that of the class with the largest prior, {baseline:.4f} (standard error of "
        f"the difference {gain_error:.4f})"
    )
    yield from below("accuracy", baseline, SURE_OF_SCORES * gain_error, "majority", less)
    least, drop, error = watch.min_accuracy, watch.accuracy_drop, _accuracy_error(own)
    less = f"less than {least:.4g} (standard error {error:.4f})"
    yield from below("min_accuracy", least, SURE_OF_SCORES * error, None, less)
    if promoted is not None and promoted["accuracy"] is not None:
        before, error = promoted["accuracy"], math.hypot(error, _accuracy_error(promoted))
        less = (
            f"and was {before:.4f} on {promoted['rows']:,} rows at the promotion; the limit is "
            f"{drop:.4g} less"
        )
        # The threshold, unless chance alone reaches below it.
        chance = max(0.0, SURE_OF_SCORES * error - drop)
        yield from below("accuracy_drop", before - drop, chance, "promotion", less)


def _high_log_loss(own: Mapping[str, Any]) -> Iterator[Verdict]:
    """Whether the log loss is above the class prior's."""
    found, baseline = own["log_loss"], own["baseline_log_loss"]
    loss, usual = (math.inf if value is None else value for value in (found, baseline))
    error = own["log_loss_gain_error"] or 0.0
    if loss - SURE_OF_SCORES * error > usual:
        sentence = (
            f"The log loss on {own['rows']:,} labeled rows is {loss:.4f}, more than that of the "
            f"class prior, {usual:.4f} (standard error of the difference {error:.4f})."
        )
        yield Verdict("log_loss", sentence, found, baseline, reference="prior")


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
    found, usual = percent(float(shares[number])), percent(column.expected[number])
    return f"Its {where} {found} of the rows instead of {usual}"
