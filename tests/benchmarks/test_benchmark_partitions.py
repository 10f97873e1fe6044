"""The benchmark of many partitions: every sink is scored once, and is then up to date."""

from __future__ import annotations

from pathlib import Path

from benchmarks.partitions import measure, table


def test_every_sink_is_scored_and_a_second_run_finds_it_up_to_date(tmp_path: Path) -> None:
    measured = measure(tmp_path, partitions=6, rows=20)
    assert list(measured["sinks"]) == ["Parquet", "Delta", "Iceberg"]
    for cost in measured["sinks"].values():
        assert 0.0 < cost["unchanged"] < cost["scored"]
        assert 0.0 < measured["bare"] < cost["scored"]
    lines = table(measured).splitlines()
    assert "6 partitions of 20 rows" in lines[0]
    assert [line.split()[1] for line in lines[4:]] == ["bare", *measured["sinks"]]
