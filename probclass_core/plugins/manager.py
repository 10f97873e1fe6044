"""Finds plugins: the built-in ones from a fixed list, others by entry point.

A broken plugin never stays unnoticed. `estimators`, which lists all of them, raises its error.
Looking up one estimator, table format or engine works as long as that one loads, and logs the
broken plugin as an error; looking up a name that is not registered raises with the cause. So one
broken distribution cannot stop models that do not need it. Estimators that are not installed yet
can be used with `trying`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pluggy

from probclass_core.errors import PluginError, SpecError, check_known, one_of, suggest
from probclass_core.plugins import hookspecs
from probclass_core.plugins.hookspecs import (
    PROBCLASS_API,
    EnginePlugin,
    EstimatorPlugin,
    TableFormat,
)

if TYPE_CHECKING:
    from probclass_core.estimation.contract import Estimator

log = logging.getLogger(__name__)

Descriptor = EstimatorPlugin | TableFormat | EnginePlugin
Registered = TypeVar("Registered", EstimatorPlugin, TableFormat, EnginePlugin)

ENTRY_POINT_GROUP = "probclass"
BUILT_IN = (
    "probclass_core.estimation.families.built_in",
    "probclass_core.io.open",
    "probclass_core.execution.open",
    "probclass_core.sql.built_in",
)

_HOOKS: Mapping[str, tuple[type[Descriptor], str, str]] = {
    "probclass_estimators": (
        EstimatorPlugin,
        "estimator",
        "classes of estimators, or EstimatorPlugin values",
    ),
    "probclass_table_formats": (TableFormat, "table format", "subclasses of TableFormat"),
    "probclass_engines": (EnginePlugin, "engine", "EnginePlugin values"),
}
"""By the name of a hook, the type of what it yields, what that is called, and how it is given."""


_TRYING = (
    " A class that is not installed is known within `with pc.trying(Class)`, but not in other "
    "processes."
)


class Offer(NamedTuple):
    """What a plugin registers under one name.

    Attributes:
        source: entry point and distribution, for messages.
        distribution: name and version, or None for a built-in plugin.
        descriptor: the estimator, table format or engine.
    """

    source: str
    distribution: tuple[str, str] | None
    descriptor: Descriptor


@dataclass(frozen=True)
class Registry:
    """All plugins, and what they register.

    Attributes:
        estimators: descriptors by name.
        table_formats: descriptors by name, the built-in ones first.
        engines: descriptors by name, the built-in ones first.
        failures: one error per plugin that could not be loaded, and one per name clash.
        distributions: name and version of the distribution of each estimator, the built-in ones
            left out.
    """

    estimators: Mapping[str, EstimatorPlugin]
    table_formats: Mapping[str, TableFormat]
    engines: Mapping[str, EnginePlugin]
    failures: Sequence[PluginError] = ()
    distributions: Mapping[str, tuple[str, str]] = field(default_factory=dict)


_tried: list[EstimatorPlugin] = []


def registry() -> Registry:
    """The registry of this process: all installed plugins, and the estimators being tried."""
    installed = _installed()
    if not _tried:
        return installed
    tried = {plugin.name: plugin for plugin in _tried}
    return replace(installed, estimators={**installed.estimators, **tried})


@contextmanager
def trying(*estimators: type[Estimator] | EstimatorPlugin) -> Iterator[None]:
    """Register estimators that are not installed, until the end of the ``with`` block.

    Specs can name them as if they were installed, in all threads of the process. Registering the
    same one again is allowed.

    Examples:
        >>> import probclass_core as pc
        >>> from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
        >>> class Narrow(GaussianDiagonal):
        ...     name = "narrow"
        >>> with pc.trying(Narrow):
        ...     spec = pc.ModelSpec("y", [pc.Block("narrow", ["x"])])
        ...     model = pc.fit({"x": [1.0, 2.0, 5.0, 7.0], "y": list("aabb")}, spec)
        >>> model.parameters["narrow"]["mean"].to_pylist()
        [1.5, 6.0]
        >>> "narrow" in pc.estimators()
        False

    Raises:
        PluginError: if another estimator is registered under one of the names, or one is no
            estimator.
    """
    before = list(_tried)
    try:
        for plugin in map(_described, estimators):
            if not isinstance(plugin, EstimatorPlugin):
                raise PluginError(
                    f"trying takes classes of estimators, got {plugin!r}; a table format is tried "
                    "by its own methods and by the laws of testing.tables."
                )
            other = registry().estimators.get(plugin.name)
            if other is not None and other.estimator is plugin.estimator:
                continue
            if other is not None:
                raise PluginError(
                    f"estimator {plugin.name!r} cannot be tried: {other.estimator!r} is registered "
                    "under that name; rename yours."
                )
            _tried.append(plugin)
        yield
    finally:
        _tried[:] = before


def _described(value: Any) -> Any:
    """The descriptor of a class of an estimator or a table format; anything else as it is."""
    if isinstance(value, type) and issubclass(value, TableFormat):
        return value()
    is_estimator = isinstance(value, type) and hasattr(value, "summarize")
    return EstimatorPlugin.of(value) if is_estimator else value


@functools.cache
def _installed() -> Registry:
    entry_points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    plugins = build(sorted(entry_points, key=lambda point: (point.name, point.value)))
    for failure in plugins.failures:
        log.error("%s", failure)
    return plugins


def build(entry_points: Iterable[importlib.metadata.EntryPoint] = ()) -> Registry:
    """A registry of the built-in plugins and those of some entry points."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    offers: list[Offer] = []
    failures: list[PluginError] = []
    for module in BUILT_IN:
        source = f"{module} (built in)"
        found = _register(manager, importlib.import_module(module), source)
        offers += [Offer(source, None, descriptor) for descriptor in found]
    for point in entry_points:
        try:
            offers += _offers_of(manager, point)
        except PluginError as error:
            failures.append(error)
    kept: list[Offer] = []
    for same_name in map(_without_replaced, _by_name(offers)):
        if len(same_name) == 1:
            kept += same_name
        else:
            failures.append(_name_clash(same_name))
    descriptors = [one.descriptor for one in kept]
    return Registry(
        {d.name: d for d in descriptors if isinstance(d, EstimatorPlugin)},
        {d.name: d for d in descriptors if isinstance(d, TableFormat)},
        {d.name: d for d in descriptors if isinstance(d, EnginePlugin)},
        tuple(failures),
        {
            one.descriptor.name: one.distribution
            for one in kept
            if one.distribution is not None and isinstance(one.descriptor, EstimatorPlugin)
        },
    )


