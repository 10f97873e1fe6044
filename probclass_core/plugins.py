"""Finding plugins: built-ins in one tuple, third parties by entry point, failures named.

A broken plugin is never passed over in silence. `estimators`, which lists all, raises. Asking for
one estimator that does load works and logs the broken plugin as an error; asking for one that
does not load raises with the cause, so one bad distribution cannot stop models that do not need it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import pluggy

from probclass_core import hookspecs
from probclass_core.errors import PluginError, nearest, one_of
from probclass_core.estimator import PROBCLASS_API, EstimatorFactory, EstimatorPlugin

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "probclass"
BUILT_IN = (
    "probclass_core.estimators.gaussian_diagonal",
    "probclass_core.estimators.gaussian_full",
    "probclass_core.estimators.gaussian_shared",
    "probclass_core.estimators.categorical",
    "probclass_core.estimators.categorical_joint",
    "probclass_core.estimators.discretized",
    "probclass_core.estimators.bernoulli",
    "probclass_core.estimators.multinomial",
    "probclass_core.estimators.poisson",
    "probclass_core.estimators.knn_density",
)


@dataclass(frozen=True)
class Registry:
    """What was found.

    Attributes:
        manager: pluggy's manager, for hooks to come.
        plugins: estimator name to descriptor.
        failures: what could not be loaded, one error per plugin or clash.
    """

    manager: pluggy.PluginManager
    plugins: Mapping[str, EstimatorPlugin]
    failures: Sequence[PluginError] = field(default_factory=tuple)


@functools.cache
def registry() -> Registry:
    """The registry of this process, built at first use from everything that is installed."""
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
    origin: dict[str, list[tuple[str, EstimatorPlugin]]] = {}

    def admit(plugin: object, source: str) -> None:
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
            origin.setdefault(descriptor.name, []).append((source, descriptor))

    for module in BUILT_IN:
        admit(importlib.import_module(module), f"{module} (built in)")
    for point in entry_points:
        source = _described(point)
        try:
            admit(point.load(), source)
        except PluginError as error:
            failures.append(error)
        except Exception as error:  # anything can go wrong in another's module
            failure = PluginError(
                f"plugin {source} cannot be loaded: {type(error).__name__}: "
                f"{' '.join(str(error).split())}; mend or uninstall it."
            )
            failure.__cause__ = error
            failures.append(failure)
    failures.extend(_clash(name, offers) for name, offers in origin.items() if len(offers) > 1)
    plugins = {name: offers[0][1] for name, offers in origin.items() if len(offers) == 1}
    return Registry(manager, MappingProxyType(plugins), tuple(failures))


def find_estimator(name: str, found: Registry | None = None) -> EstimatorPlugin:
    """The descriptor of one estimator.

    Raises:
        PluginError: no such estimator; the message names the nearest, and the plugins that failed
            to load, since it may have been theirs.
    """
    found = registry() if found is None else found
    if name in found.plugins:
        return found.plugins[name]
    broken = "".join(f" Not loaded: {failure}" for failure in found.failures)
    error = PluginError(
        f"unknown estimator {name!r}; registered: {one_of(found.plugins)}."
        f"{nearest(name, found.plugins)}{broken}"
    )
    error.__cause__ = found.failures[0] if found.failures else None
    raise error


def estimator_plugins(found: Registry | None = None) -> dict[str, EstimatorPlugin]:
    """All descriptors by name.

    Raises:
        PluginError: a plugin could not be loaded, or two claim one name.
    """
    found = registry() if found is None else found
    if found.failures:
        raise found.failures[0]
    return dict(sorted(found.plugins.items()))


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


def _offered(manager: pluggy.PluginManager, plugin: object) -> Iterable[EstimatorPlugin]:
    if not manager.get_hookcallers(plugin):
        raise PluginError(
            "it implements no hook; write probclass_estimators and decorate it with "
            "probclass_core.hookimpl."
        )
    others = [other for other in manager.get_plugins() if other is not plugin]
    caller = manager.subset_hook_caller("probclass_estimators", others)
    try:
        returned = caller()
        offers = [descriptor for offer in returned for descriptor in offer]
    except Exception as error:
        raise PluginError(
            f"probclass_estimators failed: {type(error).__name__}: {error}."
        ) from error
    if not returned:
        raise PluginError("probclass_estimators gave None; it must yield EstimatorPlugin values.")
    for descriptor in offers:
        if not isinstance(descriptor, EstimatorPlugin):
            raise PluginError(
                f"probclass_estimators gave {descriptor!r}; it must yield EstimatorPlugin values."
            )
        yield descriptor


def _clash(name: str, offers: Sequence[tuple[str, EstimatorPlugin]]) -> PluginError:
    sources = "; ".join(source for source, _ in offers)
    return PluginError(
        f"estimator {name!r} is offered by {len(offers)} plugins: {sources}. "
        "Uninstall all but one, or have them renamed."
    )


def _described(point: importlib.metadata.EntryPoint) -> str:
    dist = point.dist
    version = f" of {dist.name} {dist.version}" if dist is not None else ""
    return f"{point.name!r} ({point.value}){version}"
