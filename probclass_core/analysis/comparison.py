"""Which of several models the data support: log evidence, Bayes factors and odds.

The evidence of a model is the probability of the data with its parameters integrated out,
E(M) = p(D | M) = ∫ p(D | M, θ) p(θ | M) dθ. The ratio of two is the Bayes factor, and with the
prior odds it gives the odds ratio, Q₂₁ = E(M₂) P(M₂) / E(M₁) P(M₁): above 10 it is strong evidence
in favor of M₂, above 100 decisive (Ivezić, Connolly, VanderPlas and Gray, *Statistics, Data
Mining, and Machine Learning in Astronomy*, section 5.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from probclass_core.arguments import checked_number
from probclass_core.arrow.arrays import FloatArray
from probclass_core.display import Part, Report, ShortRepr, TablePart
from probclass_core.errors import DataError, SpecError, check_known, expect, naming, one_of, shown
from probclass_core.estimation.evidence import dirichlet_categorical
from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.model.posterior import log_of, normalize
from probclass_core.spec.model_spec import ModelSpec, category_text

Compared = TypeVar("Compared")

_SUMMARIZE = "get them by summarize, or give compare the rows and a list of specs"

STRONG, DECISIVE = 10.0, 100.0
"""Odds above which evidence is strong or decisive."""

_LARGE_ODDS = 1e6
"""Odds beyond this, or below its inverse, are written as a power of ten."""

_MAX_LOG_PRIOR_ODDS = 600.0
"""Larger log prior odds would give a prior of 0 in float64."""


@dataclass(frozen=True, repr=False)
class ModelOdds(ShortRepr):
    """The odds of one model against another.

    Attributes:
        log_bayes_factor: log E(model) − log E(against) in nats.
        bayes_factor: E(model) / E(against); infinite or 0 beyond float64.
        prior_odds: P(model) / P(against).
        log_odds: log Bayes factor plus log prior odds, in nats.
        odds: Bayes factor times prior odds.
        reading: ``decisive``, ``strong``, ``not strong``, ``strong against``, ``decisive against``.
    """

    log_bayes_factor: float
    bayes_factor: float
    prior_odds: float
    log_odds: float
    odds: float
    reading: str

    @property
    def text(self) -> str:
        """The odds; very large and very small ones as a power of ten."""
        if math.isfinite(self.log_odds) and not 1 / _LARGE_ODDS < self.odds < _LARGE_ODDS:
            return f"10^{self.log_odds / math.log(10.0):.0f}"
        return f"{self.odds:,.3g}"


@dataclass(frozen=True, repr=False)
class Comparison(Report):
    """Models of the same rows and columns, compared by their evidence.

    Attributes:
        table: one row per model, the most probable first: model, log_evidence (nats),
            log_bayes_factor and bayes_factor against the best, prior, posterior, odds against the
            best, reading (``best``; for others as `ModelOdds`, of this model against the best).
    """

    table: pa.Table

    @property
    def best(self) -> str:
        """The most probable model; ties go to the first."""
        return str(self.table["model"][0].as_py())

    def _report(self) -> list[Part]:
        """The table, and what evidence does not tell."""
        names = ("model", "log_evidence", "posterior", "odds", "reading")
        columns = {name.replace("_", " "): self.table[name].to_pylist() for name in names}
        columns["odds"] = [self.odds(name, self.best).text for name in columns["model"]]
        second = columns["model"][1]
        lead = self.odds(self.best, second)
        caution = (
            "Evidence says which of these models the rows support most, not whether one of them is "
            "good: all may be poor. Evaluate the best on rows that training did not see."
        )
        return [
            caution,
            TablePart(columns, "models, the most probable first; odds against the best"),
            f"{self.best} against {second}: odds of {lead.text} to 1, {lead.reading}.",
        ]

    def odds(self, model: object, against: object) -> ModelOdds:
        """The odds of one model against another.

        Args:
            model: name of a model, as in `table`.
            against: name of the other one.

        Raises:
            SpecError: if a model is unknown.
            DataError: if both models are impossible, so that no odds are defined.
        """
        row, rival = self._row(model), self._row(against)
        return _odds(row["log_evidence"], rival["log_evidence"], row["prior"], rival["prior"])

    def _row(self, model: object) -> dict[str, Any]:
        rows = {row["model"]: row for row in self.table.to_pylist()}
        check_known([model], rows, "no comparison with model", "there are")
        return dict(rows[str(model)])


def compare_statistics(
    statistics: Sequence[Statistics] | Mapping[str, Statistics],
    *,
    prior: Mapping[str, float] | None = None,
) -> Comparison:
    """Compare models by the evidence of their statistics; see `pipeline.compare`."""
    named = named_models(statistics, Statistics, _SUMMARIZE)
    log_prior = _log_prior(list(named), prior)
    _check_same_data(named)
    evidence = np.array([_log_evidence(*model) for model in named.items()])
    log_joint = evidence + log_prior
    if np.isneginf(log_joint).all():
        raise DataError(
            "every model gives the rows evidence 0: its prior rules out a class that "
            "occurs in them; give every class that can occur a prior above 0."
        )
    posterior = normalize(log_joint[None, :], log_prior)
    order = np.argsort(-log_joint, kind="stable")
    best = int(order[0])
    priors = np.exp(log_prior)
    odds = [_odds(evidence[i], evidence[best], priors[i], priors[best]) for i in order]
    return Comparison(
        pa.table(
            {
                "model": [list(named)[i] for i in order],
                "log_evidence": evidence[order],
                "log_bayes_factor": [model.log_bayes_factor for model in odds],
                "bayes_factor": [model.bayes_factor for model in odds],
                "prior": priors[order],
                "posterior": posterior.probability[0][order],
                "odds": [model.odds for model in odds],
                "reading": ["best", *(model.reading for model in odds[1:])],
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


def _log_prior(names: Sequence[str], prior: Mapping[str, float] | None) -> FloatArray:
    """Log prior probabilities of the models."""
    if prior is None:
        return np.full(len(names), -math.log(len(names)))
    if not isinstance(prior, Mapping) or sorted(map(str, prior)) != sorted(names):
        raise SpecError(
            f"prior must give a number for each of {one_of(names)}, got {shown(prior)}."
        )
    odds = {
        str(name): checked_number(f"prior of model {name!r}", value, above=True)
        for name, value in prior.items()
    }
    log_odds: FloatArray = np.log([odds[name] for name in names])
    if np.ptp(log_odds) > _MAX_LOG_PRIOR_ODDS:
        raise SpecError(
            f"prior odds of more than e^{_MAX_LOG_PRIOR_ODDS:.0f} decide the comparison by "
            f"themselves, got {prior!r}."
        )
    log_prior: FloatArray = normalize(log_odds[None, :], log_odds).log_probability[0]
    return log_prior


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


def _odds(
    log_evidence: float, rival_log_evidence: float, prior: float, rival_prior: float
) -> ModelOdds:
    if math.isinf(log_evidence) and math.isinf(rival_log_evidence):
        raise DataError("both models give the rows evidence 0: no odds are defined.")
    log_factor = float(log_evidence - rival_log_evidence)
    prior_odds = float(prior / rival_prior)
    log_odds = log_factor + math.log(prior_odds)
    with np.errstate(over="ignore"):
        factor, odds = (float(np.exp(value)) for value in (log_factor, log_odds))
    return ModelOdds(log_factor, factor, prior_odds, log_odds, odds, _reading(log_odds))


def _reading(log_odds: float) -> str:
    if abs(log_odds) <= math.log(STRONG):
        return "not strong"
    word = "decisive" if abs(log_odds) > math.log(DECISIVE) else "strong"
    return word if log_odds > 0.0 else f"{word} against"
