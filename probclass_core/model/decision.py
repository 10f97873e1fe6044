"""From posteriors to decisions: which class, at what cost, and when rather none.

The decision that errs least often is the class of the largest posterior (maximum a posteriori).
Under equal priors that is the class of the largest likelihood, p(x | c) (maximum likelihood). Where
mistakes differ in what they cost, the best decision is the a of the smallest expected cost,
Σ_c P(c | x) cost[c, a]; costs of 0 and 1 give the maximum a posteriori back (Duda, Hart and Stork,
*Pattern Classification*, section 2.2; Bishop, *Pattern Recognition and Machine Learning*,
section 1.5). A row whose posterior or density is too small may be left undecided: the reject option
(Chow, "On optimum recognition error and reject tradeoff", 1970).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray, as_table, check_columns
from probclass_core.errors import SpecError, nearest, one_of
from probclass_core.model.posterior import Posterior, normalize
from probclass_core.spec import category_text

REASONS = ("probability", "density")
"""Why a row is rejected, as column ``rejected`` of a scored table says it."""

_BY = ("map", "ml")
_CELL = ("class", "prediction", "cost")


@dataclass(frozen=True)
class DecisionRule:
    """How a class is chosen for a row, and when none is.

    The rule chooses; the probability of what it chose and the expected cost are those of the
    model's own posterior, whatever the rule.

    Attributes:
        by: ``"map"``, the largest posterior, or ``"ml"``, the largest likelihood: the posterior
            under equal priors, which no calibration touches. The first of equals.
        costs: ``{true class: {predicted class: cost}}``, or a table or frame with the columns
            class, prediction, cost; a cell that is not named costs 0 where prediction and class
            agree and 1 elsewhere. With costs the choice is the one of the smallest expected cost.
        min_probability: reject a row when the posterior probability of its choice is below it.
        min_density_quantile: reject a row when log p(x) is below this quantile of log p(x) over the
            table that the model's density quantiles were measured on, or is −∞.

    Raises:
        SpecError: a name or number is none of these.

    Examples:
        >>> DecisionRule(costs={"ill": {"well": 50}}).to_dict()
        {'by': 'map', 'costs': {'ill': {'well': 50.0}}}
    """

    by: str = "map"
    costs: Mapping[str, Mapping[str, float]] | Any = field(default=None, hash=False)
    min_probability: float | None = None
    min_density_quantile: float | None = None

    def __post_init__(self) -> None:
        if self.by not in _BY:
            raise SpecError(f"decision by {self.by!r} is unknown; use {one_of(_BY)}.")
        if self.costs is not None:
            object.__setattr__(self, "costs", _checked_costs(self.costs))
        for name in ("min_probability", "min_density_quantile"):
            value = getattr(self, name)
            if value is not None:
                number = _number(value)
                if not 0.0 <= number <= 1.0:
                    raise SpecError(f"{name} must be between 0 and 1, got {value!r}.")
                object.__setattr__(self, name, number)

    @property
    def rejects(self) -> bool:
        """Whether the rule can leave a row undecided."""
        return self.min_probability is not None or self.min_density_quantile is not None

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain values; what was not given is left out."""
        return {key: value for key, value in vars(self).items() if value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecisionRule:
        """The inverse of `to_dict`.

        Raises:
            SpecError: an unknown key, or the rule is not valid.
        """
        known = tuple(cls.__dataclass_fields__)
        for key in values:
            if key not in known:
                raise SpecError(
                    f"unknown key {key!r} in the decision rule; known: {one_of(known)}."
                    + nearest(str(key), known)
                )
        return cls(**values)

    @classmethod
    def parse(cls, decision: Decision) -> DecisionRule:
        """The rule that is meant by itself, by its name, or by a table of keys.

        Raises:
            SpecError: it is none of these.
        """
        if isinstance(decision, cls):
            return decision
        if isinstance(decision, Mapping):
            return cls.from_dict(decision)
        if isinstance(decision, str):
            return cls(by=decision)
        raise SpecError(
            f"decision must be {one_of(_BY)}, a DecisionRule or a table of its keys, "
            f"got {decision!r}."
        )


Decision: TypeAlias = "DecisionRule | str | Mapping[str, Any]"
"""What ``decision=`` takes: a rule, ``"map"`` or ``"ml"``, or a rule as a dict."""


@dataclass(frozen=True)
class Decided:
    """What a rule made of ``n`` rows.

    Attributes:
        choice: the class chosen, as a position, rejected or not, ``(n,)``.
        rejected: position in `REASONS`; `MISSING` where the row is decided, ``(n,)``. A row that
            both reasons reject is rejected by its density.
        expected_cost: of the choice, ``(n,)``; none where the rule has no costs.
    """

    choice: IntArray
    rejected: IntArray
    expected_cost: FloatArray | None

    @property
    def prediction(self) -> IntArray:
        """The class decided, as a position; `MISSING` where the row is rejected, ``(n,)``."""
        prediction: IntArray = np.where(self.rejected == MISSING, self.choice, MISSING)
        return prediction


class Decider:
    """A rule made ready for the classes of one model.

    Args:
        rule: the rule.
        class_names: the ``k`` classes, in class order.
        least_log_density: what the rule's quantile stands for, in nats; needed where it has one.

    Raises:
        SpecError: a cost names a class that is not there.
    """

    def __init__(
        self, rule: DecisionRule, class_names: Sequence[str], least_log_density: float | None
    ) -> None:
        self.rule = rule
        self.costs = None if rule.costs is None else _matrix(rule.costs, class_names)
        self.least_log_density = least_log_density

    def decide(self, posterior: Posterior, log_likelihood: FloatArray) -> Decided:
        """Choose a class for each row, or none.

        Args:
            posterior: of the rows.
            log_likelihood: log p(x | c), ``(n, k)``.
        """
        chosen_by = posterior
        if self.rule.by == "ml":
            size = log_likelihood.shape[1]
            chosen_by = normalize(log_likelihood, np.full(size, -math.log(size)))
        choice, expected_cost = chosen_by.decision, None
        if self.costs is not None:
            choice = np.argmin(chosen_by.probability @ self.costs, axis=1)
            cost = posterior.probability @ self.costs
            expected_cost = np.take_along_axis(cost, choice[:, None], axis=1)[:, 0]
        rejected = np.full(len(choice), MISSING, dtype=np.intp)
        if self.rule.min_probability is not None:
            unsure = posterior.probability_of(choice) < self.rule.min_probability
            rejected[unsure] = REASONS.index("probability")
        if self.least_log_density is not None:
            # A row that no class explains lies below every quantile, be it −∞ itself.
            rare = posterior.log_density < self.least_log_density
            rejected[rare | np.isneginf(posterior.log_density)] = REASONS.index("density")
        return Decided(choice, rejected, expected_cost)


def predicted(classes: pa.Array, prediction: IntArray) -> pa.Array:
    """Classes by position, null for `MISSING`, ``(n,)``."""
    places = prediction.astype(np.int64)
    return classes.take(pa.array(places, mask=places == MISSING))


def reasons(rejected: IntArray) -> pa.Array:
    """Words of `REASONS` by position, null for `MISSING`, ``(n,)``."""
    return predicted(pa.array(REASONS), rejected)


def _matrix(costs: Mapping[str, Mapping[str, float]], class_names: Sequence[str]) -> FloatArray:
    """Cost by true class and prediction, ``(k, k)``."""
    place = {name: number for number, name in enumerate(class_names)}
    matrix: FloatArray = 1.0 - np.eye(len(class_names))
    for true, cells in costs.items():
        for name in (true, *cells):
            if name not in place:
                raise SpecError(
                    f"the costs name class {name!r}; the model has {one_of(class_names)}."
                    + nearest(name, class_names)
                )
        for prediction, cost in cells.items():
            matrix[place[true], place[prediction]] = cost
    return matrix


def _checked_costs(costs: Any) -> dict[str, dict[str, float]]:
    checked: dict[str, dict[str, float]] = {}
    for true, prediction, cost in _cells(costs):
        number = _number(cost)
        if not (math.isfinite(number) and number >= 0.0):
            raise SpecError(
                f"the cost of predicting {prediction!r} for class {true!r} must be a finite number "
                f"of at least 0, got {cost!r}."
            )
        row = checked.setdefault(true, {})
        if prediction in row:
            raise SpecError(
                f"the cost of predicting {prediction!r} for class {true!r} is given twice."
            )
        row[prediction] = number
    return checked


def _cells(costs: Any) -> list[tuple[str, str, Any]]:
    """True class, prediction, cost."""
    if isinstance(costs, Mapping):
        for true, row in costs.items():
            if not isinstance(row, Mapping):
                raise SpecError(
                    f"costs of class {category_text(true)!r} must be a table of predicted class "
                    f"and cost, got {row!r}."
                )
        return [
            (category_text(true), category_text(prediction), cost)
            for true, row in costs.items()
            for prediction, cost in row.items()
        ]
    if not (isinstance(costs, (pa.Table, pa.RecordBatch)) or hasattr(costs, "__arrow_c_stream__")):
        raise SpecError(
            "costs must be a table of tables, {true class: {predicted class: cost}}, or a table "
            f"with the columns {one_of(_CELL)}, got {costs!r}."
        )
    table = as_table(costs)
    check_columns(table.schema, _CELL)
    true, prediction, cost = (table[name].to_pylist() for name in _CELL)
    return list(zip(map(category_text, true), map(category_text, prediction), cost, strict=True))


def _number(value: object) -> float:
    """The value as a float, be it the text of one, as templates render it; NaN where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, np.number)):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan
