"""The laws of a fitted model: what an estimator's parameters and likelihood owe to who scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.bundle import from_ipc, to_ipc
from probclass_core.errors import NotSupportedError
from probclass_core.estimation.contract import ItemizedLikelihood, LinearLikelihood
from probclass_core.model.model import finalize
from probclass_core.testing.comparison import check, check_plain, same_likelihoods, same_parameters
from probclass_core.testing.law import Law, law
from probclass_core.testing.trial import Trial


@law
def likelihoods_are_numbers(trial: Trial, *, table: pa.Table, rows: pa.Table) -> None:
    """A log-likelihood is (n, k) float64, finite or −inf: no NaN, no +inf, however far out."""
    model = trial.fit(table)
    for some in (table, rows, rows.slice(0, 0)):
        values = trial.likelihood(model).log_likelihood(trial.batch(some))
        shape = (some.num_rows, len(model.classes))
        check(values.shape == shape, f"shape {shape}", values.shape)
        check(values.dtype == np.float64, "float64", values.dtype)
        wrong = np.isnan(values) | np.isposinf(values)
        for row in np.flatnonzero(wrong.any(axis=1))[:1]:
            features = some.select(list(trial.columns)).slice(int(row), 1).to_pylist()[0]
            check(False, f"numbers or −inf of the row {features}", values[row].tolist())


@law
def a_row_without_features_has_log_likelihood_0(trial: Trial, *, table: pa.Table) -> None:
    """Of a row of nulls log p(x | class) is 0."""
    rows = pa.Table.from_pylist([{}, {}], schema=table.select(list(trial.columns)).schema)
    values = trial.log_likelihood(trial.fit(table), rows)
    check(not values.any(), "zeros", values.tolist())


@law
def a_null_is_marginalized(trial: Trial, *, table: pa.Table, rows: pa.Table) -> None:
    """Without a feature, a row has the log-likelihood of the model of the other features."""
    model = trial.fit(table)
    for column in trial.columns:
        less = trial.without(column)
        if less is not None:
            nulled = _nulled(rows, [column])
            expected = less.log_likelihood(less.fit(table), rows)
            same_likelihoods(trial, expected, trial.log_likelihood(model, nulled), nulled)


@law
def log_likelihoods_sum_over_features(trial: Trial, *, table: pa.Table, rows: pa.Table) -> None:
    """The log-likelihood of a row is the sum of those of its features alone."""
    model = trial.fit(table)
    alone = [
        trial.log_likelihood(model, _nulled(rows, [c for c in trial.columns if c != column]))
        for column in trial.columns
    ]
    same_likelihoods(trial, np.sum(alone, axis=0), trial.log_likelihood(model, rows), rows)


@law
def parameters_survive_storage(trial: Trial, *, table: pa.Table, rows: pa.Table) -> None:
    """Parameters read back from Arrow IPC by a new estimator give the same likelihoods."""
    model = trial.fit(table)
    parameters = model.parameters[trial.plugin.name]
    check_plain(parameters)
    stored = from_ipc(to_ipc(parameters))
    check(to_ipc(stored) == to_ipc(parameters), "the table that was stored", "another")
    read = trial.estimator(model).likelihood(stored, model.classes)
    for some in (table, rows):
        came = read.log_likelihood(trial.batch(some))
        same_likelihoods(trial, trial.log_likelihood(model, some), came, some)


@law
def columns_follow_the_classes(trial: Trial, *, table: pa.Table, rows: pa.Table) -> None:
    """Of classes in another order, parameters are the same and likelihoods follow that order."""
    statistics = trial.summarize(table)
    model = finalize(statistics, early=True)
    parameters = model.parameters[trial.plugin.name]
    turned = model.classes[::-1]
    estimator = trial.estimator(statistics)
    same_parameters(trial, parameters, estimator.finalize(trial.block(statistics), turned))
    for some in (table, rows):
        came = estimator.likelihood(parameters, turned).log_likelihood(trial.batch(some))
        same_likelihoods(trial, trial.log_likelihood(model, some)[:, ::-1], came, some)


@law
def items_sum_to_the_log_likelihood(trial: Trial, *, table: pa.Table, rows: pa.Table) -> None:
    """Where a likelihood itemizes a row, the shares sum to the row's log-likelihood."""
    model = trial.fit(table)
    likelihood = trial.likelihood(model)
    if isinstance(likelihood, ItemizedLikelihood):
        for some in (table, rows):
            for row in range(some.num_rows):
                one = some.slice(row, 1)
                shares = list(likelihood.itemize(trial.batch(one)).values())
                total = np.sum([np.zeros(len(model.classes)), *shares], axis=0)
                same_likelihoods(trial, trial.log_likelihood(model, one), total[None, :], one)


@law
def a_linear_form_tells_the_differences(trial: Trial, *, table: pa.Table) -> None:
    """Where a likelihood has a linear form, it gives the differences between classes."""
    model = trial.fit(table)
    likelihood = trial.likelihood(model)
    if not isinstance(likelihood, LinearLikelihood):
        return
    try:
        names, weights, intercept = likelihood.linear_form()
    except NotSupportedError:
        return
    if set(names) <= set(trial.columns):
        rows = table.select(list(names)).drop_null()
        features = np.array([rows[name].to_numpy() for name in names], dtype=np.float64)
        linear = (weights @ features).T + intercept
        values = trial.log_likelihood(model, rows)
        scale = 1.0 + np.abs(linear).max(initial=0.0)  # of what cancels between classes
        differences = [(some - some[:, :1]) / scale for some in (values, linear)]
        same_likelihoods(trial, differences[0], differences[1], rows)


def _nulled(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    for name in columns:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.nulls(rows.num_rows, rows.schema.field(name).type))
    return rows


LAWS: Sequence[Law] = (
    likelihoods_are_numbers,
    a_row_without_features_has_log_likelihood_0,
    a_null_is_marginalized,
    log_likelihoods_sum_over_features,
    parameters_survive_storage,
    columns_follow_the_classes,
    items_sum_to_the_log_likelihood,
    a_linear_form_tells_the_differences,
)
