"""Training from tables of databases gives the models of the same rows in memory."""

from __future__ import annotations

import logging
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import psycopg2
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from sql_cases import (
    BLOCKS,
    BUILT_IN,
    N,
    check_nist,
    compare,
    compare_parameters,
    fetched,
    nist_rows,
    postgres_table,
    sqlite_table,
    training,
)

import probclass_core as pc
from probclass_core.authoring import ClassSums, Column, Rows, Sums, if_known, known
from probclass_core.errors import DataError, NotSupportedError, SpecError, TableError
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.sql.connections import database_of

ROWS = training()
AGGREGATED = [case for case in BUILT_IN if not case.startswith(("given", "discretized", "written"))]
AGGREGATED += ["given_category"]
"""Cases whose statistics the database computes."""


def on_duckdb(rows: pa.Table) -> Any:
    connection = duckdb.connect()
    connection.register("given", rows)
    connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return connection


def on_sqlite(rows: pa.Table) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    sqlite_table(connection, rows)
    return connection


Connect = Callable[[pa.Table], Any]
DATABASES = ["duckdb", "sqlite", pytest.param("postgres", marks=pytest.mark.services)]


@pytest.fixture(scope="module", params=DATABASES)
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connect to a new database, or to a new schema of one, with rows in its table "rows"."""
    if request.param != "postgres":
        yield {"duckdb": on_duckdb, "sqlite": on_sqlite}[request.param]
        return
    url = request.getfixturevalue("postgres_url")
    with ExitStack() as opened:

        def on_postgres(rows: pa.Table) -> Any:
            connection = opened.enter_context(psycopg.connect(url, autocommit=True))
            schema = f"schema_{id(connection)}"
            connection.execute(f"CREATE SCHEMA {schema}; SET search_path = {schema}")
            postgres_table(connection, rows)
            return connection

        yield on_postgres


@pytest.fixture(scope="module")
def source(connect: Connect) -> pc.SqlSource:
    return pc.SqlSource(connect(ROWS), "rows")


@pytest.fixture
def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the database may read rows."""

    def read(self: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr("probclass_core.sql.source._Rows.read", read)


@pytest.mark.parametrize("case", AGGREGATED)
@pytest.mark.usefixtures("forbid_reading")
def test_statistics_by_group_by_give_the_model_of_the_rows(source: pc.SqlSource, case: str) -> None:
    spec = pc.ModelSpec("label", BLOCKS[case])
    expected = pc.fit(ROWS, spec)
    actual = pc.fit(source, spec)
    compare_parameters(expected, actual)
    assert actual.training["columns"] == expected.training["columns"]
    assert actual.training["rows"] == expected.training["rows"]


@pytest.mark.parametrize("missing", ["marginalize", "level"])
@pytest.mark.usefixtures("forbid_reading")
def test_a_database_counts_categories_given_categories(source: pc.SqlSource, missing: str) -> None:
    block = pc.Block("categorical", ["word", "order"], given=["flag"], missing=missing)
    spec = pc.ModelSpec("label", [block])
    compare_parameters(pc.fit(ROWS, spec), pc.fit(source, spec))


@pytest.mark.parametrize("case", sorted(set(BUILT_IN) - set(AGGREGATED)))
def test_estimators_without_aggregates_read_the_rows(
    source: pc.SqlSource, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    spec = pc.ModelSpec("label", BLOCKS[case])
    with caplog.at_level(logging.INFO, "probclass_core.sql"):
        compare_parameters(pc.fit(ROWS, spec), pc.fit(source, spec))
    assert "rows are read: " in caplog.text


def test_every_door_takes_a_table_of_a_database(source: pc.SqlSource, tmp_path: Path) -> None:
    spec = pc.ModelSpec("label", {"gaussian_diagonal": N, "knn_density": ["number"]})
    model = pc.fit(source, spec)
    assert model.predict_table(ROWS)["prediction"].equals(
        pc.fit(ROWS, spec).predict_table(ROWS)["prediction"]
    )
    assert pc.evaluate(model, source).accuracy == pc.evaluate(model, ROWS).accuracy
    pc.score(model, source, tmp_path / "scored.parquet", options=pc.ScoringOptions(columns=["key"]))
    assert pq.read_table(tmp_path / "scored.parquet")["key"].equals(ROWS["key"])


@pytest.mark.parametrize(
    "where",
    [
        "count >= 2 and word in b, it's",
        [("word", "not in", ["b"]), ("flag", "==", True)],
        [("word", ">", "A"), ("share", "<", 0.5), ("order", "!=", 3)],
        [("amount", "==", None)],
        [("word", "==", "it's -- ); DROP TABLE rows")],
    ],
)
def test_conditions_select_the_same_rows(source: pc.SqlSource, where: Any) -> None:
    spec = pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["number"])])
    try:
        expected = pc.summarize(ROWS, spec, where=where)
    except TableError:
        assert pc.summarize(source, spec, where=where).rows == 0
        return
    actual = pc.summarize(source, spec, where=where)
    assert actual.rows == expected.rows > 0
    assert actual.classes.equals(expected.classes)


