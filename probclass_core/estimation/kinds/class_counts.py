"""Counts of the rows of each class.

The table has one row per class, ascending: class, rows, count (Σ w).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, class_type, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, StoreError
from probclass_core.estimation.tidy import Range, sum_counts
from probclass_core.spec.model_spec import ModelSpec, category_text

MAX_CLASSES = 10_000
"""Largest number of classes, unless the spec has another one; see `most_classes`."""

_FEW_CLASSES, _LEAST_ROWS = 100, 5
"""For more classes, average number of rows of a class; an id has fewer."""

_FEW_INTEGERS, _LEAST_ROWS_OF_INTEGER = 1000, 50
"""The same for integers, which may be a measurement."""


@dataclass(frozen=True)
class ClassCounts:
    """The classes of a model.

    Attributes:
        spec: the model.
        label_type: type of the labels.
    """

    spec: ModelSpec
    label_type: pa.DataType

    sums: ClassVar = ("count",)

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        codes = classes.indices.to_numpy(zero_copy_only=False)
        size = len(classes.dictionary)
        number = np.bincount(codes, minlength=size)
        counts = number if weights is None else np.bincount(codes, weights, minlength=size)
        ascending = pc.sort_indices(classes.dictionary).to_numpy()
        present = ascending[number[ascending] > 0]
        return pa.table(
            {
                "class": classes.dictionary.take(pa.array(present)),
                "rows": number[present],
                "count": counts[present].astype(np.float64),
            }
        )

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The classes of all tables, which may be none.

        Raises:
            DataError: if there are more than `most_classes`.
        """
        tables = [table for table in tables if table.num_rows]  # without rows of any type
        if not tables:
            kinds = {"class": self.label_type, "rows": pa.int64(), "count": pa.float64()}
            return pa.schema(kinds).empty_table()
        classes = sum_counts(tables, ["class"], ["rows", "count"])
        check_classes(classes, self.spec, None)
        return classes

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        schema = table.schema
        kinds = [("class", class_type(self.label_type)), ("rows", pa.int64())]
        if schema.remove_metadata() != pa.schema([*kinds, ("count", pa.float64())]):
            raise StoreError(f"the classes are {schema.names}, or of other types.")
        labels = table["class"].combine_chunks()
        if labels.null_count or not labels.equals(sorted_classes(labels)):
            raise StoreError("the classes are not in order, or one is null or repeated.")
        Range(low=1).check("rows", table["rows"])
        Range(low=np.finfo(np.float64).tiny).check("count", table["count"])
        if self.spec.weight is None and not np.array_equal(*table.select(["rows", "count"])):
            raise StoreError("the counts of the classes are not those of the rows.")


def check_classes(classes: pa.Table, spec: ModelSpec, rows: int | None) -> None:
    """Refuse a label that is a measurement or an id, before an estimator works on its values.

    Args:
        classes: the classes, or those of the first rows.
        spec: the model.
        rows: number of rows of the training, or more; None if unknown.

    Raises:
        DataError: if there are more than `most_classes`.
    """
    is_integer = pa.types.is_integer(classes.schema.field("class").type)
    if classes.num_rows <= most_classes(spec, is_integer=is_integer, rows=rows):
        return
    found = f"label {spec.label!r} has at least {classes.num_rows:,} different values"
    if spec.max_classes is not None:
        raise DataError(f"{found}, and the spec allows max_classes = {spec.max_classes:,}.")
    values = ", ".join(category_text(value.as_py()) for value in classes["class"][:3])
    of_rows = "" if rows is None else f" in {rows:,} rows"
    raise DataError(
        f"{found}{of_rows} ({values}, …), as a measurement or an id has: too many for classes. Bin "
        "or group them first; if they are the classes, set max_classes in the ModelSpec or its "
        "file, or as an argument of fit and ModelSpec.auto (--max-classes)."
    )


def most_classes(spec: ModelSpec, *, is_integer: bool, rows: int | None) -> int:
    """Largest number of classes: that of the spec, or else one that leaves each enough rows.

    By default it is `MAX_CLASSES`. More than 100 classes need 5 rows each, on average; more than
    1,000 that are integers need 50.

    Args:
        spec: the model.
        is_integer: whether the label is integers.
        rows: number of rows of the training, or None if unknown.
    """
    if spec.max_classes is not None:
        return spec.max_classes
    if rows is None:
        return MAX_CLASSES
    most = min(MAX_CLASSES, max(_FEW_CLASSES, rows // _LEAST_ROWS))
    if is_integer:
        most = min(most, max(_FEW_INTEGERS, rows // _LEAST_ROWS_OF_INTEGER))
    return most
