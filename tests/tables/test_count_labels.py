"""Counts of labels are those of the rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pa_compute
import pytest
from backends import Backend

import probclass_core as pc
from probclass_core.errors import DataError, TableError
from probclass_core.io.selection import LabelCounts, count_labels

LABELS: dict[str, Any] = {
    "text": ["good", None, "bad", None, None, "good"],
    "integers": [1, None, 0, None, None, 1],
    "whole floats": [1.0, None, 0.0, float("nan"), None, 1.0],
    "nulls": pa.nulls(6, pa.string()),
    "dictionary": pa.array(["good", None, "bad", None, None, "good"]).dictionary_encode(),
}

QUERIES: dict[str, dict[str, Any]] = {
    "all": {},
    "partition": {"partition": {"month": "2014-01"}},
    "partitions": {"where": "month >= '2014-02'"},
    "rows": {"where": "x > 1"},
    "expression": {"where": pa_compute.field("x") > 1},
    "labeled": {"where": [("x", "not in", [3.0, 4.0])], "partition": {"month": "2014-02"}},
}


def months(labels: Any) -> pa.Table:
    month = pa.array(["2014-01"] * 3 + ["2014-02"] * 3)
    x = pa.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    return pa.table({"air": labels, "x": x, "month": month})


@pytest.mark.parametrize("labels", LABELS)
def test_counts_are_those_of_the_rows(backend: Backend, labels: str) -> None:
    backend.write("lake", months(LABELS[labels]))
    table = pc.open_table(backend.ref("lake"))
    for query in QUERIES.values():
        batches = list(table.plan(["air"], **query).batches())
        rows = sum(batch.num_rows for batch in batches)
        values = [value for batch in batches for value in batch.column(0).to_pylist()]
        labeled = sum(value is not None and value == value for value in values)
        counts = count_labels(backend.ref("lake"), "air", **query)
        assert (counts.rows, counts.labeled) == (rows, labeled)
        assert counts.share == labeled / rows


def test_what_cannot_be_counted_is_refused(backend: Backend) -> None:
    backend.write("lake", months(LABELS["text"]))
    with pytest.raises(DataError, match=r"no column 'aiir'.*Did you mean 'air'"):
        count_labels(backend.ref("lake"), "aiir")
    with pytest.raises(DataError, match="label 'x' is double"):
        count_labels(months(LABELS["text"]).set_column(1, "x", [[0.5] * 6]), "x")
    with pytest.raises(TableError, match="2015-01"):
        count_labels(backend.ref("lake"), "air", partition={"month": "2015-01"})


def test_rows_in_memory_are_counted() -> None:
    counts = count_labels(months(LABELS["text"]), "air")
    assert counts.to_dict() == {"rows": 6, "labeled": 3, "share": 0.5}
    assert LabelCounts(0, 0).share == 0.0
