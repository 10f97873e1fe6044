"""Why a row has the class it has, and why it is unusual: ledgers of evidence and of surprise.

A posterior is a product, so the log odds of two classes are a sum, entry by entry::

    log P(c|x)/P(r|x) = log P(c)/P(r) + Σ_j log p(x_j|c)/p(x_j|r)

A term of the sum is the weight of evidence of x_j for c against r (Good, *Probability and the
Weighing of Evidence*, 1950). It is exact: nothing is sampled or approximated. In a model
with block weights, the logs of a block are multiplied by its weight, and classes have a bias.

The surprise of a row, −log p(x), is a sum over columns, see `model.contributions`. What is usual
for a column is the mean of its surprise under the model: the entropy of its density in the class,
without the columns that it is given. Entropies of densities differ by units, so a surprise alone
says little; the excess over the usual does not depend on them. A row of a likely value has a
negative excess, and one of a value that is e⁴ = 55 times less probable than usual one of 4 nats.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.distributions.grid import Grid
from probclass_core.analysis.distributions.reading import block_marginal, training_ends
from probclass_core.arguments import checked_number, checks_arguments
from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.attached import ExplanationMethods
from probclass_core.display import Part, Report, TablePart, counted, json_values
from probclass_core.errors import DataError, SpecError, check_known, shown
from probclass_core.estimation.contract import ItemizedLikelihood
from probclass_core.estimation.families.knn.density import KnnDensityLikelihood
from probclass_core.estimation.marginals import Levels
from probclass_core.io.filters import Where
from probclass_core.io.selection import Selection
from probclass_core.io.table import Plan
from probclass_core.model.block_weights import BlockValues, CompiledBlock
from probclass_core.model.contributions import ROUNDING, Contributions
from probclass_core.model.model import Model, ModelOption, as_model
from probclass_core.spec.model_spec import category_text

MAX_ROWS = 1_000
"""Explanations are for reading; more rows than this are refused."""

_MOST_REASONS = 3
"""Columns that are named as reasons why a row is unusual."""

_LEDGER = pa.schema(
    [
        ("row", pa.int64()),
        ("entry", pa.string()),
        ("item", pa.string()),
        ("value", pa.string()),
        ("weight", pa.float64()),
        ("total", pa.float64()),
    ]
)

_SURPRISE = pa.schema(
    [
        ("row", pa.int64()),
        ("item", pa.string()),
        ("value", pa.string()),
        ("surprise", pa.float64()),
        ("usual", pa.float64()),
        ("excess", pa.float64()),
    ]
)

_UNUSUAL = 4.0
"""Excess in nats from which on a column is a reason why a row is unusual."""


@dataclass(frozen=True, repr=False)
class Explanation(Report, ExplanationMethods):
    """The ledgers of some rows: the evidence for the prediction and against its rival, in nats.

    Attributes:
        rows: one line per row: row, prediction, against (the rival), probability and
            probability_against (their posteriors), log_odds (of prediction against rival).
        table: the entries of each row: the prior first, then by decreasing size of weight:

            - row: number of the row in the source, from 0.
            - entry: ``prior``; ``feature``, one column; ``columns``, columns that contribute
              together; ``item``, a word of a text; ``bias``, what a model with block weights adds
              to each class; ``rest``, the sum of the entries beyond the limit; ``calibration``, the
              difference that a calibrated model adds.
            - item: the column, columns or word.
            - value: its text; of a word the column that it is in.
            - weight: log p(x_j | c) − log p(x_j | r), times the weights of the blocks; ±inf if x_j
              is impossible in one of the classes, null if in both. For a calibration, the change of
              the log odds; null if they were infinite before it.
            - total: running sum of the weights; null once both classes are impossible.
        surprise: what each column adds to −log p(x) of each row, those with the largest excess
            first: row; item (the column; a block that can only be taken as a whole; or ``class``,
            what the class adds); value; surprise; usual, the mean of the surprise of the column
            under the model; excess, the difference, null where the usual is unknown. Each column
            of neighbors that a null is the mean of has a line with an excess alone: by how much
            the surprise would fall with the mean. It has no rows if log p(x) is not a density.
        model_id: content id of the model.
    """

    rows: pa.Table
    table: pa.Table
    surprise: pa.Table
    model_id: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the rows, each with its ledger; an infinite number is null."""
        rows = {row["row"]: {**row, "ledger": [], "surprise": []} for row in json_values(self.rows)}
        for name, table in (("ledger", self.table), ("surprise", self.surprise)):
            for entry in json_values(table):
                rows[entry.pop("row")][name].append(entry)
        return {"model_id": self.model_id, "rows": list(rows.values())}

    def _report(self) -> list[Part]:
        """The ledger of each row, and why it is unusual."""
        parts: list[Part] = []
        for row in self.rows.to_pylist():
            number, says_class = f"row {row['row']}", "prediction" in row
            if says_class:
                parts += self._ledger(row, number)
            if reasons := self._reasons(row["row"]):
                start = "unusual" if says_class else f"{number} is unusual"
                parts.append(f"{start} because of {reasons}.")
            elif not says_class:
                parts.append(f"no column makes {number} unusual by itself.")
        return parts

    def _ledger(self, row: Mapping[str, Any], number: str) -> list[Part]:
        entries = self.table.filter(pc.field("row") == row["row"]).to_pylist()
        columns: dict[str, list[Any]] = {
            "entry": [_label(entry) for entry in entries],
            "value": [_value(entry) for entry in entries],
            "nats": [_rounded(entry["weight"]) for entry in entries],
            "total": [_rounded(entry["total"]) for entry in entries],
        }
        name, rival = category_text(row["prediction"]), category_text(row["against"])
        title = f"{number}: {name} rather than {rival}"
        log_odds = "unknown" if row["log_odds"] is None else f"{row['log_odds']:+.2f}"
        shown = TablePart(columns, title, most=len(entries), bars="nats")
        posterior = (
            f"posterior: {name} {row['probability']:.4g}, {rival} "
            f"{row['probability_against']:.4g}; log odds {log_odds}. Bars to the right are for "
            f"{name}, bars to the left against it."
        )
        return [shown, posterior]

    def _reasons(self, row: int) -> str:
        """The columns that make a row unusual, as text."""
        lines = self.surprise.filter((pc.field("row") == row) & (pc.field("excess") >= _UNUSUAL))
        return ", ".join(
            f"{line['item']}={'missing' if line['value'] is None else line['value']} "
            f"({line['excess']:+.1f} nats)"
            for line in lines.slice(0, _MOST_REASONS).to_pylist()
        )


