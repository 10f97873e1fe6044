"""Approximate search for nearest neighbors among very many points: cells around centroids.

An inverted file (Jégou, Douze and Schmid, "Product quantization for nearest neighbor search", 2011,
section IV), without compression: each point is in the cell of its nearest centroid, and the search
for a row visits only the cells of the centroids nearest to it. The library is faiss.
"""

from __future__ import annotations

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.errors import NotSupportedError

FEWEST_POINTS = 10_000
"""Below this number, searching every point is as fast."""

_LARGEST = 1e15
"""Largest coordinate whose square float32 can represent, in units of the spread of the points."""


def require_faiss() -> None:
    """Refuse the option ``probes`` early if the search could not run later.

    Raises:
        NotSupportedError: if faiss is not installed.
    """
    try:
        import faiss  # noqa: F401
    except ImportError as error:
        raise NotSupportedError(
            "knn_density: probes need faiss: pip install 'probclass[ann]'; or leave the option "
            "out, and every point is searched."
        ) from error


class NearestByCells:
    """An index of points for the Euclidean norm; the same points give the same cells.

    Args:
        points: ``(m, d)``, finite, in units of their spread.
        probes: number of cells, of 4 √m, to search for each row.
    """

    def __init__(self, points: FloatArray, probes: int) -> None:
        import faiss

        self._points = points
        cells = round(4.0 * len(points) ** 0.5)
        self._index = faiss.IndexIVFFlat(faiss.IndexFlatL2(points.shape[1]), points.shape[1], cells)
        self._index.cp.max_points_per_centroid = 64
        self._index.nprobe = min(probes, cells)
        single = np.ascontiguousarray(points, dtype=np.float32)
        self._index.train(single)
        self._index.add(single)

    def query(self, rows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """The nearest points found, nearest first; see `NearestByProducts.query`."""
        single = np.clip(rows, -_LARGEST, _LARGEST).astype(np.float32)
        point = self._index.search(single, k)[1].astype(np.intp)
        difference = self._points[point] - rows[:, None, :]
        with np.errstate(over="ignore"):
            distance = np.sqrt(np.einsum("rkd,rkd->rk", difference, difference))
        distance[point < 0] = np.inf
        point[~np.isfinite(distance)] = len(self._points)
        order = np.argsort(distance, axis=1, kind="stable")
        return np.take_along_axis(distance, order, axis=1), np.take_along_axis(point, order, axis=1)
