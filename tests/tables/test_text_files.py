"""CSV and JSON lines as sources: the same rows as from memory, and errors that name the place."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import pickle
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import read_rows
from refusals import refused

import probclass_core as pc
from probclass_core.errors import DataError, TableError
from probclass_core.io.text.table import TextRows

SPEC = pc.ModelSpec("payment", {"gaussian_diagonal": ["fare"], "categorical": ["zone", "night"]})


def trips(rows: int = 60, seed: int = 0) -> pa.Table:
    """Return trips with nulls in numbers and text; fares depend on the label."""
    noise = np.random.default_rng(seed)
    cash = noise.random(rows) < 0.5
    return pa.table(
        {
            "id": 1000 * seed + np.arange(rows),
            "fare": pa.array(
                noise.normal(20.0 - 5.0 * cash).round(2), mask=noise.random(rows) < 0.1
            ),
            "zone": pa.array(
                noise.choice(["NA", "north", 'the "old"\ntown, west'], rows),
                mask=noise.random(rows) < 0.1,
            ),
            "night": noise.random(rows) < 0.5,
            "day": [date(2024, 1, 1 + number % 28) for number in range(rows)],
            "pickup": pa.array(
                [datetime(2024, 1, 1, 8, number % 60) for number in range(rows)],
                pa.timestamp("us"),
            ),
            "payment": np.where(cash, "cash", "card"),
        }
    )


def as_csv(table: pa.Table, delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        writer.writerow([str(v).lower() if isinstance(v, bool) else v for v in row.values()])
    return text.getvalue()


def as_json_lines(table: pa.Table) -> str:
    return "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist())


def write(path: Path, content: str | bytes) -> Path:
    """Write a file, compressed if its name says so."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def in_two_files(root: Path, pattern: str) -> list[Path]:
    return [
        write(root / pattern.format(number), as_csv(trips().slice(30 * number, 30)))
        for number in range(2)
    ]


