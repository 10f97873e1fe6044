"""Independent features with Student's t as their density, from counts on grids.

The first pass counts the distinct values of each class, and beyond a bound on their number those of
cells of one width. That is fine enough unless the tails are so long that the cells which reach the
outliers are wider than what lies in the middle. Then another pass counts on a grid that follows the
density: equal steps of asinh((x − m) / s), around the median m and scale s that the pass before
found. Cells are narrow in the middle, and grow with the distance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

import probclass_core as pc
from probclass_core.authoring import (
    FloatArray,
    histogram,
    is_numeric_type,
    label_codes,
    notes_of,
    number_option,
    numeric_column,
    read_options,
    require_types,
    with_notes,
)
from probclass_student_t import fitting

_DEFAULTS: Mapping[str, Any] = {
    "degrees_of_freedom": None,
    "scale_floor": 1e-9,
    "cells": 4096,
    "around": {},
}

_STEP = 1.0 / 64.0
"""Width of a cell of a second pass: in the middle a 64th of the scale, far out of the distance."""

_FINE = 16.0
"""So many cells, at least, should lie between the quartiles."""

_FARTHEST = 1e300


class _Cells(NamedTuple):
    """The rows of one class and feature, gathered.

    Attributes:
        values: what each cell stands for, ascending, in the column's unit, ``(n,)``.
        counts: Σ w, ``(n,)``.
        width: of the cell at the median, in the column's unit; 0 for distinct values.
    """

    values: FloatArray
    counts: FloatArray
    width: float


class StudentT(pc.LikelihoodEstimator):
    """Independent features of Student's t given the class: a location, a scale and heavy tails.

    Options:
        degrees_of_freedom: ν of every class and feature, at least 1; by default found for each.
        scale_floor: smallest scale, as a fraction of the feature's own with all classes in one;
            0 keeps a scale of zero as a point mass.
        cells: up to so many distinct values of a class are counted as they are, more on a grid.
        around: feature → class → [location, scale], the center of a grid that widens with the
            distance; set by a fit that needs another pass.

    Statistics: class, feature, cell (a distinct value, the lower edge of a cell, or the number of a
    cell around a center), width (0 for a value), count (Σ w).
    Parameters: class, feature, count, location, scale, degrees_of_freedom.

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "student_t"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, _DEFAULTS)
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        freedom = chosen["degrees_of_freedom"]
        if freedom is not None:
            least = fitting.LEAST_FREEDOM
            freedom = number_option(self.name, "degrees_of_freedom", freedom, at_least=least)
        self.freedom: float | None = freedom
        self.scale_floor = number_option(self.name, "scale_floor", chosen["scale_floor"])
        self.cells = int(number_option(self.name, "cells", chosen["cells"], at_least=4, whole=True))
        self.around = _centers(chosen["around"])

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        codes = classes.indices.to_numpy(zero_copy_only=False)
        parts = []
        for name in self.features.names:
            values = numeric_column(batch, name)
            for code, label in enumerate(classes.dictionary.to_pylist()):
                rows = (codes == code) & ~np.isnan(values)
                cells, width = values[rows], 0.0
                center = self.around.get((name, str(label)))
                if center is not None:
                    cells, width = _numbers(cells, *center), _STEP
                weight = None if weights is None else weights[rows]
                parts.append(self._counted(classes.dictionary[code], name, cells, width, weight))
        return pa.concat_tables(parts).combine_chunks()

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        gathered = pa.concat_tables(tables).combine_chunks()
        parts = [gathered.slice(0, 0)]
        for name, label, rows in self._groups(gathered):
            width = float(rows["width"].to_numpy().max())
            cells, counts = rows["cell"].to_numpy(), rows["count"].to_numpy()
            parts.append(self._counted(label, name, cells, width, counts))
        return pa.concat_tables(parts).combine_chunks()

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any] | None:
        centers: dict[str, dict[str, list[float]]] = {}
        for (name, label), center in self.around.items():
            centers.setdefault(name, {})[label] = list(center)
        coarse = False
        for name, label, rows in self._groups(statistics):
            cells = self._cells(name, label, rows)
            low, median, high = fitting.quartiles(cells.values, cells.counts)
            if high - low < _FINE * cells.width:
                coarse = True
                _, scale = fitting.robust_scale(cells.values, cells.counts)
                finer = float(max(scale if high > low else 0.0, cells.width / 4.0))
                centers.setdefault(name, {})[str(label.as_py())] = [float(median), finer]
        return {"around": centers} if coarse else None

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        found = {
            (name, label.as_py()): self._cells(name, label, rows)
            for name, label, rows in self._groups(statistics)
        }
        cells = []
        for name in self.features.names:
            floor = self._floor([one for (column, _), one in found.items() if column == name])
            for label in classes.to_pylist():
                one = found.get((name, label))
                if one is None:
                    raise pc.DataError(
                        f"class {label!r} has no value in column {name!r}; drop the class, or "
                        "leave the column out."
                    )
                fit = fitting.fit(one.values, one.counts, floor, self.freedom)
                cells.append((label, name, float(one.counts.sum()), *fit))
        labels, *columns = zip(*cells, strict=True)
        names = ("feature", "count", *fitting.Fit._fields)
        parameters = pa.table(
            {"class": pa.array(labels, classes.type), **dict(zip(names, columns, strict=True))}
        )
        return with_notes(
            parameters, estimator=self.name, features=self.features.names, options=self.options
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> StudentTLikelihood:
        return StudentTLikelihood(parameters, classes)

    def _counted(
        self, label: pa.Scalar, name: str, cells: FloatArray, width: float, counts: Any
    ) -> pa.Table:
        """One class and feature, no cell twice."""
        if (name, str(label.as_py())) in self.around:
            values, place = np.unique(cells, return_inverse=True)
            sums = np.bincount(place, counts, minlength=len(values)).astype(np.float64)
        else:
            one = histogram(cells, width, np.zeros(len(cells), np.intp), counts, 1, self.cells)
            values, width, sums = one.values, one.width, one.counts[0]
        size = len(values)
        return pa.table(
            {
                "class": pa.array([label.as_py()] * size, label.type),
                "feature": pa.array([name] * size, pa.string()),
                "cell": values,
                "width": np.full(size, width),
                "count": sums,
            }
        )

    def _groups(self, statistics: pa.Table) -> Iterator[tuple[str, pa.Scalar, pa.Table]]:
        """The rows of each feature and class that has any, in order."""
        keys = [("feature", "ascending"), ("class", "ascending"), ("cell", "ascending")]
        ordered = statistics.sort_by(keys).combine_chunks()
        if ordered.num_rows:
            names, labels = (ordered[key].combine_chunks() for key in ("feature", "class"))
            codes = [one.dictionary_encode().indices.to_numpy() for one in (names, labels)]
            changes = np.any([np.diff(code) != 0 for code in codes], axis=0)
            starts = [0, *(np.flatnonzero(changes) + 1).tolist(), ordered.num_rows]
            for start, stop in itertools.pairwise(starts):
                yield names[start].as_py(), labels[start], ordered.slice(start, stop - start)

    def _cells(self, name: str, label: pa.Scalar, rows: pa.Table) -> _Cells:
        cells, counts = rows["cell"].to_numpy(), rows["count"].to_numpy()
        center = self.around.get((name, str(label.as_py())))
        if center is None:
            width = float(rows["width"].to_numpy().max())
            return _Cells(cells + 0.5 * width, counts, width)
        location, scale = center
        with np.errstate(over="ignore"):
            values = location + scale * np.sinh((cells + 0.5) * _STEP)
            median = fitting.quartiles(values, counts)[1]
            width = float(np.hypot(scale, median - location)) * _STEP
        return _Cells(values, counts, width)

    def _floor(self, cells: Sequence[_Cells]) -> float:
        """The smallest scale of a feature; 0 would be a density that is infinite."""
        if not cells:
            return pc.POINT_MASS_WIDTH
        values = np.concatenate([one.values for one in cells])
        counts = np.concatenate([one.counts for one in cells])
        order = np.lexsort((counts, values))
        _, scale = fitting.robust_scale(values[order], counts[order])
        return max(self.scale_floor * scale, pc.POINT_MASS_WIDTH)


class StudentTLikelihood:
    """log p(x | c): the sum over the features that are there of log t(x; μ, σ, ν).

    Args:
        parameters: of `StudentT`.
        classes: ``k`` labels.
    """

    normalized = True

    def __init__(self, parameters: pa.Table, classes: pa.Array) -> None:
        self.features: list[str] = notes_of(parameters)["features"]
        rows = label_codes(parameters["class"], classes)
        columns = label_codes(parameters["feature"], pa.array(self.features, pa.string()))
        tables = np.empty((3, len(classes), len(self.features)))
        for table, name in zip(tables, fitting.Fit._fields, strict=True):
            table[rows, columns] = parameters[name].to_numpy()
        self.location, self.scale, self.freedom = tables
        self.constant = fitting.log_normalizer(self.freedom) - np.log(self.scale)

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.zeros((batch.num_rows, len(self.location)))
        for column, name in enumerate(self.features):
            values = numeric_column(batch, name)
            missing = np.isnan(values)
            freedom, scale = self.freedom[:, column], self.scale[:, column]
            with np.errstate(over="ignore"):
                distance = np.where(missing, 0.0, values)[:, None] - self.location[:, column]
            kernel = fitting.log_kernel(distance, scale, freedom)
            density = self.constant[:, column] - 0.5 * (freedom + 1.0) * kernel
            result += np.where(missing[:, None], 0.0, density)
        return result


def _numbers(values: FloatArray, location: float, scale: float) -> FloatArray:
    """The numbers of the cells around a center that values fall into."""
    with np.errstate(over="ignore"):
        z = np.clip((values - location) / scale, -_FARTHEST, _FARTHEST)
    numbers: FloatArray = np.floor(np.arcsinh(z) / _STEP)
    return numbers + 0.0  # −0.0 becomes 0.0


def _centers(around: Any) -> dict[tuple[str, str], tuple[float, float]]:
    """Feature and class to location and scale.

    Raises:
        SpecError: it is no such table, or a scale is not above 0.
    """
    try:
        centers = {
            (str(name), str(label)): (float(location), float(scale))
            for name, by_class in around.items()
            for label, (location, scale) in by_class.items()
        }
    except (AttributeError, TypeError, ValueError):
        centers = {("", ""): (0.0, 0.0)}
    if not all(np.isfinite(location) and scale > 0.0 for location, scale in centers.values()):
        raise pc.SpecError(
            f"student_t: around must give each column a table of classes with [location, scale], "
            f"scales above 0, got {around!r}."
        )
    return centers
