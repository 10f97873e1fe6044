"""Plots of models, evaluations and scored tables, as matplotlib figures.

matplotlib is needed here only: ``pip install 'probclass[plots]'``. It is imported when a plot is
drawn, so importing this package is cheap.

planes      two columns: contours of the classes, the ball of the nearest neighbors
columns     one column: densities of numbers, probabilities of categories
evaluation  an evaluation: reliability and confusion
over_time   a scored table day by day
weights     block weights: importance of each block
marginals   the model seen in a few columns, and the rows to plot with it
regions     the region in which a class has most of its density
methods     the plots of a model and of an evaluation as methods
style       colors, markers and lines of classes; axes with units
"""

from probclass_core.plots.columns import category_masses, class_densities
from probclass_core.plots.evaluation import confusion, reliability
from probclass_core.plots.over_time import posterior_over_time
from probclass_core.plots.planes import class_contours, neighbor_ball
from probclass_core.plots.weights import block_weights

__all__ = [
    "block_weights",
    "category_masses",
    "class_contours",
    "class_densities",
    "confusion",
    "neighbor_ball",
    "posterior_over_time",
    "reliability",
]
