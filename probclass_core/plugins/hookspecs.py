"""The hooks of probclass, and what plugins register by them; built-in ones use the same hooks.

A plugin is a module (or object) that names its API version and implements hooks::

    PROBCLASS_API = 1

    @probclass_core.hookimpl
    def probclass_estimators(): ...

A distribution registers it in the entry-point group ``probclass``::

    [project.entry-points.probclass]
    my_plugin = "my_package.my_module"

Types of other packages are named for type checkers only, so that every package can look up plugins.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pluggy

from probclass_core.errors import PluginError, TableError, TableMismatchError, one_of

if TYPE_CHECKING:
    from probclass_core.estimation.contract import Estimator
    from probclass_core.execution.engine import Engine
    from probclass_core.io.references import Leftover, TableRef
    from probclass_core.io.sink import Sink
    from probclass_core.io.table import Source


PROBCLASS_API = 1
"""Version of the estimator contract and the hooks; a plugin names the one it was written for."""

PROJECT = "probclass"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True)
class EstimatorPlugin:
    """An estimator and its name; a hook may yield the class of an estimator instead.

    Attributes:
        name: name in model specs.
        address: the class, or ``"package.module:Class"``, which is imported when a model needs it.
        summary: one line for ``probclass estimators``.
        conditional_address: ``conditional(features, given, options)`` returns the estimator of
            p(features | given, class); None if the estimator cannot be given columns.
    """

    name: str
    address: type[Estimator] | str
    summary: str
    conditional_address: Callable[..., Estimator] | str | None = None

    @cached_property
    def estimator(self) -> type[Estimator]:
        """The class; raises a PluginError if it cannot be imported."""
        found: type[Estimator] = _imported(self.address)
        return found

    @cached_property
    def conditional(self) -> Callable[..., Estimator] | None:
        """What makes the estimator of columns given others; raises as `estimator`."""
        found: Callable[..., Estimator] | None = _imported(self.conditional_address)
        return found

    @classmethod
    def of(cls, estimator: type[Estimator]) -> EstimatorPlugin:
        """The descriptor of a class: its name, and the first line of its docstring."""
        if not isinstance(getattr(estimator, "name", None), str):
            raise PluginError(f"{estimator.__name__} has no name; set one for specs.")
        if lacks := estimator.__abstractmethods__:
            raise PluginError(f"{estimator.__name__} lacks {one_of(lacks)}, which it must define.")
        summary = (estimator.__doc__ or estimator.name).strip().partition("\n")[0]
        return cls(estimator.name, estimator, summary, estimator.conditional)


def _imported(address: Any) -> Any:
    """What is at an address ``package.module:Name``; anything but text as it is."""
    if not isinstance(address, str):
        return address
    module, _, name = address.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError, ValueError) as error:
        raise PluginError(
            f"{address!r} cannot be imported: {error}. Write the address of a class or function "
            "as 'package.module:Name'."
        ) from error


class TableFormat(ABC):
    """A format of tables: its name, and the source and the sink of an address.

    A subclass has a `name` and the method `open`.
    What a format cannot do has a default: it is chosen only by name, is read-only, has no versions,
    and leaves nothing to clean.

    Attributes:
        name: name in `TableRef.format` and before the ``+`` of a URI.
        has_versions: whether a `TableRef` may have a version.
    """

    name: ClassVar[str]
    has_versions: ClassVar[bool] = False

    def recognizes(self, ref: TableRef) -> bool:
        """Whether a table without a named format has this one.

        It must be cheap, and return False if unsure.
        """
        return False

    @abstractmethod
    def open(self, ref: TableRef) -> Source:
        """Open a table.

        Raises:
            TableError: if there is no such table, or it cannot be read.
        """

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        """Open a partition of a table to write it; see `io.sink`.

        Args:
            ref: the table.
            partition: values of the partition columns, outermost first; empty for a whole table.

        Raises:
            TableError: if the location cannot hold such a table, or the format is read-only.
        """
        raise TableMismatchError(
            f"{ref.uri}: tables of format {self.name!r} are read-only; write one Parquet file, "
            "such as 'scored.parquet', or a directory."
        )

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        """List the files of killed writers that no version of a table needs.

        Raises:
            TableError: if there is no such table, or the format cannot list them.
        """
        raise TableError(f"{ref.uri}: format {self.name!r} cannot list what killed writers left.")

    def can(self, method: str) -> bool:
        """Whether the format defines a method that has a default, such as ``sink``."""
        return getattr(type(self), method) is not getattr(TableFormat, method)


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


@hookspec
def probclass_estimators() -> Iterable[type[Estimator] | EstimatorPlugin]:
    """Yield the class of each likelihood estimator.

    Called once, when plugins are first looked up; it must be cheap and read no data. If the module
    of an estimator imports large libraries, yield an `EstimatorPlugin` with its address.

    Examples:
        >>> import probclass_core as pc
        >>> from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
        >>> class Narrow(GaussianDiagonal):
        ...     name = "narrow"
        >>> @pc.hookimpl
        ... def probclass_estimators():
        ...     yield Narrow
        >>> [estimator.name for estimator in probclass_estimators()]
        ['narrow']
    """


@hookspec
def probclass_table_formats() -> Iterable[type[TableFormat]]:
    """Yield the class of each table format; its modules are imported when a table is opened.

    Called once, when plugins are first looked up; it must be cheap and open no table.

    Examples:
        >>> import probclass_core as pc
        >>> from probclass_core.authoring import TableFormat
        >>> class Arrow(TableFormat):
        ...     "Arrow files, read whole."
        ...     name = "arrow"
        ...     def recognizes(self, ref):
        ...         return ref.uri.endswith(".arrow")
        ...     def open(self, ref):
        ...         import pyarrow.feather
        ...         return pc.open_table(pyarrow.feather.read_table(ref.uri))
        >>> @pc.hookimpl
        ... def probclass_table_formats():
        ...     yield Arrow
        >>> [table_format.name for table_format in probclass_table_formats()]
        ['arrow']
    """


@hookspec
def probclass_engines() -> Iterable[EnginePlugin]:
    """Yield one descriptor per engine, which runs the work on the parts of a table.

    Called once, when plugins are first looked up; it must be cheap and start no worker.

    Examples:
        >>> import contextlib
        >>> import probclass_core as pc
        >>> from probclass_core.authoring import EnginePlugin
        >>> class OneByOne:
        ...     in_process = True
        ...     def map(self, work, items):
        ...         return map(work, items)
        >>> @pc.hookimpl
        ... def probclass_engines():
        ...     yield EnginePlugin(
        ...         name="one_by_one",
        ...         summary="this thread",
        ...         recognizes=lambda given: False,
        ...         open=lambda handle, workers: contextlib.nullcontext(OneByOne()),
        ...     )
        >>> [engine.name for engine in probclass_engines()]
        ['one_by_one']
    """
