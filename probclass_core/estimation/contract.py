"""The contract of a likelihood estimator. Read this first if you write one.

An estimator models p(x | class) for one block of columns. It has four methods, and training and
scoring are nothing else than calling them::

    summarize   rows of one batch        -> sufficient statistics   (an Arrow table)
    merge       statistics of many parts -> statistics of all parts
    finalize    statistics               -> parameters              (an Arrow table)
    likelihood  parameters               -> log p(x | class), row by row

``fit`` is ``finalize(merge([summarize(rows) for rows in batches]))``. Threads, processes, mapped
Airflow tasks and Spark differ only in where ``summarize`` runs. They all give the same model
because every estimator obeys these laws, which the test kit checks:

1. **Merge in any order.** ``merge`` is associative and commutative up to floating-point rounding.
   The merge of a single table is equivalent to that table.
2. **Split anywhere.** ``summarize(a ++ b)`` equals ``merge([summarize(a), summarize(b)])``. Row
   order and batch size do not matter. Statistics are raw: pseudo-counts, floors, ridges and
   ``ddof`` are applied in ``finalize``, once, so they do not depend on the split.
3. **Weights count rows.** A row with weight 2 is equivalent to two such rows; a row with weight 0
   to no row.
4. **Classes are labels.** Statistics and parameters have a ``class`` column, so that parts are
   aligned by label. A class that is missing from one part needs no special case.
5. **Nulls are marginalized.** A null or NaN feature adds nothing in training. In scoring, the
   likelihood of a row is that of its other features; a row without any feature has log-likelihood
   0 in every class. An estimator may have an option that makes null a value like any other; then
   its attribute ``models_nulls`` is True.
6. **Log-likelihoods are numbers.** They are finite or −inf, never NaN and never +inf. A point mass,
   whose density is infinite, is treated as a density of width `POINT_MASS_WIDTH`.
7. **Parameters are tables.** They survive an Arrow IPC round trip, schema metadata included, and
   ``likelihood`` needs nothing else.
8. **Probabilities add up to 1.** A likelihood that says that it is ``normalized`` integrates to 1
   over its columns, or sums to 1 over their values, in every class. An estimator for which this is
   not true, such as one of nearest neighbors, sets ``proper = False``.

Most estimators read the rows once. One that needs several passes declares the largest number in
the attribute ``passes``, and its method ``refine`` returns the options for the next pass. Each pass
is an ordinary summary with other options, so every law applies to it, and caches, shards and
engines need not know about passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.display import counted
from probclass_core.errors import (
    DataError,
    NotSupportedError,
    PluginError,
    SpecError,
    one_of,
    shown,
)
from probclass_core.estimation.formulas import Formula
from probclass_core.estimation.kinds.kind import DistinctRows, Kind, Sums
from probclass_core.estimation.marginals import Marginal
from probclass_core.estimation.options import (
    ColumnTypes,
    EstimatorOptions,
    NoOptions,
    require_types,
)
from probclass_core.estimation.tidy import check_same, label_rows, scaled, with_notes

POINT_MASS_WIDTH = float(np.finfo(np.float64).tiny)
"""Width (σ, or radius) used in place of 0: the smallest normal double, so that logs are finite."""


class Likelihood(Protocol):
    """Parameters compiled for use on many batches."""

    normalized: bool
    """Whether the values are log densities; if not, a term common to all classes is missing."""

    def log_likelihood(self, rows: Rows) -> FloatArray:
        """log p(x | class) of every row: ``(n, k)`` float64 in nats, columns in class order."""
        ...


@runtime_checkable
class ItemizedLikelihood(Likelihood, Protocol):
    """A likelihood that can report what each item of a row, such as a word of a text, contributes.

    Blocks that factorize over their columns do not need it: the contribution of a column is found
    by setting the other columns to null.
    """

    def itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        """Contribution of each item to the log-likelihood of one row.

        Args:
            row: a single row.

        Returns:
            Item name to its ``(k,)`` contribution; they sum to ``log_likelihood(row)``.
        """
        ...


@runtime_checkable
class FactorizedLikelihood(Likelihood, Protocol):
    """A likelihood that is a product over the block's columns, and can report each factor."""

    def log_factors(self, rows: Rows) -> Iterator[FloatArray]:
        """log p(x_j | class) of each column, ``(n, k)``; they sum to ``log_likelihood(rows)``."""
        ...


