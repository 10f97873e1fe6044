"""Generated tables, most of them with the true posterior, so that the best log loss is known.

Each is a function without arguments; the first line of its docstring describes the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.special import softmax
from scipy.stats import multivariate_normal, norm, poisson

LABEL = "label"
PARTITION = "partition"
"""The column of a lake that tells its partitions, in their order."""


@dataclass(frozen=True)
class Rows:
    """Rows to classify.

    Attributes:
        features: columns to classify by.
        labels: ``(n,)`` class of each row, text.
        posterior: ``(n, k)`` true class probabilities, columns in the sorted order of the labels;
            None if they are not known.
    """

    features: pa.Table
    labels: np.ndarray
    posterior: np.ndarray | None = None

    def table(self, rows: np.ndarray) -> pa.Table:
        """Some rows, with the labels as column `LABEL`."""
        labels = pa.array(self.labels[rows], pa.string())
        return self.features.take(pa.array(rows)).append_column(LABEL, labels)


Columns = Mapping[str, object]
GENERATORS: list[Callable[[], Rows]] = []


def _generator(function: Callable[[], Rows]) -> Callable[[], Rows]:
    GENERATORS.append(function)
    return function


def _numbers(matrix: np.ndarray) -> dict[str, object]:
    return {f"x{j}": column for j, column in enumerate(matrix.T)}


def _drawn(random: np.random.Generator, columns: Columns, posterior: np.ndarray) -> Rows:
    """Rows with labels drawn from their posterior."""
    cumulated = posterior.cumsum(1)
    codes = (random.random((len(posterior), 1)) * cumulated[:, -1:] > cumulated).sum(1)
    return _labeled(columns, codes, posterior)


def _labeled(columns: Columns, codes: np.ndarray, posterior: np.ndarray | None) -> Rows:
    """Rows with labels by number; names of classes sort like their numbers."""
    labels = np.array([f"c{code:03d}" for code in codes], dtype=object)
    return Rows(pa.table(dict(columns)), labels, posterior)


def _two_classes(log_odds: np.ndarray) -> np.ndarray:
    posterior: np.ndarray = softmax(np.stack([np.zeros_like(log_odds), log_odds], 1), axis=1)
    return posterior


def _of_densities(log_densities: np.ndarray, prior: object = 1.0) -> np.ndarray:
    """The posterior of ``(n, k)`` log densities."""
    posterior: np.ndarray = softmax(log_densities + np.log(np.asarray(prior)), axis=1)
    return posterior


@_generator
def xor() -> Rows:
    """Gaussian XOR: only the product of two numbers matters; three more are noise."""
    random = np.random.default_rng(1)
    x = random.standard_normal((2_000, 5))
    return _drawn(random, _numbers(x), _two_classes(6.0 * x[:, 0] * x[:, 1]))


@_generator
def covariances() -> Rows:
    """Two normals of 8 columns with the same means and different covariances."""
    random = np.random.default_rng(2)
    mixing = [np.eye(8), np.eye(8) + 0.35 * random.standard_normal((8, 8))]
    codes = random.integers(0, 2, 2_000)
    x = np.einsum("nij,nj->ni", np.array(mixing)[codes], random.standard_normal((2_000, 8)))
    densities = [multivariate_normal(np.zeros(8), m @ m.T).logpdf(x) for m in mixing]
    return _labeled(_numbers(x), codes, _of_densities(np.stack(densities, 1)))


@_generator
def correlated() -> Rows:
    """Three normals of 10 strongly correlated columns with one covariance."""
    random = np.random.default_rng(3)
    covariance = 0.9 ** np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    means = 0.4 * random.standard_normal((3, 10))
    codes = random.integers(0, 3, 3_000)
    x = means[codes] + random.multivariate_normal(np.zeros(10), covariance, 3_000)
    densities = [multivariate_normal(mean, covariance).logpdf(x) for mean in means]
    return _labeled(_numbers(x), codes, _of_densities(np.stack(densities, 1)))


@_generator
def noise() -> Rows:
    """Six mixed columns that say nothing about three classes."""
    random = np.random.default_rng(4)
    columns = {
        **_numbers(random.standard_normal((1_500, 3))),
        **{f"c{j}": random.integers(0, 4**j, 1_500).astype(str) for j in (1, 2, 3)},
    }
    return _drawn(random, columns, np.tile([0.5, 0.3, 0.2], (1_500, 1)))


@_generator
def rare_class() -> Rows:
    """A class of 1 % of the rows, by two numbers and a category."""
    random = np.random.default_rng(5)
    x, city = random.standard_normal((5_000, 4)), random.integers(0, 6, 5_000)
    log_odds = -6.2 + 1.5 * x[:, 0] - 1.0 * x[:, 1] + 0.5 * (city - 2.5)
    names = np.array(["ams", "ber", "cph", "dub", "edi", "fra"])
    return _drawn(random, {**_numbers(x), "city": names[city]}, _two_classes(log_odds))


@_generator
def many_nulls() -> Rows:
    """Six numbers of which 60 % are null; a null in one of them tells about the class."""
    random = np.random.default_rng(6)
    codes = random.integers(0, 2, 2_000)
    x = random.standard_normal((2_000, 6)) + 0.8 * codes[:, None]
    rate = np.full((2, 6), 0.6)
    rate[:, 5] = 0.4, 0.8
    null = random.random(x.shape) < rate[codes]
    densities = np.zeros((2_000, 2))
    for code in (0, 1):
        seen = norm.logpdf(x, 0.8 * code) + np.log1p(-rate[code])
        densities[:, code] = np.where(null, np.log(rate[code]), seen).sum(1)
    columns = {f"x{j}": pa.array(x[:, j], mask=null[:, j]) for j in range(6)}
    return _labeled(columns, codes, _of_densities(densities))


@_generator
def duplicates() -> Rows:
    """Three numbers, each in five columns."""
    random = np.random.default_rng(7)
    codes = random.integers(0, 2, 2_000)
    x = random.standard_normal((2_000, 3)) + 0.6 * codes[:, None]
    densities = np.stack([norm.logpdf(x, 0.6 * code).sum(1) for code in (0, 1)], 1)
    return _labeled(_numbers(np.tile(x, (1, 5))), codes, _of_densities(densities))


@_generator
def one_row_class() -> Rows:
    """Three classes, one of which has a single row."""
    random = np.random.default_rng(8)
    codes = np.r_[np.tile([0, 1], 300), 2]
    x = random.standard_normal((601, 4)) + codes[:, None]
    shade = np.array(["red", "green", "blue"])[(codes + random.integers(0, 2, 601)) % 3]
    return _labeled({**_numbers(x), "shade": shade}, codes, None)


@_generator
def heavy_tails() -> Rows:
    """Student's t with 1.5 degrees of freedom; the classes differ in place and width."""
    from scipy.stats import t

    random = np.random.default_rng(9)
    codes = random.integers(0, 3, 2_000)
    places = np.array([[0, 0, 0, 0], [1, 0, 2, 0], [0, 1.5, 0, 3]], dtype=float)
    widths = np.array([[1, 1, 1, 1], [1, 3, 1, 1], [2, 1, 1, 4]], dtype=float)
    x = places[codes] + widths[codes] * random.standard_t(1.5, (2_000, 4))
    pairs = zip(places, widths, strict=True)
    densities = [t.logpdf(x, 1.5, place, width).sum(1) for place, width in pairs]
    return _labeled(_numbers(x), codes, _of_densities(np.stack(densities, 1)))


