"""Run the air-quality DAGs over some months in a local Airflow, and print a summary.

python -m probclass_airflow.demo [--first 2014-01] [--months 12] [--output demo-output] [--stay]
                                   [--dags dags]
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import probclass_core as pc
from probclass_airflow.demo.local_airflow import DemoError, LocalAirflow
from probclass_airflow.demo.summary import display_path, results, show
from probclass_core.demo.lake import lay_out

ROOT = Path(__file__).resolve().parents[4]
TRAIN, SCORE = "air_quality_train", "air_quality_score"


def main() -> int:
    """Write the lake, train and score each month in Airflow, and print a summary."""
    arguments = _arguments()
    months = [_shifted(arguments.first, by) for by in range(arguments.months)]
    output = arguments.output.resolve()
    console = Console()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    started = time.monotonic()
    try:
        output.mkdir(parents=True, exist_ok=True)
        with _lock(output):
            lake = lay_out(output / "lake")
            console.print(f"Beijing air quality by month: [cyan]{display_path(lake)}[/]")
            _run_dags(console, output, arguments.dags.resolve(), months, arguments.stay)
    except (DemoError, pc.ProbClassError, OSError) as error:
        message = escape(str(error))
        console.print(f"[red]The demo failed:[/] {message}", highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Airflow is stopped.")
        return 0 if arguments.stay else 130
    console.print(f"Done in {time.monotonic() - started:.0f} s.")
    return 0


def _run_dags(console: Console, output: Path, dags: Path, months: list[date], stay: bool) -> None:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("months"),
        TimeElapsedColumn(),
        console=console,
    )
    with LocalAirflow(
        home=output / "airflow",
        dags=dags,
        plugins=dags.parent / "plugins",
        environment={
            "PROBCLASS_HOME": str(output),
            "AIRFLOW__PROBCLASS__STORES": str(output / "models"),
        },
    ) as airflow:
        with console.status("Airflow is starting (SQLite, LocalExecutor)"):
            airflow.start()
        console.print(
            f"Airflow runs at {airflow.url}, its logs are in [cyan]{display_path(airflow.logs)}[/]"
        )
        with console.status("Airflow is creating the runs"):
            for dag_id in (TRAIN, SCORE):
                airflow.create_backfill(dag_id, months[0], months[-1])
            airflow.start_scheduler()
        with bar:
            for verb, dag_id in (("Training", TRAIN), ("Scoring", SCORE)):
                task = bar.add_task(verb, total=len(months))
                for done in airflow.run_backfill(dag_id, runs=len(months)):
                    bar.update(task, completed=done)
        show(console, results(airflow.asset_events(SCORE)), output)
        if stay:
            page = f"{airflow.url}/plugin/probclass"
            console.print(
                f"Models: [cyan]{page}[/] (no login needed). Ctrl-C stops Airflow.",
                soft_wrap=True,
            )
            airflow.stay()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m probclass_airflow.demo", description=main.__doc__
    )
    parser.add_argument("--first", type=_month, default="2014-01", help="first month to score")
    parser.add_argument(
        "--months", type=int, default=12, help="number of months to score, at least 1"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "demo-output", help="output folder")
    parser.add_argument(
        "--dags", type=Path, default=ROOT / "dags", help="DAG folder, next to plugins/"
    )
    parser.add_argument("--stay", action="store_true", help="keep Airflow running until Ctrl-C")
    arguments = parser.parse_args()
    first, last = date(2011, 1, 1), date(2014, 12, 1)
    if not (
        arguments.months >= 1
        and first <= arguments.first
        and _shifted(arguments.first, arguments.months - 1) <= last
    ):
        parser.error(f"months to score must be between {first:%Y-%m} and {last:%Y-%m}")
    return arguments


def _month(text: str) -> date:
    return date.fromisoformat(f"{text}-01")


def _shifted(month: date, by: int) -> date:
    years, index = divmod(month.month - 1 + by, 12)
    return date(month.year + years, index + 1, 1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _lock(output: Path) -> Iterator[None]:
    """Keep other demos out of an output folder."""
    with (output / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"another demo is running in {output}; choose another --output."
            ) from None
        yield


if __name__ == "__main__":
    sys.exit(main())
