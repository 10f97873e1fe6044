"""Helpers for authors of plugins, in addition to `Density`, `Estimator` and `hookimpl`.

What hooks yield, beside the class of an estimator:
    `EstimatorPlugin`, a name and the address of a class; `TableFormat`; `EnginePlugin`, which opens
    an `Engine`. `PROBCLASS_API` is the version of all of it.
What an `Estimator` returns:
    `Likelihood`; `POINT_MASS_WIDTH`, the width of a point mass.
Densities of single columns:
    `HistogramDensity`; `SpreadOptions`; the ranges of parameters `POSITIVE`,
    `NOT_NEGATIVE`, `FINITE`, `PROBABILITY`, `COUNT`, `Range`; the open ends of a support `ABOVE_0`,
    `BELOW_1`; types for annotations `Terms`, `Counts`, `ByName`.
Options, declared once with type, default, bounds and description:
    `EstimatorOptions`, `number`, `whole`, `choice`, `flag`, `option`, `OptionPath`.
Types of columns that an estimator models:
    `NUMBERS`, `CATEGORIES`, `ColumnTypes`.
The rows of a batch as NumPy arrays, whatever their types, each column converted once:
    `Rows`; `MISSING`, the code of a null; the array types `FloatArray`, `IntArray`.
Positions of labels among the classes:
    `label_codes`.
Tables with one row per class and cell, as arrays and back, and notes in their schema metadata:
    `tidy_table`, `dense_arrays`, `sum_counts`, `with_notes`, `notes_of`.
Checks of parameters that are read from a store:
    `check_parameters`.
Kinds of statistics, which summarize, merge and check their tables; see `Estimator.kind`:
    `TermMoments`, `JointMoments`, `Grids`, `Points`.
A log-likelihood as a formula, from which SQL is made:
    `Formula`, `Column`, `if_known`.
The distribution of a column, which drift, health and plots show; see `MarginalLikelihood`:
    `Levels`, `Curve`.
Statistics that a database computes; see `Estimator.aggregates`:
    `Sums` of expressions and `Deviation`s, from which `ClassSums` come; `DistinctRows`; `known`.
Tables of other formats; see `TableFormat`:
    `Source`, `Plan` and `Unit` to read, `columns_and_filter` for the arguments of `plan`; `Sink`,
    `StagedPartition` and `StagedPart` to write, or `FileSink` for a file, and `hive_folder` for the
    folder of a partition; `Leftover`, and `table_leftovers` of a `FileSink`.

These names are as public as those of `probclass_core` and change only with `PROBCLASS_API`; the
modules that define them are private.
"""

from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    label_codes,
)
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.aggregates import (
    ClassSums,
    Deviation,
    DistinctRows,
    Sums,
)
from probclass_core.estimation.column_density import ABOVE_0, BELOW_1, ByName
from probclass_core.estimation.contract import POINT_MASS_WIDTH, Likelihood
from probclass_core.estimation.density import Counts, HistogramDensity, SpreadOptions, Terms
from probclass_core.estimation.formulas import (
    Column,
    Formula,
    if_known,
    known,
)
from probclass_core.estimation.kinds.grids import Grids
from probclass_core.estimation.kinds.joint_moments import JointMoments
from probclass_core.estimation.kinds.moments import TermMoments
from probclass_core.estimation.kinds.points import Points
from probclass_core.estimation.marginals import Curve, Levels
from probclass_core.estimation.options import (
    CATEGORIES,
    NUMBERS,
    ColumnTypes,
    EstimatorOptions,
    OptionPath,
    choice,
    flag,
    number,
    option,
    whole,
)
from probclass_core.estimation.parameters import (
    COUNT,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    Range,
    check_parameters,
)
from probclass_core.estimation.tidy import (
    dense_arrays,
    notes_of,
    sum_counts,
    tidy_table,
    with_notes,
)
from probclass_core.execution.engine import Engine
from probclass_core.io.commit.file_sink import FileSink
from probclass_core.io.commit.staging import table_leftovers
from probclass_core.io.parquet.partitions import hive_folder
from probclass_core.io.references import Leftover
from probclass_core.io.sink import Sink, StagedPart, StagedPartition
from probclass_core.io.table import Plan, Source, Unit, columns_and_filter
from probclass_core.plugins.descriptors import (
    PROBCLASS_API,
    EnginePlugin,
    EstimatorPlugin,
    TableFormat,
)

__all__ = [
    "ABOVE_0",
    "BELOW_1",
    "CATEGORIES",
    "COUNT",
    "FINITE",
    "MISSING",
    "NOT_NEGATIVE",
    "NUMBERS",
    "POINT_MASS_WIDTH",
    "POSITIVE",
    "PROBABILITY",
    "PROBCLASS_API",
    "ByName",
    "ClassSums",
    "Column",
    "ColumnTypes",
    "Counts",
    "Curve",
    "Deviation",
    "DistinctRows",
    "Engine",
    "EnginePlugin",
    "EstimatorOptions",
    "EstimatorPlugin",
    "FileSink",
    "FloatArray",
    "Formula",
    "Grids",
    "HistogramDensity",
    "IntArray",
    "JointMoments",
    "Leftover",
    "Levels",
    "Likelihood",
    "OptionPath",
    "Plan",
    "Points",
    "Range",
    "Rows",
    "Sink",
    "Source",
    "SpreadOptions",
    "StagedPart",
    "StagedPartition",
    "Sums",
    "TableFormat",
    "TermMoments",
    "Terms",
    "Unit",
    "check_parameters",
    "choice",
    "columns_and_filter",
    "dense_arrays",
    "flag",
    "hive_folder",
    "if_known",
    "known",
    "label_codes",
    "notes_of",
    "number",
    "option",
    "sum_counts",
    "table_leftovers",
    "tidy_table",
    "whole",
    "with_notes",
]
