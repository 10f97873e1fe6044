"""Read the rows of a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import probclass_core as pc


def read_rows(source: Any, **query: Any) -> pa.Table:
    """Return the rows that a plan reads; see ``Table.plan`` for the query."""
    plan = pc.open_table(source).plan(**query)
    return pa.Table.from_batches(plan.batches(), plan.schema)
