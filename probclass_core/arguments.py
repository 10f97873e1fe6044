"""Arguments of public functions, checked against the annotations of their parameters.

`checks_arguments` checks what is text, a number, a column name or one of a few choices. Everything
else has a parser of its own, which says more: `open_table`, `parse_where`, `DecisionRule.parse`.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
import math
import os
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from probclass_core.errors import SpecError, check_known, nearest, one_of, shown

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

ColumnName: TypeAlias = Annotated[str, "a column name"]
"""The name of a column; what it is called in messages. Functions after that check a value, too."""

_PLAIN: Mapping[Any, tuple[type | tuple[type, ...], str]] = {
    str: (str, "text"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "true or false"),
    type(None): (type(None), "nothing"),
    Path: (os.PathLike, "a path"),
    os.PathLike[str]: (os.PathLike, "a path"),
}
"""Types that are checked: the values of each, and its name in messages."""

_SEVERAL = (Sequence, Iterable, Collection)


def checks_arguments(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Let a function refuse arguments that its annotations do not allow, by a `SpecError`."""

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        expected = _expected(function)
        for (name, kind), value in zip(expected.items(), args, strict=False):
            check_argument(name, value, kind)
        for name, value in kwargs.items():
            check_argument(name, value, expected.get(name, Any))
        return function(*args, **kwargs)

    return call


def check_argument(name: str, value: object, expected: Any) -> None:
    """Refuse a value that is not of a type.

    Args:
        name: name of the argument.
        value: its value.
        expected: the type, as in an annotation; types that are not checked allow every value.

    Raises:
        SpecError: if the value is not of the type.
    """
    if _is_a(value, expected):
        return
    kinds = [kind for kind in _alternatives(expected) if kind is not type(None)]
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    words = [_name(kind) for kind in kinds if get_origin(kind) is not Literal]
    if choices:
        words.insert(0, f"one of {one_of(choices)}")
    hint = nearest(value, choices) if isinstance(value, str) else _name_within(value, kinds)
    raise SpecError(f"{name} must be {' or '.join(words)}, got {shown(value)}.{hint}")


def checked_number(
    name: str,
    value: object,
    least: float = 0.0,
    most: float = math.inf,
    *,
    above: bool = False,
    whole: bool = False,
    fix: str = "",
) -> Any:
    """A number within bounds, also from text, as a template renders it.

    Args:
        name: what it is called in messages.
        value: the number.
        least: least number.
        most: largest number; infinity itself is refused.
        above: whether it must be above the least number.
        whole: whether it must be a whole number; the result is then an ``int``.
        fix: what else to do, to end the message.

    Raises:
        SpecError: if it is not such a number.
    """
    number = math.nan
    if isinstance(value, (int, float, str, np.number)) and not isinstance(value, bool):
        with suppress(ValueError):
            number = float(value)
    inside = least <= number <= most and not (above and number == least)
    if inside and math.isfinite(number) and not (whole and number % 1.0):
        return int(number) if whole else number
    bounds = f"{'above' if above else 'of at least'} {least:,.15g}"
    if most < math.inf:
        bounds = f"from {least:,.15g} to {most:,.15g}"
    kind = "a whole number" if whole else "a number"
    raise SpecError(f"{name} must be {kind} {bounds}, got {shown(value)}{fix}.")


def from_fields(cls: type[Result], values: object, what: str) -> Result:
    """A dataclass of options from a mapping of its fields; one that is made is returned as it is.

    Args:
        cls: the class, which checks the values.
        values: values by name of the field, or an instance.
        what: what the class is called in messages.

    Raises:
        SpecError: if it is something else, or a name is unknown.
    """
    if type(values) is cls:
        return values
    if not isinstance(values, Mapping):
        raise SpecError(
            f"{what} must be a {cls.__name__} or a table of its fields, got {shown(values)}."
        )
    known: Sequence[str] = [field.name for field in dataclasses.fields(cast(Any, cls))]
    check_known(values, known, f"{what} has no")
    return cls(**values)


@functools.cache
def _expected(function: Callable[..., object]) -> dict[str, Any]:
    """The types of the parameters, in order; Any for those that are not checked."""
    names = _Names({**vars(builtins), **inspect.unwrap(function).__globals__})
    expected = get_type_hints(function, localns=names, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        # A union that has a name of its own also has a parser of its own.
        if str(parameter.annotation).isidentifier() and len(_alternatives(expected[name])) > 1:
            expected[name] = Any
    return {name: expected.get(name, Any) for name in inspect.signature(function).parameters}


class _Names(dict[str, Any]):
    """Names in annotations; those that are imported for type checking only are Any."""

    def __missing__(self, name: str) -> Any:
        return Any


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _is_a(value: object, kind: Any) -> bool:
    """Whether a value is of a type; True for types that are not checked."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return any(_is_a(value, one) for one in get_args(kind))
    if origin is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if origin is Annotated:
        base, _, *checks = get_args(kind)
        return _is_a(value, base) and value != "" and all(check(value) for check in checks)
    if origin in _SEVERAL and _is_text(get_args(kind)[0]):
        # Also an index or an array of names, which is not a Sequence.
        if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
            return False
        return isinstance(value, Iterator) or all(isinstance(item, str) for item in value)
    if kind not in _PLAIN:
        return True
    if isinstance(value, bool) and kind is not bool:
        return False
    return isinstance(value, _PLAIN[kind][0])


def _is_text(kind: Any) -> bool:
    return kind is str or get_origin(kind) is Annotated


def _name(kind: Any) -> str:
    """What a type is called in messages."""
    if get_origin(kind) is Annotated:
        return str(get_args(kind)[1])
    return "a list of names" if get_origin(kind) in _SEVERAL else _PLAIN[kind][1]


def _name_within(value: object, kinds: Iterable[Any]) -> str:
    """A hint for a column, a list or tuple of one name, or a name of pandas that is a number."""
    if not any(_is_text(kind) for kind in kinds):
        return ""
    name = getattr(value, "name", None)
    if isinstance(value, (list, tuple)) and len(value) == 1:
        name = value[0]
    if isinstance(value, int):
        return f" Names are text: pass {str(value)!r}."
    return f" Pass {name!r}." if isinstance(name, str) else ""
