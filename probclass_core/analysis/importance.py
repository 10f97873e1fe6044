"""What a column contributes to predictions: the mean size of its weight of evidence.

The weight of evidence of a column explains one row (`explanation`); its mean absolute value over
rows says how much a model uses the column. It is in nats, the same unit for every estimator.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.explanation import MAX_ROWS, weights_of_evidence
from probclass_core.arguments import checked_number, checks_arguments
from probclass_core.arrow.arrays import FloatArray, in_slices
from probclass_core.arrow.rows import Rows
from probclass_core.attached import ImportanceMethods
from probclass_core.display import Part, Report, TablePart, counted, json_values
from probclass_core.errors import DataError, SpecError
from probclass_core.io.filters import Where
from probclass_core.io.selection import Selection
from probclass_core.io.table import Plan
from probclass_core.model.model import ModelOption, as_model


@dataclass(frozen=True, repr=False)
class Importance(Report, ImportanceMethods):
    """How much each column, or block of columns, contributes to the predictions of a model.

    Attributes:
        table: one line per item, the most important first:

            - item: a feature, or the columns of a block that contribute jointly. What a feature
              contributes by itself and given other columns is added up in each row. Of a block of
              words, each word is an item.
            - size: mean absolute weight of evidence, in nats: how far the item moves the log
              odds of the prediction against the second most probable class, in either direction.
            - weight: mean weight of evidence; positive where the item speaks for the prediction.
        rows: number of rows.
        model_id: content id of the model.
    """

    table: pa.Table
    rows: int
    model_id: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite number is null."""
        return {
            "model_id": self.model_id,
            "rows": self.rows,
            "importance": json_values(self.table),
        }

    def _report(self) -> list[Part]:
        """The items as bars."""
        if not self.table.num_rows:
            return ["no column contributes: the model is its class prior"]
        columns = {name: self.table[name].to_pylist() for name in ("item", "size")}
        rows = counted(self.rows, "row")
        title = f"mean absolute weight of evidence of {rows}, in nats"
        return [TablePart(columns, title, bars="size")]


@checks_arguments
def importance(
    model: ModelOption,
    source: Any,
    *,
    rows: int = MAX_ROWS,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
) -> Importance:
    """How much each column contributes to predictions: its mean absolute weight of evidence.

    Args:
        model: fitted model, or a `ProbClassifier`.
        source: as for `fit`; labels are not needed.
        rows: number of rows to explain, drawn at random from those that match; the same rows are
            drawn each time. A source with fewer rows is used whole.
        partition: partition to read, or None for all.
        where: row filter, or None for all rows.

    Raises:
        SpecError: if ``rows`` is invalid, or the model has no two classes.
        DataError: if there are no rows, or the features do not fit the model.
        TableError: if the table or partition does not exist or cannot be read.
    """
    model = as_model(model)
    model.spec.label_for("importance")
    if len(model.classes) < 2:
        raise SpecError("importance compares two classes, and the model has one.")
    checked_number("rows", rows, 1)
    plan = Selection.plan_alone(source, partition, where, (), model.spec.features)
    drawn = _draw(plan, rows)
    if not drawn.num_rows:
        raise DataError("there are no rows to explain: the source is empty.")
    batch = drawn.combine_chunks().to_batches()[0]
    sums: dict[str, FloatArray] = defaultdict(lambda: np.zeros(2))
    for part in in_slices([batch], MAX_ROWS):
        features = Rows(model.rows(part).batch, keeps=True)
        posterior = model.posterior(features)
        best = posterior.most_probable
        for of_row in weights_of_evidence(model, features, best, posterior.runner_up(best)):
            of_item: dict[str, float] = defaultdict(float)
            for item, weight in of_row.items():
                of_item[item.name] += 0.0 if math.isnan(weight) else weight
            for name, weight in of_item.items():
                sums[name] += (abs(weight), weight)
    # An item that a row lacks, such as a word, has weight 0 there.
    means = {item: total / drawn.num_rows for item, total in sums.items()}
    ordered = sorted(means, key=lambda item: (-means[item][0], item))
    sizes, weights = np.array([means[item] for item in ordered]).reshape(-1, 2).T
    table = pa.table({"item": pa.array(ordered, pa.string()), "size": sizes, "weight": weights})
    return Importance(table, drawn.num_rows, model.id)


def _draw(plan: Plan, size: int) -> pa.Table:
    """Up to ``size`` random rows: those with the smallest of random numbers drawn in row order."""
    random = np.random.default_rng(0)
    kept, keys = pa.Table.from_batches([], plan.schema), np.empty(0)
    for batch in plan.batches():
        new = random.random(batch.num_rows)
        if len(keys) == size:
            batch = batch.filter(pa.array(new < keys.max()))
            new = new[new < keys.max()]
        keys = np.concatenate([keys, new])
        kept = pa.concat_tables([kept, pa.Table.from_batches([batch], plan.schema)])
        if len(keys) > size:
            smallest = np.sort(np.argpartition(keys, size)[:size])
            kept, keys = kept.take(pa.array(smallest)), keys[smallest]
    return kept
