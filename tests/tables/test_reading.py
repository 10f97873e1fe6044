"""Reading: files, directories, Hive partitions, filters, and tables in memory."""

from __future__ import annotations

import datetime
import os
import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lakes import write_rows
from model_values import digest_of
from monthly_lake import SPEC, rows_of, write_lake
from refusals import refused

import probclass_core as pc
from probclass_core.errors import DataError, SpecError, TableError
from probclass_core.estimation.statistics import Statistics
from probclass_core.io.filters import partition_text
from probclass_core.io.open import open_table

COUNT = pc.ModelSpec("air", [pc.Block("gaussian_diagonal", ["id"])])


def rows_read(source: Any, **selection: Any) -> int:
    """Return the number of rows that a fit would read."""
    rows: int = pc.summarize(source, COUNT, **selection).classes["rows"].to_numpy().sum()
    return rows


def partitioned(root: Path, **columns: Sequence[Any]) -> Path:
    """Write rows with ids 0, 1, 2, … as a table that is Hive-partitioned by these columns."""
    size = len(next(iter(columns.values())))
    table = pa.table({"id": range(size), "air": ["good", "bad"] * (size // 2), **columns})
    pq.write_to_dataset(table, root, partition_cols=list(columns))
    return root


def stored(table: pa.Table, kind: str, folder: Path) -> Any:
    """Return the same rows in partitions by year, in files, in memory, or as a reader."""
    if kind == "partitions":
        return partitioned(folder / "lake", year=table["year"].to_pylist())
    if kind == "files":
        return write_rows(folder / "rows", table[:3], table[3:])
    if kind == "reader":
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
    return table


COLUMNS = {
    "number": [1.5, None, -0.0, 1e300],
    "text": ["a", None, "", "é"],
    "codes": pa.array(["u", "v", None, "u"]).dictionary_encode(),
    "list": [["x", "y"], [], None, [None]],
    "struct": [{"part": 1}, {"part": 2}, None, {"part": None}],
    "time": pa.array([0, 1, None, 3], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal("1.25"), None, Decimal("0.01"), Decimal("7")]),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.dictionaries(
        st.sampled_from(["x", "x.part", "x.part.y", "part", "x y", "é"]),
        st.sampled_from(sorted(COLUMNS)),
        min_size=1,
    ),
    repeats=st.integers(0, 50),
    row_group=st.integers(1, 100),
    page=st.sampled_from([10, 10_000]),
    data=st.data(),
)
def test_a_file_is_read_as_pyarrow_reads_it(
    tmp_path: Path,
    kinds: dict[str, str],
    repeats: int,
    row_group: int,
    page: int,
    data: st.DataObject,
) -> None:
    """Whatever its types, row groups, pages and names, which may look like parts of others."""
    rows = pa.table({name: COLUMNS[kind] for name, kind in kinds.items()})
    rows = pa.concat_tables([rows.slice(0, 0), *[rows] * repeats])
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=row_group, data_page_size=page)
    columns = data.draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, unique=True))
    plan = open_table(tmp_path / "t.parquet").plan(columns, allow_dictionaries=True)
    batches = (batch for unit in plan.units for batch in unit.read())
    found = [row for batch in batches for row in batch.to_pylist()]
    assert found == rows.select(columns).to_pylist()


def test_rows_that_arrow_does_not_find_are_an_error(tmp_path: Path) -> None:
    """Arrow ends at an empty page of a list, as if it were the last one."""
    rows = pa.table({"x": [["a", "b"], [], None]})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=1, data_page_size=1)
    (unit,) = open_table(tmp_path / "t.parquet").plan().units
    with pytest.raises(TableError, match="pages have 0 rows, but its footer says 3"):
        list(unit.read())


def test_file_directory_uri_and_dataset_give_the_same_model(tmp_path: Path) -> None:
    one, two = rows_of(1), rows_of(2)
    folder = write_rows(tmp_path / "rows", one, two)
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.concat_tables([one, two]), file)
    ds.write_dataset(pa.concat_tables([one, two]), tmp_path / "ipc", format="ipc")
    sources = (
        *(folder, str(folder), f"file://{folder}", os.path.relpath(folder)),
        *(file, str(file), f"file://{file}"),
        *(ds.dataset(folder), ds.dataset(file), ds.dataset(pa.concat_tables([one, two]))),
        ds.dataset(tmp_path / "ipc", format="ipc"),
    )
    ids = {pc.fit(source, COUNT).id for source in (folder, str(folder), f"file://{folder}")}
    assert len(ids) == 1
    for source in sources:
        fitted = pc.fit(source, SPEC)
        assert fitted.training["rows"] == 80
        np.testing.assert_allclose(
            fitted.predict_proba(one), pc.fit(folder, SPEC).predict_proba(one), rtol=1e-9
        )


