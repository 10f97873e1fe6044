"""What the report of a model says, section by section.

The sections are made from the tables and plain values of a model, its `Bundle`, so that its
estimators need not be installed; only pictures need them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from probclass_core.analysis.importance import Importance
from probclass_core.arrow.bundle import Bundle
from probclass_core.arrow.display import counted
from probclass_core.model.block_weights import ranked_blocks
from probclass_core.report.formatting import as_text, finite, number, percent, words
from probclass_core.report.html import (
    Column,
    Html,
    confusion,
    details,
    figure,
    group,
    joined,
    lines,
    pairs,
    paragraph,
    table,
    tiles,
)
from probclass_core.store.display import described_rows

Picture = Callable[[str, Mapping[str, str], str], Html]
"""The image of a plot, from its kind, its columns and its alternative text.

The kinds are ``"column"`` of a ``column``, and ``"reliability"`` of the evaluation.
"""

_MAX_CLASSES, _CLASSES = 50, ("class", "classes")
_MAX_CONFUSION_CLASSES = 12
_MAX_ITEMS = 15
"""Largest number of columns, or of blocks, in the list of what matters."""
_BLOCKS_AT_ONCE = 12
"""Largest number of blocks that are unfolded."""
_MAX_PLOTS, _PLOTS_AT_ONCE = 60, 8
"""Largest number of plots, and of those that are unfolded."""

_TITLES = {
    "log_loss": ("Log loss", number),
    "accuracy": ("Accuracy", percent),
    "brier": ("Brier score", number),
    "ece": ("Calibration error", number),
    "cost": ("Mean cost", number),
}
"""Title and format of each metric of an evaluation."""


@dataclass(frozen=True)
class Section:
    """A section of a report.

    Attributes:
        id: its anchor.
        title: its title.
        body: its content as HTML.
    """

    id: str
    title: str
    body: Html

    def __html__(self) -> Html:
        """The section as HTML, for templates as well."""
        return Html(f'<section id="{self.id}">\n<h2>{self.title}</h2>\n{self.body}\n</section>')


@dataclass(frozen=True)
class Measured:
    """An evaluation as plain values, and the rows that it was made on.

    Attributes:
        result: `Evaluation.to_dict`; records of evaluations may lack its tables.
        on: description of the rows, see `described_rows`.
    """

    result: Mapping[str, Any]
    on: Mapping[str, Any] = field(default_factory=dict)


def metrics(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Title, value and baseline of each metric of an evaluation.

    Args:
        result: the evaluation as a dict, in which an infinite log loss is None.
    """
    shown = []
    for key, (title, form) in _TITLES.items():
        if key == "log_loss" and key in result and result[key] is None:
            shown.append((title, "∞", ""))
        elif (value := finite(result.get(key))) is not None:
            baseline = finite(result.get(f"baseline_{key}"))
            shown.append((title, form(value), "" if baseline is None else form(baseline)))
    return shown


def headline(bundle: Bundle, measured: Measured | None) -> Html:
    """The figures that matter most: how good the model is next to its prior, and its size."""
    provenance, spec = bundle.provenance, bundle.content["spec"]
    items = _figures(bundle, measured)[:2]
    label = as_text(spec["label"])
    items += [
        ("Label", label, counted(bundle.tables["priors"].num_rows, "class", "classes")),
        (
            "Columns",
            number(len(bundle.content["features"])),
            counted(len(spec["blocks"]), "block"),
        ),
        ("Training rows", as_text(provenance.get("rows")), described_rows(provenance)),
    ]
    return tiles(items)


def sections(
    bundle: Bundle,
    *,
    picture: Picture | None,
    measured: Measured | None = None,
    importance: Importance | None = None,
) -> list[Section]:
    """The sections of a report.

    Args:
        bundle: the model.
        picture: gives the image of a plot; None if there is no matplotlib to draw it.
        measured: an evaluation of the model, or None for what its training recorded.
        importance: importance of the columns for some rows, or None.
    """
    found = [
        Section("evaluation", "How good it is", _quality(bundle, measured, picture)),
        Section("importance", "What matters", _importance(bundle, importance)),
        Section("effects", "Effects of columns", _effects(bundle, importance, picture)),
        Section("classes", "Classes", _classes(bundle)),
        Section("blocks", "Blocks", _blocks(bundle)),
        Section("training", "Training", _training(bundle)),
        Section("notes", "Notes", _notes(bundle.provenance)),
    ]
    return [section for section in found if section.body]


def _figures(bundle: Bundle, measured: Measured | None) -> list[tuple[str, str, str]]:
    """Tiles of the metrics next to the prior alone, of an evaluation or else of the training."""
    found = [] if measured is None else metrics(measured.result)
    if measured is None and (fitted := _fitted_weights(bundle)):
        found = [("Log loss", number(fitted["log_loss"]), number(fitted["prior_log_loss"]))]
    return [
        (title, value, f"prior alone {baseline}" if baseline else "")
        for title, value, baseline in found
    ]


