"""Arrays, frames and labels of scikit-learn users as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from probclass_core.errors import DataError, one_of


def is_frame(X: Any) -> bool:
    """Whether X is a table of typed columns (pandas, polars, pyarrow), not an array or a series."""
    return hasattr(X, "__arrow_c_stream__") and len(getattr(X, "shape", ())) == 2


def array_columns(matrix: NDArray[Any]) -> list[pa.Array]:
    """The columns of an ``(n, d)`` array; NaN and None are null.

    Raises:
        TypeError, ValueError: if the objects of a column are neither all numbers nor all text.
    """
    return [_array_column(values) for values in np.ascontiguousarray(matrix.T)]


def _array_column(values: NDArray[Any]) -> pa.Array:
    if values.dtype.kind == "f" and values.itemsize not in (4, 8):
        values = values.astype(np.float64)
    try:
        column = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        column = None
    if column is None or pa.types.is_nested(column.type):
        # NumPy's error for a bad cell is the one that scikit-learn users know.
        column = pa.array(values.astype(np.float64), from_pandas=True)
    return column


def checked_labels(y: Any) -> NDArray[Any]:
    """Labels as an array ``(n,)``.

    Raises:
        ValueError: if scikit-learn does not accept y as classes.
    """
    if y is None:
        raise DataError("a classifier requires y to be passed, but the target y is None.")
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    if labels.dtype == object:
        nulls = 0
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # mixed types, refused below
            nulls = pa.array(labels, from_pandas=True).null_count
        if nulls:
            raise DataError(f"y contains NaN or None in {nulls} rows; leave these rows out.")
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def label_name(y: Any, taken: Sequence[str]) -> str:
    """The name of the label in the model: the name of the series y, else ``y``."""
    name = getattr(y, "name", None)
    return free_name(name if isinstance(name, str) and name else "y", taken)


def free_name(name: str, taken: Sequence[str]) -> str:
    """The name, followed by as many underscores as make it unique."""
    while name in taken:
        name += "_"
    return name


def arrow_classes(classes: NDArray[Any]) -> pa.Array:
    """Classes as a model stores them: text, bool, or int64, also for whole floats.

    Raises:
        DataError: if the classes have mixed types, or are numbers beyond int64.
    """
    try:
        if classes.dtype.kind in "iuf":
            return pa.array(classes).cast(pa.int64())
        return pa.array(classes.tolist())
    except pa.ArrowException as error:
        raise DataError(
            f"labels {one_of(classes)} have mixed types or are beyond int64; convert them to text."
        ) from error


def whole_as_integers(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The table with these columns as integers if they are whole floats; NaN becomes null."""
    for name in columns:
        column = table[name]
        if pa.types.is_floating(column.type):
            try:
                whole = pc.if_else(pc.is_nan(column), None, column).cast(pa.int64())
            except pa.ArrowInvalid:
                continue  # it has fractions; the estimator reports what it accepts
            table = table.set_column(table.column_names.index(name), name, whole)
    return table
