"""The card of one version: the model, its training, its evaluations and its drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import probclass_core as pc
from probclass_airflow.ui.comparison import DriftSection, drift_section, reference_of
from probclass_airflow.ui.formatting import as_text, described_rows, finite, number, percent, words
from probclass_airflow.ui.parameters import Grid, grids
from probclass_airflow.ui.rows import run_of, worse_metrics
from probclass_airflow.ui.stores import NotFound, ShownStore

_MAX_CLASSES = 50
_MAX_CONFUSION_CLASSES = 12
_EVALUATIONS = 3
"""Evaluations on one page of a card."""
_MAX_BLOCKS = 12
"""Largest number of blocks of a model with block weights whose parameters are shown."""


@dataclass(frozen=True)
class BlockSection:
    """A block: its options, its parameters, and two columns for a contour plot if it has one."""

    name: str
    estimator: str
    columns: list[str]
    options: list[tuple[str, str]]
    grids: list[Grid]
    plane: tuple[str, str] | None


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix.

    Attributes:
        classes: names of the classes.
        rows: for each true class its name, its number of rows, and a cell for each predicted
            class: the count, the percentage of the row, and the fraction in tenths.
    """

    classes: list[str]
    rows: list[tuple[str, int, list[tuple[int, str, int]]]]


@dataclass(frozen=True)
class EvaluationSection:
    """A recorded evaluation.

    Attributes:
        record: the record itself.
        rows: description of the rows it was measured on.
        run: the task that recorded it, or None.
        metrics: name, value and baseline of each metric.
        worse: metrics by which the prior alone is better.
        confusion: the confusion matrix, or None if it has too many classes.
        has_plot: whether the record has what a reliability diagram needs.
    """

    record: pc.EvaluationRecord
    rows: str
    run: dict[str, str] | None
    metrics: list[tuple[str, str, str]]
    worse: list[str]
    confusion: Confusion | None
    has_plot: bool


@dataclass(frozen=True)
class WeightRow:
    """The weight of a block, its importance in nats, and its share of the largest importance."""

    block: str
    weight: str
    importance: str
    share: float


@dataclass(frozen=True)
class ModelCard:
    """All sections of the card."""

    version: pc.ModelVersion
    aliases: list[pc.Alias]
    facts: list[tuple[str, str]]
    training: list[tuple[str, str]]
    run: Mapping[str, str] | None
    priors: list[dict[str, Any]]
    more_classes: int
    weights: list[WeightRow]
    more_blocks: int
    blocks: list[BlockSection]
    evaluations: list[EvaluationSection]
    more_evaluations: int
    drift: DriftSection
    choices: list[pc.ModelVersion]


def model_card(
    shown: ShownStore, name: str, content_id: str, against: str | None, page: int = 1
) -> ModelCard:
    """The card of a version; only its drift needs the model's estimators.

    Args:
        shown: the store.
        name: name of the model.
        content_id: full content id of the version.
        against: content id of the version to compare with; by default the champion, or the one
            before it.
        page: page of the evaluations, from 1, newest first.

    Raises:
        NotFound: if there is no such model or version.
        StoreError: if the version is damaged.
    """
    records = shown.records(name)
    version = shown.version(name, content_id)
    bundle = shown.store.read_bundle(version.ref)
    spec, provenance = bundle.content["spec"], bundle.provenance
    priors = sorted(bundle.tables["priors"].to_pylist(), key=lambda row: -row["count"])
    classes = [row["class"] for row in priors]
    prior = spec["prior"]
    facts = [
        ("Label", spec["label"]),
        ("Classes", number(len(priors))),
        ("Columns", number(len(bundle.content["features"]))),
        ("Prior", prior if isinstance(prior, str) else "given"),
        ("Rows", as_text(provenance.get("rows"))),
    ]
    if spec.get("weight"):
        facts.append(("Weight", spec["weight"]))
    rows = described_rows(provenance)
    training = [("trained on", rows)] if rows else []
    training += [
        (words(key), as_text(value))
        for key, value in provenance.items()
        if key not in ("source", "partition", "where", "airflow", "columns")
    ]
    own = [record for record in records.evaluations[::-1] if record.version == version.id]
    reference, role = reference_of(records, version)
    if against is not None:
        reference, role = against, "the version chosen"
    known = [choice for choice in records.versions if choice.id == reference]
    if against is not None and not (known and against != version.id):
        raise NotFound(f"Model {name!r} has no other version {against[:12]!r}.")
    other = known[0] if known else None
    weights = _weights(bundle)
    order = {row.block: place for place, row in enumerate(weights)}
    blocks = sorted(spec["blocks"], key=lambda block: order.get(block["name"], 0))
    return ModelCard(
        version=version,
        aliases=[alias for alias in records.aliases.values() if alias.id == version.id],
        facts=facts,
        training=training,
        run=run_of(provenance),
        priors=[{**row, "class": as_text(row["class"])} for row in priors[:_MAX_CLASSES]],
        more_classes=max(0, len(priors) - _MAX_CLASSES),
        weights=weights,
        more_blocks=max(0, len(blocks) - _MAX_BLOCKS) if weights else 0,
        blocks=[
            _block(block, bundle, classes)
            for block in (blocks[:_MAX_BLOCKS] if weights else blocks)
        ],
        evaluations=[
            _evaluation(shown.store.evaluation(version, record.id))
            for record in own[_EVALUATIONS * (page - 1) : _EVALUATIONS * page]
        ],
        more_evaluations=max(0, len(own) - _EVALUATIONS * page),
        drift=drift_section(shown, version, other, role),
        choices=[choice for choice in records.versions[::-1] if choice.id != version.id],
    )


