"""Why a row has the class it has: a ledger of weights of evidence.

A posterior is a product, so the log odds of two classes are a sum, entry by entry::

    log P(c|x)/P(r|x) = log P(c)/P(r) + Σ_j log p(x_j|c)/p(x_j|r)

A term of the sum is the weight of evidence of x_j for c against r (Good, *Probability and the
Weighing of Evidence*, 1950). It is exact: nothing is sampled or approximated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.ledger import ledger_text
from probclass_core.arrow.arrays import FloatArray, IntArray, select
from probclass_core.errors import DataError, SpecError, expect, nearest, one_of
from probclass_core.estimation.contract import ItemizedLikelihood, Likelihood
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.table import Plan
from probclass_core.model.model import LOAD_HINT, Model
from probclass_core.plugins.manager import find_estimator
from probclass_core.spec import Block, category_text

MOST_ROWS = 1_000
"""An explanation is for reading; more rows than this are refused."""

UNITS = {"nats": 1.0, "bits": 1.0 / math.log(2.0), "decibans": 10.0 / math.log(10.0)}
"""How many of each there are in a nat. Ten decibans are a factor of ten in the odds."""

_CELLS = 1 << 21
"""Values in a batch of features taken one at a time: a bound on memory, for wide blocks."""

_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("entry", pa.string()),
        ("block", pa.string()),
        ("item", pa.string()),
        ("value", pa.string()),
        ("log_for", pa.float64()),
        ("log_against", pa.float64()),
        ("weight", pa.float64()),
        ("total", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Explanation:
    """The ledgers of some rows: what speaks for the prediction, against its rival.

    Attributes:
        rows: one line per row: row, prediction, against (the rival), probability and
            probability_against (their posteriors), log_odds (of the first to the second).
        table: the entries of each row, from the prior on, the largest weights first:

            - row: its number in the source, from 0.
            - entry: ``prior``; ``feature``, where a block factorizes or has one column; ``item``,
              such as a word of a text; ``block``, a block as a whole; ``rest``, the entries beyond
              the limit, lumped; ``calibration``, what a calibrated model adds to the sum.
            - block, item, value: where it comes from; item is the feature or term, value its text.
            - log_for, log_against: log p(x_j | c) of prediction and rival; of the prior, log P(c).
            - weight: their difference; ±inf where one of them is −inf, null where both are. Of a
              calibration, what leads to the total; null where the odds were infinite before it.
            - total: the sum of the weights so far; null once both classes are impossible.
        units: of all logs: a key of `UNITS`.
        model_id: what is explained.
    """

    rows: pa.Table
    table: pa.Table
    units: str
    model_id: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the rows, each with its ledger; an infinite number is null."""
        ledgers: dict[int, list[dict[str, Any]]] = {}
        for entry in self.table.to_pylist():
            ledgers.setdefault(entry.pop("row"), []).append(_finite(entry))
        rows = [{**_finite(row), "ledger": ledgers[row["row"]]} for row in self.rows.to_pylist()]
        return {"model_id": self.model_id, "units": self.units, "rows": rows}

    def __str__(self) -> str:
        """The ledgers as text of at most 80 columns."""
        return "\n\n".join(
            ledger_text(
                row, self.table.filter(pc.field("row") == row["row"]).to_pylist(), self.units
            )
            for row in self.rows.to_pylist()
        )


def explain(
    model: Model,
    source: Any,
    *,
    rows: Sequence[int] | None = None,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    against: object = None,
    units: str = "nats",
    limit: int | None = 20,
) -> Explanation:
    """Say, row by row, what speaks for the most probable class and against its rival.

    Args:
        model: what decides.
        source: as for `fit`; up to 1,000 rows of it.
        rows: which rows, counted from 0 among those that partition and where leave; all by default.
        partition: as for `fit`.
        where: as for `fit`.
        against: the rival class; by default, and where it is the prediction itself, the runner-up.
        units: ``"nats"``, ``"bits"`` or ``"decibans"``.
        limit: of the features, items and blocks of a row, keep as many, the largest, and lump the
            rest; none keeps all.

    Raises:
        SpecError: an unknown class or unit, or a limit or row that is no such number.
        DataError: too many rows, a row that is not there, or features that the model cannot take.
        TableError: the table or partition is not there or cannot be read.
    """
    expect(model, Model, LOAD_HINT)
    scale = _scale(units)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise SpecError(f"limit must be a whole number of at least 1, or None, got {limit!r}.")
    rival = None if against is None else _class_of(model, against)
    plan = open_table(source).plan(tuple(model.spec.features), partition=partition, where=where)
    batch, numbers = _chosen(plan, None if rows is None else _checked_rows(rows))
    question = _Question.ask(model, batch, rival)
    entries: list[dict[str, Any]] = []
    shares = [list(_shares(model, block, batch, question.pair)) for block in model.spec.blocks]
    for place, number in enumerate(numbers):
        pushes = [push for block in shares for push in block[place]]
        ledger = _ledger(question, place, pushes, limit)
        entries += ({"row": number, **entry} for entry in ledger)
    table = pa.Table.from_pylist(entries, schema=_SCHEMA)
    for name in ("log_for", "log_against", "weight", "total"):
        column = table.column_names.index(name)
        table = table.set_column(column, name, pc.multiply(table[name], scale))
    return Explanation(question.summary(numbers, scale), table, units, model.id)


