"""Closed-form marginal likelihoods agree with numerical integration and the chain rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import gammaln, multigammaln

from probclass_core.estimation.evidence import (
    NormalPrior,
    beta_bernoulli,
    dirichlet_categorical,
    gamma_poisson,
    multivariate_normal_evidence,
    multivariate_normal_posterior,
    normal_evidence,
    normal_posterior,
)

ROWS = np.array([[1.2, -0.3], [0.4, 0.9], [2.5, 1.1], [-0.7, 0.2], [1.6, 2.4]])
GROUPS = [slice(0, 3), slice(3, 5)]
COUNTS = st.lists(st.integers(0, 40), min_size=2, max_size=6)


def prior_of(size: int) -> NormalPrior:
    """A prior with κ = 0.7, ν = d + 1.5, and a mean and scatter unlike the data."""
    scatter = np.array([[2.0, 0.4], [0.4, 1.3]])[:size, :size]
    return NormalPrior(
        np.float64(0.7), np.float64(size + 1.5), np.array([0.5, -0.2])[:size], scatter
    )


def single(rows: np.ndarray) -> tuple[Any, Any, Any]:
    """Count, mean and scatter of one feature."""
    return float(len(rows)), rows.mean(), ((rows - rows.mean()) ** 2).sum()


def groups(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count ``(g,)``, mean ``(g, d)`` and scatter ``(g, d, d)``."""
    centered = [part - part.mean(axis=0) for part in parts]
    return (
        np.array([float(len(part)) for part in parts]),
        np.array([part.mean(axis=0) for part in parts]),
        np.array([part.T @ part for part in centered]),
    )


