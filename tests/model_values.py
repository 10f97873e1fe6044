"""Values of a model as plain Python, and comparison with printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

import probclass_core as pc
from probclass_core.arrow.arrays import label_codes
from probclass_core.arrow.bundle import json_digest, to_ipc
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.contract import LeaveOneOut
from probclass_core.estimation.statistics import Statistics, bind


def rows(names: Sequence[str], values: Sequence[Sequence[Any]]) -> pa.Table:
    """A table from rows, the way documents print them."""
    return pa.table(dict(zip(names, map(list, zip(*values, strict=True)), strict=True)))


def digest_of(statistics: Statistics) -> str:
    """SHA-256 of everything that statistics consist of."""
    tables = {name: json_digest(to_ipc(table).hex()) for name, table in statistics.tables.items()}
    counts = [statistics.rows, statistics.null_labels]
    return json_digest([statistics.spec.to_dict(), str(statistics.features), counts, tables])


def table_of_matrix(x: np.ndarray, names: Sequence[str] | None = None, **further: Any) -> pa.Table:
    """A table of the columns of a matrix, by default ``x0``, ``x1`` …, and further columns."""
    names = names or [f"x{position}" for position in range(x.shape[1])]
    columns = [pa.array(column, from_pandas=True) for column in np.ascontiguousarray(x.T)]
    return pa.table({**dict(zip(names, columns, strict=True)), **further})


def fitted(
    table: pa.Table,
    label: str,
    *blocks: pc.Block,
    prior: str | Mapping[str, float] = "empirical",
    weight: str | None = None,
) -> pc.Model:
    """A model fitted on a table."""
    return pc.fit(table, pc.ModelSpec(label=label, blocks=blocks, prior=prior, weight=weight))


def normal(model: pc.Model, label: Any, feature: str) -> tuple[float, float]:
    """Mean and variance of a feature of the model's ``gaussian_diagonal`` block."""
    cell = _cell(model.parameters["gaussian_diagonal"], label, feature=feature)
    return cell["mean"], cell["variance"]


def covariances(parameters: pa.Table) -> np.ndarray:
    """The covariance matrices of a table of parameters, by class."""
    tensor: np.ndarray = parameters["covariance"].combine_chunks().to_numpy_ndarray()
    return tensor


def covariance(model: pc.Model, label: Any) -> np.ndarray:
    """The covariance matrix of a class in the model's ``gaussian_full`` block."""
    parameters = model.parameters["gaussian_full"]
    return covariances(parameters)[parameters["class"].to_pylist().index(label)]  # type: ignore[no-any-return]


def probability(model: pc.Model, label: Any, feature: str, value: str) -> float:
    """P(value | class) of the model's ``categorical`` block."""
    cell = _cell(model.parameters["categorical"], label, feature=feature, value=value)
    return float(np.exp(cell["log_probability"]))


def likelihood(model: pc.Model, **row: Any) -> dict[Any, float]:
    """p(x | c) of one row, by class."""
    return _by_class(model, model.log_likelihood_by_block(_one(row)).sum(axis=2))


def posterior(model: pc.Model, **row: Any) -> dict[Any, float]:
    """P(c | x) of one row, by class."""
    return _by_class(model, model.predict_log_proba(_one(row)))


def weights_of(model: pc.Model) -> dict[str, float]:
    """The weights of blocks, and the biases of classes, by name."""
    assert model.block_weights is not None
    names, values = (model.block_weights[name].to_pylist() for name in ("name", "value"))
    return dict(zip(names, values, strict=True))


def evidence(table: pa.Table, block: pc.Block, weight: str | None = None) -> float:
    """The log evidence of a model of one block for label ``c``."""
    spec = pc.ModelSpec("c", [block], weight=weight)
    statistics = pc.summarize(table, spec)
    (estimator,) = bind(spec, statistics.features).values()
    (sums,) = statistics.blocks.values()
    return estimator.log_evidence(sums)


def left_out(model: pc.Model, table: pa.Table) -> np.ndarray:
    """log p(x | c) of training rows by the model's one block, each as fitted without the row."""
    (block,), (estimator,) = model.spec.blocks, bind(model.spec, model.features).values()
    assert isinstance(estimator, LeaveOneOut)
    weights = None if model.spec.weight is None else table[model.spec.weight].to_numpy()
    rows = Rows(table.select(list(block.inputs)).combine_chunks().to_batches()[0])
    truth = label_codes(table[model.spec.label], model.classes)
    (likelihood,) = model.likelihoods.values()
    (statistics,) = pc.summarize(table, model.spec).blocks.values()
    return estimator.leave_one_out(statistics, likelihood, model.classes, rows, truth, weights)


def predicted(model: pc.Model, **row: Any) -> Any:
    """The predicted class of one row."""
    return model.predict(_one(row))[0].as_py()


def _one(row: Mapping[str, Any]) -> pa.Table:
    return pa.table({name: [value] for name, value in row.items()})


def _by_class(model: pc.Model, logs: np.ndarray) -> dict[Any, float]:
    return dict(zip(model.classes.to_pylist(), np.exp(logs[0]).tolist(), strict=True))


def _cell(parameters: pa.Table, label: Any, **key: str) -> dict[str, Any]:
    condition = compute.field("class") == label
    for column, value in key.items():
        condition &= compute.field(column) == value
    cells: list[dict[str, Any]] = parameters.filter(condition).to_pylist()
    assert len(cells) == 1, f"no single cell of class {label!r} and {key}"
    return cells[0]
