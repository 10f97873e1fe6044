"""`pc.score_sql` gives the rows of `pc.score`, in one transaction with their record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pac
import pytest
from refusals import refused
from sql_cases import compare, fetched, fitted, sqlite_table, training

import probclass_core as pc
from probclass_core.errors import DataError, NotSupportedError, SpecError, TableError
from probclass_core.scoring.reports import ScoreReport
from probclass_core.sql.connections import Database

ROWS = training(rows=300)
MODEL = fitted("mixed")
YES = {"flag": True}


@pytest.fixture(params=["duckdb", "sqlite"])
def connection(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "sqlite":
        opened: Any = sqlite3.connect(":memory:")
        sqlite_table(opened, ROWS)
    else:
        opened = duckdb.connect()
        opened.register("given", ROWS)
        opened.execute("CREATE TABLE rows AS SELECT * FROM given")
    yield opened
    opened.close()


def score(connection: Any, **options: Any) -> ScoreReport:
    options = {"partition": YES, **options}
    options["options"] = {"columns": ["key"], **options.get("options", {})}
    return pc.score_sql(options.pop("model", MODEL), connection, "rows", "scored", **options)


def scored(connection: Any) -> pa.Table:
    table = fetched(connection.execute("SELECT * FROM scored"))
    return table.take(pac.sort_indices(table["key"]))


def records(connection: Any) -> list[dict[str, Any]]:
    found = connection.execute("SELECT record FROM probclass_commits").fetchall()
    return [json.loads(record) for (record,) in found]


def test_partitions_are_replaced_one_by_one(connection: Any) -> None:
    assert score(connection).rows + score(connection, partition={"flag": False}).rows == sum(
        ROWS["flag"].is_valid().to_pylist()
    )
    known = ROWS.filter(ROWS["flag"].is_valid())
    expected = MODEL.predict_table(known, options={"columns": ["key"]})
    compare(expected, scored(connection).drop_columns(["flag"]))
    other = fitted("categorical")
    report = score(connection, model=other)
    models = scored(connection).group_by("model_id").aggregate([([], "count_all")]).to_pydict()
    assert dict(zip(models["model_id"], models["count_all"], strict=True))[other.id] == report.rows
    assert len(models["model_id"]) == 2


def test_a_density_without_a_label_scores_and_says_how_rare_rows_are(connection: Any) -> None:
    known = ROWS.filter(ROWS["flag"].is_valid())
    spec = pc.ModelSpec.auto(known, None, exclude=["flag", "key"], sql=True)
    model = pc.fit(known, spec)
    score(connection, model=model, options={"rare": 0.05})
    rows = known.filter(known["flag"])
    expected = model.predict_table(rows, options={"columns": ["key"], "rare": 0.05})
    compare(expected, scored(connection).drop_columns(["flag"]))


def test_a_retry_of_a_committed_partition_changes_nothing(connection: Any) -> None:
    first = score(connection, run_id="monday")
    record = records(connection)
    again = score(connection, run_id="monday")
    assert (first.counts["unchanged"], again.counts["unchanged"]) == (0, 1)
    assert (again.rows, again.commit_id) == (first.rows, first.commit_id)
    assert records(connection) == record
    assert record[0]["model_id"] == MODEL.id
    assert record[0]["rows"] == first.rows
    assert record[0]["run_id"] == "monday"
    assert score(connection, run_id="tuesday").counts["unchanged"] == 0
    connection.execute("DELETE FROM scored WHERE key < 100")  # by hand
    connection.commit()
    assert score(connection, run_id="tuesday").counts["unchanged"] == 0
    connection.execute("DELETE FROM rows WHERE key < 50")
    connection.commit()
    assert score(connection, run_id="tuesday").counts["unchanged"] == 0
    assert score(connection, run_id=None).counts["unchanged"] == 0


def test_the_whole_table_replaces_its_partitions(connection: Any) -> None:
    score(connection, run_id="monday")
    assert score(connection, partition=None, options={"columns": ["flag", "key"]}).rows == len(ROWS)
    assert [record["partition"] for record in records(connection)] == [{}]
    assert score(connection, run_id="monday").counts["unchanged"] == 0


def test_a_scored_table_that_lacks_columns_is_one_clear_line(connection: Any) -> None:
    score(connection)
    before = scored(connection)
    with refused(TableError, r"scored has no column 'contribution_.*ADD COLUMN"):
        score(connection, options={"contributions": True})
    assert scored(connection).equals(before)


BeforeCommit = Callable[[Callable[[], None]], None]


@pytest.fixture
def before_commit(monkeypatch: pytest.MonkeyPatch) -> BeforeCommit:
    """Calls a function right before the next commit."""
    execute = Database.execute

    def set_up(call: Callable[[], None]) -> None:
        def execute_after_call(database: Database, statement: str) -> None:
            if statement == "COMMIT":
                monkeypatch.setattr(Database, "execute", execute)
                call()
            execute(database, statement)

        monkeypatch.setattr(Database, "execute", execute_after_call)

    return set_up


class Stopped(Exception):
    """An interruption."""


def test_an_interruption_right_before_the_commit_changes_nothing(
    connection: Any, before_commit: BeforeCommit
) -> None:
    score(connection)
    before = scored(connection), records(connection)

    def interrupt() -> None:
        raise Stopped

    before_commit(interrupt)
    with pytest.raises(Stopped):
        score(connection)
    assert (scored(connection), records(connection)) == before


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ("UPDATE rows SET count = -1 WHERE key = 1", {}, DataError, "1 of .* model refuses"),
        ("DELETE FROM rows WHERE flag", {}, TableError, "no rows of partition flag=True"),
        ("", {"options": {"columns": ["absent"]}}, TableError, "absent"),
        ("", {"partition": {"absent": 1}}, TableError, "conditions name column 'absent'"),
        ("DROP TABLE rows", {}, TableError, "rows"),
        ("", {"where": pac.field("key") > 1}, NotSupportedError, "cannot be written as SQL"),
        ("", {"options": {"decision": {"by": "nothing"}}}, SpecError, "nothing"),
        ("", {"options": {"overwrite": "append"}}, SpecError, "a scored row has no 'overwrite'"),
    ],
)
def test_after_an_error_everything_is_as_before(
    connection: Any,
    change: str,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    score(connection, run_id="monday")
    before = scored(connection), records(connection)
    connection.execute("UPDATE rows SET flag = TRUE WHERE key = 1")
    connection.execute(change or "SELECT 1")
    connection.commit()
    with refused(error, message):
        score(connection, **{"run_id": "tuesday", **options})
    assert (scored(connection), records(connection)) == before


def test_one_of_two_writers_of_a_partition_gets_an_error(before_commit: BeforeCommit) -> None:
    with duckdb.connect() as connection:
        connection.register("given", ROWS)
        connection.execute("CREATE TABLE rows AS SELECT * FROM given")
        score(connection)

        def meanwhile() -> None:
            with connection.cursor() as other, pytest.raises(TableError, match="Conflict"):
                score(other)

        before_commit(meanwhile)
        assert score(connection).rows == len(scored(connection))


def test_bad_connections_are_one_clear_line(connection: Any) -> None:
    connection.execute("BEGIN")
    with pytest.raises(TableError, match="transaction"):
        score(connection)
    connection.execute("ROLLBACK")
    with pytest.raises(TableError, match="is the source"):
        pc.score_sql(MODEL, connection, "rows", "rows")
    with pytest.raises(SpecError, match="expected a Model"):
        pc.score_sql("air@champion", connection, "rows", "scored")  # type: ignore[arg-type]


def test_scorings_are_recorded_in_a_store(connection: Any, tmp_path: Any) -> None:
    store = pc.ModelStore(str(tmp_path))
    version = store.save(MODEL, "taxis")
    for _ in range(2):
        store.record_scoring(version, score(connection, run_id="monday"))
    (recorded,) = store.scorings("taxis")
    assert recorded.partitions[0]["rows"] > 0
