"""A model as a scikit-learn classifier of arrays and DataFrames.

scikit-learn is imported here only, and no other package imports this one.

classifier  ProbClassifier
parameters  its parameters as a ModelSpec
conversion  arrays, frames and labels as Arrow
"""

from probclass_core.sklearn.classifier import ProbClassifier

__all__ = ["ProbClassifier"]
