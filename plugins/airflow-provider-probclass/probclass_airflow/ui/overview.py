"""The models of every store, and the versions of one, as the pages list them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import probclass_core as pc
from probclass_airflow.ui.shelves import Shelf
from probclass_airflow.ui.shown import origin

MOST_VERSIONS = 60
"""Versions listed of one model, the newest."""


@dataclass(frozen=True)
class VersionRow:
    """A version in a list, and how well it did when it was last measured."""

    version: pc.ModelVersion
    aliases: list[str]
    rows: int | None
    trained_on: str
    quality: Mapping[str, Any] | None


@dataclass(frozen=True)
class ModelRow:
    """A model in a list, its newest version and its aliases."""

    name: str
    count: int
    newest: VersionRow
    aliases: list[tuple[str, str]]


@dataclass(frozen=True)
class StoreRows:
    """A store in the list; where it cannot be read, one line says why."""

    shelf: Shelf
    models: list[ModelRow]
    problems: list[str]


def store_rows(shelf: Shelf) -> StoreRows:
    """The models of a store; a damaged one is told of and hides no other."""
    rows, problems = [], []
    try:
        names = shelf.store.models()
    except pc.StoreError as error:
        return StoreRows(shelf, [], [str(error)])
    for name in names:
        try:
            versions, aliases = shelf.versions(name), shelf.aliases(name)
            newest = version_row(shelf, versions[-1], aliases)
        except pc.StoreError as error:
            problems.append(str(error))
            continue
        by_use = sorted(aliases.values(), key=lambda alias: alias.promoted, reverse=True)
        named = [(alias.alias, alias.id) for alias in by_use]
        rows.append(ModelRow(name, len(versions), newest, named))
    return StoreRows(shelf, rows, problems)


def version_row(
    shelf: Shelf, version: pc.ModelVersion, aliases: Mapping[str, pc.Alias]
) -> VersionRow:
    """A version with what is known of it.

    Raises:
        StoreError: a record of it is damaged.
    """
    records = shelf.store.evaluations(version)
    rows = version.provenance.get("rows")
    return VersionRow(
        version=version,
        aliases=[name for name, alias in aliases.items() if alias.id == version.id],
        rows=rows if isinstance(rows, int) else None,
        trained_on=origin(version.provenance),
        quality=records[-1].result if records else None,
    )


def trend(
    rows: Sequence[VersionRow], width: float = 640.0, height: float = 90.0
) -> dict[str, Any] | None:
    """Log loss of the versions, oldest first, as points of a line and of its baseline.

    Returns:
        Width and height; line and baseline, as polyline points; dots, the points of the line; low
        and high, the bounds in nats. None of fewer than three versions that were measured.
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
    value = None if row.quality is None else row.quality.get(name)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
