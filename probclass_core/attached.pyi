"""What `attached` has when the code runs, for type checkers and editors.

A test compares the signatures and the documentation with those of the functions.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from matplotlib.figure import Figure

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.arguments import ColumnName
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.progress import ProgressOption
from probclass_core.io.filters import Where
from probclass_core.plots.methods import EvaluationPlots, ModelPlots
from probclass_core.scoring.options import ScoringOption
from probclass_core.spec.model_spec import (
    PARTITIONS,
    Effort,
    GroupsOption,
    HalfLifeOption,
    ModelSpec,
    OnScarce,
    Prior,
)
from probclass_core.store.evaluations import EvaluationRecord
from probclass_core.store.statistics_cache import CacheOption

class ModelMethods:
    def linear_form(
        self,
    ) -> pa.Table:
        """log p(x, c) as a linear function of the features, up to a term common to all classes.

        It applies to rows without nulls and includes neither block weights nor a calibration.

        Returns:
            class, feature, weight: for each class one row per feature, and one row with a null
            feature for the intercept, which includes log P(c).

        Raises:
            NotSupportedError: if a block is not linear in its features.
        """

    @property
    def plot(self) -> ModelPlots:
        """Plots of a model: of its columns, and of what it says about rows.

        They need matplotlib: ``pip install 'probclass[plots]'``.
        """

    def predict_table(self, data: Any, *, options: ScoringOption = None) -> pa.Table:
        """The rows with their predictions, in memory: the columns that `pipeline.score` writes.

        Args:
            data: table or frame with the feature columns; see `arrays.as_table`.
            options: columns of the data to keep, posterior, decision, prior, rarity, rare and
                contributions of `ScoringOptions`, or a mapping of them; no others.

        Returns:
            One row per row of the data: the columns that are kept, then ``prediction``,
            ``probability`` and the others of `BatchScorer`.

        Raises:
            DataError: if a column is missing, has an unsuitable type, or is infinite.
            SpecError: if a column has the name of a scored one, an option is not one of its
                choices, or the rule does not fit the model.
        """

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        source: Any = None,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        evaluation: Evaluation | EvaluationRecord | None = None,
        title: str | None = None,
        progress: ProgressOption = None,
    ) -> None:
        """Write the report of a model: one HTML page that loads nothing from anywhere.

        It says how good the model is next to its class prior, which columns matter, what each of
        them does, and what the model is: classes, blocks, training.
        Without an evaluation, it has what the training recorded. Plots need matplotlib
        (``pip install 'probclass[plots]'``); without it, the rest is written.

        Args:
            path: file to write, such as ``"air.html"``.
            source: labeled rows to evaluate the model on, and to measure the importance of its
                columns with; as for `pipeline.evaluate`. Rows that training has not seen, best.
            partition: partition of the source to read.
            where: rows of the source to read.
            evaluation: evaluation of the model to show, also one that a store recorded.
            title: title of the page; by default the label.
            progress: True for bars while rows are evaluated and plots are drawn, or a function that
                the numbers of rows, and then of plots, are reported to.

        Raises:
            SpecError: if the evaluation is of another model, or rows are selected without a source.
            DataError, TableError: as `pipeline.evaluate`; also if the file cannot be written.
        """

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a model to a folder of its own, in one step; `load` reads it.

        The files are Arrow tables and JSON with a checksum of each. A `ModelStore` keeps versions.

        Args:
            path: path or URI of the folder. It must not exist, unless it has this model already.
            options: arguments of the file system of a URI, as in a `TableRef`.

        Raises:
            StoreError: if the path contains anything else, or the file system refuses.
        """

    def to_sql(
        self,
        *,
        dialect: str,
        source: str | Sequence[str],
        options: ScoringOption = None,
        view: str | Sequence[str] | None = None,
    ) -> str:
        """The query that scores a table where it is: the scored table of `score`, as one SELECT.

        Rows that `score` raises an error about, such as those with an infinite number, have null in
        every scored column but ``model_id``.

        Args:
            dialect: ``"duckdb"``, ``"postgres"``, ``"sqlite"``, ``"spark"``, ``"datafusion"`` or
                ``"clickhouse"``.
            source: name of the table, such as ``schema.table``, or its parts as a list; or a query
                in parentheses, which is not quoted.
            options: columns to copy, by default none, and posterior, decision, prior, rarity, rare
                and contributions of `ScoringOptions`, or a mapping of them; no others.
            view: name of a view to create; by default the text is the SELECT alone.

        Returns:
            SQL without a semicolon at its end.

        Raises:
            SpecError: if the dialect is unknown, the engine cannot have one of the names, or the
                options do not fit the model.
            NotSupportedError: if a block has no formula, saying why.
        """

