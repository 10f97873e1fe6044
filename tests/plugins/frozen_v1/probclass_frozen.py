"""A plugin for contract version 1. Do not change it: it represents all plugins of that version.

Waiting times with an exponential density, and a table format. It uses only what the first release
with version 1 offered.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

import probclass_core as pc
from probclass_core.authoring import (
    NUMBERS,
    EstimatorOptions,
    FloatArray,
    Likelihood,
    Rows,
    TableFormat,
    label_codes,
    notes_of,
    number,
    with_notes,
)
from probclass_core.errors import DataError

PROBCLASS_API = 1


class Frozen(pc.Estimator):
    """Exponential features; ``rows`` and ``sum`` are those of a gamma prior."""

    name = "frozen"
    factorizes = True

    models = NUMBERS

    class Options(EstimatorOptions):
        """The prior."""

        rows: float = number(0.0, doc="Rows of the prior.")
        sum: float = number(0.0, doc="Their sum.")

    options: Options

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        codes = classes.indices.to_numpy(zero_copy_only=False)
        weight = np.ones(len(codes)) if weights is None else weights
        parts = []
        for name in self.features.names:
            times = rows.numbers(name)
            if (times < 0.0).any():
                raise DataError(f"column {name!r} holds negative times; drop those rows.")
            seen = ~np.isnan(times)
            count, total = (
                np.bincount(codes[seen], terms[seen], len(classes.dictionary)).astype(float)
                for terms in (weight, weight * times)
            )
            columns = {"class": classes.dictionary, "feature": [name] * len(count)}
            part = pa.table({**columns, "count": count, "total": total})
            parts.append(part.filter(pa.array(count > 0.0)))
        return self.merge(parts)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        grouped = pa.concat_tables(tables).group_by(["class", "feature"], use_threads=False)
        merged = grouped.aggregate([("count", "sum"), ("total", "sum")])
        merged = merged.rename_columns(["class", "feature", "count", "total"])
        return merged.sort_by([("class", "ascending"), ("feature", "ascending")])

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        names = self.features.names
        sums = np.zeros((2, len(classes), len(names)))
        rows = label_codes(statistics["class"], classes)
        columns = label_codes(statistics["feature"], pa.array(names))
        for sum_, name in zip(sums, ("count", "total"), strict=True):
            sum_[rows, columns] = statistics[name].to_numpy()
        if not (sums[1] + self.options.sum).all():
            raise DataError("a class has no time above 0; drop it, or leave the column out.")
        rate = (sums[0] + self.options.rows) / (sums[1] + self.options.sum)
        repeat = np.repeat(np.arange(len(classes)), len(names))
        parameters = pa.table(
            {
                "class": classes.take(pa.array(repeat)),
                "feature": names * len(classes),
                "rate": rate.ravel(),
            }
        )
        return with_notes(parameters, features=names)

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Likelihood:
        return FrozenLikelihood(parameters, classes)


class FrozenLikelihood:
    """Σⱼ log λ_cj − λ_cj xⱼ, over the observed features."""

    normalized = True

    def __init__(self, parameters: pa.Table, classes: pa.Array) -> None:
        self.features = notes_of(parameters)["features"]
        self.rate = np.empty((len(classes), len(self.features)))
        codes = label_codes(parameters["class"], classes)
        columns = label_codes(parameters["feature"], pa.array(self.features))
        self.rate[codes, columns] = parameters["rate"].to_numpy()

    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.zeros((len(rows), len(self.rate)))
        for name, rate in zip(self.features, self.rate.T, strict=True):
            times = rows.numbers(name)
            with np.errstate(over="ignore"):
                log_density = np.log(rate) - rate * times[:, None]
            log_density[times < 0.0] = -np.inf
            result += np.where(np.isnan(times)[:, None], 0.0, log_density)
        return result


class Lines(TableFormat):
    """JSON lines."""

    name = "jsonl"

    def recognizes(self, ref: pc.TableRef) -> bool:
        return ref.uri.endswith(".jsonl")

    def open(self, ref: pc.TableRef) -> Any:
        return pc.open_table(pyarrow.json.read_json(ref.uri))


@pc.hookimpl
def probclass_estimators() -> Iterable[type[pc.Estimator]]:
    """Registers `Frozen`."""
    yield Frozen


@pc.hookimpl
def probclass_table_formats() -> Iterable[type[TableFormat]]:
    """Registers JSON lines."""
    yield Lines
