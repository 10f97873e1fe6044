"""What changed between two models, told from their parameters: no row is read again.

Reading map:
    laws: the law of every column within every class, read off a parameters table.
    divergence: how far apart two laws are, in bits.
    report: `drift`, which puts the two together, class by class and feature by feature.
"""

from probclass_core.drift.report import Drift, drift

__all__ = ["Drift", "drift"]
