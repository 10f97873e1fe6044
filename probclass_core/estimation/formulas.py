"""Log-likelihoods as formulas: arithmetic of a row's columns, from which other languages are made.

A likelihood that is a closed formula of the columns says so by the optional method ``formula`` of
`contract.FormulaLikelihood`. Its log p(x | class) is the sum of terms, each an `Expression` of
columns and constants; a constant is one number, or one for each class. SQL is made of it in
`probclass_core.sql`, for every dialect.

Values are float64. A column that is null is unknown, and so is all arithmetic with it; a term must
be 0 if what it describes is missing (law 5 of the contract), see `if_known`. A log-likelihood of
−∞ is `IMPOSSIBLE`. Engines differ in what happens beyond the range of float64, some raise errors:
use `Distance` and `square`, which each dialect keeps within the range.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from probclass_core.arrow.arrays import BoolArray, FloatArray
from probclass_core.errors import NotSupportedError

MOST_LOOKUPS = 2**18
"""Most numbers of a table that a formula looks up."""

_SHIFT = 10
"""Stirling's series is exact to nearly the last digit from here on."""

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class _Symbol:
    """What NumPy's functions return formulas of, so that formulas are written as NumPy."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        return _numpy(ufunc, method, inputs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: Any
    ) -> Any:
        """`numpy.where`; no other function that is not elementwise has SQL."""
        return _where(function, args)


class Expression(_Symbol):
    """A number for each row and class; null where a column that it needs is null."""

    def __add__(self, other: Operand) -> Expression:
        return Arithmetic("+", self, as_expression(other))

    def __radd__(self, other: Operand) -> Expression:
        return Arithmetic("+", as_expression(other), self)

    def __sub__(self, other: Operand) -> Expression:
        return Arithmetic("-", self, as_expression(other))

    def __rsub__(self, other: Operand) -> Expression:
        return Arithmetic("-", as_expression(other), self)

    def __mul__(self, other: Operand) -> Expression:
        return Arithmetic("*", self, as_expression(other))

    def __rmul__(self, other: Operand) -> Expression:
        return Arithmetic("*", as_expression(other), self)

    def __rtruediv__(self, other: Operand) -> Expression:
        return Arithmetic("/", as_expression(other), self)

    def __truediv__(self, other: Operand) -> Expression:
        return Arithmetic("/", self, as_expression(other))

    def __neg__(self) -> Expression:
        return 0.0 - self

    def __abs__(self) -> Expression:
        return Named(Function("abs", self))

    def __pow__(self, exponent: Operand) -> Expression:
        if not isinstance(exponent, (int, float)) or exponent not in (2, 3):
            raise NotSupportedError(
                "only a ** 2 and a ** 3 have SQL; write another power as exp(b * log(a))."
            )
        base = Named(self)
        return square(base) if exponent == 2 else square(base) * base

    def __lt__(self, other: Operand) -> Condition:
        return Comparison("<", self, as_expression(other))

    def __le__(self, other: Operand) -> Condition:
        return Comparison("<=", self, as_expression(other))

    def __gt__(self, other: Operand) -> Condition:
        return Comparison(">", self, as_expression(other))

    def __ge__(self, other: Operand) -> Condition:
        return Comparison(">=", self, as_expression(other))

    def __eq__(self, other: Operand) -> Condition:  # type: ignore[override]
        return Comparison("=", self, as_expression(other))

    def __ne__(self, other: Operand) -> Condition:  # type: ignore[override]
        return Comparison("<>", self, as_expression(other))

    __hash__ = object.__hash__

    @property
    def is_null(self) -> Condition:
        """Whether the value is unknown."""
        return IsNull(self)


Operand: TypeAlias = "Expression | float | FloatArray | BoolArray"


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """A number of the model.

    Attributes:
        values: one number ``()``, or one for each class ``(k,)``; −∞ is allowed.
    """

    values: FloatArray


@dataclass(frozen=True, eq=False)
class Column(Expression):
    """A column of numbers; null and NaN are null, an infinite value makes the row refused."""

    name: str


@dataclass(frozen=True, eq=False)
class Arithmetic(Expression):
    """A sum, difference, product or quotient."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


@dataclass(frozen=True, eq=False)
class Function(Expression):
    """A function of numbers within its domain: ``ln`` of numbers above 0 only, see `within`.

    It may be computed for every row, also within a `Case` whose condition excludes the row.
    """

    name: Literal["ln", "exp", "abs", "floor", "sin", "cos", "sqrt"]
    argument: Expression


