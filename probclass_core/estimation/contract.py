"""The contract of a likelihood estimator. Read this first when you write one.

An estimator models p(x | class) for one block of columns. Four verbs carry it::

    summarize   rows of one batch        -> sufficient statistics   (an Arrow table)
    merge       statistics of many parts -> statistics of the whole
    finalize    statistics               -> parameters              (an Arrow table)
    likelihood  parameters               -> log p(x | class), row by row

The laws, which training relies on:

1. ``merge`` is associative and commutative up to floating-point rounding, and the merge of one
   table says the same as that table.
2. ``summarize(a ++ b)`` equals ``merge([summarize(a), summarize(b)])``; row order and batch size do
   not matter. Statistics stay raw: pseudo-counts, floors, ridges and ``ddof`` belong in
   ``finalize``, so any split of the rows gives the same model.
3. A weight of 2 equals the row standing twice; a weight of 0 equals its absence.
4. Statistics and parameters are keyed by a ``class`` column: a class unseen in one part is no
   special case.
5. A null (or NaN) feature is marginalized: it adds nothing in training, and the likelihood of the
   row is that of its other features. A row without any feature has log-likelihood 0.
6. A log-likelihood is finite or −inf, never NaN and never +inf. A point mass, whose density is
   infinite, is written with the width `POINT_MASS_WIDTH`.
7. Parameters survive an Arrow IPC round trip, schema metadata included.

One pass over the rows makes most models. An estimator that needs several says so twice: the trait
``passes`` bounds their number, and ``refine`` gives the options of the next one. A pass is then an
ordinary summary under other options, so every law holds of it, and whatever keeps, cuts up or sends
about statistics needs to know nothing of passes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import NotSupportedError, SpecError, nearest, one_of

POINT_MASS_WIDTH = float(np.finfo(np.float64).tiny)
"""Width (σ, or radius) that stands for zero: the smallest normal double, so logs stay finite."""

_METADATA_KEY = b"probclass"


class Likelihood(Protocol):
    """Parameters compiled for use on many batches."""

    normalized: bool
    """False where the values are log densities only up to a term that all classes share."""

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        """log p(x | class) of every row: ``(n, k)`` float64 in nats, columns in class order."""
        ...


@runtime_checkable
class ItemizedLikelihood(Likelihood, Protocol):
    """A likelihood that can say what each item of a row, such as a word of a text, adds.

    Blocks that factorize over their columns need not: nulling the other columns tells the same.
    """

    def itemize(self, row: pa.RecordBatch) -> Mapping[str, FloatArray]:
        """Of a batch of one row: item name to its ``(k,)`` share of the log-likelihood.

        The shares sum to ``log_likelihood(row)``.
        """
        ...


@runtime_checkable
class LinearLikelihood(Likelihood, Protocol):
    """A likelihood whose log is linear in the features, up to a term that all classes share."""

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """Feature names ``d``, weights ``(k, d)`` and intercepts ``(k,)`` without the prior.

        ``log p(x | c) = weights[c] · x + intercept[c] + (the same for every class)``.
        """
        ...


class LikelihoodEstimator(ABC):
    """A model of p(x | class) for one block of columns.

    Args:
        features: the block's columns and their types, in order.
        options: the block's options, plain JSON values.

    Raises:
        SpecError: a column's type or an option is not to its liking.
    """

    name: ClassVar[str]

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        self.features = features
        self.options = dict(options)

    @abstractmethod
    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Sufficient statistics of one batch.

        Args:
            batch: the block's columns, ``n`` rows, of any accepted type.
            classes: the label of each row, without nulls.
            weights: ``(n,)``, positive; none means 1 for every row.
        """

    @abstractmethod
    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Statistics of the union of the parts: at least one, and each stays as it is."""

    @abstractmethod
    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        """Parameters for every class of ``classes``, the only place of regularization.

        Raises:
            DataError: the rows cannot carry the model, naming class, column and count.
        """

    @abstractmethod
    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Likelihood:
        """Compile parameters; the columns of the result follow ``classes``."""

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any] | None:
        """Options under which the rows should be summarized again, or None where this pass will do.

        They take the place of those options of the block until the fit is done; the model keeps the
        options that it was asked for. What this pass found out goes into them: a center, a grid,
        the parameters of an iteration. ``finalize`` takes the statistics of any pass.

        Args:
            statistics: of all rows.
            classes: every class that has rows.

        Returns:
            plain JSON values, of options that the estimator knows.
        """
        return None

    def log_evidence(self, statistics: pa.Table) -> float:
        """log p(data | classes, estimator), parameters integrated out, in nats.

        The marginal likelihood of the rows given their classes, under the estimator's conjugate
        prior and with all constants: differences between estimators that model the same columns are
        log Bayes factors. It is a sum over classes where they share no parameter. A class without
        rows adds 0; a weight is a number of rows.

        Raises:
            NotSupportedError: unless the estimator overrides this.
            DataError: the statistics have no closed form, such as pairs of features with nulls.
        """
        raise NotSupportedError(
            f"{self.name} offers no log evidence; model its columns by an estimator that does."
        )


def read_options(
    estimator: str, options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Options over their defaults.

    Raises:
        SpecError: an option that ``defaults`` does not know.
    """
    for key in options:
        if key not in defaults:
            raise SpecError(
                f"{estimator} has no option {key!r}; it has {one_of(defaults)}."
                + nearest(key, defaults)
            )
    return {**defaults, **options}


