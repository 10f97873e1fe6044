"""`ProbClassifier`: the road from rows to a model and back, with arrays at both ends.

There is no arithmetic here: rows are summarized, merged and finalized as everywhere, and the
answers are those of the `Model`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from probclass_core.arrow.arrays import FloatArray, as_table, check_columns, label_codes
from probclass_core.errors import DataError, one_of
from probclass_core.estimation.statistics import Statistics, merge
from probclass_core.model.model import Model, finalize
from probclass_core.pipeline import summarize
from probclass_core.sklearn.conversion import (
    array_columns,
    arrow_classes,
    free_name,
    is_frame,
    label_name,
    labels_of,
    whole_as_integers,
)
from probclass_core.sklearn.parameters import (
    AUTO,
    Blocks,
    model_spec,
    models_floats,
    only_categories,
)
from probclass_core.spec import ModelSpec, Prior


class ProbClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # it has no types
    """A class prior times blocks of columns, as a scikit-learn classifier.

    ``X`` is an array, or a pandas, polars or pyarrow table, whose columns keep their names and
    types; the columns of an array are named ``x0``, ``x1``, … A null or NaN is marginalized, an
    infinity refused. Where an estimator models categories, floats that are all whole count as
    integers. ``y`` is text, bool or whole numbers; a series' name names the model's label.

    Options are parameters under the name of their block, as those of a pipeline are under its
    step: ``set_params(categorical__pseudo_count=0.5)``. A block without a name of its own has its
    estimator's.

    Args:
        estimator: ``"auto"``, what `ModelSpec.auto` proposes: numbers to ``gaussian_diagonal``,
            text, bool and dictionaries to ``categorical``; the name of a registered estimator, for
            all columns as one block; columns by estimator, ``{"gaussian_full": ["a", "b"],
            "categorical": ["c"]}``; a list of `Block` or of what `Block.from_dict` takes; or a
            `ModelSpec`, whose weight column is not read. Columns in no block are left out.
        options: of the block if there is but one, else by block: ``{"categorical":
            {"pseudo_count": 0.5}}``. They override those that a `Block` brings.
        prior: ``"empirical"``, ``"uniform"``, or a probability for every class; none means the
            `ModelSpec`'s own, or else ``"empirical"``.

    Attributes:
        classes_: the ``k`` labels, ascending, of the type of ``y``.
        n_features_in_: how many columns ``X`` had.
        feature_names_in_: their names, if they had names and these are text.
        statistics_: `Statistics` of all rows so far.
        model_: the fitted `Model`.

    Examples:
        >>> sizes = [[3.9], [4.1], [6.0], [6.2]]
        >>> ProbClassifier().fit(sizes, ["small", "small", "big", "big"]).predict([[5.9]])
        array(['big'], dtype='<U5')
    """

    _model: Model | None

    def __init__(
        self,
        estimator: Blocks = AUTO,
        *,
        options: Mapping[str, Any] | None = None,
        prior: Prior | None = None,
    ) -> None:
        self.estimator = estimator
        self.options = options
        self.prior = prior

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; if ``deep``, options that are set as ``<block>__<option>``, too."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for block, chosen in _table(self.options).items():
            if deep and "__" not in block:
                params |= {f"{block}__{option}": value for option, value in _table(chosen).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters and, as ``<block>__<option>``, options; `fit` says if there is no such.

        Raises:
            ValueError: there is no parameter of a name without ``__``.
        """
        nested = {key: value for key, value in params.items() if "__" in key}
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        for key, value in nested.items():
            block, _, option = key.partition("__")
            options = _table(self.options)
            self.options = {**options, block: {**_table(options.get(block)), option: value}}
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on these rows alone.

        Args:
            X: ``(n, d)``.
            y: ``(n,)`` labels.
            sample_weight: ``(n,)``, at least 0; a weight of 2 equals the row standing twice.

        Raises:
            SpecError: the parameters do not fit the columns.
            DataError: the rows cannot carry the model.
            PluginError: an estimator is unknown.
            ValueError: X, y or the weights are not what scikit-learn takes.
        """
        labels = labels_of(y)
        table = self._rows(X, reset=True)
        classes = np.unique(labels)
        spec = self._spec(table.schema, y)
        statistics = _summarize(spec, table, labels, classes, sample_weight)
        return self._trained(statistics, finalize(statistics), classes, declared=False)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train on these rows and all before, by merging statistics: as if by one `fit`.

        The first rows settle which estimator models which column. Parameters are made when they
        are asked for, so the rows need not carry a model from the start. A class without rows has
        probability 0.

        Args:
            X: ``(n, d)``.
            y: ``(n,)`` labels.
            classes: in the first call, all labels that will come; without it, ``classes_`` are
                those that came.
            sample_weight: ``(n,)``, at least 0.

        Raises:
            DataError: a label is none of ``classes``, or a column is of another type than before.
            SpecError, PluginError, ValueError: as `fit`.
        """
        first = not hasattr(self, "statistics_")
        labels = labels_of(y)
        known, declared = self._known_classes(classes, labels, first)
        table = self._rows(X, reset=first)
        spec = self._spec(table.schema, y) if first else self.statistics_.spec
        statistics = _summarize(spec, table, labels, known, sample_weight)
        if not first:
            statistics = merge([self.statistics_, statistics])
        return self._trained(statistics, None, known, declared=declared)

    @property
    def model_(self) -> Model:
        """The fitted `Model`, for a `ModelStore` or for `score`; its classes are those with rows.

        Raises:
            NotFittedError: there was neither `fit` nor `partial_fit`.
            DataError: the rows of `partial_fit` cannot carry a model yet.
        """
        check_is_fitted(self)
        if self._model is None:
            self._model = finalize(self.statistics_)
        return self._model

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, the first of equals: ``(n,)``, of ``y``'s type."""
        decision = np.argmax(self.predict_log_proba(X), axis=1)
        predicted: NDArray[Any] = self.classes_[decision]
        return predicted

    def predict_proba(self, X: Any) -> FloatArray:
        """P(c | x), ``(n, k)``, columns in the order of ``classes_``."""
        probability: FloatArray = np.exp(self.predict_log_proba(X))
        return probability

    def predict_log_proba(self, X: Any) -> FloatArray:
        """log P(c | x), ``(n, k)``, columns in the order of ``classes_``."""
        table = self._to_score(X)
        return self._all_classes(self.model_.predict_log_proba(table))

    def predict_joint_log_proba(self, X: Any) -> FloatArray:
        """log p(x, c) in nats, ``(n, k)``, columns in the order of ``classes_``."""
        table = self._to_score(X)
        return self._all_classes(self.model_.joint_log_likelihood(table))

    def score_samples(self, X: Any) -> FloatArray:
        """log p(x) of each row in nats, ``(n,)``: low where a row is unlike those of training.

        Raises:
            NotSupportedError: a block knows its densities only up to a common term.
        """
        table = self._to_score(X)
        return self.model_.score_samples(table)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = only_categories(self.estimator)
        return tags

    def _trained(
        self,
        statistics: Statistics,
        model: Model | None,
        classes: NDArray[Any],
        *,
        declared: bool,
    ) -> Self:
        """Take over what was learnt, all at once, so that rows that were refused leave no trace."""
        self.statistics_ = statistics
        self.classes_ = classes
        self._model = model
        self._classes_declared = declared
        return self

    def _rows(self, X: Any, *, reset: bool) -> pa.Table:
        """X under the column names of `fit`, whatever its own: scikit-learn goes by place."""
        if is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            # Arrow lays the index of a pandas frame behind its columns.
            columns = as_table(X).columns[: self.n_features_in_]
        else:
            matrix = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
            columns = array_columns(matrix)
        numbered = [f"x{place}" for place in range(self.n_features_in_)]
        return pa.table(columns, names=list(getattr(self, "feature_names_in_", numbered)))

    def _spec(self, schema: pa.Schema, y: Any) -> ModelSpec:
        label = label_name(y, schema.names)
        return model_spec(self.estimator, self.options, self.prior, schema, label)

    def _to_score(self, X: Any) -> pa.Table:
        check_is_fitted(self)
        return _features(self._rows(X, reset=False), self.statistics_.spec)

    def _all_classes(self, values: FloatArray) -> FloatArray:
        """Logs in the order of ``classes_``, ``(n, k)``: −inf for a class without rows."""
        classes = self.model_.classes
        if len(classes) == len(self.classes_):
            return values
        result = np.full((len(values), len(self.classes_)), -np.inf)
        result[:, label_codes(classes, arrow_classes(self.classes_))] = values
        return result

    def _known_classes(
        self, classes: Any, labels: NDArray[Any], first: bool
    ) -> tuple[NDArray[Any], bool]:
        """The classes once these rows are in, and whether they were declared."""
        seen = np.unique(labels)
        before = seen if first else self.classes_
        if classes is not None:
            given = unique_labels(classes)
            if not first and not np.array_equal(given, before):
                raise DataError(
                    f"classes are {one_of(given)}, but were {one_of(before)} before; declare them "
                    "in the first call."
                )
            before = given
        declared = classes is not None if first else self._classes_declared
        kinds = [arrow_classes(values).type for values in (seen, before)]
        if kinds[0] != kinds[1]:
            raise DataError(f"labels are {kinds[0]}, but classes {kinds[1]}; make them one type.")
        new = np.setdiff1d(seen, before)
        if declared and len(new):
            raise DataError(f"label {str(new[0])!r} is none of the classes {one_of(before)}.")
        return (np.union1d(before, new) if len(new) else before), declared


