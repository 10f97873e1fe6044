"""Plots of models, evaluations and scored tables, as matplotlib figures.

matplotlib is needed here only: ``pip install 'probclass[plots]'``. It is imported when a plot is
drawn, so importing this package is cheap.

planes      two columns: contours of the classes
columns     one column: its distribution in each class, and each class given its value
evaluation  an evaluation: reliability and confusion; differences of cross-validated models
over_time   a scored table day by day
evidence    what columns contribute: on average over rows, in one row, and by block
marginals   the density of a few columns, and the rows to plot with it
methods     plots as methods of what they show
style       colors, markers and lines of classes; axes with units
figure      a figure that shows itself in a notebook
"""

from probclass_core.plots.columns import effect
from probclass_core.plots.evaluation import confusion, differences, reliability
from probclass_core.plots.evidence import block_weights, importance, waterfall
from probclass_core.plots.over_time import posterior_over_time
from probclass_core.plots.planes import class_contours

__all__ = [
    "block_weights",
    "class_contours",
    "confusion",
    "differences",
    "effect",
    "importance",
    "posterior_over_time",
    "reliability",
    "waterfall",
]