SOURCES: dict[str, Callable[[Path], Any]] = {
    "a CSV file": lambda root: write(root / "trips.csv", as_csv(trips())),
    "a compressed CSV file": lambda root: write(root / "trips.csv.gz", as_csv(trips())),
    "tabs": lambda root: write(root / "trips.tsv", as_csv(trips(), "\t")),
    "JSON lines": lambda root: write(root / "trips.jsonl", as_json_lines(trips())),
    "compressed JSON lines": lambda root: write(root / "trips.jsonl.gz", as_json_lines(trips())),
    "a directory": lambda root: in_two_files(root, "{}.csv") and root,
    "a pattern": lambda root: in_two_files(root, "trips-{}.csv") and str(root / "trips-*.csv"),
    "a pattern of directories": lambda root: (
        in_two_files(root, "2024/{}/part.csv") and str(root / "**" / "*.csv")
    ),
    "a named format": lambda root: pc.TableRef(
        str(write(root / "trips.txt", as_csv(trips(), ";"))),
        format="csv",
        options={"delimiter": ";"},
    ),
    "a query": lambda root: (
        f"csv+file://{write(root / 'trips.txt', as_csv(trips(), ';'))}?delimiter=;&types=id:int64"
    ),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_text_is_read_as_the_rows_that_were_written(tmp_path: Path, kind: str) -> None:
    expected = trips()
    if "JSON" in kind:  # a column of dates at midnight
        assert read_rows(SOURCES[kind](tmp_path)).schema.field("day").type == pa.date32()
    assert read_rows(SOURCES[kind](tmp_path)).equals(expected)


def test_a_path_fits_evaluates_explains_and_scores_as_the_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(write(tmp_path / "trips.csv", as_csv(trips())))
    model = pc.fit(trips(), SPEC)
    with caplog.at_level(logging.INFO):
        assert pc.fit(path, SPEC).id == model.id
    assert "trips.csv: id int64, fare double, zone string, night bool, day date32" in caplog.text
    assert pc.ModelSpec.auto(path, "payment") == pc.ModelSpec.auto(trips(), "payment")
    assert pc.evaluate(model, path).log_loss == pc.evaluate(model, trips()).log_loss
    assert pc.explain(model, path).table.equals(pc.explain(model, trips()).table)
    report = pc.score(model, path, tmp_path / "scored.parquet")
    assert (report.rows, report.counts["unchanged"]) == (60, 0)
    assert (tmp_path / "scored.parquet").is_file()
    scored = pq.read_table(tmp_path / "scored.parquet")
    assert scored["id"].to_pylist() == trips()["id"].to_pylist()
    assert scored["prediction"].to_pylist() == model.predict(trips()).to_pylist()
    assert pc.score(model, path, tmp_path / "scored.parquet").counts["unchanged"] == 1
    write(Path(path), as_csv(trips(50)))
    again = pc.score(model, path, tmp_path / "scored.parquet")
    assert (again.rows, again.counts["unchanged"]) == (50, 0)


def test_a_csv_file_with_the_index_of_pandas_is_read(tmp_path: Path) -> None:
    path = tmp_path / "indexed.csv"
    trips().to_pandas().to_csv(path)
    rows = read_rows(path)
    assert rows.column_names == ["", *trips().column_names]
    assert rows[""].to_pylist() == [*range(trips().num_rows)]


def test_partitions_of_directories_are_columns(tmp_path: Path) -> None:
    for month in (1, 2):
        write(tmp_path / f"month={month}" / "part.csv", as_csv(trips(seed=month)))
    table = pc.open_table(tmp_path)
    assert list(table.partitions()) == [{"month": 1}, {"month": 2}]
    first = read_rows(tmp_path, columns=["month", "id"], partition={"month": 1})
    assert first["id"].to_pylist() == trips(seed=1)["id"].to_pylist()
    assert set(first["month"].to_pylist()) == {1}
    late = read_rows(tmp_path, columns=["month"], where=[("id", ">=", 2058), ("night", "==", True)])
    nights = trips(seed=2).slice(58)["night"].to_pylist()
    assert late["month"].to_pylist() == [2] * sum(nights)
    report = pc.score(pc.fit(tmp_path, SPEC), tmp_path, tmp_path.with_name("scored"))
    assert [one.partition for one in report.scored] == [{"month": 1}, {"month": 2}]


def test_statistics_of_unchanged_files_are_reused(tmp_path: Path) -> None:
    lake, store = tmp_path / "lake", pc.ModelStore(tmp_path / "models")
    in_two_files(lake, "{}.csv")
    model = pc.fit(lake, SPEC, cache=store)
    assert model.training["cache"] == {"units": 2, "reused": 0}
    write(lake / "2.csv", as_csv(trips(seed=3)))
    again = pc.fit(lake, SPEC, cache=store)
    assert again.training["cache"] == {"units": 3, "reused": 2}
    assert again.id == pc.fit(lake, SPEC).id
    other = pc.TableRef(str(lake), options={"null": ["north"]})
    assert pc.fit(other, SPEC, cache=store).training["cache"]["reused"] == 0


def test_a_unit_reads_the_same_rows_in_another_process(tmp_path: Path) -> None:
    write(tmp_path / "month=1" / "part.jsonl.gz", as_json_lines(trips()))
    plan = pc.open_table(tmp_path).plan(["fare", "month"], where=[("night", "==", True)])
    for unit in plan.units:
        copy = pickle.loads(pickle.dumps(unit))
        assert list(copy.read()) == list(unit.read())


@pytest.mark.parametrize("to_text", [as_csv, as_json_lines])
def test_rows_do_not_depend_on_the_size_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_text: Callable[[pa.Table], str]
) -> None:
    suffix = "csv" if to_text is as_csv else "jsonl"
    path = write(tmp_path / f"trips.{suffix}", to_text(trips(300)))
    module = {"csv": "csv", "jsonl": "json_lines"}[suffix]
    monkeypatch.setattr(f"probclass_core.io.text.{module}.BLOCK_BYTES", 2000)
    (unit,) = pc.open_table(path).plan().units
    assert isinstance(unit, TextRows)
    assert len(list(unit._batches())) >= 10
    assert pa.Table.from_batches(unit.read()).equals(trips(300))


