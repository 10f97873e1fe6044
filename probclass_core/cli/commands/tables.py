"""table inspect, table clean, table formats: what lies in a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probclass_core.cli.options import Json, Partition, Where
from probclass_core.cli.output import facts, put, put_json
from probclass_core.cli.output import table as drawn
from probclass_core.cli.parsing import parse_partition, parse_where
from probclass_core.io.references import ABANDONED

if TYPE_CHECKING:
    from probclass_core.io.inspection import DataFiles, TableInspection

_MOST_PARTITIONS = 24
"""More than this are only counted; JSON has them all."""

table = typer.Typer(help="Look at tables, and clean up after killed writers.", no_args_is_help=True)

Place = Annotated[
    str,
    typer.Argument(metavar="URI", help="Path or URI of a table, as in delta+s3://bucket/table."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Its format, where a look does not tell."),
]


@table.command("inspect")
def inspect(
    uri: Place,
    partition: Partition = None,
    where: Where = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="By default the newest.")
    ] = None,
    format_name: Format = None,
    as_json: Json = False,
) -> None:
    """Show what a table is and holds: columns, partitions, rows, sizes, statistics.

    Footers and the log are read, and no rows. With --where, files that may hold such rows are
    counted whole.

    Example: probclass table inspect scored --partition month=2014-01
    """
    import probclass_core as pc

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    ref = pc.TableRef(uri, format=format_name, version=version)
    found = pc.inspect_table(ref, partition=one, where=conditions)
    if as_json:
        put_json(_document(found))
        return
    shown = [facts(_card(found)), drawn(_columns(found), "Columns")]
    parts = [] if found.files is None else found.files.by_partition()
    if 0 < len(parts) <= _MOST_PARTITIONS:
        shown.append(drawn(_partitions(parts), "Partitions"))
    put(*shown)


@table.command("clean")
def clean(
    uri: Place,
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than",
            metavar="HOURS",
            min=0.0,
            help="Leave what was touched more recently: it may belong to a living writer.",
        ),
    ] = ABANDONED / timedelta(hours=1),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")
    ] = False,
    format_name: Format = None,
    as_json: Json = False,
) -> None:
    """Remove what killed writers left of a table, and nothing else.

    No reader is shown any of it, so no row changes, at no version.

    Example: probclass table clean scored --dry-run
    """
    import probclass_core as pc

    ref = pc.TableRef(uri, format=format_name)
    removed = pc.clean_table(ref, older_than=timedelta(hours=older_than), dry_run=dry_run)
    if as_json:
        listed = [
            {"path": each.path, "bytes": each.bytes, "touched": each.touched} for each in removed
        ]
        put_json({"uri": ref.uri, "dry_run": dry_run, "removed": listed})
    elif not removed:
        put(f"Nothing older than {older_than:g} hours was left of {ref.uri}.")
    else:
        columns = {
            "path": [each.path for each in removed],
            "bytes": [each.bytes for each in removed],
            "last touched": [_minute(each.touched) for each in removed],
        }
        put(drawn(columns, "Would be removed" if dry_run else "Removed"))


@table.command("formats")
def formats(as_json: Json = False) -> None:
    """List the registered formats of tables.

    Example: probclass table formats
    """
    from probclass_core.plugins.manager import registry

    found = registry().table_formats.values()
    columns = {
        "format": [each.name for each in found],
        "tables": [each.summary for each in found],
        "can be": [", ".join(_abilities(each.sink, each.leftovers)) for each in found],
    }
    if as_json:
        listed = [
            {
                "name": each.name,
                "summary": each.summary,
                "written": each.sink is not None,
                "cleaned": each.leftovers is not None,
            }
            for each in found
        ]
        put_json({"formats": listed})
    else:
        put(drawn(columns, "Formats of tables"))


def _abilities(sink: object, leftovers: object) -> list[str]:
    able = {"read": True, "written": sink is not None, "cleaned": leftovers is not None}
    return [word for word, holds in able.items() if holds]


def _card(found: TableInspection) -> dict[str, Any]:
    card = {
        "table": found.uri,
        "format": found.format,
        "version": None if found.version is None else str(found.version),  # to be typed back
        "partitions": _span(found.partitions),
        "rows": found.rows,
    }
    if found.files is None:
        return card
    coverage = found.files.statistics_coverage
    return {
        **card,
        "files": len(found.files),
        "row groups": found.files.row_groups,
        "bytes": found.files.bytes,
        "written": _minute(found.files.written),
        "min and max": None if coverage is None else f"in {coverage:.0%} of row groups × columns",
        "scored by": ", ".join(found.files.models) or None,
    }


def _columns(found: TableInspection) -> dict[str, Sequence[Any]]:
    coverage = {} if found.files is None else found.files.coverage
    told = {name: f"{share:.0%}" for name, share in coverage.items()}
    told |= dict.fromkeys(found.partition_columns, "partition")
    return {
        "column": found.schema.names,
        "type": [str(column.type) for column in found.schema],
        "min and max": [told.get(name) for name in found.schema.names],
    }


def _partitions(parts: Sequence[tuple[Mapping[str, Any], DataFiles]]) -> dict[str, Sequence[Any]]:
    columns: dict[str, Sequence[Any]] = {
        "partition": [_name(partition) for partition, _ in parts],
        "files": [len(files) for _, files in parts],
        "rows": [files.rows for _, files in parts],
        "bytes": [files.bytes for _, files in parts],
        "written": [_minute(files.written) for _, files in parts],
    }
    models = [", ".join(model[:12] for model in files.models) for _, files in parts]
    return {**columns, "scored by": models} if any(models) else columns


def _document(found: TableInspection) -> dict[str, Any]:
    parts = [] if found.files is None else found.files.by_partition()
    coverage = {} if found.files is None else found.files.coverage
    return {
        "uri": found.uri,
        "format": found.format,
        "version": found.version,
        **(_sums(found.files) if found.files is not None else {"rows": found.rows}),
        "partition_columns": list(found.partition_columns),
        "schema": [
            {"name": column.name, "type": str(column.type), "statistics": coverage.get(column.name)}
            for column in found.schema
        ],
        "partitions": [{"partition": partition, **_sums(files)} for partition, files in parts]
        or [{"partition": partition} for partition in found.partitions],
    }


def _sums(files: DataFiles) -> dict[str, Any]:
    return {
        "rows": files.rows,
        "files": len(files),
        "row_groups": files.row_groups,
        "bytes": files.bytes,
        "written": files.written,
        "statistics_coverage": files.statistics_coverage,
        "models": files.models,
    }


def _span(partitions: Sequence[Mapping[str, Any]]) -> str | None:
    """How many, the first and the last."""
    if not partitions:
        return None
    ends = dict.fromkeys((_name(partitions[0]), _name(partitions[-1])))
    return f"{len(partitions):,}: {' … '.join(ends)}"


def _name(partition: Mapping[str, Any]) -> str:
    return "/".join(f"{column}={value}" for column, value in partition.items())


def _minute(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
