"""Whoever does the work, the model, the evaluation and the scored table are the same."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tasks
from backwards import Backwards
from tasks import SPEC, CursedTable, digests, rows_in, rows_of
from typer.testing import CliRunner

import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.execution.serialization import answer_of, packed, settled
from probclass_core.plugins import manager as plugins

ROWS = 600


def process_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def model(lake: Path) -> pc.Model:
    return pc.fit(lake, SPEC)


@pytest.fixture(scope="module")
def scored(model: pc.Model, lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By threads."""
    place = tmp_path_factory.mktemp("scored") / "table"
    pc.score(model, lake, place)
    return place


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with process_pool() as executor:
        yield executor


@pytest.fixture(params=["process pool", "thread pool", "an engine"])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "process pool":
        yield request.getfixturevalue("pool")
    elif request.param == "thread pool":
        with ThreadPoolExecutor(3) as executor:
            yield executor
    else:
        yield Backwards()


def test_the_content_ids_are_those_of_threads(model: pc.Model, lake: Path, engine: Any) -> None:
    told: list[tuple[int, int | None]] = []
    found = pc.fit(lake, SPEC, engine=engine, workers=2, progress=lambda *rows: told.append(rows))
    assert found.id == model.id
    assert told[-1] == (ROWS, ROWS)
    assert len(told) == 10, "a fragment at a time"
    some = {"partition": {"month": 3}}
    statistics = pc.summarize(lake, SPEC, engine=engine, workers=2, **some)
    bundle = pc.summarize(lake, SPEC, **some).to_bundle()
    assert statistics.to_bundle().content_id == bundle.content_id


def test_an_evaluation_is_the_same_to_the_last_bit(
    model: pc.Model, lake: Path, engine: Any
) -> None:
    rule = pc.DecisionRule(min_probability=0.7)
    found = pc.evaluate(model, lake, decision=rule, engine=engine, workers=2)
    assert found.to_dict() == pc.evaluate(model, lake, decision=rule).to_dict()


def test_a_scored_table_is_the_same_byte_for_byte_and_committed_here(
    model: pc.Model, lake: Path, scored: Path, tmp_path: Path, engine: Any
) -> None:
    sink, told = tmp_path / "scored", []
    standing: list[int] = []

    def tell(done: int, total: int | None) -> None:
        told.append((done, total))
        standing.append(len(list(sink.glob("month=*"))))

    report = pc.score(model, lake, sink, engine=engine, workers=2, progress=tell)
    assert report.rows == ROWS
    assert told[-1] == (ROWS, ROWS)
    assert standing == sorted(standing), "one commit after another"
    assert set(standing) == set(range(5)), "each after its rows were told"
    assert digests(sink) == digests(scored)
    again = pc.score(model, lake, sink, engine=engine)
    assert (again.skipped, again.commit_id) == (5, report.commit_id)
    assert list(tmp_path.iterdir()) == [sink], "nothing is left behind"


def test_options_of_a_scoring_reach_the_workers(
    model: pc.Model, lake: Path, tmp_path: Path, pool: Executor
) -> None:
    rule = pc.DecisionRule(min_probability=0.8)
    options: dict[str, Any] = {"columns": ["id"], "posterior": "list", "decision": rule}
    where = [("id", "<", 6000)]
    one = pc.score(model, lake, tmp_path / "one", where=where, **options)
    other = pc.score(model, lake, tmp_path / "other", where=where, engine=pool, **options)
    assert one.commit_id == other.commit_id
    assert digests(tmp_path / "one") == digests(tmp_path / "other")
    whole = pa.Table.from_batches(pc.open_table(lake).plan().batches())
    pc.score(model, whole, tmp_path / "here.parquet")
    pc.score(model, whole, tmp_path / "there.parquet", engine=pool)
    assert rows_in(tmp_path / "here.parquet") == rows_in(tmp_path / "there.parquet")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_workers_write_into_tables_with_a_log(
    model: pc.Model, lake: Path, scored: Path, tmp_path: Path, pool: Executor, kind: str
) -> None:
    sink = pc.TableRef(str(tmp_path / "scored"), format="delta")
    if kind == "iceberg":
        home = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
        sink = pc.TableRef("iceberg://home/a.scored", options={"type": "sql", **home})
    report = pc.score(model, lake, sink, columns=["id", "month"], engine=pool)
    assert (report.rows, len(report.partitions)) == (ROWS, 5)
    assert pc.score(model, lake, sink, columns=["id", "month"]).skipped == 5
    expected = [{name: row[name] for name in ("id", "month", "p_good")} for row in rows_in(scored)]
    assert [{name: row[name] for name in expected[0]} for row in rows_in(sink)] == expected
    more = pc.score(
        model,
        lake,
        sink,
        columns=["id", "month"],
        where=[("id", "<", 30)],
        overwrite="append",
        engine=pool,
    )
    assert len(rows_in(sink)) == ROWS + more.rows == ROWS + 30


def test_kept_statistics_are_not_made_again(lake: Path, tmp_path: Path, pool: Executor) -> None:
    spec = dataclasses.replace(SPEC, blocks=[SPEC.blocks[0], SPEC.blocks[3]])
    store = tmp_path / "models"
    pc.summarize(lake, spec, cache=store, engine=pool, partition={"month": 2})
    models = [pc.fit(lake, spec, cache=store, engine=engine) for engine in (pool, pool, None)]
    assert [one.training["cache"]["reused"] for one in models] == [2, 10, 10]
    assert {one.id for one in models} == {pc.fit(lake, spec).id}


def test_rows_in_memory_are_sent_and_a_reader_is_not(pool: Executor) -> None:
    table = pa.concat_tables([rows_of(seed) for seed in range(3)])
    assert pc.fit(table, SPEC, engine=pool).id == pc.fit(table, SPEC).id
    with pytest.raises(pc.SpecError, match="a reader, which can be read once, cannot be sent"):
        pc.fit(table.to_reader(), SPEC, engine=pool)


def test_what_fails_once_is_done_again(
    model: pc.Model, lake: Path, tmp_path: Path, pool: Executor
) -> None:
    for engine, befalls in (("processes", tasks.die_once), (pool, tasks.fail_once)):
        source = CursedTable(lake, 3, befalls, tmp_path / befalls.__name__)
        assert pc.fit(source, SPEC, engine=engine, workers=2).id == model.id
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("befalls", "message"),
    [
        (tasks.die, r"month=01/1\.parquet \(row groups 0 to 0\): its worker was lost 3 times"),
        (tasks.fail, r"month=01/1\.parquet .*: failed 3 times, .* RuntimeError: no such luck\.$"),
    ],
)
def test_what_always_fails_is_named(
    lake: Path, tmp_path: Path, pool: Executor, befalls: Any, message: str
) -> None:
    source = CursedTable(lake, 3, befalls, tmp_path / "flag")
    engine = "processes" if befalls is tasks.die else pool
    with pytest.raises(pc.TableError, match=message):
        pc.fit(source, SPEC, engine=engine, workers=2)


def test_an_executor_of_others_that_lost_a_worker_is_not_replaced(
    lake: Path, tmp_path: Path
) -> None:
    source = CursedTable(lake, 3, tasks.die, tmp_path / "flag")
    with process_pool() as executor, pytest.raises(pc.TableError, match="lost a worker at one of"):
        pc.fit(source, SPEC, engine=executor, workers=2)
    with ThreadPoolExecutor(1) as closed:
        closed.submit(int)
    with pytest.raises(pc.TableError, match="cannot schedule new futures after shutdown"):
        pc.fit(lake, SPEC, engine=closed)


