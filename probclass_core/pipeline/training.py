"""Train a model: rows to sufficient statistics to parameters."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from probclass_core.arguments import ColumnName, checks_arguments
from probclass_core.arrow.bundle import as_json
from probclass_core.errors import DataError, expect
from probclass_core.estimation.statistics import Statistics, refine
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, draws_progress
from probclass_core.io.filters import Where, parse_where
from probclass_core.io.open import open_table
from probclass_core.model.finalize import finalize
from probclass_core.model.model import Model
from probclass_core.pipeline.given_spec import check_spec, spec_or_auto
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
        derived: dict[str, Any] = {"exclude": exclude, "max_classes": max_classes}
        if not (isinstance(groups, str) and groups == PARTITIONS):
            derived["groups"] = groups
        if half_life is not None:
            derived["half_life"] = half_life
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
