"""Which checks are made, from which value on, and what to do if one is not passed: `Watch`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from probclass_core.analysis.distributions.checks import (
    CHECKS,
    LABEL_CHECKS,
    Action,
    PartitionToCheck,
    Verdict,
    judge_scores,
)
from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.errors import SpecError, one_of, shown, suggest

_ACTIONS = ("ignore", "fail", "rollback")
"""Actions whose checks are listed; all others warn."""


@dataclass(frozen=True)
class Watch:
    """Thresholds of checks, and what to do about those that are not passed.

    A threshold of None turns its check off. By default a check that is not passed is a warning,
    which is logged and recorded with the commit. Checks without a threshold: ``missing`` (a column
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
        min_accuracy: a floor of your own for the accuracy; off by default.
        accuracy_drop: 0.1 less accuracy than in the evaluation at the promotion.
        ignore: checks that are not made.
        fail: checks that stop the commit: `score` raises a `HealthError`, and nothing is written.
            Of an evaluation: the task fails once it is recorded.
        rollback: checks of an evaluation that roll back the alias of the model.

    Raises:
        SpecError: if a check is unknown or named twice, or a threshold is not a number.
    """

    nulls: float | None = 0.1
    unseen: float | None = 0.05
    outside: float | None = 0.05
    rare: float | None = 0.1
    drift: float | None = 0.5
    prior: float | None = 0.25
    rows: float | None = 1.8
    min_rows: float = 300
    min_accuracy: float | None = None
    accuracy_drop: float | None = 0.1
    ignore: Sequence[str] = ()
    fail: Sequence[str] = ()
    rollback: Sequence[str] = ()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _ACTIONS:
                object.__setattr__(self, field.name, _check_names(field.name, value))
            elif value is not None or field.name == "min_rows":
                object.__setattr__(self, field.name, _check_threshold(field.name, value))
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
        if check in self.ignore:
            return "ignore"
        if check in self.fail:
            return "fail"
        return "rollback" if check in self.rollback else "warn"

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
                if name in (*CHECKS, *LABEL_CHECKS):
                    raise SpecError(
                        f"check {name!r} of a watch has no threshold; to turn it off, list it in "
                        "ignore."
                    )
                raise SpecError(f"a watch has no {name!r}; it has {suggest(name, known)}")
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
        raise SpecError(f"watch must be a Watch, a mapping, True or False, got {shown(watch)}.")

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
        checks = PartitionToCheck(vars(self), health, earlier or {}, missing or {}, in_order)
        return self._with_actions(checks.verdicts())

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
        return self._with_actions(judge_scores(vars(self), own, before))

    def _with_actions(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        acted = [replace(verdict, action=self.action(verdict.check)) for verdict in verdicts]
        return [verdict for verdict in acted if verdict.action != "ignore"]


WatchOption = Watch | Mapping[str, Any] | bool | None
"""A watch, its values, `True` for the default, or False or None for none."""


def _check_names(action: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise SpecError(f"{action} of a watch must be a list of checks, got {names!r}.")
    known = (*CHECKS, *LABEL_CHECKS)
    for name in names:
        if name not in known:
            raise SpecError(f"a watch has no check {name!r}; it has {suggest(name, known)}")
    return tuple(names)


def _check_threshold(name: str, value: Any) -> float:
    number = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with suppress(ValueError):  # a template renders numbers as text
            number = float(value)
    bound = "above 1" if name == "rows" else "of at least 0"
    if not (number > 1.0 if name == "rows" else number >= 0.0) or math.isinf(number):
        off = "" if name == "min_rows" else ', or None (in TOML "off") to turn the check off'
        raise SpecError(f"{name} of a watch must be a number {bound}{off}; got {value!r}.")
    return number