class ModelSpecMethods:
    @staticmethod
    def auto(
        source: Any,
        label: ColumnName | None,
        *,
        effort: Effort = "default",
        weight: ColumnName | None = None,
        exclude: str | Iterable[str] = (),
        prior: Prior = "empirical",
        on_scarce: OnScarce = "pool",
        max_classes: int | None = None,
        groups: GroupsOption = PARTITIONS,
        half_life: HalfLifeOption = None,
        sql: bool = False,
        like: ModelSpec | None = None,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        cache: CacheOption = None,
        engine: EngineOption = None,
        workers: int | None = None,
        progress: ProgressOption = None,
    ) -> ModelSpec:
        """A spec for a table: what each column is, and which blocks tell the classes apart.

        It reads the rows once and chooses blocks on a sample of at most 32,768 of them. Blocks have
        fitted weights, see `block_weights`; the fewest that predict as well as all are kept:

        - ``"fast"``: a block for each column. Numbers are ``discretized``, text, bools and integers
          with few values ``categorical``, lists and maps of terms ``multinomial``.
        - ``"default"``: also a block for each of up to 60 pairs of columns that depend on each
          other within the classes, and of up to 20 pairs of numbers in finer bins, blocks for up to
          30 groups of three to five columns that tell of the class only together, and normal
          densities of all numbers. All are closed forms; but up to 4,096 rows without groups, dates
          and times also have densities of neighbors where these lower the log loss by 5 %.
        - ``"best"``: also densities of nearest neighbors of all numbers, which score more slowly.

        Columns without values, constants, keys, copies of the label, dates as text, and types that
        no estimator models are left out. Dates and times are tried by their parts: the hour if the
        times of day differ, the weekday if the rows cover two weeks, the month if they cover a
        year. Text that is numbers but for a few markers such as ``?`` or ``NA`` is read as numbers.
        `notes` of the spec has each decision as a sentence.

        Without a label the spec is a density of all rows: all numbers are one ``knn_density`` block
        of at most 16,384 points, a sample, at distances in units of the quartiles of each column;
        every other column is counted alone, a null as a value of its own. With `sql`, or the effort
        ``"fast"``, it is a closed form: bins and counts of each column, which `sql` alone
        conditions on the other column that it depends on most. Its log p(x) is
        `Model.score_samples`.

        Given a schema, or a reader, whose rows can be read only once, the columns are what their
        types say, and the effort is ``"fast"``.

        Args:
            source: table, path, frame or dataset, see `open_table`; or a schema.
            label: the class column; None for a density of all rows.
            effort: ``"fast"``, ``"default"`` or ``"best"``.
            weight: the column of sample weights, or None.
            exclude: column to leave out, or several; also parts of dates such as ``hour(pickup)``.
            prior: as for `ModelSpec`.
            on_scarce: as for `ModelSpec`. With ``"error"``, joint densities that the sample does
                not suffice for are left out.
            max_classes: as for `ModelSpec`.
            groups: as for `ModelSpec`; blocks are chosen by what they say of rows of other groups.
            half_life: as for `ModelSpec`; blocks are chosen on rows that all count the same.
            sql: whether SQL will score the rows, which cannot search for neighbors: no block does.
            like: an earlier spec, such as that of yesterday's model. Its blocks are kept, cuts of
                pairs included, if their log loss on the sample is at most 1 % above that of the
                blocks found now; then a fit with the same `cache` reads new units only.
            partition: partition to read, as for `fit`, like the arguments that follow.
            where: rows to read.
            cache: model store in which the statistics of units are cached.
            engine: engine that reads and summarizes. The spec does not depend on it.
            workers: number of workers of the engine.
            progress: True for a bar, or a function that progress is reported to.

        Raises:
            SpecError: if a named column is missing, no column is left to model, `effort` is
                unknown, a schema has a column of a type that no estimator models by default, or
                `like` is not a spec for this label.
            DataError: if a column contains an invalid value, or the label too many values.
            TableError: if the table or partition does not exist or cannot be read.
        """

class EvaluationMethods:
    @property
    def plot(self) -> EvaluationPlots:
        """Plots of an evaluation.

        They need matplotlib: ``pip install 'probclass[plots]'``.
        """

class ExplanationMethods:
    def plot(
        self,
        row: int | None = None,
    ) -> Figure:
        """Plot how the log odds of one row come about, from the prior to the posterior.

        Each bar begins where the one before it ends: blue bars are for the prediction, red ones are
        against it.

        Args:
            row: number of the row; None for the first of the explanation.

        Returns:
            A matplotlib figure.

        Raises:
            DataError: if the explanation does not have the row, or is of a model of one class.
            NotSupportedError: if matplotlib is not installed.
        """
