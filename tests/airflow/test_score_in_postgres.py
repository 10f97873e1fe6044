"""A DAG that scores a table in PostgreSQL, through the hook of its provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.dataset as ds
import pytest
from postgres_and_redis import postgres
from sql_cases import fetched, postgres_table

import probclass_core as pc
from probclass_core.demo.lake import lay_out

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[2]


@pytest.fixture
def warehouse(monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    """A server, to which the connection `warehouse` of Airflow leads."""
    with postgres() as url, psycopg.connect(url, autocommit=True) as connection:
        values = {"conn_type": "postgres", "host": connection.info.host}
        values |= {"login": "airflow", "password": "airflow", "schema": "airflow"}
        monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", json.dumps(values))
        yield connection


def portable(kind: pa.DataType) -> pa.DataType:
    """A type that `postgres_table` writes."""
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.int64() if pa.types.is_integer(kind) else pa.string()


def test_the_example_dag_scores_a_day_in_postgres(
    run_dag: Callable[..., Any],
    warehouse: psycopg.Connection[Any],
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
    assert (ran.state, ran.events.keys()) == ("success", {"air_quality_scored"})
    day = days.filter(pac.equal(days["day"], ran.result["day"]))
    assert ran.result["rows"] == len(day) == 24
    scored = fetched(warehouse.execute("SELECT * FROM air_quality_scored ORDER BY hour"))
    assert scored["prediction"].equals(model.predict_table(day)["prediction"].cast(pa.string()))
