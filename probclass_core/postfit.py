"""What is measured on a table once a model is fitted, and kept with the model.

Each function streams a table, measures, and gives back a new model: it holds one table more, and so
has another content id. The quantiles of the density are measured in bounded memory; a calibration
keeps 8 (k + 3) bytes of every row until the end, of ``k`` classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from probclass_core.analysis.evaluation import true_classes
from probclass_core.arrow.arrays import MISSING, FloatArray, weight_vector
from probclass_core.errors import DataError, SpecError, expect, one_of
from probclass_core.execution.threads import ordered_map
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.model.calibration import METHODS, HeldOut, fit_calibration
from probclass_core.model.density_quantiles import LogDensities
from probclass_core.model.model import LOAD_ONE, Model
from probclass_core.model.posterior import Posterior
from probclass_core.pipeline import Progress, RowCounter, origin

Result = TypeVar("Result")


def with_density_quantiles(
    model: Model,
    source: Any,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Model:
    """The model with quantiles of log p(x) over a table, by which a `DecisionRule` rejects rows.

    Args:
        model: a fitted model.
        source: as for `fit`, and as a rule what the model was fitted on; a row counts by its weight
            if the model has weights, and with or without a label.
        partition: read this partition only.
        where: read these rows only.
        workers: threads; by default every processor. The model does not depend on it.
        progress: see `pipeline.Progress`.

    Raises:
        NotSupportedError: a block knows its densities only up to a common term.
        DataError: a column is missing or holds what it must not, or there are no rows.
        TableError: the table or partition is not there or cannot be read.
    """
    model.check_normalized()

    def measure(batch: pa.RecordBatch) -> tuple[FloatArray, FloatArray]:
        return model.posterior(batch).log_density, _weights(model, batch)

    columns = (*model.spec.features, *_weight_columns(model))
    parts, read = _map(model, measure, source, columns, partition, where, workers, progress)
    found, rows = LogDensities(), 0
    for log_density, weights in parts:
        found.add(log_density, weights)
        rows += len(weights)
    return dataclasses.replace(
        model,
        density_quantiles=found.table(),
        training={**model.training, "density_quantiles": {"rows": rows, **read}},
    )


def calibrate(
    model: Model,
    source: Any,
    method: str = "temperature",
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Model:
    """The model with posteriors put right by labeled rows that its training did not see.

    Every posterior that the model gives from then on is calibrated; likelihoods, log p(x) and the
    joint stay what they are. A model that is calibrated already is calibrated anew, from the start.
    Rows count by their weight if the model has weights.

    Args:
        model: a fitted model.
        source: labeled rows, as for `fit`; on the rows of the training a calibration learns what
            the model learnt, and mends little.
        method: ``"temperature"`` or ``"isotonic"``; see `calibration`.
        partition: read this partition only.
        where: read these rows only.
        workers: threads; by default every processor. The model does not depend on it.
        progress: see `pipeline.Progress`.

    Raises:
        SpecError: the method is unknown.
        DataError: a column is missing, no row has a label the model knows, or a class has no rows
            and the method needs some.
        TableError: the table or partition is not there or cannot be read.
    """
    expect(model, Model, LOAD_ONE)
    if method not in METHODS:
        raise SpecError(f"calibration method {method!r} is unknown; use {one_of(METHODS)}.")
    raw = dataclasses.replace(model, calibration=None)

    def measure(batch: pa.RecordBatch) -> HeldOut:
        truth, _ = true_classes(raw, batch)
        known = truth != MISSING
        of_all = raw.posterior(batch)
        posterior = Posterior(of_all.log_probability[known], of_all.log_density[known])
        return HeldOut(posterior, truth[known], _weights(raw, batch)[known])

    columns = (raw.spec.label, *raw.spec.features, *_weight_columns(raw))
    found, read = _map(model, measure, source, columns, partition, where, workers, progress)
    parts = list(found)
    rows = sum(len(part.truth) for part in parts)
    if not any((part.weights > 0.0).any() for part in parts):
        raise DataError(
            f"nothing to calibrate on: no row has a label {raw.spec.label!r} that the model knows"
            + (f" and a weight above 0 ({rows} have the label)." if rows else ".")
        )
    return dataclasses.replace(
        raw,
        calibration=fit_calibration(parts, raw.classes, method),
        training={**model.training, "calibration": {"method": method, "rows": rows, **read}},
    )


def _map(
    model: Model,
    measure: Callable[[pa.RecordBatch], Result],
    source: Any,
    columns: Sequence[str],
    partition: Mapping[str, Any] | None,
    where: Where,
    workers: int | None,
    progress: Progress | None,
) -> tuple[Iterator[Result], dict[str, Any]]:
    """What is measured of each batch, in order, and where the batches come from."""
    table = open_table(source)
    plan = table.plan(columns, partition=partition, where=where, allow_dictionaries=True)
    counter = RowCounter(progress, plan.rows)
    parts = ordered_map(measure, counter.counted(plan.batches(model.batch_rows)), workers)
    return parts, origin(table, plan, partition, where)


def _weight_columns(model: Model) -> tuple[str, ...]:
    return () if model.spec.weight is None else (model.spec.weight,)


def _weights(model: Model, batch: pa.RecordBatch) -> FloatArray:
    if model.spec.weight is None:
        return np.ones(batch.num_rows)
    return weight_vector(batch, model.spec.weight)
