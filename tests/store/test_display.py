"""Records of a store as short text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from probclass_core.store.display import described_rows, minute


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2014-01-31T05:00:59.123456+00:00", "2014-01-31 05:00 UTC"),
        (datetime(2014, 1, 31, 5, 0, 59, tzinfo=UTC), "2014-01-31 05:00 UTC"),
        ("", None),
        (None, None),
    ],
)
def test_a_time_is_shown_to_the_minute(moment: datetime | str | None, shown: str | None) -> None:
    assert minute(moment) == shown


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
