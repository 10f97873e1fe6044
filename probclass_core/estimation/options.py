"""Options of estimators: each is declared once, with its type, default, bounds and description.

An estimator declares the types of its columns, and its options in a nested class::

    class Histogram(Estimator):
        models = NUMBERS

        class Options(EstimatorOptions):
            bins: int = whole(10, at_least=2, doc="Number of bins.")
            method: str = choice("width", ["width", "frequency"], doc="How to place the cuts.")

        options: Options

The contract's constructor checks a block against both. From then on ``self.options`` is typed and
immutable, and `describe_options` lists the same declarations for documentation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from probclass_core.arrow.arrays import is_numeric_type
from probclass_core.arrow.types import is_category_type, value_type
from probclass_core.errors import SpecError, check_known, one_of


@dataclass(frozen=True)
class OptionPath:
    """The option that a value was given for: what its error message must name.

    Attributes:
        estimator: name of the estimator.
        option: name of the option, or of a part of it, such as ``"pseudo_count of 'color'"``.
        columns: columns of the block.
    """

    estimator: str
    option: str
    columns: Sequence[str] = ()

    def part(self, name: str) -> OptionPath:
        """The path of a value inside the option's value."""
        return replace(self, option=name)

    def error(self, expected: str, value: object) -> SpecError:
        """The error for a value that is not what is expected.

        Args:
            expected: what a value must be, such as ``"a number from 0 to 1"``.
            value: the value that was given.
        """
        return SpecError(f"{self.estimator}: {self.option} must be {expected}, got {value!r}.")


Parser = Callable[[OptionPath, Any], Any]
"""From the plain value of an option to the typed one; raises `SpecError`."""


@dataclass(frozen=True)
class Option:
    """The declaration of one option.

    Attributes:
        default: plain JSON value, used if the spec gives none.
        expected: what a value must be, such as ``"a number of at least 0"``.
        doc: what the option does.
        parse: turns a plain value into the typed one.
    """

    default: Any
    expected: str
    doc: str
    parse: Parser


class EstimatorOptions:
    """The checked options of one estimator. Subclasses declare them as class attributes.

    Args:
        estimator: name of the estimator, for messages.
        given: options of the block, plain JSON values.
        columns: columns of the block.

    Raises:
        SpecError: if an option is unknown or its value is out of bounds.
    """

    _estimator: str
    _plain: dict[str, Any]

    def __init__(self, estimator: str, given: Mapping[str, Any], columns: Sequence[str]) -> None:
        declared = self.declared()
        check_known(given, declared, f"{estimator} has no option")
        plain = {**{name: option.default for name, option in declared.items()}, **given}
        for name, option in declared.items():
            vars(self)[name] = option.parse(OptionPath(estimator, name, columns), plain[name])
        vars(self).update(_estimator=estimator, _plain=plain)
        self.validate()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"options are immutable: cannot set {name!r}.")

    @classmethod
    @cache
    def declared(cls) -> Mapping[str, Option]:
        """Declarations by name, those of base classes first.

        A subclass drops an option of its base by a constant in its place.
        """
        names = [name for base in reversed(cls.__mro__) for name in vars(base)]
        values = {name: getattr(cls, name) for name in names}
        return {name: value for name, value in values.items() if isinstance(value, Option)}

    def plain(self) -> dict[str, Any]:
        """The options as plain JSON values, exactly as given; defaults for the others."""
        return dict(self._plain)

    def validate(self) -> None:
        """Check options against each other, once each of them is set.

        Raises:
            SpecError: if they contradict each other.
        """


class NoOptions(EstimatorOptions):
    """Options of an estimator that has none."""


def describe_options(estimator: object) -> dict[str, Option]:
    """Declarations of an estimator's options by name; empty if it declares none.

    Args:
        estimator: an estimator class, as `probclass_core.estimators` returns it.
    """
    options = getattr(estimator, "Options", None)
    return {} if options is None else dict(options.declared())


def option(default: Any, parse: Parser, *, expected: str, doc: str) -> Any:
    """Declare an option with its own parser.

    Args:
        default: plain JSON value.
        parse: from path and plain value to the typed value; see `OptionPath.error`.
        expected: what a value must be, for documentation.
        doc: what the option does.
    """
    return Option(default, expected, doc, parse)