@dataclass(frozen=True, eq=False)
class Distance(Expression):
    """The signed distance of a column from a center in units of a width: (x − center) · precision.

    Attributes:
        column: the column.
        center: ``()`` or ``(k,)``.
        precision: reciprocal of the width, above 0, ``()`` or ``(k,)``.
        limit: larger distances may count as infinite.
    """

    column: Column
    center: FloatArray
    precision: FloatArray
    limit: float = 1e152


@dataclass(frozen=True, eq=False)
class Square(Expression):
    """A square; that of a tiny number may be 0 or 1e-300."""

    argument: Expression


@dataclass(frozen=True, eq=False)
class Named(Expression):
    """An expression that is computed once per row and class, since it occurs several times.

    It is computed for every row, also within a `Case` whose condition excludes the row.
    """

    expression: Expression


@dataclass(frozen=True, eq=False)
class ZeroIfNull(Expression):
    """An expression, or 0 if it is null: for arithmetic of one column a faster `if_known`."""

    argument: Expression


@dataclass(frozen=True, eq=False)
class Case(Expression):
    """The value of the first condition that is true, else the last value."""

    branches: Sequence[tuple[Condition, Expression]]
    otherwise: Expression


@dataclass(frozen=True, eq=False)
class Categories:
    """Positions of the values of a column of categories.

    Attributes:
        column: the column.
        values: ``m`` categories as text. Other values have position m, null has m + 1.
    """

    column: str
    values: Sequence[str]

    @property
    def size(self) -> int:
        """Number of positions."""
        return len(self.values) + 2


@dataclass(frozen=True, eq=False)
class Bins:
    """Positions of the numbers of a column among cuts.

    Attributes:
        column: the column.
        cuts: ``m`` ascending numbers; position i is from cut i − 1 to below cut i, null has m + 1.
    """

    column: str
    cuts: Sequence[float]

    @property
    def size(self) -> int:
        """Number of positions."""
        return len(self.cuts) + 2


Code = Categories | Bins


@dataclass(frozen=True, eq=False)
class Lookup(Expression):
    """A value for each combination of positions of some columns; never null.

    Attributes:
        codes: what gives the positions.
        table: values, ``(k, s₁, s₂, …)`` for codes of these sizes.
    """

    codes: Sequence[Code]
    table: FloatArray


class Condition(_Symbol):
    """True, false, or unknown if it compares with null; unknown counts as false in a `Case`."""

    def __and__(self, other: Condition | Operand) -> Condition:
        return Junction("AND", self, as_condition(other))

    def __or__(self, other: Condition | Operand) -> Condition:
        return Junction("OR", self, as_condition(other))

    def __bool__(self) -> bool:
        raise NotSupportedError("a condition is true or false for each row; write numpy.where.")


@dataclass(frozen=True, eq=False)
class Comparison(Condition):
    """A comparison of two numbers."""

    operator: Literal["<", "<=", ">", ">=", "=", "<>"]
    left: Expression
    right: Expression


@dataclass(frozen=True, eq=False)
class IsNull(Condition):
    """Whether a value is null."""

    argument: Expression


@dataclass(frozen=True, eq=False)
class IsExtreme(Condition):
    """Whether arithmetic with a number may leave float64, in dialects where that is an error."""

    argument: Expression


@dataclass(frozen=True, eq=False)
class Junction(Condition):
    """Both conditions, or at least one of them."""

    operator: Literal["AND", "OR"]
    left: Condition
    right: Condition


@dataclass(frozen=True)
class Formula:
    """The log-likelihood of a block as a formula.

    Attributes:
        terms: log p(x | class) is their sum; they are never null.
        refused: rows that ``log_likelihood`` raises an error about: one of these is true.
        complete: columns of which all or none must be null, since the density of only some of them
            cannot be written as a formula; other rows are refused. Empty by default.
    """

    terms: Sequence[Expression]
    refused: Sequence[Condition] = field(default=())
    complete: Sequence[str] = field(default=())


IMPOSSIBLE = Constant(np.array(-np.inf))
"""The log-likelihood of a row that a class rules out."""


def as_expression(value: Operand) -> Expression:
    """A number, or ``(k,)`` numbers of the classes, as a constant; an expression as it is."""
    return value if isinstance(value, Expression) else Constant(np.asarray(value, np.float64))


def as_condition(value: Condition | Operand) -> Condition:
    """A condition of the model alone, such as ``p.shape == 0``, as one of rows; others as are."""
    return value if isinstance(value, Condition) else as_expression(value) != 0.0


def known(*columns: Column) -> Expression:
    """1 if one of the columns is not null, else 0."""
    missing = functools.reduce(operator.and_, [column.is_null for column in columns])
    return Case([(missing, as_expression(0.0))], as_expression(1.0))


