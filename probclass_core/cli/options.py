"""Options and arguments that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Parquet file or (Hive-partitioned) directory, Delta table, or "
        "iceberg://catalog/namespace.table.",
    ),
]
Ref = Annotated[
    str,
    typer.Argument(
        metavar="REF", help="Model: name@alias, name@id, or a name that has one version."
    ),
]
_STORE = typer.Option(
    "--store",
    metavar="URI",
    envvar="PROBCLASS_STORE",
    help="Model store: a directory or any fsspec URI.",
)
Store = Annotated[str, _STORE]
MaybeStore = Annotated[str | None, _STORE]
Partition = Annotated[
    list[str] | None,
    typer.Option(
        "--partition", metavar="COLUMN=VALUE", help="Only this partition; once per column."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only such rows: 'month >= 2013-01', 'wind in NW,SE'; all must hold.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="Threads; by default every processor."),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Who does the work: threads, processes, spark, or a plugin's; by default threads.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for machines.")]
Out = Annotated[
    Path, typer.Option("--out", metavar="FILE.png", help="Picture to write: png, svg, pdf …")
]
AxisX = Annotated[str, typer.Option("--x", metavar="COLUMN", help="Column of the horizontal axis.")]
AxisY = Annotated[str, typer.Option("--y", metavar="COLUMN", help="Column of the vertical axis.")]
Column = Annotated[str, typer.Option("--column", metavar="COLUMN", help="Column to draw.")]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="SOURCE", help="Rows to draw as well: file or directory."),
]
