"""Helpers for authors of estimators, in addition to the contract.

Options, declared once with type, default, bounds and description:
    `EstimatorOptions`, `number`, `whole`, `choice`, `flag`, `option`, `OptionPath`, `parse_number`;
    unchecked, from a dict of defaults: `read_options`, `number_option`.
Types of columns that an estimator models:
    `NUMBERS`, `CATEGORIES`, `ColumnTypes`; `require_types`, `is_numeric_type`, `is_category_type`.
From Arrow to NumPy, for nulls, dictionaries and every accepted type:
    `numeric_column`, `numeric_matrix`, `missing_patterns`, `category_codes`, `MISSING`, and the
    array types `FloatArray`, `IntArray`, `BoolArray`.
Classes:
    `ByClass`, `label_codes`, `sorted_classes`.
Tables with one row per class and cell, as arrays and back, and notes in their schema metadata:
    `tidy_table`, `dense_arrays`, `sum_counts`, `with_notes`, `notes_of`.
What the numbers of a table may be, checked when it is read from a store:
    of parameters `check_parameters`, of statistics `check_row_counts`; `Range`, `COUNT`, `FINITE`,
    `NOT_NEGATIVE`, `PROBABILITY`, `LOG_PROBABILITY`.
Moments, which are never merged as E[x²] − E[x]²:
    `Moments`, `column_moments`, `merge_moments`.
Counts on a grid, which merge to the same bits in any order and in bounded memory:
    `Histogram`, `histogram`.
Log-likelihoods as formulas, from which SQL is made; see ``formula`` in `FormulaLikelihood`:
    `Formula`, `Expression`, `Condition`, `Column`, `Distance`, `Function`, `Case`, `Named`,
    `Lookup` with `Categories` and `Bins`, `IMPOSSIBLE`, `as_expression`, `if_known`, `ln`,
    `positive`, `within`, `square`, `log_one_plus`, `log_one_plus_square`, `log_gamma`,
    `log_rising`.
Statistics that a database computes; see ``aggregates`` in `AggregatedEstimator`:
    `Sums` of expressions and `Deviation`s, from which `ClassSums` come; `DistinctRows`; `known`.

These names are as public as those of `probclass_core` and change only with `PROBCLASS_API`; the
modules that define them are private.
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
from probclass_core.estimation.aggregates import (
    ClassSums,
    Deviation,
    DistinctRows,
    Sums,
    known,
)
from probclass_core.estimation.column_density import ABOVE_0, BELOW_1, ByName, ColumnDensity
from probclass_core.estimation.density import HistogramDensity, SpreadOptions, Terms
from probclass_core.estimation.formulas import (
    IMPOSSIBLE,
    Bins,
    Case,
    Categories,
    Column,
    Condition,
    Distance,
    Expression,
    Formula,
    Function,
    Lookup,
    Named,
    as_expression,
    if_known,
    ln,
    log_gamma,
    log_one_plus,
    log_one_plus_square,
    log_rising,
    positive,
    square,
    within,
)
from probclass_core.estimation.histogram import Histogram, histogram
from probclass_core.estimation.kinds.histogram import Counts
from probclass_core.estimation.moments import Moments, column_moments, merge_moments
from probclass_core.estimation.options import (
    CATEGORIES,
    NUMBERS,
    ColumnTypes,
    EstimatorOptions,
    OptionPath,
    choice,
    flag,
    number,
    number_option,
    option,
    parse_number,
    read_options,
    require_types,
    whole,
)
from probclass_core.estimation.parameters import (
    COUNT,
    FINITE,
    LOG_PROBABILITY,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    Range,
    check_parameters,
    check_row_counts,
)
from probclass_core.estimation.tidy import (
    dense_arrays,
    notes_of,
    sum_counts,
    tidy_table,
    with_notes,
)

__all__ = [
    "ABOVE_0",
    "BELOW_1",
    "CATEGORIES",
    "COUNT",
    "FINITE",
    "IMPOSSIBLE",
    "LOG_PROBABILITY",
    "MISSING",
    "NOT_NEGATIVE",
    "NUMBERS",
    "POSITIVE",
    "PROBABILITY",
    "Bins",
    "BoolArray",
    "ByClass",
    "ByName",
    "Case",
    "Categories",
    "ClassSums",
    "Column",
    "ColumnDensity",
    "ColumnTypes",
    "Condition",
    "Counts",
    "Deviation",
    "Distance",
    "DistinctRows",
    "EstimatorOptions",
    "Expression",
    "FloatArray",
    "Formula",
    "Function",
    "Histogram",
    "HistogramDensity",
    "IntArray",
    "Lookup",
    "Moments",
    "Named",
    "OptionPath",
    "Range",
    "SpreadOptions",
    "Sums",
    "Terms",
    "as_expression",
    "category_codes",
    "check_parameters",
    "check_row_counts",
    "choice",
    "column_moments",
    "dense_arrays",
    "flag",
    "histogram",
    "if_known",
    "is_category_type",
    "is_numeric_type",
    "known",
    "label_codes",
    "ln",
    "log_gamma",
    "log_one_plus",
    "log_one_plus_square",
    "log_rising",
    "merge_moments",
    "missing_patterns",
    "notes_of",
    "number",
    "number_option",
    "numeric_column",
    "numeric_matrix",
    "option",
    "parse_number",
    "positive",
    "read_options",
    "require_types",
    "sorted_classes",
    "square",
    "sum_counts",
    "tidy_table",
    "whole",
    "with_notes",
    "within",
]
