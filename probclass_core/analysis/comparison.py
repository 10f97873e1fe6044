"""Which of several models the data support: evidence, Bayes factors and odds.

The evidence of a model is the probability of the data with its parameters integrated out,
E(M) = p(D | M) = ∫ p(D | M, θ) p(θ | M) dθ. The ratio of two is the Bayes factor, and with the
prior odds it gives the odds ratio, Q₂₁ = E(M₂) P(M₂) / E(M₁) P(M₁): above 10 it is strong evidence
in favor of M₂, above 100 decisive (Ivezić, Connolly, VanderPlas and Gray, *Statistics, Data
Mining, and Machine Learning in Astronomy*, section 5.4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError, NotSupportedError, SpecError, one_of
from probclass_core.estimation.evidence import dirichlet_categorical
from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.model.posterior import normalize
from probclass_core.spec import category_text

STRONG, DECISIVE = 10.0, 100.0
"""Odds above which evidence is strong, and decisive."""

_WIDEST = 600.0
"""Log prior odds beyond this would be 0 in float64."""


@dataclass(frozen=True)
class ModelOdds:
    """One model against another.

    Attributes:
        log_bayes_factor: log E(model) − log E(against) in nats.
        bayes_factor: its exponential; infinite or 0 beyond float64.
        prior_odds: P(model) / P(against).
        log_odds: the sum of the logs of both, in nats.
        odds: the Bayes factor times the prior odds.
        reading: ``decisive``, ``strong``, ``not strong``, ``strong against``, ``decisive against``.
    """

    log_bayes_factor: float
    bayes_factor: float
    prior_odds: float
    log_odds: float
    odds: float
    reading: str


@dataclass(frozen=True)
class Comparison:
    """Models of the same rows and columns, weighed by what the data say of them.

    Attributes:
        table: one row per model, the most probable first: model, log_evidence (nats),
            log_bayes_factor and bayes_factor against the best, prior, posterior, odds against the
            best, reading (``best``; then as `ModelOdds`, of this model against the best).
    """

    table: pa.Table

    @property
    def best(self) -> str:
        """The most probable model, the first of equals."""
        return str(self.table["model"][0].as_py())

    def odds(self, model: object, against: object) -> ModelOdds:
        """One model against another.

        Raises:
            SpecError: no such model.
            DataError: both models are impossible, so that no odds are defined.
        """
        one, other = self._row(model), self._row(against)
        return _odds(one["log_evidence"], other["log_evidence"], one["prior"], other["prior"])

    def _row(self, model: object) -> dict[str, Any]:
        rows = {row["model"]: row for row in self.table.to_pylist()}
        if model not in rows:
            raise SpecError(f"no model {model!r} was compared; there are {one_of(rows)}.")
        return dict(rows[str(model)])


def compare(
    statistics: Sequence[Statistics] | Mapping[str, Statistics],
    *,
    names: Sequence[str] | None = None,
    prior: Mapping[str, float] | None = None,
) -> Comparison:
    """Weigh models of the same rows and columns by their evidence.

    The evidence of a model is that of its labels times that of each block. Of labels: a Dirichlet
    prior with a pseudo-count of 1 per class where the model's prior is ``"empirical"``, else Π P(c)
    over the rows, which no data can change.

    Args:
        statistics: of two models or more, by `pipeline.summarize` or `statistics.merge`.
        names: of the models of a list; by default M1, M2, …; a mapping has names already.
        prior: how probable each model is beforehand, in any unit; by default all alike.

    Raises:
        SpecError: fewer than two, names or a prior that do not fit, or models of other columns.
        DataError: statistics of other rows or of none, or an evidence without closed form.
        NotSupportedError: an estimator offers no evidence.
    """
    named = _named(statistics, names)
    log_prior = _log_prior(list(named), prior)
    _check_alike(named)
    evidence = np.array([_log_evidence(name, each) for name, each in named.items()])
    log_joint = evidence + log_prior
    if np.isneginf(log_joint).all():
        raise DataError(
            "every model gives the rows evidence 0: its prior rules out a class that they have; "
            "give every class that can occur a prior above 0."
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
                "log_bayes_factor": [each.log_bayes_factor for each in odds],
                "bayes_factor": [each.bayes_factor for each in odds],
                "prior": priors[order],
                "posterior": posterior.probability[0][order],
                "odds": [each.odds for each in odds],
                "reading": ["best", *(each.reading for each in odds[1:])],
            }
        )
    )


def _log_evidence(name: str, statistics: Statistics) -> float:
    total = _label_evidence(statistics)
    for block, estimator in bind(statistics.spec, statistics.features).items():
        try:
            total += float(estimator.log_evidence(statistics.blocks[block]))
        except (DataError, NotSupportedError) as error:
            raise type(error)(f"model {name!r}, block {block!r}: {error}") from error
    return total


def _label_evidence(statistics: Statistics) -> float:
    """log p(labels in their order | prior)."""
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
    with np.errstate(divide="ignore"):
        return float(counts @ np.log([prior[name] for name in names]))


def _named(
    statistics: Sequence[Statistics] | Mapping[str, Statistics], names: Sequence[str] | None
) -> dict[str, Statistics]:
    if isinstance(statistics, Mapping):
        if names is not None:
            raise SpecError("the mapping names its models; leave names= out.")
        named = {str(name): each for name, each in statistics.items()}
    elif not isinstance(statistics, Sequence):
        raise SpecError(
            f"compare takes a list or mapping of Statistics, got {type(statistics).__name__}."
        )
    else:
        given = list(statistics)
        listed = [f"M{number}" for number in range(1, len(given) + 1)] if names is None else names
        named = dict(zip(map(str, listed), given, strict=False))
        if len(named) < len(given) or len(listed) != len(given):
            raise SpecError(f"{len(given)} models need as many different names, got {listed!r}.")
    odd = [type(each).__name__ for each in named.values() if not isinstance(each, Statistics)]
    if odd:
        raise SpecError(f"compare takes statistics, as summarize makes them, got {odd[0]}.")
    if len(named) < 2:
        raise SpecError(f"a comparison needs two models or more, got {len(named)}.")
    return named


def _log_prior(names: Sequence[str], prior: Mapping[str, float] | None) -> FloatArray:
    """Log prior probabilities of the models."""
    if prior is None:
        return np.full(len(names), -math.log(len(names)))
    if not isinstance(prior, Mapping) or sorted(map(str, prior)) != sorted(names):
        raise SpecError(f"prior must give a number for each of {one_of(names)}, got {prior!r}.")
    odds = {str(name): value for name, value in prior.items()}
    for name, value in odds.items():
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not (number and 0.0 < value < math.inf):
            raise SpecError(f"prior of model {name!r} must be a number above 0, got {value!r}.")
    log_odds: FloatArray = np.log([float(odds[name]) for name in names])
    if np.ptp(log_odds) > _WIDEST:
        raise SpecError(f"prior odds of more than e^{_WIDEST:.0f} leave no choice, got {prior!r}.")
    log_prior: FloatArray = normalize(log_odds[None, :], log_odds).log_probability[0]
    return log_prior


def _check_alike(named: Mapping[str, Statistics]) -> None:
    """Refuse what does not model the same columns of the same rows."""
    first_name, first = next(iter(named.items()))
    if not first.classes.num_rows:
        raise DataError("there is nothing to compare: the statistics hold no labeled rows.")
    for name, each in named.items():
        for what, here, there in (
            ("label", each.spec.label, first.spec.label),
            ("weight", each.spec.weight, first.spec.weight),
        ):
            if here != there:
                raise SpecError(
                    f"model {name!r} has {what} {here!r} and {first_name!r} has {there!r}; "
                    "only models of the same rows compare."
                )
        apart = sorted(set(each.spec.features) ^ set(first.spec.features))
        if apart:
            raise SpecError(
                f"models {first_name!r} and {name!r} do not model the same columns: only one has "
                f"{one_of(apart)}; the evidence of other columns compares nothing."
            )
        if each.classes.to_pylist() != first.classes.to_pylist():
            raise DataError(
                f"models {first_name!r} and {name!r} are of other rows: their counts by class are "
                f"{_counts(first)} and {_counts(each)}; summarize the same rows for both."
            )


def _counts(statistics: Statistics) -> str:
    classes = statistics.classes.slice(0, 5)
    names = [category_text(label) for label in classes["class"].to_pylist()]
    counts = [f"{count:g}" for count in classes["count"].to_pylist()]
    pairs = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
    return f"({pairs}{', …' if statistics.classes.num_rows > 5 else ''})"


def _odds(one: float, other: float, prior: float, other_prior: float) -> ModelOdds:
    if math.isinf(one) and math.isinf(other):
        raise DataError("both models give the rows evidence 0: no odds are defined.")
    factor = float(one - other)
    prior_odds = float(prior / other_prior)
    log_odds = factor + math.log(prior_odds)
    with np.errstate(over="ignore"):
        bayes_factor, odds = (float(np.exp(value)) for value in (factor, log_odds))
    return ModelOdds(factor, bayes_factor, prior_odds, log_odds, odds, _reading(log_odds))


def _reading(log_odds: float) -> str:
    size = abs(log_odds)
    if size <= math.log(STRONG):
        return "not strong"
    word = "decisive" if size > math.log(DECISIVE) else "strong"
    return word if log_odds > 0.0 else f"{word} against"
