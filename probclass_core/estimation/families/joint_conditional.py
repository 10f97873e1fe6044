"""Conditionals of joint distributions: log p(x | z, c) = log p(x, z | c) − log p(z | c).

Both terms come from one estimator of x and z together: the columns x are null in the second, and
nulls are marginalized (law 5 of `contract`). The conditional of a normal is the linear regression
of x on z with normal errors, class by class (Bishop, *Pattern Recognition and Machine Learning*,
eq. 2.81 and 2.82).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import NotSupportedError
from probclass_core.estimation.contract import Estimator, Likelihood
from probclass_core.estimation.families.counted.joint import CategoricalJoint
from probclass_core.estimation.families.gaussian.full import GaussianFull, GaussianShared
from probclass_core.estimation.formulas import IMPOSSIBLE, Case, Formula, Named
from probclass_core.estimation.kinds.kind import Kind
from probclass_core.estimation.marginals import Marginal


class JointConditional(Estimator):
    """Columns given others, from an estimator of all of them together.

    Statistics and parameters are those of the joint estimator. A given column that is null is
    marginalized as well: the columns are then conditioned on the others alone.

    Args:
        features: the columns to model.
        given: the columns that they are given.
        options: options of the joint estimator.

    Attributes:
        of: class of the joint estimator.
    """

    of: ClassVar[type[Estimator]]

    def __init__(self, features: pa.Schema, given: pa.Schema, options: Mapping[str, Any]) -> None:
        self.joint = self.of(pa.schema([*features, *given]), options)
        self.features = features
        self.options = self.joint.options

    @property
    def kind(self) -> Kind:
        return self.joint.kind

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        self.joint.on_scarce, self.joint.row_weight = self.on_scarce, self.row_weight
        return self.joint.finalize(statistics, classes)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        self.joint.check_parameters(parameters, classes)

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> ConditionalLikelihood:
        joint = self.joint.likelihood(parameters, classes)
        return ConditionalLikelihood(joint, self.features.names)

    @classmethod
    def has_evidence(cls) -> bool:
        return False

    def log_evidence(self, statistics: pa.Table) -> float:
        raise NotSupportedError(
            f"{self.joint.name} offers no log evidence of columns given others; compare the blocks "
            "of all these columns together."
        )


class ConditionalFull(JointConditional):
    """Columns given others, from a normal with a covariance per class."""

    of, Options = GaussianFull, GaussianFull.Options


class ConditionalShared(JointConditional):
    """Columns given others, from normals with one covariance."""

    of, Options = GaussianShared, GaussianShared.Options


class ConditionalJoint(JointConditional):
    """Categories given others, from the joint distribution of all of them."""

    of, Options = CategoricalJoint, CategoricalJoint.Options
    statistics_version = CategoricalJoint.statistics_version


class ConditionalLikelihood:
    """log p(columns | given, c) of a joint likelihood.

    Args:
        joint: likelihood of the columns and the given ones.
        columns: the columns that are not given.
    """

    def __init__(self, joint: Likelihood, columns: Sequence[str]) -> None:
        self.joint = joint
        self.columns = columns
        self.normalized = joint.normalized

    def formula(self) -> Formula:
        joint = cast(Any, self.joint)  # each of the joint estimators takes the missing columns
        of_all, of_given = joint.formula(), joint.formula(self.columns)
        if not of_given.terms:
            return Formula(of_all.terms, of_all.refused, of_all.complete)
        (term,), (given,) = of_all.terms, of_given.terms
        given = Named(given)
        ratio = Case([(given.equals(-np.inf), IMPOSSIBLE)], term - given)
        return Formula([ratio], of_all.refused, of_all.complete)

    def marginal(self, column: str) -> Marginal | None:
        own: Marginal | None = cast(Any, self.joint).marginal(column)
        return own

    def log_likelihood(self, rows: Rows) -> FloatArray:
        of_all = self.joint.log_likelihood(rows)
        of_given = self.joint.log_likelihood(rows.without(self.columns))
        # A class that rules the given values out has no conditional: it rules the row out.
        known = np.isfinite(of_given)
        return np.where(known, of_all - np.where(known, of_given, 0.0), -np.inf)
