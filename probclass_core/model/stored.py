"""A model from its stored tables: each is checked, and every likelihood compiled.

Checksums detect damage. They do not detect a table that was written wrong, by hand or by another
program, and whose checksums are right: such a model would score rows in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import ONE_CLASS
from probclass_core.arrow.bundle import RESTORE, Bundle
from probclass_core.arrow.parts import with_time_zones
from probclass_core.arrow.types import schema_from_names
from probclass_core.errors import PluginError, ProbClassError, StoreError
from probclass_core.estimation.contract import Likelihood
from probclass_core.estimation.statistics import bind
from probclass_core.estimation.tidy import (
    COUNT,
    FINITE,
    PROBABILITY,
    ROUNDING,
    Range,
    check_column,
    notes_of,
)
from probclass_core.model.bin_densities import check_bin_densities
from probclass_core.model.density_quantiles import QUANTILES
from probclass_core.model.model import OPTIONAL_TABLES, SPEC_NOTES, Model
from probclass_core.plugins.manager import find_estimator
from probclass_core.spec.model_spec import ModelSpec, category_text

_POSITIVE = Range(low=np.finfo(np.float64).tiny)


def model_from_bundle(bundle: Bundle, *, where: str = "this bundle") -> Model:
    """The inverse of `Model.to_bundle`, with every table checked.

    Args:
        bundle: the verified tables and manifest.
        where: name of the bundle in messages.

    Raises:
        StoreError: if the bundle does not contain a model that training could have made, or
            parameters of another version.
        PluginError: if an estimator is not installed.
    """
    try:
        unreadable = _unreadable_block(bundle)
        if unreadable is None:
            return _checked_model(bundle)
    except Exception as error:  # damaged values can cause any error
        reason = str(error) if isinstance(error, ProbClassError) else repr(error)
        raise StoreError(
            f"{where} is not a valid model: {reason.rstrip('.')}; {RESTORE}."
        ) from error
    raise unreadable


def _unreadable_block(bundle: Bundle) -> PluginError | StoreError | None:
    """The error of a block whose parameters no installed estimator can read; None if all can."""
    plugins = bundle.provenance.get("plugins")
    for block, recorded in bundle.content["blocks"].items():
        name, version = recorded["estimator"], recorded["parameters_version"]
        origin = plugins.get(name) if isinstance(plugins, Mapping) else None
        fix = "install a matching release, or train again."
        if isinstance(origin, Mapping) and origin.keys() >= {"distribution", "version"}:
            made_by, release = origin["distribution"], origin["version"]
            fix = f"it was made by {made_by} {release}: pip install '{made_by}=={release}'."
        try:
            reads = find_estimator(name).estimator.parameters_version
        except PluginError as error:
            failure = f" Not loaded: {error.__cause__}" if error.__cause__ else ""
            return (
                error
                if origin is None
                else PluginError(
                    f"block {block!r} needs the estimator {name!r}, which is not installed; "
                    f"{fix}{failure}"
                )
            )
        if version != reads:
            return StoreError(
                f"block {block!r} has parameters of version {version}, but the installed {name} "
                f"reads version {reads}; {fix}"
            )
    return None


def _checked_model(bundle: Bundle) -> Model:
    tables, training = dict(bundle.tables), dict(bundle.provenance)
    spec = ModelSpec.from_dict(bundle.content["spec"])
    recorded = {name: block["estimator"] for name, block in bundle.content["blocks"].items()}
    if recorded != {block.name: block.estimator for block in spec.blocks}:
        raise StoreError("its blocks are not those of its spec.")
    model = Model(
        spec=replace(spec, notes=tuple(map(str, training.pop(SPEC_NOTES, ())))),
        features=with_time_zones(
            schema_from_names(bundle.content["features"]), bundle.content.get("time_zones", {})
        ),
        priors=tables.pop("priors"),
        **{name: tables.pop(name) for name in OPTIONAL_TABLES if name in tables},
        parameters=tables,
        training=training,
    )
    _check_model(model)
    # The id under which it was stored: another Arrow release might write other bytes.
    vars(model)["id"] = bundle.content_id
    return model


def _check_model(model: Model) -> None:
    """Check the tables of a model that was read from a store, and compile its likelihoods.

    Raises:
        StoreError: naming the table, the column and what is wrong.
    """
    _check_priors(model.priors)
    if model.spec.label is None and model.classes.to_pylist() != [ONE_CLASS]:
        raise StoreError("it has classes, and its spec has no label.")
    if set(model.parameters) != {str(block.name) for block in model.spec.blocks}:
        raise StoreError("the tables of parameters are not those of the blocks.")
    likelihoods: dict[str, Likelihood] = {}
    blocks = {str(block.name): block for block in model.spec.blocks}
    for name, estimator in bind(model.spec, model.features).items():
        try:
            parameters = model.parameters[name]
            columns, inputs = list(blocks[name].columns), list(blocks[name].inputs)
            named = notes_of(parameters).get("features", columns)
            if named not in (columns, inputs):
                raise StoreError(f"its notes are of the columns {named}.")
            estimator.check_parameters(parameters, model.classes)
            likelihoods[name] = estimator.likelihood(parameters, model.classes)
        except StoreError as error:
            raise StoreError(f"block {name!r}: {error}") from error
    vars(model)["likelihoods"] = likelihoods
    if model.block_weights is not None:
        _check_block_weights(model.block_weights, model)
    if model.bin_densities is not None:
        check_bin_densities(model.bin_densities, model.cuts)
    if model.calibration is not None:
        _check_calibration(model.calibration, model.classes)
    if model.density_quantiles is not None:
        _check_quantiles(model.density_quantiles)


def _check_priors(priors: pa.Table) -> None:
    check_column(priors, "count", pa.float64())
    check_column(priors, "prior", pa.float64())
    COUNT.check("count", priors["count"])
    PROBABILITY.check("prior", priors["prior"])
    total = float(priors["prior"].to_numpy().sum())
    if not abs(total - 1.0) <= ROUNDING:
        raise StoreError(f"the priors sum to {total:.6g} instead of 1.")
    classes = priors["class"].combine_chunks()
    if classes.null_count or len(pc.unique(classes)) < len(classes) or not len(classes):
        raise StoreError("a class of the priors is null or repeated, or there is none.")


def _check_block_weights(table: pa.Table, model: Model) -> None:
    names = [str(block.name) for block in model.spec.pool]
    classes = [category_text(value) for value in model.classes.to_pylist()]
    check_column(table, "value", pa.float64())
    FINITE.check("block weight", table["value"])
    if table["name"].to_pylist() != [*names, *classes]:
        raise StoreError("the block weights are not those of the blocks and classes.")
    COUNT.check("block weight", table["value"].slice(0, len(names)))


def _check_calibration(table: pa.Table, classes: pa.Array) -> None:
    check_column(table, "value", pa.float64())
    _POSITIVE.check("temperature", table["value"].slice(0, 1))
    FINITE.check("bias", table["value"].slice(1))
    if table["class"].to_pylist() != [None, *classes.to_pylist()]:
        raise StoreError("the biases of the calibration are not those of the classes.")


def _check_quantiles(table: pa.Table) -> None:
    check_column(table, "log_density", pa.float64())
    Range(high=np.finfo(np.float64).max, finite=False).check("log_density", table["log_density"])
    quantiles = table["quantile"].to_numpy()
    if not len(quantiles) or not np.array_equal(quantiles, QUANTILES[-len(quantiles) :]):
        raise StoreError("the quantiles of the density are not the thousandths.")
    values = table["log_density"].to_numpy()
    if (values[1:] < values[:-1]).any():
        raise StoreError("log_density is not in ascending order.")