@checks_arguments
def explain(
    model: ModelOption,
    source: Any,
    *,
    rows: int | Sequence[int] | None = None,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    against: object = None,
    limit: int | None = 10,
) -> Explanation:
    """Explain predictions: the evidence for the most probable class of each row against its rival.

    Args:
        model: fitted model, or a `ProbClassifier`.
        source: as for `fit`; at most 1,000 of its rows can be explained.
        rows: number of the row to explain, or several, from 0, after partition and filter; None
            for all.
        partition: partition to read, or None for all.
        where: row filter, or None for all rows.
        against: the rival class; by default, and if it is the prediction itself, the class with the
            second largest posterior.
        limit: number of entries to list per row, the largest ones; the others are added up in one
            entry. None lists all.

    Raises:
        SpecError: if a class is unknown, a limit or row number is invalid, or `against` is
            given and the model has no label.
        DataError: if there are too many rows, a row does not exist, or the features do not fit the
            model.
        TableError: if the table or partition does not exist or cannot be read.
    """
    model = as_model(model)
    if limit is not None:
        checked_number("limit", limit, 1)
    rival, names = None if against is None else category_text(against), model.class_names
    if rival is not None:
        model.spec.label_for("against")
        check_known([rival], names, "the model has no class")
    plan = Selection.plan_alone(source, partition, where, (), model.spec.features)
    batch, numbers = _read_rows(plan, None if rows is None else _checked_rows(rows))
    features = Rows(model.rows(batch).batch, keeps=True)
    posterior, cells = model.posterior(features), _texts(features.batch)
    surprise = _surprise_table(model, features, numbers, cells)
    summary = {"row": pa.array(numbers, pa.int64())}
    ledgers: list[dict[str, Any]] = []
    if len(model.classes) > 1:
        best = posterior.most_probable
        second = posterior.runner_up(best)
        if rival is not None:
            chosen = names.index(rival)
            second = np.where(best == chosen, second, chosen)
        log_odds = posterior.log_odds(best, second)
        weights = weights_of_evidence(model, features, best, second)
        first = {"prior": model.log_prior[best] - model.log_prior[second]}
        if model.weights is not None:
            first["bias"] = model.weights.bias[best] - model.weights.bias[second]
        for at, number in enumerate(numbers):
            lines = [{"entry": entry, "weight": of[at].item()} for entry, of in first.items()]
            lines += _entries(weights[at], cells[at], limit)
            totals = list(accumulate(line["weight"] for line in lines))
            if model.calibration is not None:
                # The change from infinite log odds is undefined.
                finite = math.isfinite(totals[-1])
                change = log_odds[at] - totals[-1] if finite else math.nan
                lines.append({"entry": "calibration", "weight": change})
                totals.append(log_odds[at])
            for line, total in zip(lines, totals, strict=True):
                ledgers.append({"row": number, **line, "total": total})
        both = np.stack([best, second], axis=1)
        of_both = np.take_along_axis(posterior.probability, both, axis=1)
        summary |= {
            "prediction": model.classes.take(pa.array(best)),
            "against": model.classes.take(pa.array(second)),
            "probability": of_both[:, 0],
            "probability_against": of_both[:, 1],
            "log_odds": log_odds,
        }
    ledger = _without_nan(pa.Table.from_pylist(ledgers, schema=_LEDGER), "weight", "total")
    surprise = _without_nan(surprise, "surprise", "usual", "excess")
    return Explanation(pa.table(summary), ledger, surprise, model.id)


