"""Memory does not grow with partitions or rows, and changed files are not scored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lakes import digests, write_rows
from monthly_lake import model, rows_of, write_lake
from python_processes import output_of_python

import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.scoring import plan as scoring_plan

COLUMNS = 150
"""Number of columns that makes the footer of a file take about 400 kB of memory."""
SOME, MANY = 50, 150

PEAKS = """
import json, sys
import probclass_core as pc
from benchmarks.worker import peak_megabytes

work, lake, sink = sys.argv[1:4]
some, many = map(int, sys.argv[4:])
spec = pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["x0"])])
model = pc.fit(lake, spec, partition={"part": 0})
peaks = []
for count in (some, some, many):
    where = [("part", "<", count)]
    if work == "train":
        assert pc.fit(lake, spec, where=where).training["rows"] == 4 * count
    else:
        report = pc.score(model, lake, f"{sink}-{len(peaks)}", where=where, options={"columns": []})
        assert len(report.partitions) == count
    peaks.append(peak_megabytes())
print(json.dumps(peaks))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("work", ["train", "score"])
def test_memory_does_not_grow_with_the_number_of_partitions(work: str, tmp_path: Path) -> None:
    rows = {f"x{number}": np.arange(4.0) for number in range(COLUMNS)}
    table = pa.table({**rows, "label": ["a", "b", "a", "b"]})
    for number in range(MANY):
        write_rows(tmp_path / "lake" / f"part={number}", table)
    arguments = [work, tmp_path / "lake", tmp_path / "sink", SOME, MANY]
    _, before, after = json.loads(output_of_python("-c", PEAKS, *arguments))
    # Footers kept in memory would take at least 0.3 MB for each partition.
    assert after - before < 0.2 * (MANY - SOME)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of three partitions; a scoring keeps the plan of the first one only."""
    monkeypatch.setattr(scoring_plan, "_PLANS_KEPT", 1)
    return write_lake(tmp_path / "lake", "2014-01", "2014-02", "2014-03")


def test_repeated_plans_give_the_same_bytes(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int | None]] = []
    pc.score(model(), lake, tmp_path / "repeated", progress=lambda *rows: calls.append(rows))
    assert {total for _, total in calls} == {141}, "known from the start"
    monkeypatch.undo()
    pc.score(model(), lake, tmp_path / "kept")
    assert digests(tmp_path / "repeated") == digests(tmp_path / "kept")


def test_a_partition_whose_files_change_after_the_plan_is_not_scored(
    lake: Path, tmp_path: Path
) -> None:
    sink = tmp_path / "scored"

    def change_files(done: int, total: int | None) -> None:
        if not sink.exists():
            write_rows(lake / "month=2014-02", rows_of(7), rows_of(8, rows=7))

    with pytest.raises(TableError, match=r"files of partition {'month': '2014-02'} changed while"):
        pc.score(model(), lake, sink, progress=change_files)
    assert sorted(path.name for path in sink.iterdir()) == ["month=2014-01", "month=2014-03"]
    again = pc.score(model(), lake, sink)
    assert (again.rows, again.counts["unchanged"]) == (141, 2)


RUN = Path(__file__).parent / "memory_of_a_run.py"
TWO_ROW_GROUPS = 2_000_000
"""Rows from which scoring writes one full row group while it fills the next. With fewer rows, the
memory of scoring grows with them."""


@pytest.mark.parametrize(
    ("command", "rows", "factor"),
    [
        ("fit", 200_000, 15),
        pytest.param("bins", 1_000_000, 4, marks=pytest.mark.nightly),
        pytest.param("score", TWO_ROW_GROUPS, 4, marks=pytest.mark.nightly),
    ],
)
def test_peak_memory_does_not_grow_with_the_rows(
    tmp_path: Path, command: str, rows: int, factor: int
) -> None:
    sizes = rows, factor * rows
    peaks = [float(output_of_python(RUN, command, size, tmp_path / str(size))) for size in sizes]
    # Two runs on the same rows differ by up to 15 %; columns that are kept would add far more.
    assert peaks[1] < 1.2 * peaks[0], peaks