@pytest.mark.parametrize("where", [None, "word = b", "word in B, b", "word > B", "word != b"])
def test_texts_differ_by_case_whatever_the_collation_of_the_column(
    connect: Connect, where: str | None
) -> None:
    words, labels = ["b", "B", "b", "c", None] * 8, ["b", "c"] * 14 + ["d"] * 12
    rows = pa.table({"key": range(40), "label": labels, "word": words})
    connection = connect(rows)
    ignore_case(connection, rows)
    source = pc.SqlSource(connection, "rows")
    spec = pc.ModelSpec("label", {"categorical": ["word"]})
    expected, actual = (pc.fit(each, spec, where=where) for each in (rows, source))
    compare_parameters(expected, actual)
    query = expected.to_sql(
        dialect=database_of(connection).dialect.name, source="rows", options={"columns": ["key"]}
    )
    scored = fetched(connection.execute(query))
    compare(
        expected.predict_table(rows, options={"columns": ["key"]}),
        scored.take(pac.sort_indices(scored["key"])),
    )


def ignore_case(connection: Any, rows: pa.Table) -> None:
    """Give the columns of text a collation to which b and B are the same."""
    if isinstance(connection, psycopg.Connection):
        options = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
        connection.execute(f"CREATE COLLATION nocase ({options})")
        for name in ("label", "word"):
            connection.execute(f"ALTER TABLE rows ALTER COLUMN {name} TYPE text COLLATE nocase")
        return
    collated = "label VARCHAR COLLATE nocase, word VARCHAR COLLATE nocase"
    connection.execute(f"CREATE TABLE collated (key BIGINT, {collated})")
    connection.execute("INSERT INTO collated SELECT * FROM rows")
    connection.execute("DROP TABLE rows")
    connection.execute("ALTER TABLE collated RENAME TO rows")


@pytest.mark.parametrize("kind", ["UUID", "JSON", "VARCHAR", "ENUM('1', '2')"])
def test_types_that_are_text_to_arrow_are_categories(kind: str) -> None:
    rows = pa.table({"label": ["a", "b"] * 6, "x": ["1", "2", None, "1"] * 3})
    with duckdb.connect() as connection:
        connection.register("given", rows)
        text = "lpad(x, 32, '0')" if kind == "UUID" else "x"
        connection.execute(f"CREATE TABLE rows AS SELECT label, {text}::{kind} AS x FROM given")
        connection.execute("ALTER TABLE rows ADD COLUMN ignored UNION(number INT, word VARCHAR)")
        source = pc.SqlSource(connection, "rows")
        model = pc.fit(source, pc.ModelSpec("label", {"categorical": ["x"]}))
        assert model.training["columns"]["x"]["nulls"] == 3
        in_sql = connection.sql(model.to_sql(dialect="duckdb", source="rows")).to_arrow_table()
        read = pa.Table.from_batches(list(source.plan(["x"]).batches()))
        compare(model.predict_table(read, options={"columns": ()}), in_sql)