def _without_nan(table: pa.Table, *names: str) -> pa.Table:
    """A table whose columns have nulls instead of NaN."""
    for name in names:
        known = pc.if_else(pc.is_nan(table[name]), None, table[name])
        table = table.set_column(table.column_names.index(name), name, known)
    return table


def _label(entry: Mapping[str, Any]) -> str:
    """The name of an entry."""
    if entry["entry"] == "columns":
        return "columns together"
    return str(entry["value"] if entry["entry"] == "rest" else entry["item"] or entry["entry"])


def _value(entry: Mapping[str, Any]) -> str:
    """The value of an entry as text."""
    if entry["value"] is None:
        return "missing" if entry["item"] else ""
    return "" if entry["entry"] == "rest" else str(entry["value"])


def _rounded(weight: float | None) -> float | None:
    """A weight without the rounding of float64."""
    return None if weight is None else round(weight, 6) + 0.0


@dataclass(frozen=True)
class Item:
    """What a weight of evidence is of: columns, or a term such as a word in one of them.

    Attributes:
        columns: the columns.
        term: the term, or None for the columns themselves.
    """

    columns: tuple[str, ...]
    term: str | None = None

    @property
    def name(self) -> str:
        """The term, or else the columns."""
        return ", ".join(self.columns) if self.term is None else self.term

    def entry(self, cells: Mapping[str, str | None]) -> dict[str, Any]:
        """The entry, item and value, from the cells of the row as text."""
        kind, value = "feature", cells.get(self.name)
        if self.term is not None:
            kind, value = "item", f"in {self.columns[0]}"
        elif len(self.columns) > 1:
            known = [f"{name}={cells[name]}" for name in self.columns if cells[name] is not None]
            kind, value = "columns", ", ".join(known) or None
        return {"entry": kind, "item": self.name, "value": value}


