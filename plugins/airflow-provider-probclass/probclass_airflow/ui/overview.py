"""The lists of the pages: the models of every store, the versions of one model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import probclass_core as pc
from probclass_airflow.ui.formatting import described_rows
from probclass_airflow.ui.stores import ShownStore

MOST_VERSIONS = 60
"""Number of versions in the list of a model; older ones are not listed."""


@dataclass(frozen=True)
class VersionRow:
    """A version in a list, with the result of its newest evaluation."""

    version: pc.ModelVersion
    aliases: list[str]
    rows: int | None
    trained_on: str
    evaluation: Mapping[str, Any] | None


@dataclass(frozen=True)
class ModelRow:
    """A model in a list.

    Attributes:
        name: name of the model.
        versions: number of versions.
        newest: the newest version.
        aliases: names and content ids, the most recently promoted first.
    """

    name: str
    versions: int
    newest: VersionRow
    aliases: list[tuple[str, str]]


@dataclass(frozen=True)
class StoreRows:
    """A store in the list, with a line for each problem in reading it."""

    shown: ShownStore
    models: list[ModelRow]
    problems: list[str]


def store_rows(shown: ShownStore) -> StoreRows:
    """The models of a store; a damaged model is a problem and does not hide the others."""
    rows, problems = [], []
    try:
        names = shown.store.models()
    except pc.StoreError as error:
        return StoreRows(shown, [], [str(error)])
    for name in names:
        try:
            versions, aliases = shown.versions(name), shown.aliases(name)
            newest = version_row(shown, versions[-1], aliases)
        except pc.StoreError as error:
            problems.append(str(error))
            continue
        newest_first = sorted(aliases.values(), key=lambda alias: alias.promoted, reverse=True)
        ids = [(alias.alias, alias.id) for alias in newest_first]
        rows.append(ModelRow(name, len(versions), newest, ids))
    return StoreRows(shown, rows, problems)


def version_row(
    shown: ShownStore, version: pc.ModelVersion, aliases: Mapping[str, pc.Alias]
) -> VersionRow:
    """A version as a row of the list.

    Raises:
        StoreError: if one of its evaluation records is damaged.
    """
    records = shown.store.evaluations(version)
    rows = version.provenance.get("rows")
    return VersionRow(
        version=version,
        aliases=[name for name, alias in aliases.items() if alias.id == version.id],
        rows=rows if isinstance(rows, int) else None,
        trained_on=described_rows(version.provenance),
        evaluation=records[-1].result if records else None,
    )


def trend(
    rows: Sequence[VersionRow], width: float = 640.0, height: float = 90.0
) -> dict[str, Any] | None:
    """A line plot of the versions' log loss, or None if fewer than three were evaluated.

    Args:
        rows: the versions, oldest first.
        width: width of the plot in pixels.
        height: height of the plot in pixels.

    Returns:
        ``width`` and ``height``; ``line`` and ``baseline``, as points of SVG polylines; ``dots``,
        the points of the line; ``low`` and ``high``, the range in nats.
    """
    losses = [_loss(row, "log_loss") for row in rows]
    baseline = [_loss(row, "baseline_log_loss") for row in rows]
    known = [value for value in (*losses, *baseline) if value is not None]
    if sum(value is not None for value in losses) < 3:
        return None
    low, high = min(known), max(known)
    span = (high - low) or 1.0

    def points(values: Sequence[float | None]) -> list[tuple[float, float]]:
        return [
            (
                round(8.0 + (width - 16.0) * at / max(len(values) - 1, 1), 1),
                round(8.0 + (height - 16.0) * (high - value) / span, 1),
            )
            for at, value in enumerate(values)
            if value is not None
        ]

    def line(values: Sequence[float | None]) -> str:
        return " ".join(f"{x},{y}" for x, y in points(values))

    return {
        "width": width,
        "height": height,
        "line": line(losses),
        "baseline": line(baseline),
        "dots": points(losses),
        "low": low,
        "high": high,
    }


def _loss(row: VersionRow, name: str) -> float | None:
    value = None if row.evaluation is None else row.evaluation.get(name)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
