"""Operate a model on some months in a local Airflow, one of which arrives without a column.

python -m probclass_airflow.demo [--months 6] [--output demo-output] [--stay] [--dags dags]
"""

from __future__ import annotations

import argparse
import fcntl
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import FrameType

import pyarrow.parquet as pq

import probclass_core as pc
from probclass_airflow.demo.local_airflow import DemoError, LocalAirflow
from probclass_airflow.demo.summary import done_by, months_table, save_timeline
from probclass_core.demo.lake import lay_out

ROOT = Path(__file__).resolve().parents[4]
DAG, MODEL, LOST = "air_quality_operate", "air", "dew_point"


def main() -> int:
    """Operate a model on some months in a local Airflow, one of which arrives without a column."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        with _own_folder(arguments.output.resolve()) as output:
            _operate(output, arguments.dags.resolve(), arguments.months, arguments.stay)
    except (DemoError, pc.ProbClassError, OSError) as error:
        _say(f"The demo failed: {error}")
        return 1
    except KeyboardInterrupt:
        _say("Airflow is stopped.")
        return 0 if arguments.stay else 130
    return 0


def _operate(output: Path, dags: Path, months: int, stay: bool) -> None:
    began = time.monotonic()
    lake, store = lay_out(output / "lake"), pc.ModelStore(output / "models")
    _say(f"Hourly weather and air quality in Beijing, one partition per month: {_shown(lake)}")
    _say("Airflow starts (SQLite, LocalExecutor, scheduler, DAG processor, API server)")
    with LocalAirflow(
        home=output / "airflow",
        dags=dags,
        plugins=dags.parent / "plugins",
        environment={
            "PROBCLASS_HOME": str(output),
            "AIRFLOW__PROBCLASS__STORES": store.uri,
        },
    ) as airflow:
        airflow.start()
        airflow.start_scheduler()
        _say(f"Airflow runs after {time.monotonic() - began:.0f} s, logs: {_shown(airflow.logs)}")
        _say(f"One run of {_shown(dags / DAG)}.py for each month:")
        tasks = 0
        for month in range(1, months + 1):
            if month == months // 2 + 1:
                _say(f"2014-{month:02}  the rows arrive without the column {LOST!r}")
                with lost_column(lake, month):
                    tasks += _run(airflow, store, month, is_faulty=True)
                _say(f"{'':9}the column is put back, as the owner of the table would do")
            else:
                tasks += _run(airflow, store, month)
        timeline = save_timeline(airflow, store, MODEL, output / "timeline.html")
        _say("", months_table(store.records(MODEL)), "")
        _say(f"Timeline      {_shown(timeline)}")
        _say(f"Scored table  {_shown(output / 'scored' / MODEL)}")
        _say(f"Versions      probclass models {MODEL} --store {_shown(output / 'models')}")
        _say("Explained in  docs/operate.md")
        _say(f"{tasks} tasks in {months} runs, {time.monotonic() - began:.0f} s in all.")
        if stay:
            _say(f"Models in Airflow: {airflow.url}/plugin/probclass. Ctrl-C stops Airflow.")
            airflow.stay()


def _run(airflow: LocalAirflow, store: pc.ModelStore, month: int, is_faulty: bool = False) -> int:
    """Run the DAG for a month of 2014, and say what it did; returns the number of its tasks.

    Raises:
        DemoError: if another task failed than the scoring of a faulty month, or that did not fail;
            the report at the end may fail.
    """
    began, run_id = time.monotonic(), f"2014-{month:02}"
    following = date(2014 + month // 12, month % 12 + 1, 1)
    state, tasks = airflow.run(DAG, run_id, date(2014, month, 1), following)
    failed = {task["task_id"]: task for task in tasks if task["state"] == "failed"}
    if failed.keys() - {f"{MODEL}.done"} != ({f"{MODEL}.score"} if is_faulty else set()):
        logs = "\n".join(airflow.log_of(task) for task in failed.values())
        raise DemoError(f"run {run_id} of {DAG}: {state}.\n{logs}")
    seconds = f"{time.monotonic() - began:.0f} s"
    _say(f"{run_id}  {state} in {seconds}: {'; '.join(done_by(store.records(MODEL), run_id))}")
    return len(tasks)


@contextmanager
def lost_column(lake: Path, month: int) -> Iterator[None]:
    """Take a column out of the file of a month of 2014, and put it back at the end."""
    file = lake / f"month=2014-{month:02}" / "part-0.parquet"
    whole = file.read_bytes()
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns([LOST]), file)
    try:
        yield
    finally:
        file.write_bytes(whole)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m probclass_airflow.demo", description=main.__doc__
    )
    parser.add_argument(
        "--months", type=int, choices=range(3, 13), default=6, help="number of months of 2014"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "demo-output", help="output folder")
    parser.add_argument(
        "--dags", type=Path, default=ROOT / "dags", help="DAG folder, next to plugins/"
    )
    parser.add_argument("--stay", action="store_true", help="keep Airflow running until Ctrl-C")
    return parser.parse_args()


def _say(*lines: str) -> None:
    """Print lines at once, also into a file or a pipe."""
    print(*lines, sep="\n", flush=True)  # noqa: T201


def _shown(path: Path) -> str:
    """The path, relative to the working directory if it is below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _own_folder(output: Path) -> Iterator[Path]:
    """Lock the output folder, and remove what an earlier demo left in it.

    Raises:
        DemoError: if another demo runs in it, or it has other files.
    """
    output.mkdir(parents=True, exist_ok=True)
    lock = output / ".lock"
    if not lock.exists() and any(output.iterdir()):
        raise DemoError(f"{output} has files that are not of the demo; choose another --output.")
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"another demo is running in {output}; choose another --output."
            ) from None
        for name in ("lake", "models", "scored"):
            shutil.rmtree(output / name, ignore_errors=True)
        yield output


if __name__ == "__main__":
    sys.exit(main())
