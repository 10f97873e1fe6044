"""Which of several models the data support: log evidence and Bayes factors.

The evidence of a model is the probability of the data with its parameters integrated out,
E(M) = p(D | M) = ∫ p(D | M, θ) p(θ | M) dθ. The ratio of two is the Bayes factor, by which the data
multiply the odds of the models: above 10 it is strong evidence in favor of the first, above 100
decisive (Ivezić, Connolly, VanderPlas and Gray, *Statistics, Data Mining, and Machine Learning in
Astronomy*, section 5.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from probclass_core.display import Part, Report, ShortRepr, TablePart
from probclass_core.errors import DataError, SpecError, expect, naming, one_of, shown
from probclass_core.estimation.evidence import dirichlet_categorical
from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.model.posterior import log_of
from probclass_core.spec.model_spec import ModelSpec, category_text

Compared = TypeVar("Compared")

_SUMMARIZE = "get them by summarize, or give compare the rows and a list of specs"

STRONG, DECISIVE = 10.0, 100.0
"""Bayes factors above which evidence is strong or decisive."""

_LARGE = 1e6
"""Factors beyond this, or below its inverse, are written as a power of ten."""


@dataclass(frozen=True, repr=False)
class BayesFactor(ShortRepr):
    """How much more the data support one model than another.

    Attributes:
        log: log E(model) − log E(against) in nats.
    """

    log: float

    @property
    def value(self) -> float:
        """E(model) / E(against); infinite or 0 beyond float64."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log))

    @property
    def reading(self) -> str:
        """``decisive``, ``strong``, ``not strong``, ``strong against``, ``decisive against``."""
        if abs(self.log) <= math.log(STRONG):
            return "not strong"
        word = "decisive" if abs(self.log) > math.log(DECISIVE) else "strong"
        return word if self.log > 0.0 else f"{word} against"

    def __str__(self) -> str:
        if math.isfinite(self.log) and not 1 / _LARGE < self.value < _LARGE:
            return f"10^{self.log / math.log(10.0):.0f}"
        return f"{self.value:,.3g}"


@dataclass(frozen=True, repr=False)
class Comparison(Report):
    """Models of the same rows and columns, compared by their evidence.

    Attributes:
        table: one row per model, the most probable first: model, log_evidence (nats),
            log_bayes_factor and bayes_factor against the best, posterior (of models that were
            equally probable before), reading (``best``; for others as `BayesFactor`, of this model
            against the best).
    """

    table: pa.Table

    @property
    def best(self) -> str:
        """The most probable model; ties go to the first."""
        return str(self.table["model"][0].as_py())

    def _report(self) -> list[Part]:
        """The table, and what evidence does not tell."""
        names = ("model", "log_evidence", "posterior", "bayes_factor", "reading")
        columns = {name.replace("_", " "): self.table[name].to_pylist() for name in names}
        first, second = columns["model"][:2]
        columns["bayes factor"] = [str(self.bayes_factor(one, first)) for one in columns["model"]]
        lead = self.bayes_factor(first, second)
        caution = (
            "Evidence says which of these models the rows support most, not whether one of them is "
            "good: all may be poor. Evaluate the best on rows that training did not see."
        )
        return [
            caution,
            TablePart(columns, "models, the most probable first; Bayes factors against the best"),
            f"{first} against {second}: a Bayes factor of {lead}, {lead.reading}.",
        ]

    def bayes_factor(self, model: object, against: object) -> BayesFactor:
        """The Bayes factor of one model against another.

        Raises:
            SpecError: if a model is unknown.
            DataError: if both models are impossible, so that none is defined.
        """
        own, other = self._evidence_of(model), self._evidence_of(against)
        if math.isinf(own) and math.isinf(other):
            raise DataError("both models give the rows evidence 0: no Bayes factor is defined.")
        return BayesFactor(own - other)

    def _evidence_of(self, model: object) -> float:
        known = {row["model"]: row["log_evidence"] for row in self.table.to_pylist()}
        if model not in known:
            raise SpecError(f"no model {model!r} was compared; there are {one_of(known)}.")
        return float(known[str(model)])


def compare_statistics(
    statistics: Sequence[Statistics] | Mapping[str, Statistics],
) -> Comparison:
    """Compare models by the evidence of their statistics; see `pipeline.compare`."""
    named = named_models(statistics, Statistics, _SUMMARIZE)
    _check_same_data(named)
    evidence = np.array([_log_evidence(*model) for model in named.items()])
    if np.isneginf(evidence).all():
        raise DataError(
            "every model gives the rows evidence 0: its prior rules out a class that "
            "occurs in them; give every class that can occur a prior above 0."
        )
    order = np.argsort(-evidence, kind="stable")
    evidence = evidence[order]
    factors = [BayesFactor(float(one - evidence[0])) for one in evidence]
    values = np.array([factor.value for factor in factors])
    return Comparison(
        pa.table(
            {
                "model": [list(named)[i] for i in order],
                "log_evidence": evidence,
                "log_bayes_factor": [factor.log for factor in factors],
                "bayes_factor": values,
                "posterior": values / values.sum(),
                "reading": ["best", *(factor.reading for factor in factors[1:])],
            }
        )
    )


