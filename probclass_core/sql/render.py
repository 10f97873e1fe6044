"""Formulas as SQL expressions of one dialect.

An expression is rendered once for each class, with the class's constants, which are folded. What is
the same for all classes is computed once per row: it becomes a column of an earlier common table
expression, see `Columns`. So does what an expression uses several times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import is_numeric_type
from probclass_core.arrow.parts import NUMBER_PATTERN, text_source
from probclass_core.arrow.types import value_type
from probclass_core.errors import NotSupportedError
from probclass_core.estimation.formulas import (
    Arithmetic,
    Bins,
    Case,
    Categories,
    Code,
    Column,
    Comparison,
    Condition,
    Constant,
    Distance,
    Expression,
    Function,
    IsExtreme,
    IsNull,
    Junction,
    Lookup,
    Named,
    Square,
    ZeroIfNull,
    as_expression,
)
from probclass_core.sql.dialects import Dialect, bisected

_TINY, _HUGE = 1e-150, 1e152
"""Where arithmetic raises errors, squares of smaller numbers are 1e-300, those of larger ones ∞."""

_EXTREME = 1e150
"""Where arithmetic raises errors, formulas of densities refuse larger numbers and inverses."""

_MAX = float(np.finfo(np.float64).max)

_WHOLE = re.compile("0|-?[1-9][0-9]*")
"""How a whole number is written as a category."""

_FOLDED: Mapping[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "<>": np.not_equal,
}
"""What operators do with constants."""

_ADDITIVE, _MULTIPLICATIVE, _ATOM = 1, 2, 3


@dataclass(frozen=True)
class Sql:
    """An SQL expression.

    Attributes:
        text: the SQL.
        level: number of the common table expression that it can be computed in.
        binding: how tightly its outermost operator binds; an atom needs no parentheses.
        value: its number if it is a constant, which is folded; else None.
    """

    text: str
    level: int = 0
    binding: int = _ATOM
    value: float | None = None

    def within(self, binding: int) -> str:
        """The text, in parentheses if an operator around it binds more tightly."""
        return self.text if self.binding >= binding else f"({self.text})"


@dataclass
class Columns:
    """Columns of common table expressions: inputs at level 0, what is made of them at level 1 ….

    Attributes:
        levels: names and SQL by level.
    """

    levels: list[dict[str, str]] = field(default_factory=lambda: [{}])
    _names: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, prefix: str, text: str, level: int) -> Sql:
        """The column with this SQL, added if it does not exist."""
        if text not in self._names:
            name = f"{prefix}{len(self._names) + 1}"
            while len(self.levels) <= level:
                self.levels.append({})
            self.levels[level][name] = text
            self._names[text] = name, level
        name, level = self._names[text]
        return Sql(name, level + 1)


class Renderer:
    """Renders the formulas of one model.

    Args:
        dialect: dialect to write.
        features: features of the model and their types.
        source: name of the table in the query.
    """

    def __init__(self, dialect: Dialect, features: pa.Schema, source: str) -> None:
        self.dialect = dialect
        self.columns = Columns()
        self._features = features
        self._source = source
        self.refused: dict[str, None] = {}
        self._expanded: dict[int, tuple[Distance, Expression]] = {}  # with the node of the id
        self._by_class: dict[int, tuple[object, bool]] = {}

    def refuse(self, condition: str) -> None:
        """Refuse rows that meet a condition, given as SQL."""
        self.refused[condition] = None

    # Columns of the table.

    def _input(self, name: str) -> str:
        return f"{self._source}.{self.dialect.identifier(name)}"

    def _type(self, name: str) -> pa.DataType:
        return value_type(self._features.field(name).type)

    def number(self, name: str) -> Sql:
        """A column as a double, null for null and NaN."""
        dialect, kind = self.dialect, self._type(name)
        if not is_numeric_type(kind):
            raise NotSupportedError(f"column {name!r} is {kind}, which SQL cannot score yet.")
        if (source := text_source(name)) is not None:
            return self.columns.add("x", self._number_of_text(source), 0)
        raw = self._input(name)
        number = raw
        if pa.types.is_boolean(kind):
            number = f"CASE WHEN {raw} THEN 1 WHEN NOT {raw} THEN 0 END"
        text = dialect.to_double.format(number)
        if dialect.is_nan is not None and not pa.types.is_boolean(kind):
            text = f"CASE WHEN NOT {dialect.is_nan.format(text)} THEN {text} END"
        column = self.columns.add("x", text, 0)
        self._refuse_text(name)
        self.refuse(f"ABS({column.text}) > {dialect.literal(_MAX)}")
        return column

    def _number_of_text(self, name: str) -> str:
        """The number that a text is, as `arrow.parts` reads it."""
        dialect = self.dialect
        if dialect.matches is None:
            raise NotSupportedError(
                f"{dialect.name} cannot read the text of column {name!r} as numbers: it has no "
                "regular expressions; make it a column of numbers, and train again."
            )
        text = f"TRIM(CAST({self._input(name)} AS {dialect.string}))"
        is_number = dialect.matches.format(text=text, pattern=dialect.text(NUMBER_PATTERN))
        return f"CASE WHEN {is_number} THEN CAST({text} AS {dialect.double}) END"

    def _refuse_text(self, name: str) -> None:
        """Refuse values that are not numbers: casts make them 0 where columns have no types."""
        if self.dialect.dynamic_types:
            is_text = f"typeof({self._input(name)}) IN ('text', 'blob')"
            self.refuse(self.columns.add("text", is_text, 0).text)

    def code(self, code: Code) -> Sql:
        """The position of a value, an integer."""
        if isinstance(code, Bins):
            value = self.number(code.column)
            cuts = [self.dialect.literal(cut) for cut in code.cuts]
            inner = bisected(value.text, cuts, [str(at) for at in range(len(cuts) + 1)])
            text = f"CASE WHEN {value.text} IS NULL THEN {len(cuts) + 1} ELSE {inner} END"
            return self.columns.add("n", text, 1)
        return self._category(code)

    def _words(self, name: str) -> Sql:
        """A column as text."""
        text = f"CAST({self._input(name)} AS {self.dialect.string})"
        return self.columns.add("x", self.dialect.binary.format(text), 0)

    def _category(self, code: Categories) -> Sql:
        name, kind, m = code.column, self._type(code.column), len(code.values)
        whole = [each if _WHOLE.fullmatch(each) else "NULL" for each in code.values]
        texts = [self.dialect.string_literal(each) for each in code.values]
        if pa.types.is_boolean(kind):
            raw = self._input(name)
            text = f"CASE WHEN {raw} THEN 'true' WHEN NOT {raw} THEN 'false' END"
            self._refuse_text(name)
            value, literals = self.columns.add("x", text, 0), texts
        elif pa.types.is_floating(kind):
            value, literals = self.number(name), whole
            self.refuse(f"{value.text} <> FLOOR({value.text})")
        elif pa.types.is_integer(kind):
            # Not cast: that would round the fractions of another type.
            value, literals = self.columns.add("x", self._input(name), 0), whole
            self._refuse_text(name)
        else:
            value, literals = self._words(name), texts
        cases = " ".join(
            f"WHEN {value.text} = {literal} THEN {position}"
            for position, literal in enumerate(literals)
        )
        text = f"CASE WHEN {value.text} IS NULL THEN {m + 1} {cases} ELSE {m} END"
        return self.columns.add("n", text, 1)

    # Expressions.

    def expression(self, expression: Expression, position: int) -> Sql:
        """An expression for the class at a position."""
        computed = self._compute(expression, position)
        if isinstance(expression, (Column, Lookup)) or self._is_by_class(expression):
            return computed
        return self._named(computed)

    def _is_by_class(self, node: Expression | Condition) -> bool:
        """Whether constants of an expression differ between classes."""
        if id(node) not in self._by_class:
            own = any(np.ndim(one) for one in vars(node).values() if isinstance(one, np.ndarray))
            is_by_class = own or any(map(self._is_by_class, _children(node)))
            self._by_class[id(node)] = node, is_by_class  # the node, so that its id stays its own
        return self._by_class[id(node)][1]

    def _named(self, value: Sql) -> Sql:
        if value.value is not None or value.text.isidentifier():
            return value
        return self.columns.add("v", value.text, value.level)

    def _constant(self, value: float) -> Sql:
        text = self.dialect.literal(value)
        return Sql(text, binding=0 if text.startswith("-") else _ATOM, value=float(value))

    def literal(self, value: float) -> str:
        """A double as a literal within an expression, in parentheses if it is negative."""
        return self._constant(value).within(_ADDITIVE)

    def _compute(self, expression: Expression, at: int) -> Sql:
        if isinstance(expression, Constant):
            values = expression.values
            return self._constant(float(values if values.ndim == 0 else values[at]))
        if isinstance(expression, Column):
            return self.number(expression.name)
        if isinstance(expression, Arithmetic):
            return self._arithmetic(expression, at)
        if isinstance(expression, Function):
            return self._function(expression, at)
        if isinstance(expression, Named):
            return self._named(self.expression(expression.expression, at))
        if isinstance(expression, Distance):
            return self._distance(expression, at)
        if isinstance(expression, Square):
            return self._square(expression, at)
        if isinstance(expression, ZeroIfNull):
            value = self.expression(expression.argument, at)
            return Sql(f"COALESCE({value.text}, {self.dialect.literal(0.0)})", value.level)
        if isinstance(expression, Case):
            return self._case(expression, at)
        if isinstance(expression, Lookup):
            return self._lookup(expression, at)
        raise NotSupportedError(f"{type(expression).__name__} cannot be written as SQL.")

    def _arithmetic(self, node: Arithmetic, at: int) -> Sql:
        left, right = self.expression(node.left, at), self.expression(node.right, at)
        sign = node.operator
        if left.value is not None and right.value is not None:
            with np.errstate(all="ignore"):
                return self._constant(float(_FOLDED[sign](left.value, right.value)))
        if right.value == (0.0 if sign in "+-" else 1.0):
            return left
        if (sign, left.value) in (("+", 0.0), ("*", 1.0)):
            return right
        if sign in "+-" and right.value is not None and -math.inf < right.value < 0.0:
            sign, right = ("-" if sign == "+" else "+"), self._constant(-right.value)
        binding = _ADDITIVE if sign in "+-" else _MULTIPLICATIVE
        # The right side of a difference or quotient needs parentheses even at the same binding.
        text = f"{left.within(binding)} {sign} {right.within(binding + (sign in '-/'))}"
        return Sql(text, max(left.level, right.level), binding)

    def _function(self, node: Function, at: int) -> Sql:
        value = self.expression(node.argument, at)
        if value.value is not None:
            folded = {"ln": np.log}.get(node.name) or getattr(np, node.name)
            return self._constant(float(folded(value.value)))
        return Sql(self.dialect.function(node.name.upper(), value.text), value.level)

    def _distance(self, node: Distance, at: int) -> Sql:
        _, expanded = self._expanded.setdefault(id(node), (node, self._expand(node)))
        return self._compute(expanded, at)

    def _expand(self, node: Distance) -> Expression:
        """A distance as arithmetic, which stays within float64 where the dialect needs it."""
        x, center, precision = node.column, np.asarray(node.center), np.asarray(node.precision)
        difference = x - center
        scaled = difference * precision
        if not self.dialect.raises:
            return scaled
        with np.errstate(over="ignore"):
            reach = node.limit / precision
        low, high = np.maximum(center - reach, -_MAX), np.minimum(center + reach, _MAX)
        tiny = np.maximum(_TINY / precision, 5e-324)
        bounds: list[tuple[Condition, Expression]] = [
            (x < low, as_expression(-math.inf)),
            (x > high, as_expression(math.inf)),
            (Function("abs", difference) < tiny, as_expression(0.0)),
        ]
        return Named(Case(bounds, scaled))

    def _square(self, node: Square, at: int) -> Sql:
        value = self.expression(node.argument, at)
        if value.value is not None:
            return self._constant(value.value * value.value)
        if self.dialect.raises and not isinstance(node.argument, Distance):
            size, literal = f"ABS({value.text})", self.dialect.literal
            bounded = (
                f"CASE WHEN {size} > {literal(_HUGE)} THEN {literal(math.inf)} "
                f"ELSE GREATEST({size}, {literal(_TINY)}) END"
            )
            value = self._named(Sql(bounded, value.level))
        factor = value.within(_MULTIPLICATIVE + 1)
        return Sql(f"{factor} * {factor}", value.level, _MULTIPLICATIVE)

    def _case(self, node: Case, at: int) -> Sql:
        # A value is not a column of its own: it may be an error where its condition is not met.
        branches: list[tuple[Sql, Sql]] = []
        otherwise = node.otherwise
        for condition, value in node.branches:
            decided = self.condition(condition, at)
            if decided is True:
                otherwise = value
                break
            if isinstance(decided, Sql):
                branches.append((decided, self._compute(value, at)))
        last = self._compute(otherwise, at)
        if not branches:
            return last
        level = max(part.level for parts in (*branches, (last,)) for part in parts)
        cases = " ".join(f"WHEN {when.text} THEN {then.text}" for when, then in branches)
        return Sql(f"CASE {cases} ELSE {last.text} END", level)

    def condition(self, condition: Condition, at: int) -> Sql | bool:
        """A condition for the class at a position; a folded one stays a bool."""
        if isinstance(condition, IsNull):
            value = self.expression(condition.argument, at)
            is_null = Sql(f"{value.text} IS NULL", value.level)
            return is_null if value.value is None else False
        if isinstance(condition, IsExtreme):
            if not self.dialect.raises:
                return False
            x, literal = self.expression(condition.argument, at), self.dialect.literal
            size = f"ABS({x.text})"
            below = f"{size} > {literal(0.0)} AND {size} < {literal(1.0 / _EXTREME)}"
            return Sql(f"({size} > {literal(_EXTREME)} OR {below})", x.level)
        if isinstance(condition, Junction):
            sides = [self.condition(side, at) for side in (condition.left, condition.right)]
            decisive = condition.operator == "OR"
            if any(side is decisive for side in sides):
                return decisive
            rest = [side for side in sides if isinstance(side, Sql)]
            if not rest:
                return not decisive
            if len(rest) == 1:
                return rest[0]
            text = f" {condition.operator} ".join(side.within(_ATOM) for side in rest)
            return Sql(text, max(side.level for side in rest), _ADDITIVE)
        assert isinstance(condition, Comparison)
        left, right = self.expression(condition.left, at), self.expression(condition.right, at)
        if left.value is not None and right.value is not None:
            return bool(_FOLDED[condition.operator](left.value, right.value))
        text = f"{left.within(_ADDITIVE)} {condition.operator} {right.within(_ADDITIVE)}"
        return Sql(text, max(left.level, right.level))

    def _lookup(self, node: Lookup, at: int) -> Sql:
        values = np.ascontiguousarray(node.table[at]).ravel()
        if (values == values[0]).all():
            return self._constant(float(values[0]))
        cell = self._cell(node)
        literals = [self.dialect.literal(float(value)) for value in values]
        if self.dialect.array is None:
            cuts = [str(at) for at in range(1, len(literals))]
            return Sql(bisected(cell.text, cuts, literals), cell.level)
        array = self.dialect.array.format(", ".join(literals))
        return Sql(self.dialect.item.format(array=array, position=cell.text), cell.level)

    def _cell(self, node: Lookup) -> Sql:
        """The position of a row in a table ``(k, s₁, s₂, …)`` as one number."""
        codes = [self.code(code) for code in node.codes]
        if len(codes) == 1:
            return codes[0]
        text = codes[0].text
        for number, (code, kind) in enumerate(zip(codes[1:], node.codes[1:], strict=True)):
            text = f"({text})" if number else text
            text = f"{text} * {kind.size} + {code.text}"
        return self.columns.add("n", text, 2)


def nodes(node: Expression | Condition) -> Iterator[object]:
    """A node of a formula, and all below it."""
    yield node
    for child in _children(node):
        yield from nodes(child)


def _children(node: object) -> Iterator[Expression | Condition]:
    for child in vars(node).values():
        if isinstance(child, (Expression, Condition)):
            yield child
        elif isinstance(child, Sequence) and not isinstance(child, str):
            for branch in child:
                if isinstance(branch, tuple):
                    yield from branch
