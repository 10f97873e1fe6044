"""An estimator with the columns and options of one block, to try laws on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import label_codes
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, SpecError
from probclass_core.estimation.contract import Estimator, Likelihood
from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.model.model import Model
from probclass_core.pipeline.training import fit, summarize
from probclass_core.plugins.manager import trying
from probclass_core.spec.model_spec import Block, ModelSpec

LABEL, WEIGHT = "(label)", "(weight)"
"""Names of the columns that tables have in addition to the features."""

COUNTS = "counts"
"""The space of a column of whole numbers from 0."""


class Interval(NamedTuple):
    """The space of a column of real numbers: its density is integrated from ``low`` to ``high``.

    The likelihood of one of ``atoms`` is a probability, which is added to the integral.
    """

    low: float = -math.inf
    high: float = math.inf
    atoms: tuple[float, ...] = ()


LINE = Interval()

Space = Interval | str | None
"""What the probabilities of a column add up to 1 over; None for the values that training saw."""

Outcomes = Callable[[Model], pa.Table | None]
"""From a fitted model to rows whose probabilities add up to 1; None if they need not."""


@dataclass(frozen=True)
class Trial:
    """An estimator with the columns and options of one block, in a model with no other block.

    Attributes:
        estimator: class of the estimator, which need not be installed.
        columns: columns of the block.
        options: options of the block.
        given: columns that the block is given.
        spaces: what the probabilities of each column add up to 1 over, see `Space`; the laws of
            totals ignore numeric columns without a space.
        outcomes: rows whose probabilities add up to 1, in place of ``spaces``; see `Outcomes`.
        tolerance: largest difference of equal results: for log-likelihoods relative, or absolute in
            nats; for parameters relative to the largest value in the column.
    """

    estimator: type[Estimator]
    columns: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-6
    given: Sequence[str] = ()
    spaces: Mapping[str, Space] = field(default_factory=dict)
    outcomes: Outcomes | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that the block reads: those that it models, then those given."""
        return (*self.columns, *self.given)

    @property
    def kind(self) -> Any:
        """The class of the estimator, or of its conditional if the block has given columns."""
        with trying(self.estimator):
            return self.spec().blocks[0].estimator_class

    def spec(self, *, weighted: bool = False) -> ModelSpec:
        """The spec of a model with this block."""
        name = self.estimator.name
        block = Block(name, self.columns, name, given=self.given, **self.options)
        return ModelSpec(LABEL, [block], weight=WEIGHT if weighted else None)

    def summarize(self, source: Any, *, weighted: bool = False) -> Statistics:
        """Statistics of the rows; weights are ignored unless ``weighted``."""
        return summarize(source, self.spec(weighted=weighted))

    def summarize_each(self, parts: Sequence[pa.Table]) -> list[Statistics]:
        """Statistics of each part."""
        return [self.summarize(part) for part in parts]

    def fit(self, source: Any, *, workers: int = 1) -> Model:
        """A model fitted to the rows."""
        return fit(source, self.spec(), workers=workers)

    def can_fit(self, table: pa.Table) -> bool:
        """Whether a model can be fitted: an estimator may refuse a feature without values."""
        with trying(self.estimator):
            try:
                self.fit(table)
            except DataError:
                return False
            return True

    def without(self, column: str) -> Trial | None:
        """The trial without a column, or None if it is the only one or an option needs it."""
        others = [name for name in self.columns if name != column]
        smaller = replace(self, columns=others)
        try:
            bind(smaller.spec(), pa.schema([(name, pa.null()) for name in smaller.inputs]))
        except SpecError:
            return None
        return smaller

    def bound(self, statistics: Statistics | Model) -> Estimator:
        """A new estimator, constructed as in training."""
        return bind(self.spec(), statistics.features)[self.estimator.name]

    def block(self, statistics: Statistics) -> pa.Table:
        """The estimator's table of statistics."""
        return statistics.blocks[self.estimator.name]

    def with_block(self, statistics: Statistics, table: pa.Table) -> Statistics:
        """The statistics with another table of the estimator."""
        return replace(statistics, tables={**statistics.tables, self.estimator.name: table})

    def models_nulls(self, source: Statistics | Model) -> bool:
        """Whether null is a value of the block, so that law 5 does not apply."""
        return self.bound(source).models_nulls

    def likelihood(self, model: Model) -> Likelihood:
        """The compiled likelihood of a model."""
        return model.likelihoods[self.estimator.name]

    def log_likelihood(self, model: Model, rows: pa.Table) -> np.ndarray:
        """log p(x | class) of every row, ``(n, k)``."""
        return model.log_likelihood_by_block(rows)[:, :, 0]

    def rows(self, table: pa.Table) -> Rows:
        """The block's columns of a table."""
        table = table.select(list(self.inputs)).combine_chunks()
        batches = table.to_batches()
        return Rows(batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema))


def labeled_rows(trial: Trial, table: pa.Table) -> tuple[Rows, pa.DictionaryArray]:
    """Features and labels of the labeled rows, as training passes them to the estimator."""
    table = table.filter(table[LABEL].is_valid()).combine_chunks()
    return trial.rows(table), table[LABEL].combine_chunks().dictionary_encode()


def rows_of_class(table: pa.Table, label: Any) -> pa.Table:
    """The rows of one class."""
    return table.filter(pa.array(label_codes(table[LABEL], pa.array([label])) == 0))
