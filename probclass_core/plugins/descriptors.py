"""Descriptors that plugins register: for an estimator, a table format or an engine.

They name types of other packages for type checkers only, so that every package can look up
plugins.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from probclass_core.errors import PluginError

if TYPE_CHECKING:
    import pyarrow as pa

    from probclass_core.estimation.contract import LikelihoodEstimator
    from probclass_core.execution.engine import Engine
    from probclass_core.io.references import Leftover, TableRef
    from probclass_core.io.table import Sink, Table

PROBCLASS_API = 1
"""Version of the estimator contract and the hooks; a plugin names the one it was written for."""

EstimatorFactory: TypeAlias = "Callable[[pa.Schema, Mapping[str, Any]], LikelihoodEstimator]"
ConditionalFactory: TypeAlias = (
    "Callable[[pa.Schema, pa.Schema, Mapping[str, Any]], LikelihoodEstimator]"
)


Factory = TypeVar("Factory", bound=Callable[..., Any])


class Importable(Generic[Factory]):
    """A field for a factory or its address ``package.module:Name``, imported when it is read.

    Raises:
        PluginError: if there is nothing at the address.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, descriptor: object, owner: type) -> Factory:
        if descriptor is None:
            raise AttributeError(self._name)  # the field has no default
        value: Factory | str = vars(descriptor)[self._name]
        if not isinstance(value, str):
            return value
        module, _, name = value.partition(":")
        try:
            factory: Factory = getattr(importlib.import_module(module), name)
        except (AttributeError, ImportError, ValueError) as error:
            raise PluginError(
                f"{value!r} cannot be imported: {error}. Write the address of a class or function "
                "as 'package.module:Name'."
            ) from error
        vars(descriptor)[self._name] = factory
        return factory

    def __set__(self, descriptor: object, value: Factory | str) -> None:
        vars(descriptor)[self._name] = value


@dataclass(frozen=True)
class Traits:
    """What training and the conformance kit may assume about an estimator.

    Attributes:
        state_grows: whether statistics grow with the rows (k nearest neighbors keeps all of them).
        factorizes: whether the log-likelihood is a sum over features.
        has_evidence: whether ``log_evidence`` is implemented.
        passes: largest number of passes over the rows; see `LikelihoodEstimator.refine`. The
            statistics of the last pass are finalized.
        proper: whether the probabilities of a likelihood that is ``normalized`` add up to 1. Those
            of k nearest neighbors do not: their integral diverges.
    """

    state_grows: bool = False
    factorizes: bool = False
    has_evidence: bool = False
    passes: int = 1
    proper: bool = True


@dataclass(frozen=True)
class Conditional:
    """How an estimator models its columns given others, in a block with ``given``.

    Attributes:
        factory: ``factory(features, given, options)`` returns the estimator of
            p(features | given, class). Its batches have the features first, then the given columns.
            It may be an address, as in `EstimatorPlugin`.
        traits: see `Traits`.
    """

    factory: Importable[ConditionalFactory] = Importable()
    traits: Traits = Traits()


@dataclass(frozen=True)
class EstimatorPlugin:
    """Descriptor of a likelihood estimator.

    Attributes:
        name: name in model specs.
        factory: ``factory(features, options)`` returns the estimator; usually its class, or the
            address of the class, ``"package.module:Class"``, which is imported when it is needed.
        summary: one line for ``probclass estimators``.
        parameters_version: version of the parameters table; raise it when the table changes shape
            or meaning.
        traits: see `Traits`.
        statistics_version: version of the statistics; raise it when ``summarize`` returns other
            statistics for the same rows, which invalidates cached ones.
        conditional: how it models its columns given others, or None if it cannot.
    """

    name: str
    factory: Importable[EstimatorFactory] = Importable()
    summary: str  # type: ignore[misc]  # mypy takes the descriptor for a default
    parameters_version: int = 1
    traits: Traits = Traits()
    statistics_version: int = 1
    conditional: Conditional | None = None


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