def _quality(bundle: Bundle, measured: Measured | None, picture: Picture | None) -> Html:
    if measured is None:
        return _quality_of_training(bundle)
    result, rows = measured.result, described_rows(measured.on)
    counted = f"Measured on {number(result.get('rows'))} labeled rows"
    counted += f" of {rows}." if rows else "."
    parts = [paragraph(counted, "under")]
    trained_on = described_rows(bundle.provenance)
    if rows and rows == trained_on:
        parts.append(
            paragraph(
                "These are the rows of the training: on rows that it has not seen, expect the "
                "model to be worse.",
                "line warned",
            )
        )
    worse = result.get("worse_than_prior")
    if isinstance(worse, list) and worse:
        names = ", ".join(words(str(name)) for name in worse)
        parts.append(paragraph(f"Worse than the class prior alone: {names}", "line problem"))
    parts.append(tiles(_figures(bundle, measured)))
    left_out = [
        f"{number(count)} rows {reason}"
        for key, reason in {
            "null_labels": "have no label and are left out.",
            "unseen_labels": "are of a class that training never saw and are left out.",
        }.items()
        if isinstance(count := result.get(key), int) and count
    ]
    if left_out:
        parts.append(lines(left_out))
    return joined([*parts, _tables(result, picture)])


def _quality_of_training(bundle: Bundle) -> Html:
    fitted = _fitted_weights(bundle)
    if not fitted:
        weights = bundle.tables.get("block_weights")
        if weights is not None and not any(weights["value"].to_pylist()):
            return paragraph("The posterior is the class prior for every row: all weights are 0.")
        return paragraph(
            "Not measured: no evaluation of this model is recorded. "
            "model.report(…, source=…) or probclass report --source measures it on labeled rows."
        )
    saved = 1.0 - fitted["log_loss"] / fitted["prior_log_loss"] if fitted["prior_log_loss"] else 0.0
    return joined(
        [
            paragraph(
                f"Measured in the training on {number(fitted['rows'])} of its distinct rows: the "
                "blocks predict each row without having seen it (five folds); the weights of the "
                "blocks were fitted on the same rows. An evaluation on rows of a later time is a "
                "harder test.",
                "under",
            ),
            tiles(
                [*_figures(bundle, None), ("Below the prior", percent(saved), "of its log loss")]
            ),
        ]
    )


def _fitted_weights(bundle: Bundle) -> Mapping[str, Any]:
    """What fitting the block weights recorded; empty for other models."""
    found = bundle.provenance.get("block_weights")
    keys = ("rows", "log_loss", "prior_log_loss")
    if not isinstance(found, Mapping) or any(finite(found.get(key)) is None for key in keys):
        return {}
    return found