def _weights(bundle: Any) -> list[WeightRow]:
    """The weights of blocks, the most important first; empty for a product of blocks."""
    table = bundle.tables.get("block_weights")
    terms = [] if table is None else table.to_pylist()
    blocks = [term for term in terms if term["term"] == "block"]
    sizes = {term["name"]: term["importance"] or 0.0 for term in blocks}
    largest = max(sizes.values(), default=0.0) or 1.0
    return [
        WeightRow(
            term["name"],
            number(term["value"]),
            "" if term["importance"] is None else number(term["importance"]),
            sizes[term["name"]] / largest,
        )
        for term in sorted(blocks, key=lambda term: (-sizes[term["name"]], -term["value"]))
    ]


def _block(block: dict[str, Any], bundle: Any, classes: Sequence[Any]) -> BlockSection:
    table = bundle.tables[block["name"]]
    types = dict(bundle.content["features"])
    numbers = [column for column in block["columns"] if types[column] in ("double", "int64")]
    is_joint = {"mean", "covariance"} <= set(table.column_names)
    return BlockSection(
        name=block["name"],
        estimator=block["estimator"],
        columns=list(block["columns"]),
        options=[
            (words(key), as_text(value))
            for key, value in block.items()
            if key not in ("name", "estimator", "columns")
        ],
        grids=grids(block, table, classes),
        plane=(numbers[0], numbers[1]) if is_joint and len(numbers) > 1 else None,
    )


_METRICS = {
    "log_loss": ("Log loss", "baseline_log_loss", number),
    "accuracy": ("Accuracy", "baseline_accuracy", percent),
    "brier": ("Brier score", "baseline_brier", number),
    "ece": ("Calibration error", "baseline_ece", number),
    "cost": ("Mean cost", "baseline_cost", number),
}
"""Title, baseline and format of each metric."""


def metrics(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Title, value and baseline of each metric of an evaluation.

    Args:
        result: the evaluation as a dict, in which an infinite log loss is None.
    """
    shown = []
    for key, (title, baseline_key, text) in _METRICS.items():
        if key == "log_loss" and key in result and result[key] is None:
            shown.append((title, "∞", ""))
        elif (value := finite(result.get(key))) is not None:
            baseline = finite(result.get(baseline_key))
            shown.append((title, text(value), "" if baseline is None else text(baseline)))
    return shown


def _evaluation(record: pc.EvaluationRecord) -> EvaluationSection:
    result = record.result
    is_complete = bool(result.get("reliability")) and bool(result.get("confusion"))
    try:
        confusion = _confusion(result["confusion"]) if is_complete else None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        confusion, is_complete = None, False
    return EvaluationSection(
        record=record,
        rows=described_rows(record.on),
        run=run_of(record.provenance),
        metrics=metrics(result),
        worse=worse_metrics(result),
        confusion=confusion,
        has_plot=is_complete,
    )


def _confusion(table: Sequence[Mapping[str, Any]]) -> Confusion | None:
    names = [row["class"] for row in table]
    if len(names) > _MAX_CONFUSION_CLASSES:
        return None
    rows = []
    for row in table:
        counts = [int(row[f"predicted_{name}"]) for name in names]
        total = sum(counts)
        parts = [count / total if total else 0.0 for count in counts]
        cells = [
            (count, percent(part), round(10 * part))
            for count, part in zip(counts, parts, strict=True)
        ]
        rows.append((row["class"], total, cells))
    return Confusion(names, rows)
