"""The laws of the estimator contract: equations that hold for every estimator.

A law takes a `Trial` and, by keyword, tables: ``table``, labeled and weighted rows that a model can
be fitted to; ``parts``, such a table cut into parts, some of them empty; ``rows`` to score, some
with extreme values. It yields pairs that must be equal, see `trial.check_equal`, and checks
what is no equation. The decorator `law` makes it a plain function that raises an AssertionError.
The laws of training come first, those of scoring follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import IntArray
from probclass_core.arrow.bundle import from_ipc, to_ipc
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation import contract
from probclass_core.estimation.marginals import Curve, Levels
from probclass_core.estimation.statistics import merge, refine
from probclass_core.model.finalize import finalize
from probclass_core.model.model import Model
from probclass_core.pipeline.training import summarize
from probclass_core.sql.query import joint_sql
from probclass_core.sql.source import SqlSource
from probclass_core.testing.forms import InParts, nan_for_null, on_sqlite, retyped, run_on_sqlite
from probclass_core.testing.totals import Total, densities, masses
from probclass_core.testing.trial import (
    LABEL,
    WEIGHT,
    Equations,
    Law,
    Trial,
    as_text,
    check,
    check_equal,
    check_plain,
    labeled_rows,
    law,
    rows_of_class,
)

_DOUBLINGS = 6
"""How often statistics are merged with themselves before their size is measured."""

_MOST_DROP = 1e304

_TOTAL_TOLERANCE = 1e-3
"""Largest difference of a total probability from 1, in addition to the error of the integral."""


@law
def summarizing_the_whole_is_merging_its_parts(
    trial: Trial, *, parts: Sequence[pa.Table]
) -> Equations:
    """summarize(a ++ b) agrees with merge([summarize(a), summarize(b)])."""
    yield trial.summarize(pa.concat_tables(parts)), merge(trial.summarize_each(parts))


@law
def merging_is_associative(trial: Trial, *, parts: Sequence[pa.Table]) -> Equations:
    """The result of a merge does not depend on how parts are grouped."""
    summarized = trial.summarize_each(parts)
    for cut in range(1, len(parts)):
        yield merge(summarized), merge([merge(summarized[:cut]), merge(summarized[cut:])])


@law
def merging_is_commutative(trial: Trial, *, parts: Sequence[pa.Table]) -> Equations:
    """The result of a merge does not depend on the order of the parts."""
    summarized = trial.summarize_each(parts)
    for order in (summarized[::-1], [*summarized[1:], summarized[0]]):
        yield merge(summarized), merge(order)


@law
def merging_with_no_rows_changes_nothing(trial: Trial, *, table: pa.Table) -> Equations:
    """Statistics merged alone, or with statistics of no rows, stay the same."""
    statistics = trial.summarize(table)
    block, estimator = trial.block(statistics), trial.bound(statistics)
    empty = block.slice(0, 0)
    for tables in ([block], [block, empty], [empty, block], [empty, block, empty]):
        yield statistics, trial.with_block(statistics, estimator.merge(tables))
    yield statistics, merge([trial.summarize(table.slice(0, 0)), statistics])


@law
def inputs_are_not_modified(trial: Trial, *, parts: Sequence[pa.Table]) -> Equations:
    """No method modifies the batch, the weights or the statistics that it receives."""
    statistics = trial.summarize(pa.concat_tables(parts))
    rows, labels = labeled_rows(trial, pa.concat_tables(parts))
    estimator, classes = trial.bound(statistics), statistics.classes["class"].combine_chunks()
    weights = np.arange(1.0, len(labels) + 1.0)
    before = to_ipc(pa.Table.from_batches([rows.batch]))
    first, second = (estimator.summarize(rows, labels, weights) for _ in range(2))
    yield list(range(1, len(labels) + 1)), weights.tolist()
    yield before, to_ipc(pa.Table.from_batches([rows.batch]))
    summarized = to_ipc(first)
    yield summarized, to_ipc(second)
    merged = estimator.merge([first, second])
    yield summarized, to_ipc(first)
    before = to_ipc(merged)
    estimator.finalize(merged, classes)
    yield before, to_ipc(merged)


@law
def fit_is_deterministic(trial: Trial, *, parts: Sequence[pa.Table]) -> Equations:
    """The same rows give the same model to the last bit, in one thread and in two."""
    models = [trial.fit(InParts(parts), workers=workers) for workers in (1, 2)]
    yield tuple(
        f"parameters {model.id[:12]}\n{as_text(model.parameters[trial.estimator.name])}"
        for model in models
    )


@functools.partial(law, weighted=True)
def weights_count_rows(trial: Trial, *, table: pa.Table) -> Equations:
    """A weight of 2 counts a row twice, a weight of 0 leaves it out."""
    repeated = np.repeat(np.arange(table.num_rows), table[WEIGHT].to_pylist())
    rows = table.take(pa.array(repeated))
    yield trial.summarize(rows), trial.summarize(table, weighted=True)


@law
def scaling_multiplies_weights(trial: Trial, *, table: pa.Table) -> Equations:
    """Scaled statistics, if it offers them, are those of rows that weigh as much more or less."""
    statistics, place = trial.summarize(table), table.schema.get_field_index(WEIGHT)
    for factor in (0.5, 3.0):
        weighty = table.set_column(place, WEIGHT, pa.array(np.full(table.num_rows, factor)))
        expected = trial.summarize(weighty, weighted=True)
        try:
            scaled = trial.bound(statistics).scale(trial.block(statistics), factor)
        except NotSupportedError:
            return
        actual = trial.with_block(expected, scaled)
        yield expected, actual
        both = pa.concat_tables([weighty, table.cast(weighty.schema)])
        parts = merge([actual, trial.summarize(table, weighted=True)])
        yield trial.summarize(both, weighted=True), parts


@law
def row_order_does_not_matter(trial: Trial, *, table: pa.Table) -> Equations:
    """Rows in another order give the same statistics."""
    rows = np.arange(table.num_rows)
    for order in (rows[::-1], np.concatenate([rows[1::2], rows[::2]])):
        yield trial.summarize(table), trial.summarize(table.take(pa.array(order)))


@law
def batch_size_does_not_matter(trial: Trial, *, table: pa.Table) -> Equations:
    """Batches of one row or three give the same statistics and likelihoods as one batch."""
    statistics = trial.summarize(table)
    model = finalize(statistics, early=True)
    for size in (1, 3):
        batches = table.to_batches(max_chunksize=size)
        reader = pa.RecordBatchReader.from_batches(table.schema, batches)
        yield statistics, trial.summarize(reader)
        slices = [table.slice(start, size) for start in range(0, table.num_rows, size)]
        scored = [trial.log_likelihood(model, rows) for rows in slices]
        yield trial.log_likelihood(model, table), np.concatenate(scored)


@law
def types_do_not_matter(trial: Trial, *, table: pa.Table) -> None:
    """The same values in another type, or in chunks, slices and dictionaries, give the same."""
    statistics = trial.summarize(table)
    expected = trial.log_likelihood(finalize(statistics, early=True), table)
    for name, other in retyped(table, trial.inputs):
        try:
            summarized = trial.summarize(other)
            check_equal(trial, statistics, summarized, table)
            actual = trial.log_likelihood(finalize(summarized, early=True), other)
            check_equal(trial, expected, actual, table)
        except Exception as error:
            error.add_note(f"columns as {name}")
            raise


@law
def nan_is_null(trial: Trial, *, table: pa.Table) -> Equations:
    """A NaN has the same effect as a null, in training and in scoring."""
    other = nan_for_null(table, trial.inputs)
    yield trial.summarize(table), trial.summarize(other)
    model = trial.fit(table)
    yield trial.log_likelihood(model, table), trial.log_likelihood(model, other)


@law
def a_row_without_features_changes_no_parameter(trial: Trial, *, table: pa.Table) -> Equations:
    """A training row whose features are all null changes the prior, but no parameter."""
    if trial.models_nulls(trial.summarize(table)):
        return
    label = table[LABEL].drop_null()[0].as_py()
    row = pa.Table.from_pylist([{LABEL: label, WEIGHT: 1}], schema=table.schema)
    yield trial.fit(table), trial.fit(pa.concat_tables([table, row]).unify_dictionaries())


@law
def statistics_survive_storage(trial: Trial, *, parts: Sequence[pa.Table]) -> Equations:
    """Statistics read from Arrow IPC are accepted, and merge like the original ones."""
    summarized, stored = trial.summarize_each(parts), []
    for statistics in [*summarized, merge(summarized)]:
        statistics.check()
        tables = {name: from_ipc(to_ipc(table)) for name, table in statistics.tables.items()}
        for name, block in statistics.blocks.items():
            check_plain(block)
            yield to_ipc(block), to_ipc(tables[name])
        stored.append(replace(statistics, tables=tables))
    yield merge(summarized), merge(stored[:-1])


@law
def statistics_do_not_grow(trial: Trial, *, table: pa.Table) -> None:
    """The size of statistics does not grow when the same rows are added again and again."""
    statistics = merge([trial.summarize(table)] * 2)
    before = len(to_ipc(trial.block(statistics)))
    for _ in range(_DOUBLINGS):
        statistics = merge([statistics, statistics])
    after = len(to_ipc(trial.block(statistics)))
    expected = f"about {before} bytes after {2**_DOUBLINGS} times the rows"
    check(after <= 2 * before, expected, f"{after} bytes")


@law
def passes_do_not_depend_on_parts(trial: Trial, *, parts: Sequence[pa.Table]) -> Equations:
    """The number of passes and the final model do not depend on how rows are split."""
    table = pa.concat_tables(parts)
    whole, merged = trial.summarize(table), merge(trial.summarize_each(parts))
    passes = 1
    while (expected := refine(whole, passes=passes)) is not None:
        actual = refine(merged, passes=passes)
        if actual is None:
            check(False, f"another pass, with {dict(expected.blocks[0].options)}", None)
            return
        whole = summarize(table, expected)
        merged = merge([summarize(part, actual) for part in parts])
        passes += 1
    yield finalize(whole, early=True), finalize(merged, early=True)


@law
def a_database_computes_the_same_statistics(trial: Trial, *, table: pa.Table) -> Equations:
    """Statistics that an estimator lets a database compute are those of the rows, on SQLite."""
    statistics = trial.summarize(table)
    if trial.bound(statistics).aggregates() is None:
        return
    with on_sqlite(table.select([LABEL, *trial.inputs])) as connection:
        try:
            found = summarize(SqlSource(connection, "rows"), trial.spec())
        except SpecError:
            return  # SQLite has no types: a column of nulls is of another one
    yield statistics, found


@law
def evidence_is_finite(trial: Trial, *, table: pa.Table) -> None:
    """Under a proper prior, the log evidence of rows without nulls is a finite number."""
    statistics = trial.summarize(_complete_rows(trial, table))
    evidence = trial.bound(statistics).log_evidence(trial.block(statistics))
    check(isinstance(evidence, float) and np.isfinite(evidence), "a finite number", evidence)


@law
def evidence_adds_up_over_classes(trial: Trial, *, table: pa.Table) -> None:
    """Under a prior that does not depend on the rows, log evidence is a sum over classes."""
    table = _complete_rows(trial, table)
    statistics = trial.summarize(table)
    estimator = trial.bound(statistics)
    total = estimator.log_evidence(trial.block(statistics))
    by_class = [
        estimator.log_evidence(trial.block(trial.summarize(rows_of_class(table, label))))
        for label in statistics.classes["class"].to_pylist()
    ]
    good = np.isclose(total, sum(by_class), rtol=trial.tolerance, atol=trial.tolerance)
    check(bool(good), f"{sum(by_class)}, the sum of the classes' {by_class}", total)


@law
def unknown_options_are_refused(trial: Trial, *, table: pa.Table) -> None:
    """An option that the estimator does not have raises a SpecError."""
    features = trial.summarize(table).features
    try:
        trial.estimator(features, {**trial.options, "no_such_option": 1})
    except SpecError:
        return
    check(False, "SpecError for the option 'no_such_option'", "an estimator")


@law
def likelihoods_are_numbers(trial: Trial, *, table: pa.Table, rows: pa.Table) -> Equations:
    """A log-likelihood is (n, k) float64, finite or −inf, for extreme values too."""
    model = trial.fit(table)
    for scored in (table, rows, rows.slice(0, 0)):
        values = trial.likelihood(model).log_likelihood(trial.rows(scored))
        yield ((scored.num_rows, len(model.classes)), "float64"), (values.shape, str(values.dtype))
        invalid = np.isnan(values) | np.isposinf(values)
        for row in np.flatnonzero(invalid.any(axis=1))[:1]:
            features = scored.select(list(trial.inputs)).slice(int(row), 1).to_pylist()[0]
            check(False, f"numbers or −inf for the row {features}", values[row].tolist())


@law
def densities_integrate_to_1(trial: Trial, *, table: pa.Table) -> None:
    """A density that is normalized integrates to 1 in every class."""
    _check_totals(trial, table, densities)


@law
def masses_sum_to_1(trial: Trial, *, table: pa.Table) -> None:
    """A mass that is normalized sums to 1 in every class."""
    _check_totals(trial, table, masses)


@law
def a_row_without_features_has_log_likelihood_0(trial: Trial, *, table: pa.Table) -> None:
    """For a row whose features are all null, log p(x | class) is 0."""
    if trial.models_nulls(trial.summarize(table)):
        return
    values = trial.log_likelihood(trial.fit(table), _with_nulls(table, trial.columns))
    check(not values.any(), "zeros", values.tolist())


@law
def a_null_is_marginalized(trial: Trial, *, table: pa.Table, rows: pa.Table) -> Equations:
    """A row without a feature has the log-likelihood of a model without that feature."""
    model = trial.fit(table)
    if trial.models_nulls(model):
        return
    for column in trial.columns:
        smaller = trial.without(column)
        if smaller is not None:
            nulls = _with_nulls(rows, [column])
            expected = smaller.log_likelihood(smaller.fit(table), rows)
            yield expected, trial.log_likelihood(model, nulls), nulls


@law
def log_likelihoods_sum_over_features(
    trial: Trial, *, table: pa.Table, rows: pa.Table
) -> Equations:
    """The log-likelihood of a row is the sum of those of its single features."""
    model = trial.fit(table)
    likelihood, whole = trial.likelihood(model), trial.log_likelihood(model, rows)
    if isinstance(likelihood, contract.FactorizedLikelihood):
        factors = list(likelihood.log_factors(trial.rows(rows)))
        yield len(trial.columns), len(factors)
        yield np.sum(factors, axis=0), whole, rows
    if trial.models_nulls(model):
        return
    by_feature = [
        trial.log_likelihood(model, _with_nulls(rows, [c for c in trial.columns if c != column]))
        for column in trial.columns
    ]
    yield np.sum(by_feature, axis=0), whole, rows


@law
def parameters_survive_storage(trial: Trial, *, table: pa.Table, rows: pa.Table) -> Equations:
    """Parameters read from Arrow IPC are accepted, and give the same likelihoods."""
    model = trial.fit(table)
    parameters = model.parameters[trial.estimator.name]
    check_plain(parameters)
    stored = from_ipc(to_ipc(parameters))
    yield to_ipc(parameters), to_ipc(stored)
    estimator = trial.bound(model)
    estimator.check_parameters(stored, model.classes)
    likelihood = estimator.likelihood(stored, model.classes)
    for scored in (table, rows):
        actual = likelihood.log_likelihood(trial.rows(scored))
        yield trial.log_likelihood(model, scored), actual, scored


@law
def columns_follow_the_classes(trial: Trial, *, table: pa.Table, rows: pa.Table) -> Equations:
    """Classes in another order give the same parameters, and likelihoods in that order."""
    statistics = trial.summarize(table)
    model = finalize(statistics, early=True)
    parameters, order = model.parameters[trial.estimator.name], model.classes[::-1]
    estimator = trial.bound(statistics)
    yield parameters, estimator.finalize(trial.block(statistics), order)
    likelihood = estimator.likelihood(parameters, order)
    for scored in (table, rows):
        actual = likelihood.log_likelihood(trial.rows(scored))
        yield trial.log_likelihood(model, scored)[:, ::-1], actual, scored


@law
def items_sum_to_the_log_likelihood(trial: Trial, *, table: pa.Table, rows: pa.Table) -> Equations:
    """If a likelihood itemizes a row, the items sum to the row's log-likelihood."""
    model = trial.fit(table)
    likelihood = trial.likelihood(model)
    if not isinstance(likelihood, contract.ItemizedLikelihood):
        return
    for scored in (table, rows):
        for row in (scored.slice(number, 1) for number in range(scored.num_rows)):
            items = list(likelihood.itemize(trial.rows(row)).values())
            total = np.sum([np.zeros(len(model.classes)), *items], axis=0)
            yield trial.log_likelihood(model, row), total[None, :], row