@dataclass(frozen=True)
class _Push:
    """What one piece of a row adds: log p(x_j | c) of prediction and rival, in nats."""

    entry: str
    block: str | None
    item: str | None
    value: str | None
    log_for: float
    log_against: float

    @cached_property
    def weight(self) -> float | None:
        return _difference(self.log_for, self.log_against)

    @property
    def size(self) -> float:
        return math.inf if self.weight is None else abs(self.weight)


@dataclass(frozen=True)
class _Question:
    """Of ``n`` rows: which two classes are weighed, ``(n, 2)``, and what the model says of them."""

    model: Model
    pair: IntArray
    log_posterior: FloatArray
    log_joint: FloatArray

    @classmethod
    def ask(cls, model: Model, batch: pa.RecordBatch, rival: int | None) -> _Question:
        log_posterior = model.posterior(batch).log_probability
        pair = np.argsort(-log_posterior, axis=1, kind="stable")[:, :2]  # the first of equals first
        if rival is not None:
            pair[pair[:, 0] != rival, 1] = rival
        taken = (np.take_along_axis(each, pair, 1) for each in (log_posterior, model.joint(batch)))
        return cls(model, pair, *taken)

    def log_odds(self, place: int) -> float | None:
        return _difference(*self.log_posterior[place].tolist())

    def calibration(self, place: int) -> float | None:
        """What calibration adds to the log odds; none where no number could."""
        told, found = self.log_odds(place), _difference(*self.log_joint[place].tolist())
        if told is None or found is None or math.isinf(found):
            return None
        return told - found

    def summary(self, numbers: Sequence[int], scale: float) -> pa.Table:
        classes = [self.model.classes.take(pa.array(side)) for side in self.pair.T]
        probability = np.exp(self.log_posterior)
        log_odds = [self.log_odds(place) for place in range(len(numbers))]
        return pa.table(
            {
                "row": pa.array(numbers, pa.int64()),
                "prediction": classes[0],
                "against": classes[1],
                "probability": probability[:, 0],
                "probability_against": probability[:, 1],
                "log_odds": pc.multiply(pa.array(log_odds, pa.float64()), scale),
            }
        )


def _ledger(
    question: _Question, place: int, pushes: list[_Push], limit: int | None
) -> Iterator[dict[str, Any]]:
    pushes = sorted(pushes, key=lambda push: -push.size)
    if limit is not None and len(pushes) > limit:
        pushes, rest = pushes[:limit], pushes[limit:]
        logs = sum(push.log_for for push in rest), sum(push.log_against for push in rest)
        pushes.append(_Push("rest", None, None, f"{len(rest)} smaller", *logs))
    log_prior = question.model.log_prior[question.pair[place]].tolist()
    total: float | None = 0.0
    for push in [_Push("prior", None, None, None, *log_prior), *pushes]:
        total = _sum(total, push.weight)
        yield {**vars(push), "weight": push.weight, "total": total}
    if question.model.calibration is not None:
        weight, told = question.calibration(place), question.log_odds(place)
        yield {"entry": "calibration", "weight": weight, "total": told}


