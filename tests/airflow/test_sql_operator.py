"""`ProbClassSQLScoreOperator` on a PostgreSQL server, through the hook of its provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.dataset as ds
import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowFailException
from postgres_and_redis import postgres
from sql_cases import compare, fetched, fitted, postgres_table, training

import probclass_core as pc
from probclass_airflow import ProbClassSQLScoreOperator
from probclass_core.demo.lake import lay_out
from probclass_core.errors import TableError

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[2]
ROWS = training(rows=300)
SECRET = "hush-hush"
DAYS = ["2014-01-01", "2014-01-02", "2014-01-03"]


@pytest.fixture(scope="module")
def warehouse() -> Iterator[psycopg.Connection[Any]]:
    days = pa.array([DAYS[row % 3] for row in range(len(ROWS))])
    with postgres() as url, psycopg.connect(url, autocommit=True) as connection:
        postgres_table(connection, ROWS.append_column("day", days), "trips")
        yield connection


@pytest.fixture
def conn_id(warehouse: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> str:
    values = {
        "conn_type": "postgres",
        "host": warehouse.info.host,
        "login": "airflow",
        "password": SECRET,
        "schema": "airflow",
    }
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", json.dumps(values))
    return "warehouse"


@pytest.fixture
def store(tmp_path: Path) -> str:
    store = pc.ModelStore(str(tmp_path / "models"))
    version = store.save(fitted("mixed"), "taxis")
    store.promote("taxis", version, alias="champion")
    return str(tmp_path / "models")


def test_a_day_is_scored_in_one_transaction_and_a_retry_changes_nothing(
    run_dag: Callable[..., Any],
    warehouse: psycopg.Connection[Any],
    conn_id: str,
    store: str,
) -> None:
    fields = {"source": "public.trips", "sink": "scored", "model": "taxis@champion"}
    with DAG("sql_scoring", schedule=None) as dag:
        task_of_a_day = task("{{ 'warehouse' }}", store, partition={"day": "{{ ds }}"}, **fields)
        task_of_a_day.add_outlets([Asset("scored taxis")])
    for day in DAYS[:2]:
        ran = run_dag(dag, day)["score"]
        assert ran.state == "success"
        assert (ran.result["rows"], ran.result["unchanged"]) == (100, 0)
        assert ran.events["scored taxis"] == ran.result
    version = pc.ModelStore(store).resolve("taxis@champion")
    assert ran.result["model"] == version.ref
    assert ran.result["uri"].startswith("postgres://")
    assert SECRET not in json.dumps(ran.result)

    def written() -> list[Any]:
        tables = ("probclass_commits", "scored")
        return [warehouse.execute(f"SELECT xmin, * FROM {table}").fetchall() for table in tables]

    before = written()
    (record,) = warehouse.execute(
        "SELECT record FROM probclass_commits WHERE commit_id = %s", [ran.result["commit_id"]]
    ).fetchone()  # type: ignore[misc]
    retry = task(conn_id, store, partition={"day": DAYS[1]}, **fields)
    again = execute(retry, json.loads(record)["run_id"])
    unchanged = {"seconds": 0, "scored": 0, "unchanged": 1, "scored_rows": 0, "names": {}}
    assert again | {"seconds": 0} == ran.result | unchanged
    assert written() == before
    scored = fetched(warehouse.execute("SELECT * FROM scored ORDER BY key"))
    kept = ROWS.filter(pa.array([row % 3 < 2 for row in range(len(ROWS))]))
    expected = fitted("mixed").predict_table(kept, options={"columns": ["key"]})
    compare(expected, scored.drop_columns(["day"]))
    records = pc.ModelStore(store).scorings("taxis")
    assert [record.partitions[0]["partition"]["day"] for record in records] == DAYS[:2]


def portable(kind: pa.DataType) -> pa.DataType:
    """A type that `postgres_table` writes."""
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.int64() if pa.types.is_integer(kind) else pa.string()


def test_the_example_dag_scores_a_day_in_postgres(
    run_dag: Callable[..., Any],
    warehouse: psycopg.Connection[Any],
    conn_id: str,
    tmp_path: Path,
) -> None:
    from airflow.dag_processing.dagbag import BundleDagBag

    days = ds.dataset(lay_out(tmp_path / "days", "day"), partitioning="hive").to_table(
        filter=ds.field("day") < "2011-02-01"
    )
    days = days.drop_columns(["time"])
    schema = pa.schema([(field.name, portable(field.type)) for field in days.schema])
    postgres_table(warehouse, days.cast(schema), "air_quality")
    store = pc.ModelStore(str(tmp_path / "models"))
    model = pc.fit(days, pc.ModelSpec.from_file(ROOT / "dags" / "specs" / "air_full.toml"))
    store.promote("air_full", store.save(model, "air_full"), alias="champion")
    bag = BundleDagBag(ROOT / "dags", bundle_path=ROOT / "dags", bundle_name="dags-folder")
    ran = run_dag(bag.dags["air_quality_sql"], "2011-01-21", home=str(tmp_path))["score"]
    day = days.filter(pac.equal(days["day"], ran.result["partition"]["day"]))
    assert ran.result["rows"] == len(day) == 24
    scored = fetched(warehouse.execute("SELECT * FROM air_quality_scored ORDER BY hour"))
    assert scored["prediction"].equals(model.predict_table(day)["prediction"].cast(pa.string()))


def task(conn_id: str, store: str, **fields: Any) -> ProbClassSQLScoreOperator:
    given = {"source": "trips", "sink": "others", "model": "taxis", **fields}
    given["options"] = {"columns": ["key"], **given.get("options", {})}
    return ProbClassSQLScoreOperator(task_id="score", conn_id=conn_id, store=store, **given)


def execute(operator: ProbClassSQLScoreOperator, run_id: str = "by hand") -> Any:
    return operator.execute({"run_id": run_id, "ti": Mock(map_index=-1)})  # type: ignore[arg-type]


def test_lineage_names_the_tables_and_columns_of_the_database(conn_id: str, store: str) -> None:
    operator = task(conn_id, store)
    summary = execute(operator)
    lineage = operator.get_openlineage_facets_on_complete(None)
    assert [each.name.rpartition("/")[2] for each in lineage.outputs] == ["airflow.public.others"]
    assert lineage.inputs[0].namespace == lineage.outputs[0].namespace
    assert lineage.outputs[0].facets["columnLineage"].fields["prediction"]
    assert lineage.outputs[0].outputFacets["outputStatistics"].rowCount == summary["rows"] == 300


@pytest.mark.parametrize(
    ("connection", "fields", "message"),
    [
        (None, {}, "connection 'absent' does not exist; create it"),
        ({"conn_type": "fs"}, {}, "connection 'other' "),
        ("warehouse", {"source": "absent"}, 'relation "absent" does not exist'),
        ("warehouse", {"where": "count < 0"}, "has no rows of the table to score"),
        ("warehouse", {"options": {"decision": "nothing"}}, "nothing"),
        ("warehouse", {"options": {"columns": ["absent"]}}, "absent"),
    ],
)
def test_what_is_wrong_is_one_clear_line(
    conn_id: str,
    store: str,
    connection: Any,
    fields: dict[str, Any],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "absent" if connection is None else "warehouse"
    if isinstance(connection, dict):
        monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(connection))
        name = "other"
    with pytest.raises((AirflowFailException, TableError), match=message) as raised:
        execute(task(name, store, **fields))
    assert "\n" not in str(raised.value)
    assert SECRET not in str(raised.value)
