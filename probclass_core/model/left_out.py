"""Rows that weights are fitted on, and what blocks say of them that were not trained on them.

A block that is asked about rows which it was trained on remembers them. Here each row is left out:
alone but for its copies, or with the rows that are like it. Rows of one day or one customer are
alike, and a block that was trained on the others knows a row too well; the rows to score will be of
new days and customers. So where a spec has `groups`, each group is left out as a whole, and what a
block says of its rows is said by the merged statistics of the other groups. No row is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray, label_codes
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.contract import Estimator, LeaveOneOut
from probclass_core.estimation.kinds.sample import COUNT, HASH, SAMPLE_ROWS, equal_rows_are_copies
from probclass_core.estimation.statistics import Statistics, bind, summarize_batches
from probclass_core.model.bin_densities import BinDensity
from probclass_core.model.block_weights import below_best
from probclass_core.model.model import Model
from probclass_core.spec.model_spec import Block, ModelSpec

MOST_GROUPS = 12
"""Groups that are left out in turn; more are put together in order."""

FEW_GROUPS = 4
"""The same where many blocks are tried, each of which is estimated without each group."""

_LEAST_REST = 0.25
"""Least share of all rows that the groups must have from which another is predicted."""

_MOST_UNSEEN = 0.5
"""Largest share of rows whose class no other group has: of more, the groups are the classes."""

_FOLDS = 5


def group_numbers(
    keys: Sequence[tuple[Any, ...]], rows: Sequence[float], most: int = MOST_GROUPS
) -> list[int]:
    """The number of its group for each key, from 0 without gaps.

    Equal keys are one group. Of more than ``most`` keys, neighbors in order are put together so
    that groups have about the same number of rows.

    Args:
        keys: values that tell what is alike; those of one place have one type, or are None.
        rows: number of rows of each key, or their weight, at least 0.
        most: largest number of groups.
    """
    in_order = sorted(set(keys), key=lambda key: [(value is not None, value) for value in key])
    place_of = {key: place for place, key in enumerate(in_order)}
    places = np.array([place_of[key] for key in keys], dtype=np.intp)
    totals = np.bincount(places, rows)
    if len(totals) > most and totals.any():
        middles = np.cumsum(totals) - totals / 2
        parts = np.minimum(middles * most // totals.sum(), most - 1)
        places = np.unique(parts, return_inverse=True)[1][places]
    numbers: list[int] = places.tolist()
    return numbers


class Group(NamedTuple):
    """Rows that are left out together.

    Attributes:
        statistics: statistics of all rows of the group.
        sample: rows of the sample that are of the group.
    """

    statistics: Statistics
    sample: pa.Table


@dataclass(frozen=True)
class LeftOutRows:
    """Rows to fit weights on.

    Attributes:
        model: the product of blocks of all rows.
        statistics: statistics of all rows.
        rows: ``n`` rows of the training; those of different groups may be equal.
        truth: position of the class of each row, ``(n,)``.
        counts: Σ w of the training rows of the group with these values, ``(n,)``.
        group: number of the group of each row, ``(n,)``; of its fold, if single rows are left out.
        groups: the groups that are left out; none if single rows are.
        in_order: whether the groups are partitions, the oldest first.
        copies: whether equal rows are copies, which are left out together.
    """

    model: Model
    statistics: Statistics
    rows: Rows
    truth: IntArray
    counts: FloatArray
    group: IntArray
    groups: Sequence[Group] = ()
    in_order: bool = False
    copies: bool = False

    @classmethod
    def of(
        cls,
        model: Model,
        statistics: Statistics,
        parts: Sequence[Statistics] = (),
        most: int = SAMPLE_ROWS,
        most_groups: int = MOST_GROUPS,
    ) -> LeftOutRows:
        """Rows of the sample of some statistics; those of a class with a prior of 0 are left out.

        Args:
            model: the product of blocks of the statistics.
            statistics: statistics of all rows, with a sample.
            parts: statistics of groups of the rows, whose merge is `statistics`; if there are none,
                groups are found in the sample by `ModelSpec.group_columns`.
            most: largest number of different rows.
            most_groups: largest number of groups that are found in the sample.
        """
        spec, sample = statistics.spec, statistics.sample
        assert sample is not None  # `summarize_batches` takes one for every spec that fits weights
        is_possible = np.isfinite(model.log_prior)[_positions(sample, spec.label, model.classes)]
        sample = sample.filter(pa.array(is_possible)).slice(0, most)
        groups: list[Group] = []
        if spec.groups is not None:
            groups = (
                _groups_of(parts, sample) if parts else _groups_of_sample(spec, sample, most_groups)
            )
        labeled = [group.statistics.labeled_rows for group in groups]
        total = sum(labeled)
        samples = [
            # From few rows nothing can be predicted; a group is not asked about, but it is asked.
            sample if total - rows >= _LEAST_REST * total else sample.slice(0, 0)
            for (_, sample), rows in zip(groups, labeled, strict=True)
        ]
        if sum(len(rows) > 0 for rows in samples) > 1:
            found = cls._of(model, statistics, samples, groups)
            if np.count_nonzero(found._is_unseen) <= _MOST_UNSEEN * len(found.truth):
                return replace(found, in_order=bool(parts))
        _, fold = np.unique(sample[HASH].to_numpy() % np.uint64(_FOLDS), return_inverse=True)
        rows = cls._of(model, statistics, [sample])
        return replace(rows, group=fold, copies=len(sample) > 0 and equal_rows_are_copies(sample))

    @classmethod
    def _of(
        cls,
        model: Model,
        statistics: Statistics,
        samples: Sequence[pa.Table],
        groups: Sequence[Group] = (),
    ) -> LeftOutRows:
        label, features, first = statistics.spec.label, statistics.features, samples[0].schema
        others = [
            name for name in (*statistics.spec.label_columns, COUNT) if name not in features.names
        ]
        schema = pa.schema([*features, *map(first.field, others)])
        rows = pa.concat_tables([rows.select(schema.names).cast(schema) for rows in samples])
        group = np.repeat(np.arange(len(samples)), [len(rows) for rows in samples])
        mask = np.isfinite(model.log_prior)[_positions(rows, label, model.classes)]
        (batch,) = rows.filter(pa.array(mask)).combine_chunks().to_batches()
        truth, counts = _positions(batch, label, model.classes), batch[COUNT].to_numpy()
        return cls(model, statistics, Rows(batch), truth, counts, group[mask], groups)

    def evidence(self, name: str) -> FloatArray:
        """`log_likelihood` relative to the best class of each row, ``(n, k)``; see `below_best`.

        Of a row whose class no other group has, nothing can be said: it is 0 in all classes. Nor is
        anything said of values that no other group has, see `ignoring_unseen`.
        """
        estimator = self._ignoring_unseen[name] if self.groups else self._estimators[name]
        said = below_best(self._log_likelihood(name, estimator))
        if not self._leaves_single_rows_out_of(estimator):
            said[self._is_unseen] = 0.0
        return said

    def log_likelihood(self, name: str) -> FloatArray:
        """log p(x | c) of rows by a block that did not see them, ``(n, k)``.

        It is −∞ in a class that no other group has. Where single rows are left out, each is judged
        by one row less than a new row is, which raises shares by 1/(n_c − 1) or less. That is taken
        off again, so that a new row is not less probable than a known one that is as rare.

        Raises:
            DataError: if the rows of the other groups are too few for the estimator.
        """
        estimator = self._estimators[name]
        said = self._log_likelihood(name, estimator)
        if self._leaves_single_rows_out_of(estimator):
            others = np.bincount(self.truth, self.counts)[self.truth] - self._left_out
            said[np.arange(len(said)), self.truth] -= self._left_out / np.maximum(others, 1.0)
        return said

    def _log_likelihood(self, name: str, estimator: Estimator) -> FloatArray:
        classes = self.model.classes
        if self._leaves_single_rows_out_of(estimator):
            statistics, likelihood = self.statistics.blocks[name], self.model.likelihoods[name]
            return estimator.leave_one_out(
                statistics, likelihood, classes, self.rows, self.truth, self._left_out
            )
        result = np.zeros((len(self.truth), len(classes)))
        parts = [group.statistics.blocks[name] for group in self.groups] or [
            estimator.summarize(rows, labels, counts) for rows, labels, counts in self._folds
        ]
        if len(parts) < 2:
            return result
        known = self._known_to_others
        left_out = {
            number: classes.filter(pa.array(known[number]))
            for number, member in enumerate(self._members)
            if len(member)
        }
        found = estimator.fit_without(parts, left_out)
        for number, likelihood in zip(left_out, found, strict=True):
            rows = self._rows_of_members[number]
            of_classes = np.ix_(self._members[number], known[number])
            result[of_classes] = likelihood.log_likelihood(rows)
        result[~self._known_to_others[self.group]] = -np.inf
        return result

    def log_within_bins(self, density: BinDensity) -> FloatArray:
        """log g of numbers by the other rows or groups, in the cells of all rows, ``(n,)``.

        Args:
            density: g of a column by all rows; see `bin_densities`.
        """
        cuts = self.model.cuts[density.feature]
        result = density.log(self.rows)
        for sign, ends in ((1.0, density.ends), (-1.0, cuts)):
            cell = self.rows.bins(density.feature, ends, len(ends) + 1)
            mass = np.bincount(cell, self.counts)[cell]
            own = self._left_out
            if self.groups:
                of_group = self.group * (len(ends) + 2) + cell
                own = np.bincount(of_group, self.counts)[of_group]
            others = mass - own
            result += sign * np.log(np.where(others > 0.0, others, 1.0) / mass)
        if not self.groups:
            self._move_ends_to_tails(density, result)
        return result

    def _move_ends_to_tails(self, density: BinDensity, log: FloatArray) -> None:
        """Set log g of the least and the greatest number, which are in the tails of the others."""
        numbers, is_alone = self.rows.numbers(density.feature), self.counts <= self._left_out
        different, times = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
        if len(different) < 3:
            return
        for end, next_to_it in ((0, 1), (-1, -2)):
            at = numbers == different[end]
            if times[end] == 1 and is_alone[at].all():
                distance = abs(different[end] - different[next_to_it])
                log[at] = density.log_density[end] - density.decay[end] * distance

    def _leaves_single_rows_out_of(self, estimator: Estimator) -> TypeGuard[LeaveOneOut]:
        return not self.groups and isinstance(estimator, LeaveOneOut)

    @property
    def _left_out(self) -> FloatArray:
        """Weight with which each row is left out alone, ``(n,)``.

        A row of weight 2 is two rows, of which one is left out unless they are copies.
        """
        return self.counts if self.copies else np.minimum(self.counts, 1.0)

    @cached_property
    def _members(self) -> list[IntArray]:
        """Places of the rows of each group or fold."""
        return [np.flatnonzero(self.group == number) for number in range(self._count)]

    @cached_property
    def _rows_of_members(self) -> list[Rows]:
        return list(map(self.rows.take, self._members))

    @property
    def _count(self) -> int:
        """Number of groups or folds."""
        return len(self.groups) or int(self.group.max(initial=-1)) + 1

    @cached_property
    def _known_to_others(self) -> BoolArray:
        """Whether another group or fold has a class, by group and class."""
        known = np.zeros((self._count, len(self.model.classes)), np.bool_)
        known[self.group, self.truth] = True
        for of_group, (statistics, _) in zip(known, self.groups, strict=False):
            of_group[label_codes(statistics.classes["class"], self.model.classes)] = True
        others: BoolArray = known.sum(axis=0) - known > 0
        return others

    @property
    def _is_unseen(self) -> BoolArray:
        """Whether no other group has the class of a row, ``(n,)``."""
        return ~self._known_to_others[self.group, self.truth]

    @cached_property
    def _estimators(self) -> Mapping[str, Estimator]:
        statistics = self.statistics
        return bind(statistics.spec, statistics.features, statistics.row_weight)

    @cached_property
    def _ignoring_unseen(self) -> Mapping[str, Estimator]:
        statistics = self.statistics
        spec = ignoring_unseen(statistics.spec)
        return bind(spec, statistics.features, statistics.row_weight)

    @property
    def _folds(self) -> Iterator[tuple[Rows, pa.DictionaryArray, FloatArray]]:
        """Rows, labels and weights of each fold."""
        for member, rows in zip(self._members, self._rows_of_members, strict=True):
            codes = pa.array(self.truth[member])
            labels = pa.DictionaryArray.from_arrays(codes, self.model.classes)
            yield rows, labels, self.counts[member]


def ignoring_unseen(spec: ModelSpec) -> ModelSpec:
    """The spec whose blocks say nothing of a value that training never saw, if they can.

    A value that only one group has, such as its month, would tell about the group: the others have
    fewer rows of its classes than all rows, and so a larger pseudo-count for each of them.
    """
    blocks = []
    for block in spec.blocks:
        options = getattr(block.estimator_class, "Options", None)
        if options is not None and "unseen" in options.declared():
            changed = {**block.options, "unseen": "ignore"}
            block = Block(block.estimator, block.columns, block.name, given=block.given, **changed)
        blocks.append(block)
    return replace(spec, blocks=tuple(blocks))


def _positions(rows: pa.Table | pa.RecordBatch, label: str | None, classes: pa.Array) -> IntArray:
    """The position of the class of each row; without a label there is one class."""
    if label is None:
        return np.zeros(rows.num_rows, np.intp)
    return label_codes(rows[label], classes)


def _groups_of(parts: Sequence[Statistics], sample: pa.Table) -> list[Group]:
    """The groups of some parts, and which rows of a sample of all parts each of them has."""
    # The smallest hashes of all rows are among the smallest of each part.
    last = pc.max(sample[HASH])
    return [
        Group(part, part.sample.filter(pc.less_equal(part.sample[HASH], last)))
        for part in parts
        if part.sample is not None
    ]


def _groups_of_sample(spec: ModelSpec, sample: pa.Table, most: int) -> list[Group]:
    """The groups of the rows of a sample, by the group columns of a spec."""
    names = spec.group_columns
    keys = list(zip(*(sample[name].to_pylist() for name in names), strict=True)) if names else []
    numbers = np.array(group_numbers(keys, [1] * len(keys), most), dtype=np.intp)
    weights: dict[str, float] | None = None if spec.label is None else {}
    weighted = replace(spec, weight=COUNT, block_weights=weights, groups=None)
    groups = []
    for number in range(numbers.max(initial=-1) + 1):
        rows = sample.filter(pa.array(numbers == number))
        groups.append(Group(summarize_batches(weighted, rows.schema, rows.to_batches()), rows))
    return groups