def if_known(columns: Sequence[Column], expression: Expression) -> Expression:
    """The expression, or 0 if one of the columns is null.

    Args:
        columns: columns that must be known.
        expression: a term of a log-likelihood, in nats.
    """
    missing = functools.reduce(operator.or_, [column.is_null for column in columns])
    return Case([(missing, as_expression(0.0))], expression)


def square(expression: Expression) -> Expression:
    """The square of an expression, which is computed once."""
    return Square(expression if isinstance(expression, Distance) else Named(expression))


def ln(expression: Expression) -> Expression:
    """Natural logarithm of a number above 0."""
    return Function("ln", expression)


def positive(value: Expression) -> Expression:
    """A value above 0; otherwise 1, so that taking its logarithm does not fail."""
    return Case([(value <= 0.0, as_expression(1.0))], value)


def within(value: Expression, least: float, most: float) -> Expression:
    """A value, or the bound that it exceeds; null stays null."""
    bounds = []
    if math.isfinite(least):
        bounds.append((value < least, as_expression(least)))
    if math.isfinite(most):
        bounds.append((value > most, as_expression(most)))
    return Case(bounds, value)


def log_gamma(x: Expression) -> Expression:
    """log Γ(x) of x ≥ 1e-4 up to 1e20, by Stirling's series of x + 10."""
    x = Named(within(x, 1e-4, 1e20))
    y = x + float(_SHIFT)
    product: Expression = x
    for step in range(1, _SHIFT):
        product = product * (x + float(step))
    return (y - 0.5) * ln(y) - y + _HALF_LOG_2PI + _stirling_rest(y) - ln(product)


def _stirling_rest(y: Expression) -> Expression:
    """The rest of Stirling's series, 1 / 12y − 1 / 360y³ + 1 / 1260y⁵ − 1 / 1680y⁷."""
    inverse = 1.0 / (y * y)
    tail = inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse * (1.0 / 1680.0)))
    return (1.0 / 12.0 - tail) / y


def _log(x: Expression) -> Expression:
    """log x of any number, −∞ up to 0."""
    x = Named(x)
    return Case([(x <= 0.0, IMPOSSIBLE)], Named(ln(positive(x))))


def _log1p(x: Expression) -> Expression:
    """log(1 + x) of x > −1, to the last digit also for small x."""
    x = Named(x)
    series = x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - x * 0.25)))
    return Case([((x < 1e-4) & (x > -1e-4), series)], _log(1.0 + x))


def _logaddexp(x: Operand, y: Operand) -> Expression:
    """log(exp x + exp y)."""
    a, b = Named(as_expression(x)), Named(as_expression(y))
    distance = Function("abs", a - b)
    return Case([(a < b, b)], a) + _log1p(Function("exp", 0.0 - distance))


_UFUNCS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negative": operator.neg,
    "square": square,
    "power": operator.pow,
    "log": _log,
    "log1p": _log1p,
    "logaddexp": _logaddexp,
    "exp": lambda x: Named(Function("exp", x)),
    "sqrt": lambda x: Named(Function("sqrt", within(x, 0.0, math.inf))),
    "sin": lambda x: Named(Function("sin", x)),
    "cos": lambda x: Named(Function("cos", x)),
    "absolute": abs,
    "floor": lambda x: Named(Function("floor", x)),
    "maximum": lambda x, y: Case([(as_expression(x) < y, as_expression(y))], as_expression(x)),
    "minimum": lambda x, y: Case([(as_expression(x) > y, as_expression(y))], as_expression(x)),
    "gammaln": log_gamma,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "bitwise_and": lambda x, y: as_condition(x) & y,
    "bitwise_or": lambda x, y: as_condition(x) | y,
}
"""NumPy's and SciPy's functions that formulas have."""


def _numpy(ufunc: np.ufunc, method: str, inputs: Sequence[Any]) -> Any:
    known = _UFUNCS.get(ufunc.__name__) if method == "__call__" else None
    if known is None:
        raise NotSupportedError(f"the function {ufunc.__name__} has no SQL.")
    values = [
        each if isinstance(each, (Expression, Condition)) else as_expression(each)
        for each in inputs
    ]
    try:
        return known(*values)
    except TypeError as error:
        raise NotSupportedError(
            f"the function {ufunc.__name__} of a condition has no SQL; write numpy.where."
        ) from error


def _where(function: Callable[..., Any], args: Sequence[Any]) -> Expression:
    if function is not np.where or len(args) != 3:
        raise NotSupportedError(f"the function {function.__name__} has no SQL.")
    condition, value, otherwise = args
    return Case([(as_condition(condition), as_expression(value))], as_expression(otherwise))
