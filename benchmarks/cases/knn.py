"""K nearest neighbors of query points, exact, in few dimensions and in many.

Other libraries give distances and neighbors; probclass also computes densities and posteriors. The
outcome derives both from the neighbors, for comparison. Trees are built before the timing starts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import gamma
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import probclass_core as pc
from benchmarks.case import OURS, Case, Outcome, Target

K = 10
CLASSES = 3
DIMENSIONS = (2, 5, 8, 15, 30)
FEW_DIMENSIONS = 10
"""With more dimensions, a tree takes longer than all the others together."""


@dataclass(frozen=True)
class Points:
    """Normal reference points of three classes, and a twentieth as many query points.

    Attributes:
        count: number of reference points.
        dimensions: number of dimensions.
    """

    count: int
    dimensions: int

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [f"x{j}" for j in range(self.dimensions)]


@functools.cache
def sample(points: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reference points ``(n, d)``, their classes ``(n,)``, and queries ``(q, d)``."""
    generator = np.random.default_rng([points.count, points.dimensions])
    labels = generator.integers(0, CLASSES, points.count)
    reference = generator.standard_normal((points.count, points.dimensions)) + 0.3 * labels[:, None]
    queries = generator.standard_normal((max(points.count // 20, 1), points.dimensions)) + 0.3
    return reference, labels, queries


def densities(points: Points, returned: Any) -> Outcome:
    """Posteriors and log densities, summed over the queries."""
    reference, labels, queries = sample(points)
    if isinstance(returned, dict):
        return returned
    distance, neighbor = returned
    votes = np.stack([(labels[neighbor] == c).sum(axis=1) for c in range(CLASSES)], axis=1)
    unit = float(np.pi ** (points.dimensions / 2)) / gamma(points.dimensions / 2 + 1)
    log_volume = np.log(unit) + points.dimensions * np.log(distance[:, -1])
    log_density = np.log(K / len(reference)) - log_volume
    return _totals(len(queries), votes / K, log_density)


def _totals(rows: int, posterior: np.ndarray, log_density: np.ndarray) -> Outcome:
    return {
        "rows": rows,
        "posterior": posterior.sum(axis=0),
        "log_density": log_density.sum(),
    }


def knn_case(dimensions: int) -> Case[Points]:
    """A case for a number of dimensions."""

    def points(cache: Path, rows: int) -> Points:
        return Points(rows, dimensions)

    others = dict(TREES if dimensions <= FEW_DIMENSIONS else {}, **ANY_DIMENSIONS)
    case: Case[Points] = Case(
        name=f"knn_d{dimensions}",
        title=f"{K} nearest neighbors in {dimensions} dimensions",
        rows=100_000,
        prepare=points,
        reference=next(iter(others)),
        targets=(Target(1.0, tuple(others)),),
        outcome=densities,
        tolerance=1e-5,  # faiss computes in float32
    )
    case.implementation(OURS)(density)
    for name, search in others.items():
        case.implementation(name, is_baseline=name == case.reference)(search)
    return case


def scipy_tree(points: Points) -> Any:
    """query with workers=-1."""
    return _tree(points).query(sample(points)[2], k=K, workers=-1)


@functools.cache
def _tree(points: Points) -> Any:
    from scipy.spatial import cKDTree

    return cKDTree(sample(points)[0])


def sklearn_neighbors(points: Points) -> Any:
    """NearestNeighbors.kneighbors, algorithm chosen by scikit-learn, n_jobs=-1."""
    return _neighbors(points).kneighbors(sample(points)[2])


@functools.cache
def _neighbors(points: Points) -> Any:
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=K, n_jobs=-1).fit(sample(points)[0])


def pykdtree_tree(points: Points) -> Any:
    """KDTree.query, with the threads of OpenMP."""
    return _pykdtree(points).query(sample(points)[2], k=K)


@functools.cache
def _pykdtree(points: Points) -> Any:
    from pykdtree.kdtree import KDTree

    return KDTree(sample(points)[0])


def faiss_flat(points: Points) -> Any:
    """IndexFlatL2.search: float32, all distances."""
    squared, neighbors = _faiss(points).search(sample(points)[2].astype(np.float32), K)
    return np.sqrt(squared.astype(np.float64)), neighbors


@functools.cache
def _faiss(points: Points) -> Any:
    import faiss

    index = faiss.IndexFlatL2(points.dimensions)
    index.add(sample(points)[0].astype(np.float32))
    return index


TREES = {"scipy cKDTree": scipy_tree, "pykdtree": pykdtree_tree}
ANY_DIMENSIONS = {"faiss": faiss_flat, "scikit-learn": sklearn_neighbors}


def density(points: Points) -> Outcome:
    """posteriors and log densities of a batch by knn_density."""
    model, batch = _model(points)
    posterior = model.posterior(batch)
    return _totals(len(batch), posterior.probability, posterior.log_density)


@functools.cache
def _model(points: Points) -> tuple[pc.Model, pa.RecordBatch]:
    reference, labels, queries = sample(points)
    table = pa.table({**dict(zip(points.names, reference.T.copy(), strict=True)), "label": labels})
    spec = pc.ModelSpec(label="label", blocks=[pc.Block("knn_density", points.names, k=K)])
    model = pc.fit(table, spec)
    model.predict(table.slice(0, 1))  # builds the tree
    return model, pa.record_batch(dict(zip(points.names, queries.T.copy(), strict=True)))


CASES = tuple(knn_case(dimensions) for dimensions in DIMENSIONS)
