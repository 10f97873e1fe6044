"""Independent features with the density of Student's t, fitted to counts on grids.

The first pass counts the distinct values of each class, or cells of equal width if there are too
many distinct values. That is fine enough unless the tails are so long that cells wide enough to
reach the outliers are too coarse for the middle. Then another pass counts on a grid that follows
the density: equal steps of asinh((x − m) / s), around the median m and scale s that the previous
pass found. Its cells are narrow in the middle and grow with the distance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

import probclass_core as pc
from probclass_core.authoring import (
    FINITE,
    POSITIVE,
    ColumnDensity,
    EstimatorOptions,
    FloatArray,
    OptionPath,
    Rows,
    check_row_counts,
    histogram,
    number,
    option,
    whole,
)
from probclass_student_t import fitting

_STEP = 1.0 / 64.0
"""Width of a cell of a second pass: a 64th of the scale in the middle, of the distance far out."""

_FINE = 16.0
"""Fewest cells between the quartiles that need no further pass."""

_FARTHEST = 1e300

_CENTERS = "a table of columns and classes with [location, scale], scales above 0"


def _parse_centers(path: OptionPath, value: Any) -> dict[tuple[str, str], tuple[float, float]]:
    """Location and scale by feature and class."""
    try:
        centers = {
            (str(name), str(label)): (float(location), float(scale))
            for name, by_class in value.items()
            for label, (location, scale) in by_class.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise path.error(_CENTERS, value) from error
    if not all(np.isfinite(location) and scale > 0.0 for location, scale in centers.values()):
        raise path.error(_CENTERS, value)
    return centers


class _Cells(NamedTuple):
    """Counts of the values of one class and feature.

    Attributes:
        values: middle of each cell, ascending, in the column's unit, ``(n,)``.
        counts: Σ w, ``(n,)``.
        width: width of the cell at the median, in the column's unit; 0 for distinct values.
    """

    values: FloatArray
    counts: FloatArray
    width: float


class StudentT(ColumnDensity):
    """Independent features with Student's t given the class: a location, a scale and heavy tails.

    Statistics: class, feature, cell (a distinct value, the lower edge of a cell, or the number of a
    cell around a center), width (0 for a value), count (Σ w).
    Parameters: class, feature, count, location, scale, degrees_of_freedom.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "student_t"
    parameters = {"location": FINITE, "scale": POSITIVE, "degrees_of_freedom": POSITIVE}
    passes = 3

    class Options(EstimatorOptions):
        """Options of `StudentT`."""

        degrees_of_freedom: float | None = number(
            None,
            at_least=fitting.LEAST_FREEDOM,
            doc="ν of every class and feature; by default it is estimated for each.",
        )
        scale_floor: float = number(
            1e-9,
            doc="Smallest scale, as a fraction of the feature's scale, classes pooled; 0 keeps a "
            "zero scale as a point mass.",
        )
        cells: int = whole(
            4096,
            at_least=4,
            doc="Largest number of distinct values of a class that are counted as they are; more "
            "are counted on a grid.",
        )
        around: dict[tuple[str, str], tuple[float, float]] = option(
            {},
            _parse_centers,
            expected=_CENTERS,
            doc="Centers of grids whose cells grow with the distance; set by a fit that needs "
            "another pass.",
        )

    options: Options

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        codes = classes.indices.to_numpy(zero_copy_only=False)
        parts = []
        for name in self.features.names:
            values = rows.numbers(name)
            for code, label in enumerate(classes.dictionary.to_pylist()):
                own = (codes == code) & ~np.isnan(values)
                cells, width = values[own], 0.0
                center = self.options.around.get((name, str(label)))
                if center is not None:
                    cells, width = _cell_numbers(cells, *center), _STEP
                weight = None if weights is None else weights[own]
                parts.append(self._counted(classes.dictionary[code], name, cells, width, weight))
        return pa.concat_tables(parts).combine_chunks()

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        statistics = pa.concat_tables(tables).combine_chunks()
        parts = [statistics.slice(0, 0)]
        for name, label, rows in self._groups(statistics):
            width = float(rows["width"].to_numpy().max())
            cells, counts = rows["cell"].to_numpy(), rows["count"].to_numpy()
            parts.append(self._counted(label, name, cells, width, counts))
        return pa.concat_tables(parts).combine_chunks()

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any] | None:
        centers: dict[str, dict[str, list[float]]] = {}
        for (name, label), center in self.options.around.items():
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

    def fit(
        self, statistics: pa.Table, classes: pa.Array, notes: list[str]
    ) -> Mapping[str, dict[str, FloatArray]]:
        observed: dict[str, dict[Any, _Cells]] = {}
        for name, label, rows in self._groups(statistics):
            observed.setdefault(name, {})[label.as_py()] = self._cells(name, label, rows)
        labels, fitted = classes.to_pylist(), {}
        for name, by_class in observed.items():
            none = np.array([label not in by_class for label in labels])
            self.note("no value", name, classes, none, notes)
            everything = _together(by_class.values())
            _, scale = fitting.robust_scale(everything.values, everything.counts)
            floor = max(self.options.scale_floor * scale, pc.POINT_MASS_WIDTH)
            cells = [by_class.get(label, everything) for label in labels]
            freedom = self.options.degrees_of_freedom
            fits = [fitting.fit(each.values, each.counts, floor, freedom) for each in cells]
            counts = [by_class[each].counts.sum() if each in by_class else 0.0 for each in labels]
            columns = zip(self.parameters, np.array(fits).T, strict=True)
            fitted[name] = {"count": np.array(counts), **dict(columns)}
        return fitted

    def log_density(self, x: Any, p: Any) -> Any:
        # The kernel log(1 + z² / ν) is computed in logs, so that no square overflows.
        z = np.log(np.absolute(x - p.location)) - np.log(p.scale)
        kernel = np.logaddexp(0.0, 2.0 * z - np.log(p.degrees_of_freedom))
        peak = fitting.log_normalizer(p.degrees_of_freedom) - np.log(p.scale)
        return peak - 0.5 * (p.degrees_of_freedom + 1.0) * kernel

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        check_row_counts(statistics, classes, ["feature"], features=self.features.names)

    def _counted(
        self, label: pa.Scalar, name: str, cells: FloatArray, width: float, counts: Any
    ) -> pa.Table:
        """Statistics of one class and feature, with each cell once."""
        if (name, str(label.as_py())) in self.options.around:
            values, position = np.unique(cells, return_inverse=True)
            sums = np.bincount(position, counts, minlength=len(values)).astype(np.float64)
        else:
            group = np.zeros(len(cells), np.intp)
            grid = histogram(cells, width, group, counts, 1, self.options.cells)
            values, width, sums = grid.values, grid.width, grid.counts[0]
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
        """Feature, class and rows of each pair that has any, in order."""
        keys = [("feature", "ascending"), ("class", "ascending"), ("cell", "ascending")]
        ordered = statistics.sort_by(keys).combine_chunks()
        if ordered.num_rows:
            names, labels = (ordered[key].combine_chunks() for key in ("feature", "class"))
            codes = [keys.dictionary_encode().indices.to_numpy() for keys in (names, labels)]
            changes = np.any([np.diff(code) != 0 for code in codes], axis=0)
            starts = [0, *(np.flatnonzero(changes) + 1).tolist(), ordered.num_rows]
            for start, stop in itertools.pairwise(starts):
                yield names[start].as_py(), labels[start], ordered.slice(start, stop - start)

    def _cells(self, name: str, label: pa.Scalar, rows: pa.Table) -> _Cells:
        cells, counts = rows["cell"].to_numpy(), rows["count"].to_numpy()
        center = self.options.around.get((name, str(label.as_py())))
        if center is None:
            width = float(rows["width"].to_numpy().max())
            return _Cells(cells + 0.5 * width, counts, width)
        location, scale = center
        with np.errstate(over="ignore"):
            values = location + scale * np.sinh((cells + 0.5) * _STEP)
            median = fitting.quartiles(values, counts)[1]
            width = float(np.hypot(scale, median - location)) * _STEP
        return _Cells(values, counts, width)


def _together(cells: Iterable[_Cells]) -> _Cells:
    """The counts of all classes, in the order of their values."""
    values, counts, widths = zip(*cells, strict=True)
    all_values, all_counts = np.concatenate(values), np.concatenate(counts)
    order = np.lexsort((all_counts, all_values))
    return _Cells(all_values[order], all_counts[order], max(widths))


def _cell_numbers(values: FloatArray, location: float, scale: float) -> FloatArray:
    """The number of each value's cell on the grid around a center."""
    with np.errstate(over="ignore"):
        z = np.clip((values - location) / scale, -_FARTHEST, _FARTHEST)
    numbers: FloatArray = np.floor(np.arcsinh(z) / _STEP)
    return numbers + 0.0  # −0.0 becomes 0.0
