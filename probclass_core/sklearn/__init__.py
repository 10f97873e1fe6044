"""The face for scikit-learn: a model as a classifier of arrays and DataFrames.

classifier.py holds `ProbClassifier`, parameters.py says what its parameters mean for the columns at
hand, conversion.py turns what scikit-learn's users hold into Arrow. scikit-learn is imported here
and nowhere else, and nothing else imports this.
"""

from probclass_core.sklearn.classifier import ProbClassifier

__all__ = ["ProbClassifier"]
