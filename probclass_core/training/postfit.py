"""What is measured on a table after a model is fitted: density quantiles and calibration.

Each function reads a table in batches and returns a new model with one more table, and so with
another content id. Density quantiles need bounded memory. A calibration takes 40 (k + 4) bytes per
row, for ``k`` classes.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from probclass_core.analysis.evaluation import true_classes
from probclass_core.arguments import checks_arguments
from probclass_core.arrow.arrays import MISSING, FloatArray, weight_vector
from probclass_core.display import json_values
from probclass_core.errors import DataError
from probclass_core.execution.progress import ProgressOption, RowCounter, draws_progress
from probclass_core.execution.threads import ordered_map
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.selection import Selection
from probclass_core.model.calibration import MAX_TEMPERATURE, Calibration, HeldOut, fit_calibration
from probclass_core.model.density_quantiles import LogDensities
from probclass_core.model.model import Model, ModelOption, as_model
from probclass_core.model.posterior import Posterior

log = logging.getLogger(__name__)

Result = TypeVar("Result")


@checks_arguments
@draws_progress("measuring")
def with_density_quantiles(
    model: ModelOption,
    source: Any,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> Model:
    """Measure quantiles of log p(x) over a table, so that a `DecisionRule` can reject unusual rows.

    Args:
        model: fitted model, or a `ProbClassifier`.
        source: as for `fit`; usually the table that the model was fitted on. Rows count by their
            weight if the model has weights, whether or not they have a label.
        partition: partition to read, or None for all.
        where: row filter, or None for all rows.
        workers: number of threads, one per processor by default. The result does not depend on it.
        progress: see `ProgressOption`.

    Returns:
        The model with its density quantiles.

    Raises:
        NotSupportedError: if the densities of a block are known only up to a common term.
        DataError: if a column is missing or has unsuitable values, or there are no rows.
        TableError: if the table or partition does not exist or cannot be read.
    """
    model = as_model(model)
    model.check_normalized()

    def measure(batch: pa.RecordBatch) -> tuple[FloatArray, FloatArray]:
        return model.posterior(batch).log_density, _weights(model, batch)

    selection = Selection(open_table(source), partition, where)
    columns = _weight_columns(model)
    batches, read, inputs = _map_batches(model, measure, selection, columns, workers, progress)
    densities, rows = LogDensities(), 0
    for log_density, weights in batches:
        densities.add(log_density, weights)
        rows += len(weights)
    measured = dataclasses.replace(
        model,
        density_quantiles=densities.table(),
        training={**model.training, "density_quantiles": {"rows": rows, **read}},
    )
    return measured.made_from(model.inputs or model.id, "density_quantiles", inputs)


@checks_arguments
@draws_progress("calibrating")
def calibrate(
    model: ModelOption,
    source: Any,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> Model:
    """Calibrate a model on labeled rows that its training did not see.

    All posteriors of the new model are calibrated; likelihoods, log p(x) and the joint remain the
    same. An earlier calibration of the model is replaced. Rows count by their weight if the model
    has weights.

    The calibration is compared with none: each fifth of the rows is calibrated by a map fitted on
    the others. If that does not lower their log loss, the model is not calibrated, and a
    warning is logged. ``training["calibration"]`` of the result has ``applied``, the log loss
    (nats per row, null if infinite) as ``uncalibrated_log_loss`` and ``calibrated_log_loss``, and
    the ``mean_posterior`` of each class, from which a `Health` measures a shift of the classes.

    Args:
        model: fitted model, or a `ProbClassifier`.
        source: labeled rows, as for `fit`. Rows that the model was trained on hide its errors and
            give a poor calibration.
        partition: partition to read, or None for all.
        where: row filter, or None for all rows.
        workers: number of threads, one per processor by default. The result does not depend on it.
        progress: see `ProgressOption`.

    Returns:
        The calibrated model.

    Raises:
        SpecError: if the model has no label.
        DataError: if a column is missing, or no row has a label of one of the model's classes.
        TableError: if the table or partition does not exist or cannot be read.
    """
    model = as_model(model)
    label = model.spec.label_for("calibrate")
    raw = dataclasses.replace(model, calibration=None)

    def measure(batch: pa.RecordBatch) -> HeldOut:
        truth, _ = true_classes(raw, batch)
        posterior = raw.posterior(batch)
        # Blocks with weights explain every row: their log-likelihoods have a lower bound.
        explained = np.isfinite(posterior.log_density) | (raw.block_weights is not None)
        rows = HeldOut(posterior.log_probability, explained, truth, _weights(raw, batch))
        return rows.of(truth != MISSING)

    selection = Selection(open_table(source), partition, where)
    columns = (label, *_weight_columns(raw))
    mapped, read, inputs = _map_batches(raw, measure, selection, columns, workers, progress)
    batches = list(mapped)
    rows = sum(len(batch.truth) for batch in batches)
    if not any((batch.weights > 0.0).any() for batch in batches):
        raise DataError(
            f"nothing to calibrate on: no row has a label {label!r} that the model knows"
            + (f" and a weight above 0 ({rows} have the label)." if rows else ".")
        )
    calibration, before, after = fit_calibration(batches)
    if calibration is None:
        log.warning(
            "the posteriors stay as they are: calibrated, the log loss of held-out rows would be "
            "%.4f instead of %.4f.",
            after,
            before,
        )
    elif calibration.temperature > MAX_TEMPERATURE - 1:
        log.warning(
            "the temperature reached its bound of %g: on these rows the posterior is no better "
            "than chance, so the calibrated one almost ignores it; check the labels and the model.",
            MAX_TEMPERATURE,
        )
    record = {
        "applied": calibration is not None,
        "rows": rows,
        **json_values({"uncalibrated_log_loss": before, "calibrated_log_loss": after}),
        "mean_posterior": _mean_posterior(batches, calibration, raw),
    }
    calibrated = dataclasses.replace(
        raw,
        calibration=None if calibration is None else calibration.table(raw.classes),
        training={**model.training, "calibration": {**record, **read}},
    )
    return calibrated.made_from(model.inputs or model.id, "calibration", inputs)


def _mean_posterior(
    batches: Sequence[HeldOut], calibration: Calibration | None, model: Model
) -> dict[str, float]:
    """The mean calibrated posterior of each class over the held-out rows."""
    total = np.zeros(len(model.classes))
    for batch in batches:
        density = np.where(batch.explained, 0.0, -np.inf)
        posterior = Posterior(batch.log_probability, np.exp(batch.log_probability), density)
        if calibration is not None:
            posterior = calibration.apply(posterior)
        total += batch.weights @ posterior.probability
    return dict(zip(model.class_names, (total / total.sum()).tolist(), strict=True))


def _map_batches(
    model: Model,
    measure: Callable[[pa.RecordBatch], Result],
    selection: Selection,
    columns: Sequence[str],
    workers: int | None,
    progress: ProgressOption,
) -> tuple[Iterator[Result], dict[str, Any], str | None]:
    """The results of `measure` for each batch, in order; provenance and digest of the rows."""
    plan = selection.plan(columns, model.spec.features)
    counter = RowCounter(progress, plan.rows)
    batches = counter.count(plan.batches(model.batch_rows))
    return ordered_map(measure, batches, workers), selection.provenance(plan), plan.inputs


def _weight_columns(model: Model) -> tuple[str, ...]:
    return () if model.spec.weight is None else (model.spec.weight,)


def _weights(model: Model, batch: pa.RecordBatch) -> FloatArray:
    if model.spec.weight is None:
        return np.ones(batch.num_rows)
    return weight_vector(batch, model.spec.weight)
