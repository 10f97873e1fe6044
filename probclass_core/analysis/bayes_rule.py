"""Bayes' rule on plain tables: a handful of hypotheses, their prior, and what was observed.

P(h | D) = p(D | h) P(h) / p(D), with p(D) = Σ_h p(D | h) P(h). Observations are independent given
the hypothesis, so their likelihoods multiply, and the posterior of one batch is the prior of the
next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError, nearest, one_of
from probclass_core.model.posterior import normalize
from probclass_core.spec import category_text


@dataclass(frozen=True)
class BayesTable:
    """What Bayes' rule makes of a prior and some observations.

    Attributes:
        table: one row per hypothesis, in the order of the prior: hypothesis, prior, likelihood
            p(D | h), joint p(D | h) P(h), posterior P(h | D).
        log_likelihood: log p(D | h) in nats, ``(k,)``; it tells apart what underflows in the table.
        log_evidence: log p(D) in nats.
    """

    table: pa.Table
    log_likelihood: FloatArray
    log_evidence: float

    @property
    def posterior(self) -> dict[str, float]:
        """P(h | D) by hypothesis: the prior of the next observation."""
        names, values = (self.table[name].to_pylist() for name in ("hypothesis", "posterior"))
        return dict(zip(names, values, strict=True))

    @property
    def maximum_a_posteriori(self) -> str:
        """The hypothesis of the largest posterior, the first of equals."""
        return self._first_of(self._log_joint)

    @property
    def maximum_likelihood(self) -> str:
        """The hypothesis of the largest likelihood, the first of equals: the prior set aside."""
        return self._first_of(self.log_likelihood)

    def odds(self, hypothesis: object, against: object) -> float:
        """P(h | D) / P(against | D): the prior odds times the Bayes factor.

        Raises:
            SpecError: no such hypothesis, or both are impossible.
        """
        one, other = (self._log_joint[self._place(name)] for name in (hypothesis, against))
        if np.isneginf(one) and np.isneginf(other):
            raise SpecError(f"{hypothesis!r} and {against!r} are both impossible: no odds.")
        with np.errstate(over="ignore"):
            return float(np.exp(one - other))

    @property
    def _log_joint(self) -> FloatArray:
        return self.log_likelihood + _log(self.table["prior"].to_numpy())

    def _first_of(self, values: FloatArray) -> str:
        return str(self.table["hypothesis"][int(np.argmax(values))].as_py())

    def _place(self, hypothesis: object) -> int:
        names = self.table["hypothesis"].to_pylist()
        name = category_text(hypothesis)
        if name not in names:
            raise SpecError(f"no hypothesis {name!r}; there are {one_of(names)}.")
        return int(names.index(name))


def bayes_rule(
    prior: Mapping[Any, float],
    likelihood: Mapping[Any, Any] | Sequence[Mapping[Any, float]],
    *,
    observed: object = None,
) -> BayesTable:
    """The posterior of each hypothesis, given what was observed.

    Args:
        prior: P(h) by hypothesis; sums to 1.
        likelihood: p(D | h) by hypothesis; a list of such mappings is several observations. With
            ``observed``: per hypothesis, the probability of each outcome, which sum to 1.
        observed: the outcome that came, or a list of the outcomes of repeated trials.

    Examples:
        >>> test = {"sick": {"+": 0.98, "-": 0.02}, "healthy": {"+": 0.03, "-": 0.97}}
        >>> seen = bayes_rule({"sick": 0.008, "healthy": 0.992}, test, observed="+")
        >>> seen.maximum_a_posteriori, seen.maximum_likelihood
        ('healthy', 'sick')
        >>> round(seen.posterior["sick"], 4)
        0.2085

    Raises:
        SpecError: what is no probability, a distribution that does not sum to 1, other hypotheses
            in prior and likelihood, an unknown outcome, or observations that no hypothesis allows.
    """
    believed = _distribution(prior, "the prior", "hypothesis")
    names = list(believed)
    if isinstance(likelihood, Mapping):
        observations = [likelihood] if observed is None else _of_outcomes(likelihood, observed)
    elif observed is None and isinstance(likelihood, Sequence) and not isinstance(likelihood, str):
        observations = list(likelihood)
    else:
        raise SpecError(
            "likelihood must be a probability per hypothesis, a list of such mappings, or with "
            f"observed= a table of outcomes per hypothesis; got {type(likelihood).__name__}."
        )
    log_likelihood = np.zeros(len(names))
    for number, observation in enumerate(observations, start=1):
        where = "the likelihood" + (f" of observation {number}" if len(observations) > 1 else "")
        given = _probabilities(observation, where, "hypothesis")
        _same_names(given, names, where, "the prior")
        log_likelihood += _log([given[name] for name in names])
    return _updated(believed, log_likelihood)


def _updated(prior: Mapping[str, float], log_likelihood: FloatArray) -> BayesTable:
    values = np.array(list(prior.values()))
    log_prior = _log(values)
    log_joint = log_likelihood + log_prior
    if np.isneginf(log_joint).all():
        raise SpecError(
            "the observations are impossible under every hypothesis that the prior allows: "
            "a probability of 0 rules out for good; give what can happen a little."
        )
    posterior = normalize(log_joint[None, :], log_prior)
    table = pa.table(
        {
            "hypothesis": list(prior),
            "prior": values,
            "likelihood": np.exp(log_likelihood),
            "joint": np.exp(log_joint),
            "posterior": posterior.probability[0],
        }
    )
    return BayesTable(table, log_likelihood, float(posterior.log_density[0]))


def _of_outcomes(tables: Mapping[Any, Any], observed: object) -> list[dict[str, float]]:
    """Each outcome that came, as its probability under each hypothesis."""
    outcomes = observed if isinstance(observed, (list, tuple)) else [observed]
    read = {
        category_text(name): _distribution(table, f"the likelihood of {name!r}", "outcome")
        for name, table in tables.items()
    }
    known = next(iter(read.values()), {})
    for name, table in read.items():
        _same_names(table, known, f"the likelihood of {name!r}", f"that of {next(iter(read))!r}")
    found = []
    for outcome in map(category_text, outcomes):
        if outcome not in known:
            hint = nearest(outcome, known)
            raise SpecError(f"no outcome {outcome!r}; the likelihood has {one_of(known)}.{hint}")
        found.append({name: table[outcome] for name, table in read.items()})
    return found


def _distribution(values: object, what: str, of: str) -> dict[str, float]:
    given = _probabilities(values, what, of)
    total = math.fsum(given.values())
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        raise SpecError(f"{what} sums to {total:.12g}, not 1: {given}.")
    return given


def _probabilities(values: object, what: str, of: str) -> dict[str, float]:
    if not isinstance(values, Mapping) or not values:
        raise SpecError(f"{what} must give a probability for each {of}, got {values!r}.")
    for name, value in values.items():
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not (number and 0.0 <= value <= 1.0):
            raise SpecError(
                f"{what}: {of} {name!r} must have a probability from 0 to 1, got {value!r}."
            )
    return {category_text(name): float(value) for name, value in values.items()}


def _same_names(given: Iterable[str], needed: Iterable[str], what: str, of: str) -> None:
    lacking = [name for name in needed if name not in given]
    beyond = [name for name in given if name not in needed]
    if lacking or beyond:
        verb, other = ("leaves out", "has") if lacking else ("names", "has not")
        raise SpecError(
            f"{what} {verb} {(lacking or beyond)[0]!r}, which {of} {other}; "
            "give both the same names."
        )


def _log(values: Any) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(np.asarray(values, dtype=np.float64))
    return logs