@law
def leaving_out_no_weight_changes_nothing(trial: Trial, *, table: pa.Table) -> Equations:
    """If rows can be left out, likelihoods are numbers, and a row of weight 0 changes none."""
    statistics = trial.summarize(table)
    estimator = trial.bound(statistics)
    if not isinstance(estimator, contract.LeaveOneOut):
        return
    model = finalize(statistics, early=True)
    rows, labels = labeled_rows(trial, table)
    truth, likelihood = arrays.label_codes(labels, model.classes), trial.likelihood(model)
    left_out = functools.partial(
        estimator.leave_one_out, trial.block(statistics), likelihood, model.classes, rows, truth
    )
    yield likelihood.log_likelihood(rows), left_out(np.zeros(len(truth)))
    actual = left_out(None)
    check(not (np.isnan(actual) | np.isposinf(actual)).any(), "numbers or −inf", actual)


@law
def marginals_are_those_of_the_log_likelihood(
    trial: Trial, *, table: pa.Table, rows: pa.Table
) -> Equations:
    """If a likelihood describes a column, it is that of rows whose other columns are null."""
    model = trial.fit(table)
    likelihood = trial.likelihood(model)
    if not isinstance(likelihood, contract.MarginalLikelihood) or trial.models_nulls(model):
        return
    for column in trial.columns:
        own = likelihood.marginal(column)
        alone = _with_nulls(rows, [name for name in trial.inputs if name != column])
        alone = alone.filter(alone[column].is_valid())
        if isinstance(own, Curve):
            actual = own.log_density(arrays.numeric_values(alone[column].combine_chunks(), column))
        elif own is not None and own.of == "value":
            level = _levels_of_rows(own, alone[column].combine_chunks(), column)
            alone, level = (
                alone.filter(pa.array(level != arrays.MISSING)),
                level[level != arrays.MISSING],
            )
            with np.errstate(divide="ignore"):
                actual = np.log(own.probability[level])
        else:
            continue
        yield trial.log_likelihood(model, alone), actual, alone


