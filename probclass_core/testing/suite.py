"""A test class whose subclasses make pytest try every law of the contract.

Example::

    class TestExponential(EstimatorLaws):
        estimator = Exponential
        columns = {"wait": numbers(at_least=0.0), "delay": numbers(at_least=0.0)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import hypothesis
import pyarrow as pa
from hypothesis import Phase, Verbosity, assume, settings
from hypothesis import strategies as st

from probclass_core.estimation.contract import Estimator
from probclass_core.plugins.manager import find_conditional
from probclass_core.testing.generators import INPUTS, Column
from probclass_core.testing.law import Law, needs
from probclass_core.testing.laws import LAWS_OF_EVIDENCE, evidence_adds_up_over_classes, laws_of
from probclass_core.testing.trial import Outcomes, Trial

if TYPE_CHECKING:
    import pytest


class EstimatorLaws:
    """Tests of one estimator against every law of the contract.

    A subclass whose name begins with ``Test`` sets ``estimator`` and ``columns``. What the class
    declares determines which laws apply. If a law is broken, the message names it and shows the
    smallest rows found that break it.

    Attributes:
        estimator: class of the estimator, which need not be installed.
        columns: columns of the block by name; see `generators`.
        given: columns that the block is given, by name; then the laws are those of the estimator's
            conditional.
        options: alternative options of the block; each example uses one of them.
        declared_prior: options that make the prior proper and independent of the rows, for the laws
            of evidence.
        outcomes: function of a fitted model to rows whose probabilities add up to 1, or to None if
            they need not; for masses whose values are neither counts nor those of training.
        evidence_adds_up: False if classes share a parameter, such as a covariance, so that log
            evidence is not a sum over classes.
        examples: number of tables that each law is tried on, or that of Hypothesis' profile if
            it is smaller.
        tolerance: see `Trial`.
    """

    estimator: ClassVar[type[Estimator]]
    columns: ClassVar[Mapping[str, Column]]
    given: ClassVar[Mapping[str, Column]] = {}
    options: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    declared_prior: ClassVar[Mapping[str, Any]] = {}
    outcomes: ClassVar[Outcomes | None] = None
    evidence_adds_up: ClassVar[bool] = True
    examples: ClassVar[int] = 15
    tolerance: ClassVar[float] = 1e-6

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """Make one test for each law that applies to the estimator."""
        if "law" in metafunc.fixturenames:
            kind = find_conditional(cls.estimator.name) if cls.given else cls.estimator
            laws = laws_of(kind)
            if not cls.evidence_adds_up:
                laws = [law for law in laws if law is not evidence_adds_up_over_classes]
            metafunc.parametrize("law", laws, ids=[law.__name__ for law in laws])

    def test_law(self, law: Law) -> None:
        """The law is true for every generated table."""
        __tracebackhide__ = True
        try_law(
            law,
            self.estimator,
            self.columns,
            [self.declared_prior] if law in LAWS_OF_EVIDENCE else self.options,
            given=self.given,
            outcomes=type(self).outcomes,
            examples=self.examples,
            tolerance=self.tolerance,
        )


def try_law(
    law: Law,
    estimator: type[Estimator],
    columns: Mapping[str, Column],
    options: Sequence[Mapping[str, Any]] = ({},),
    *,
    given: Mapping[str, Column] = {},
    outcomes: Outcomes | None = None,
    examples: int = 15,
    tolerance: float = 1e-6,
) -> None:
    """Try one law on generated tables; see `EstimatorLaws`.

    Raises:
        AssertionError: if the law is broken; shows the smallest example found.
        hypothesis.errors.Unsatisfiable: if the estimator refuses almost all tables.
    """
    __tracebackhide__ = True
    strategies = {name: INPUTS[name]({**columns, **given}) for name in needs(law)}

    @settings(
        max_examples=min(examples, settings().max_examples),
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        verbosity=Verbosity.quiet,
    )
    @hypothesis.given(
        chosen=st.sampled_from(list(options)), inputs=st.fixed_dictionaries(strategies)
    )
    def try_example(chosen: Mapping[str, Any], inputs: dict[str, Any]) -> None:
        spaces = {name: column.space for name, column in columns.items()}
        trial = Trial(estimator, tuple(columns), chosen, tolerance, tuple(given), spaces, outcomes)
        table = inputs["table"] if "table" in inputs else pa.concat_tables(inputs["parts"])
        assume(trial.can_fit(table))
        law(trial, **inputs)

    try_example()
