"""fit --cache and cache gc: statistics are cached and removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FIT = "fit lake --spec spec.json --name air"


@pytest.fixture
def lake(probclass: Any) -> Path:
    for day in range(1, 5):
        rows = {"x": [1.0 * day, 2.0, 3.0], "air": ["bad", "good", "good"]}
        probclass.table(f"lake/day={day}/rows.parquet", rows)
    probclass.spec("air", gaussian_diagonal=["x"])
    return Path("lake")


def test_fit_caches_statistics_and_reports_how_many_it_reused(probclass: Any, lake: Path) -> None:
    plain = probclass(f"{FIT} --json").json
    assert "cache" not in plain
    first = probclass(f"{FIT} --cache --where 'day <= 3' --json").json
    assert first["cache"] == {"units": 3, "reused": 0}
    again = probclass(f"{FIT} --cache --json").json
    assert again["cache"] == {"units": 4, "reused": 3}
    assert again["model_id"] == plain["model_id"]
    assert "cached 4 of 4 units" in probclass.ok(f"{FIT} --cache").lines
    elsewhere = probclass(f"{FIT} --cache-store elsewhere --json").json
    assert elsewhere["cache"] == {"units": 4, "reused": 0}
    # The pass that derives a spec has statistics of its own.
    probclass.ok("fit lake --label air --name air --cache-store derived")
    assert len([*Path("derived/_statistics").iterdir()]) == 2


def test_gc_removes_old_statistics(probclass: Any, lake: Path) -> None:
    probclass.ok(f"{FIT} --cache")
    (pack,) = Path("models/_statistics").rglob("*.arrow")
    assert probclass("cache gc --older-than 7 --json").json["removed"] == []
    dry_run = probclass("cache gc --older-than 0 --dry-run --json").json
    (removed,) = dry_run["removed"]
    assert (Path(removed["path"]), removed["bytes"]) == (pack.resolve(), pack.stat().st_size)
    assert dry_run["dry_run"]
    assert pack.exists()
    assert probclass.ok("cache gc --older-than 0").out.startswith("Removed 1 files of statistics, ")
    assert not pack.exists()
    assert probclass("models air --json").json["models"][0]["versions"]


def test_a_damaged_cache_is_a_warning_not_an_error(probclass: Any, lake: Path) -> None:
    probclass.ok(f"{FIT} --cache")
    (damaged,) = Path("models/_statistics").rglob("*.arrow")
    damaged.write_bytes(b"")
    result = probclass(f"{FIT} --cache")
    assert result.code == 0
    assert result.err.startswith(f"warning: Statistics are computed again: {damaged.resolve()}")
    assert result.err.count("\n") == 1