def _table(options: Any) -> Mapping[str, Any]:
    """Options as they were given, none where they are no table, which `fit` will say."""
    return options if isinstance(options, Mapping) else {}


def _features(table: pa.Table, spec: ModelSpec) -> pa.Table:
    """The columns of the model, as its estimators take them.

    Raises:
        DataError: one is missing.
    """
    check_columns(table.schema, spec.features)
    table = table.select(list(spec.features))
    for block in spec.blocks:
        if not models_floats(block):
            table = whole_as_integers(table, block.columns)
    return table


def _summarize(
    spec: ModelSpec,
    table: pa.Table,
    labels: NDArray[Any],
    classes: NDArray[Any],
    sample_weight: Any,
) -> Statistics:
    """Statistics of the rows, of a spec without weight: an array has no name to be read by."""
    check_consistent_length(labels, table[0])
    table = _features(table, spec)
    codes = pa.array(np.searchsorted(classes, labels))
    label = pa.DictionaryArray.from_arrays(codes, arrow_classes(classes))
    table = table.append_column(spec.label, label)
    if sample_weight is None:
        return summarize(table, spec, workers=1)
    weights = _check_sample_weight(sample_weight, labels, ensure_non_negative=True)
    weight = free_name("sample_weight", table.column_names)
    table = table.append_column(weight, pa.array(weights))
    statistics = summarize(table, dataclasses.replace(spec, weight=weight), workers=1)
    return dataclasses.replace(statistics, spec=spec)
