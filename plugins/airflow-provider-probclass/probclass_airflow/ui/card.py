"""The card of one version: what it is, where it came from, how well it does, what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import probclass_core as pc
from probclass_airflow.ui.parameters import Grid, grids
from probclass_airflow.ui.shelves import NotThere, Shelf, loaded
from probclass_airflow.ui.shown import number, origin, plain, share, words

_MOST_CLASSES = 50
_MOST_FEATURES = 20
_LEGIBLE_CONFUSION = 12


@dataclass(frozen=True)
class BlockCard:
    """One block: its words, its parameters, and which columns can be drawn."""

    name: str
    estimator: str
    columns: list[str]
    options: list[tuple[str, str]]
    grids: list[Grid]
    plane: tuple[str, str] | None


@dataclass(frozen=True)
class Confusion:
    """Which class was taken for which: of each true class, counts and shares in tenths."""

    classes: list[str]
    rows: list[tuple[str, int, list[tuple[int, str, int]]]]


@dataclass(frozen=True)
class Quality:
    """One recorded evaluation."""

    record: pc.EvaluationRecord
    on: str
    run: dict[str, str] | None
    metrics: list[tuple[str, str, str]]
    confusion: Confusion | None
    drawn: bool


@dataclass(frozen=True)
class Changed:
    """What changed since another version; or why that cannot be told."""

    against: pc.ModelVersion | None
    others: list[pc.ModelVersion]
    drift: pc.Drift | None
    features: list[dict[str, Any]]
    more: int
    problem: str


@dataclass(frozen=True)
class Card:
    """All of it."""

    shelf: Shelf
    version: pc.ModelVersion
    aliases: list[pc.Alias]
    facts: list[tuple[str, str]]
    training: list[tuple[str, str]]
    run: Mapping[str, str] | None
    priors: list[dict[str, Any]]
    more_classes: int
    blocks: list[BlockCard]
    qualities: list[Quality]
    changed: Changed


def card(shelf: Shelf, name: str, content_id: str, against: str | None) -> Card:
    """The card of a version, needing none of its estimators but for what changed.

    Args:
        shelf: its store.
        name: of the model.
        content_id: whole.
        against: content id of the version to compare with; by default the one before.

    Raises:
        NotThere: there is no such model or version.
        StoreError: it is damaged.
    """
    version = shelf.version(name, content_id)
    bundle = shelf.store.read_bundle(version.ref)
    spec, provenance = bundle.content["spec"], bundle.provenance
    priors = sorted(bundle.tables["priors"].to_pylist(), key=lambda row: -row["count"])
    classes = [row["class"] for row in priors]
    aliases = [each for each in shelf.aliases(name).values() if each.id == version.id]
    prior = spec["prior"]
    facts = [
        ("Label", spec["label"]),
        ("Classes", number(len(priors))),
        ("Columns", number(sum(len(block["columns"]) for block in spec["blocks"]))),
        ("Prior", prior if isinstance(prior, str) else "given"),
        ("Rows", plain(provenance.get("rows"))),
    ]
    if spec.get("weight"):
        facts.append(("Weight", spec["weight"]))
    told = {"source", "partition", "where", "airflow"}
    training = [("read from", origin(provenance))] if origin(provenance) else []
    training += [(words(key), plain(value)) for key, value in provenance.items() if key not in told]
    return Card(
        shelf=shelf,
        version=version,
        aliases=aliases,
        facts=facts,
        training=training,
        run=_run(provenance),
        priors=[{**row, "class": plain(row["class"])} for row in priors[:_MOST_CLASSES]],
        more_classes=max(0, len(priors) - _MOST_CLASSES),
        blocks=[_block(block, bundle, classes) for block in spec["blocks"]],
        qualities=[_quality(each) for each in reversed(shelf.store.evaluations(version))],
        changed=_changed(shelf, version, against),
    )


def _run(provenance: Mapping[str, Any]) -> dict[str, str] | None:
    """The task that recorded this, as an address needs it; none where it was no task."""
    run = provenance.get("airflow")
    names = ("dag_id", "run_id", "task_id")
    if not isinstance(run, Mapping) or not all(isinstance(run.get(name), str) for name in names):
        return None
    return {**{name: run[name] for name in names}, "map_index": str(run.get("map_index", -1))}


def _block(block: dict[str, Any], bundle: Any, classes: Sequence[Any]) -> BlockCard:
    table = bundle.tables[block["name"]]
    numbers = dict(bundle.content["features"])
    planar = [column for column in block["columns"] if numbers[column] in ("double", "int64")]
    held = {"mean", "covariance"} <= set(table.column_names)
    return BlockCard(
        name=block["name"],
        estimator=block["estimator"],
        columns=list(block["columns"]),
        options=[
            (words(key), plain(value))
            for key, value in block.items()
            if key not in ("name", "estimator", "columns")
        ],
        grids=grids(block, table, classes),
        plane=(planar[0], planar[1]) if held and len(planar) > 1 else None,
    )


_METRICS = {
    "log_loss": ("Log loss", "baseline_log_loss", number),
    "accuracy": ("Accuracy", "baseline_accuracy", share),
    "brier": ("Brier score", None, number),
    "ece": ("Calibration error", None, number),
    "cost": ("Mean cost", "baseline_cost", number),
}
"""What is shown of an evaluation, and which baseline stands beside it."""


def metrics(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and that of the baseline, of what was measured; an infinite loss is null."""
    found = []
    for key, (title, baseline, text) in _METRICS.items():
        if key == "log_loss" and key in result and result[key] is None:
            found.append((title, "∞", ""))
        elif isinstance(result.get(key), (int, float)):
            beside = result.get(baseline) if baseline else None
            found.append((title, text(float(result[key])), "" if beside is None else text(beside)))
    return found