@pytest.mark.parametrize("kind", ["text", "integer", "bool", "float"])
@pytest.mark.usefixtures("forbid_reading")
def test_classes_of_each_type(connect: Connect, kind: str) -> None:
    labels: dict[str, list[Any]] = {
        "text": ["a", "A", None, "a", "A"],
        "integer": [-1, 2**60, None, -1, 2**60],
        "bool": [True, False, None, True, False],
        "float": [1.0, 2.0, None, float("nan"), 1.0],
    }
    rows = pa.table({"y": labels[kind], "x": [1.0, None, 3.0, float("nan"), 5.0]})
    if kind == "float" and connect is on_sqlite:
        rows = rows.slice(0, 3)  # SQLite stores NaN as null
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])
    expected = pc.summarize(rows, spec)
    actual = pc.summarize(pc.SqlSource(connect(rows), "rows"), spec)
    assert actual.classes.equals(expected.classes)
    assert actual.null_labels == expected.null_labels
    assert actual.blocks["gaussian_diagonal"].equals(expected.blocks["gaussian_diagonal"])


@given(
    cut=st.integers(0, 120),
    case=st.sampled_from(["gaussian_full", "mixed", "categorical_joint", "multinomial"]),
    seed=st.integers(0, 3),
)
def test_statistics_of_databases_and_files_merge(cut: int, case: str, seed: int) -> None:
    rows = training(seed, 120)
    spec = pc.ModelSpec("label", BLOCKS[case])
    with on_duckdb(rows.slice(0, cut)) as connection:
        parts = [
            pc.summarize(pc.SqlSource(connection, "rows"), spec),
            pc.summarize(rows.slice(cut), spec),
        ]
    compare_parameters(pc.fit(rows, spec), pc.finalize(pc.merge(parts)))


@pytest.mark.usefixtures("forbid_reading")
def test_nist_digits(connect: Connect) -> None:
    check_nist(pc.SqlSource(connect(nist_rows()), "rows"))


class Totals(GaussianDiagonal):
    """A plugin: a normal whose mean is the total, from sums of its own."""

    name = "totals"

    def summarize(self, rows: Rows, classes: Any, weights: Any) -> pa.Table:
        doubled = {name: rows.numbers(name) * 2 for name in self.features.names}
        return super().summarize(Rows(pa.record_batch(doubled)), classes, weights)


class AggregatedTotals(Totals):
    name = "aggregated_totals"

    def aggregates(self) -> Sums:
        def table(by_class: ClassSums) -> pa.Table:
            count, total, square = (by_class.sums[key].tolist() for key in ("n", "t", "s"))
            middle = [2 * t / n for t, n in zip(total, count, strict=True)]
            parts = zip(square, middle, count, strict=True)
            return pa.table(
                {
                    "class": by_class.classes,
                    "feature": ["number"] * len(count),
                    "term": ["x"] * len(count),
                    "count": count,
                    "mean": middle,
                    "scatter": [4 * s - n * m * m for s, m, n in parts],
                }
            )

        x = Column("number")
        return Sums({"n": known(x), "t": if_known([x], x), "s": x * x}, table)


@pytest.mark.parametrize(("kind", "reads"), [(Totals, True), (AggregatedTotals, False)])
def test_plugins_take_part_by_their_aggregates_alone(
    source: pc.SqlSource, kind: type[Totals], reads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    spec = pc.ModelSpec("label", [pc.Block(kind.name, ["number"])])
    with pc.trying(kind), caplog.at_level(logging.INFO, "probclass_core.sql"):
        compare_parameters(pc.fit(ROWS, spec), pc.fit(source, spec))
    assert ("rows are read" in caplog.text) == reads


# Bad input: each is one clear line.

GAUSSIAN = [pc.Block("gaussian_diagonal", ["x"])]


@pytest.mark.parametrize(
    ("rows", "spec", "message"),
    [
        ({"y": [0.5], "x": [1.0]}, pc.ModelSpec("y", GAUSSIAN), "label 'y' is double"),
        ({"y": ["a"], "x": [1e400]}, pc.ModelSpec("y", GAUSSIAN), "infinite"),
        ({"y": ["a", "b"], "x": [1e200, 2.0]}, pc.ModelSpec("y", GAUSSIAN), "too large to square"),
        (
            {"y": ["a"], "x": [-1.0]},
            pc.ModelSpec("y", [pc.Block("poisson", ["x"])]),
            "'x' contains 1 count below 0",
        ),
        ({"y": ["a"][:0], "x": [1.0][:0]}, pc.ModelSpec("y", GAUSSIAN), "no rows|no class|nothing"),
    ],
)
def test_bad_input_is_one_clear_line(
    connect: Connect, rows: dict[str, Any], spec: pc.ModelSpec, message: str
) -> None:
    table = pa.table(rows)
    if not table.num_rows:
        table = table.cast(pa.schema([("y", pa.string()), ("x", pa.float64())]))
    with refused((DataError, SpecError), message):
        pc.fit(pc.SqlSource(connect(table), "rows"), spec)


def test_a_missing_table_is_one_clear_line(connect: Connect) -> None:
    with refused(TableError, r"absent.* does not exist|no such .*absent"):
        pc.SqlSource(connect(ROWS), "absent")


def test_a_wrong_connection_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match=r"builtins\.int is not a connection"):
        pc.SqlSource(3, "rows")
    with pytest.raises(TableError, match="there is no file"):
        pc.open_table(f"duckdb://{tmp_path}/absent.db::rows")
    with pytest.raises(TableError, match="name the table after two colons"):
        pc.open_table(f"sqlite://{tmp_path}/absent.db")
    with pytest.raises(TableError, match=r"\*\*\*@.*must not contain a password"):
        pc.open_table("postgresql://me:secret@host/db::rows")
    with pytest.raises(TableError) as raised:
        pc.open_table(
            pc.TableRef("postgresql://me@localhost:1/db::rows", options={"password": "s3"})
        )
    assert "s3" not in str(raised.value)


