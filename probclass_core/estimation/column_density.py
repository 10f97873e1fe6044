"""Independent columns of numbers, each with a density of a few parameters per class.

What all such estimators share, whatever their statistics are: the support, the table of parameters
and its check, scoring, the marginal and SQL. NumPy's functions dispatch on their arguments, so
``log_density`` of numbers is numbers, and of a column of a query a formula.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BoolArray, FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError, PluginError, one_of, shown
from probclass_core.estimation import formulas, tidy
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families import scarce
from probclass_core.estimation.marginals import LARGEST_NUMBER, LARGEST_WHOLE, Curve
from probclass_core.estimation.options import NUMBERS

ABOVE_0 = math.ulp(0.0)
"""The least number above 0, for `ColumnDensity.support`."""

BELOW_1 = math.nextafter(1.0, 0.0)
"""The largest number below 1, for `ColumnDensity.support`."""

BEYOND_FLOAT64 = np.errstate(over="ignore", divide="ignore", invalid="ignore")
"""A density is −∞ where terms exceed float64, and estimates are checked against their ranges."""

_ROWS = 8192
"""Rows whose densities are computed at once, so that they stay in the processor's cache."""

Value = TypeVar("Value")

Estimates: TypeAlias = dict[str, FloatArray]
"""Parameters by name."""


