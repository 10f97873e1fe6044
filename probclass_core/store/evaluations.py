"""Evaluations of saved versions: one small JSON file per version and set of rows.

A record is named by the digest of its result and of the description of the rows. So recording the
same evaluation again adds nothing, and two tasks that do so at once write the same file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from probclass_core.arrow.bundle import json_digest, plain_json
from probclass_core.errors import StoreError
from probclass_core.store.records import ContentId, Object, Record, Time, timestamp
from probclass_core.store.references import ModelVersion

_MAX_BYTES = 1_000_000
"""Largest evaluation stored with its tables; of a larger one, as with hundreds of classes, only the
numbers are stored."""


class Evaluated(Protocol):
    """An evaluation, or anything else that can describe itself in plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite or undefined number is null."""


@dataclass(frozen=True, repr=False)
class EvaluationRecord(Record):
    """One recorded evaluation of one version.

    Attributes:
        model: name of the model.
        version: content id of the version.
        id: digest of `on` and `result`, 64 hex digits.
        created: time when it was first recorded, ISO 8601 in UTC.
        on: description of the rows, such as source, partition and where.
        result: `Evaluation.to_dict`, without its tables if they are very large. See
            `Evaluation.from_dict`.
        provenance: how it was made, such as a run id; not part of `id`.
    """

    folder = "evaluations"
    advice = "remove it, and evaluate again"

    model: str
    version: ContentId
    id: ContentId
    created: Time
    on: Object
    result: Object
    provenance: Object

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return f"{self.model}/{self.folder}/{self.version}/{self.id}.json"

    def brief(self) -> Self:
        """The record without the tables of its result."""
        return replace(self, result=_without_tables(self.result))


def evaluation_record(
    version: ModelVersion,
    evaluation: Evaluated,
    on: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> EvaluationRecord:
    """The record of an evaluation; see `ModelStore.record_evaluation`.

    Raises:
        StoreError: if the evaluation is of another version, or a value is not plain JSON.
    """
    result = plain_json(evaluation.to_dict(), "evaluation")
    if result.get("model_id") != version.id:
        raise StoreError(
            f"the evaluation is of model {str(result.get('model_id'))[:12]}, "
            f"not of {version.short!r}; load that version and evaluate it."
        )
    if len(json.dumps(result)) > _MAX_BYTES:
        result = _without_tables(result)
    rows = plain_json(on, "on")
    return EvaluationRecord(
        model=version.model,
        version=version.id,
        id=json_digest([rows, result]),
        created=timestamp(),
        on=rows,
        result=result,
        provenance=plain_json(provenance, "provenance"),
    )


def _without_tables(result: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if not _is_table(value)}


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(row, dict) for row in value)
