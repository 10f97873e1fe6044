"""Every engine gives the same model, the same evaluation and the same scored table."""

from __future__ import annotations

import json
import multiprocessing
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import reversed_engine
import workloads
from click.testing import CliRunner
from lakes import digests
from model_values import digest_of
from python_processes import start_python
from reversed_engine import ReversedEngine
from workloads import SPEC, UNLABELED, WEIGHTED, FaultyTable, rows_of, scored_rows

import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.errors import DataError, PluginError, SpecError, TableError
from probclass_core.execution.serialization import resolve, run, serialize
from probclass_core.execution.threads import ordered_map, prefetch
from probclass_core.plugins import manager as plugins

ROWS = 600


def process_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def model(lake: Path) -> pc.Model:
    assert {block.estimator for block in SPEC.blocks} == set(pc.estimators())
    return pc.fit(lake, SPEC)


@pytest.fixture(scope="module")
def scored(model: pc.Model, lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table as scored by threads."""
    folder = tmp_path_factory.mktemp("scored") / "table"
    pc.score(model, lake, folder)
    return folder


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with process_pool() as executor:
        yield executor


@pytest.fixture(
    params=[
        "process pool",
        "thread pool",
        "engine object",
        pytest.param(
            "spark",
            marks=[
                pytest.mark.services,
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
            ],
        ),
    ]
)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "process pool":
        yield request.getfixturevalue("pool")
    elif request.param == "spark":
        yield request.getfixturevalue("spark")
    elif request.param == "thread pool":
        with ThreadPoolExecutor(3) as executor:
            yield executor
    else:
        yield ReversedEngine()


@pytest.fixture
def reversed_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the plugin of the reversed engine."""
    registry = plugins.build([EntryPoint("reversed", "reversed_engine", "probclass")])
    monkeypatch.setattr(plugins, "_installed", lambda: registry)


def test_content_ids_equal_those_of_threads(model: pc.Model, lake: Path, engine: Any) -> None:
    reports: list[tuple[int, int | None]] = []
    fitted = pc.fit(
        lake, SPEC, engine=engine, workers=2, progress=lambda *rows: reports.append(rows)
    )
    assert fitted.id == model.id
    assert reports[-1] == (ROWS, ROWS)
    assert len(reports) == 5, "one report per unit"
    for spec in (WEIGHTED, UNLABELED):
        assert pc.fit(lake, spec, engine=engine).id == pc.fit(lake, spec).id
    march: dict[str, Any] = {"partition": {"month": 3}}
    statistics = pc.summarize(lake, SPEC, engine=engine, workers=2, **march)
    expected = pc.summarize(lake, SPEC, **march)
    assert digest_of(statistics) == digest_of(expected)


def test_an_evaluation_is_the_same_to_the_last_bit(
    model: pc.Model, lake: Path, engine: Any
) -> None:
    rule = pc.DecisionRule(min_probability=0.7)
    evaluation = pc.evaluate(model, lake, decision=rule, engine=engine, workers=2)
    assert evaluation.to_dict() == pc.evaluate(model, lake, decision=rule).to_dict()


def test_a_scored_table_has_the_same_bytes_and_this_process_commits_it(
    model: pc.Model, lake: Path, scored: Path, tmp_path: Path, engine: Any
) -> None:
    sink, reports = tmp_path / "scored", []
    committed: list[int] = []

    def progress(done: int, total: int | None) -> None:
        reports.append((done, total))
        committed.append(len(list(sink.glob("month=*"))))

    report = pc.score(model, lake, sink, engine=engine, workers=2, progress=progress)
    assert report.rows == ROWS
    assert reports[-1] == (ROWS, ROWS)
    assert committed == sorted(committed), "one commit after another"
    assert set(committed) == set(range(5)), "each after a report of its rows"
    assert digests(sink) == digests(scored)
    again = pc.score(model, lake, sink, engine=engine)
    assert (again.counts["unchanged"], again.commit_id) == (5, report.commit_id)
    assert list(tmp_path.iterdir()) == [sink], "nothing is left behind"


def test_the_results_do_not_depend_on_the_unit_that_ends_first(
    model: pc.Model, lake: Path, scored: Path, tmp_path: Path
) -> None:
    slow = FaultyTable(lake, 0, workloads.take_a_nap, tmp_path / "unused")
    for table, workers in ((lake, 1), (slow, 2), (slow, 4)):
        assert pc.fit(table, SPEC, workers=workers).id == model.id
    pc.score(model, slow, tmp_path / "scored", workers=3)
    assert digests(tmp_path / "scored") == digests(scored)


def test_options_of_scoring_reach_the_workers(
    model: pc.Model, lake: Path, tmp_path: Path, pool: Executor
) -> None:
    rule = pc.DecisionRule(min_probability=0.8)
    rows = [("id", "<", 6000)]
    options: dict[str, Any] = {"columns": ["id"], "posterior": "list", "decision": rule}
    more: dict[str, Any] = {"where": rows, "options": options}
    threads = pc.score(model, lake, tmp_path / "threads", **more)
    processes = pc.score(model, lake, tmp_path / "processes", engine=pool, **more)
    assert threads.commit_id == processes.commit_id
    assert digests(tmp_path / "threads") == digests(tmp_path / "processes")
    table = pa.Table.from_batches(pc.open_table(lake).plan().batches())
    pc.score(model, table, tmp_path / "threads.parquet")
    pc.score(model, table, tmp_path / "processes.parquet", engine=pool)
    files = [tmp_path / f"{name}.parquet" for name in ("threads", "processes")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_rows_in_memory_are_sent_but_not_a_reader(pool: Executor) -> None:
    table = pa.concat_tables([rows_of(seed) for seed in range(3)])
    assert pc.fit(table, SPEC, engine=pool).id == pc.fit(table, SPEC).id
    with pytest.raises(SpecError, match="a reader, which can be read once, cannot be sent"):
        pc.fit(table.to_reader(), SPEC, engine=pool)


def test_a_unit_that_fails_once_is_read_again(
    model: pc.Model, lake: Path, tmp_path: Path, pool: Executor
) -> None:
    for engine, fault in (
        ("processes", workloads.kill_worker_once),
        (pool, workloads.raise_error_once),
    ):
        source = FaultyTable(lake, 2, fault, tmp_path / fault.__name__)
        assert pc.fit(source, SPEC, engine=engine, workers=2).id == model.id
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param(
            workloads.kill_worker,
            r"2 files from .*month=01/0\.parquet .*: its worker was lost 3 times",
            marks=pytest.mark.nightly,
        ),
        (
            workloads.raise_error,
            r"2 files from .*/0\.parquet .*: failed 3 times, .* RuntimeError: no such luck\.$",
        ),
    ],
)
def test_a_unit_that_always_fails_is_named(
    lake: Path, tmp_path: Path, pool: Executor, fault: Any, message: str
) -> None:
    source = FaultyTable(lake, 1, fault, tmp_path / "flag")
    engine = "processes" if fault is workloads.kill_worker else pool
    with pytest.raises(TableError, match=message):
        pc.fit(source, SPEC, engine=engine, workers=2)