def _entries(
    weights: Mapping[Item, float], cells: Mapping[str, str | None], limit: int | None
) -> Iterator[dict[str, Any]]:
    """The entries of the items of one row, the largest first; beyond the limit, their sum."""
    sizes = {item: math.inf if math.isnan(of) else abs(of) for item, of in weights.items()}
    ordered = sorted(weights, key=lambda item: -sizes[item])
    shown = ordered if limit is None else ordered[:limit]
    for item in shown:
        yield {**item.entry(cells), "weight": weights[item]}
    if rest := ordered[len(shown) :]:
        what = "column" if all(item.term is None for item in weights) else "item"
        value = counted(len(rest), f"other {what}")
        yield {"entry": "rest", "value": value, "weight": sum(weights[item] for item in rest)}


def weights_of_evidence(
    model: Model, rows: Rows, best: IntArray, second: IntArray
) -> list[dict[Item, float]]:
    """The weight of evidence of each item in each row, in nats; NaN if both are impossible."""

    def difference(values: BlockValues) -> FloatArray:
        return values.of(best) - values.of(second)

    weights: list[dict[Item, float]] = [defaultdict(float) for _ in best]
    terms = Contributions(model).log_odds_terms
    with np.errstate(invalid="ignore"):
        for name, block, part in terms.parts(rows, difference):
            item = Item((name,) if block is None else block.block.columns)
            for row, weight in enumerate(part.tolist()):
                if block is not None and isinstance(block.likelihood, ItemizedLikelihood):
                    logs = block.likelihood.itemize(rows.slice(row, row + 1))
                    items = {of: log[best[row]] - log[second[row]] for of, log in logs.items()}
                    for of_block, of_item in _by_item(block, items, weight).items():
                        weights[row][of_block] += of_item
                elif weight or block not in terms.divided:
                    weights[row][item] += weight
    return weights


def _by_item(
    one: CompiledBlock, of_items: Mapping[str, float], whole: float
) -> Mapping[Item, float]:
    """The weights of the items of a block in one row, or the block's where the limit applies.

    Args:
        one: the block.
        of_items: differences of the logs of its items.
        whole: weight of the block.
    """
    columns = one.block.columns
    weights = {}
    for name, difference in of_items.items():
        is_column = len(columns) > 1 and name in columns
        item = Item((name,)) if is_column else Item(columns, name)
        if difference != 0.0:
            weights[item] = float(difference) * (1.0 if one.factor is None else one.factor)
    rest = whole - sum(weights.values())
    adds_up = one.factor is None or abs(rest) <= ROUNDING * max(1.0, abs(whole))
    return weights if weights and adds_up else {Item(columns): whole}


def _texts(batch: pa.RecordBatch) -> list[dict[str, str | None]]:
    """The values of a batch as text, by row and column."""
    values = [[_value_text(value) for value in column.to_pylist()] for column in batch.columns]
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _read_rows(plan: Plan, rows: Sequence[int] | None) -> tuple[pa.RecordBatch, Sequence[int]]:
    """The rows to explain as one batch, and their numbers; reading stops after the last one."""
    batches, seen = [], 0
    for batch in plan.batches():
        if rows is not None:
            places = [row - seen for row in rows if seen <= row < seen + batch.num_rows]
            batches.append(batch.take(pa.array(places, pa.int64())))
        else:
            batches.append(batch)
        seen += batch.num_rows
        if seen > (MAX_ROWS if rows is None else rows[-1]):
            break
    if rows is None and seen > MAX_ROWS:
        raise DataError(
            f"an explanation covers at most {MAX_ROWS:,} rows, and there are more; "
            "choose some with rows (--row) or where."
        )
    if rows is not None and rows[-1] >= seen:
        raise DataError(f"there is no row {rows[-1]}: there are {seen:,}, counted from 0.")
    table = pa.Table.from_batches(batches, plan.schema).combine_chunks()
    combined = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=plan.schema)]
    return combined[0], range(seen) if rows is None else rows


