"""Which checks are made, from which value on, and what to do if one is not passed: `Watch`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.label_checks import LABEL_CHECKS, Scores, judge_scores
from probclass_core.analysis.distributions.unlabeled_checks import (
    CHECKS,
    Reference,
    UnlabeledChecks,
)
from probclass_core.analysis.distributions.verdicts import Action, Verdict
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.errors import SpecError, nearest, one_of, shown

_REQUIRED = ("z", "label_z", "min_rows")
_ACTIONS = ("ignore", "fail", "rollback")
"""Actions whose checks are listed; all others warn."""


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
        raise SpecError(f"watch must be a Watch, a mapping, True or False, got {shown(watch)}.")

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
        checks = UnlabeledChecks(self, health, list(references), missing or {}, seasonal=seasonal)
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
        before = None if promoted is None else Scores.of(promoted)
        return self._with_actions(judge_scores(self, Scores.of(evaluation), before))

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
