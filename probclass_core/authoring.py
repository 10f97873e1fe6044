"""What the author of an estimator needs beside the contract, in one place.

Options and types, so that refusals read alike:
    `read_options`, `number_option`, `choice_option`, `require_types`, `is_numeric_type`,
    `is_category_type`.
From Arrow to NumPy, nulls, dictionaries and every accepted type dealt with:
    `numeric_column`, `numeric_matrix`, `missing_patterns`, `category_codes`, `MISSING`, and the
    array types `FloatArray`, `IntArray`, `BoolArray`.
Classes:
    `ByClass`, `label_codes`, `sorted_classes`.
Moments, so that none are merged by E[x²] − E[x]²:
    `Moments`, `column_moments`, `merge_moments`.
Counts on a grid that merge to the same bits in any order, in bounded memory:
    `Histogram`, `histogram`.
Notes in a table's schema metadata:
    `with_notes`, `notes_of`.

These names are as public as those of `probclass_core` and change with `PROBCLASS_API` only; the
modules they come from are not.
"""

from probclass_core.arrow.arrays import (
    MISSING,
    BoolArray,
    ByClass,
    FloatArray,
    IntArray,
    category_codes,
    is_numeric_type,
    label_codes,
    missing_patterns,
    numeric_column,
    numeric_matrix,
    sorted_classes,
)
from probclass_core.arrow.types import is_category_type
from probclass_core.estimation.contract import (
    choice_option,
    notes_of,
    number_option,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.estimation.histogram import Histogram, histogram
from probclass_core.estimation.moments import Moments, column_moments, merge_moments

__all__ = [
    "MISSING",
    "BoolArray",
    "ByClass",
    "FloatArray",
    "Histogram",
    "IntArray",
    "Moments",
    "category_codes",
    "choice_option",
    "column_moments",
    "histogram",
    "is_category_type",
    "is_numeric_type",
    "label_codes",
    "merge_moments",
    "missing_patterns",
    "notes_of",
    "number_option",
    "numeric_column",
    "numeric_matrix",
    "read_options",
    "require_types",
    "sorted_classes",
    "with_notes",
]