def _log_evidence(name: str, statistics: Statistics) -> float:
    """Log evidence of a model."""
    log_evidence = _label_evidence(statistics)
    for block, estimator in bind(statistics.spec, statistics.features).items():
        with naming(f"model {name!r}, block {block!r}"):
            log_evidence += float(estimator.log_evidence(statistics.blocks[block]))
    return log_evidence


def _label_evidence(statistics: Statistics) -> float:
    """log p(labels, in their order | prior)."""
    counts = statistics.classes["count"].to_numpy()
    prior = statistics.spec.prior
    if prior == "empirical":
        return float(dirichlet_categorical(counts, np.ones(len(counts))))
    if prior == "uniform":
        return -float(counts.sum()) * math.log(len(counts))
    assert isinstance(prior, Mapping)
    names = [category_text(label) for label in statistics.classes["class"].to_pylist()]
    unknown = [name for name in names if name not in prior]
    if unknown:
        raise SpecError(f"the prior leaves out class {unknown[0]!r}; it has {one_of(prior)}.")
    return float(counts @ log_of([prior[name] for name in names]))


def named_models(
    models: Sequence[object] | Mapping[str, object],
    kind: type[Compared],
    fix: str,
    convert: Callable[[object], object] = lambda value: value,
) -> dict[str, Compared]:
    """Models by name, checked.

    Args:
        models: a mapping by model name, or a list of models M1, M2, …
        kind: type of the models.
        fix: how to get a value of that type.
        convert: applied to each model, to get a value of that type.

    Raises:
        SpecError: if there are fewer than two models, or they are of another type.
    """
    if isinstance(models, Sequence) and not isinstance(models, str):
        models = {f"M{number}": model for number, model in enumerate(models, start=1)}
    if not isinstance(models, Mapping):
        raise SpecError(
            f"expected a list or mapping of {kind.__name__}, got {type(models).__name__}; {fix}."
        )
    named = {str(name): value for name, value in models.items()}
    checked = {name: expect(convert(value), kind, fix) for name, value in named.items()}
    if len(checked) < 2:
        raise SpecError(f"a comparison needs two models or more, got {len(checked)}.")
    return checked


def check_same_label(specs: Mapping[str, ModelSpec]) -> None:
    """Check that specs have the same label.

    Raises:
        SpecError: if they do not, so that their models cannot be compared.
    """
    _check_same("label", {name: spec.label for name, spec in specs.items()})


def check_same_columns(specs: Mapping[str, ModelSpec]) -> None:
    """Check that specs have the same label, weight and columns.

    Raises:
        SpecError: if they do not, so that evidence cannot compare their models.
    """
    check_same_label(specs)
    _check_same("weight", {name: spec.weight for name, spec in specs.items()})
    first_name, first = next(iter(specs.items()))
    for name, other in specs.items():
        different = set(other.features) ^ set(first.features)
        if different:
            raise SpecError(
                f"models {first_name!r} and {name!r} do not model the same columns: only one has "
                f"{one_of(different)}; evidence is comparable for the same columns only. Compare "
                "how well they predict by cross_validate(source, {name: spec, …}), which the "
                "command line does by compare --folds 5."
            )


def _check_same(what: str, values: Mapping[str, object]) -> None:
    first, expected = next(iter(values.items()))
    for name, value in values.items():
        if value != expected:
            raise SpecError(
                f"model {name!r} has {what} {value!r} and {first!r} has {expected!r}; "
                "only models of the same rows can be compared."
            )


def _check_same_data(named: Mapping[str, Statistics]) -> None:
    """Check that all models are of the same columns of the same rows."""
    first_name, first = next(iter(named.items()))
    if not first.classes.num_rows:
        raise DataError("there is nothing to compare: the statistics have no labeled rows.")
    check_same_columns({name: one.spec for name, one in named.items()})
    for name, other in named.items():
        if other.classes.to_pylist() != first.classes.to_pylist():
            raise DataError(
                f"models {first_name!r} and {name!r} are of different rows: their counts by class "
                f"are {_counts(first)} and {_counts(other)}; summarize the same rows for both."
            )


def _counts(statistics: Statistics) -> str:
    """The counts by class, for messages."""
    rows = statistics.classes.select(["class", "count"]).to_pylist()
    return shown({category_text(row["class"]): row["count"] for row in rows})
