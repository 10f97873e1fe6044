"""Nearest neighbors among very many points, nearly all of them found: by cells around centers.

An inverted file (Jégou, Douze and Schmid, "Product quantization for nearest neighbor search", 2011,
section IV), without the compression: points are kept in the cell of the nearest of some centers,
and a row looks into the cells of the centers nearest to it alone. The library is faiss.
"""

from __future__ import annotations

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.errors import NotSupportedError

FEWEST_POINTS = 10_000
"""Below this, looking at every point is as fast."""

_LARGEST = 1e15
"""Coordinates whose squares float32 can hold, in units of the spread of the points."""


def require_faiss() -> None:
    """Refuse what could not be searched later.

    Raises:
        NotSupportedError: faiss is not installed.
    """
    try:
        import faiss  # noqa: F401
    except ImportError as error:
        raise NotSupportedError(
            "knn_density: probes need faiss: pip install 'probclass[ann]'; or leave the option "
            "out, and every point is searched."
        ) from error


class NearestByCells:
    """Points made ready to be searched in the Euclidean norm; the same points give the same cells.

    Args:
        points: ``(m, d)``, finite, in units of their spread.
        probes: cells that a row looks into, of 4 √m.
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
        """The nearest points that were found, nearest first; see `NearestByProducts.query`."""
        single = np.clip(rows, -_LARGEST, _LARGEST).astype(np.float32)
        found = self._index.search(single, k)[1].astype(np.intp)
        apart = self._points[found] - rows[:, None, :]
        with np.errstate(over="ignore"):
            distance = np.sqrt(np.einsum("rkd,rkd->rk", apart, apart))
        distance[found < 0] = np.inf
        found[~np.isfinite(distance)] = len(self._points)
        order = np.argsort(distance, axis=1, kind="stable")
        return np.take_along_axis(distance, order, axis=1), np.take_along_axis(found, order, axis=1)
