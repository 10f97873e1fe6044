"""Finding plugins: built-ins in one tuple, third parties by entry point, failures named.

A broken plugin is never passed over in silence. `estimators`, which lists all, raises. Asking for
one estimator, table format or engine that does load works and logs the broken plugin as an error;
asking for one that does not load raises with the cause, so one bad distribution cannot stop models
that do not need it. What is not installed yet can be tried, see `trying`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pluggy

from probclass_core.errors import PluginError, StoreError, nearest, one_of
from probclass_core.plugins import hookspecs
from probclass_core.plugins.descriptors import (
    PROBCLASS_API,
    EnginePlugin,
    EstimatorFactory,
    EstimatorPlugin,
    TableFormat,
)

log = logging.getLogger(__name__)

_Offer = TypeVar("_Offer", EstimatorPlugin, TableFormat, EnginePlugin)

ENTRY_POINT_GROUP = "probclass"
BUILT_IN = (
    "probclass_core.estimation.families.built_in",
    "probclass_core.io.built_in",
    "probclass_core.execution.built_in",
)

Descriptor = EstimatorPlugin | TableFormat | EnginePlugin

_KINDS: Mapping[str, type[Descriptor]] = {
    "probclass_estimators": EstimatorPlugin,
    "probclass_table_formats": TableFormat,
    "probclass_engines": EnginePlugin,
}
"""Hook to what it yields."""

_ORIGIN = ("distribution", "version")
"""What a bundle's provenance says of an estimator that is not built in."""

_NOUNS: Mapping[type[Descriptor], str] = {
    EstimatorPlugin: "estimator",
    TableFormat: "table format",
    EnginePlugin: "engine",
}


@dataclass(frozen=True)
class FoundPlugin:
    """One plugin that was found, and what came of it.

    Attributes:
        source: its entry point and distribution, as messages name it.
        module: where it is.
        distribution: name and version; none for a built-in one.
        offers: names of the estimators, table formats and engines it offers.
        failure: why nothing of it is used; none where all is well.
    """

    source: str
    module: str
    distribution: tuple[str, str] | None
    offers: Sequence[str] = ()
    failure: PluginError | None = None


@dataclass(frozen=True)
class Registry:
    """What was found.

    Attributes:
        estimators: name to descriptor.
        table_formats: name to descriptor, the built-in ones first.
        engines: name to descriptor, the built-in ones first.
        failures: what could not be loaded, one error per plugin or clash.
        plugins: all of them, those that failed included; a clash is the failure of each party.
    """

    estimators: Mapping[str, EstimatorPlugin]
    table_formats: Mapping[str, TableFormat]
    engines: Mapping[str, EnginePlugin]
    failures: Sequence[PluginError] = field(default_factory=tuple)
    plugins: Sequence[FoundPlugin] = field(default_factory=tuple)


_tried: list[EstimatorPlugin] = []


def registry() -> Registry:
    """The registry of this process: everything that is installed, and what is being tried."""
    found = _installed()
    if not _tried:
        return found
    tried = {plugin.name: plugin for plugin in _tried}
    return replace(found, estimators={**found.estimators, **tried})


@contextmanager
def trying(*plugins: EstimatorPlugin) -> Iterator[None]:
    """Estimators that are not installed, by name in specs as if they were, until the block ends.

    They are there for the whole process, its threads included. What is registered already, the
    very same descriptor, is no clash.

    Examples:
        >>> import probclass_core as pc
        >>> from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
        >>> class Narrow(GaussianDiagonal):
        ...     name = "narrow"
        >>> with pc.trying(pc.EstimatorPlugin("narrow", Narrow, "a normal by another name")):
        ...     spec = pc.ModelSpec("y", [pc.Block("narrow", ["x"])])
        ...     model = pc.fit({"x": [1.0, 2.0, 5.0, 7.0], "y": list("aabb")}, spec)
        >>> model.parameters["narrow"]["mean"].to_pylist()
        [1.5, 6.0]
        >>> "narrow" in pc.estimators()
        False

    Raises:
        PluginError: a name is another estimator's, installed or tried.
    """
    before = list(_tried)
    try:
        for plugin in plugins:
            other = registry().estimators.get(plugin.name, plugin)
            if other != plugin:
                raise PluginError(
                    f"estimator {plugin.name!r} cannot be tried: the name is that of "
                    f"{other.factory!r}, which is registered; give yours another name."
                )
            _tried.append(plugin)
        yield
    finally:
        _tried[:] = before