def test_a_broken_executor_of_the_caller_is_not_replaced(lake: Path, tmp_path: Path) -> None:
    source = FaultyTable(lake, 3, workloads.kill_worker, tmp_path / "flag")
    with process_pool() as executor, pytest.raises(TableError, match="lost a worker at one of"):
        pc.fit(source, SPEC, engine=executor, workers=2)
    with ThreadPoolExecutor(1) as closed:
        closed.submit(int)
    with pytest.raises(TableError, match="cannot schedule new futures after shutdown"):
        pc.fit(lake, SPEC, engine=closed)


def test_wrong_rows_give_the_same_error_at_once(pool: Executor) -> None:
    table = {"x": [1.0, float("inf")], "air": ["good", "bad"]}
    spec = pc.ModelSpec("air", [pc.Block("gaussian_diagonal", ["x"])])
    messages = []
    for engine in (None, pool):
        with pytest.raises(DataError) as raised:
            pc.fit(table, spec, engine=engine)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_a_scoring_worker_that_is_killed_half_way_leaves_nothing_behind(
    model: pc.Model, lake: Path, scored: Path, tmp_path: Path
) -> None:
    source = FaultyTable(lake, 0, workloads.kill_worker_once, tmp_path / "flag")
    report = pc.score(model, source, tmp_path / "scored", engine="processes", workers=2)
    assert report.rows == ROWS
    assert digests(tmp_path / "scored") == digests(scored)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flag", "scored"]


