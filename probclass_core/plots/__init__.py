"""Plots of models and evaluations, as matplotlib figures.

matplotlib is needed here only: ``pip install 'probclass[plots]'``. It is imported when a plot is
drawn, so importing this package is cheap.

planes      two columns: contours of the classes
columns     one column: its distribution in each class, and each class given its value
results     reliability, and what columns contribute: on average over rows, and in one row
methods     plots as methods of a model
style       colors, markers and lines of classes; axes with units
figure      a figure that shows itself in a notebook
"""

from probclass_core.plots.columns import effect
from probclass_core.plots.planes import class_contours
from probclass_core.plots.results import importance, reliability, waterfall

__all__ = ["class_contours", "effect", "importance", "reliability", "waterfall"]