@_generator
def parity() -> Rows:
    """Six categories; the class depends on whether two pairs of them agree."""
    random = np.random.default_rng(10)
    codes = random.integers(0, 3, (3_000, 6))
    agree = [codes[:, 2 * j] == codes[:, 2 * j + 1] for j in (0, 1)]
    columns = {f"c{j}": np.array(["a", "b", "c"])[codes[:, j]] for j in range(6)}
    return _drawn(random, columns, _two_classes(-1.5 + 2.5 * agree[0] + 2.0 * agree[1]))


@_generator
def many_classes() -> Rows:
    """Sixty classes on a grid of two numbers, with two numbers of noise."""
    random = np.random.default_rng(11)
    centers = np.array([(i, j) for i in range(10) for j in range(6)], dtype=float)
    codes = np.tile(np.arange(60), 50)
    x = np.c_[centers[codes] + 0.35 * random.standard_normal((3_000, 2)), random.random((3_000, 2))]
    densities = norm.logpdf(x[:, None, :2], centers, 0.35).sum(2)
    return _labeled(_numbers(x), codes, _of_densities(densities))


@_generator
def counts() -> Rows:
    """Eight counts, Poisson with different rates in two classes."""
    random = np.random.default_rng(12)
    rates = np.exp(random.normal(0.5, 0.8, 8) + np.array([[0.0], [1.0]]) * random.normal(0, 0.3, 8))
    codes = random.integers(0, 2, 2_000)
    x = random.poisson(rates[codes])
    densities = np.stack([poisson.logpmf(x, rate).sum(1) for rate in rates], 1)
    return _labeled(_numbers(x), codes, _of_densities(densities))