def _quality(record: pc.EvaluationRecord) -> Quality:
    result = record.result
    whole = bool(result.get("reliability")) and bool(result.get("confusion"))
    return Quality(
        record=record,
        on=origin(record.on),
        run=_run(record.provenance),
        metrics=metrics(result),
        confusion=_confusion(result["confusion"]) if whole else None,
        drawn=whole,
    )


def _confusion(table: Sequence[Mapping[str, Any]]) -> Confusion | None:
    names = [row["class"] for row in table]
    if len(names) > _LEGIBLE_CONFUSION:
        return None
    rows = []
    for row in table:
        counts = [int(row[f"predicted_{name}"]) for name in names]
        total = sum(counts)
        shares = [count / total if total else 0.0 for count in counts]
        cells = [(count, share(p), round(10 * p)) for count, p in zip(counts, shares, strict=True)]
        rows.append((row["class"], total, cells))
    return Confusion(names, rows)


def _changed(shelf: Shelf, version: pc.ModelVersion, against: str | None) -> Changed:
    versions = shelf.versions(version.model)
    others = [each for each in reversed(versions) if each.id != version.id]
    if against is None:
        earlier = versions[: [each.id for each in versions].index(version.id)]
        other = earlier[-1] if earlier else None
    else:
        chosen = [each for each in others if each.id == against]
        if not chosen:
            raise NotThere(f"Model {version.model!r} has no other version {against[:12]!r}.")
        other = chosen[0]
    if other is None:
        return Changed(None, others, None, [], 0, "")
    try:
        found = pc.drift(loaded(shelf.uri, other.ref), loaded(shelf.uri, version.ref))
    except pc.ProbClassError as error:
        return Changed(other, others, None, [], 0, str(error))
    rows = found.by_feature.to_pylist()
    shown = [{**row, "told": _change(row)} for row in rows[:_MOST_FEATURES]]
    return Changed(other, others, found, shown, len(rows) - len(shown), "")


def _change(row: Mapping[str, Any]) -> str:
    """What changed most, in words."""
    if row["value"] is not None:
        before, after = share(row["probability_before"]), share(row["probability_after"])
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
