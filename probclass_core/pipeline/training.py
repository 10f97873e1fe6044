"""Train a model: rows to sufficient statistics to parameters."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from probclass_core.arguments import ColumnName, checks_arguments
from probclass_core.arrow.bundle import as_json
from probclass_core.errors import DataError, SpecError, expect
from probclass_core.estimation.statistics import Statistics, refine
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, draws_progress
from probclass_core.io.filters import Where, parse_where
from probclass_core.io.open import open_table
from probclass_core.io.table import Source
from probclass_core.model.finalize import finalize
from probclass_core.model.model import Model
from probclass_core.spec.model_spec import (
    PARTITIONS,
    SPEC_HINT,
    GroupsOption,
    HalfLifeOption,
    ModelSpec,
)
from probclass_core.training.rows import TrainingRows
from probclass_core.training.shards import Shard

if TYPE_CHECKING:
    from probclass_core.store.statistics_cache import CacheOption

log = logging.getLogger(__name__)

_DERIVED: Mapping[str, Any] = {
    "exclude": (),
    "max_classes": None,
    "groups": PARTITIONS,
    "half_life": None,
}
"""Arguments that are for a spec that is derived from the rows, and their defaults."""


@checks_arguments
@draws_progress("training")
def fit(
    source: Any,
    spec: ModelSpec | None = None,
    *,
    label: ColumnName | None = None,
    exclude: str | Iterable[str] = (),
    max_classes: int | None = None,
    groups: GroupsOption = PARTITIONS,
    half_life: HalfLifeOption = None,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
    cache: CacheOption = None,
) -> Model:
    """Train a model: ``finalize(merge(map(summarize, units)))``.

    If an estimator needs another pass over the rows, they are summarized again, see `refine`;
    ``model.training["passes"]`` is the number of passes. If the rows do not suffice for an
    estimate, another one is taken, see `ModelSpec.on_scarce`; ``model.training["notes"]`` says so
    in sentences, which are also logged as warnings.

    Args:
        source: path, table, frame, reader or dataset; see `open_table`.
        spec: the model.
        label: the class column, instead of a spec: the model is that of `ModelSpec.auto`.
        exclude: with a label, column to leave out, or several; see `ModelSpec.auto`.
        max_classes: with a label, largest number of classes; see `ModelSpec`.
        groups: with a label, columns whose values tell which rows are alike; see `ModelSpec`.
        half_life: with a label, number of partitions after which rows count half as much, or
            ``"auto"`` to compare a few; see `ModelSpec`.
        partition: partition to read, such as ``{"month": "2014-01"}``; by default all.
        where: rows to read, such as ``"month >= '2013-01' and wind in NW, SE"``, or a list of
            conditions ``("month", ">=", "2013-01")``, or an Arrow expression; by default all.
        engine: engine that reads and summarizes: ``"threads"`` (the default), ``"processes"``,
            ``"spark"``, an executor or a Spark session; see `EngineOption`. The model does not
            depend on it.
        workers: number of workers of the engine; by default one per processor. The model does not
            depend on it.
        progress: True for a bar, or a function that progress is reported to; see `ProgressOption`.
        cache: model store, or its URI, in which the statistics of units are cached: units
            in the cache are not read, the others are read and cached. `True` is the store that the
            environment variable ``PROBCLASS_STORE`` names. The model does not depend on it;
            ``model.training["cache"]`` has the number of units and how many were reused.

    Raises:
        SpecError: if neither or both of spec and label are given, the spec is something else, such
            as an array of labels, or does not fit the columns of the table, or `cache` is `True`
            and no store is named.
        DataError: if the model cannot be estimated from the rows, or another pass is needed over a
            reader, which can be read only once.
        TableError: if the table or partition does not exist or cannot be read.
        PluginError: if an estimator or engine is unknown.
        StoreError: if the cache cannot be opened.
    """
    check_spec(spec)  # before the table, since the X of fit(X, y) may be an array
    reading: dict[str, Any] = {"partition": partition, "where": where, "cache": cache}
    table = open_table(source)
    with open_engine(engine, workers) as opened:
        reading |= {"engine": opened, "progress": progress}
        derived = {
            "exclude": exclude,
            "max_classes": max_classes,
            "groups": groups,
            "half_life": half_life,
        }
        spec = spec_or_auto(spec, label, table, derived, **reading)
        return train(table, spec, **reading)[0]


def train(
    source: Any,
    spec: ModelSpec,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
    cache: CacheOption = None,
) -> tuple[Model, Statistics]:
    """The model that `fit` returns, and the statistics of its last pass over the rows.

    Args and errors are those of `fit`.
    """
    rows = TrainingRows(source, spec, partition=partition, where=where, cache=cache, complete=True)
    with open_engine(engine, workers) as opened:
        statistics = rows.summarize(spec, opened, progress)
        while (refined := refine(statistics, passes=rows.passes)) is not None:
            statistics = rows.summarize(refined, opened, progress)
    if statistics.rows == 0 and (conditions := as_json(parse_where(where))):
        raise DataError(f"there is nothing to train on: no row matches {conditions}.")
    model = finalize(statistics, early=True, groups=rows.groups, ages=rows.ages)
    for note in model.training.get("notes", ()):
        log.warning("%s", note)
    training = {**model.training, **rows.provenance}
    model = dataclasses.replace(model, spec=spec, training=training)
    return model.made_from(rows.plan.inputs), statistics


@checks_arguments
@draws_progress("summarizing")
def summarize(
    source: Any,
    spec: ModelSpec,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
    cache: CacheOption = None,
    shard: Shard | str | None = None,
) -> Statistics:
    """Compute the sufficient statistics of a table: the first step of training.

    Args:
        source: as for `fit`, like all other arguments.
        spec: the model.
        partition: partition to read.
        where: rows to read.
        engine: engine that reads and summarizes.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.
        cache: model store in which the statistics of units are cached.
        shard: shard to read, as `plan_shards` cut it; by default the whole table.

    Raises:
        SpecError, DataError, TableError, PluginError, StoreError: as `fit`.
    """
    expect(spec, ModelSpec, SPEC_HINT)
    part = None if shard is None else Shard.parse(shard)
    rows = TrainingRows(source, spec, partition=partition, where=where, cache=cache, shard=part)
    with open_engine(engine, workers) as opened:
        return rows.summarize(spec, opened, progress)


def spec_or_auto(
    spec: ModelSpec | None,
    label: str | None,
    table: Source,
    derived: Mapping[str, Any] | None = None,
    **reading: Any,
) -> ModelSpec:
    """The spec of a training: the one given, or that of `ModelSpec.auto` for a label.

    Args:
        spec: the model, or None.
        label: the class column, or None.
        table: table to derive the spec from.
        derived: arguments of `ModelSpec.auto` that are part of the spec.
        reading: its other arguments: which rows to read, and how.

    Raises:
        SpecError: if neither or both of spec and label are given, or a spec and other arguments of
            a derived one, or the spec is something else.
    """
    check_spec(spec)
    if (spec is None) == (label is None):
        given = "both a spec and a label" if spec is not None else "neither a spec nor a label"
        raise SpecError(
            f"expected a spec, or label= for a spec that is derived from the rows; got {given}. "
            "ModelSpec.auto(rows, None) is the spec of a density without a label."
        )
    options = {
        name: value
        for name, value in (derived or {}).items()
        # A value may be a column of pandas, which is neither equal nor unequal.
        if type(value) is not type(_DERIVED[name]) or value != _DERIVED[name]
    }
    if label is not None:
        from probclass_core.structure.auto import auto  # takes time to import

        return auto(table, label, **options, **reading)
    if options:
        raise SpecError(
            f"{next(iter(options))}= is for a spec that is derived from the rows, with label=; got "
            "a spec as well: change the spec itself."
        )
    assert spec is not None
    return spec


def check_spec(spec: object) -> None:
    """Refuse labels, names and paths in the place of a spec.

    Raises:
        SpecError: if it is neither a spec nor None.
    """
    if isinstance(spec, str):
        raise SpecError(
            f"expected a ModelSpec, got str; {SPEC_HINT}, or write label={spec!r} if it is the "
            "class column."
        )
    if hasattr(spec, "__len__") and not isinstance(spec, Mapping):  # y of scikit-learn's fit(X, y)
        raise SpecError(
            f"expected a ModelSpec, got {type(spec).__name__}; if it is the labels, put them into "
            'the table: fit(pandas.DataFrame(X).assign(label=y), label="label").'
        )
    if spec is not None:
        expect(spec, ModelSpec, SPEC_HINT)