def _checked_rows(rows: int | Sequence[int]) -> list[int]:
    """Row numbers, ascending."""
    rows = [rows] if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool) else rows
    listed = list(rows) if isinstance(rows, Iterable) else []
    checked = sorted({row for row in listed if isinstance(row, (int, np.integer)) and row >= 0})
    if len(checked) < len(listed) or not checked:
        raise SpecError(f"rows must be different numbers, counted from 0, got {shown(rows)}.")
    if len(checked) > MAX_ROWS:
        raise SpecError(f"an explanation covers at most {MAX_ROWS:,} rows, got {len(checked):,}.")
    return [int(row) for row in checked]


def _value_text(value: Any) -> str | None:
    """A cell as text, floats rounded for reading; None if it is missing."""
    if isinstance(value, float):
        digits = ".7g" if abs(value) < 1e5 else ".12g"
        return None if math.isnan(value) else format(value, digits)
    return None if value is None else category_text(value)


def _surprise_table(
    model: Model, rows: Rows, numbers: Sequence[int], cells: Sequence[Mapping[str, str | None]]
) -> pa.Table:
    """`Explanation.surprise` of some rows, NaN where the model does not say.

    Args:
        model: the model.
        rows: ``n`` rows that keep results.
        numbers: number of each row.
        cells: the value of each feature as text, by row.
    """
    contributions = Contributions(model)
    if not contributions.surprise_names:
        return _SURPRISE.empty_table()
    best = contributions.best_class(rows)
    columns, excess = [], dict(_excess_over_means(model, rows, best))
    for item, surprise in contributions.surprise(rows).items():
        usual = _usual_surprise(model, item)[best]
        columns.append((item, surprise, usual, excess.pop(item, surprise - usual)))
    unknown = np.full(len(numbers), np.nan)
    columns += [(item, unknown, unknown, of_item) for item, of_item in excess.items()]
    lines = []
    for at, number in enumerate(numbers):
        found = [
            (number, item, cells[at].get(item), *(values[at] for values in of_item))
            for item, *of_item in columns
        ]
        # An infinite excess first, an unknown one last.
        found.sort(key=lambda line: np.nan_to_num(-line[-1], nan=np.inf))
        lines += [dict(zip(_SURPRISE.names, line, strict=True)) for line in found]
    return pa.Table.from_pylist(lines, _SURPRISE)


def _excess_over_means(
    model: Model, rows: Rows, best: IntArray
) -> Iterator[tuple[str, FloatArray]]:
    """By how much the surprise of rows would fall if a column of neighbors had its mean.

    Args:
        model: the model.
        rows: ``n`` rows that keep results.
        best: position of a class for each row, ``(n,)``.

    Yields:
        Column, nats ``(n,)``.
    """
    of_best = np.arange(len(best)), best
    for one in model.compiled_blocks:
        likelihood = one.likelihood
        replaces = isinstance(likelihood, KnnDensityLikelihood) and likelihood.center is not None
        if one.in_density and replaces:
            of_rows = likelihood.log_likelihood(rows)
            for column in one.block.columns:
                with_mean = likelihood.log_likelihood(rows.without([column]))
                yield column, (with_mean - of_rows)[of_best]


def _usual_surprise(model: Model, column: str) -> FloatArray:
    """Mean of −log p(column | c) under each class, ``(k,)``; NaN if the model does not say."""
    blocks = [one.block for one in model.compiled_blocks if one.in_density]
    block = next((one for one in blocks if column in one.columns), None)
    own = None if block is None else block_marginal(model, block, column)
    if own is None or (isinstance(own, Levels) and own.of != "value"):
        return np.full(len(model.classes), np.nan)
    if isinstance(own, Levels):
        p = own.probability
        logs = np.log(p, out=np.zeros_like(p), where=p > 0.0)
        within = np.zeros(len(p))
        for density in model.compiled_bin_densities:
            if density.feature == column and own.cuts is not None:
                within[: len(own.cuts) + 1] = density.mean_surprise(own.cuts)
        return np.asarray((p * (within[:, None] - logs)).sum(axis=0))
    grid = Grid.of(own, training_ends(model, column=column))
    logs = np.where(grid.masses > 0.0, grid.log_density, 0.0)
    return np.where(grid.known, -(grid.masses * logs).sum(axis=0), np.nan)
