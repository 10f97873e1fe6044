"""Pictures of models, evaluations and scored tables, as matplotlib figures.

matplotlib is needed here and nowhere else: ``pip install 'probclass[plots]'``. It is imported when
a picture is drawn, so importing this package is cheap. A map, in reading order:

- `style`: colors, markers and lines that are told apart; axes that say their units.
- `blocks`: the blocks that hold a column, every other column marginalized.
- `cells`: a column as categories, bins or terms, with a probability each.
- `marginals`: a model seen in one or two numbers, and where each class lives there.
- `planes`: two columns: contours of the classes, the ball of the nearest neighbors.
- `columns`: one column: the density of a number, probabilities of categories.
- `judgment`: an evaluation: reliability, confusion.
- `over_time`: a scored table, day by day.
"""

from probclass_core.plots.columns import category_masses, class_densities
from probclass_core.plots.evaluation import confusion, reliability
from probclass_core.plots.over_time import posterior_over_time
from probclass_core.plots.planes import class_contours, neighbor_ball

__all__ = [
    "category_masses",
    "class_contours",
    "class_densities",
    "confusion",
    "neighbor_ball",
    "posterior_over_time",
    "reliability",
]
