"""table inspect, labels, clean and formats: look at tables and remove leftover files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

import probclass_core as pc
from probclass_core.cli.options import DryRun, Rows
from probclass_core.cli.output import key_values, partition_path, show, table
from probclass_core.io.inspection import DataFiles, TableInspection
from probclass_core.io.labels import count_labels
from probclass_core.io.references import ABANDONED
from probclass_core.plugins.manager import registry
from probclass_core.store.display import minute

_MAX_PARTITIONS = 24
"""If there are more partitions than this, a report only counts them; JSON lists all."""

Uri = Annotated[str, "URI: Path or URI of a table, such as delta+s3://bucket/table."]
Format = Annotated[str | None, "--format NAME: Format of the table, if it cannot be recognized."]


def inspect(
    uri: Uri, *, rows: Rows, version: int | None = None, format_name: Format = None
) -> None:
    """Show the columns, partitions, rows, sizes and statistics of a table.

    Only metadata is read: file footers and logs. With --where, each file that may contain matching
    rows counts with all of its rows.

    Example: probclass table inspect scored --partition month=2014-01

    Options:
        version: version of the table; by default the newest.
    """
    ref = pc.TableRef(uri, format=format_name, version=version)
    inspection = pc.inspect_table(ref, **vars(rows))
    partitions = [] if inspection.files is None else inspection.files.by_partition()
    show(
        _document(inspection),
        key_values(_card(inspection)),
        table(_columns(inspection), "Columns"),
        table(_partitions(partitions), "Partitions")
        if 0 < len(partitions) <= _MAX_PARTITIONS
        else None,
    )


def labels(
    uri: Uri,
    label: Annotated[str, "LABEL: The class column."],
    *,
    rows: Rows,
    format_name: Format = None,
) -> None:
    """Count the rows that have a label, to know whether labels have arrived.

    Example: probclass table labels lake air --partition month=2014-01
    """
    ref = pc.TableRef(uri, format=format_name)
    counts = count_labels(ref, label, **vars(rows))
    show(
        {"uri": ref.uri, "label": label, **counts.to_dict()},
        f"{counts.labeled:,} of {counts.rows:,} rows have a label ({counts.share:.1%}).",
    )


def clean(
    uri: Uri,
    *,
    older_than: Annotated[float, {"min": 0.0}] = ABANDONED / timedelta(hours=1),
    dry_run: DryRun = False,
    format_name: Format = None,
) -> None:
    """Remove files that killed writers left in a table.

    Readers never see these files, so no version of the table changes.

    Example: probclass table clean scored --dry-run

    Options:
        older_than: HOURS: keep files modified more recently: their writer may still be running.
    """
    ref = pc.TableRef(uri, format=format_name)
    removed = pc.clean_table(ref, older_than=timedelta(hours=older_than), dry_run=dry_run)
    columns = {
        "path": [leftover.path for leftover in removed],
        "bytes": [leftover.bytes for leftover in removed],
        "modified": [minute(leftover.touched) for leftover in removed],
    }
    fields = ("path", "bytes", "touched")
    records = [{name: getattr(leftover, name) for name in fields} for leftover in removed]
    show(
        {"uri": ref.uri, "dry_run": dry_run, "removed": records},
        table(columns, "Would be removed" if dry_run else "Removed")
        if removed
        else f"Found no leftover files older than {older_than:g} hours in {ref.uri}.",
    )


def formats() -> None:
    """List the registered table formats, and whether each can be written and cleaned.

    Example: probclass table formats
    """
    records = [
        {
            "name": table_format.name,
            "summary": table_format.summary,
            "written": table_format.can("sink"),
            "cleaned": table_format.can("leftovers"),
        }
        for table_format in registry().table_formats.values()
    ]
    columns = {
        "format": [record["name"] for record in records],
        "tables": [record["summary"] for record in records],
        "can be": [
            ", ".join(["read", *(verb for verb in ("written", "cleaned") if record[verb])])
            for record in records
        ],
    }
    show({"formats": records}, table(columns, "Table formats"))


def _card(inspection: TableInspection) -> dict[str, Any]:
    version, files = inspection.version, inspection.files
    card = {
        "table": inspection.uri,
        "format": inspection.format,
        "version": None if version is None else str(version),  # unformatted, for --version
        "partitions": _span(inspection.partitions),
        "rows": inspection.rows,
    }
    if files is None:
        return card
    coverage = files.statistics_coverage
    return {
        **card,
        "files": len(files),
        "row groups": files.row_groups,
        "bytes": files.bytes,
        "written": minute(files.written),
        "min and max": None if coverage is None else f"in {coverage:.0%} of row groups × columns",
        "scored by": ", ".join(files.models) or None,
    }


def _columns(inspection: TableInspection) -> dict[str, Sequence[Any]]:
    coverage = {} if inspection.files is None else inspection.files.coverage
    min_and_max = {name: f"{share:.0%}" for name, share in coverage.items()}
    min_and_max |= dict.fromkeys(inspection.partition_columns, "partition")
    return {
        "column": inspection.schema.names,
        "type": [str(column.type) for column in inspection.schema],
        "min and max": [min_and_max.get(name) for name in inspection.schema.names],
    }


def _partitions(
    partitions: Sequence[tuple[Mapping[str, Any], DataFiles]],
) -> dict[str, Sequence[Any]]:
    columns: dict[str, Sequence[Any]] = {
        "partition": [partition_path(partition) for partition, _ in partitions],
        "files": [len(files) for _, files in partitions],
        "rows": [files.rows for _, files in partitions],
        "bytes": [files.bytes for _, files in partitions],
        "written": [minute(files.written) for _, files in partitions],
    }
    models = [", ".join(model[:12] for model in files.models) for _, files in partitions]
    return {**columns, "scored by": models} if any(models) else columns


def _document(inspection: TableInspection) -> dict[str, Any]:
    files = inspection.files
    partitions = [] if files is None else files.by_partition()
    coverage = {} if files is None else files.coverage
    return {
        "uri": inspection.uri,
        "format": inspection.format,
        "version": inspection.version,
        **({"rows": inspection.rows} if files is None else _totals(files)),
        "partition_columns": list(inspection.partition_columns),
        "schema": [
            {"name": column.name, "type": str(column.type), "statistics": coverage.get(column.name)}
            for column in inspection.schema
        ],
        "partitions": [
            {"partition": partition, **_totals(files)} for partition, files in partitions
        ]
        or [{"partition": partition} for partition in inspection.partitions],
    }


def _totals(files: DataFiles) -> dict[str, Any]:
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
    """The number of partitions, the first and the last; None if there are none."""
    if not partitions:
        return None
    ends = dict.fromkeys((partition_path(partitions[0]), partition_path(partitions[-1])))
    return f"{len(partitions):,}: {' … '.join(ends)}"
