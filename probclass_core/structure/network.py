"""The network of the density: every column given the one other that it depends on most.

Of all trees, the one whose pairs have the largest sum of I(x; y | class) is nearest to the
distribution of the rows (Chow and Liu, "Approximating discrete probability distributions with
dependence trees", 1968; within classes Friedman et al., "Bayesian network classifiers", 1997).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from probclass_core.structure.pairs import Pair


def tree(pairs: Sequence[Pair], columns: int) -> list[int | None]:
    """The parent of each column, None for a root; every tree has one.

    Args:
        pairs: pairs of columns that depend on each other, those that are most dependent first.
        columns: number of columns.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    ends = [[pair.child for pair in pairs], [pair.parent for pair in pairs]]
    # Ranks, so that ties are ties on every machine.
    ranks = np.arange(1, len(pairs) + 1)
    joined = minimum_spanning_tree(coo_array((ranks, ends), shape=(columns, columns)))
    parents: list[int | None] = [None] * columns
    reached = np.zeros(columns, dtype=bool)
    for root in range(columns):
        if not reached[root]:
            order, before = breadth_first_order(joined, root, directed=False)
            reached[order] = True
            for place in order[1:].tolist():
                parents[place] = int(before[place])
    return parents