def number_option(
    estimator: str, key: str, value: Any, *, at_least: float = 0.0, whole: bool = False
) -> float:
    """A numeric option within bounds.

    Raises:
        SpecError: not a number, below ``at_least``, or not whole where it must be.
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= at_least
    if not good or (whole and int(value) != value):
        kind = "whole number" if whole else "number"
        raise SpecError(
            f"{estimator}: {key} must be a {kind} of at least {at_least:g}, got {value!r}."
        )
    return value  # type: ignore[no-any-return]  # checked to be a number above


def choice_option(estimator: str, key: str, value: Any, choices: Sequence[str]) -> str:
    """An option that is one of a few words.

    Raises:
        SpecError: it is none of them.
    """
    if value not in choices:
        raise SpecError(f"{estimator}: {key} must be one of {one_of(choices)}, got {value!r}.")
    return str(value)


def flag_option(estimator: str, key: str, value: Any) -> bool:
    """An option that is true or false.

    Raises:
        SpecError: it is neither.
    """
    if not isinstance(value, bool):
        raise SpecError(f"{estimator}: {key} must be true or false, got {value!r}.")
    return value


def table_option(estimator: str, key: str, value: Any, columns: Sequence[str]) -> Mapping[str, Any]:
    """An option that is a table keyed by columns of the block.

    Raises:
        SpecError: it is no table, or names another column.
    """
    if not isinstance(value, Mapping):
        raise SpecError(f"{estimator}: {key} must be a table keyed by column, got {value!r}.")
    for column in value:
        if column not in columns:
            raise SpecError(
                f"{estimator}: {key} names column {column!r}, which is not in the block; "
                f"it has {one_of(columns)}."
            )
    return value


def require_types(
    estimator: str, features: pa.Schema, accepts: Callable[[pa.DataType], bool], wanted: str
) -> None:
    """Refuse columns of a type the estimator cannot model.

    Raises:
        SpecError: naming the column and its type.
    """
    for column in features:
        if not accepts(column.type):
            raise SpecError(
                f"{estimator}: column {column.name!r} is {column.type}, but it models {wanted}; "
                "choose another estimator for it, or cast it."
            )


def with_notes(table: pa.Table, **notes: Any) -> pa.Table:
    """A table that carries notes (plain values) in its schema metadata."""
    text = json.dumps(notes, sort_keys=True)
    return table.replace_schema_metadata({_METADATA_KEY: text.encode()})


def notes_of(table: pa.Table) -> dict[str, Any]:
    """The notes that `with_notes` wrote; empty where there are none."""
    text = (table.schema.metadata or {}).get(_METADATA_KEY)
    return dict(json.loads(text)) if text else {}