def _offers_of(manager: pluggy.PluginManager, point: importlib.metadata.EntryPoint) -> list[Offer]:
    """Load a third-party plugin.

    Raises:
        PluginError: whatever goes wrong in it.
    """
    distribution = None if point.dist is None else (point.dist.name, point.dist.version)
    source = f"{point.name!r} ({point.value})"
    if distribution is not None:
        source += f" of {' '.join(distribution)}"
    try:
        found = _register(manager, point.load(), source)
    except PluginError:
        raise
    except Exception as error:  # importing a plugin may raise anything
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise PluginError(
            f"plugin {source} cannot be loaded: {reason}; fix or uninstall it."
        ) from error
    return [Offer(source, distribution, descriptor) for descriptor in found]


def _register(manager: pluggy.PluginManager, plugin: object, source: str) -> list[Descriptor]:
    """Register a loaded plugin and call its hooks.

    Raises:
        PluginError: if it targets another API version, or its hooks are not as specified.
    """
    _check_version(plugin, source)
    try:
        manager.register(plugin, name=source)
        _check_names(manager, plugin)
        manager.check_pending()
        return list(_call_hooks(manager, plugin))
    except (pluggy.PluginValidationError, PluginError) as error:
        if manager.is_registered(plugin):  # pluggy may have refused it already
            manager.unregister(plugin)
        reason = " ".join(str(error).split())
        raise PluginError(f"plugin {source}: {reason}") from error


def _check_names(manager: pluggy.PluginManager, plugin: object) -> None:
    """Refuse a hook that does not exist, which is probably misspelled.

    Raises:
        PluginError: naming the most similar hook.
    """
    for name in dir(plugin):
        if name not in _HOOKS and manager.parse_hookimpl_opts(plugin, name) is not None:
            raise PluginError(f"there is no hook {name!r}; hooks are {suggest(name, _HOOKS)}")


def _check_version(plugin: object, source: str) -> None:
    version = getattr(plugin, "PROBCLASS_API", None)
    if version is None:
        raise PluginError(
            f"plugin {source} names no API version; write PROBCLASS_API = {PROBCLASS_API} in it "
            "once it follows the contract."
        )
    if version != PROBCLASS_API:
        raise PluginError(
            f"plugin {source} is built for API version {version}, this probclass has "
            f"{PROBCLASS_API}; install a matching release of one of them."
        )


def _call_hooks(manager: pluggy.PluginManager, plugin: object) -> Iterable[Descriptor]:
    hooks = [caller.name for caller in manager.get_hookcallers(plugin) or ()]
    if not hooks:
        raise PluginError(
            f"it implements no hook; write {' or '.join(_HOOKS)} and decorate it with "
            "probclass_core.hookimpl."
        )
    for hook in hooks:
        kind, _, values = _HOOKS[hook]
        try:
            result = getattr(plugin, hook)()
            descriptors = [_described(value) for value in result or ()]
        except Exception as error:
            raise PluginError(f"{hook} failed: {type(error).__name__}: {error}.") from error
        if result is None:
            raise PluginError(f"{hook} returned None; it must yield {values}.")
        for descriptor in descriptors:
            if not isinstance(descriptor, kind):
                raise PluginError(f"{hook} yielded {descriptor!r}; it must yield {values}.")
            yield descriptor


