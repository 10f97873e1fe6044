"""Decisions from posteriors: which class, at what expected cost, and when to reject a row.

The decision with the fewest errors is the class of the largest posterior (maximum a posteriori).
Under equal priors this is the class of the largest likelihood p(x | c) (maximum likelihood). If
mistakes differ in cost, the best decision is the a with the smallest expected cost,
Σ_c P(c | x) cost[c, a]; costs of 0 and 1 give the maximum a posteriori again (Duda, Hart and Stork,
*Pattern Classification*, section 2.2; Bishop, *Pattern Recognition and Machine Learning*,
section 1.5). A row whose posterior or density is too small can be left undecided: the reject option
(Chow, "On optimum recognition error and reject tradeoff", 1970).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from probclass_core.arguments import checked_number, from_fields
from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray
from probclass_core.errors import SpecError, check_known, one_of, shown
from probclass_core.model.posterior import Posterior, normalize
from probclass_core.spec.model_spec import category_text

REJECTION_REASONS = ("probability", "density")
"""Why a row is rejected: the values of column ``rejected`` of a scored table."""

_CRITERIA = ("map", "ml")


@dataclass(frozen=True)
class DecisionRule:
    """How a class is chosen for a row, and when the row is rejected instead.

    The rule only chooses: the reported probability and expected cost of the chosen class always
    come from the model's own posterior.

    Attributes:
        by: ``"map"`` for the largest posterior, or ``"ml"`` for the largest likelihood, which is
            the uncalibrated posterior under equal priors. Ties go to the first class.
        costs: ``{true class: {predicted class: cost}}``. Pairs without a cost cost 0 if prediction
            and class agree, else 1. With costs, the class of the smallest expected cost is chosen.
        min_probability: reject a row if the posterior probability of its choice is smaller.
        min_rarity: reject a row that is among the rarest of this share of the known rows, or whose
            log p(x) is −∞; see `Model.rarity`.

    Raises:
        SpecError: if a name is unknown or a number is out of range.

    Examples:
        >>> DecisionRule(costs={"ill": {"well": 50}}).to_dict()
        {'by': 'map', 'costs': {'ill': {'well': 50.0}}}
    """

    by: str = "map"
    costs: Mapping[str, Mapping[str, float]] | None = field(default=None, hash=False)
    min_probability: float | None = None
    min_rarity: float | None = None

    def __post_init__(self) -> None:
        if self.by not in _CRITERIA:
            raise SpecError(f"decision by {self.by!r} is unknown; use {one_of(_CRITERIA)}.")
        if self.costs is not None:
            object.__setattr__(self, "costs", _checked_costs(self.costs))
        for name in ("min_probability", "min_rarity"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_number(name, value, 0.0, 1.0))

    @property
    def rejects(self) -> bool:
        """Whether the rule can leave a row undecided."""
        return self.min_probability is not None or self.min_rarity is not None

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain values, without the fields that are None."""
        return {key: value for key, value in vars(self).items() if value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecisionRule:
        """The inverse of `to_dict`.

        Raises:
            SpecError: if a key is unknown or a value is invalid.
        """
        return from_fields(cls, values, "a decision rule")

    @classmethod
    def parse(cls, decision: DecisionOption) -> DecisionRule:
        """A rule from any form that ``decision=`` takes.

        Raises:
            SpecError: if `decision` has another type, or an unknown name or key.
        """
        if isinstance(decision, str):
            return cls(by=decision)
        return from_fields(cls, decision, "a decision rule")


DecisionOption: TypeAlias = "DecisionRule | str | Mapping[str, Any]"
"""What ``decision=`` takes: a rule, ``"map"`` or ``"ml"``, or the fields of a rule as a dict."""


@dataclass(frozen=True)
class Decisions:
    """Decisions of a rule about ``n`` rows.

    Attributes:
        choice: position of the chosen class, also of rejected rows, ``(n,)``.
        rejected: position in `REJECTION_REASONS`, or `MISSING` if the row is not rejected,
            ``(n,)``. A row that both reasons reject is reported as rejected by its density.
        expected_cost: expected cost of the choice, ``(n,)``, or None if the rule has no costs.
    """

    choice: IntArray
    rejected: IntArray
    expected_cost: FloatArray | None

    @property
    def prediction(self) -> IntArray:
        """The position of the predicted class, `MISSING` if the row is rejected: ``(n,)``."""
        prediction: IntArray = np.where(self.rejected == MISSING, self.choice, MISSING)
        return prediction


class CompiledRule:
    """A decision rule compiled for the classes of one model.

    Args:
        rule: the decision rule.
        class_names: the ``k`` classes, in class order.
        min_log_density: log p(x) in nats at the rule's density quantile, or None without one.

    Raises:
        SpecError: if the costs name an unknown class.
    """

    def __init__(
        self, rule: DecisionRule, class_names: Sequence[str], min_log_density: float | None
    ) -> None:
        self.rule = rule
        self.costs = None if rule.costs is None else _cost_matrix(rule.costs, class_names)
        self.min_log_density = min_log_density

    def decide(self, posterior: Posterior, log_likelihood: FloatArray) -> Decisions:
        """Choose a class for each row, or reject the row.

        Args:
            posterior: posteriors of ``n`` rows.
            log_likelihood: log p(x | c) of the same rows, ``(n, k)``.
        """
        criterion = posterior
        if self.rule.by == "ml":
            size = log_likelihood.shape[1]
            criterion = normalize(log_likelihood, np.full(size, -math.log(size)))
        choice, expected_cost = criterion.most_probable, None
        if self.costs is not None:
            choice = np.argmin(criterion.probability @ self.costs, axis=1)
            cost = posterior.probability @ self.costs
            expected_cost = np.take_along_axis(cost, choice[:, None], axis=1)[:, 0]
        rejected = np.full(len(choice), MISSING, dtype=np.intp)
        if self.rule.min_probability is not None:
            unsure = posterior.probability_of(choice) < self.rule.min_probability
            rejected[unsure] = REJECTION_REASONS.index("probability")
        if self.min_log_density is not None:
            # A row that no class explains is below every quantile, even a quantile of −∞.
            rare = posterior.log_density < self.min_log_density
            rejected[rare | np.isneginf(posterior.log_density)] = REJECTION_REASONS.index("density")
        return Decisions(choice, rejected, expected_cost)


def take_classes(classes: pa.Array, positions: IntArray) -> pa.Array:
    """Classes by position, ``(n,)``; null for `MISSING`."""
    indices = positions.astype(np.int64)
    return classes.take(pa.array(indices, mask=indices == MISSING))


def rejection_reasons(rejected: IntArray) -> pa.Array:
    """Names of `REJECTION_REASONS` by position, ``(n,)``; null for `MISSING`."""
    return take_classes(pa.array(REJECTION_REASONS), rejected)


def _cost_matrix(
    costs: Mapping[str, Mapping[str, float]], class_names: Sequence[str]
) -> FloatArray:
    """Costs by true class and predicted class, ``(k, k)``."""
    position = {name: number for number, name in enumerate(class_names)}
    matrix: FloatArray = 1.0 - np.eye(len(class_names))
    for true, row in costs.items():
        check_known((true, *row), class_names, "the costs name class", "the model has")
        for prediction, cost in row.items():
            matrix[position[true], position[prediction]] = cost
    return matrix


def _checked_costs(costs: Any) -> dict[str, dict[str, float]]:
    """Costs as ``{true class: {predicted class: cost}}``, checked."""
    if not isinstance(costs, Mapping) or not all(isinstance(of, Mapping) for of in costs.values()):
        raise SpecError(
            "costs must be a table of tables, {true class: {predicted class: cost}}, got "
            f"{shown(costs)}."
        )
    checked: dict[str, dict[str, float]] = {}
    for true, row in costs.items():
        for prediction, cost in row.items():
            what = f"the cost of predicting {prediction!r} for class {true!r}"
            of_true = checked.setdefault(category_text(true), {})
            of_true[category_text(prediction)] = checked_number(what, cost)
    return checked
