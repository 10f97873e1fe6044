"""The posterior of a normal model as DuckDB SQL and as Polars expressions, written by hand.

The log density of a class is its peak minus the sum of the squares of ``W (x − mean)``; the rows of
``W`` are the features divided by √2 standard deviations, or the rows of the inverse of the Cholesky
factor of twice the covariance. The output has the columns of `probclass_core.score`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

import probclass_core as pc

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Normal:
    """The log prior plus log density of a class.

    Attributes:
        name: the class.
        log_prior: log of its share.
        peaks: log density at the mean, of each feature or of all together.
        weights: ``W``, of shape ``(d,)`` if diagonal and ``(d, d)`` if not.
        mean: mean of each feature, ``(d,)``.
    """

    name: str
    log_prior: float
    peaks: np.ndarray
    weights: np.ndarray
    mean: np.ndarray


def normals(model: pc.Model, features: Sequence[str]) -> list[Normal]:
    """The classes of a model with one block, `gaussian_diagonal` or `gaussian_full`."""
    ((estimator, parameters),) = model.parameters.items()
    rows = parameters.to_pylist()
    d, found = len(features), []
    for prior in model.priors.to_pylist():
        name, log_prior = prior["class"], float(np.log(prior["prior"]))
        of_class = [row for row in rows if row["class"] == name]
        if estimator == "gaussian_diagonal":
            by_feature = {row["feature"]: row for row in of_class}
            mean, variance = (
                np.array([by_feature[x][key] for x in features], dtype=float)
                for key in ("mean", "variance")
            )
            peaks, weights = -0.5 * np.log(2.0 * np.pi * variance), np.sqrt(0.5 / variance)
        else:
            ((row,), mean) = of_class, np.array(of_class[0]["mean"], dtype=float)
            lower = scipy.linalg.cholesky(np.reshape(row["covariance"], (d, d)), lower=True)
            weights = scipy.linalg.solve_triangular(lower, np.eye(d), lower=True) * np.sqrt(0.5)
            log_determinant = 2.0 * np.log(np.diag(lower)).sum()
            peaks = np.array([-0.5 * (d * np.log(2.0 * np.pi) + log_determinant)])
        found.append(Normal(name, log_prior, peaks, weights, mean))
    return found


def duckdb_query(
    model: pc.Model, features: Sequence[str], source: str, copied: Sequence[str]
) -> str:
    """Score a table by one query; diagonal densities leave out nulls, as the model does.

    Args:
        model: model of `normals`.
        features: names of the features, in the order of the model.
        source: what follows FROM.
        copied: columns to copy.
    """
    classes = normals(model, features)
    joints = [" + ".join(_sql_terms(each, features)) for each in classes]
    positions = range(len(classes))
    copy = "".join(f'"{name}", ' for name in copied)
    return f"""
WITH joint AS (SELECT {copy}{", ".join(f"{text} AS j{at}" for at, text in enumerate(joints))}
  FROM {source}),
peak AS (SELECT *, greatest({", ".join(f"j{at}" for at in positions)}) AS m FROM joint),
total AS (SELECT *, {" + ".join(f"exp(j{at} - m)" for at in positions)} AS s FROM peak)
SELECT {copy}
  CASE {" ".join(f"WHEN j{at} = m THEN '{classes[at].name}'" for at in positions)} END
    AS prediction,
  1 / s AS probability,
  {", ".join(f'exp(j{at} - m) / s AS "p_{classes[at].name}"' for at in positions)},
  m + ln(s) AS log_density,
  '{model.id}' AS model_id
FROM total"""


def _sql_terms(normal: Normal, features: Sequence[str]) -> Iterator[str]:
    yield _literal(normal.log_prior)
    if normal.weights.ndim == 1:
        for x, peak, weight, mean in zip(
            features, normal.peaks, normal.weights, normal.mean, strict=True
        ):
            scaled = f"({x} - {_literal(mean)}) * {_literal(weight)}"
            yield f"coalesce({_literal(peak)} - ({scaled}) * ({scaled}), 0)"
        return
    yield _literal(normal.peaks[0])
    for row, offset in zip(normal.weights, normal.weights @ normal.mean, strict=True):
        products = [f"{x} * {_literal(w)}" for x, w in zip(features, row, strict=True) if w]
        yield f"-pow({' + '.join(products)} - {_literal(offset)}, 2)"


def _literal(value: float) -> str:
    """A number that SQL takes for a double, not for a decimal."""
    text = repr(float(value))
    return f"({text if 'e' in text else f'{text}e0'})"


def polars_query(
    model: pc.Model, features: Sequence[str], rows: pl.LazyFrame, copied: Sequence[str]
) -> pl.LazyFrame:
    """Score rows lazily; arguments as for `duckdb_query`, with the rows themselves."""
    import polars as pl

    classes = normals(model, features)
    names = [f"j{at}" for at in range(len(classes))]
    joints = [
        reduce(add, _polars_terms(each, features)).alias(name)
        for name, each in zip(names, classes, strict=True)
    ]
    peak, shares = pl.col("m"), [(pl.col(name) - pl.col("m")).exp() for name in names]
    decided = pl.coalesce(
        pl.when(pl.col(name) == peak).then(pl.lit(each.name))
        for name, each in zip(names, classes, strict=True)
    )
    return (
        rows.select(*copied, *joints)
        .with_columns(pl.max_horizontal(names).alias("m"))
        .with_columns(reduce(add, shares).alias("s"))
        .select(
            *copied,
            decided.alias("prediction"),
            (1.0 / pl.col("s")).alias("probability"),
            *(
                (share / pl.col("s")).alias(f"p_{each.name}")
                for share, each in zip(shares, classes, strict=True)
            ),
            (peak + pl.col("s").log()).alias("log_density"),
            pl.lit(model.id).alias("model_id"),
        )
    )


def _polars_terms(normal: Normal, features: Sequence[str]) -> Iterator[pl.Expr]:
    import polars as pl

    columns = [pl.col(x).cast(pl.Float64) for x in features]
    yield pl.lit(normal.log_prior)
    if normal.weights.ndim == 1:
        for x, peak, weight, mean in zip(
            columns, normal.peaks, normal.weights, normal.mean, strict=True
        ):
            scaled = (x - mean) * weight
            yield (peak - scaled * scaled).fill_null(0.0)
        return
    yield pl.lit(normal.peaks[0])
    for row, offset in zip(normal.weights, normal.weights @ normal.mean, strict=True):
        products = [x * w for x, w in zip(columns, row, strict=True) if w]
        scaled = reduce(add, products) - offset
        yield -(scaled * scaled)
