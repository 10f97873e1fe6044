"""fit --cache, cache ls, cache gc: what is kept, listed and removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import probclass_core as pc

AUTO = ("fit", "lake", "--auto", "--label", "air", "--name", "air")


@pytest.fixture
def lake(probclass: Any) -> Path:
    for day in range(1, 5):
        rows = {"x": [1.0 * day, 2.0, 3.0], "air": ["bad", "good", "good"]}
        probclass.table(f"lake/day={day}/rows.parquet", rows)
    return Path("lake")


def test_fit_keeps_statistics_and_says_how_many_it_reused(probclass: Any, lake: Path) -> None:
    plain = probclass(*AUTO, "--json").json
    assert "cache" not in plain
    first = probclass(*AUTO, "--cache", "--where", "day <= 3", "--json").json
    assert first["cache"] == {"fragments": 3, "reused": 0}
    again = probclass(*AUTO, "--cache", "--json").json
    assert again["cache"] == {"fragments": 4, "reused": 3}
    assert again["model_id"] == plain["model_id"]
    lines = [" ".join(line.split()) for line in probclass.done(*AUTO, "--cache").out.splitlines()]
    assert "cached 4 of 4 fragments" in lines
    elsewhere = probclass(*AUTO, "--cache-store", "kept", "--json").json
    assert elsewhere["cache"] == {"fragments": 4, "reused": 0}
    assert len(pc.StatisticsCache("kept").entries()) == 4


def test_what_is_kept_is_listed_model_by_model(probclass: Any, lake: Path) -> None:
    assert probclass.done("cache", "ls").out.endswith("keeps no statistics.\n")
    assert probclass("cache", "ls", "--store", "none", "--json").json["summaries"] == []
    probclass.done(*AUTO, "--cache")
    (listed,) = probclass("cache", "ls", "--json").json["summaries"]
    assert (listed["label"], listed["estimators"]) == ("air", ["gaussian_diagonal"])
    assert (listed["entries"], listed["rows"], listed["stale"]) == (4, 12, 0)
    (pack,) = Path("models/_statistics").rglob("*.arrow")
    assert 1_000 < listed["bytes"] < pack.stat().st_size
    assert listed["oldest"] <= listed["newest"]
    shown = probclass.done("cache", "ls").out
    assert listed["summary"][:12] in shown
    assert "gaussian_diagonal" in shown
    assert probclass.done("models").out.count("air") == 1


def test_gc_removes_what_no_fit_would_use(probclass: Any, lake: Path) -> None:
    probclass.done(*AUTO, "--cache")
    (damaged,) = Path("models/_statistics").rglob("*.arrow")
    data = bytearray(damaged.read_bytes())
    data[data.rindex(b"scatter")] ^= 1  # a column of the last entry
    damaged.write_bytes(data)
    assert probclass("cache", "ls", "--json").json["summaries"][0]["stale"] == 1
    dry = probclass("cache", "gc", "--dry-run", "--json").json
    assert dry["dry_run"]
    (would,) = dry["removed"]
    assert (len(would["fragment"]), would["stale"]) == (64, "damaged")
    assert damaged.exists()
    shown = probclass.done("cache", "gc", "--older-than", "7").out
    assert shown.startswith("Removed: the statistics of 1 fragments, ")
    assert not damaged.exists()
    assert probclass("cache", "gc", "--json").json["removed"] == []
    assert len(probclass("cache", "gc", "--older-than", "0", "--json").json["removed"]) == 3
    assert probclass("models", "air", "--json").json["models"][0]["versions"]


def test_damage_is_a_warning_and_no_error(probclass: Any, lake: Path) -> None:
    probclass.done(*AUTO, "--cache")
    (damaged,) = Path("models/_statistics").rglob("*.arrow")
    damaged.write_bytes(b"")
    ran = probclass(*AUTO, "--cache")
    assert ran.code == 0
    assert ran.err.startswith(f"warning: Statistics are computed again: {damaged.resolve()}")
    assert ran.err.count("\n") == 1