TEXTS = st.text(st.sampled_from('a,"\n\r é'), max_size=5)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
def test_texts_with_quotes_and_line_ends_survive(rows: list[tuple[str, str]]) -> None:
    """Written by Python's csv module, with every value in quotes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts.csv")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows([("one", "two"), ("x", "x"), *rows])
        read = read_rows(path)
    assert read["one"].to_pylist() == ["x", *(one or None for one, _ in rows)]
    assert read["two"].to_pylist() == ["x", *(two or None for _, two in rows)]


OPTIONS: dict[str, tuple[str, str, dict[str, Any], list[Any]]] = {
    "decimal comma": ("csv", "x;y\n1,5;a\n", {"delimiter": ";", "decimal": ","}, [1.5]),
    "types": ("csv", "x,y\n007,a\n", {"types": {"x": "string"}}, ["007"]),
    "an Arrow type": ("csv", "x,y\n1,a\n", {"types": {"x": pa.float64()}}, [1.0]),
    "other nulls": ("csv", "x,y\n-,a\n1,b\nNA,c\n", {"null": ["-"]}, [None, 1, None]),
    "an encoding": ("csv", "x,y\ncafé,a\n", {"encoding": "latin-1"}, ["café"]),
    "no header": ("csv", "1,a\n2,b\n", {"names": ["x", "y"]}, [1, 2]),
    "types of JSON": ("jsonl", '{"x": 1}\n', {"types": {"x": "double"}}, [1.0]),
    "instants": (
        "jsonl",
        '{"x": "2024-01-01T01:00:00.5+01:00"}\n{"x": null}\n',
        {},
        [datetime(2024, 1, 1, 0, 0, 0, 500_000, UTC), None],
    ),
    "words": ("jsonl", '{"x": ["a", "b"]}\n{"x": []}\n', {}, [["a", "b"], []]),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_say_how_text_is_read(tmp_path: Path, kind: str) -> None:
    suffix, text, options, expected = OPTIONS[kind]
    path = write(tmp_path / f"rows.{suffix}", text.encode(options.get("encoding", "utf-8")))
    source = pc.TableRef(str(path), options=options)
    assert read_rows(source, columns=["x"])["x"].to_pylist() == expected


def test_a_column_that_a_file_lacks_is_null_there(tmp_path: Path) -> None:
    write(tmp_path / "0.csv", "x,y\n1,a\n")
    write(tmp_path / "1.csv", "z,y\n2.5,b\n")
    read = read_rows(tmp_path)
    assert read.to_pylist() == [{"x": 1, "y": "a", "z": None}, {"x": None, "y": "b", "z": 2.5}]


def test_types_of_the_first_and_last_file_go_together(tmp_path: Path) -> None:
    write(tmp_path / "0.csv", "x,t\n1,2024-01-01\n")
    write(tmp_path / "1.csv", "x,t\n")
    write(tmp_path / "2.csv", "x,t\n2.5,2024-01-01 10:00:00\n")
    read = read_rows(tmp_path)
    assert read["x"].to_pylist() == [1.0, 2.5]
    assert read["t"].to_pylist() == [datetime(2024, 1, 1), datetime(2024, 1, 1, 10)]


GOOD = "fare,zone,night,payment\n1.5,a,true,cash\n2.5,b,false,card\n9.5,a,true,card\n"
LINE = '{"fare": 1.5, "zone": "a", "night": true, "payment": "cash"}\n'

BAD: dict[str, tuple[dict[str, str | bytes], str]] = {
    "too many fields": (
        {"trips.csv": GOOD + "3.5,b,true,card,5\n"},
        r"trips\.csv: CSV parse error: Row #5: Expected 4 columns, got 5: 3\.5,b,true",
    ),
    "a value of another type": (
        {"trips.csv": GOOD + "1.5,a,true,cash\n" * 600 + "n/k,b,true,card\n"},
        r"trips\.csv, row 605: column 'fare' is double, but has 'n/k'; .*'fare': 'string'",
    ),
    "types that differ by file": (
        {"trips/0.csv": GOOD, "trips/1.csv": GOOD.replace("1.5", "one")},
        r"column 'fare' is double in .*0\.csv and string in .*1\.csv; .*options=\{'types'",
    ),
    "an empty file": ({"trips.csv": ""}, r"trips\.csv is empty"),
    "an empty file among others": ({"trips/0.csv": GOOD, "trips/1.csv": ""}, r"1\.csv is empty"),
    "a column twice": ({"trips.csv": "fare,fare\n1,2\n"}, "2 columns named 'fare'; rename all"),
    "another encoding": (
        {"trips.csv": GOOD.replace("b", "é").encode("latin-1")},
        "is not UTF-8 text; if it is latin-1, utf-16 or another, give options=.*latin-1'",
    ),
    "a truncated archive": (
        {"trips.csv.gz": gzip.compress((GOOD * 99).encode())[:-9]},
        r"trips\.csv\.gz is not a complete compressed file .*write it again",
    ),
    "another delimiter": (
        {"trips.csv": GOOD.replace(",", ";")},
        r"if ';' is the delimiter, give options=\{'delimiter': ';'\}.*file://.* '\?delimiter=;'",
    ),
    "files of other formats": (
        {"trips/0.csv": GOOD, "trips/notes.txt": "mine"},
        r"contains 'notes\.txt' next to CSV files; name the files by a pattern",
    ),
    "a file of another table": (
        {"trips/0.csv": GOOD, "trips/1.csv": "a,b\n1,2\n", "trips/2.csv": GOOD},
        r"1\.csv has none of the columns .*its header is 'a', 'b'",
    ),
    "malformed JSON": (
        {"trips.jsonl": LINE + "\n" + LINE[:-2] + "\n"},
        r"trips\.jsonl, line 3, is not a JSON object in UTF-8 \(.*\): '\{\"fare\": 1\.5",
    ),
    "a JSON array": ({"trips.json": f"[{LINE}]"}, r"is a JSON array; write one JSON object per"),
    "a JSON value of another type": (
        {"trips.jsonl": LINE.replace("1.5", "1") * 140 + LINE},
        r"trips\.jsonl, line 141: column 'fare' is int64, but has '1\.5'; .*'fare': 'double'",
    ),
    "a JSON number among text": (
        {"trips.jsonl": LINE * 140_000 + LINE.replace('"a"', "7")},
        r"trips\.jsonl, line 140001: column 'zone' is string, but has '7'; correct the value\.$",
    ),
    "no file": ({}, r"trips\.csv does not exist"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_text_is_one_line_that_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    files, message = BAD[kind]
    for module in ("csv", "json_lines"):
        monkeypatch.setattr(f"probclass_core.io.text.{module}.BLOCK_BYTES", 4000)
    source = next(iter(files), "trips.csv").partition("/")[0]
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    model = pc.fit(trips(), SPEC)
    for attempt in (
        lambda: pc.fit(tmp_path / source, SPEC),
        lambda: pc.score(model, tmp_path / source, tmp_path / "scored"),
    ):
        with refused((TableError, DataError), message) as caught:
            attempt()
        assert str(tmp_path) in str(caught.value)
    assert not list(tmp_path.glob("*scored*"))


@pytest.mark.parametrize("rows", [1, 10_000, 300_000])
def test_a_quote_that_is_never_closed_is_an_error_however_much_follows(
    tmp_path: Path, rows: int
) -> None:
    """Arrow takes all that follows for one value."""
    row = "1.5,a,true,cash\n"
    path = write(tmp_path / "trips.csv", GOOD + row * 9 + '3.5,b,true,"card\n' + row * rows)
    with pytest.raises(TableError, match=r"trips\.csv has a quote that is never closed"):
        pc.fit(path, SPEC)
    inches = "fare,zone,night,payment\n" + '1.5,5" pipe,true,cash\n2.5,b,false,card\n'
    assert read_rows(write(path, inches))["zone"].to_pylist() == ['5" pipe', "b"]


WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"delimeter": ";"}, "unknown option 'delimeter'.*Did you mean 'delimiter'"),
    ({"delimiter": "::"}, "delimiter must be one ASCII character"),
    ({"types": {"fare": "number"}}, "'number' is not a type of Arrow, such as int64, double"),
    ({"types": "fare"}, "'fare' is not column:type"),
    ({"types": {"tip": "double"}}, "option types names column 'tip'"),
    ({"encoding": "utf9"}, "unknown encoding: utf9"),
    ({"null": [0]}, "0 is not text"),
]


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "trips.csv", GOOD)
    with pytest.raises((TableError, DataError), match=message):
        pc.open_table(pc.TableRef(str(path), options=options))


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"no file matches .*trips-\*\.csv"):
        pc.fit(str(tmp_path / "trips-*.csv"), SPEC)
    with pytest.raises(TableError, match=r"\?decimal=,; options are for a URI, .* file://"):
        pc.fit("trips.csv?decimal=,", SPEC)


def test_parquet_files_can_be_named_by_a_pattern(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(trips(seed=number), tmp_path / f"{number}.parquet")
    read = read_rows(str(tmp_path / "[01].parquet"))
    assert read["id"].to_pylist() == [*range(60), *range(1000, 1060)]


def test_a_sink_that_the_pattern_of_the_source_matches_is_refused(tmp_path: Path) -> None:
    pq.write_table(trips(), tmp_path / "0.parquet")
    model, source = pc.fit(trips(), SPEC), str(tmp_path / "*.parquet")
    with pytest.raises(TableError, match=r"1\.parquet matches .*\*\.parquet"):
        pc.score(model, source, tmp_path / "1.parquet")
    pc.score(model, source, tmp_path / "trips" / "x")
    assert (tmp_path / "trips" / "x").is_dir()


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("scored.jsonl", "format 'jsonl' are read-only; write one Parquet file"),
        ("scored.xlsx", r"one '\.parquet' file or a directory of them; name .*'scored\.parquet'"),
        ("scored.parquet.gz", r"one '\.parquet' file or a directory of them"),
        ("scored.PARQUET", r"one '\.parquet' file or a directory of them"),
        ("memory://scored.csv", "a single file cannot be written on an object store; name a local"),
        ("memory://scored.xlsx", r"one '\.parquet' file or a directory of them"),
        ("memory://scored.parquet", "a single file cannot be written on an object store"),
    ],
)
def test_a_sink_named_as_a_file_is_never_a_directory(
    tmp_path: Path, sink: str, message: str
) -> None:
    target = sink if "://" in sink else str(tmp_path / sink)
    with pytest.raises(TableError, match=message):
        pc.score(pc.fit(trips(), SPEC), trips(), target)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["scored.csv", "scored.csv.gz", "scored.tsv"])
def test_a_csv_sink_is_one_file_that_reads_back(tmp_path: Path, name: str) -> None:
    model, sink = pc.fit(trips(), SPEC), tmp_path / "new" / name
    assert pc.score(model, trips(), sink).rows == 60
    assert [path.name for path in sink.parent.iterdir()] == [name]
    pc.score(model, trips(), tmp_path / "scored.parquet")
    expected = pq.read_table(tmp_path / "scored.parquet").replace_schema_metadata(None)
    assert read_rows(sink).equals(expected)  # all 17 digits of the probabilities
    before = sink.read_bytes()
    assert pc.score(model, trips(), sink).counts["unchanged"] == 0
    assert sink.read_bytes() == before


def test_what_a_csv_file_cannot_hold_and_where_none_can_be_are_refused(tmp_path: Path) -> None:
    model = pc.fit(trips(), SPEC)
    message = "column 'posterior' is list<.*, which CSV cannot store"
    with pytest.raises(pc.ProbClassError, match=message):
        pc.score(model, trips(), tmp_path / "scored.csv", options={"posterior": "list"})
    folder = write(tmp_path / "folder" / "trips.csv", as_csv(trips())).parent
    with pytest.raises(pc.ProbClassError, match="is a directory; write to another"):
        pc.score(model, trips(), folder)


def test_text_on_an_object_store_is_read(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/text/trips-0.csv.gz", gzip.compress(as_csv(trips()).encode()))
    memory.pipe_file("/text/trips-1.csv.gz", gzip.compress(as_csv(trips(seed=1)).encode()))
    model = pc.fit(pa.concat_tables([trips(), trips(seed=1)]), SPEC)
    for source in ("memory://text/*.csv.gz", "csv+memory://text"):
        assert read_rows(source).num_rows == 120
        assert pc.evaluate(model, source).rows == 120
    assert read_rows("memory://text/trips-1.csv.gz?null=north")["zone"].null_count > 10
    with pytest.raises(TableError, match=r"name the format of a text file, .*format='csv'"):
        pc.open_table("memory://text")
