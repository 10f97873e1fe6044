"""The conformance kit: the laws of estimators and of sinks, to be tried on any of them.

tables      `SinkLaws`: subclass it, and pytest tries every law of a sink
suite       `EstimatorLaws`: subclass it, and pytest tries every law of an estimator on tables
            with extreme values, which Hypothesis generates
laws        the laws, as plain functions that need neither pytest nor Hypothesis
totals      sums of masses and integrals of densities, for the laws that they are 1
trial       how a law is tried: the estimator, the decorator of laws, comparisons of results
forms       the same rows in other Arrow types and layouts, in parts, and on SQLite

`tables` and `suite` need the extra ``testing``.
"""

import sys

if "pytest" in sys.modules:  # a broken law then shows the values
    sys.modules["pytest"].register_assert_rewrite(f"{__name__}.tables")