@functools.cache
def _installed() -> Registry:
    entry_points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    found = build(sorted(entry_points, key=lambda point: (point.name, point.value)))
    for failure in found.failures:
        log.error("%s", failure)
    return found


def build(entry_points: Iterable[importlib.metadata.EntryPoint] = ()) -> Registry:
    """A registry of the built-ins and of these entry points."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    failures: list[PluginError] = []
    plugins: list[FoundPlugin] = []
    origin: dict[tuple[type, str], list[tuple[str, Descriptor]]] = {}

    def admit(plugin: object, source: str) -> list[str]:
        _check_version(plugin, source)
        try:
            manager.register(plugin, name=source)
            manager.check_pending()
            offered = list(_offered(manager, plugin))
        except (pluggy.PluginValidationError, PluginError) as error:
            manager.unregister(plugin)
            reason = " ".join(str(error).split())
            raise PluginError(f"plugin {source}: {reason}") from error
        for descriptor in offered:
            key = type(descriptor), descriptor.name
            origin.setdefault(key, []).append((source, descriptor))
        return [descriptor.name for descriptor in offered]

    for module in BUILT_IN:
        source = f"{module} (built in)"
        offers = admit(importlib.import_module(module), source)
        plugins.append(FoundPlugin(source, module, None, offers))
    for point in entry_points:
        plugin = FoundPlugin(_described(point), point.value, _distribution(point))
        try:
            plugins.append(replace(plugin, offers=admit(point.load(), plugin.source)))
        except PluginError as error:
            failures.append(error)
            plugins.append(replace(plugin, failure=error))
        except Exception as error:  # anything can go wrong in another's module
            failure = PluginError(
                f"plugin {plugin.source} cannot be loaded: {type(error).__name__}: "
                f"{' '.join(str(error).split())}; mend or uninstall it."
            )
            failure.__cause__ = error
            failures.append(failure)
            plugins.append(replace(plugin, failure=failure))
    clashes = {key: offers for key, offers in origin.items() if len(offers) > 1}
    for (_, name), parties in clashes.items():
        clash = _clash(name, parties)
        failures.append(clash)
        sources = {source for source, _ in parties}
        plugins = [replace(p, failure=clash) if p.source in sources else p for p in plugins]
    found = [parties[0][1] for key, parties in origin.items() if key not in clashes]
    return Registry(
        {one.name: one for one in found if isinstance(one, EstimatorPlugin)},
        {one.name: one for one in found if isinstance(one, TableFormat)},
        {one.name: one for one in found if isinstance(one, EnginePlugin)},
        tuple(failures),
        tuple(plugins),
    )


def find_estimator(name: str, found: Registry | None = None) -> EstimatorPlugin:
    """The descriptor of one estimator.

    Raises:
        PluginError: no such estimator; the message names the nearest, and the plugins that failed
            to load, since it may have been theirs.
    """
    found = registry() if found is None else found
    return _named(name, EstimatorPlugin, found.estimators, found.failures)


def find_table_format(name: str) -> TableFormat:
    """The descriptor of one table format; raises as `find_estimator`."""
    return _named(name, TableFormat, registry().table_formats, registry().failures)


def find_engine(name: str) -> EnginePlugin:
    """The descriptor of one engine; raises as `find_estimator`."""
    return _named(name, EnginePlugin, registry().engines, registry().failures)


def _named(
    name: str, kind: type[_Offer], offers: Mapping[str, _Offer], failures: Sequence[PluginError]
) -> _Offer:
    if name in offers:
        return offers[name]
    broken = "".join(f" Not loaded: {failure}" for failure in failures)
    hints = f"{nearest(name, offers)}{broken}"
    error = PluginError(f"unknown {_NOUNS[kind]} {name!r}; registered: {one_of(offers)}.{hints}")
    error.__cause__ = failures[0] if failures else None
    raise error


def origins(estimators: Iterable[str]) -> dict[str, Any]:
    """Where estimators come from, for the provenance of a bundle: nothing for built-in ones.

    Returns:
        ``{"plugins": {estimator: {"distribution": …, "version": …}}}``, or an empty dict.
    """
    by_offer = {
        name: plugin.distribution for plugin in registry().plugins for name in plugin.offers
    }
    known = ((name, by_offer.get(name)) for name in estimators)
    plugins = {name: dict(zip(_ORIGIN, one, strict=True)) for name, one in known if one}
    return {"plugins": plugins} if plugins else {}


def check_reader(block: str, made: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
    """Refuse the parameters of a block that nothing installed can read.

    Args:
        block: its name.
        made: what the bundle says of it, its estimator and the version of its parameters.
        provenance: of the bundle, which knows the distribution that made them, see `origins`.

    Raises:
        PluginError: the estimator is not installed.
        StoreError: it reads parameters of another version.
    """
    name = made["estimator"]
    recorded = provenance.get("plugins")
    origin = recorded.get(name) if isinstance(recorded, Mapping) else None
    mend = "install a matching release, or train again."
    if isinstance(origin, Mapping) and origin.keys() >= set(_ORIGIN):
        distribution, release = (origin[key] for key in _ORIGIN)
        mend = f"it was made by {distribution} {release}: pip install '{distribution}=={release}'."
    if name not in registry().estimators and origin is not None:
        broken = "".join(f" Not loaded: {failure}" for failure in registry().failures)
        raise PluginError(
            f"block {block!r} needs the estimator {name!r}, which is not installed; {mend}{broken}"
        )
    plugin, version = find_estimator(name), made["parameters_version"]
    if plugin.parameters_version != version:
        raise StoreError(
            f"block {block!r} holds parameters of version {version}, the installed {plugin.name} "
            f"reads {plugin.parameters_version}; {mend}"
        )


def estimator_plugins(found: Registry | None = None) -> dict[str, EstimatorPlugin]:
    """All descriptors by name.

    Raises:
        PluginError: a plugin could not be loaded, or two claim one name.
    """
    found = registry() if found is None else found
    if found.failures:
        raise found.failures[0]
    return dict(sorted(found.estimators.items()))


def estimators() -> dict[str, EstimatorFactory]:
    """Every registered estimator by name: for the built-in ones, their class.

    Raises:
        PluginError: a plugin could not be loaded, or two claim one name.
    """
    return {name: plugin.factory for name, plugin in estimator_plugins().items()}


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


def _offered(manager: pluggy.PluginManager, plugin: object) -> Iterable[Descriptor]:
    hooks = [caller.name for caller in manager.get_hookcallers(plugin) or ()]
    if not hooks:
        raise PluginError(
            f"it implements no hook; write {' or '.join(_KINDS)} and decorate it with "
            "probclass_core.hookimpl."
        )
    others = [other for other in manager.get_plugins() if other is not plugin]
    for hook in hooks:
        kind = _KINDS[hook]
        try:
            returned = manager.subset_hook_caller(hook, others)()
            offers = [descriptor for offer in returned for descriptor in offer]
        except Exception as error:
            raise PluginError(f"{hook} failed: {type(error).__name__}: {error}.") from error
        if not returned:
            raise PluginError(f"{hook} gave None; it must yield {kind.__name__} values.")
        for descriptor in offers:
            if not isinstance(descriptor, kind):
                raise PluginError(
                    f"{hook} gave {descriptor!r}; it must yield {kind.__name__} values."
                )
            yield descriptor


def _clash(name: str, offers: Sequence[tuple[str, Descriptor]]) -> PluginError:
    kind = next(noun for kind, noun in _NOUNS.items() if isinstance(offers[0][1], kind))
    sources = "; ".join(source for source, _ in offers)
    return PluginError(
        f"{kind} {name!r} is offered by {len(offers)} plugins: {sources}. "
        "Uninstall all but one, or have them renamed."
    )


def _distribution(point: importlib.metadata.EntryPoint) -> tuple[str, str] | None:
    return None if point.dist is None else (point.dist.name, point.dist.version)


def _described(point: importlib.metadata.EntryPoint) -> str:
    version = f" of {' '.join(named)}" if (named := _distribution(point)) else ""
    return f"{point.name!r} ({point.value}){version}"