def test_hidden_files_are_not_data(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", "2014-01", "2014-02")
    for stray in ("_staging-1/part-0.parquet", "month=2014-01/_part.parquet", ".hidden/a.parquet"):
        (lake / stray).parent.mkdir(exist_ok=True)
        pq.write_table(rows_of(9), lake / stray)
    (lake / "month=2014-02" / "_SUCCESS").touch()
    assert rows_read(lake) == 2 * 47


def test_only_the_partition_is_read(tmp_path: Path) -> None:
    lake = write_lake(tmp_path, "2014-01", "2014-02", "2014-03")
    february = pc.summarize(lake, COUNT, partition={"month": "2014-02"})
    assert february.rows == 47
    assert digest_of(february) == digest_of(pc.summarize(lake / "month=2014-02", COUNT))
    # The files of other months are not opened, so a damaged file there does not matter.
    (lake / "month=2014-03" / "0.parquet").write_bytes(b"PAR1 is not enough")
    assert rows_read(lake, partition={"month": "2014-02"}) == 47
    with pytest.raises(TableError, match=r"cannot read .*2014-03/0\.parquet"):
        rows_read(lake)


def test_partition_values_may_be_text_or_typed(tmp_path: Path) -> None:
    years, months = [2013] * 4 + [2014] * 8, ["01", "12"] * 6
    lake = partitioned(tmp_path, year=years, month=months)
    assert sorted(path.name for path in (lake / "year=2013").iterdir()) == ["month=01", "month=12"]
    for month in (1, "1", "01"):
        for year in (2014, "2014"):
            assert rows_read(lake, partition={"year": year, "month": month}) == 4
            assert rows_read(lake, partition={"month": month, "year": year}) == 4
    assert rows_read(lake, partition={"month": "12"}) == 6
    assert rows_read(lake, partition={"year": "2013"}) == 4


def test_partition_values_with_special_characters(tmp_path: Path) -> None:
    values = ["a/b", "50%", "a=b", "ü ñ", "x y", "a:b?c*", "2014-01", "true"]
    lake = partitioned(tmp_path, place=[*values, *values, "else", "else"])
    for value in values:
        assert rows_read(lake, partition={"place": value}) == 2
        assert rows_read(lake, where=[("place", "!=", value)]) == 16


def test_null_partition_value(tmp_path: Path) -> None:
    lake = partitioned(tmp_path, year=[2013, 2013, 2014, None, None, None])
    assert (lake / "year=__HIVE_DEFAULT_PARTITION__").is_dir()
    assert rows_read(lake, partition={"year": None}) == 3
    text = "__HIVE_DEFAULT_PARTITION__"
    assert partition_text({"year": None}) == f"year={text}"
    assert rows_read(lake, partition={"year": text}) == 3
    assert rows_read(lake, where=[("year", "==", None)]) == 3
    assert rows_read(lake, where=[("year", "!=", None)]) == 3
    assert rows_read(lake, where=[("year", "!=", None), ("year", ">", "2013")]) == 1


@pytest.mark.parametrize("integer", [pa.int8(), pa.int32(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize("digits", [10, 38])
def test_files_with_integers_and_with_decimals(
    tmp_path: Path, integer: pa.DataType, digits: int
) -> None:
    prices = pa.table({"price": pa.array([Decimal("0.25")], pa.decimal128(digits, 2))})
    integers = pa.table({"price": pa.array([100], integer)})
    for number, tables in enumerate([(prices, integers), (integers, prices)]):
        plan = open_table(write_rows(tmp_path / str(number), *tables)).plan()
        read = pa.Table.from_batches(plan.batches(10), plan.schema)
        assert sorted(read["price"].to_pylist()) == [Decimal("0.25"), 100]


def test_the_size_of_row_groups_changes_no_model(tmp_path: Path) -> None:
    """Small ones are read together."""
    noise = np.random.default_rng(0)
    label = noise.choice(["p", "q"], 2_000)
    words = pa.array([f"{one} {number % 7}" for number, one in enumerate(label)])
    rows = pa.table({"x": noise.normal(size=2_000), "u": words, "y": label})
    blocks = [pc.Block("gaussian_diagonal", ["x"]), pc.Block("categorical", ["u"])]
    ids = set()
    for size in (7, 100, 2_000):
        pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=size)
        for where in (None, ("u", "!=", "p 2")):
            model = pc.fit(tmp_path / "rows.parquet", pc.ModelSpec("y", blocks), where=where)
            ids.add((where, model.id))
    assert len(ids) == 2


FILTERS = [
    ("==", "2014"),
    ("=", 2014),
    ("!=", "2014"),
    ("!=", 2013),
    ("<", "2014"),
    ("<=", "2014"),
    (">", 2013),
    (">=", "2014"),
    ("in", ["2013", "2015"]),
    ("in", (2014,)),
    ("in", []),
    ("not in", ["2013", 2015]),
]


def sql(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"({', '.join(map(sql, value)) or 'null'})"
    return str(value)


@pytest.mark.parametrize(("operator", "value"), FILTERS)
@pytest.mark.parametrize("kind", ["partitions", "files", "memory", "reader"])
def test_a_filter_matches_as_in_sql(tmp_path: Path, operator: str, value: Any, kind: str) -> None:
    """Its values may be text for any type, and null matches no comparison."""
    years = [2013, 2013, 2014, None, None, 2015]
    table = pa.table({"id": range(6), "air": ["good", "bad"] * 3, "year": years})
    with duckdb.connect() as connection:
        connection.register("years", table)
        query = f"select count(*) from years where year {operator} {sql(value)}"
        [(rows,)] = connection.sql(query).fetchall()
    source = stored(table, kind, tmp_path)
    where = [("year", operator, value)]
    if rows or kind in ("files", "reader"):
        assert rows_read(source, where=where) == rows
    else:
        with pytest.raises(TableError, match="year"):
            rows_read(source, where=where)


def test_filters_on_times_numbers_text_and_dictionaries(tmp_path: Path) -> None:
    days = [datetime.datetime(2014, 1, day) for day in range(1, 7)]
    table = pa.table(
        {
            "id": range(6),
            "air": ["good", "bad"] * 3,
            "at": pa.array(days, pa.timestamp("us")),
            "day": pa.array([day.date() for day in days]),
            "score": [0.5, 1.5, 2.5, 3.5, None, 5.5],
            "wind": pa.array(["N", "S", None, "N", "S", "N"]).dictionary_encode(),
        }
    )
    folder = write_rows(tmp_path, table)
    filters: list[tuple[Any, int]] = [
        ([("at", ">=", "2014-01-03"), ("at", "<", "2014-01-05")], 2),
        ([("at", "<", "2014-01-02 12:00:00")], 2),
        ([("day", "<=", "2014-01-02")], 2),
        ([("score", ">", "2")], 3),
        ([("score", "==", None)], 1),
        ([("wind", "==", "N")], 3),
        ([("wind", "in", ["S"])], 2),
        ([("wind", "==", "N"), ("score", "<", 5)], 2),
        (ds.field("id") > 3, 2),
    ]
    for where, rows in filters:
        assert rows_read(table, where=where) == rows_read(folder, where=where) == rows


TEXTS = [
    "year >= 2014",
    " year>='2014' AND air in (good, bad, 'x and y') ",
    ["year >= 2014", ("air", "!=", "missing")],
    [("air", "in", ["good", "bad"]), ("year", "in", [2014, 2015]), "air != missing"],
    ("year", ">=", 2014),
]


@pytest.mark.parametrize("where", TEXTS)
def test_conditions_can_be_written_as_text(tmp_path: Path, where: Any) -> None:
    lake = partitioned(tmp_path, year=[2013, 2013, 2014, 2014])
    table = pa.table({"id": [1, 2, 3], "air": ["good"] * 3, "year": [2013, 2014, 2015]})
    assert rows_read(lake, where=where) == rows_read(table, where=where) == 2


def test_and_in_quotes_is_part_of_a_value() -> None:
    table = pa.table({"id": [1, 2], "air": ["salt and pepper", "o'clock and a = b"]})
    assert rows_read(table, where="air = 'salt and pepper' and id < 2") == 1
    with refused(SpecError, "write COLUMN OP VALUE .*quote a value that contains the word and"):
        rows_read(table, where="air = salt and pepper")
    assert rows_read(table, where='air = "o\'clock and a = b"') == 1


BAD_FILTERS: list[tuple[Any, str]] = [
    ([("year", "~", 2014)], r"op one of '!=', '<', '<='"),
    ("year over 2014", "where 'year over 2014': write COLUMN OP VALUE"),
    ("year > 2014 or id = 1", "conditions are joined by and, not by or"),
    ("year > 2014 and id = one", "'one' cannot be compared with int"),
    (2014, "where must be text .* or a list"),
    ([("year", "in", ["last"])], "'last' cannot be compared with int"),
    ([("year", "in", "2014")], "'in' needs a list of values"),
    ([("year", "<", None)], "null has no order"),
]


@pytest.mark.parametrize(("where", "message"), BAD_FILTERS)
def test_malformed_filters_are_rejected(tmp_path: Path, where: Any, message: str) -> None:
    lake = partitioned(tmp_path, year=[2013, 2014])
    for source in (lake, pa.table({"id": [1], "air": ["good"], "year": [2013]})):
        with refused(SpecError, message):
            rows_read(source, where=where)


def test_filter_on_an_unknown_column_is_rejected(tmp_path: Path) -> None:
    lake = write_lake(tmp_path, "2014-01")
    message = r"conditions name column 'year'; the table has .*'month'"
    for selection in ({"where": [("year", "==", 1)]}, {"partition": {"year": 1}}):
        with pytest.raises(TableError, match=message):
            rows_read(lake, **selection)
    with pytest.raises(SpecError, match="partition must be a table such as"):
        rows_read(lake, partition="month=2014-01")


def test_files_of_different_types_are_read_as_their_common_type(tmp_path: Path) -> None:
    """A dataset would use the types of the first file, whose integers cannot hold floats."""
    labels = ["good", "bad"]
    folder = write_rows(
        tmp_path,
        pa.table({"air": pa.nulls(2), "id": pa.array([1, 2], pa.int32())}),
        pa.table({"air": labels, "id": [0.5, 1.5]}),
        pa.table({"air": pa.array(labels).dictionary_encode(), "id": pa.nulls(2)}),
        pa.table({"more": [1, 2], "air": labels, "id": pa.array([3, 4], pa.uint8())}),
    )
    model = pc.fit(folder, COUNT)
    assert model.training["null_labels"] == 2
    assert model.parameters["gaussian_diagonal"]["mean"].to_pylist() == [2.75, 1.75]


@pytest.mark.parametrize("first", [0, 1])
def test_files_without_a_common_type_are_rejected(tmp_path: Path, first: int) -> None:
    parts = [
        pa.table({"air": ["good", "bad"], "id": [1, 2]}),
        pa.table({"air": [0, 1], "id": [1, 2]}),
    ]
    null = pa.table({"air": pa.nulls(2), "id": [1, 2]})
    folder = write_rows(tmp_path, null, *parts[first:], *parts[:first])
    kinds = [r"string in \S*\d\.parquet", r"int64 in \S*\d\.parquet"]
    expected = " and ".join(kinds[first:] + kinds[:first])
    with pytest.raises(DataError, match=rf"column 'air' is {expected}; cast it to one type"):
        pc.fit(folder, COUNT)


def test_statistics_of_different_types_are_merged_or_rejected() -> None:
    def summarize(**columns: Any) -> Statistics:
        return pc.summarize(pa.table(columns), COUNT)

    integers = summarize(air=["good", "bad"], id=[1, 2])
    floats = summarize(air=["good", "bad"], id=[0.5, 1.5])
    nulls = summarize(air=pa.array([None], pa.string()), id=pa.nulls(1))
    merged = pc.merge([integers, nulls, floats])
    assert merged.features.field("id").type == pa.float64()
    with pytest.raises(DataError, match="label 'air' is int64 and string in different parts"):
        pc.merge([integers, summarize(air=[0, 1], id=[1, 2])])
    with pytest.raises(DataError, match="column 'id' is int64 in one part and bool in another"):
        pc.merge([integers, summarize(air=["good", "bad"], id=[True, False])])


UNREADABLE = {
    "nothing": (lambda path: None, "does not exist"),
    "an empty directory": (lambda path: path.mkdir(), "has no Parquet files"),
    "text": (lambda path: path.write_text("a,b\n1,2\n"), "cannot read"),
    "a truncated file": (lambda path: path.write_bytes(b"PAR1" + bytes(99)), "cannot read"),
    "a file next to the rows": (
        lambda path: (write_rows(path, rows_of(1)) / "README.md").write_text("about these rows"),
        r"cannot read .*/README\.md: it is not a Parquet file",
    ),
    "a directory of text": (
        lambda path: (path.mkdir(), (path / "a.txt").write_text("a,b")),
        "it is not a Parquet file, .* write it again, name the format of a text file",
    ),
}


@pytest.mark.parametrize("kind", sorted(UNREADABLE))
def test_source_without_a_table_is_rejected(tmp_path: Path, kind: str) -> None:
    make, message = UNREADABLE[kind]
    make(tmp_path / "source")
    with pytest.raises(TableError, match=message) as caught:
        pc.fit(tmp_path / "source", SPEC)
    assert str(tmp_path / "source") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_source_is_rejected() -> None:
    with pytest.raises(TableError, match=r"cannot open sea://bucket/lake: Protocol not known"):
        pc.fit("sea://bucket/lake", SPEC)
    with pytest.raises(DataError, match="cannot read int as a table"):
        pc.fit(5, SPEC)


def test_a_reader_can_be_read_once() -> None:
    table = rows_of(1)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))
    assert pc.fit(reader, SPEC).training["rows"] == 40
    with pytest.raises(DataError, match="nothing to train on"):
        pc.fit(reader, SPEC)


def test_a_database_cursor_is_read_in_its_own_thread(tmp_path: Path) -> None:
    database = sqlite3.connect(":memory:")  # it can only be used in this thread
    database.execute("CREATE TABLE rows (id INTEGER, air TEXT)")
    rows = [(number, ("good", "bad")[number % 2]) for number in range(50)]
    database.executemany("INSERT INTO rows VALUES (?, ?)", rows)
    schema = pa.schema([("id", pa.int64()), ("air", pa.string())])

    def reader() -> pa.RecordBatchReader:
        cursor = database.execute("SELECT id, air FROM rows ORDER BY id")
        chunks = (zip(*rows, strict=True) for rows in iter(lambda: cursor.fetchmany(20), []))
        return pa.RecordBatchReader.from_batches(
            schema, (pa.record_batch([*map(pa.array, columns)], schema) for columns in chunks)
        )

    model = pc.fit(reader(), COUNT)
    assert model.training["rows"] == 50
    assert pc.evaluate(model, reader()).rows == 50
    assert pc.score(model, reader(), tmp_path / "scored.parquet").rows == 50
    database.close()


@pytest.mark.parametrize("columns", [1, 20, 500])
def test_batches_are_at_most_32_mb(tmp_path: Path, columns: int) -> None:
    size = 1_200_000 // columns
    values = np.arange(size, dtype=float)
    path = write_rows(tmp_path / "wide", pa.table({f"x{j}": values for j in range(columns)}))
    for source in (path, ds.dataset(path).to_table()):
        batches = list(pc.open_table(source).plan().batches())
        assert sum(batch.num_rows for batch in batches) == size
        assert max(batch.nbytes for batch in batches) <= 2**25


def test_batches_for_many_classes_have_few_rows() -> None:
    size, classes = 6_000, 1_500
    table = pa.table({"c": [f"{row % classes}" for row in range(size)], "x": np.arange(size) % 7.0})
    spec = pc.ModelSpec("c", {"gaussian_diagonal": "x"}, max_classes=classes)
    fitted = pc.fit(table, spec)
    plan = pc.open_table(table).plan(["x"])
    sizes = [batch.num_rows for batch in plan.batches(fitted.batch_rows)]
    assert sum(sizes) == size
    assert max(sizes) * classes * 8 <= 2**25
    assert len(fitted.predict(table)) == size


def test_a_damaged_file_among_many_small_ones_is_named(tmp_path: Path) -> None:
    """Small files are read together, but an error is about one of them."""
    for number in range(80):
        text = pa.array([b"a", b"\xff" if number == 37 else b"b"] * 5)
        values = pa.StringArray.from_buffers(len(text), *text.buffers()[1:])
        table = pa.table({"label": ["x", "y"] * 5, "t": values})
        pq.write_table(table, tmp_path / f"{number:03d}.parquet")
    spec = pc.ModelSpec("label", [pc.Block("categorical", ["t"])])
    with pytest.raises(TableError, match=r"cannot read column 't' of .*037\.parquet"):
        pc.fit(tmp_path, spec)


def test_an_index_outside_its_dictionary_is_an_error(tmp_path: Path) -> None:
    """Arrow writes and reads it without an error."""
    values, indices = pa.array(["a", "b", "c"]), pa.array([0, 1, 2, 3], pa.int32())
    text = pa.DictionaryArray.from_arrays(indices, values, safe=False)
    table = pa.table({"label": ["x", "y", "x", "y"], "t": text})
    pq.write_table(table, tmp_path / "rows.parquet", write_statistics=False)
    with pytest.raises(TableError, match=r"column 't' of \S+: index 3 is not in its dictionary"):
        pc.fit(tmp_path, pc.ModelSpec("label", [pc.Block("categorical", ["t"])]))