def _tables(result: Mapping[str, Any], picture: Picture | None) -> Html:
    """Confusion matrix, metrics by class and reliability diagram, of a complete record."""
    if not (result.get("reliability") and result.get("confusion")):
        return Html("")
    try:
        names = [str(row["class"]) for row in result["confusion"]]
        counts = [[int(row[f"predicted_{name}"]) for name in names] for row in result["confusion"]]
        by_class = _by_class(result["per_class"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return Html("")  # a record may contain anything
    matrix = [confusion(names, counts)] if len(names) <= _MAX_CONFUSION_CLASSES else []
    parts = [group("", [*matrix, by_class])]
    if picture is None:
        return group("columns", parts)
    diagram = figure(
        picture(
            "reliability", {}, "Observed frequency against predicted probability, with the diagonal"
        ),
        "How often predictions of each probability come true. On the diagonal, probabilities mean "
        "what they say.",
    )
    return group("columns", [*parts, diagram])


def _by_class(rows: Sequence[Mapping[str, Any]]) -> Html:
    columns = [
        Column("Class", "class"),
        Column("Rows", "support", number),
        Column("Precision", "precision", percent),
        Column("Recall", "recall", percent),
        Column("F1", "f1", percent),
    ]
    return table(rows, columns, most=_MAX_CLASSES, unit=_CLASSES)


def _importance(bundle: Bundle, importance: Importance | None) -> Html:
    """The columns by their weight of evidence if rows were explained, else the blocks."""
    if importance is not None:
        rows = importance.table.to_pylist()
        if not rows:
            return paragraph("No column contributes: the model is its class prior.")
        said = (
            f"How far each column moves the log odds of a prediction, in {importance.units}: the "
            f"mean of its absolute weight of evidence over {counted(importance.rows, 'row')}."
        )
        return _ranking(said, "Column", "Weight of evidence", "item", "size", rows)
    blocks = [row for row in _ranked(bundle) if row["importance"] is not None]
    said = "How much the log loss rises without a block, in nats, on rows that it did not see."
    return _ranking(said, "Block", "Importance", "block", "importance", blocks)


def _ranking(
    said: str, title: str, measure: str, name: str, key: str, rows: Sequence[Mapping[str, Any]]
) -> Html:
    """Bars of the largest values of a key, under a sentence about it; empty without rows."""
    if not rows:
        return Html("")
    ranking = table(
        rows,
        [Column(title, name), Column(measure, key, number)],
        most=_MAX_ITEMS,
        unit=(title.lower(), f"{title.lower()}s"),
        bars=_shares([row[key] for row in rows]),
        css="narrow",
    )
    return joined([paragraph(said, "under"), ranking])


def _effects(bundle: Bundle, importance: Importance | None, picture: Picture | None) -> Html:
    """A plot of each column, the most important ones first."""
    if picture is None:
        return paragraph("Plots need matplotlib: pip install 'probclass[plots]'.")
    columns = _columns_by_importance(bundle, importance)
    shown = columns[:_MAX_PLOTS]
    plots = [picture("column", {"column": name}, f"Effect of {name}") for name in shown]
    figures = [figure(plot) for plot in plots]
    parts = [group("plots", figures[:_PLOTS_AT_ONCE])]
    if rest := figures[_PLOTS_AT_ONCE:]:
        parts.append(details(counted(len(rest), "more plot"), group("plots", rest)))
    if len(columns) > len(shown):
        more = f"{len(columns) - len(shown):,} of the least important columns are not drawn."
        parts.append(paragraph(more, "faint small"))
    return joined(parts)


def _columns_by_importance(bundle: Bundle, importance: Importance | None) -> list[str]:
    known = dict(bundle.content["features"])
    names = [] if importance is None else importance.table["item"].to_pylist()
    for block in ordered_blocks(bundle):
        names += block["columns"]
    return list(dict.fromkeys([*(name for name in names if name in known), *known]))


def _classes(bundle: Bundle) -> Html:
    priors = sorted(bundle.tables["priors"].to_pylist(), key=lambda row: -row["count"])
    columns = [
        Column("Class", "class"),
        Column("Weight" if bundle.content["spec"].get("weight") else "Rows", "count", number),
        Column("Prior", "prior", percent),
    ]
    bars = [row["prior"] for row in priors]
    return table(priors, columns, most=_MAX_CLASSES, unit=_CLASSES, bars=bars, css="narrow")


def ordered_blocks(bundle: Bundle) -> list[Mapping[str, Any]]:
    """The blocks of the spec as plain values, the most important first if they have weights."""
    order = {row["block"]: position for position, row in enumerate(_ranked(bundle))}
    return sorted(bundle.content["spec"]["blocks"], key=lambda block: order.get(block["name"], 0))


def _blocks(bundle: Bundle) -> Html:
    ranked = {row["block"]: row for row in _ranked(bundle)}
    rows = [
        {**block, **ranked.get(block["name"], {}), "columns": _columns(block)}
        for block in ordered_blocks(bundle)
    ]
    columns = [
        Column("Block", "name"),
        *(
            Column(key.capitalize(), key, number)
            for key in ("weight", "importance")
            if any(row[key] is not None for row in ranked.values())
        ),
        Column("Estimator", "estimator"),
        Column("Columns", "columns", longest=200),
    ]
    shown, rest = rows[:_BLOCKS_AT_ONCE], rows[_BLOCKS_AT_ONCE:]
    more = [details(counted(len(rest), "more block"), table(rest, columns))] if rest else []
    return joined([table(shown, columns), *more])


def _columns(block: Mapping[str, Any]) -> str:
    columns = ", ".join(block["columns"])
    return f"{columns} given {', '.join(block['given'])}" if block.get("given") else columns


def _training(bundle: Bundle) -> Html:
    provenance = bundle.provenance
    rows = described_rows(provenance)
    prior = bundle.content["spec"]["prior"]
    facts = [("trained on", rows)] if rows else []
    facts += [
        (words(key), as_text(value))
        for key, value in provenance.items()
        if key not in ("source", "partition", "where", "airflow", "columns", "notes", "spec_notes")
    ]
    facts += [
        ("prior", prior if isinstance(prior, str) else as_text(prior)),
        *([("weight", weight)] if (weight := bundle.content["spec"].get("weight")) else []),
        ("content id", bundle.content_id),
    ]
    return pairs(facts)


def _notes(provenance: Mapping[str, Any]) -> Html:
    recorded = [provenance.get(key) for key in ("spec_notes", "notes")]
    sentences = [str(note) for notes in recorded if isinstance(notes, list) for note in notes]
    return lines(sentences) if sentences else Html("")


def _ranked(bundle: Bundle) -> list[dict[str, Any]]:
    """Blocks with their weight and importance, the most important first; empty without weights."""
    weights = bundle.tables.get("block_weights")
    found: list[dict[str, Any]] = [] if weights is None else ranked_blocks(weights).to_pylist()
    return found


def _shares(sizes: Sequence[float]) -> list[float]:
    largest = max((size for size in sizes if math.isfinite(size)), default=0.0) or 1.0
    return [size / largest for size in sizes]