def test_scoring_that_is_canceled_commits_nothing_more(
    model: pc.Model, lake: Path, tmp_path: Path, pool: Executor
) -> None:
    def cancel(done: int, total: int | None) -> None:
        if done == 360:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pc.score(model, lake, tmp_path / "scored", progress=cancel, engine=pool)
    assert len(scored_rows(tmp_path / "scored")) == 240
    assert [path.name for path in tmp_path.iterdir()] == ["scored"]


@pytest.mark.usefixtures("reversed_plugin")
def test_a_plugin_brings_an_engine(model: pc.Model, lake: Path) -> None:
    for engine in ("reversed", reversed_engine.HANDLE, None, "threads"):
        assert pc.fit(lake, SPEC, engine=engine).id == model.id
    with pytest.raises(PluginError, match="unknown engine 'nosuch'") as raised:
        pc.fit(lake, SPEC, engine="nosuch")
    assert "'processes', 'reversed', 'spark', 'threads'" in str(raised.value)
    with pytest.raises(SpecError, match="12 is not an engine"):
        pc.fit(lake, SPEC, engine=12)


@pytest.mark.usefixtures("reversed_plugin")
@pytest.mark.parametrize("command", ["fit", "evaluate", "score"])
def test_commands_take_the_name_of_an_engine(
    model: pc.Model, lake: Path, tmp_path: Path, command: str
) -> None:
    pc.ModelStore(tmp_path / "models").save(model, "air")
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(SPEC.to_dict()))
    words = {"fit": [lake, "--spec", spec, "--name", "air"], "evaluate": ["air", lake]}
    words["score"] = ["air", lake, tmp_path / "scored"]
    arguments = [command, *map(str, words[command]), "--store", str(tmp_path / "models")]
    for engine, ended in (("reversed", (0, 0)), ("nosuch", (2, 1))):
        result = CliRunner().invoke(app, [*arguments, "--engine", engine, "--json"])
        assert (result.exit_code, result.stderr.count("unknown engine 'nosuch'")) == ended


def test_a_worker_of_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("probclass_core.execution.serialization.VERSION", "0.0.1")
        work = serialize(len)
    with pytest.raises(PluginError, match=r"was sent work by 0\.0\.1; install the same"):
        resolve("rows", run(work, serialize("four")), lambda: b"")


def test_a_script_that_starts_processes_when_it_is_imported_is_told_to_guard_it(
    lake: Path, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import probclass_core as pc\n"
        f"spec = pc.ModelSpec.from_dict({SPEC.to_dict()!r})\n"
        f"pc.fit({str(lake)!r}, spec, engine='processes')\n"
    )
    process = start_python(script, stderr=subprocess.PIPE)
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == 1
    assert re.search("SpecError: worker .* outside `if __name__ == '__main__':`.*\n$", errors)


def test_the_thread_that_reads_ahead_may_end_the_reading() -> None:
    """As the garbage collector may, which ends a reading in any thread."""
    paused, ended = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        paused.wait(10)
        reading.close()
        ended.set()
        yield 2

    reading = prefetch(items())
    assert next(reading) == 1
    paused.set()
    assert ended.wait(10)
    assert list(reading) == []


def test_a_failed_map_ends_after_the_work_that_has_begun() -> None:
    begun, ended = threading.Event(), threading.Event()

    def fail() -> None:
        begun.wait(10)
        raise ValueError("failed")

    def slow() -> None:
        begun.set()
        time.sleep(0.2)
        ended.set()

    with pytest.raises(ValueError, match="failed"):
        list(ordered_map(lambda draw: draw(), [fail, slow], workers=2))
    assert ended.is_set()


@pytest.mark.parametrize("read", [prefetch, partial(ordered_map, lambda draw: draw(), workers=2)])
def test_ending_an_abandoned_reading_waits_for_no_thread(read: Callable[..., Any]) -> None:
    """The garbage collector may end it while it holds a lock without which no thread ends."""
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        goes_on.wait(10)
        ended.set()

    def drawn() -> Iterator[None]:
        yield
        slow()

    reading = read(drawn() if read is prefetch else [str, slow, slow, str, str])
    next(reading)
    assert begun.wait(10)
    reading.close()
    assert not ended.is_set()
    goes_on.set()
