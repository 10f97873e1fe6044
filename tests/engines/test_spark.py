"""Spark's executors in place of threads: the same ids and the same bytes, classic and Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tasks
from tasks import SPEC, CursedTable, digests

import probclass_core as pc
from probclass_core.scoring import partition as scoring

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def test_a_classic_session_gives_the_same(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    model, told = pc.fit(lake, SPEC), []
    assert pc.fit(lake, SPEC, engine=spark, progress=lambda *rows: told.append(rows)).id == model.id
    assert told[-1] == (600, 600)
    some = pc.summarize(lake, SPEC, engine="spark", where=[("month", "<", 2)]).to_bundle()
    assert (
        some.content_id
        == pc.summarize(lake, SPEC, where=[("month", "<", 2)]).to_bundle().content_id
    )
    evaluation = pc.evaluate(model, lake, engine=spark)
    assert evaluation.to_dict() == pc.evaluate(model, lake).to_dict()
    reports = [
        pc.score(model, lake, tmp_path / name, engine=engine)
        for name, engine in (("here", None), ("there", spark))
    ]
    assert reports[0].commit_id == reports[1].commit_id
    assert digests(tmp_path / "here") == digests(tmp_path / "there")
    assert pc.score(model, lake, tmp_path / "there", engine=spark).skipped == 5


def test_a_lost_worker_costs_a_retry_and_the_fragment_that_kills_it_is_named(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    once = CursedTable(lake, 3, tasks.die_once, tmp_path / "flag")
    assert pc.fit(once, SPEC, engine=spark).id == pc.fit(lake, SPEC).id
    always = CursedTable(lake, 3, tasks.die, tmp_path / "flag")
    with pytest.raises(pc.TableError, match=r"month=01/1\.parquet .*: its worker was lost 3 times"):
        pc.fit(always, SPEC, engine=spark)


def test_parts_of_a_partition_are_scored_by_many_and_a_lost_one_anew(
    spark: SparkSession, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "PART_ROWS", 60)
    model = pc.fit(lake, SPEC)
    pc.score(model, lake, tmp_path / "here")
    once = CursedTable(lake, 1, tasks.die_once, tmp_path / "flag")
    assert pc.score(model, once, tmp_path / "there", engine=spark).rows == 600
    assert (tmp_path / "flag").exists()
    assert len(list((tmp_path / "there").glob("*/*.parquet"))) == 10
    assert digests(tmp_path / "here") == digests(tmp_path / "there")


def test_a_session_of_connect_gives_the_same(lake: Path, tmp_path: Path) -> None:
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, here / "connected.py", lake, tmp_path],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(here)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["session"] == "pyspark.sql.connect.session"
    model = pc.fit(lake, SPEC)
    assert told["model"] == model.id
    assert told["statistics"] == pc.summarize(lake, SPEC).to_bundle().content_id
    assert told["log_loss"] == pc.evaluate(model, lake).log_loss
    pc.score(model, lake, tmp_path / "here")
    assert told["rows"] == 600
    assert told["digests"] == digests(tmp_path / "here")
