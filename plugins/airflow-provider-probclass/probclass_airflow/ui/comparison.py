"""Two versions compared: their drift, their settings, and their metrics on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import probclass_core as pc
from probclass_airflow.ui.formatting import (
    as_text,
    described_rows,
    finite,
    number,
    percent,
    words,
)
from probclass_airflow.ui.partition_dates import rows_date
from probclass_airflow.ui.rows import CHAMPION, EvaluationRow, PartitionRow, evaluation_row
from probclass_airflow.ui.stores import NotFound, ShownStore, load_model

if TYPE_CHECKING:
    from probclass_core.analysis.distributions.drift import Drift
    from probclass_core.store.model_records import ModelRecords
    from probclass_core.store.references import ModelVersion

_MAX_FEATURES = 20
_MAX_PARTITIONS = 24
_YEAR, _SEASON = timedelta(days=365), timedelta(days=45)


@dataclass(frozen=True)
class DriftSection:
    """The drift of a version from another one.

    Attributes:
        other: the version compared with, or None if there is none.
        role: what the other version is, such as ``"the champion"``.
        drift: the drift, or None if the versions were not compared.
        features: the features that changed most.
        more: number of features that are not listed.
        problem: why the versions could not be compared, or empty.
    """

    other: ModelVersion | None
    role: str
    drift: Drift | None = None
    features: Sequence[Mapping[str, Any]] = ()
    more: int = 0
    problem: str = ""


@dataclass(frozen=True)
class ColumnDrift:
    """Drift of a column in each of some partitions, in bits or None, and the largest of it."""

    column: str
    cells: list[tuple[str, float | None, int]]
    largest: float


@dataclass(frozen=True)
class Compared:
    """A line of a comparison: its name, the values of both versions, and whether they are equal."""

    name: str
    left: str
    right: str
    is_equal: bool


def reference_of(records: ModelRecords, version: ModelVersion) -> tuple[str, str]:
    """The content id of the version to compare a version with, and what that is.

    It is the champion; of the champion itself, the one before it; without any, the version saved
    before.
    """
    champion = records.aliases.get(CHAMPION)
    if champion is not None and champion.id != version.id:
        return champion.id, "the champion"
    if champion is not None and champion.previous is not None:
        return champion.previous, "the champion before"
    ids = [one.id for one in records.versions]
    position = ids.index(version.id)
    return (ids[position - 1], "the version before") if position else ("", "")


def season_of(records: ModelRecords, version: ModelVersion) -> ModelVersion | None:
    """The version that was trained on rows of a year before, up to 45 days more or less."""
    wanted = trained_until(version) - _YEAR
    dated = [(abs(trained_until(one) - wanted), one) for one in records.versions]
    found = [(away, one) for away, one in dated if away <= _SEASON and one.id != version.id]
    return min(found, key=lambda one: one[0])[1] if found else None


def trained_until(version: ModelVersion) -> datetime:
    """The last date in the conditions of the training, or else the time when it was saved."""
    found = rows_date(version.provenance)
    conditions = version.provenance.get("where")
    upper = [
        when
        for condition in (conditions if isinstance(conditions, list) else [])
        if isinstance(condition, list)
        and len(condition) == 3
        and condition[1] in ("<", "<=")
        and (when := rows_date({"where": [[condition[0], "==", condition[2]]]})) is not None
    ]
    if upper:
        return max(upper)
    saved = rows_date({"where": [["created", "==", version.created]]})
    found = found or saved
    return found if found is not None else datetime.fromisoformat("1970-01-01T00:00+00:00")


def drift_section(
    shown: ShownStore, version: ModelVersion, other: ModelVersion | None, role: str
) -> DriftSection:
    """The drift of a version from another, computed from their parameters."""
    if other is None:
        return DriftSection(None, role)
    try:
        drift = pc.drift(load_model(shown.uri, other.ref), load_model(shown.uri, version.ref))
    except pc.ProbClassError as error:
        return DriftSection(other, role, problem=str(error))
    rows = drift.by_feature.to_pylist()
    features = [{**row, "change": _change(row)} for row in rows[:_MAX_FEATURES]]
    return DriftSection(other, role, drift, features, len(rows) - len(features))


def version_named(records: ModelRecords, content_id: str) -> ModelVersion:
    """A version by its content id.

    Raises:
        NotFound: if there is no such version.
    """
    for version in records.versions:
        if version.id == content_id:
            return version
    raise NotFound(f"Model {records.model!r} has no other version {content_id[:12]!r}.")


def column_drift(rows: Sequence[PartitionRow]) -> tuple[list[str], list[ColumnDrift]]:
    """Drift of each column from training in the newest scored partitions, largest first.

    Returns:
        The names of the partitions, oldest first, and the columns.
    """
    watched = [row for row in rows if row.is_current and row.columns]
    watched = watched[-_MAX_PARTITIONS:]
    names = dict.fromkeys(name for row in watched for name in row.columns)
    columns = []
    for name in names:
        cells = []
        for row in watched:
            bits = finite(row.columns.get(name, {}).get("drift"))
            cells.append((row.name, bits, min(10, round(10 * max(bits or 0.0, 0.0) ** 0.5))))
        known = [bits for _, bits, _ in cells if bits is not None]
        if known:
            columns.append(ColumnDrift(str(name), cells, max(known)))
    columns.sort(key=lambda column: -column.largest)
    return [row.name for row in watched], columns[:_MAX_FEATURES]


def compared_settings(shown: ShownStore, left: ModelVersion, right: ModelVersion) -> list[Compared]:
    """Training, spec and blocks of two versions side by side.

    Raises:
        StoreError: if a version is damaged.
    """
    sides = [_settings(shown, version) for version in (left, right)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [
        Compared(
            name,
            sides[0].get(name, "–"),
            sides[1].get(name, "–"),
            sides[0].get(name) == sides[1].get(name),
        )
        for name in names
    ]


def _settings(shown: ShownStore, version: ModelVersion) -> dict[str, str]:
    bundle = shown.store.read_bundle(version.ref)
    spec, provenance = bundle.content["spec"], bundle.provenance
    priors = sorted(bundle.tables["priors"].to_pylist(), key=lambda row: str(row["class"]))
    values = {
        "trained on": described_rows(provenance) or "–",
        "rows": as_text(provenance.get("rows")),
        "label": as_text(spec.get("label")),
        "calibrated": "yes" if provenance.get("calibration") else "no",
    }
    for row in priors[:12]:
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


@dataclass(frozen=True)
class MetricPair:
    """Evaluations of two versions on the same rows."""

    on: str
    left: EvaluationRow
    right: EvaluationRow


def compared_metrics(
    records: ModelRecords, left: ModelVersion, right: ModelVersion
) -> list[MetricPair]:
    """The evaluations of both versions on the same rows, newest first."""
    sides: list[dict[str, EvaluationRow]] = []
    for version in (left, right):
        rows = [evaluation_row(one) for one in records.evaluations if one.version == version.id]
        sides.append({as_text(dict(sorted(row.record.on.items()))): row for row in rows})
    common = [key for key in sides[0] if key in sides[1]]
    pairs = [MetricPair(sides[0][key].on, sides[0][key], sides[1][key]) for key in common]
    return pairs[::-1]


def _change(row: Mapping[str, Any]) -> str:
    """The largest change of a feature, in words."""
    if row["value"] is not None:
        before, after = percent(row["probability_before"]), percent(row["probability_after"])
        return f"{row['value']}: {before} → {after}"
    if row["mean_before"] is None:
        return ""
    shift = row["mean_shift"]
    by = "" if shift is None else f" ({shift:+.2f} sd)".replace("-", "−")
    text = f"mean {number(row['mean_before'])} → {number(row['mean_after'])}{by}"
    ratio = row["variance_ratio"]
    if ratio is not None and not 0.8 < ratio < 1.25:
        text += f", sd {number(row['sd_before'])} → {number(row['sd_after'])}"
    return text
