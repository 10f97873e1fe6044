"""Whether a model was trained on rows of a selection, by the provenance of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc

from probclass_core.errors import ProbClassError
from probclass_core.io.filters import Condition, Where, expression, filtered_columns
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef
from probclass_core.io.selection import Selection
from probclass_core.io.table import Source


def trained_on(
    training: Mapping[str, Any], selection: Selection
) -> Literal["no", "yes", "unknown"]:
    """Whether some of the rows of a selection were used to fit or calibrate a model.

    The selection of the training is applied to the selected rows once more. If it selects some of
    them, they were trained on if the files of the training are still the same, or if the table has
    versions and they were in the version that was trained on. Tables at different addresses are
    taken for different rows.

    Args:
        training: ``model.training``.
        selection: the rows.

    Returns:
        ``"unknown"`` if the provenance does not say which rows were read, as for tables in memory,
        or the files have changed since, so that the rows may be newer than the training.
    """
    records = [training]
    calibration = training.get("calibration")
    if isinstance(calibration, Mapping) and calibration.get("applied"):
        records.append(calibration)
    answers = [_was_read(record, selection) for record in records]
    return next((answer for answer in ("yes", "unknown") if answer in answers), "no")


def _was_read(record: Mapping[str, Any], selection: Selection) -> Literal["no", "yes", "unknown"]:
    uri, source = selection.table.uri, record.get("source")
    if uri is None or source is None:
        return "unknown"
    if _place(uri) != _place(source):
        return "no"
    where = record.get("where") or ()
    if isinstance(where, str):  # an Arrow expression, of which only the text is known
        return "unknown"
    conditions = [*_equalities(record.get("partition")), *where]
    table, version = selection.table, record.get("version")
    try:
        if not _any_row(table, selection, conditions):
            return "no"
        training = Selection(table, where=conditions).plan(table.schema.names[:1])
        if training.snapshot is not None and training.snapshot == record.get("snapshot"):
            return "yes"
        if version is None:
            return "unknown"
        trained = open_table(TableRef(uri, version=version))
        return "yes" if _any_row(trained, selection, conditions) else "no"
    except ProbClassError:  # the columns have changed, or the version was removed
        return "unknown"


def _any_row(table: Source, selection: Selection, conditions: Sequence[Condition]) -> bool:
    """Whether a row of the selection meets the conditions."""
    listed: list[Condition] = [*_equalities(selection.partition), *conditions]
    where: Where = listed
    if isinstance(selection.where, pc.Expression):
        selected = expression(table.schema, None, listed)
        where = selection.where if selected is None else selection.where & selected
    else:
        listed += selection.where or ()
    names = {*table.partition_columns}
    of_partitions = [condition for condition in listed if condition[0] in names]
    if of_partitions and not table.partitions(of_partitions):
        return False
    plan = table.plan(table.schema.names[:1], where=where)
    if plan.rows is not None and filtered_columns(table.schema, {"where": where}) <= names:
        return plan.rows > 0
    return any(batch.num_rows for batch in plan.batches())


def _equalities(partition: Mapping[str, Any] | None) -> list[Condition]:
    return [(name, "==", value) for name, value in (partition or {}).items()]


def _place(uri: str) -> str:
    return uri.rstrip("/") if "://" in uri else str(Path(uri).resolve())
