"""The hooks of probclass, which plugins implement; the built-in estimators use the same hooks.

A plugin is a module (or object) that names its API version and implements hooks::

    PROBCLASS_API = 1

    @probclass_core.hookimpl
    def probclass_estimators(): ...

A distribution registers it in the entry-point group ``probclass``::

    [project.entry-points.probclass]
    my_plugin = "my_package.my_module"
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from probclass_core.plugins.descriptors import EnginePlugin, EstimatorPlugin, TableFormat

if TYPE_CHECKING:
    from probclass_core.estimation.contract import Estimator

PROJECT = "probclass"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


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