def _shares(
    model: Model, block: Block, batch: pa.RecordBatch, pair: IntArray
) -> Iterator[list[_Push]]:
    """What the block adds to each row, in pieces as small as its estimator knows."""
    name = str(block.name)
    likelihood, batch = model.likelihoods[name], select(batch, block.columns)
    values = [[_text(value) for value in column.to_pylist()] for column in batch.columns]
    if isinstance(likelihood, ItemizedLikelihood):
        terms = any(pa.types.is_nested(column.type) for column in batch.columns)
        for row, two in enumerate(pair):
            cells = {column: values[j][row] for j, column in enumerate(block.columns)}
            if all(value is None for value in cells.values()):
                yield [_Push("block", name, None, None, 0.0, 0.0)]
                continue
            yield [
                _Push("item", name, item, None if terms else cells.get(item), *share[two].tolist())
                for item, share in likelihood.itemize(batch.slice(row, 1)).items()
            ]
    elif find_estimator(block.estimator).traits.factorizes or len(block.columns) == 1:
        shares = _by_feature(likelihood, batch, pair)
        for row in range(batch.num_rows):
            yield [
                _Push("feature", name, column, values[j][row], *shares[row, j].tolist())
                for j, column in enumerate(block.columns)
            ]
    else:
        shares = np.take_along_axis(likelihood.log_likelihood(batch), pair, axis=1)
        for row in range(batch.num_rows):
            cells = {column: values[j][row] for j, column in enumerate(block.columns)}
            known = [f"{column}={value}" for column, value in cells.items() if value is not None]
            yield [_Push("block", name, None, ", ".join(known) or None, *shares[row].tolist())]


def _by_feature(likelihood: Likelihood, batch: pa.RecordBatch, pair: IntArray) -> FloatArray:
    """The share of each feature, ``(n, d, 2)``: of rows in which all others are null.

    A null is marginalized (law 5 of `estimator`), so that what is left is the feature's own factor.
    """
    size = batch.num_columns
    shares = np.empty((batch.num_rows * size, 2))
    step = max(1, _CELLS // size)
    for start in range(0, len(shares), step):
        row, feature = np.divmod(np.arange(start, min(start + step, len(shares))), size)
        alone = [
            column.take(pa.array(row, mask=feature != place))
            for place, column in enumerate(batch.columns)
        ]
        found = likelihood.log_likelihood(pa.RecordBatch.from_arrays(alone, batch.schema.names))
        shares[start : start + step] = np.take_along_axis(found, pair[row], axis=1)
    return shares.reshape(batch.num_rows, size, 2)


def _chosen(plan: Plan, rows: Sequence[int] | None) -> tuple[pa.RecordBatch, Sequence[int]]:
    """The rows to explain, as one batch, and their numbers; no more is read than needed."""
    taken, seen = [], 0
    for batch in plan.batches():
        if rows is None:
            taken.append(batch)
        else:
            here = [row - seen for row in rows if seen <= row < seen + batch.num_rows]
            taken.append(batch.take(pa.array(here, pa.int64())))
        seen += batch.num_rows
        if seen > (MOST_ROWS if rows is None else rows[-1]):
            break
    if rows is None and seen > MOST_ROWS:
        raise DataError(
            f"an explanation is of at most {MOST_ROWS:,} rows, and there are more; "
            "choose some with rows (--row) or where."
        )
    if rows is not None and rows[-1] >= seen:
        raise DataError(f"there is no row {rows[-1]}: there are {seen:,}, counted from 0.")
    table = pa.Table.from_batches(taken, plan.schema).combine_chunks()
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=plan.schema)]
    return batches[0], range(seen) if rows is None else rows


def _checked_rows(rows: Sequence[int]) -> list[int]:
    listed = list(rows) if isinstance(rows, Iterable) else []
    checked = sorted({row for row in listed if isinstance(row, (int, np.integer)) and row >= 0})
    if len(checked) < len(listed) or not checked:
        raise SpecError(f"rows must be different numbers, counted from 0, got {rows!r}.")
    if len(checked) > MOST_ROWS:
        raise SpecError(f"an explanation is of at most {MOST_ROWS:,} rows, got {len(checked):,}.")
    return [int(row) for row in checked]


def _class_of(model: Model, against: object) -> int:
    name = category_text(against)
    if name not in model.class_names:
        raise SpecError(
            f"the model has no class {name!r}; it has {one_of(model.class_names)}."
            + nearest(name, model.class_names)
        )
    return model.class_names.index(name)


def _scale(units: object) -> float:
    if not isinstance(units, str) or units not in UNITS:
        hint = nearest(str(units), UNITS)
        raise SpecError(f"units must be one of {one_of(UNITS)}, got {units!r}.{hint}")
    return UNITS[units]


def _difference(one: float, other: float) -> float | None:
    """Of two logs; none where both are −inf."""
    return None if math.isinf(one) and math.isinf(other) else one - other


def _sum(total: float | None, weight: float | None) -> float | None:
    """None once both classes are impossible: by one entry, or by one after the other."""
    if total is None or weight is None or (math.isinf(total) and total == -weight):
        return None
    return total + weight


def _text(value: Any) -> str | None:
    """A cell to be read: floats lose the digits that no one reads; none where it is missing."""
    if isinstance(value, float):
        digits = ".7g" if abs(value) < 1e5 else ".12g"
        return None if math.isnan(value) else format(value, digits)
    return None if value is None else category_text(value)


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }
