"""Options of the categorical estimators: domains of columns and their pseudo-counts.

The options have the same meaning for both estimators, and so do the errors: for options that
contradict each other, for training values outside a declared domain, for unknown values in scoring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray, category_codes, label_codes
from probclass_core.arrow.shared_conversions import converted
from probclass_core.errors import DataError, NotSupportedError, SpecError, one_of
from probclass_core.estimation.options import (
    EstimatorOptions,
    OptionPath,
    choice,
    option,
    parse_number,
    parse_table,
)
from probclass_core.spec.model_spec import category_text

PseudoCount = float | dict[str, float]
"""α of every value of a column, or an α per value."""

_PSEUDO_COUNT = 1.0


def parse_domain(path: OptionPath, given: Any) -> dict[str, list[str]]:
    """Declared values by column."""
    domain = {}
    for column, values in parse_table(path, given).items():
        part = path.part(f"domain of {column!r}")
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise part.error("a list of values", values)
        domain[column] = [category_text(value) for value in values]
        if len(set(domain[column])) < len(values):
            raise SpecError(f"{part.estimator}: {part.option} lists a value twice.")
    return domain


def _parse_pseudo_count(path: OptionPath, given: Any) -> dict[str, PseudoCount]:
    """Pseudo-counts by column."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(path.columns, float(parse_number(path, given)))
    parse_table(path, given)
    counts: dict[str, PseudoCount] = {}
    for column in path.columns:
        count = given.get(column, _PSEUDO_COUNT)
        part = path.part(f"pseudo_count of {column!r}")
        if isinstance(count, Mapping) and count:
            counts[column] = {
                category_text(value): parse_number(part.part(f"{part.option} ({value!r})"), alpha)
                for value, alpha in count.items()
            }
        else:
            counts[column] = parse_number(part, count)
    return counts


class CategoricalOptions(EstimatorOptions):
    """Options of `Categorical` and `CategoricalJoint`.

    A cell is what has a probability: a value of a column, or one value of every column.
    """

    pseudo_count: dict[str, PseudoCount] = option(
        _PSEUDO_COUNT,
        _parse_pseudo_count,
        expected="a number of at least 0, or a table of one number or a number per value by column",
        doc="α, added to the count of every cell. categorical_joint multiplies the α of a cell's "
        "values if they are given by column (1 for a column not in the table).",
    )
    domain: dict[str, list[str]] = option(
        {},
        parse_domain,
        expected="a table of lists of values, by column",
        doc="The values that a column can take; by default those that pseudo_count names, or else "
        "those that training saw in any class.",
    )
    unseen: str = choice(
        "pseudo_count",
        ("pseudo_count", "ignore", "error"),
        doc="A value outside the domain: 'pseudo_count' scores it as a cell that the class never "
        "showed, with the column's α or the least of its values', 'ignore' as missing, 'error' "
        "refuses. In training, a value outside a declared domain is an error unless 'ignore'.",
    )
    smooth: str = choice(
        "all",
        ("all", "zeros"),
        doc="The cells that get the pseudo-count: 'all', or only 'zeros', those that the class "
        "never showed, as in the textbook's example 18.4. With 'zeros' the probabilities of a "
        "class do not sum to 1.",
    )

    def validate(self) -> None:
        for column, values in self.domain.items():
            alpha = self.pseudo_count[column]
            odd = sorted(alpha.keys() ^ set(values)) if isinstance(alpha, dict) else []
            if odd:
                has, lacks = ("domain", "pseudo_count")[:: 1 if odd[0] in values else -1]
                raise SpecError(
                    f"{self._estimator}: {has} of {column!r} has value {odd[0]!r}, {lacks} has "
                    "not; give both the same values."
                )

    def domain_of(self, column: str, seen: Mapping[str, float]) -> list[str]:
        """The values of a column: those that the options name, else those seen, ascending.

        Args:
            column: name of the column.
            seen: value to its weighted count in training, all classes together.

        Raises:
            DataError: if a value was seen outside the named ones and is not to be ignored.
        """
        alpha = self.pseudo_count[column]
        named = self.domain.get(column) or (list(alpha) if isinstance(alpha, dict) else [])
        outside = sorted(seen.keys() - set(named)) if named else []
        if outside and self.unseen != "ignore":
            raise DataError(
                f"column {column!r} has value {outside[0]!r} in {seen[outside[0]]:g} training "
                f"rows, outside its declared domain {one_of(named)}; add it, or set "
                "unseen='ignore'."
            )
        return named or sorted(seen)

    def alpha_of(self, column: str, domain: Sequence[str]) -> FloatArray:
        """The pseudo-count of each value of a domain: ``(m,)``."""
        alpha = self.pseudo_count[column]
        if not isinstance(alpha, dict):
            return np.full(len(domain), float(alpha))
        return np.array([alpha[value] for value in domain], dtype=np.float64)

    def check_prior(self) -> None:
        """Refuse pseudo-counts that are not a Dirichlet prior.

        Raises:
            NotSupportedError: naming the option.
        """
        if self.smooth != "all":
            raise NotSupportedError(
                f"{self._estimator} offers no log evidence with smooth={self.smooth!r}, whose "
                "probabilities do not sum to 1; set smooth='all'."
            )
        for column, alpha in self.pseudo_count.items():
            cells = alpha if isinstance(alpha, dict) else {None: alpha}
            for value, count in cells.items():
                if not count > 0.0:
                    where = f"{column!r}" if value is None else f"{column!r} ({value!r})"
                    raise NotSupportedError(
                        f"{self._estimator} offers no log evidence with a pseudo_count of 0 for "
                        f"{where}: a Dirichlet prior is positive; set pseudo_count above 0."
                    )


def domain_codes(column: pa.Array, name: str, domain: pa.Array, unseen: str) -> IntArray:
    """Positions of values in a domain of ``m`` values.

    Args:
        column: ``n`` values to score.
        name: name of the column.
        domain: ``m`` values that the model knows, as text.
        unseen: policy for other values, one of the words of the option.

    Returns:
        ``(n,)`` codes from 0; ``m`` for an unseen value, `MISSING` for null or ignored values.

    Raises:
        DataError: if ``unseen`` is ``"error"`` and there are such values, naming the column, the
            number of rows and one value.
    """
    conversion = unseen, *(None if buffer is None else bytes(buffer) for buffer in domain.buffers())
    return converted(column, conversion, lambda: _find_codes(column, name, domain, unseen))


def _find_codes(column: pa.Array, name: str, domain: pa.Array, unseen: str) -> IntArray:
    codes, values = category_codes(column, name)
    known = label_codes(pa.array(values, pa.string()), domain)
    if unseen == "pseudo_count":
        known = np.where(known == MISSING, len(domain), known)
    elif unseen == "error":
        unknown = (codes != MISSING) & (np.append(known, 0)[codes] == MISSING)
        if unknown.any():
            raise DataError(
                f"column {name!r}: rows outside its domain: {int(unknown.sum())}, such as "
                f"{values[codes[np.argmax(unknown)]]!r}; it knows {one_of(domain.to_pylist())}. "
                "Set unseen to 'pseudo_count' or 'ignore' to score them."
            )
    result: IntArray = np.append(known, MISSING)[codes]
    return result
