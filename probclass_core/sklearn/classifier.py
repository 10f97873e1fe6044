"""`ProbClassifier`: a model with scikit-learn's interface.

It converts arrays and frames to Arrow tables, and summarizes, merges, finalizes and predicts with
the functions of the library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from probclass_core.arrow.arrays import FloatArray, as_table, check_columns, label_codes
from probclass_core.arrow.parts import source_columns
from probclass_core.arrow.sparse_counts import counts_column
from probclass_core.errors import DataError, NotSupportedError, ProbClassError, SpecError, one_of
from probclass_core.estimation.statistics import Statistics, merge
from probclass_core.model.finalize import finalize
from probclass_core.model.model import NO_DENSITY, Model
from probclass_core.pipeline.training import summarize, train
from probclass_core.sklearn.conversion import (
    array_columns,
    arrow_classes,
    checked_labels,
    free_name,
    is_frame,
    label_name,
    whole_as_integers,
)
from probclass_core.sklearn.parameters import (
    EFFORTS,
    Blocks,
    model_spec,
    models_counts,
    models_floats,
    only_categories,
)
from probclass_core.spec.model_spec import (
    PARTITIONS,
    Block,
    BlockWeightsOption,
    Effort,
    ModelSpec,
    OnScarce,
    Prior,
)

COUNTS = "counts"
"""Column of the model of a sparse X: maps from names of columns to counts."""


def _has_density(classifier: ProbClassifier) -> bool:
    """Whether log p(x) is one of a density, for `available_if`.

    Raises:
        NotSupportedError: if it is not.
    """
    statistics = getattr(classifier, "statistics_", None)
    if statistics is not None and not statistics.spec.density_blocks:
        raise NotSupportedError(NO_DENSITY)
    return True


class ProbClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # it has no types
    """A class prior times blocks of columns, as a scikit-learn classifier.

    ``X`` is an array, or a pandas, polars or pyarrow table, whose columns keep their names and
    types; the columns of an array are named ``x0``, ``x1``, … Null and NaN are marginalized,
    infinities are refused. For estimators of categories, columns of whole floats count as integers.
    ``X`` may be a sparse matrix of SciPy for ``bernoulli``, ``multinomial`` and ``poisson``; it is
    never made dense.
    ``y`` is text, bool or whole numbers; if it is a series, its name becomes the model's label.

    Options are parameters prefixed with the name of their block, like those of a pipeline step:
    ``set_params(categorical__pseudo_count=0.5)``. By default a block is named like its estimator.

    Args:
        estimator: ``"default"``, ``"fast"`` or ``"best"`` for the blocks that `ModelSpec.auto`
            derives from the rows of `fit` with this effort, with fitted weights; ``"auto"`` for the
            naive product of ``gaussian_diagonal`` for numbers and ``categorical`` for text, bool
            and dictionaries; the name of an estimator that models all columns as one block; columns
            by estimator, ``{"gaussian_full": ["a", "b"], "categorical": ["c"]}``; a list of `Block`
            or of dicts for `Block.from_dict`; or a `ModelSpec`, whose weight column is ignored.
            Columns in no block are ignored.
        options: options of a single block, or options by block: ``{"categorical":
            {"pseudo_count": 0.5}}``. They override the options of a `Block`.
        prior: ``"empirical"``, ``"uniform"``, or a probability for every class; None means the
            prior of the `ModelSpec`, or ``"empirical"`` without one.
        block_weights: ``"fit"``, a number by block, or None; see `ModelSpec`. None means the block
            weights of the `ModelSpec` or of the derived blocks, and else the product of the blocks.
        on_scarce: ``"pool"`` or ``"error"``; see `ModelSpec`. None means that of the `ModelSpec`,
            or ``"pool"`` without one.
        max_classes: largest number of classes; see `ModelSpec`. None means that of the `ModelSpec`.
        groups: columns of ``X`` that tell which rows are alike, such as a customer or a day, for
            derived blocks; see `ModelSpec`.

    Attributes:
        classes_: the ``k`` labels, ascending, with the type of ``y``.
        n_features_in_: number of columns of ``X``.
        feature_names_in_: names of the columns, if all have names that are text.
        statistics_: `Statistics` of all rows so far.
        model_: fitted `Model`.

    Examples:
        >>> sizes = [[3.9], [4.1], [4.2], [6.0], [6.2], [6.5]]
        >>> kinds = ["small", "small", "small", "big", "big", "big"]
        >>> ProbClassifier().fit(sizes, kinds).predict([[5.9]])
        array(['big'], dtype='<U5')
    """

    _model: Model | None

    def __init__(
        self,
        estimator: Blocks = "default",
        *,
        options: Mapping[str, Any] | None = None,
        prior: Prior | None = None,
        block_weights: BlockWeightsOption = None,
        on_scarce: OnScarce | None = None,
        max_classes: int | None = None,
        groups: str | Sequence[str] | None = None,
    ) -> None:
        self.estimator = estimator
        self.options = options
        self.prior = prior
        self.block_weights = block_weights
        self.on_scarce = on_scarce
        self.max_classes = max_classes
        self.groups = groups

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; if ``deep``, also the options, as ``<block>__<option>``."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for block, options in _table(self.options).items():
            if deep and "__" not in block:
                params |= {f"{block}__{option}": value for option, value in _table(options).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and options as ``<block>__<option>``, which `fit` checks.

        Raises:
            ValueError: if a name without ``__`` is not a parameter.
        """
        nested = {key: value for key, value in params.items() if "__" in key}
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        for key, value in nested.items():
            block, _, option = key.partition("__")
            options = _table(self.options)
            self.options = {**options, block: {**_table(options.get(block)), option: value}}
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on these rows only.

        Args:
            X: ``(n, d)``; may be sparse for an estimator of counts.
            y: ``(n,)`` labels.
            sample_weight: ``(n,)``, at least 0; a weight of 2 counts as two rows.

        Raises:
            SpecError: if the parameters do not fit the columns.
            DataError: if the rows do not suffice for the model.
            PluginError: if an estimator is unknown.
            ValueError: if scikit-learn does not accept X, y or the weights.
        """
        labels, derives = checked_labels(y), self.estimator in EFFORTS and not issparse(X)
        table, classes = self._rows(X, reset=True), np.unique(labels)
        if self.groups is not None and not derives:
            raise SpecError("groups are for blocks that are derived; else set them in a ModelSpec.")
        if derives:
            spec = self._derived_spec(table, y, labels, classes, sample_weight)
        else:
            spec = self._spec(table.schema, y, sparse=issparse(X))
        rows, weighted = _labeled(table, spec, labels, classes, sample_weight)
        model, statistics = train(rows, weighted, workers=1)
        # Last, so that a failed call changes no fitted attribute.
        self.statistics_ = _without_weight(statistics)
        self._model = dataclasses.replace(model, spec=spec)
        self.classes_, self._classes_declared, self._sparse = classes, False, issparse(X)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train on these rows and all earlier ones, with the same result as one `fit`.

        The first call determines which estimator models which column. Blocks are derived from the
        types of the columns alone, as ``"fast"`` does without rows, so that they do not depend on
        how the rows are split; after `fit`, the blocks are those of `fit`. Parameters are computed
        when they are needed, so the first rows need not suffice for a model. A class without rows
        has probability 0.

        Args:
            X: ``(n, d)``.
            y: ``(n,)`` labels.
            classes: all labels that will occur, in the first call; by default ``classes_`` are the
                labels so far.
            sample_weight: ``(n,)``, at least 0.

        Raises:
            DataError: if a label is not in ``classes``, or the type of a column changed.
            SpecError, PluginError, ValueError: as `fit`.
        """
        first = not hasattr(self, "statistics_")
        labels = checked_labels(y)
        known, declared = self._known_classes(classes, labels, first)
        table = self._rows(X, reset=first)
        sparse = issparse(X) if first else self._sparse
        spec = self._spec(table.schema, y, sparse=sparse) if first else self.statistics_.spec
        rows, weighted = _labeled(table, spec, labels, known, sample_weight)
        statistics = _without_weight(summarize(rows, weighted, workers=1))
        if not first:
            statistics = merge([self.statistics_, statistics])
        self.statistics_, self._model = statistics, None
        self.classes_, self._classes_declared, self._sparse = known, declared, sparse
        return self

    @property
    def model_(self) -> Model:
        """The fitted `Model`, for a `ModelStore` or `score`; its classes are those with rows.

        Raises:
            NotFittedError: if neither `fit` nor `partial_fit` was called, or the rows of
                `partial_fit` do not suffice for a model yet.
        """
        check_is_fitted(self)
        if self._model is None:
            try:
                self._model = finalize(self.statistics_)
            except ProbClassError as error:
                # dir() and displays ask for every attribute, and expect an AttributeError.
                raise NotFittedError(str(error)) from error
        return self._model

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, ``(n,)``, with the type of ``y``."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """P(c | x), ``(n, k)``, columns in the order of ``classes_``."""
        return self._all_classes(self.model_.predict_proba(self._features(X)), absent=0.0)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """log P(c | x), ``(n, k)``, columns in the order of ``classes_``."""
        return self._all_classes(self.model_.predict_log_proba(self._features(X)))

    def predict_joint_log_proba(self, X: Any) -> FloatArray:
        """log p(x, c) in nats, ``(n, k)``, columns in the order of ``classes_``."""
        return self._all_classes(self.model_.joint_log_likelihood(self._features(X)))

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any) -> FloatArray:
        """log p(x) of each row in nats, ``(n,)``: low for a row unlike those of training.

        Raises:
            AttributeError: if a column is in several blocks and no density was derived, so that
                their product is not one.
            NotSupportedError: if the densities of a block are known only up to a common term.
        """
        return self.model_.score_samples(self._features(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        counts = models_counts(self.estimator)
        tags.input_tags.sparse = tags.input_tags.positive_only = counts
        tags.classifier_tags.poor_score = counts  # on points that are no counts
        tags.input_tags.categorical = only_categories(self.estimator)
        return tags

    def _rows(self, X: Any, *, reset: bool) -> pa.Table:
        """X with the column names of `fit`: scikit-learn identifies columns by position."""
        if issparse(X) if reset else self._sparse:
            return self._sparse_rows(X, reset=reset)
        if is_frame(X):
            table = as_table(X)
            check_columns(table.schema, table.column_names)  # scikit-learn's error has no way out
            validate_data(self, X, reset=reset, skip_check_array=True)
            # Arrow appends the index of a pandas frame to its columns.
            columns = table.columns[: self.n_features_in_]
        elif issparse(X):
            raise DataError(
                "X is sparse, but the classifier was fitted on columns; fit it on a sparse X as "
                "well, or pass X.toarray()."
            )
        else:
            matrix = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
            columns = array_columns(matrix)
        return pa.table(columns, names=self._column_names)

    def _sparse_rows(self, X: Any, *, reset: bool) -> pa.Table:
        """X as one column of maps from names of columns to counts; X may be dense in later calls.

        Raises:
            SpecError: if the classifier does not model counts.
        """
        if not models_counts(self.estimator):
            raise SpecError(
                "a sparse X has counts for bernoulli, multinomial or poisson, but estimator is "
                f"{self.estimator!r}; choose one of these, or pass X.toarray()."
            )
        matrix = validate_data(self, X, reset=reset, dtype="numeric", accept_sparse="csr")
        counts = counts_column(csr_array(matrix), self._column_names)
        return pa.table([counts], names=[COUNTS])

    @property
    def _column_names(self) -> list[str]:
        numbered = [f"x{number}" for number in range(self.n_features_in_)]
        return list(getattr(self, "feature_names_in_", numbered))

    def _derived_spec(
        self,
        table: pa.Table,
        y: Any,
        labels: NDArray[Any],
        classes: NDArray[Any],
        sample_weight: Any,
    ) -> ModelSpec:
        """The spec that `ModelSpec.auto` derives from the rows."""
        label = label_name(y, table.column_names)
        rows, weight = _with_labels(table, label, labels, classes, sample_weight)
        spec = ModelSpec.auto(
            rows,
            label,
            effort=cast("Effort", self.estimator),
            weight=weight,
            on_scarce=self.on_scarce or "pool",
            max_classes=self.max_classes,
            groups=PARTITIONS if self.groups is None else self.groups,
            workers=1,
        )
        return model_spec(spec, table.schema, label, self.get_params(deep=False))

    def _spec(self, schema: pa.Schema, y: Any, *, sparse: bool) -> ModelSpec:
        estimator = self.estimator
        if sparse:
            # Columns without a count are terms as well, as they are features of a dense X.
            estimator = [Block(str(estimator), [COUNTS], vocabulary=self._column_names)]
        label = label_name(y, schema.names)
        return model_spec(estimator, schema, label, self.get_params(deep=False))

    def _features(self, X: Any) -> pa.Table:
        check_is_fitted(self)
        return _model_columns(self._rows(X, reset=False), self.statistics_.spec)

    def _all_classes(self, values: FloatArray, absent: float = -np.inf) -> FloatArray:
        """Values in the order of ``classes_``, ``(n, k)``; ``absent`` for a class without rows."""
        classes = self.model_.classes
        if len(classes) == len(self.classes_):
            return values
        result = np.full((len(values), len(self.classes_)), absent)
        result[:, label_codes(classes, arrow_classes(self.classes_))] = values
        return result

    def _known_classes(
        self, classes: Any, labels: NDArray[Any], first: bool
    ) -> tuple[NDArray[Any], bool]:
        """The classes including these rows, and whether they were declared."""
        seen = np.unique(labels)
        before = seen if first else self.classes_
        if classes is not None:
            declaration = unique_labels(classes)
            if not first and not np.array_equal(declaration, before):
                raise DataError(
                    f"classes are {one_of(declaration)}, but were {one_of(before)} before; declare "
                    "them in the first call."
                )
            before = declaration
        declared = classes is not None if first else self._classes_declared
        kinds = [arrow_classes(values).type for values in (seen, before)]
        if kinds[0] != kinds[1]:
            raise DataError(f"labels are {kinds[0]}, but classes {kinds[1]}; use one type.")
        new = np.setdiff1d(seen, before)
        if declared and len(new):
            raise DataError(f"label {str(new[0])!r} is not one of the classes {one_of(before)}.")
        return (np.union1d(before, new) if len(new) else before), declared


def _table(options: Any) -> Mapping[str, Any]:
    """The options, or none if they are not a table, which `fit` reports."""
    return options if isinstance(options, Mapping) else {}


def _model_columns(table: pa.Table, spec: ModelSpec) -> pa.Table:
    """The columns of the model, converted for its estimators.

    Raises:
        DataError: if a column is missing.
    """
    names = dict.fromkeys((*spec.features, *spec.group_columns))
    table = table.select(source_columns(table.schema, list(names)))
    columns = set(table.column_names)
    for block in spec.blocks:
        if not models_floats(block):
            table = whole_as_integers(table, [name for name in block.inputs if name in columns])
    return table


def _without_weight(statistics: Statistics) -> Statistics:
    """The statistics under a spec without a weight column: an array of weights has no name."""
    spec = dataclasses.replace(statistics.spec, weight=None)
    return dataclasses.replace(statistics, spec=spec)


def _labeled(
    table: pa.Table,
    spec: ModelSpec,
    labels: NDArray[Any],
    classes: NDArray[Any],
    sample_weight: Any,
) -> tuple[pa.Table, ModelSpec]:
    """The columns of the model with labels and weights, and the spec with the column of weights."""
    table, label = _model_columns(table, spec), spec.label_for("ProbClassifier")
    rows, weight = _with_labels(table, label, labels, classes, sample_weight)
    return rows, dataclasses.replace(spec, weight=weight)


def _with_labels(
    table: pa.Table, label: str, labels: NDArray[Any], classes: NDArray[Any], sample_weight: Any
) -> tuple[pa.Table, str | None]:
    """The rows with a column of labels and one of weights, if any, and the name of the latter."""
    check_consistent_length(labels, table[0])
    codes = pa.array(np.searchsorted(classes, labels))
    column = pa.DictionaryArray.from_arrays(codes, arrow_classes(classes))
    table = table.append_column(label, column)
    if sample_weight is None:
        return table, None
    weights = _check_sample_weight(sample_weight, labels, ensure_non_negative=True)
    weight = free_name("sample_weight", table.column_names)
    return table.append_column(weight, pa.array(weights)), weight
