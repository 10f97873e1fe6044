"""Naive Bayes of any table: normals for numbers, frequencies for categories."""

from __future__ import annotations

import pyarrow as pa

import probclass_core as pc
from probclass_core.arrow.types import is_number_type


def naive_spec(schema: pa.Schema, label: str) -> pc.ModelSpec:
    """One block of all numbers and one of all categories."""
    columns = [column for column in schema if column.name != label]
    numbers = [column.name for column in columns if is_number_type(column.type)]
    others = [column.name for column in columns if column.name not in numbers]
    kinds = {"gaussian_diagonal": numbers, "categorical": others}
    return pc.ModelSpec(label, [pc.Block(kind, names) for kind, names in kinds.items() if names])
