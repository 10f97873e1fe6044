"""Records of a store as short text, for the command line and the pages of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from probclass_core.errors import hide_credentials


def minute(moment: datetime | str | None) -> str | None:
    """A time in UTC to the minute, such as ``2014-01-31 05:00 UTC``; None if unknown.

    Args:
        moment: the time, or its ISO 8601 text, in UTC.
    """
    if not moment:
        return None
    return f"{str(moment)[:16].replace('T', ' ')} UTC"


def described_rows(provenance: Mapping[str, Any]) -> str:
    """Source, partition and conditions of the rows that were read, as one would type them.

    Credentials in the source are left out, and so is whatever is not in the recorded form.

    Args:
        provenance: a record with any of the keys ``source``, ``partition`` and ``where``.
    """
    partition, where = provenance.get("partition"), provenance.get("where")
    parts = [hide_credentials(str(provenance.get("source") or ""))]
    if isinstance(partition, Mapping):
        parts += [f"{key}={value}" for key, value in partition.items()]
    if isinstance(where, str):  # a pyarrow expression, which a call from Python may pass
        parts.append(where)
    elif isinstance(where, Sequence):
        parts += [
            " ".join(map(_operand, condition)).replace(" == ", "=")
            for condition in where
            if isinstance(condition, (list, tuple))
        ]
    return ", ".join(filter(None, parts))


def _operand(value: object) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, list) else str(value)