@runtime_checkable
class MarginalLikelihood(Likelihood, Protocol):
    """A likelihood that says which distribution each of its columns has.

    Drift, health and plots show it. Without this method it follows from ``log_likelihood``, if the
    column has numbers and nulls are marginalized; categories need it, since only the likelihood
    knows their domain.
    """

    def marginal(self, column: str) -> Marginal | None:
        """p(column | class) with the other columns marginalized, or None if it is unknown."""
        ...


@runtime_checkable
class FormulaLikelihood(Likelihood, Protocol):
    """A likelihood that is a closed formula of the columns, from which SQL is made."""

    def formula(self) -> Formula:
        """log p(x | class) as arithmetic of columns and constants; see `formulas`.

        Raises:
            NotSupportedError: if these parameters have no formula, saying why.
        """
        ...


@runtime_checkable
class CellLikelihood(Likelihood, Protocol):
    """A likelihood that has few different values, so that a row's is looked up in a table.

    It is optional: what is computed from log-likelihoods, such as their weighted sum, is then
    computed once for each cell, not for each row.
    """

    @property
    def cell_log_likelihood(self) -> FloatArray | None:
        """log p(cell | class), ``(k, m)``; None if the block has no single table."""
        ...

    def cells(self, rows: Rows) -> IntArray:
        """The cell of each row, ``(n,)``: ``log_likelihood`` is its column of the table."""
        ...


@runtime_checkable
class BinnedLikelihood(Likelihood, Protocol):
    """A likelihood that knows numbers by their bins, and so is one of bins, not of numbers.

    It is optional: the density of the numbers within their bins is estimated for it.
    """

    @property
    def cuts(self) -> Mapping[str, Sequence[float]]:
        """The cuts between the bins of each modeled column of numbers, ascending."""
        ...


