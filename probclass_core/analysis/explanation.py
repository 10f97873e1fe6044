"""Why a row has the class it has: a ledger of weights of evidence.

A posterior is a product, so the log odds of two classes are a sum, entry by entry::

    log P(c|x)/P(r|x) = log P(c)/P(r) + Σ_j log p(x_j|c)/p(x_j|r)

A term of the sum is the weight of evidence of x_j for c against r (Good, *Probability and the
Weighing of Evidence*, 1950). It is exact: nothing is sampled or approximated. In a model
with block weights, the logs of a block are multiplied by its weight, and classes have a bias.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.json_values import json_values
from probclass_core.analysis.surprise import UNUSUAL, surprise_table
from probclass_core.arguments import checks_arguments
from probclass_core.arrow.arrays import IntArray
from probclass_core.arrow.display import Part, Report, TablePart, as_text, counted
from probclass_core.arrow.parts import select, source_columns
from probclass_core.arrow.rows import Rows
from probclass_core.attached import ExplanationMethods
from probclass_core.errors import DataError, SpecError, shown, suggest
from probclass_core.estimation.contract import ItemizedLikelihood, Likelihood
from probclass_core.io.filters import Where, parse_where
from probclass_core.io.open import open_table
from probclass_core.io.table import Plan
from probclass_core.model.block_weights import base_blocks, below_best
from probclass_core.model.contributions import column_log_likelihoods, sums_over_columns
from probclass_core.model.model import Model, ModelOption, as_model
from probclass_core.model.posterior import Posterior
from probclass_core.spec.model_spec import Block, category_text

MAX_ROWS = 1_000
"""Explanations are for reading; more rows than this are refused."""

Units = Literal["nats", "bits", "decibans"]
"""Units of weights of evidence."""

UNITS: Mapping[Units, float] = {
    "nats": 1.0,
    "bits": 1.0 / math.log(2.0),
    "decibans": 10.0 / math.log(10.0),
}
"""The number of each unit in one nat. Ten decibans are a factor of ten in the odds."""

_MOST_IN_HTML = 10
"""Rows that a notebook shows."""

_MISSING = dict.fromkeys(("feature", "columns", "block"), "missing")
"""What is shown for a value that is None, by entry."""

_MOST_REASONS = 3
"""Columns that are named as reasons why a row is unusual."""

_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("entry", pa.string()),
        ("block", pa.string()),
        ("block_weight", pa.float64()),
        ("item", pa.string()),
        ("value", pa.string()),
        ("log_for", pa.float64()),
        ("log_against", pa.float64()),
        ("weight", pa.float64()),
        ("total", pa.float64()),
    ]
)


@dataclass(frozen=True, repr=False)
class Explanation(Report, ExplanationMethods):
    """The ledgers of some rows: the evidence for the prediction and against its rival.

    Attributes:
        rows: one line per row: row, prediction, against (the rival), probability and
            probability_against (their posteriors), log_odds (of prediction against rival).
        table: the entries of each row: the prior first, then by decreasing size of weight:

            - row: number of the row in the source, from 0.
            - entry: ``prior``; ``feature``, one feature; ``item``, such as a word of a text;
              ``columns``, columns that contribute together, and by block ``block``, as it cannot be
              divided; ``bias``, what a model with block weights adds to each class; ``rest``, the
              sum of the entries beyond the limit; ``calibration``, the difference that a calibrated
              model adds.
            - block, item, value: origin of the entry; the block is null if there are several, item
              is the feature, term or columns, value its text.
            - block_weight: fitted or given weight of the block; by block only.
            - log_for, log_against: log p(x_j | c) of prediction and rival, times the block weight;
              for the prior, log P(c). A block that the cap of block weights limits is one entry,
              relative to its best class.
            - weight: their difference; ±inf if one of them is −inf, null if both are. For a
              calibration, the change of the log odds; null if they were infinite before it.
            - total: running sum of the weights; null once both classes are impossible.
        surprise: what each column adds to −log p(x) of each row, those with the largest excess
            first: row; item (the column; a block that can only be taken as a whole; or ``class``,
            what the class adds); value; surprise; usual, the mean of the surprise of the column
            under the model; excess, the difference, null where the usual is unknown. It has no
            rows if log p(x) is not a density.
        units: unit of all logs: a key of `UNITS`.
        model_id: content id of the model.
    """

    rows: pa.Table
    table: pa.Table
    surprise: pa.Table
    units: Units
    model_id: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the rows, each with its ledger; an infinite number is null."""
        lines: dict[str, dict[int, list[dict[str, Any]]]] = {}
        for name, table in (("ledger", self.table), ("surprise", self.surprise)):
            of_row = lines[name] = defaultdict(list)
            for entry in json_values(table):
                of_row[entry.pop("row")].append(entry)
        rows = [
            {**row, **{name: of_row[row["row"]] for name, of_row in lines.items()}}
            for row in json_values(self.rows)
        ]
        return {"model_id": self.model_id, "units": self.units, "rows": rows}

    def _report(self) -> list[Part]:
        """The ledgers of the first rows."""
        more = self.rows.num_rows - _MOST_IN_HTML
        parts = self._ledgers(self.rows.slice(0, _MOST_IN_HTML))
        return [*parts, f"… and {counted(more, 'more row')}"] if more > 0 else parts

    def __str__(self) -> str:
        """The ledgers of all rows as text."""
        return as_text(self._ledgers(self.rows))

    def _ledgers(self, rows: pa.Table) -> list[Part]:
        parts: list[Part] = []
        for row in rows.to_pylist():
            number = f"row {row['row']}"
            if "prediction" in row:
                parts += self._ledger(row, number)
                number = ""
            if reasons := self._reasons(row["row"]):
                start = f"{number} is unusual" if number else "unusual"
                parts.append(f"{start} because of {reasons}.")
            elif number:
                parts.append(f"{number} is not unusual in any column.")
        return parts

    def _ledger(self, row: Mapping[str, Any], number: str) -> list[Part]:
        entries = self.table.filter(pc.field("row") == row["row"]).to_pylist()
        columns: dict[str, list[Any]] = {
            "entry": [_label(entry) for entry in entries],
            "value": [_shown_value(entry) for entry in entries],
            self.units: [_rounded(entry["weight"]) for entry in entries],
            "total": [_rounded(entry["total"]) for entry in entries],
        }
        name, rival = row["prediction"], row["against"]
        title = f"{number}: {name} rather than {rival}"
        log_odds = "unknown" if row["log_odds"] is None else f"{row['log_odds']:+.2f}"
        shown = TablePart(columns, title, most=len(entries), bars=self.units)
        posterior = (
            f"posterior: {name} {row['probability']:.4g}, {rival} "
            f"{row['probability_against']:.4g}; log odds {log_odds}. Bars to the right are for "
            f"{name}, bars to the left against it."
        )
        return [shown, posterior]

    def _reasons(self, row: int) -> str:
        """The columns that make a row unusual, as text."""
        least = UNUSUAL * UNITS[self.units]
        lines = self.surprise.filter((pc.field("row") == row) & (pc.field("excess") >= least))
        return ", ".join(
            f"{line['item']}={'missing' if line['value'] is None else line['value']} "
            f"({line['excess']:+.1f} {self.units})"
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
    units: Units = "nats",
    by: str = "column",
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
        units: ``"nats"``, ``"bits"`` or ``"decibans"``.
        by: ``"column"``: one entry for each column, the sum over all blocks that model it; columns
            that a block can only model together have one entry. ``"block"``: an entry for each
            block and column, with the weight of the block.
        limit: number of entries to list per row, the largest ones; the others are added up in one
            entry. None lists all.

    Raises:
        SpecError: if a class, unit or `by` is unknown, a limit or row number is invalid, or
            `against` is given and the model has no label.
        DataError: if there are too many rows, a row does not exist, or the features do not fit the
            model.
        TableError: if the table or partition does not exist or cannot be read.
    """
    model = as_model(model)
    scale = UNITS[units]
    if by not in ("column", "block"):
        raise SpecError(f"by must be 'column' or 'block', got {by!r}.")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise SpecError(f"limit must be a whole number of at least 1, or None, got {limit!r}.")
    rival = None
    if against is not None:
        model.spec.label_for("against")
        rival = _class_position(model, against)
    table = open_table(source)
    columns = source_columns(table.schema, model.spec.features)
    plan = table.plan(columns, partition=partition, where=parse_where(where))
    batch, numbers = _read_rows(plan, None if rows is None else _checked_rows(rows))
    features = Rows(model.rows(batch).batch, keeps=True)
    posterior, cells = model.posterior(features), _texts(features.batch)
    surprise = surprise_table(model, features, numbers, cells)
    summary = {"row": pa.array(numbers, pa.int64())}
    ledgers: list[dict[str, Any]] = []
    if len(model.classes) > 1:
        classes, log_odds = _compared(posterior, rival)
        blocks = [list(_block_entries(model, block, batch, classes)) for block in model.spec.pool]
        for index, number in enumerate(numbers):
            entries = [entry for block in blocks for entry in block[index]]
            if by == "column":
                entries = list(_by_column(model, entries, cells[index]))
            words = any(entry.entry == "item" for entry in entries)
            kind = "entry" if by == "block" or words else "column"
            lines = _ledger(model, classes[index], log_odds[index], entries, limit, kind)
            ledgers += ({"row": number, **line} for line in lines)
        predictions, rivals = (model.classes.take(pa.array(side)) for side in classes.T)
        of_both = np.take_along_axis(posterior.probability, classes, axis=1)
        summary |= {
            "prediction": predictions,
            "against": rivals,
            "probability": of_both[:, 0],
            "probability_against": of_both[:, 1],
            "log_odds": pc.multiply(pa.array(log_odds, pa.float64()), scale),
        }
    table = pa.Table.from_pylist(ledgers, schema=_SCHEMA)
    return Explanation(
        pa.table(summary),
        _scaled(table, ("log_for", "log_against", "weight", "total"), scale),
        _scaled(surprise, ("surprise", "usual", "excess"), scale),
        units,
        model.id,
    )


def _scaled(table: pa.Table, names: Sequence[str], scale: float) -> pa.Table:
    """A table with some columns multiplied."""
    for name in names:
        column = table.column_names.index(name)
        table = table.set_column(column, name, pc.multiply(table[name], scale))
    return table


def _compared(posterior: Posterior, rival: int | None) -> tuple[IntArray, list[float | None]]:
    """Positions of the most probable class and its rival, ``(n, 2)``, and their log odds."""
    best = posterior.most_probable
    second = posterior.runner_up(best)
    if rival is not None:
        second = np.where(best == rival, second, rival)
    classes = np.stack([best, second], axis=1)
    logs = np.take_along_axis(posterior.log_probability, classes, axis=1)
    return classes, [_difference(*pair) for pair in logs.tolist()]


@dataclass(frozen=True)
class _Entry:
    """One part of a row and its log p(x_j | c) for prediction and rival, in nats."""

    entry: str
    block: str | None
    item: str | None
    value: str | None
    log_for: float
    log_against: float
    block_weight: float | None = None

    @cached_property
    def weight(self) -> float | None:
        return _difference(self.log_for, self.log_against)

    @property
    def size(self) -> float:
        return math.inf if self.weight is None else abs(self.weight)


def _label(entry: Mapping[str, Any]) -> str:
    """The name of an entry, with the weight of its block."""
    kind = entry["entry"]
    if kind in ("columns", "rest"):
        return "columns together" if kind == "columns" else str(entry["value"])
    name: str = entry["item"] or entry["block"] or kind
    return name if entry["block_weight"] is None else f"{name} ×{entry['block_weight']:.2f}"


def _shown_value(entry: Mapping[str, Any]) -> str:
    """The value of an entry as text."""
    if entry["entry"] == "rest":
        return ""
    if entry["value"] is None:
        is_item = entry["entry"] == "item"
        return f"in {entry['block']}" if is_item else _MISSING.get(entry["entry"], "")
    return str(entry["value"])


def _rounded(weight: float | None) -> float | None:
    """A weight without the rounding of float64."""
    return None if weight is None else round(weight, 6) + 0.0


def _by_column(
    model: Model, entries: Sequence[_Entry], cells: Mapping[str, str | None]
) -> Iterator[_Entry]:
    """The entries of one row, those of the same column or columns added up.

    Args:
        model: the model.
        entries: entries of all blocks.
        cells: the value of each feature as text.
    """
    columns = {str(block.name): block.columns for block in model.spec.pool}
    groups: dict[tuple[str, ...], list[_Entry]] = {}
    terms = []
    for entry in entries:
        if entry.item is None:
            groups.setdefault(columns[str(entry.block)], []).append(entry)
        elif entry.item in columns[str(entry.block)]:
            groups.setdefault((entry.item,), []).append(entry)
        else:
            terms.append(replace(entry, block_weight=None))
    for names, parts in groups.items():
        logs = _total(parts)
        block = parts[0].block if len(parts) == 1 else None
        if len(names) == 1:
            value = parts[0].value if len(parts) == 1 else cells[names[0]]
            yield _Entry("feature", block, names[0], value, *logs)
        else:
            value = _known_values({name: cells[name] for name in names})
            yield _Entry("columns", block, ", ".join(names), value, *logs)
    yield from terms


def _ledger(
    model: Model,
    classes: IntArray,
    log_odds: float | None,
    entries: list[_Entry],
    limit: int | None,
    kind: str,
) -> Iterator[dict[str, Any]]:
    """The ledger of one row: prior, entries by decreasing size, calibration.

    Args:
        model: the model.
        classes: positions of prediction and rival, ``(2,)``.
        log_odds: log posterior odds of both; None if both are impossible.
        entries: entries of all blocks.
        limit: number of entries to list.
        kind: what the other entries are, ``"entry"`` or ``"column"``.
    """
    entries = sorted(entries, key=lambda entry: -entry.size)
    if limit is not None and len(entries) > limit:
        entries, rest = entries[:limit], entries[limit:]
        plural = {"entry": "entries", "column": "columns"}[kind]
        others = f"{len(rest)} other {kind if len(rest) == 1 else plural}"
        entries.append(_Entry("rest", None, None, others, *_total(rest)))
    first = [_Entry("prior", None, None, None, *model.log_prior[classes].tolist())]
    if model.weights is not None:
        first.append(_Entry("bias", None, None, None, *model.weights.bias[classes].tolist()))
    total: float | None = 0.0
    for entry in [*first, *entries]:
        total = _sum(total, entry.weight)
        yield {**vars(entry), "weight": entry.weight, "total": total}
    if model.calibration is not None:
        weight = None  # the change from infinite log odds is undefined
        if log_odds is not None and total is not None and math.isfinite(total):
            weight = log_odds - total
        yield {"entry": "calibration", "weight": weight, "total": log_odds}


def _total(entries: Iterable[_Entry]) -> tuple[float, float]:
    """The logs of prediction and rival of several entries, added up."""
    return sum(entry.log_for for entry in entries), sum(entry.log_against for entry in entries)


def _block_entries(
    model: Model, block: Block, batch: pa.RecordBatch, classes: IntArray
) -> Iterator[list[_Entry]]:
    """The entries of a block for each row, weighted if the model is."""
    name = str(block.name)
    likelihood = model.likelihoods[name]
    rows = Rows(select(batch, block.inputs, model.time_zones))
    texts = _block_texts(block, rows.batch)
    if model.weights is None:
        yield from _unweighted_entries(likelihood, block, rows, texts, classes)
        return
    weight = model.weights.by_block[name]
    if not weight:
        yield from ([] for _ in classes)
        return
    relative = below_best(likelihood.log_likelihood(rows))
    base = base_blocks(model.spec.pool).get(name)
    if base is not None:
        relative -= below_best(model.likelihoods[base].log_likelihood(rows))
    of_block = np.take_along_axis(relative, classes, axis=1).tolist()
    unweighted = _unweighted_entries(likelihood, block, rows, texts, classes)
    for entries, limited, cells in zip(unweighted, of_block, texts, strict=True):
        of_entries = _total(entries)
        difference = of_entries[0] - of_entries[1]
        if not math.isclose(difference, limited[0] - limited[1], abs_tol=1e-9):
            # Limited, or relative to a base block: the parts of the block no longer add up.
            whole = _Entry("block", name, None, _known_values(cells), *limited)
            part = replace(entries[0], log_for=limited[0], log_against=limited[1])
            entries = [part if len(entries) == 1 else whole]
        yield [
            replace(
                entry,
                log_for=weight * entry.log_for,
                log_against=weight * entry.log_against,
                block_weight=weight,
            )
            for entry in entries
        ]


def _unweighted_entries(
    likelihood: Likelihood,
    block: Block,
    rows: Rows,
    texts: Sequence[Mapping[str, str | None]],
    classes: IntArray,
) -> Iterator[list[_Entry]]:
    """The entries of a block for each row: by item or feature if its estimator allows, else one."""
    name = str(block.name)
    if isinstance(likelihood, ItemizedLikelihood):
        terms = any(pa.types.is_nested(column.type) for column in rows.batch.columns)
        for row, pair in enumerate(classes):
            if all(value is None for value in texts[row].values()):
                yield [_Entry("block", name, None, None, 0.0, 0.0)]
                continue
            items = likelihood.itemize(rows.slice(row, row + 1)).items()
            yield [
                _Entry(
                    "item",
                    name,
                    item,
                    None if terms else texts[row].get(item),
                    *logs[pair].tolist(),
                )
                for item, logs in items
            ]
    elif sums_over_columns(block, likelihood):
        logs = column_log_likelihoods(block, likelihood, rows)
        by_feature = np.stack([np.take_along_axis(log, classes, axis=1) for log in logs], axis=1)
        for cells, pairs in zip(texts, by_feature.tolist(), strict=True):
            yield [
                _Entry("feature", name, column, value, *logs)
                for (column, value), logs in zip(cells.items(), pairs, strict=True)
            ]
    else:
        of_block = np.take_along_axis(likelihood.log_likelihood(rows), classes, axis=1)
        for cells, pair in zip(texts, of_block.tolist(), strict=True):
            yield [_Entry("block", name, None, _known_values(cells), *pair)]


def _known_values(cells: Mapping[str, str | None]) -> str | None:
    """The values of a block as text; None if all are missing."""
    known = [f"{column}={value}" for column, value in cells.items() if value is not None]
    return ", ".join(known) or None


def _texts(batch: pa.RecordBatch) -> list[dict[str, str | None]]:
    """The values of a batch as text, by row and column."""
    values = [[_value_text(value) for value in column.to_pylist()] for column in batch.columns]
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _block_texts(block: Block, batch: pa.RecordBatch) -> list[dict[str, str | None]]:
    """The values that a block models, by row and column, with the values that it is given."""
    texts = []
    for cells in _texts(batch):
        known = [f"{name}={cells[name]}" for name in block.given if cells[name] is not None]
        given = f" given {', '.join(known)}" if known else ""
        texts.append(
            {
                name: None if cells[name] is None else f"{cells[name]}{given}"
                for name in block.columns
            }
        )
    return texts


def _read_rows(plan: Plan, rows: Sequence[int] | None) -> tuple[pa.RecordBatch, Sequence[int]]:
    """The rows to explain as one batch, and their numbers; reading stops after the last one."""
    batches, seen = [], 0
    for batch in plan.batches():
        if rows is None:
            batches.append(batch)
        else:
            indices = [row - seen for row in rows if seen <= row < seen + batch.num_rows]
            batches.append(batch.take(pa.array(indices, pa.int64())))
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


def _class_position(model: Model, label: object) -> int:
    name = category_text(label)
    if name not in model.class_names:
        raise SpecError(
            f"the model has no class {name!r}; it has {suggest(name, model.class_names)}"
        )
    return model.class_names.index(name)


def _difference(first: float, second: float) -> float | None:
    """The difference of two logs; None if both are −inf."""
    return None if math.isinf(first) and math.isinf(second) else first - second


def _sum(total: float | None, weight: float | None) -> float | None:
    """The running sum; None once both classes are impossible, by one entry or by two."""
    if total is None or weight is None or (math.isinf(total) and total == -weight):
        return None
    return total + weight


def _value_text(value: Any) -> str | None:
    """A cell as text, floats rounded for reading; None if it is missing."""
    if isinstance(value, float):
        digits = ".7g" if abs(value) < 1e5 else ".12g"
        return None if math.isnan(value) else format(value, digits)
    return None if value is None else category_text(value)