@law
def sql_says_what_the_log_likelihood_says(
    trial: Trial, *, table: pa.Table, rows: pa.Table
) -> Equations:
    """A likelihood with a formula has the same values as SQL, on SQLite.

    Below −1e304 they count as −∞: where float64 ends depends on the order of a product.
    """
    model = trial.fit(table)
    known = [name for name in trial.inputs if name in model.features.names]
    if not known or not isinstance(trial.likelihood(model), contract.FormulaLikelihood):
        return  # if training had no value, there is nothing to write
    try:
        query = joint_sql(model, dialect="sqlite", source="rows")
    except NotSupportedError:
        return  # these parameters have no formula, for a reason
    found = run_on_sqlite(rows.select(known), query)
    refused = found[:, -1] == 1.0
    expected = trial.log_likelihood(model, rows)
    actual = np.where(refused[:, None], expected, found[:, :-1] - model.log_prior)
    yield *(np.where(one < -_MOST_DROP, -np.inf, one) for one in (expected, actual)), rows


def laws_of(kind: Any) -> list[Law]:
    """The laws that apply to an estimator, or to its conditional, by what its class declares."""
    exempt = set()
    if not kind.proper:
        exempt |= {densities_integrate_to_1, masses_sum_to_1}
    if kind.state_grows:
        exempt.add(statistics_do_not_grow)
    if not kind.factorizes:
        exempt |= {log_likelihoods_sum_over_features, a_null_is_marginalized}
    if kind.passes == 1:
        exempt.add(passes_do_not_depend_on_parts)
    if not kind.has_evidence():
        exempt |= {evidence_is_finite, evidence_adds_up_over_classes}
    return [law for law in LAWS if law not in exempt]


