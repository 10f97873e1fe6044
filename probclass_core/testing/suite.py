"""The class that a plugin's tests subclass: pytest then tries every law of the contract.

Example::

    class TestExponential(EstimatorLaws):
        plugin = EXPONENTIAL
        columns = {"wait": numbers(at_least=0.0), "delay": numbers(at_least=0.0)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from hypothesis import Phase, Verbosity, assume, given, settings
from hypothesis import strategies as st

from probclass_core.plugins.descriptors import EstimatorPlugin
from probclass_core.testing.generators import INPUTS, Column
from probclass_core.testing.law import Law, needs
from probclass_core.testing.laws import LAWS_OF_EVIDENCE, evidence_adds_up_over_classes, laws_of
from probclass_core.testing.trial import Trial

if TYPE_CHECKING:
    import pytest


class EstimatorLaws:
    """Every law of the contract, tried on one estimator.

    A subclass whose name begins with ``Test`` sets ``plugin`` and ``columns``. Which laws bind the
    estimator follows from its traits. A broken law's message names it, and shows the smallest rows
    found that break it.

    Attributes:
        plugin: the descriptor that the hook yields. It is tried as if it were installed.
        columns: of the block, by name; see `generators`.
        options: of the block, of which each example uses one.
        declared_prior: options under which the prior is proper and fixed beforehand, without a
            look at the rows, for the laws of evidence.
        evidence_adds_up: false where the classes share a parameter, such as a covariance, so that
            their evidences do not add up.
        examples: how many tables each law is tried on.
        tolerance: see `Trial`.
    """

    plugin: ClassVar[EstimatorPlugin]
    columns: ClassVar[Mapping[str, Column]]
    options: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    declared_prior: ClassVar[Mapping[str, Any]] = {}
    evidence_adds_up: ClassVar[bool] = True
    examples: ClassVar[int] = 15
    tolerance: ClassVar[float] = 1e-6

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """One test for each law that binds the estimator."""
        if "law" in metafunc.fixturenames:
            laws = laws_of(cls.plugin)
            if not cls.evidence_adds_up:
                laws = [one for one in laws if one is not evidence_adds_up_over_classes]
            metafunc.parametrize("law", laws, ids=[one.__name__ for one in laws])

    def test_law(self, law: Law) -> None:
        """The law holds of every table drawn."""
        __tracebackhide__ = True
        try_law(
            law,
            self.plugin,
            self.columns,
            [self.declared_prior] if law in LAWS_OF_EVIDENCE else self.options,
            examples=self.examples,
            tolerance=self.tolerance,
        )


def try_law(
    law: Law,
    plugin: EstimatorPlugin,
    columns: Mapping[str, Column],
    options: Sequence[Mapping[str, Any]] = ({},),
    *,
    examples: int = 15,
    tolerance: float = 1e-6,
) -> None:
    """Try one law on tables drawn for it; see `EstimatorLaws`.

    Raises:
        AssertionError: it is broken; shown is the smallest example found.
        hypothesis.errors.Unsatisfiable: hardly any table carries a model of this estimator.
    """
    __tracebackhide__ = True
    drawn = {name: INPUTS[name](columns) for name in needs(law)}

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        verbosity=Verbosity.quiet,
    )
    @given(chosen=st.sampled_from(list(options)), inputs=st.fixed_dictionaries(drawn))
    def holds(chosen: Mapping[str, Any], inputs: dict[str, Any]) -> None:
        trial = Trial(plugin, tuple(columns), chosen, tolerance)
        table = inputs["table"] if "table" in inputs else pa.concat_tables(inputs["parts"])
        assume(trial.carries(table))
        law(trial, **inputs)

    holds()
