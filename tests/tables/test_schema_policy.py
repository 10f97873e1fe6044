"""What happens to a scored table whose source gains, loses or widens columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from backends import FEBRUARY, Backend, appending
from delta_and_iceberg import rows
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import SpecError, TableMismatchError

MARCH = {"month": "2014-03"}


def lands(lake: Path, month: str, **columns: Any) -> None:
    """Write the 40 rows of a month, with columns replaced, added, or removed if they are None."""
    table = rows(month).drop_columns("month")
    for name, values in columns.items():
        if name in table.column_names:
            table = table.drop_columns(name)
        if values is not None:
            table = table.append_column(name, values)
    write_rows(lake / f"month={month}", table)


def column(backend: Backend, name: str) -> dict[str, list[Any]]:
    """Values of a column of the scored table by month."""
    values: dict[str, list[Any]] = {}
    for row in backend.read("scored").select(["month", name]).to_pylist():
        values.setdefault(row["month"], []).append(row[name])
    return values


@appending
@pytest.mark.parametrize("overwrite", ["partition", "append"])
def test_a_column_added_upstream_is_added_once(
    backend: Backend, model: pc.Model, tmp_path: Path, overwrite: str
) -> None:
    lake, sink = tmp_path / "lake", backend.ref("scored")
    lands(lake, "2014-01")
    first = pc.score(model, lake, sink)
    times = pa.array([0] * 40, pa.timestamp("us"))
    lands(lake, "2014-02", site=pa.array(["a", "b"] * 20), at=times)
    report = pc.score(model, lake, sink, partition=FEBRUARY, options={"overwrite": overwrite})
    assert report.changes.added == ("site", "at")
    assert report.to_dict()["added_columns"] == ["site", "at"]
    assert report.warnings == first.warnings == []
    assert column(backend, "site") == {"2014-01": [None] * 40, "2014-02": ["a", "b"] * 20}
    # No file of January has the column, so its rows are what they were.
    again = pc.score(model, lake, sink)
    assert (again.rows, again.counts["unchanged"], again.changes.added) == (80, 2, ())
    assert again.commits[0]["commit_id"] == first.commit_id
    assert pc.score(model, lake, sink).counts["unchanged"] == 2
    lands(lake, "2014-03", site=pa.array(["c"] * 40), at=times)
    later = pc.score(model, lake, sink, partition=MARCH, options={"overwrite": overwrite})
    assert (later.changes.added, later.changes.absent) == ((), ())


def test_contributions_of_a_version_that_knows_other_columns_are_added(
    backend: Backend, tmp_path: Path
) -> None:
    """A column that a version does not know is null; a retrained default may have others."""
    lake, sink = tmp_path / "lake", backend.ref("scored")
    for month in ("2014-01", "2014-02"):
        lands(lake, month, z=pa.array(range(40), pa.float64()))
    options = {"columns": ["x"], "contributions": True, "watch": False}
    for month, name in (("2014-01", "x"), ("2014-02", "z")):
        spec = pc.ModelSpec("y", {"gaussian_diagonal": name})
        report = pc.score(
            pc.fit(lake, spec), lake, sink, partition={"month": month}, options=options
        )
    assert report.changes.added == ("contribution_z", "surprise_z")
    assert report.changes.absent == ("contribution_x", "surprise_x")
    for name, without in (("x", "2014-02"), ("z", "2014-01")):
        for month, numbers in column(backend, f"surprise_{name}").items():
            assert numbers.count(None) == (40 if month == without else 0)


def test_a_column_removed_upstream_is_null_with_a_warning(
    backend: Backend, model: pc.Model, tmp_path: Path
) -> None:
    lands(tmp_path / "first", "2014-01", site=pa.array(["a"] * 40))
    lands(tmp_path / "second", "2014-02")
    pc.score(model, tmp_path / "first", backend.ref("scored"))
    report = pc.score(model, tmp_path / "second", backend.ref("scored"))
    [warning] = report.warnings
    assert warning.startswith("The scored table has 'site', which the rows lack")
    assert report.to_dict()["absent_columns"] == ["site"]
    assert column(backend, "site") == {"2014-01": ["a"] * 40, "2014-02": [None] * 40}


def test_the_same_columns_can_be_required(
    backend: Backend, model: pc.Model, tmp_path: Path
) -> None:
    lands(tmp_path / "first", "2014-01")
    lands(tmp_path / "second", "2014-02", site=pa.array(["a"] * 40))
    pc.score(model, tmp_path / "first", backend.ref("scored"), options={"schema": "same"})
    message = r"has no column 'site'; it has .* Add it with schema='evolve'"
    with pytest.raises(TableMismatchError, match=message) as caught:
        pc.score(model, tmp_path / "second", backend.ref("scored"), options={"schema": "same"})
    assert not caught.value.is_transient
    lands(tmp_path / "again", "2014-01", site=pa.array(["a"] * 40))
    with pytest.raises(TableMismatchError, match=message):  # also if all rows are replaced
        pc.score(model, tmp_path / "again", backend.ref("scored"), options={"schema": "same"})
    assert set(column(backend, "x")) == {"2014-01"}
    with pytest.raises(SpecError, match="schema must be one of"):
        pc.score(model, tmp_path / "first", backend.ref("scored"), options={"schema": "merge"})


def test_columns_that_differ_by_case_only_are_refused(
    backend: Backend, model: pc.Model, tmp_path: Path
) -> None:
    lands(tmp_path / "first", "2014-01", site=pa.array(["a"] * 40))
    lands(tmp_path / "second", "2014-02", Site=pa.array(["a"] * 40))
    pc.score(model, tmp_path / "first", backend.ref("scored"))
    with pytest.raises(TableMismatchError, match="'Site' differs from 'site' of"):
        pc.score(model, tmp_path / "second", backend.ref("scored"))


@pytest.mark.parametrize(
    ("before", "after", "too_wide"),
    [
        (pa.array([7] * 40, pa.int32()), pa.array([2**31 - 1] * 40), pa.array([2**31] * 40)),
        (pa.array([0.5] * 40, pa.float32()), pa.array([0.25, None] * 20), pa.array([0.1] * 40)),
        (pa.array([7] * 40), pa.array([8] * 40, pa.int32()), None),
        (pa.array([0.5] * 40), pa.array([8] * 40), pa.array([2**53 + 1] * 40)),
    ],
    ids=["int32 to int64", "float to double", "int64 to int32", "double to int64"],
)
def test_a_number_of_another_type_is_written_exactly_or_not_at_all(
    backend: Backend,
    model: pc.Model,
    tmp_path: Path,
    before: pa.Array,
    after: pa.Array,
    too_wide: pa.Array | None,
) -> None:
    sink = backend.ref("scored")
    for name, month, values in (("first", "2014-01", before), ("second", "2014-02", after)):
        lands(tmp_path / name, month, n=values)
        pc.score(model, tmp_path / name, sink)
    assert column(backend, "n") == {"2014-01": before.to_pylist(), "2014-02": after.to_pylist()}
    if backend.typed:
        assert pc.open_table(sink).schema.field("n").type == before.type
    if backend.typed and too_wide is not None:
        lands(tmp_path / "third", "2014-03", n=too_wide)
        with pytest.raises(TableMismatchError, match=r"column 'n' is .* and a value does not"):
            pc.score(model, tmp_path / "third", sink)
        assert set(column(backend, "n")) == {"2014-01", "2014-02"}


def test_a_new_class_needs_another_table_or_a_list(backend: Backend, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lands(lake, "2014-01", y=pa.array(["a", "b"] * 20))
    lands(lake, "2014-02", y=pa.array(["a", "b", "c", "b"] * 10))
    spec = pc.ModelSpec("y", {"gaussian_diagonal": "x"})
    for posterior in ("columns", "list"):
        options = {"columns": ["x"], "posterior": posterior, "watch": False}
        sink = backend.ref(posterior)
        pc.score(pc.fit(lake, spec, partition={"month": "2014-01"}), lake, sink, options=options)
        later = pc.fit(lake, spec)
        if posterior == "columns":
            with pytest.raises(TableMismatchError, match=r"no column 'p_c'; .* posterior='list'"):
                pc.score(later, lake, sink, partition=FEBRUARY, options=options)
        else:
            pc.score(later, lake, sink, partition=FEBRUARY, options=options)
            read = backend.read(posterior)
            assert sorted({len(one) for one in read["posterior"].to_pylist()}) == [2, 3]