def test_a_table_by_its_uri(tmp_path: Path) -> None:
    lite = sqlite3.connect(tmp_path / "file.db")
    sqlite_table(lite, ROWS)
    lite.close()
    with duckdb.connect(str(tmp_path / "duck.db")) as connection:
        connection.register("given", ROWS)
        connection.execute('CREATE SCHEMA "a b"; CREATE TABLE "a b".rows AS SELECT * FROM given')
    spec = pc.ModelSpec("label", [pc.Block("gaussian_diagonal", N)])
    expected = pc.fit(ROWS, spec)
    for uri in (f"sqlite://{tmp_path}/file.db::rows", f"duckdb://{tmp_path}/duck.db::a b.rows"):
        model = pc.fit(uri, spec)
        compare_parameters(expected, model)
        assert model.training["source"] == uri
        pickle.loads(pickle.dumps(pc.open_table(uri).plan().units[0]))  # for other processes
    with pytest.raises(TableError, match="read-only"):
        pc.score(expected, ROWS, uri)


@pytest.mark.services
def test_a_table_of_postgres_by_its_uri_and_by_psycopg2(
    postgres_url: str, postgres_connection: psycopg.Connection[Any]
) -> None:
    postgres_table(postgres_connection, ROWS, "trips")
    spec = pc.ModelSpec("label", BLOCKS["mixed"])
    expected = pc.fit(ROWS, spec)
    host = postgres_url.partition("host=")[2]
    address = pc.TableRef("postgresql://airflow@/airflow::public.trips", options={"host": host})
    compare_parameters(expected, pc.fit(address, spec))
    connection = psycopg2.connect(postgres_url)
    compare_parameters(expected, pc.fit(pc.SqlSource(connection, "trips"), spec))
    connection.close()


def test_squares_beyond_the_arithmetic_of_a_database(connect: Connect) -> None:
    tiny = [1e-200, 3e-200, 1e-120, 2e-120]
    rows = pa.table({"y": ["a", "b"] * 2, "x": tiny, "z": [1e120, 2e120, 3e120, 4e120]})
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x", "z"])])
    compare_parameters(pc.fit(rows, spec), pc.fit(pc.SqlSource(connect(rows), "rows"), spec))


def test_a_connection_stays_in_its_process() -> None:
    spec = pc.ModelSpec("label", [pc.Block("gaussian_diagonal", N)])
    with pytest.raises(NotSupportedError, match="name the table by a URI"):
        pc.fit(pc.SqlSource(on_duckdb(ROWS), "rows"), spec, engine="processes", workers=2)


def test_a_table_that_changes_meanwhile_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = on_duckdb(ROWS)
    source = pc.SqlSource(connection, "rows")

    def delete_first(self: Any, *arguments: Any) -> Any:
        connection.execute("DELETE FROM rows WHERE key = 0")
        return sums(self, *arguments)

    sums = pc.sql.aggregation.Aggregation._sums
    monkeypatch.setattr("probclass_core.sql.aggregation.Aggregation._sums", delete_first)
    with pytest.raises(DataError, match="the table changed"):
        pc.fit(source, pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["number"])]))