def _check_totals(
    trial: Trial, table: pa.Table, totals: Callable[[Trial, Model, pa.Table], Iterable[Total]]
) -> None:
    """Check that total probabilities are 1, up to `_TOTAL_TOLERANCE` and the estimated error."""
    model = trial.fit(table)
    if not trial.likelihood(model).normalized:
        return
    for total in totals(trial, model, table):
        slack = _TOTAL_TOLERANCE + total.error
        wrong = (total.least > 1.0 + slack) | (total.most < 1.0 - slack)
        for row in np.flatnonzero(wrong)[:1]:
            amount = total.least[row] if total.least[row] > 1.0 else total.most[row]
            place = f"class {model.classes[int(row)].as_py()!r} over {total.of}"
            error = f" ± {total.error[row]:.2g}" if total.error[row] else ""
            check(False, f"a total probability of 1 of {place}", f"{amount:.6g}{error}")


def _complete_rows(trial: Trial, table: pa.Table) -> pa.Table:
    """The rows that have a label and all features; every class has some."""
    return table.filter(
        functools.reduce(pc.and_, (table[name].is_valid() for name in (LABEL, *trial.inputs)))
    )


def _with_nulls(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows with nulls in these columns."""
    for name in columns:
        position, kind = rows.schema.get_field_index(name), rows.schema.field(name).type
        rows = rows.set_column(position, name, pa.nulls(rows.num_rows, kind))
    return rows


def _levels_of_rows(levels: Levels, column: pa.Array, name: str) -> IntArray:
    """Position of the value of each row among the levels, ``(n,)``; `MISSING` for another value."""
    if levels.cuts is not None:
        return np.searchsorted(levels.cuts, arrays.numeric_values(column, name), "right")
    return arrays.label_codes(
        pa.array(arrays.category_values(column)), pa.array(levels.names, pa.string())
    )


LAWS: Sequence[Law] = [
    each
    for each in list(globals().values())
    if hasattr(each, "__wrapped__") and each.__module__ == __name__
]
"""All laws, in the order in which they are defined and tried."""

LAWS_OF_EVIDENCE = (evidence_is_finite, evidence_adds_up_over_classes)
"""Laws that are tried under a declared prior."""