@_generator
def awkward_columns() -> Rows:
    """Two useful columns next to a constant, an empty and a nearly empty one, and an identifier."""
    random = np.random.default_rng(13)
    x, rare = random.standard_normal((1_000, 2)), random.random(1_000) > 0.995
    columns = {
        **_numbers(x),
        "constant": np.full(1_000, 7.0),
        "empty": pa.nulls(1_000, pa.float64()),
        "nearly_empty": pa.array(random.random(1_000), mask=~rare),
        "one_word": np.full(1_000, "same"),
        "no_words": pa.nulls(1_000, pa.string()),
        "id": [f"row-{number:05d}" for number in random.permutation(1_000)],
    }
    return _drawn(random, columns, _two_classes(1.5 * x[:, 0] - x[:, 1]))


@_generator
def waveform() -> Rows:
    """Breiman's waveforms (CART, 1984): 21 noisy points of mixtures of two waves, 3 classes."""
    random = np.random.default_rng(14)
    points = np.arange(1, 22)
    waves = [np.maximum(6 - np.abs(points - peak), 0) for peak in (7, 15, 11)]
    codes, share = random.integers(0, 3, 3_000), random.random((3_000, 1))
    pairs = np.array([(waves[0], waves[1]), (waves[0], waves[2]), (waves[1], waves[2])])
    clean = share * pairs[codes, 0] + (1 - share) * pairs[codes, 1]
    x = clean + random.standard_normal((3_000, 21))
    # p(x | class) is an integral over the share, here a sum over its midpoints.
    shares = (np.arange(100) + 0.5) / 100
    densities = np.empty((3_000, 3))
    for code, (first, second) in enumerate(pairs):
        curves = shares[:, None] * first + (1 - shares[:, None]) * second
        squares = (x**2).sum(1)[:, None] - 2 * x @ curves.T + (curves**2).sum(1)
        densities[:, code] = np.logaddexp.reduce(-squares / 2, axis=1)
    return _labeled(_numbers(x), codes, _of_densities(densities))


@_generator
def ringnorm() -> Rows:
    """Breiman's ringnorm (1996): 20 columns, a narrow normal next to a wide one."""
    random = np.random.default_rng(15)
    codes = random.integers(0, 2, 3_000)
    means, widths = np.array([0.0, 2 / np.sqrt(20)]), np.array([2.0, 1.0])
    x = means[codes, None] + widths[codes, None] * random.standard_normal((3_000, 20))
    densities = [norm.logpdf(x, means[code], widths[code]).sum(1) for code in (0, 1)]
    return _labeled(_numbers(x), codes, _of_densities(np.stack(densities, 1)))


@_generator
def led() -> Rows:
    """Digits of a display (CART, 1984): 7 lights that fail with 10 %, and 17 lights of noise."""
    random = np.random.default_rng(16)
    lights = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
    shown = np.array([[int(light) for light in digit] for digit in lights.split()])
    codes = random.integers(0, 10, 2_000)
    x = shown[codes] ^ (random.random((2_000, 7)) < 0.1)
    wrong = (x[:, None, :] != shown).sum(2)
    columns = {f"c{j}": column.astype(str) for j, column in enumerate(x.T)}
    columns |= {f"n{j}": random.integers(0, 2, 2_000).astype(str) for j in range(17)}
    return _labeled(columns, codes, _of_densities(wrong * np.log(0.1 / 0.9)))


@_generator
def network() -> Rows:
    """Ten categories of a tree-augmented Bayesian network, three classes."""
    random = np.random.default_rng(17)
    codes = random.choice(3, 3_000, p=[0.5, 0.3, 0.2])
    column, densities = np.zeros(3_000, dtype=int), np.zeros((3_000, 3))
    columns = {}
    for j in range(10):
        table = random.dirichlet(np.ones(4), (3, 4))  # class, value of the previous column
        choices = table[codes, column].cumsum(1)
        value = (random.random((3_000, 1)) * choices[:, -1:] > choices).sum(1)
        densities += np.log(table[:, column, value]).T
        columns[f"c{j}"], column = np.array(["p", "q", "r", "s"])[value], value
    return _labeled(columns, codes, _of_densities(densities, [0.5, 0.3, 0.2]))


def with_random_column(rows: Rows) -> Rows:
    """The rows with one more column, of 300 random levels."""
    levels = np.random.default_rng(18).integers(0, 300, len(rows.labels))
    column = pa.array([f"level-{level:03d}" for level in levels])
    return Rows(rows.features.append_column("random", column), rows.labels)
