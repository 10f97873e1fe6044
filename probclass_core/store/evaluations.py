"""How well a version did, kept beside it: one small JSON for each set of rows it was measured on.

A record is named by the digest of what was measured and on which rows, so measuring the same again
adds nothing, and two tasks that do so at once write the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from probclass_core.arrow.bundle import plain_json
from probclass_core.errors import StoreError
from probclass_core.store.files import StoreFiles
from probclass_core.store.references import ModelVersion

EVALUATIONS = "evaluations"
_MOST_BYTES = 1_000_000
"""Of an evaluation that is larger, as with hundreds of classes, only the numbers are kept."""


class Evaluated(Protocol):
    """Anything that tells of itself in plain values, as `Evaluation` does."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite or undefined number is null."""


@dataclass(frozen=True)
class EvaluationRecord:
    """One evaluation of one version, as it was recorded.

    Attributes:
        model: name of the model.
        version: content id of the version.
        id: of the record, 64 hex digits: the digest of `on` and `result`.
        created: when it was first recorded, ISO 8601 in UTC.
        on: which rows, such as source, partition and where.
        result: `Evaluation.to_dict`; without its tables where they were very large. See
            `Evaluation.from_dict`.
        provenance: how it came about, such as a run id; no part of `id`.
    """

    model: str
    version: str
    id: str
    created: str
    on: Mapping[str, Any]
    result: Mapping[str, Any]
    provenance: Mapping[str, Any]


def record_evaluation(
    files: StoreFiles,
    version: ModelVersion,
    evaluation: Evaluated,
    on: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> EvaluationRecord:
    """Keep an evaluation beside its version, or find it there; see `ModelStore`.

    Raises:
        StoreError: it is of another version, a value is not plain JSON, or the file system refuses.
    """
    result = plain_json(evaluation.to_dict(), "evaluation")
    if result.get("model_id") != version.id:
        raise StoreError(
            f"the evaluation is of model {str(result.get('model_id'))[:12]}, "
            f"not of '{version.model}@{version.id[:12]}'."
        )
    if len(json.dumps(result)) > _MOST_BYTES:
        result = {key: value for key, value in result.items() if not isinstance(value, list)}
    where = plain_json(on, "on")
    digest = hashlib.sha256(json.dumps([where, result], sort_keys=True).encode()).hexdigest()
    path = _path(version, digest)
    if files.exists(path):
        return _read(files, version, digest)
    record = EvaluationRecord(
        model=version.model,
        version=version.id,
        id=digest,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        on=where,
        result=result,
        provenance=plain_json(provenance, "provenance"),
    )
    files.write(path, (json.dumps(asdict(record), indent=2, allow_nan=False) + "\n").encode())
    return record


def evaluations(files: StoreFiles, version: ModelVersion) -> list[EvaluationRecord]:
    """The recorded evaluations of a version, oldest first.

    Raises:
        StoreError: a record is damaged, or the file system refuses.
    """
    names = files.names(f"{version.model}/{EVALUATIONS}/{version.id}")
    found = [
        _read(files, version, name.removesuffix(".json"))
        for name in names
        if name.endswith(".json")
    ]
    return sorted(found, key=lambda record: (record.created, record.id))


def _read(files: StoreFiles, version: ModelVersion, digest: str) -> EvaluationRecord:
    path = _path(version, digest)
    try:
        values = json.loads(bytes(files.read(path)))
        record = EvaluationRecord(**values)
        kinds = (record.on, record.result, record.provenance)
        if not all(isinstance(each, dict) for each in kinds) or record.version != version.id:
            raise ValueError(path)
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"evaluation {files.uri(path)} is damaged; remove it, and evaluate again."
        ) from error
    return record


def _path(version: ModelVersion, digest: str) -> str:
    return f"{version.model}/{EVALUATIONS}/{version.id}/{digest}.json"