def whole(default: int, *, at_least: int = 0, doc: str) -> Any:
    """Declare a whole number within bounds; the typed value is an ``int``.

    Args:
        default: a whole number.
        at_least: least number.
        doc: what the option does, in a sentence.
    """
    expected = f"a whole number of at least {at_least:g}"

    def parse(path: OptionPath, value: Any) -> int:
        if not _is_number(value) or not value >= at_least or value % 1 != 0:
            raise path.error(expected, value)
        return int(value)

    return Option(default, expected, doc, parse)


def number(
    default: float | str | None,
    words: Sequence[str] = (),
    *,
    at_least: float = 0.0,
    at_most: float = math.inf,
    doc: str,
) -> Any:
    """Declare a number within bounds, or one of a few words; None only if it is the default.

    Args:
        default: a number, one of the words, or None.
        words: texts that are allowed in place of a number.
        at_least: least number; `ABOVE_0` is the least above 0, and ``-math.inf`` is no bound.
        at_most: largest number.
        doc: what the option does, in a sentence.
    """
    above = "above 0" if at_least == math.ulp(0.0) else f"of at least {at_least:g}"
    bounds = f"a number {above}"
    if at_most < math.inf:
        bounds = f"a number from {at_least:g} to {at_most:g}"
    others = [", ".join(map(repr, words))] * bool(words) + ["None"] * (default is None)
    expected = ", or ".join([bounds, *others])

    def parse(path: OptionPath, value: Any) -> float | str | None:
        if (value is None is default) or (isinstance(value, str) and value in words):
            return value
        if not (_is_number(value) and at_least <= value <= at_most):
            raise path.error(expected, value)
        return float(value)

    return Option(default, expected, doc, parse)


def choice(default: str, choices: Sequence[str], *, doc: str) -> Any:
    """Declare an option that is one of a few words.

    Args:
        default: one of the words.
        choices: the words.
        doc: what the option does, in a sentence.
    """
    expected = f"one of {one_of(choices)}"

    def parse(path: OptionPath, value: Any) -> str:
        if value not in choices:
            raise path.error(expected, value)
        return str(value)

    return Option(default, expected, doc, parse)


def flag(default: bool, *, doc: str) -> Any:
    """Declare an option that is true or false.

    Args:
        default: whether it is true by default.
        doc: what the option does, in a sentence.
    """

    def parse(path: OptionPath, value: Any) -> bool:
        if not isinstance(value, bool):
            raise path.error("true or false", value)
        return value

    return Option(default, "true or false", doc, parse)


def parse_table(path: OptionPath, value: Any) -> Mapping[str, Any]:
    """A table keyed by columns of the block.

    Raises:
        SpecError: if the value is not a table, or names another column.
    """
    if not isinstance(value, Mapping):
        raise path.error("a table keyed by column", value)
    names = f"{path.estimator}: {path.option} names column"
    check_known(value, path.columns, names, "the block has")
    return value


class ColumnTypes(NamedTuple):
    """The types of columns that an estimator can model.

    Attributes:
        description: for messages, such as ``"numbers"``.
        accepts: whether a type is one of them.
    """

    description: str
    accepts: Callable[[pa.DataType], bool]


NUMBERS = ColumnTypes("numbers", is_numeric_type)
"""Columns of numbers, for the attribute ``models`` of an estimator."""
CATEGORIES = ColumnTypes(
    "categories (text, bool, integers)",
    # Floats must be whole numbers, as pandas has for integers with nulls.
    lambda kind: is_category_type(kind) or bool(pa.types.is_floating(value_type(kind))),
)
"""Columns of categories, for the attribute ``models`` of an estimator."""


def require_types(
    estimator: str, features: pa.Schema, accepts: Callable[[pa.DataType], bool], models: str
) -> None:
    """Refuse columns of a type that the estimator cannot model.

    Args:
        estimator: name of the estimator, for messages.
        features: the block's columns.
        accepts: whether a type can be modeled.
        models: what the estimator models, such as ``"numbers"``.

    Raises:
        SpecError: naming the columns and their types.
    """
    refused = [
        f"column {field.name!r} is {field.type}" for field in features if not accepts(field.type)
    ]
    if refused:
        it = "it" if len(refused) == 1 else "them"
        raise SpecError(
            f"{estimator}: {', '.join(refused)}, but it models {models}; choose another estimator "
            f"for {it}, or cast {it}."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
