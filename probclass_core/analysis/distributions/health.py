"""The health of a partition: what its rows contained, compared with what the model expects.

It needs no labels. All values are plain numbers and texts, so that it fits in a commit record; a
share or a probability has at most six significant digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from probclass_core.analysis.distributions.divergence import in_shared_bins, of_samples
from probclass_core.arrow.arrays import FloatArray
from probclass_core.display import Part, Report, ShortRepr, TablePart, counted


@dataclass(frozen=True, repr=False)
class ColumnHealth(ShortRepr):
    """The values of one feature column.

    Attributes:
        nulls: share of rows with a null; NaN counts as a null.
        unseen: share of rows whose category no training row had; None for a column of numbers.
        outside: share of rows with a number below the minimum or above the maximum of the training
            rows; None for other columns, or if the model does not know them.
        training_nulls: share of nulls in the training rows, or None if the model does not know it.
        drift: Jensen–Shannon divergence of the values from those that the model expects, the
            mixture Σ_c π_c p(x_j | c), in bits from 0 to 1, less what sampling alone gives on
            average; None if the model does not give p(x_j | c) or the column has only nulls.
        drift_error: standard deviation of `drift` by sampling alone, if the mixture is right.
        cuts: of a column of numbers at most 9 ascending cuts between its bins, a bin contains its
            lower cut; empty for other columns, or if the model does not suggest any.
        values: of other columns the at most 9 most frequent categories, each a bin; the bin of all
            others comes last and has no name.
        counts: number of the sampled rows in each of at most 10 bins; nulls are in none.
        expected: probability of each bin under the mixture, or None if it is unknown.
    """

    nulls: float
    unseen: float | None = None
    outside: float | None = None
    training_nulls: float | None = None
    drift: float | None = None
    drift_error: float | None = None
    cuts: tuple[float, ...] = ()
    values: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    expected: tuple[float, ...] | None = None

    def distance(self, other: ColumnHealth) -> float | None:
        """Jensen–Shannon divergence from the same column of other rows, less that of chance.

        Numbers that were counted in other bins are counted anew: the cumulative distribution is
        interpolated between the cuts, and bins beyond them are joined.

        Returns:
            Bits, at least 0, or None if the bins do not compare.
        """
        counts, others = (np.array(one.counts, np.float64) for one in (self, other))
        if not counts.any() or not others.any():
            return None
        if self.cuts != other.cuts:
            cuts, other_cuts = np.array(self.cuts), np.array(other.cuts)
            found = in_shared_bins(cuts, counts[:, None], other_cuts, others[:, None])
            if found is None:
                return None
            counts, others = found[1][:, 0], found[2][:, 0]
        elif self.values != other.values:
            common = [value for value in self.values if value in other.values]
            counts, others = self._counts_of(common), other._counts_of(common)
        return of_samples(counts, others)

    def _counts_of(self, values: Sequence[str]) -> FloatArray:
        """Counts of some of the categories; all others count together."""
        named = [float(self.counts[self.values.index(value)]) for value in values]
        return np.array([*named, sum(self.counts) - sum(named)])

    @property
    def unusual(self) -> float:
        """The largest of its drift, its further nulls, and its shares of unseen and outside."""
        more_nulls = self.nulls - (self.training_nulls or 0.0)
        return max(self.drift or 0.0, more_nulls, self.unseen or 0.0, self.outside or 0.0)


@dataclass(frozen=True)
class ClassHealth:
    """One class among the predictions.

    Attributes:
        predicted: share of the rows that are predicted as the class; rejected rows are not.
        expected: mean posterior of the class.
        prior: prior of the class under which the posterior was calculated.
    """

    predicted: float
    expected: float
    prior: float


@dataclass(frozen=True)
class DensityHealth:
    """The distribution of log p(x) over the rows.

    Attributes:
        rare: share of rows whose log p(x) is below the 1 % quantile of the model's density
            quantiles, 0.01 on rows like those; None if the model has no density quantiles.
        impossible: share of rows with p(x) = 0.
    """

    rare: float | None
    impossible: float


class Share(NamedTuple):
    """A share of rows that is small, or as in training, if the rows are like those of training.

    Attributes:
        check: name of its check; see `Watch`.
        column: the column, or None.
        share: the share, or None if it is unknown.
        usual: the share in training, or None if it is unknown.
        what: what these rows are, to begin a sentence.
    """

    check: str
    column: str | None
    share: float | None
    usual: float | None
    what: str


@dataclass(frozen=True, repr=False)
class Health(Report):
    """What a scored partition contained, compared with what the model expects; without labels.

    Attributes:
        rows: number of rows.
        sampled: number of rows among them that are counted in the bins of columns.
        rejected: share of the rows that the decision rule rejected.
        columns: each feature of the model by its name, such as ``"hour(pickup)"``.
        classes: each class by its name, in class order.
        log_density: distribution of log p(x); None if the model does not give it.
    """

    rows: int
    sampled: int
    rejected: float
    columns: Mapping[str, ColumnHealth]
    classes: Mapping[str, ClassHealth]
    log_density: DensityHealth | None

    def shares(self) -> Iterator[Share]:
        """The shares of rows that are unlike those of training."""
        density = self.log_density
        # Rows with p(x) = 0 are rare, too; without density quantiles they are all that is known.
        if density is not None and density.rare is None:
            yield Share("rare", None, density.impossible, 0.0, "The density is 0")
        elif density is not None:
            below = "The density is below the 1 % quantile of training"
            yield Share("rare", None, density.rare, 0.01, below)
        for name, column in self.columns.items():
            of = f"Column {name!r}"
            unseen, outside = "categories that training never saw", "the range of the training rows"
            yield Share("nulls", name, column.nulls, column.training_nulls, f"{of} is null")
            yield Share("unseen", name, column.unseen, 0.0, f"{of} has {unseen}")
            yield Share("outside", name, column.outside, 0.0, f"{of} is outside of {outside}")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; fields of columns and classes that are None or empty are left out."""
        return {
            **vars(self),
            "columns": {name: _present(column) for name, column in self.columns.items()},
            "classes": {name: _present(one) for name, one in self.classes.items()},
            "log_density": self.log_density and dict(vars(self.log_density)),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Health:
        """The inverse of `to_dict`."""
        parts = {
            name: {key: _from_plain(kind, of) for key, of in values[name].items()}
            for name, kind in (("columns", ColumnHealth), ("classes", ClassHealth))
        }
        density = values["log_density"] and _from_plain(DensityHealth, values["log_density"])
        return cls(**{**values, **parts, "log_density": density})

    @classmethod
    def of_commit(cls, record: Mapping[str, Any]) -> Health | None:
        """The health that a commit has recorded.

        Args:
            record: record of the commit.

        Returns:
            None if it has none, or that of a release that measures something else.
        """
        try:
            return cls.from_dict(record["health"]) if record.get("health") else None
        except (KeyError, TypeError):
            return None

    def _report(self) -> list[Part]:
        """What is unusual of the rows, the classes, and the columns that differ most."""
        density = self.log_density
        sentences = []
        if self.rejected:
            sentences.append(f"{percent(self.rejected)} of the rows were rejected.")
        if density is not None and density.rare is not None:
            sentences.append(f"{percent(density.rare)} of the rows are rare; 1 % would be usual.")
        if density is not None and density.impossible:
            sentences.append(f"{percent(density.impossible)} of the rows have p(x) = 0.")
        by_class = _columns("class", self.classes, ("prior", "predicted", "expected"))
        ranked = dict(sorted(self.columns.items(), key=lambda item: -item[1].unusual))
        by_column = _columns(
            "column", ranked, ("drift", "nulls", "training_nulls", "unseen", "outside")
        )
        return [
            f"Health of {counted(self.rows, 'row')}",
            sentences,
            *(
                [TablePart(by_class, "classes, as shares of the rows")]
                if len(self.classes) > 1
                else []
            ),
            TablePart(by_column, "columns, most unusual first; drift in bits, others as shares"),
        ]


def _columns(
    title: str, rows: Mapping[str, ColumnHealth] | Mapping[str, ClassHealth], names: Sequence[str]
) -> dict[str, list[Any]]:
    """Columns of a table with a row for each name."""
    figures = {
        name.replace("_", " "): [getattr(one, name) for one in rows.values()] for name in names
    }
    return {title: list(rows), **figures}


def _present(one: ColumnHealth | ClassHealth) -> dict[str, Any]:
    """The fields that are neither None nor empty; tuples as lists, as JSON reads them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(one).items()
        if value is not None and value != ()
    }


def _from_plain(kind: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass from plain values: lists become tuples."""
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
    )


def percent(share: float) -> str:
    """A share in percent with three digits."""
    return f"{100 * share:.3g} %"