def _by_name(offers: Iterable[Offer]) -> Iterable[list[Offer]]:
    """Offers grouped by kind and name, in order of appearance."""
    groups: dict[tuple[str, str], list[Offer]] = {}
    for one in offers:
        groups.setdefault((_noun(one.descriptor), one.descriptor.name), []).append(one)
    return groups.values()


def _noun(descriptor: Descriptor) -> str:
    return next(noun for kind, noun, _ in _HOOKS.values() if isinstance(descriptor, kind))


def _without_replaced(same_name: list[Offer]) -> list[Offer]:
    """Leave out a built-in table format of which an installed plugin offers another reader.

    A plugin may be older than the built-in format of that name, and its tables stay readable.
    """
    installed = [one for one in same_name if one.distribution is not None]
    return (
        installed if installed and isinstance(same_name[0].descriptor, TableFormat) else same_name
    )


def _name_clash(same_name: Sequence[Offer]) -> PluginError:
    descriptor = same_name[0].descriptor
    named = f"{_noun(descriptor)} {descriptor.name!r}"
    sources = "; ".join(one.source for one in same_name)
    return PluginError(
        f"{named} is offered by {len(same_name)} plugins: {sources}. "
        "Uninstall all but one, or ask their authors to rename it."
    )


def find_estimator(name: str) -> EstimatorPlugin:
    """The descriptor of an estimator.

    Raises:
        PluginError: if no such estimator is registered; the message names the most similar one,
            and the plugins that failed to load, since one of them may provide it.
    """
    plugins = registry()
    return _find(name, "estimator", plugins.estimators, plugins.failures, _TRYING)


def find_conditional(name: str) -> Callable[..., Estimator]:
    """What makes the estimator of columns given others: ``(features, given, options)``.

    Raises:
        PluginError: if no such estimator is registered.
        SpecError: if it does not model columns given others.
    """
    conditional = find_estimator(name).conditional
    if conditional is None:
        able = [plugin.name for plugin in registry().estimators.values() if plugin.conditional]
        raise SpecError(
            f"{name} does not model columns given others; remove given from its block, or use "
            f"{one_of(able)}."
        )
    return conditional


def check_option_names(estimator: str, options: Iterable[str], *, given: bool) -> None:
    """Refuse options that an installed estimator does not declare.

    An estimator that is not installed, and one that does not declare its options, accepts all names
    until a model is fitted, so that specs can be read anywhere.

    Args:
        estimator: name of the estimator.
        options: names of the options of a block.
        given: whether the block has given columns, for which an estimator may have other options.

    Raises:
        SpecError: if there is no such option.
    """
    options = list(options)
    plugin = registry().estimators.get(estimator) if options else None
    if plugin is None or (given and plugin.conditional is None):
        return
    declaration = getattr(plugin.conditional if given else plugin.estimator, "Options", None)
    if declaration is not None:
        check_known(options, declaration.declared(), f"{estimator} has no option")


def find_table_format(name: str) -> TableFormat:
    """The descriptor of a table format; raises as `find_estimator`."""
    return _find(name, "table format", registry().table_formats, registry().failures)


def find_engine(name: str) -> EnginePlugin:
    """The descriptor of an engine; raises as `find_estimator`."""
    return _find(name, "engine", registry().engines, registry().failures)


def _find(
    name: str,
    noun: str,
    descriptors: Mapping[str, Registered],
    failures: Sequence[PluginError],
    hint: str = "",
) -> Registered:
    if name in descriptors:
        return descriptors[name]
    not_loaded = "".join(f" Not loaded: {failure}" for failure in failures)
    error = PluginError(
        f"unknown {noun} {name!r}; registered: {suggest(name, descriptors)}{hint}{not_loaded}"
    )
    error.__cause__ = failures[0] if failures else None
    raise error


def estimator_plugins() -> dict[str, EstimatorPlugin]:
    """Descriptors of all estimators, by name.

    Raises:
        PluginError: if a plugin could not be loaded, or two register one name.
    """
    plugins = registry()
    if plugins.failures:
        raise plugins.failures[0]
    return dict(sorted(plugins.estimators.items()))


def estimators() -> dict[str, type[Estimator]]:
    """The classes of all estimators by name.

    Raises:
        PluginError: if a plugin could not be loaded, or two register one name.
    """
    return {name: plugin.estimator for name, plugin in estimator_plugins().items()}


def origins(estimators: Iterable[str]) -> dict[str, Any]:
    """The distributions that provide estimators, for the provenance of a bundle.

    Returns:
        ``{"plugins": {estimator: {"distribution": …, "version": …}}}``, without the built-in
        estimators, or an empty dict if all are built in.
    """
    distributions = registry().distributions
    plugins = {
        name: dict(zip(("distribution", "version"), distributions[name], strict=True))
        for name in estimators
        if name in distributions
    }
    return {"plugins": plugins} if plugins else {}