class ByName(Generic[Value]):
    """Values as attributes: ``p.rate`` of parameters, ``m.x`` of the moments of terms.

    Args:
        values: the value of each attribute.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        vars(self).update(values)

    def __getattr__(self, name: str) -> Value:
        raise AttributeError(f"there is no {name!r}; there are {', '.join(vars(self))}.")


@dataclass(frozen=True)
class ColumnEstimates:
    """Estimates of one column.

    Attributes:
        count: Σ w of the values, ``(k,)``.
        none: classes without a value, ``(k,)``.
        parameters: by name, of each class and then of all classes together, ``(k + 1,)``.
        notes: sentences about estimates that the rows did not suffice for.
    """

    count: FloatArray
    none: BoolArray
    parameters: Mapping[str, FloatArray]
    notes: Sequence[str] = ()


class ColumnDensity(Estimator):
    """Independent columns of numbers given the class, each with a density of the same family.

    Parameters: class, feature, count, and those of ``parameters``.

    Attributes:
        support: the least and the largest value that has a density. Other values have the log
            density −∞ when they are scored, and are refused in training.
        span: where the density integrates to 1, if that is not the support: one period of angles.
        whole: whether only whole numbers have a density, which is then a probability.
        parameters: names of the parameters, and the numbers that they may be.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    models = NUMBERS
    factorizes = True
    support: tuple[float, float] = (-np.inf, np.inf)
    span: tuple[float, float] | None = None
    whole: bool = False

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, tidy.Range]:
        """The numbers that each parameter may be, by name; usually an attribute."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = vars(cls).get("parameters", {})
        by_name = declared if isinstance(declared, Mapping) else {"": declared}
        if not all(isinstance(one, (tidy.Range, property)) for one in by_name.values()):
            raise PluginError(
                f"{cls.__name__}: parameters are {shown(declared)}; map each name to the numbers "
                "that it may be, as in {'rate': POSITIVE}."
            )
        if taken := by_name.keys() & {"class", "feature", "count"}:
            raise PluginError(
                f"{cls.__name__}: a parameter cannot have the name {one_of(sorted(taken))}, which "
                "the table of parameters has already."
            )
        support = vars(cls).get("support", ColumnDensity.support)
        if not _is_interval(support):
            raise PluginError(
                f"{cls.__name__}: support is {shown(support)}; name the least and the largest "
                "value that has a density, as in (0.0, math.inf)."
            )

    @abstractmethod
    def log_density(self, x: Any, p: Any) -> Any:
        """log p(x | parameters) of values within the support, elementwise.

        ``p.<parameter>`` broadcasts against ``x``. If ``x`` is a column of a query, NumPy's
        functions return formulas. A function that SQL lacks raises an error, and only SQL is
        refused.
        """

    def estimates(
        self, statistics: pa.Table, classes: pa.Array
    ) -> Iterator[tuple[str, ColumnEstimates]]:
        """The estimates of each column that has values; not if `finalize` is overridden.

        Args:
            statistics: of all rows.
            classes: ``k`` labels.
        """
        raise NotImplementedError

    def log_densities(self, x: FloatArray, p: Mapping[str, FloatArray]) -> FloatArray:
        """`log_density` of numbers within the support; not to be overridden.

        Raises:
            PluginError: if it does not return a number for each of them.
        """
        shape = np.broadcast_shapes(x.shape, *(array.shape for array in p.values()))
        found = np.asarray(self.log_density(x, ByName(p)))
        if found.dtype.kind in "fiu":
            with suppress(ValueError):
                return np.broadcast_to(found, shape)
        raise PluginError(
            f"{self.name}: log_density returns values of type {found.dtype} and shape "
            f"{found.shape}, but x and the parameters broadcast to {shape}; return a number for "
            "each of them, computed elementwise."
        )

    def has_density(self, x: FloatArray) -> BoolArray:
        """Whether each value is within the support; False for NaN."""
        low, high = self.support
        inside: BoolArray = (x >= low) & (x <= high)
        return inside & (x == np.floor(x)) if self.whole else inside

    def values(self, rows: Rows, name: str) -> FloatArray:
        """The values of a column to train on, NaN for null, ``(n,)``; not to be overridden.

        Raises:
            DataError: naming the column, if a value is outside the support.
        """
        x = rows.numbers(name)
        outside = ~np.isnan(x) & ~self.has_density(x)
        if outside.any():
            value, number = x[int(np.argmax(outside))], int(outside.sum())
            raise DataError(
                f"column {name!r} has {number} value{'s' * (number > 1)} that {self.name} does not "
                f"model, such as {value:g}: it models {self._described_support()}; make them null, "
                "drop the rows, or choose another estimator."
            )
        return x

    def _described_support(self) -> str:
        low, high = self.support
        bounds = []
        if low > -np.inf:
            bounds.append("above 0" if low == ABOVE_0 else f"of at least {low:g}")
        if high < np.inf:
            bounds.append("below 1" if high == BELOW_1 else f"of at most {high:.17g}")
        kind = "whole numbers" if self.whole else "numbers"
        return " ".join([kind, " and ".join(bounds)])

    def in_ranges(self, estimates: Mapping[str, FloatArray], n: int) -> tuple[Estimates, BoolArray]:
        """The estimates; one outside its range is replaced by the estimate of all classes.

        Args:
            estimates: parameters of ``n`` classes, then of all together, ``(n + 1,)`` each.
            n: number of classes, or of rows that have estimates of their own.

        Returns:
            The parameters, ``(n,)`` each, NaN if the estimate of all classes is outside its range
            too; and which classes have estimates that were replaced, ``(n,)``.
        """
        if not isinstance(estimates, Mapping) or estimates.keys() != self.parameters.keys():
            returned = one_of(estimates) if isinstance(estimates, Mapping) else shown(estimates)
            raise PluginError(
                f"{self.name}: estimate returns {returned}, and the parameters are "
                f"{one_of(self.parameters)}."
            )
        arrays = {key: np.asarray(estimates[key], np.float64) for key in self.parameters}
        shapes = {name: array.shape for name, array in arrays.items()}
        if {*shapes.values()} - {(n + 1,)}:
            raise PluginError(
                f"{self.name}: estimate returns arrays of the shapes {shapes}; each parameter is a "
                "number for each class, as the count of a term is."
            )
        inside = [allowed.contains(arrays[key]) for key, allowed in self.parameters.items()]
        *own, of_all = np.all(inside, axis=0).tolist()
        chosen = {
            key: np.where(own, array[:-1], array[-1] if of_all else np.nan)
            for key, array in arrays.items()
        }
        return chosen, ~np.array(own, np.bool_)

    @BEYOND_FLOAT64
    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        notes: list[str] = []
        fitted: dict[str, Estimates] = {}
        instead = "the density there is that of all classes"
        for name, found in self.estimates(statistics, classes):
            arrays, wrong = self.in_ranges(found.parameters, len(classes))
            if np.isnan(list(arrays.values())).any():
                continue  # the values of all classes do not suffice
            wrong &= ~found.none
            for lacks, mask in (("no value", found.none), ("too few different values", wrong)):
                notes += scarce.pooled(lacks, [name], classes, mask[:, None], instead)
            notes += found.notes
            fitted[name] = {"count": found.count, **arrays}
        absent = [name for name in self.features.names if name not in fitted]
        notes = [*scarce.without_values(absent, f"that {self.name} can be fitted to"), *notes]
        fields = {}
        for key in ("count", *self.parameters):
            by_column = [of_column[key] for of_column in fitted.values()]
            fields[key] = np.reshape(by_column, (len(fitted), len(classes))).T
        table = tidy.tidy_table(classes, {"feature": pa.array(list(fitted), pa.string())}, fields)
        return self.annotate(table, scarce=notes)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        numbers = {"count": tidy.COUNT, **self.parameters}
        tidy.check_parameters(parameters, classes, {"feature": pa.string()}, numbers)

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> DensityLikelihood:
        return DensityLikelihood(self, parameters, classes)

    def outside(self, x: formulas.Column) -> list[formulas.Condition]:
        """Conditions of which one is true for a value outside the support."""
        low, high = self.support
        conditions: list[formulas.Condition] = []
        if low > -np.inf:
            conditions.append(x < low)
        if high < np.inf:
            conditions.append(x > high)
        if self.whole:
            conditions.append(x != formulas.Function("floor", x))
        return conditions

    @BEYOND_FLOAT64
    def formula(self, x: formulas.Column, p: Mapping[str, FloatArray]) -> formulas.Expression:
        """log p(x | class) as a formula: 0 if x is null, −∞ outside the support.

        Args:
            x: the column.
            p: the parameters by name, ``(k,)`` each.
        """
        inside = formulas.within(x, *self.support)
        usual = formulas.Case(
            [(formulas.IsExtreme(inside), formulas.as_expression(np.clip(1.0, *self.support)))],
            inside,
        )
        try:
            density = formulas.as_expression(self.log_density(usual, ByName(p)))
        except (AttributeError, TypeError, ValueError) as error:  # of what only arrays can
            raise NotSupportedError(f"log_density of a column has no SQL: {error}.") from error
        outside = [(condition, formulas.IMPOSSIBLE) for condition in self.outside(x)]
        return formulas.if_known([x], formulas.Case(outside, density) if outside else density)


def _is_interval(support: object) -> bool:
    match support:
        case property():
            return True
        case (int() | float() as low, int() | float() as high):
            return low < high
    return False


class DensityLikelihood:
    """log p(x | c), summed over the observed columns; −∞ outside the support.

    Args:
        density: the estimator.
        parameters: its parameters.
        classes: ``k`` labels.

    Attributes:
        arrays: the parameters by name, ``(k, d)`` each, of the columns that have values.
        estimates: the same by column, ``(k,)`` each; a column without values is absent.
    """

    normalized = True

    def __init__(self, density: ColumnDensity, parameters: pa.Table, classes: pa.Array) -> None:
        self.density, self.classes = density, len(classes)
        names, keys = pc.unique(parameters["feature"]), list(density.parameters)
        arrays = tidy.dense_arrays(parameters, classes, "feature", names, keys)
        self.arrays = dict(zip(keys, arrays, strict=True))
        self.estimates = {
            name: {key: array[:, at] for key, array in self.arrays.items()}
            for at, name in enumerate(names.to_pylist())
        }

    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.zeros((self.classes, len(rows)))
        for name in self.estimates:
            result += self._of_column(name, rows.numbers(name))
        return result.T

    def log_factors(self, rows: Rows) -> Iterator[FloatArray]:
        """log p(x_j | class) of each column, ``(n, k)``."""
        for name in self.density.features.names:
            if name in self.estimates:
                yield self._of_column(name, rows.numbers(name)).T
            else:
                yield np.zeros((len(rows), self.classes))

    @BEYOND_FLOAT64
    def _of_column(self, name: str, values: FloatArray) -> FloatArray:
        """log p(x | class) of one column, ``(k, n)``; 0 for NaN."""
        p = {key: array[:, None] for key, array in self.estimates[name].items()}
        result = np.empty((self.classes, len(values)))
        for start in range(0, len(values), _ROWS):
            x, out = values[start : start + _ROWS], result[:, start : start + _ROWS]
            inside = self.density.has_density(x)
            if inside.all():
                out[:] = self.density.log_densities(x, p)
            else:
                out[:] = np.where(np.isnan(x), 0.0, -np.inf)
                out[:, inside] = self.density.log_densities(x[inside], p)
        return result

    def marginal(self, column: str) -> Curve | None:
        """The density of one column; see `MarginalLikelihood`."""
        if column not in self.estimates:
            return None
        low, high = self.density.span or self.density.support
        largest = LARGEST_WHOLE if self.density.whole else LARGEST_NUMBER
        return Curve(
            lambda values: self._of_column(column, values).T,
            whole=self.density.whole,
            low=max(low, -largest),
            high=min(high, largest),
        )

    def formula(self) -> formulas.Formula:
        """log p(x | class) as a formula, see `FormulaLikelihood`."""
        columns = {name: formulas.Column(name) for name in self.estimates}
        return formulas.Formula(
            [self.density.formula(columns[name], p) for name, p in self.estimates.items()],
            refused=[formulas.IsExtreme(x) for x in columns.values()],
        )
