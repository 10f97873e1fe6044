"""Options of the estimators of counted cells.

Options of one name have one meaning, and so do the errors: for options that contradict each other,
and for training values outside a declared domain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError, NotSupportedError, SpecError, one_of
from probclass_core.estimation import options
from probclass_core.estimation.families.counted.cuts import parse_cuts
from probclass_core.estimation.histogram import FEWEST_CELLS
from probclass_core.spec.model_spec import category_text

LEAVE_ONE_OUT = "loo"
"""The word for a strength that is to be chosen."""

PseudoCount = float | dict[str, float]
"""α of every value of a column, or an α per value."""

_PSEUDO_COUNT = 1.0

_ALPHA: options.Option = options.number(_PSEUDO_COUNT, doc="The pseudo-count of a value.")


def _parse_domain(path: options.OptionPath, given: Any) -> dict[str, list[str]]:
    """Declared values by column."""
    domain = {}
    for column, values in options.parse_table(path, given).items():
        part = path.part(f"domain of {column!r}")
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise part.error("a list of values", values)
        domain[column] = [category_text(value) for value in values]
        if len(set(domain[column])) < len(values):
            raise SpecError(f"{part.estimator}: {part.option} lists a value twice.")
    return domain


def _parse_pseudo_count(path: options.OptionPath, given: Any) -> dict[str, PseudoCount]:
    """Pseudo-counts by column."""
    if not isinstance(given, Mapping):
        alpha: PseudoCount = _ALPHA.parse(path, given)
        return dict.fromkeys(path.columns, alpha)
    options.parse_table(path, given)
    counts: dict[str, PseudoCount] = {}
    for column in path.columns:
        count = given.get(column, _PSEUDO_COUNT)
        part = path.part(f"pseudo_count of {column!r}")
        if isinstance(count, Mapping) and count:
            counts[column] = {
                category_text(value): _ALPHA.parse(part.part(f"{part.option} ({value!r})"), number)
                for value, number in count.items()
            }
        else:
            counts[column] = _ALPHA.parse(part, count)
    return counts


class CountedOptions(options.EstimatorOptions):
    """Options of counted cells; an estimator that lacks one has a constant in its place.

    A cell is what has a probability: a value of a column, or one value of every column.
    """

    pseudo_count: float | dict[str, PseudoCount] = options.option(
        _PSEUDO_COUNT,
        _parse_pseudo_count,
        expected="a number of at least 0, or a table of one number or a number per value by column",
        doc="α, added to the count of every cell. categorical_joint multiplies the α of a cell's "
        "values if they are given by column (1 for a column not in the table).",
    )
    domain: dict[str, list[str]] = options.option(
        {},
        _parse_domain,
        expected="a table of lists of values, by column",
        doc="The values that a column of categories can take; by default those that pseudo_count "
        "names, or else those that training saw in any class. Given columns have none.",
    )
    unseen: str = options.choice(
        "pseudo_count",
        ("pseudo_count", "ignore"),
        doc="A value outside the domain: 'pseudo_count' scores it as one that the class never "
        "showed, with the column's α or the least of its values', 'ignore' as missing. "
        "In training, a value outside a declared domain is an error unless 'ignore'. An "
        "unseen value of a given column is not an error: the estimate is that given one column "
        "fewer.",
    )
    smooth: str = options.choice(
        "all",
        ("all", "zeros"),
        doc="The cells that get the pseudo-count: 'all', or only 'zeros', those that the class "
        "never showed, as in the textbook's example 18.4. With 'zeros' the probabilities of a "
        "class do not sum to 1.",
    )
    missing: str = options.choice(
        "marginalize",
        ("marginalize", "level"),
        doc="A null: 'marginalize' leaves a column out of the row; of given columns, the first "
        "that is null and those after it. 'level' makes null a value of its own, the last bin of "
        "numbers. If no training row has a null, 'level' scores it as the option unseen says.",
    )
    shared_strength: float | str | None = options.number(
        None,
        [LEAVE_ONE_OUT],
        at_least=math.ulp(0.0),
        doc="The number of rows that the frequency of a value in all classes together is worth in "
        "the estimate of each class; only that frequency then has the pseudo_count. 'loo' chooses "
        "1 to 20 rows by the likelihood of the training rows as if each had been left out. None: "
        "the pseudo_count is added in every class.",
    )
    method: str = options.choice(
        "mdl",
        ("mdl", "width", "frequency"),
        doc="'mdl' cuts where the classes differ, as long as a cut gains more information than "
        "it costs to describe; 'width' cuts the range, 'frequency' the rows into equal parts.",
    )
    bins: int = options.whole(
        10,
        at_least=2,
        doc="Largest number of bins for 'width' and 'frequency'; 'mdl' finds its own number, "
        "which may be one.",
    )
    cells: int = options.whole(
        4096,
        at_least=FEWEST_CELLS,
        doc="Largest number of distinct values of a column that are counted as they are, to cut "
        "it; more are counted on the finest grid of a power of two with at most as many occupied "
        "cells.",
    )
    cuts: dict[str, list[float]] = options.option(
        {},
        parse_cuts,
        expected="a table of lists of ascending numbers, by column",
        doc="Cut points of columns of numbers, given ones included, which are then not computed "
        "from the rows: a value below the first cut is in the first bin, a value at a cut or above "
        "it in the next.",
    )
    strength: float | str = options.number(
        10.0,
        [LEAVE_ONE_OUT],
        at_least=math.ulp(0.0),
        doc="The number of rows that the estimate given one column fewer is worth. 'loo' chooses a "
        "strength for each column and number of given columns, by the likelihood of the training "
        "rows as if each had been left out.",
    )
    window: int = options.whole(
        1,
        at_least=1,
        doc="Bins to either side, its own included, that a row is shared out among, so that bins "
        "next to each other are estimated together: with 2, a quarter of it counts in each of the "
        "next bins. 1 leaves a row in its own.",
    )

    def validate(self) -> None:
        for column, values in self.domain.items():
            alpha = self._alpha(column)
            odd = sorted(alpha.keys() ^ set(values)) if isinstance(alpha, dict) else []
            if odd:
                has, lacks = ("domain", "pseudo_count")[:: 1 if odd[0] in values else -1]
                raise SpecError(
                    f"{self._estimator}: {has} of {column!r} has value {odd[0]!r}, {lacks} has "
                    "not; give both the same values."
                )

    def _alpha(self, column: str) -> PseudoCount:
        """The pseudo-count of each value of a column."""
        alpha = self.pseudo_count
        return alpha[column] if isinstance(alpha, dict) else alpha

    def named_values(self, column: str) -> list[str]:
        """The values of a column that the options name, if they do."""
        alpha = self._alpha(column)
        return self.domain.get(column) or (list(alpha) if isinstance(alpha, dict) else [])

    def domain_of(self, column: str, seen: Mapping[str, float]) -> list[str]:
        """The values of a column: those that the options name, else those seen, ascending.

        Args:
            column: name of the column.
            seen: value to its weighted count in training, all classes together.

        Raises:
            DataError: if a value was seen outside the named ones and is not to be ignored.
        """
        named = self.named_values(column)
        outside = sorted(seen.keys() - set(named)) if named else []
        if outside and self.unseen != "ignore":
            raise DataError(
                f"column {column!r} has value {outside[0]!r} in {seen[outside[0]]:g} training "
                f"rows, outside its declared domain {one_of(named)}; add it, or set "
                "unseen='ignore'."
            )
        return named or sorted(seen)

    def alpha_of(self, column: str, domain: Sequence[str | None]) -> FloatArray:
        """The pseudo-count of each value of a domain, ``(m,)``; None is null."""
        alpha = self._alpha(column)
        if not isinstance(alpha, dict):
            return np.full(len(domain), float(alpha))
        least = min(alpha.values())  # that of null
        return np.array([least if value is None else alpha[value] for value in domain], np.float64)

    def check_prior(self, columns: Sequence[str]) -> None:
        """Refuse options that are not a Dirichlet prior of each of these columns.

        Raises:
            NotSupportedError: naming the option.
        """
        offers = f"{self._estimator} offers no log evidence with"
        if self.smooth != "all":
            raise NotSupportedError(
                f"{offers} smooth={self.smooth!r}, whose probabilities do not sum to 1; set "
                "smooth='all'."
            )
        if self.shared_strength is not None:
            raise NotSupportedError(
                f"{offers} shared_strength, a prior that depends on the rows; leave it out."
            )
        for column in columns:
            alpha = self._alpha(column)
            by_value = alpha if isinstance(alpha, dict) else {None: alpha}
            zeros = [value for value, count in by_value.items() if not count > 0.0]
            if zeros:
                where = repr(column) if zeros[0] is None else f"{column!r} ({zeros[0]!r})"
                raise NotSupportedError(
                    f"{offers} a pseudo_count of 0 for {where}: a Dirichlet prior is positive; "
                    "set pseudo_count above 0."
                )


class CategoricalOptions(CountedOptions):
    """Options of `Categorical`."""

    strength, window, method, bins, cells, cuts = LEAVE_ONE_OUT, 1, "mdl", 0, 0, {}


class JointOptions(CategoricalOptions):
    """Options of `CategoricalJoint`."""

    missing, shared_strength = "marginalize", None


class DiscretizedOptions(CountedOptions):
    """Options of `Discretized`."""

    strength, window, domain, unseen, smooth = LEAVE_ONE_OUT, 1, {}, "pseudo_count", "all"
    pseudo_count = options.number(1.0, doc="α of every bin.")


class ConditionalOptions(CountedOptions):
    """Options of `ConditionalCategorical` and `ConditionalDiscretized`."""

    method, bins, smooth = "mdl", 0, "all"
    pseudo_count = options.number(
        1.0, doc="α of every value, in the estimate that uses no given column."
    )
