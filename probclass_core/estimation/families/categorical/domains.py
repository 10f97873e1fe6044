"""Domains of categorical columns and their pseudo-counts: what the categorical estimators share.

Their four options mean the same everywhere, and so do the refusals: of options that make no sense,
of training values outside a declared domain, of values that scoring has never heard of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray
from probclass_core.errors import DataError, NotSupportedError, SpecError, one_of
from probclass_core.estimation.contract import choice_option, number_option, table_option
from probclass_core.spec import category_text

CATEGORICAL_DEFAULTS = {
    "pseudo_count": 1.0,
    "domain": {},
    "unseen": "pseudo_count",
    "smooth": "all",
}
_UNSEEN = ("pseudo_count", "ignore", "error")


@dataclass(frozen=True)
class Domains:
    """What the options of a categorical estimator say.

    Attributes:
        estimator: its name, for messages.
        declared: per column, the values that it was said to take.
        pseudo_count: per column, one α for every value, or an α for each.
        unseen: policy for a value outside the domain, one of three words.
        smooth: which cells get the pseudo-count: ``"all"`` or ``"zeros"``.
    """

    estimator: str
    declared: Mapping[str, list[str]]
    pseudo_count: Mapping[str, float | dict[str, float]]
    unseen: str
    smooth: str

    @classmethod
    def read(cls, estimator: str, features: pa.Schema, options: Mapping[str, Any]) -> Domains:
        """From options that are complete (see `CATEGORICAL_DEFAULTS`).

        Raises:
            SpecError: an option is out of range, names a column that is not there, or declares
                other values than the pseudo-counts name.
        """
        domains = cls(
            estimator,
            _read_domain(estimator, features.names, options["domain"]),
            _read_pseudo_count(estimator, features.names, options["pseudo_count"]),
            choice_option(estimator, "unseen", options["unseen"], _UNSEEN),
            choice_option(estimator, "smooth", options["smooth"], ("all", "zeros")),
        )
        for column, values in domains.declared.items():
            domains._check_alpha(column, values)
        return domains

    def _check_alpha(self, column: str, domain: Sequence[str]) -> None:
        """Where each value has an α of its own, the values are those of the domain."""
        alpha = self.pseudo_count[column]
        odd = sorted(alpha.keys() ^ set(domain)) if isinstance(alpha, dict) else []
        if odd:
            has, lacks = ("domain", "pseudo_count")[:: 1 if odd[0] in domain else -1]
            raise SpecError(
                f"{self.estimator}: {has} of {column!r} has value {odd[0]!r}, {lacks} has not; "
                "give both the same values."
            )

    def named(self, column: str) -> list[str]:
        """The values that the options name: declared, or with an α each; else none."""
        alpha = self.pseudo_count[column]
        return self.declared.get(column) or (list(alpha) if isinstance(alpha, dict) else [])

    def domain_of(self, column: str, seen: Mapping[str, float]) -> list[str]:
        """The values of a column: those that the options name, else those seen, ascending.

        Args:
            column: its name.
            seen: value to its weighted count in training, all classes together.

        Raises:
            DataError: a value was seen outside the named ones and is not to be ignored, or there
                is no value at all.
        """
        named = self.named(column)
        outside = sorted(seen.keys() - set(named)) if named else []
        if outside and self.unseen != "ignore":
            raise DataError(
                f"column {column!r} has value {outside[0]!r} in {seen[outside[0]]:g} training "
                f"rows, outside its declared domain {one_of(named)}; add it, or set "
                "unseen='ignore'."
            )
        domain = named or sorted(seen)
        if not domain:
            raise DataError(
                f"column {column!r} has no value in any training row; leave it out of the block, "
                "or declare its domain."
            )
        return domain

    def alpha_of(self, column: str, domain: Sequence[str]) -> FloatArray:
        """The pseudo-count of each value of a domain: ``(m,)``."""
        alpha = self.pseudo_count[column]
        if not isinstance(alpha, dict):
            return np.full(len(domain), float(alpha))
        return np.array([alpha[value] for value in domain], dtype=np.float64)

    def check_prior(self) -> None:
        """Refuse options under which the pseudo-counts are no Dirichlet prior.

        Raises:
            NotSupportedError: naming the option.
        """
        if self.smooth != "all":
            raise NotSupportedError(
                f"{self.estimator} offers no log evidence with smooth={self.smooth!r}, whose "
                "probabilities do not sum to 1; set smooth='all'."
            )
        for column, alpha in self.pseudo_count.items():
            cells = alpha if isinstance(alpha, dict) else {None: alpha}
            for value, count in cells.items():
                if not count > 0.0:
                    where = f"{column!r}" if value is None else f"{column!r} ({value!r})"
                    raise NotSupportedError(
                        f"{self.estimator} offers no log evidence with a pseudo_count of 0 for "
                        f"{where}: a Dirichlet prior is positive; set pseudo_count above 0."
                    )


def refuse_unseen(
    column: str, codes: IntArray, known: IntArray, values: Sequence[str], domain: Sequence[str]
) -> None:
    """Refuse rows with a value outside the domain.

    Args:
        column: its name.
        codes: ``(n,)`` codes into ``values``, `MISSING` for null.
        known: place of each of the values in the domain, `MISSING` for one that is not there.
        values: the distinct values of the batch.
        domain: what the model knows.

    Raises:
        DataError: naming the column, the number of rows and one value.
    """
    unknown = (codes != MISSING) & (np.append(known, 0)[codes] == MISSING)
    if unknown.any():
        value = values[codes[np.argmax(unknown)]]
        raise DataError(
            f"column {column!r}: rows outside its domain: {int(unknown.sum())}, such as "
            f"{value!r}; it knows {one_of(domain)}. Set unseen to 'pseudo_count' "
            "or 'ignore' to score them."
        )


def _read_domain(estimator: str, columns: Sequence[str], given: Any) -> dict[str, list[str]]:
    table_option(estimator, "domain", given, columns)
    domain = {}
    for column, values in given.items():
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise SpecError(
                f"{estimator}: domain of {column!r} must be a list of values, got {values!r}."
            )
        domain[column] = [category_text(value) for value in values]
        if len(set(domain[column])) < len(values):
            raise SpecError(f"{estimator}: domain of {column!r} lists a value twice.")
    return domain


def _read_pseudo_count(
    estimator: str, columns: Sequence[str], given: Any
) -> dict[str, float | dict[str, float]]:
    """Per column: one α for every value, or an α for each."""
    if not isinstance(given, Mapping):
        number_option(estimator, "pseudo_count", given)
        return dict.fromkeys(columns, float(given))
    table_option(estimator, "pseudo_count", given, columns)
    counts: dict[str, float | dict[str, float]] = {}
    for column in columns:
        count = given.get(column, CATEGORICAL_DEFAULTS["pseudo_count"])
        key = f"pseudo_count of {column!r}"
        if isinstance(count, Mapping) and count:
            counts[column] = {
                category_text(value): number_option(estimator, f"{key} ({value!r})", alpha)
                for value, alpha in count.items()
            }
        else:
            counts[column] = number_option(estimator, key, count)
    return counts
