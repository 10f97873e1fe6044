"""Bayes' rule on plain tables: a few hypotheses, their prior, and observations.

P(h | D) = p(D | h) P(h) / p(D), with p(D) = Σ_h p(D | h) P(h). Observations are independent given
the hypothesis, so their likelihoods multiply, and the posterior of one batch is the prior of the
next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.display import Part, Report, TablePart
from probclass_core.errors import SpecError, check_known
from probclass_core.model.posterior import log_of, normalize
from probclass_core.spec.model_spec import category_text, distribution, probabilities


@dataclass(frozen=True, repr=False)
class BayesTable(Report):
    """The result of Bayes' rule.

    Attributes:
        table: one row per hypothesis, in the order of the prior: hypothesis, prior, likelihood
            p(D | h), joint p(D | h) P(h), posterior P(h | D).
        log_likelihood: log p(D | h) in nats, ``(k,)``; it remains exact where the table underflows.
        log_evidence: log p(D) in nats.
    """

    table: pa.Table
    log_likelihood: FloatArray
    log_evidence: float

    def _report(self) -> list[Part]:
        """The hypotheses with their probabilities."""
        title = f"Bayes' rule; log evidence {self.log_evidence:.4f} nats"
        return [title, TablePart(self.table.to_pydict())]

    @property
    def posterior(self) -> dict[str, float]:
        """P(h | D) by hypothesis; it can be the prior of the next observation."""
        names, values = (self.table[name].to_pylist() for name in ("hypothesis", "posterior"))
        return dict(zip(names, values, strict=True))

    @property
    def maximum_a_posteriori(self) -> str:
        """The hypothesis with the largest posterior; ties go to the first."""
        return self._largest(self.log_likelihood + log_of(self.table["prior"].to_numpy()))

    @property
    def maximum_likelihood(self) -> str:
        """The hypothesis with the largest likelihood, ignoring the prior; ties go to the first."""
        return self._largest(self.log_likelihood)

    def _largest(self, values: FloatArray) -> str:
        return str(self.table["hypothesis"][int(np.argmax(values))].as_py())


def bayes_rule(
    prior: Mapping[Any, float],
    likelihood: Mapping[Any, Any] | Sequence[Mapping[Any, float]],
    *,
    observed: object = None,
) -> BayesTable:
    """Compute the posterior of each hypothesis, given observations.

    Args:
        prior: P(h) by hypothesis; sums to 1.
        likelihood: p(D | h) by hypothesis, or a list of such mappings for several observations.
            With ``observed``: for each hypothesis, the probabilities of all outcomes; sum to 1.
        observed: the observed outcome, or a list of outcomes of repeated trials.

    Examples:
        >>> test = {"sick": {"+": 0.98, "-": 0.02}, "healthy": {"+": 0.03, "-": 0.97}}
        >>> seen = bayes_rule({"sick": 0.008, "healthy": 0.992}, test, observed="+")
        >>> seen.maximum_a_posteriori, seen.maximum_likelihood
        ('healthy', 'sick')
        >>> round(seen.posterior["sick"], 4)
        0.2085

    Raises:
        SpecError: if a value is not a probability, a distribution does not sum to 1, prior and
            likelihood have different hypotheses, an outcome is unknown, or the observations are
            impossible under every hypothesis.
    """
    checked_prior = distribution(prior, "the prior", "hypothesis")
    names = list(checked_prior)
    if isinstance(likelihood, Mapping):
        observations = (
            [likelihood] if observed is None else _outcome_likelihoods(likelihood, observed)
        )
    elif observed is None and isinstance(likelihood, Sequence) and not isinstance(likelihood, str):
        observations = list(likelihood)
    else:
        raise SpecError(
            "likelihood must be a probability per hypothesis, a list of such mappings, or with "
            f"observed= a table of outcomes per hypothesis; got {type(likelihood).__name__}."
        )
    log_likelihood = np.zeros(len(names))
    for number, observation in enumerate(observations, start=1):
        what = "the likelihood" + (f" of observation {number}" if len(observations) > 1 else "")
        known = probabilities(observation, what, "hypothesis")
        _check_same_names(known, names, what, "the prior")
        log_likelihood += log_of([known[name] for name in names])
    values = np.array(list(checked_prior.values()))
    log_prior = log_of(values)
    log_joint = log_likelihood + log_prior
    if np.isneginf(log_joint).all():
        raise SpecError(
            "the observations are impossible under every hypothesis that the prior allows: "
            "no evidence changes a probability of 0; "
            "give everything that can happen a small probability."
        )
    posterior = normalize(log_joint[None, :], log_prior)
    table = pa.table(
        {
            "hypothesis": names,
            "prior": values,
            "likelihood": np.exp(log_likelihood),
            "joint": np.exp(log_joint),
            "posterior": posterior.probability[0],
        }
    )
    return BayesTable(table, log_likelihood, float(posterior.log_density[0]))


def _outcome_likelihoods(tables: Mapping[Any, Any], observed: object) -> list[dict[str, float]]:
    """The probability of each observed outcome under each hypothesis."""
    outcomes = observed if isinstance(observed, (list, tuple)) else [observed]
    distributions = {
        category_text(name): distribution(table, f"the likelihood of {name!r}", "outcome")
        for name, table in tables.items()
    }
    known = next(iter(distributions.values()), {})
    first = next(iter(distributions), None)
    for name, table in distributions.items():
        _check_same_names(table, known, f"the likelihood of {name!r}", f"that of {first!r}")
    likelihoods = []
    for outcome in map(category_text, outcomes):
        check_known([outcome], known, "no outcome", "the likelihood has")
        likelihoods.append({name: table[outcome] for name, table in distributions.items()})
    return likelihoods


def _check_same_names(
    names: Collection[str], expected: Collection[str], what: str, reference: str
) -> None:
    for name in dict.fromkeys([*expected, *names]):
        if (name in expected) != (name in names):
            verb, other = ("leaves out", "has") if name in expected else ("names", "does not have")
            raise SpecError(
                f"{what} {verb} {name!r}, which {reference} {other}; give both the same names."
            )
