"""Records of a store as short text."""

from __future__ import annotations

from typing import Any

import pytest

from probclass_core.store.display import described_rows, minute


def test_a_time_is_shown_to_the_minute() -> None:
    assert minute("2014-01-31T05:00:59.123456+00:00") == "2014-01-31 05:00 UTC"
    assert minute("") is minute(None) is None


@pytest.mark.parametrize(
    ("provenance", "shown"),
    [
        ({}, ""),
        ({"source": None, "partition": None, "where": None}, ""),
        ({"source": "s3://k:s@b/air", "rows": 12}, "s3://***@b/air"),
        (
            {"source": "lake", "partition": {"year": 2014, "month": "01"}},
            "lake, year=2014, month=01",
        ),
        (
            {"source": "lake", "where": [["month", "<", "2014-01"], ["year", "in", [2013, 2014]]]},
            "lake, month < 2014-01, year in (2013, 2014)",
        ),
        ({"where": "(month < 2014)"}, "(month < 2014)"),
        ({"source": "lake", "partition": 3, "where": 4}, "lake"),
    ],
)
def test_the_rows_that_were_read_are_described(provenance: dict[str, Any], shown: str) -> None:
    assert described_rows(provenance) == shown