def axis(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of Gauss–Legendre quadrature, enough for these smooth densities."""
    points, weights = np.polynomial.legendre.leggauss(80)
    return low + (high - low) * (points + 1.0) / 2.0, weights * (high - low) / 2.0


def log_integral(log_values: np.ndarray, *weights: np.ndarray) -> float:
    values = np.exp(log_values - log_values.max())
    for weight in reversed(weights):
        values = values @ weight
    return math.log(values) + float(log_values.max())


def test_evidence_of_a_normal_is_an_integral_over_its_parameters() -> None:
    prior, rows = prior_of(1), ROWS[:, 0]
    single_prior = NormalPrior(
        prior.count, prior.degrees_of_freedom, prior.mean[0], prior.scatter[0, 0]
    )

    def density(mean: float, log_variance: float) -> float:
        variance = math.exp(log_variance)
        half = single_prior.degrees_of_freedom / 2.0, single_prior.scatter / 2.0
        of_mean = stats.norm.pdf(mean, single_prior.mean, math.sqrt(variance / single_prior.count))
        of_variance = stats.invgamma.pdf(variance, half[0], scale=half[1]) * variance
        return float(stats.norm.pdf(rows, mean, math.sqrt(variance)).prod() * of_mean * of_variance)

    integral, _ = integrate.dblquad(density, -7.0, 5.0, -25.0, 25.0, epsabs=1e-8, epsrel=1e-6)
    evidence = normal_evidence(single_prior, *single(rows))
    assert evidence == pytest.approx(math.log(integral), abs=1e-5)


@pytest.mark.parametrize("parts", [[ROWS], [ROWS[:3], ROWS[3:]]], ids=["one", "two"])
def test_evidence_of_normal_groups_is_an_integral_over_their_covariance(
    parts: list[np.ndarray],
) -> None:
    """Given Σ, the rows of a group are a matrix normal with row covariance I + 11ᵀ/κ."""
    prior = prior_of(2)
    (log_s, ws), (log_t, wt), (r, wr) = axis(-4.0, 9.0), axis(-4.0, 9.0), axis(-1.0, 1.0)
    s, t, r = np.meshgrid(np.exp(log_s), np.exp(log_t), r, indexing="ij")
    covariance = np.array([[s, r * np.sqrt(s * t)], [r * np.sqrt(s * t), t]])
    covariance = np.moveaxis(covariance, (0, 1), (-2, -1))
    inverse, log_size = np.linalg.inv(covariance), np.log(s * t * (1.0 - r * r))
    nu = prior.degrees_of_freedom
    log_density = (
        0.5 * nu * np.log(np.linalg.det(prior.scatter))
        - nu * math.log(2.0)
        - multigammaln(0.5 * nu, 2)
        - 0.5 * (nu + 3.0) * log_size
        - 0.5 * np.einsum("...ij,ij->...", inverse, prior.scatter)
    )
    for part in parts:
        among = np.eye(len(part)) + 1.0 / prior.count
        deviation = part - prior.mean
        square = deviation.T @ np.linalg.solve(among, deviation)
        log_density += (
            -len(part) * math.log(2.0 * math.pi)
            - math.log(np.linalg.det(among))
            - 0.5 * len(part) * log_size
            - 0.5 * np.einsum("...ij,ij->...", inverse, square)
        )
    log_density += np.log(s) + np.log(t) + 0.5 * np.log(s * t)  # dΣ in log s, log t and r
    evidence = multivariate_normal_evidence(prior, *groups(parts))
    assert evidence == pytest.approx(log_integral(log_density, ws, wt, wr), abs=1e-5)


def test_groups_share_the_covariance_and_one_feature_equals_the_univariate_case() -> None:
    prior = prior_of(1)
    single_prior = NormalPrior(
        prior.count, prior.degrees_of_freedom, prior.mean[0], prior.scatter[0, 0]
    )
    rows = ROWS[:, :1]
    evidence = multivariate_normal_evidence(prior, *groups([rows]))
    assert evidence == pytest.approx(normal_evidence(single_prior, *single(ROWS[:, 0])), rel=1e-13)
    apart = sum(multivariate_normal_evidence(prior, *groups([rows[part]])) for part in GROUPS)
    together = multivariate_normal_evidence(prior, *groups([rows[part] for part in GROUPS]))
    assert together != pytest.approx(apart, abs=1e-3)


@pytest.mark.parametrize("size", [1, 2])
def test_evidence_of_normal_rows_is_a_product_of_predictive_densities(size: int) -> None:
    """p(x₁ … xₙ) = ∏ p(xᵢ | x₁ … xᵢ₋₁), each a multivariate t."""
    prior, total = prior_of(size), 0.0
    for number, row in enumerate(ROWS[:, :size]):
        before = prior
        if number:
            before = multivariate_normal_posterior(prior, *groups([ROWS[:number, :size]]))
        freedom = before.degrees_of_freedom - size + 1.0
        scale = before.scatter * (before.count.ravel()[0] + 1.0) / before.count.ravel()[0] / freedom
        total += stats.multivariate_t.logpdf(row, before.mean.reshape(size), scale, freedom)
    evidence = multivariate_normal_evidence(prior, *groups([ROWS[:, :size]]))
    assert evidence == pytest.approx(total, rel=1e-12)


def test_a_posterior_is_the_prior_of_later_rows() -> None:
    prior = NormalPrior(*map(np.float64, (0.7, 2.5, 0.5, 2.0)))
    first, rest, every = (single(ROWS[part, 0]) for part in (*GROUPS, slice(None)))
    then = normal_posterior(prior, *first)
    assert vars(normal_posterior(then, *rest)) == pytest.approx(
        vars(normal_posterior(prior, *every))
    )
    chained = normal_evidence(prior, *first) + normal_evidence(then, *rest)
    assert chained == pytest.approx(normal_evidence(prior, *every), rel=1e-12)


def test_no_rows_have_log_evidence_0() -> None:
    zero = np.zeros(3)
    prior = NormalPrior(*map(np.float64, (0.7, 2.5, 0.5, 2.0)))
    assert normal_evidence(prior, zero, zero, zero).tolist() == [0.0] * 3
    empty = np.zeros((3, 1)), np.zeros((3, 1, 2)), np.zeros((3, 1, 2, 2))
    assert multivariate_normal_evidence(prior_of(2), *empty).tolist() == [0.0] * 3
    assert dirichlet_categorical(np.zeros((3, 4)), 0.0).tolist() == [0.0] * 3
    assert beta_bernoulli(zero, zero, 0.0, 0.0).tolist() == [0.0] * 3
    assert gamma_poisson(zero, zero, zero, 0.0, 0.0).tolist() == [0.0] * 3


@given(COUNTS, st.floats(1e-3, 20.0))
def test_evidence_of_categories_is_a_product_of_predictive_probabilities(
    counts: list[int], alpha: float
) -> None:
    """Given the rows before it, each value has probability (α + seen) / (mα + rows)."""
    total, rows = 0.0, 0
    for count in counts:
        for seen in range(count):
            total += math.log((alpha + seen) / (len(counts) * alpha + rows))
            rows += 1
    assert dirichlet_categorical(counts, alpha) == pytest.approx(total, rel=1e-9, abs=1e-9)


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.6, 9.0), st.floats(0.6, 9.0))
def test_evidence_of_trials_is_an_integral_over_their_probability(
    good: int, bad: int, a: float, b: float
) -> None:
    p, weights = axis(0.0, 1.0)
    values = good * np.log(p) + bad * np.log1p(-p) + stats.beta.logpdf(p, a + 1.0, b + 1.0)
    evidence = beta_bernoulli(good, bad, a + 1.0, b + 1.0)
    assert evidence == pytest.approx(log_integral(values, weights), abs=1e-4)
    assert evidence == dirichlet_categorical([good, bad], [a + 1.0, b + 1.0])


@given(st.lists(st.integers(0, 30), min_size=1, max_size=9), st.floats(0.2, 9), st.floats(0.2, 9))
def test_evidence_of_poisson_counts_is_a_product_of_predictive_probabilities(
    counts: list[int], shape: float, rate: float
) -> None:
    """Given the rows before it, each count is negative binomial."""
    total = sum(
        stats.nbinom.logpmf(count, shape + sum(counts[:row]), (rate + row) / (rate + row + 1.0))
        for row, count in enumerate(counts)
    )
    constant = gammaln(np.array(counts) + 1.0).sum()
    evidence = gamma_poisson(sum(counts), len(counts), constant, shape, rate)
    assert evidence == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_evidence_of_poisson_counts_is_an_integral_over_their_mean() -> None:
    counts, shape, rate = np.array([3, 0, 5, 2]), 1.5, 0.4

    def density(mean: float) -> float:
        given = stats.poisson.pmf(counts, mean).prod()
        return float(given * stats.gamma.pdf(mean, shape, scale=1.0 / rate))

    integral, _ = integrate.quad(density, 0.0, 60.0, epsabs=1e-14, epsrel=1e-11)
    evidence = gamma_poisson(10, 4, gammaln(counts + 1.0).sum(), shape, rate)
    assert evidence == pytest.approx(math.log(integral), abs=1e-9)


def test_a_prior_of_0_rules_out_observed_values() -> None:
    seen = [[2, 0], [0, 2], [1, 1]]
    assert dirichlet_categorical(seen, [1, 0]).tolist() == [0.0, -math.inf, -math.inf]
    assert dirichlet_categorical([1, 0], [0, 0]) == -math.inf
    assert beta_bernoulli([1, 0], [0, 1], 0.0, 2.0).tolist() == [-math.inf, 0.0]
    assert gamma_poisson([0, 1], 2, 0.0, 0.0, 1.0).tolist() == [0.0, -math.inf]
    assert gamma_poisson([0, 1], 2, 0.0, 1.0, 0.0).tolist() == [-math.inf] * 2
