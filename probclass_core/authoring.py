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

# `as` tells type checkers that a name is for others.
from probclass_core.arrow.arrays import MISSING as MISSING
from probclass_core.arrow.arrays import FloatArray as FloatArray
from probclass_core.arrow.arrays import IntArray as IntArray
from probclass_core.arrow.arrays import label_codes as label_codes
from probclass_core.arrow.rows import Rows as Rows
from probclass_core.estimation.column_density import ABOVE_0 as ABOVE_0
from probclass_core.estimation.column_density import BELOW_1 as BELOW_1
from probclass_core.estimation.column_density import ByName as ByName
from probclass_core.estimation.contract import POINT_MASS_WIDTH as POINT_MASS_WIDTH
from probclass_core.estimation.contract import Likelihood as Likelihood
from probclass_core.estimation.density import Counts as Counts
from probclass_core.estimation.density import HistogramDensity as HistogramDensity
from probclass_core.estimation.density import SpreadOptions as SpreadOptions
from probclass_core.estimation.density import Terms as Terms
from probclass_core.estimation.formulas import Column as Column
from probclass_core.estimation.formulas import Formula as Formula
from probclass_core.estimation.formulas import if_known as if_known
from probclass_core.estimation.formulas import known as known
from probclass_core.estimation.kinds.grids import Grids as Grids
from probclass_core.estimation.kinds.kind import ClassSums as ClassSums
from probclass_core.estimation.kinds.kind import Deviation as Deviation
from probclass_core.estimation.kinds.kind import DistinctRows as DistinctRows
from probclass_core.estimation.kinds.kind import Sums as Sums
from probclass_core.estimation.kinds.moments import JointMoments as JointMoments
from probclass_core.estimation.kinds.moments import TermMoments as TermMoments
from probclass_core.estimation.kinds.sample import Points as Points
from probclass_core.estimation.marginals import Curve as Curve
from probclass_core.estimation.marginals import Levels as Levels
from probclass_core.estimation.options import CATEGORIES as CATEGORIES
from probclass_core.estimation.options import NUMBERS as NUMBERS
from probclass_core.estimation.options import ColumnTypes as ColumnTypes
from probclass_core.estimation.options import EstimatorOptions as EstimatorOptions
from probclass_core.estimation.options import OptionPath as OptionPath
from probclass_core.estimation.options import choice as choice
from probclass_core.estimation.options import flag as flag
from probclass_core.estimation.options import number as number
from probclass_core.estimation.options import option as option
from probclass_core.estimation.options import whole as whole
from probclass_core.estimation.tidy import COUNT as COUNT
from probclass_core.estimation.tidy import FINITE as FINITE
from probclass_core.estimation.tidy import NOT_NEGATIVE as NOT_NEGATIVE
from probclass_core.estimation.tidy import POSITIVE as POSITIVE
from probclass_core.estimation.tidy import PROBABILITY as PROBABILITY
from probclass_core.estimation.tidy import Range as Range
from probclass_core.estimation.tidy import check_parameters as check_parameters
from probclass_core.estimation.tidy import dense_arrays as dense_arrays
from probclass_core.estimation.tidy import notes_of as notes_of
from probclass_core.estimation.tidy import sum_counts as sum_counts
from probclass_core.estimation.tidy import tidy_table as tidy_table
from probclass_core.estimation.tidy import with_notes as with_notes
from probclass_core.execution.engine import Engine as Engine
from probclass_core.io.commit.file_sink import FileSink as FileSink
from probclass_core.io.local_files import table_leftovers as table_leftovers
from probclass_core.io.parquet.discovery import hive_folder as hive_folder
from probclass_core.io.references import Leftover as Leftover
from probclass_core.io.sink import Sink as Sink
from probclass_core.io.sink import StagedPart as StagedPart
from probclass_core.io.sink import StagedPartition as StagedPartition
from probclass_core.io.table import Plan as Plan
from probclass_core.io.table import Source as Source
from probclass_core.io.table import Unit as Unit
from probclass_core.io.table import columns_and_filter as columns_and_filter
from probclass_core.plugins.hookspecs import PROBCLASS_API as PROBCLASS_API
from probclass_core.plugins.hookspecs import EnginePlugin as EnginePlugin
from probclass_core.plugins.hookspecs import EstimatorPlugin as EstimatorPlugin
from probclass_core.plugins.hookspecs import TableFormat as TableFormat
