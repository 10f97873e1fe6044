"""Plots of models and evaluations, as matplotlib figures.

matplotlib is needed here only: ``pip install 'probclass[plots]'``. It is imported when a plot is
drawn, so importing this package is cheap.

planes      two columns: contours of the classes
columns     one column: its distribution in each class, and each class given its value
evaluation  an evaluation: reliability
evidence    what columns contribute: on average over rows, and in one row
marginals   the density of a few columns, and the rows to plot with it
methods     plots as methods of what they show
style       colors, markers and lines of classes; axes with units
figure      a figure that shows itself in a notebook
"""

from probclass_core.plots.columns import effect
from probclass_core.plots.evaluation import reliability
from probclass_core.plots.evidence import importance, waterfall
from probclass_core.plots.planes import class_contours

__all__ = ["class_contours", "effect", "importance", "reliability", "waterfall"]
