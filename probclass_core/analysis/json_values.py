"""Results as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def json_values(value: Any) -> Any:
    """A result as plain JSON values.

    Tables become lists of rows; an infinite or undefined number, which JSON lacks, becomes null.
    """
    if isinstance(value, pa.Table):
        value = value.to_pylist()
    if isinstance(value, Mapping):
        return {str(key): json_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_values(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
