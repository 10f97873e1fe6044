"""Descriptors that plugins register: for an estimator, a table format or an engine.

They name types of other packages for type checkers only, so that every package can look up
plugins.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from probclass_core.errors import PluginError

if TYPE_CHECKING:
    from probclass_core.estimation.contract import Estimator
    from probclass_core.execution.engine import Engine
    from probclass_core.io.references import Leftover, TableRef
    from probclass_core.io.table import Sink, Table

PROBCLASS_API = 1
"""Version of the estimator contract and the hooks; a plugin names the one it was written for."""

Value = TypeVar("Value")


class Importable(Generic[Value]):
    """A field for a value or its address ``package.module:Name``, imported when it is read.

    Raises:
        PluginError: if there is nothing at the address.
    """

    def __init__(self, *default: Value) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, descriptor: object, owner: type) -> Value:
        if descriptor is None:
            if not self._default:
                raise AttributeError(self._name)  # the field has no default
            return self._default[0]
        value: Value | str = vars(descriptor)[self._name]
        if not isinstance(value, str):
            return value
        module, _, name = value.partition(":")
        try:
            found: Value = getattr(importlib.import_module(module), name)
        except (AttributeError, ImportError, ValueError) as error:
            raise PluginError(
                f"{value!r} cannot be imported: {error}. Write the address of a class or function "
                "as 'package.module:Name'."
            ) from error
        vars(descriptor)[self._name] = found
        return found

    def __set__(self, descriptor: object, value: Value | str) -> None:
        vars(descriptor)[self._name] = value


@dataclass(frozen=True)
class EstimatorPlugin:
    """An estimator and its name; a hook may yield the class of an estimator instead.

    Attributes:
        name: name in model specs.
        estimator: the class, or its address ``"package.module:Class"``, which is imported when a
            model needs it.
        summary: one line for ``probclass estimators``.
        conditional: ``conditional(features, given, options)`` returns the estimator of
            p(features | given, class); it may be an address. None if the estimator cannot be given
            columns.
    """

    name: str
    estimator: Importable[type[Estimator]] = Importable()
    summary: str  # type: ignore[misc]  # mypy takes the descriptor for a default
    conditional: Importable[Callable[..., Estimator] | None] = Importable(None)

    @classmethod
    def of(cls, estimator: type[Estimator]) -> EstimatorPlugin:
        """The descriptor of a class: its name, and the first line of its docstring."""
        if not isinstance(getattr(estimator, "name", None), str):
            raise PluginError(f"{estimator.__name__} has no name; set one for specs.")
        summary = (estimator.__doc__ or estimator.name).strip().partition("\n")[0]
        return cls(estimator.name, estimator, summary, estimator.conditional)


@dataclass(frozen=True)
class TableFormat:
    """Descriptor of a table format.

    Attributes:
        name: name in `TableRef.format` and before the ``+`` of a URI.
        summary: one line for ``probclass table formats``.
        recognizes: whether a table without a named format has this one; it must be cheap, and
            return False if unsure.
        open: opens a table.
        sink: returns the sink of a partition, or None for a read-only format.
        leftovers: lists the files of killed writers that no version of the table needs, or None if
            the format leaves no such files or cannot find them.
    """

    name: str
    summary: str
    recognizes: Callable[[TableRef], bool]
    open: Callable[[TableRef], Table]
    sink: Callable[[TableRef, Mapping[str, Any]], Sink] | None = None
    leftovers: Callable[[TableRef], Sequence[Leftover]] | None = None


@dataclass(frozen=True)
class EnginePlugin:
    """Descriptor of an engine.

    Attributes:
        name: name in ``fit(…, engine=name)``.
        summary: one line about its workers.
        recognizes: whether an object passed as ``engine``, such as a session or a client, belongs
            to this engine; it must be cheap, and return False if unsure.
        open: starts workers for the duration of a context. It is called with that object, or None
            if the engine was selected by name, and with the number of workers, or None to let the
            engine choose.
    """

    name: str
    summary: str
    recognizes: Callable[[object], bool]
    open: Callable[[Any, int | None], AbstractContextManager[Engine]]
