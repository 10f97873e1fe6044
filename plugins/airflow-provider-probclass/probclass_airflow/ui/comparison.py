"""Two versions compared, and the drift of scored rows by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import probclass_core as pc
from probclass_airflow.ui.rows import CHAMPION, EvaluationRow, PartitionRow, evaluation_row
from probclass_airflow.ui.stores import ShownStore, load_model
from probclass_core.display import described_rows
from probclass_core.report import Html, paragraph, report_html
from probclass_core.report.html import as_text, finite, percent, words

if TYPE_CHECKING:
    from probclass_core.store.records import ModelVersion
    from probclass_core.store.results import ModelRecords

_MAX_COLUMNS = 20
_MAX_PARTITIONS = 24


@dataclass(frozen=True)
class ColumnDrift:
    """Drift of a column in each of some partitions, in bits or None, and the largest of it."""

    column: str
    cells: list[tuple[str, float | None, int]]
    largest: float


def reference_of(records: ModelRecords, version: ModelVersion) -> str:
    """The content id of the version to compare a version with.

    It is the champion; of the champion itself, the one before it; without any, the version saved
    before; of the only version, itself.
    """
    champion = records.aliases.get(CHAMPION)
    if champion is not None and champion.id != version.id:
        return champion.id
    if champion is not None and champion.previous is not None:
        return champion.previous
    ids = [one.id for one in records.versions]
    return ids[max(0, ids.index(version.id) - 1)]


def parameter_drift(shown: ShownStore, left: ModelVersion, right: ModelVersion) -> Html:
    """What changed from a version to another, computed from their parameters."""
    try:
        return report_html(
            pc.drift(load_model(shown.uri, left.ref), load_model(shown.uri, right.ref))
        )
    except pc.ProbClassError as error:
        return paragraph(str(error), "line problem")


def column_drift(rows: Sequence[PartitionRow]) -> tuple[list[str], list[ColumnDrift]]:
    """Drift of each column from training in the newest scored partitions, largest first.

    Returns:
        The names of the partitions, oldest first, and the columns.
    """
    watched = [row for row in rows if row.is_current and row.columns][-_MAX_PARTITIONS:]
    columns = []
    for name in dict.fromkeys(name for row in watched for name in row.columns):
        cells = []
        for row in watched:
            bits = finite(row.columns.get(name, {}).get("drift"))
            cells.append((row.name, bits, min(10, round(10 * max(bits or 0.0, 0.0) ** 0.5))))
        known = [bits for _, bits, _ in cells if bits is not None]
        if known:
            columns.append(ColumnDrift(str(name), cells, max(known)))
    columns.sort(key=lambda column: -column.largest)
    return [row.name for row in watched], columns[:_MAX_COLUMNS]


def settings(shown: ShownStore, version: ModelVersion) -> dict[str, str]:
    """Training, spec and blocks of a version.

    Raises:
        StoreError: if the version is damaged.
    """
    bundle = shown.store.read_bundle(version.ref)
    spec, provenance = bundle.content["spec"], bundle.provenance
    values = {
        "trained on": described_rows(provenance) or "–",
        "rows": as_text(provenance.get("rows")),
        "label": as_text(spec.get("label")),
        "calibrated": "yes" if provenance.get("calibration") else "no",
    }
    for row in sorted(bundle.tables["priors"].to_pylist(), key=lambda row: str(row["class"]))[:12]:
        values[f"prior of {as_text(row['class'])}"] = percent(row["prior"])
    for block in spec["blocks"]:
        options = [
            f"{words(key)} {as_text(value)}"
            for key, value in block.items()
            if key not in ("name", "columns")
        ]
        columns = ", ".join(map(str, block["columns"]))
        values[f"block {block['name']}"] = f"{columns} ({', '.join(options)})"
    return values


def compared_evaluations(
    records: ModelRecords, left: ModelVersion, right: ModelVersion
) -> list[tuple[EvaluationRow, EvaluationRow]]:
    """The evaluations of both versions on the same rows, newest first."""
    sides: list[dict[str, EvaluationRow]] = []
    for version in (left, right):
        rows = [evaluation_row(one) for one in records.evaluations if one.version == version.id]
        sides.append({as_text(dict(sorted(row.record.on.items()))): row for row in rows})
    return [(row, sides[1][on]) for on, row in sides[0].items() if on in sides[1]][::-1]
