"""First steps: init writes a project file for a table; demo trains and scores the bundled data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import tomli_w

import probclass_core as pc
from probclass_core.cli.options import Source
from probclass_core.cli.output import records_table, show
from probclass_core.cli.project import FILE
from probclass_core.demo.lake import lay_out
from probclass_core.errors import SpecError, check_known, hide_credentials
from probclass_core.io.table import Source as Table

_TEXT = """\
# Values for options and arguments of probclass that are not given; paths are relative to this file.
# Keys at the top apply to every command that has such an option, a table such as [fit] to one.

# Table to train on and to score. Its columns:
{columns}
{source}
# Column of the class; probclass fit derives a spec from the rows. Columns that reveal the class,
# such as those that are known only after it, belong in exclude.
{label}
# exclude = []

# Where models are kept, the model that commands use, and the table that score writes.
{model}
[fit]
alias = "champion"  # the new version is used at once; write "new" to compare it first: promote
cache = true  # fit reads only files that are new
{rows}"""

_ROWS = """\
# where = "{column} >= …"  # partitions to train on; probclass score scores those that are missing
"""

_MONTHS = [f"{month:02}" for month in range(1, 7)]
_TITLE = "Air quality in Beijing: each month of 2014, scored by a model of the twelve months before"
_METRICS = ("accuracy", "baseline_accuracy", "log_loss", "baseline_log_loss")


def init(
    source: Source,
    *,
    label: str | None = None,
    sink: str = "scored",
    store: str = "models",
) -> None:
    """Write a project file for a table, probclass.toml, in the working directory.

    Its comments list the columns of the table. With --label, 'probclass fit' and then
    'probclass score' need no more options. A file that exists is not overwritten.

    Example: probclass init lake --label air

    Options:
        label: COLUMN: column of the class.
        sink: scored table that score will write.
        store: URI: model store that fit will write.
    """
    table = pc.open_table(source)
    names = table.schema.names
    if label is not None:
        check_known([label], names, f"{source} has no column")
    name = re.sub(r"[^A-Za-z0-9]+", "_", label or Path(source).stem).strip("_") or "model"
    text = _TEXT.format(
        columns="\n".join(f"#   {line}" for line in _columns(table)),
        source=_toml(source=source),
        label='# label = "…"' if label is None else _toml(label=label).rstrip(),
        model=_toml(store=store, model=f"{name}@champion", sink=sink),
        rows="".join(_ROWS.format(column=column) for column in table.partition_columns[:1]),
    )
    try:
        with Path(FILE).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SpecError(f"{FILE} exists already; change it, or remove it first.") from None
    except OSError as error:
        raise SpecError(f"cannot write {FILE}: {error.strerror}.") from error
    found = f"{hide_credentials(source)}, {len(names)} columns"
    first = "probclass fit" if label else f"set the label in {FILE}, then probclass fit"
    show(
        {"file": FILE, "source": source, "label": label, "columns": names},
        f"Wrote {FILE} for {found}. Next: {first}, then probclass score.",
    )


def _columns(table: Table) -> list[str]:
    """The columns with their types; a name with a line break is no comment."""
    partition = {*table.partition_columns}
    return [
        f"{' '.join(column.name.split())}: {column.type}"
        + (", of the partitions" if column.name in partition else "")
        for column in table.schema
    ]


def _toml(**values: Any) -> str:
    return tomli_w.dumps(values)


def demo(
    directory: Annotated[Path, "DIR: Directory for the lake, models and scored tables."] = Path(
        "probclass-demo"
    ),
) -> None:
    """Train, score and evaluate models on bundled data; needs no setup and no Airflow.

    Writes the hourly air quality of Beijing as a lake partitioned by month. For each of six months,
    trains a model on the twelve months before it, scores the month and evaluates the result.
    """
    lake = lay_out(directory / "lake")
    results = [_run_month(directory, lake, month) for month in _MONTHS]
    show(
        {"directory": str(directory), "months": results},
        records_table(results, _TITLE, len(results)),
        _next_commands(directory, lake),
    )


def _run_month(directory: Path, lake: Path, month: str) -> dict[str, Any]:
    scored = f"2014-{month}"
    year = [("month", ">=", f"2013-{month}"), ("month", "<", scored)]
    model = pc.fit(lake, label="air", exclude="pm25", where=year)  # air is made from pm25
    store = pc.ModelStore(directory / "models")
    store.promote("air", store.save(model, "air"), alias=scored)
    partition = {"month": scored}
    options = pc.ScoringOptions(columns=["time", "air"])
    report = pc.score(model, lake, directory / "scored", partition=partition, options=options)
    evaluation = pc.evaluate(model, lake, partition=partition)
    return {
        "month": scored,
        "model_id": model.id,
        "rows": report.rows,
        "labeled": evaluation.rows,
        **{metric: getattr(evaluation, metric) for metric in _METRICS},
    }


def _next_commands(directory: Path, lake: Path) -> str:
    store, scored = f"--store {directory / 'models'}", directory / "scored"
    return (
        f"Scored tables are in {scored}. Next, try:\n"
        f"  probclass models {store}\n"
        f"  probclass inspect air@2014-06 {store}\n"
        f"  probclass evaluate air@2014-06 {lake} {store} --partition month=2014-07"
    )