def test_wrong_rows_are_told_at_once_and_alike(tmp_path: Path, pool: Executor) -> None:
    table = {"x": [1.0, float("inf")], "air": ["good", "bad"]}
    spec = pc.ModelSpec("air", [pc.Block("gaussian_diagonal", ["x"])])
    said = []
    for engine in (None, pool):
        with pytest.raises(pc.DataError) as raised:
            pc.fit(table, spec, engine=engine)
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_a_killed_scoring_worker_leaves_no_mark(
    model: pc.Model, lake: Path, scored: Path, tmp_path: Path, pool: Executor
) -> None:
    source = CursedTable(lake, 1, tasks.die_once, tmp_path / "flag")
    report = pc.score(model, source, tmp_path / "scored", engine="processes", workers=2)
    assert report.rows == ROWS
    assert rows_in(tmp_path / "scored") == rows_in(scored)
    source = CursedTable(lake, 0, tasks.fail, tmp_path / "flag")
    with pytest.raises(pc.TableError, match="month=0: failed 3 times"):
        pc.score(model, source, tmp_path / "none", engine=pool)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flag", "scored"]


def test_a_scoring_that_is_canceled_commits_nothing_more(
    model: pc.Model, lake: Path, tmp_path: Path, pool: Executor
) -> None:
    def stop(done: int, total: int | None) -> None:
        if done == 360:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pc.score(model, lake, tmp_path / "scored", progress=stop, engine=pool)
    assert len(rows_in(tmp_path / "scored")) == 240
    assert [path.name for path in tmp_path.iterdir()] == ["scored"]


def test_an_engine_comes_from_a_plugin(
    model: pc.Model, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plugins.build([EntryPoint("backwards", "backwards", "probclass")])
    monkeypatch.setattr(plugins, "_installed", lambda: found)
    for engine in ("backwards", "the other way around", None, "threads"):
        if engine == "the other way around":
            with pytest.raises(pc.PluginError, match="unknown engine 'the other way around'"):
                pc.fit(lake, SPEC, engine=engine)
        else:
            assert pc.fit(lake, SPEC, engine=engine).id == model.id
    with pytest.raises(pc.PluginError, match="'backwards', 'processes', 'spark', 'threads'"):
        pc.fit(lake, SPEC, engine="dusk")
    with pytest.raises(pc.SpecError, match="12 is no engine"):
        pc.fit(lake, SPEC, engine=12)


def test_the_command_line_names_an_engine(
    model: pc.Model, lake: Path, scored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plugins.build([EntryPoint("backwards", "backwards", "probclass")])
    monkeypatch.setattr(plugins, "_installed", lambda: found)
    monkeypatch.setenv("PROBCLASS_STORE", str(tmp_path / "models"))
    (tmp_path / "spec.json").write_text(json.dumps(SPEC.to_dict()))

    def told(*arguments: object) -> Any:
        ran = CliRunner().invoke(app, [*map(str, arguments), "--engine", "backwards", "--json"])
        assert ran.exit_code == 0, ran.stderr
        return json.loads(ran.stdout)

    fitted = told("fit", lake, "--spec", tmp_path / "spec.json", "--name", "air")
    assert fitted["model_id"] == model.id
    assert told("evaluate", "air", lake)["log_loss"] == pc.evaluate(model, lake).log_loss
    assert told("score", "air", lake, tmp_path / "scored")["rows"] == ROWS
    assert digests(tmp_path / "scored") == digests(scored)
    refused = CliRunner().invoke(app, ["evaluate", "air", str(lake), "--engine", "dusk"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "unknown engine 'dusk'" in refused.stderr


def test_a_worker_of_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(pc, "__version__", "0.0.1")
        sent = packed(len)
    with pytest.raises(pc.PluginError, match=r"was sent work by 0\.0\.1; install the same"):
        settled("rows", answer_of(sent, packed("four")), lambda: b"")


def test_without_pyspark_its_engine_says_so(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("probclass_core.execution.spark", "pyspark.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(pc.NotSupportedError, match=r"pip install 'probclass\[spark\]'"):
        pc.fit(lake, SPEC, engine="spark")