@runtime_checkable
class LeaveOneOut(Protocol):
    """An estimator that can leave single rows out of its parameters, exactly and cheaply.

    It is optional: block weights are fitted on likelihoods of rows that the parameters did not see,
    and use five folds of the rows if an estimator lacks it.
    """

    def leave_one_out(
        self,
        statistics: pa.Table,
        likelihood: Any,
        classes: pa.Array,
        rows: Rows,
        truth: IntArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """log p(x | class) of training rows, ``(n, k)``, as if each had been left out.

        The other classes differ from those of ``likelihood`` only if they share something with the
        row's own, such as the ball of its neighbors.

        Args:
            statistics: statistics of all rows.
            likelihood: the estimator's likelihood of their parameters.
            classes: ``k`` labels.
            rows: ``n`` rows that training saw.
            truth: position of the class of each row, ``(n,)``.
            weights: weight of each row, ``(n,)``; None means 1 for every row.
        """
        ...


class Estimator(ABC):
    """A model of p(x | class) for one block of columns.

    Args:
        features: the block's columns and their types, in order.
        options: the block's options, plain JSON values.

    Attributes:
        name: name of the estimator in model specs.
        models: types of columns that it accepts; None accepts all.
        columns: number of columns that a block must have; None for any.
        factorizes: whether the log-likelihood is a sum over features.
        passes: largest number of passes over the rows; see `refine`.
        state_grows: whether statistics grow with the rows (k nearest neighbors keeps all of them).
        proper: whether the probabilities of a likelihood that is ``normalized`` add up to 1. Those
            of k nearest neighbors do not: their integral diverges.
        conditional: what makes the estimator of blocks with given columns; see `EstimatorPlugin`.
        parameters_version: raise it when the table of parameters changes its shape or meaning.
        statistics_version: raise it when ``summarize`` returns other statistics for the same rows,
            so that kept ones are computed again.
        Options: declarations of its options, by default none; see `EstimatorOptions`.
        features: as above.
        options: the checked options.
        on_scarce: whether `annotate` refuses estimates that the rows do not suffice for; see
            `ModelSpec.on_scarce`. `bind` sets it.
        row_weight: average weight of a row if weights are too large to be numbers of rows, else 1.
            Rules that count rows to decide how fine a model may be divide by it. `bind` sets it.
        models_nulls: whether null is a value that has a probability, instead of marginalized.

    Raises:
        SpecError: if the estimator cannot model the type of a column, or an option is unknown or
            out of bounds.
        PluginError: when a subclass with a name is defined, but neither a `kind` nor ``summarize``
            and ``merge``.
    """

    name: ClassVar[str]
    models: ClassVar[ColumnTypes | None] = None
    Options: ClassVar[type[EstimatorOptions]] = NoOptions
    columns: ClassVar[int | None] = None
    factorizes: ClassVar[bool] = False
    passes: ClassVar[int] = 1
    state_grows: ClassVar[bool] = False
    proper: ClassVar[bool] = True
    conditional: ClassVar[Callable[..., Estimator] | None] = None
    parameters_version: ClassVar[int] = 1
    statistics_version: ClassVar[int] = 1
    options: Any
    on_scarce: str = "pool"
    row_weight: float = 1.0
    models_nulls: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not (isinstance(cls.Options, type) and issubclass(cls.Options, EstimatorOptions)):
            raise PluginError(
                f"{cls.__name__}: Options is {shown(cls.Options)}; derive a class from "
                "EstimatorOptions."
            )
        if isinstance(getattr(cls, "name", None), str) and cls.kind is Estimator.kind:
            for method in ("summarize", "merge"):
                if getattr(cls, method) is getattr(Estimator, method):
                    raise PluginError(
                        f"{cls.__name__} has no statistics; return a kind of them from kind, such "
                        f"as JointMoments(self.features.names), or write {method}."
                    )

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        self.features = features
        self.options = self.Options(self.name, options, features.names)
        if self.columns not in (None, len(features)):
            raise SpecError(
                f"{self.name} models {counted(self.columns, 'column')}, and the block has "
                f"{one_of(features.names)}."
            )
        if self.models is not None:
            require_types(self.name, features, self.models.accepts, self.models.description)

    @classmethod
    def grows(cls, options: Mapping[str, Any]) -> bool:
        """Whether statistics under some options grow with the rows; by default `state_grows`."""
        return cls.state_grows

    @property
    def kind(self) -> Kind:
        """The kind of its statistics; one without has its own ``summarize`` and ``merge``."""
        raise NotImplementedError

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Sufficient statistics of one batch.

        Args:
            rows: ``n`` rows with the block's columns, of any accepted type, and maybe others.
            classes: the label of each row, without nulls.
            weights: ``(n,)``, positive; None means 1 for every row.
        """
        return self.kind.summarize(rows, classes, weights)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Statistics of all parts together.

        Args:
            tables: statistics of at least one part; they are not modified.
        """
        return tables[0] if len(tables) == 1 else self.kind.merge(tables)

    def scale(self, statistics: pa.Table, factor: float) -> pa.Table:
        """Statistics of the same rows with their weights multiplied by a factor above 0.

        Args:
            statistics: merged statistics; they are not modified.
            factor: number above 0.

        Raises:
            NotSupportedError: if the estimator has neither a `kind` nor this method.
        """
        if type(self).kind is Estimator.kind:
            raise NotSupportedError(
                f"{self.name} has statistics of its own that cannot count less with age: give its "
                "estimator a kind or the method scale, or set half_life=None."
            )
        return scaled(statistics, self.kind.sums, factor)

    def aggregates(self) -> Sums | DistinctRows | None:
        """What a database computes of each class by GROUP BY; None if the rows must be read.

        By default it is what the kind says. It does not count if a subclass overrides ``summarize``
        alone.
        """
        if type(self).kind is Estimator.kind:
            return None
        of_kind: Sums | DistinctRows | None = getattr(self.kind, "aggregates", lambda: None)()
        return of_kind

    @abstractmethod
    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        """Parameters for every class of ``classes``. Regularization happens here and only here.

        Where the rows do not suffice, it takes another estimate, and says so to `annotate`.

        Args:
            statistics: merged statistics; they are not modified.
            classes: the ``k`` classes of the model, ascending; some may have no rows.

        Raises:
            DataError: if there is no other estimate, naming class, column and count.
        """

    @abstractmethod
    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Likelihood:
        """Compile parameters; the columns of the result are in the order of ``classes``.

        Args:
            parameters: table of `finalize`, or of a stored model once it is checked.
            classes: the ``k`` classes of the model, ascending.
        """

    def fit_without(
        self, parts: Sequence[pa.Table], left_out: Mapping[int, pa.Array]
    ) -> Iterator[Likelihood]:
        """The likelihoods of the statistics of all parts but one.

        A subclass may compute them without the tables in between, if these take long.

        Args:
            parts: statistics.
            left_out: number of each part to leave out, and the classes of the others.
        """
        for number, classes in left_out.items():
            others = [*parts[:number], *parts[number + 1 :]]
            yield self.likelihood(self.finalize(self.merge(others), classes), classes)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        """Refuse a table of parameters that `finalize` cannot have made.

        Called when a stored model is loaded, before its likelihoods are compiled. By default only
        the column ``class`` is checked; see `authoring.check_parameters` for the others.

        Args:
            parameters: table of the store.
            classes: the ``k`` classes of the model, ascending.

        Raises:
            StoreError: naming the column and what is wrong.
        """
        label_rows(parameters, classes)

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        """Refuse a table of statistics that `summarize` and `merge` cannot have made.

        Called when statistics are read from a store, before they are merged. The kind checks its
        own. By default their classes are checked, and that they are finite and the result of a
        merge; see `Kind.check`.

        Args:
            statistics: statistics of one part.
            classes: one row per class of the part: class, rows, count (Σ w).

        Raises:
            StoreError: naming the column and what is wrong.
        """
        if type(self).kind is not Estimator.kind:
            self.kind.check(statistics, classes)
            return
        label_rows(statistics, classes["class"].combine_chunks())
        check_same(statistics, self.merge([statistics]))

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any] | None:
        """Options for another pass over the rows, or None if no further pass is needed.

        The returned options replace those of the block until the fit is done; the model records
        the options that the user gave. They carry what this pass found out: a center, a grid, the
        parameters of an iteration. ``finalize`` accepts the statistics of any pass.

        Args:
            statistics: of all rows.
            classes: every class that has rows.

        Returns:
            Plain JSON values of options that the estimator declares.
        """
        return None

    def log_evidence(self, statistics: pa.Table) -> float:
        """log p(data | classes, estimator), parameters integrated out, in nats.

        The marginal likelihood of the rows given their classes, under the estimator's conjugate
        prior and with all constants, so that differences between estimators of the same columns are
        log Bayes factors. It is a sum over classes unless they share a parameter. A class without
        rows adds 0; a weight is a number of rows.

        Raises:
            NotSupportedError: unless the estimator overrides this method.
            DataError: if the statistics have no closed form, for example because of nulls.
        """
        raise NotSupportedError(
            f"{self.name} offers no log evidence; model its columns by an estimator that does."
        )

    @classmethod
    def has_evidence(cls) -> bool:
        """Whether it has a `log_evidence`."""
        return cls.log_evidence is not Estimator.log_evidence

    def annotate(
        self, parameters: pa.Table, *, scarce: Sequence[str] = (), **notes: Any
    ) -> pa.Table:
        """Parameters with the estimator's name, features and options in the schema metadata.

        This is where ``on_scarce="error"`` refuses what ``finalize`` had to make up.

        Args:
            parameters: a parameters table.
            scarce: sentences about estimates that the rows did not suffice for; see `on_scarce`.
                A model repeats them in ``training["notes"]``.
            **notes: further plain JSON values; see `tidy.notes_of`.

        Raises:
            DataError: if there is such a sentence and ``on_scarce`` is ``"error"``.
        """
        if scarce and self.on_scarce == "error":
            raise DataError(
                f"{scarce[0]} Add rows, leave such classes or columns out, or allow it by "
                "on_scarce='pool'."
            )
        return with_notes(
            parameters,
            estimator=self.name,
            features=self.features.names,
            options=self.options.plain(),
            **({"scarce": list(scarce)} if scarce else {}),
            **notes,
        )
