"""The axes that separate the classes best: a table projected by a model with a shared covariance.

Rao's generalization of Fisher's discriminant (Hastie, Tibshirani and Friedman, *The Elements of
Statistical Learning*, section 4.3.3): features are whitened by the covariance within classes, and
the axes are the principal components of the whitened class means, weighted by the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from probclass_core.arrow.arrays import FloatArray, numeric_column
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation.families.gaussian.densities import GaussianSharedLikelihood
from probclass_core.model.model import Model
from probclass_core.sklearn.parameters import estimator_names

_LEAST_VARIANCE = 1e-8
"""Smallest variance of a direction, with features scaled to unit variance: scikit-learn's bound."""


@dataclass(frozen=True)
class DiscriminantAxes:
    """The axes of a model, the one that separates the classes best first.

    Attributes:
        columns: names of the ``d`` columns.
        center: mean of the class means, weighted by the prior, ``(d,)``.
        axes: ``(d, r)``, with r the smaller of k − 1 and the rank of the covariance: the projected
            rows of each class have unit variance and are uncorrelated.
        variance: variance of the class means along each axis, ``(r,)``, descending.
    """

    columns: list[str]
    center: FloatArray
    axes: FloatArray
    variance: FloatArray

    @classmethod
    def of(cls, model: Model) -> DiscriminantAxes:
        """The axes of a model.

        The sign of an axis makes its largest weight, with features scaled to unit variance within
        the classes, positive. Directions without variance within the classes are left out, as
        scikit-learn does: along them any two rows of different classes would be infinitely far
        apart.

        Raises:
            NotSupportedError: unless every block has a normal density with a shared covariance.
        """
        shared: list[GaussianSharedLikelihood] = []
        for block in model.spec.blocks:
            likelihood = model.likelihoods[str(block.name)]
            if not isinstance(likelihood, GaussianSharedLikelihood):
                raise NotSupportedError(
                    f"block {block.name!r} ({block.estimator}) has no shared covariance to project "
                    "by; use blocks of gaussian_shared, without predictive and given."
                )
            shared.append(likelihood)
        columns = [name for likelihood in shared for name in likelihood.features]
        prior = np.exp(model.log_prior)
        mean = np.concatenate([likelihood.mean for likelihood in shared], axis=1)
        center = prior @ mean
        covariance = _block_diagonal([likelihood.covariance[0] for likelihood in shared])
        width = np.sqrt(np.diagonal(covariance))
        whiten = _whitening(covariance / np.outer(width, width)) / width
        centers = np.sqrt(prior)[:, None] * ((mean - center) @ whiten.T)
        _, spread, directions = np.linalg.svd(centers, full_matrices=False)
        size = min(len(prior) - 1, len(whiten))
        axes = whiten.T @ directions[:size].T
        largest = np.abs(axes * width[:, None]).argmax(axis=0)
        axes *= np.sign(axes[largest, np.arange(size)])
        return cls(columns, center, axes, spread[:size] ** 2)

    def project(self, table: pa.Table) -> FloatArray:
        """Coordinates of the rows, ``(n, r)``; NaN for a row with a null or NaN.

        Raises:
            DataError: if a value is infinite.
        """
        batch = table.combine_chunks().to_batches()
        if not batch:
            return np.empty((0, self.axes.shape[1]))
        rows = np.stack([numeric_column(batch[0], name) for name in self.columns], axis=1)
        projected: FloatArray = (rows - self.center) @ self.axes
        return projected


class Projection(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]  # no types
    """The methods of a transformer, for a classifier whose blocks are all ``gaussian_shared``.

    Other classifiers do not have them, so scikit-learn does not take them for transformers.
    """

    def transform(self, X: Any) -> FloatArray:
        """Coordinates of the rows on the axes that separate the classes best.

        They are the discriminants of scikit-learn's ``LinearDiscriminantAnalysis``: within each
        class they are uncorrelated and have unit variance. A row with a null has NaN in all.

        Args:
            X: ``(n, d)``.

        Returns:
            ``(n, n_components)``.

        Raises:
            SpecError: if ``n_components`` is out of bounds.
            NotSupportedError: if a block is ``predictive``, or given other columns.
        """
        check_is_fitted(self)
        table = self._features(X)
        axes = DiscriminantAxes.of(self.model_)
        projected: FloatArray = axes.project(table)[:, : self._components(axes)]
        return projected

    def fit_transform(self, X: Any, y: Any, **fit_params: Any) -> FloatArray:
        """`fit`, then `transform` of the same rows: ``(n, n_components)``."""
        projected: FloatArray = self.fit(X, y, **fit_params).transform(X)
        return projected

    @property
    def explained_variance_ratio_(self) -> FloatArray:
        """Share of each axis in the variance of the class means, ``(n_components,)``.

        Raises:
            NotFittedError: if the classifier is not fitted.
            AttributeError: if a block is not ``gaussian_shared``.
        """
        check_is_fitted(self)
        if not self._projects():
            raise AttributeError("only blocks of gaussian_shared have discriminant axes.")
        axes = DiscriminantAxes.of(self.model_)
        ratio: FloatArray = axes.variance[: self._components(axes)] / axes.variance.sum()
        return ratio

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self._components(DiscriminantAxes.of(self.model_))

    def _components(self, axes: DiscriminantAxes) -> int:
        """Number of axes to project on.

        Raises:
            SpecError: if ``n_components`` is out of bounds.
        """
        largest: int = axes.axes.shape[1]
        number = self.n_components
        if number is None:
            return largest
        if not largest:
            raise SpecError(
                "1 class has no axes to project on; fit rows of at least two, or leave "
                "n_components out."
            )
        is_whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not (is_whole and 1 <= number <= largest):
            raise SpecError(
                f"n_components must be a whole number from 1 to {largest}, the number of axes of "
                f"these columns and classes, or None, got {number!r}."
            )
        return int(number)

    def _projects(self) -> bool:
        return estimator_names(self.estimator) == {"gaussian_shared"}


def _whitening(correlation: FloatArray) -> FloatArray:
    """Axes ``(r, d)`` along which features of this correlation have unit variance, uncorrelated."""
    variance, directions = np.linalg.eigh(correlation)
    kept = variance > _LEAST_VARIANCE
    axes: FloatArray = (directions[:, kept] / np.sqrt(variance[kept])).T
    return axes


def _block_diagonal(parts: list[FloatArray]) -> FloatArray:
    size = sum(len(part) for part in parts)
    result, start = np.zeros((size, size)), 0
    for part in parts:
        stop = start + len(part)
        result[start:stop, start:stop] = part
        start = stop
    return result


# TransformerMixin has wrapped `transform` for `set_output` by now.
for _method in (Projection.transform, Projection.fit_transform, Projection.get_feature_names_out):
    setattr(Projection, _method.__name__, available_if(Projection._projects)(_method))
