"""Count the rows of a table that have a label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from probclass_core.arguments import ColumnName, checks_arguments
from probclass_core.arrow.arrays import class_labels
from probclass_core.io.filters import Where
from probclass_core.io.selection import Selection


@dataclass(frozen=True)
class LabelCounts:
    """How many rows have a label.

    Attributes:
        rows: number of rows.
        labeled: number of rows whose label is not null.
    """

    rows: int
    labeled: int

    @property
    def share(self) -> float:
        """Share of the rows that have a label; 0 without rows."""
        return self.labeled / self.rows if self.rows else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The counts and the share as plain JSON values."""
        return {**asdict(self), "share": self.share}


@checks_arguments
def count_labels(
    source: Any,
    label: ColumnName,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
) -> LabelCounts:
    """Count the rows of a table that have a label, to know whether labels have arrived.

    Only the label and the columns of the filter are read.

    Args:
        source: path, table, frame, reader or dataset; see `open_table`.
        label: the class column.
        partition: partition to count, such as ``{"month": "2014-01"}``; by default all.
        where: rows to count, as for `fit`; by default all.

    Raises:
        DataError: if there is no such column, or its type does not fit classes.
        TableError: if the table or partition does not exist or cannot be read.

    Examples:
        >>> counts = count_labels("lake", "air", partition={"month": "2014-01"})  # doctest: +SKIP
        >>> counts.labeled, counts.rows                                           # doctest: +SKIP
        (737, 744)
    """
    plan = Selection.plan_alone(source, partition, where, [label])
    rows = labeled = 0
    for batch in plan.batches():
        rows += batch.num_rows
        labeled += batch.num_rows - class_labels(batch, label).null_count
    return LabelCounts(rows, labeled)
