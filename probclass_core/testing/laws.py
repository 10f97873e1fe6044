"""The laws that an estimator keeps, each a plain function that raises an AssertionError.

Of a `Trial` and, by keyword, what else the law needs: ``table``, rows with labels and weights that
carry a model; ``parts``, such a table cut up, some parts empty; ``rows`` to score, far out ones
too. Those of training stand here, those of scoring in `scoring_laws`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.bundle import from_ipc, to_ipc
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation.statistics import merge, refine
from probclass_core.model.model import Model, finalize
from probclass_core.pipeline import summarize
from probclass_core.plugins.descriptors import EstimatorPlugin
from probclass_core.spec import ModelSpec
from probclass_core.testing import scoring_laws
from probclass_core.testing.comparison import (
    as_text,
    check,
    check_plain,
    raised,
    same_likelihoods,
    same_models,
    same_statistics,
)
from probclass_core.testing.law import Law, law
from probclass_core.testing.retyped import nan_for_null, retyped
from probclass_core.testing.trial import (
    LABEL,
    WEIGHT,
    InParts,
    Trial,
    labeled_batch,
    rows_of_class,
)

_COPIES = 6
"""Doublings of a table after which its statistics must not have grown."""


@law
def summarizing_the_whole_is_merging_its_parts(trial: Trial, *, parts: Sequence[pa.Table]) -> None:
    """summarize(a ++ b) says the same as merge([summarize(a), summarize(b)])."""
    table = pa.concat_tables(parts)
    merged = merge([trial.summarize(part) for part in parts])
    same_statistics(trial, trial.summarize(table), merged, table)


@law
def merging_is_associative(trial: Trial, *, parts: Sequence[pa.Table]) -> None:
    """However parts are grouped, their merge says the same."""
    table = pa.concat_tables(parts)
    summarized = [trial.summarize(part) for part in parts]
    at_once = merge(summarized)
    for place in range(1, len(parts)):
        grouped = merge([merge(summarized[:place]), merge(summarized[place:])])
        same_statistics(trial, at_once, grouped, table)


@law
def merging_is_commutative(trial: Trial, *, parts: Sequence[pa.Table]) -> None:
    """In whatever order parts come, their merge says the same."""
    table = pa.concat_tables(parts)
    summarized = [trial.summarize(part) for part in parts]
    for order in (summarized[::-1], [*summarized[1:], summarized[0]]):
        same_statistics(trial, merge(summarized), merge(order), table)


@law
def nothing_is_the_identity_of_merging(trial: Trial, *, table: pa.Table) -> None:
    """Statistics merged alone, or with those of no rows, say the same as before."""
    some = trial.summarize(table)
    block, estimator = trial.block(some), trial.estimator(some)
    nothing = block.slice(0, 0)
    for tables in ([block], [block, nothing], [nothing, block], [nothing, block, nothing]):
        merged = trial.with_block(some, estimator.merge(tables))
        same_statistics(trial, some, merged, table)
    same_statistics(trial, some, merge([trial.summarize(table.slice(0, 0)), some]), table)


@law
def inputs_stay_as_they_are(trial: Trial, *, parts: Sequence[pa.Table]) -> None:
    """No verb changes a batch, weights or statistics that it was given."""
    table = pa.concat_tables(parts)
    batch, labels = labeled_batch(trial, table)
    estimator = trial.estimator(trial.summarize(table))
    weights = np.arange(1.0, len(labels) + 1.0)
    before = to_ipc(pa.Table.from_batches([batch]))
    one, other = (estimator.summarize(batch, labels, weights) for _ in range(2))
    check(
        weights.tolist() == list(range(1, len(labels) + 1)),
        "weights as they were",
        weights.tolist(),
    )
    check(to_ipc(pa.Table.from_batches([batch])) == before, "the batch as it was", "another")
    statistics = to_ipc(one)
    merged = estimator.merge([one, other])
    whole = to_ipc(merged)
    classes = trial.summarize(table).classes["class"].combine_chunks()
    estimator.finalize(merged, classes)
    check(to_ipc(one) == statistics, "statistics as merge found them", one.to_pylist())
    check(to_ipc(merged) == whole, "statistics as finalize found them", merged.to_pylist())


@law
def finalizing_twice_is_finalizing_once(trial: Trial, *, table: pa.Table) -> None:
    """finalize depends on statistics and classes alone, to the last bit."""
    statistics = trial.summarize(table)
    once, again = (finalize(statistics, early=True) for _ in range(2))
    same_models(trial, once, again, table)
    check(once.id == again.id, f"parameters {_parameters(trial, once)}", _parameters(trial, again))


@law
def fitting_twice_is_fitting_once(trial: Trial, *, table: pa.Table) -> None:
    """The same rows give the same parameters, to the last bit."""
    once, again = trial.fit(table), trial.fit(table)
    check(once.id == again.id, f"parameters {_parameters(trial, once)}", _parameters(trial, again))


@law
def workers_do_not_matter(trial: Trial, *, parts: Sequence[pa.Table]) -> None:
    """One thread and two fit the same model, to the last bit."""
    alone, together = (trial.fit(InParts(parts), workers=workers) for workers in (1, 2))
    check(
        alone.id == together.id,
        f"parameters {_parameters(trial, alone)}",
        _parameters(trial, together),
    )


@law
def weights_count_rows(trial: Trial, *, table: pa.Table) -> None:
    """A weight of 2 is the row standing twice, a weight of 0 its absence."""
    weights = table[WEIGHT].to_pylist()
    repeated = np.repeat(np.arange(table.num_rows), weights)
    written_out = trial.summarize(table.take(pa.array(repeated)))
    same_statistics(trial, written_out, trial.summarize(table, weighted=True), table)


@law
def row_order_does_not_matter(trial: Trial, *, table: pa.Table) -> None:
    """Rows in another order give the same statistics."""
    places = np.arange(table.num_rows)
    for order in (places[::-1], np.concatenate([places[1::2], places[::2]])):
        turned = trial.summarize(table.take(pa.array(order)))
        same_statistics(trial, trial.summarize(table), turned, table)


@law
def batch_size_does_not_matter(trial: Trial, *, table: pa.Table) -> None:
    """Batches of one row, or of three, give the statistics of one batch, and its likelihoods."""
    whole = trial.summarize(table)
    model = finalize(whole, early=True)
    expected = trial.log_likelihood(model, table)
    for size in (1, 3):
        batches = table.to_batches(max_chunksize=size)
        reader = pa.RecordBatchReader.from_batches(table.schema, batches)
        same_statistics(trial, whole, trial.summarize(reader), table)
        pieces = [table.slice(start, size) for start in range(0, table.num_rows, size)]
        scored = np.concatenate([trial.log_likelihood(model, piece) for piece in pieces])
        same_likelihoods(trial, expected, scored, table)


@law
def types_do_not_matter(trial: Trial, *, table: pa.Table) -> None:
    """The same values of another type, or in chunks, slices and dictionaries, say the same."""
    statistics = trial.summarize(table)
    expected = trial.log_likelihood(finalize(statistics, early=True), table)
    for name, other in retyped(table, trial.columns):
        try:
            summarized = trial.summarize(other)
            same_statistics(trial, statistics, summarized, table)
            came = trial.log_likelihood(finalize(summarized, early=True), other)
            same_likelihoods(trial, expected, came, table)
        except Exception as error:
            told = str(error) if isinstance(error, AssertionError) else raised(error)
            raise AssertionError(f"columns as {name}\n{told}") from error


@law
def nan_is_null(trial: Trial, *, table: pa.Table) -> None:
    """A NaN says in training and in scoring what a null says."""
    other = nan_for_null(table, trial.columns)
    same_statistics(trial, trial.summarize(table), trial.summarize(other), table)
    model = trial.fit(table)
    expected, came = (trial.log_likelihood(model, rows) for rows in (table, other))
    same_likelihoods(trial, expected, came, table)


@law
def a_row_without_features_teaches_nothing(trial: Trial, *, table: pa.Table) -> None:
    """A row of nulls changes the prior and no parameter."""
    row = pa.Table.from_pylist(
        [{LABEL: table[LABEL].drop_null()[0].as_py(), WEIGHT: 1}], schema=table.schema
    )
    more = pa.concat_tables([table, row]).unify_dictionaries()
    same_models(trial, trial.fit(table), trial.fit(more), table)


@law
def statistics_survive_storage(trial: Trial, *, parts: Sequence[pa.Table]) -> None:
    """Statistics read back from Arrow IPC, their metadata included, merge as before."""
    table = pa.concat_tables(parts)
    summarized = [trial.summarize(part) for part in parts]
    stored = []
    for one in summarized:
        for block in one.blocks.values():
            check_plain(block)
            same = to_ipc(from_ipc(to_ipc(block))) == to_ipc(block)
            check(same, "the table that was stored", "another")
        read = {name: from_ipc(to_ipc(block)) for name, block in one.blocks.items()}
        stored.append(trial.with_block(one, read[trial.plugin.name]) if read else one)
    same_statistics(trial, merge(summarized), merge(stored), table)


@law
def statistics_do_not_grow(trial: Trial, *, table: pa.Table) -> None:
    """Statistics of the same rows over and over take no more memory than those of a few."""
    statistics = merge([trial.summarize(table)] * 2)
    few = len(to_ipc(trial.block(statistics)))
    for _ in range(_COPIES):
        statistics = merge([statistics, statistics])
    many = len(to_ipc(trial.block(statistics)))
    check(many <= 2 * few, f"about {few} bytes after {2**_COPIES} times the rows", f"{many} bytes")


@law
def passes_do_not_depend_on_parts(trial: Trial, *, parts: Sequence[pa.Table]) -> None:
    """However rows are split, the same passes follow, and they end at the same model."""
    table = pa.concat_tables(parts)
    whole, merged = trial.summarize(table), merge([trial.summarize(part) for part in parts])
    passes = 1
    while (refined := refine(whole, passes=passes)) is not None:
        again = refine(merged, passes=passes)
        if again is None:
            raise AssertionError(f"expected: another pass, of {_options(refined)}\n    came: none")
        whole = summarize(table, refined)
        merged = merge([summarize(part, again) for part in parts])
        passes += 1
    one, other = (finalize(statistics, early=True) for statistics in (whole, merged))
    same_models(trial, one, other, table)


@law
def evidence_is_finite(trial: Trial, *, table: pa.Table) -> None:
    """Under a proper prior, the log evidence of rows without nulls is a finite number."""
    statistics = trial.summarize(_complete(trial, table))
    evidence = trial.estimator(statistics).log_evidence(trial.block(statistics))
    check(isinstance(evidence, float) and np.isfinite(evidence), "a finite number", evidence)


@law
def evidence_is_refused_where_none_is_offered(trial: Trial, *, table: pa.Table) -> None:
    """Without the trait has_evidence, log_evidence raises NotSupportedError."""
    statistics = trial.summarize(table)
    estimator, block = trial.estimator(statistics), trial.block(statistics)
    try:
        evidence = estimator.log_evidence(block)
    except NotSupportedError:
        return
    check(False, "NotSupportedError", evidence)


@law
def evidence_adds_up_over_classes(trial: Trial, *, table: pa.Table) -> None:
    """Under a prior declared beforehand, the log evidence is the sum over the classes."""
    table = _complete(trial, table)
    statistics = trial.summarize(table)
    estimator = trial.estimator(statistics)
    whole = estimator.log_evidence(trial.block(statistics))
    alone = [
        estimator.log_evidence(trial.block(trial.summarize(rows_of_class(table, label))))
        for label in statistics.classes["class"].to_pylist()
    ]
    good = np.isclose(whole, sum(alone), rtol=trial.tolerance, atol=trial.tolerance)
    check(bool(good), f"{sum(alone)}, of the classes {alone}", whole)


@law
def unknown_options_are_refused(trial: Trial, *, table: pa.Table) -> None:
    """An option that the estimator does not have is a SpecError, not passed over."""
    features = trial.summarize(table).features
    try:
        trial.plugin.factory(features, {**trial.options, "no_such_option": 1})
    except SpecError:
        return
    check(False, "SpecError for the option 'no_such_option'", "an estimator")


def laws_of(plugin: EstimatorPlugin) -> list[Law]:
    """The laws that bind an estimator of such traits."""
    traits = plugin.traits
    excused = set()
    if traits.state_grows:
        excused.add(statistics_do_not_grow)
    if not traits.factorizes:
        excused |= {
            scoring_laws.log_likelihoods_sum_over_features,
            scoring_laws.a_null_is_marginalized,
        }
    if traits.passes == 1:
        excused.add(passes_do_not_depend_on_parts)
    if traits.has_evidence:
        excused.add(evidence_is_refused_where_none_is_offered)
    else:
        excused |= {evidence_is_finite, evidence_adds_up_over_classes}
    return [one for one in LAWS if one not in excused]


def _complete(trial: Trial, table: pa.Table) -> pa.Table:
    """The rows that have a label and every feature; there are such of every class."""
    return table.filter(
        functools.reduce(pc.and_, (table[name].is_valid() for name in (LABEL, *trial.columns)))
    )


def _parameters(trial: Trial, model: Model) -> str:
    return f"{model.id[:12]}\n{as_text(model.parameters[trial.plugin.name])}"


def _options(spec: ModelSpec) -> dict[str, Any]:
    return dict(spec.blocks[0].options)


LAWS: Sequence[Law] = (
    summarizing_the_whole_is_merging_its_parts,
    merging_is_associative,
    merging_is_commutative,
    nothing_is_the_identity_of_merging,
    inputs_stay_as_they_are,
    finalizing_twice_is_finalizing_once,
    fitting_twice_is_fitting_once,
    workers_do_not_matter,
    weights_count_rows,
    row_order_does_not_matter,
    batch_size_does_not_matter,
    types_do_not_matter,
    nan_is_null,
    a_row_without_features_teaches_nothing,
    statistics_survive_storage,
    statistics_do_not_grow,
    passes_do_not_depend_on_parts,
    evidence_is_finite,
    evidence_is_refused_where_none_is_offered,
    evidence_adds_up_over_classes,
    unknown_options_are_refused,
    *scoring_laws.LAWS,
)
"""All of them, those of training first."""

LAWS_OF_EVIDENCE = (evidence_is_finite, evidence_adds_up_over_classes)
"""Those that hold under a prior that is declared."""
