"""What the report of a model says, section by section.

The sections are made from the tables and plain values of a model, its `Bundle`, so that its
estimators need not be installed; only pictures need them. Tables and sentences are those that
``print`` shows of an evaluation, an importance and a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.analysis.importance import Importance
from probclass_core.arrow.bundle import Bundle
from probclass_core.display import TablePart, counted, described_rows, report_of
from probclass_core.model.block_weights import ranked_blocks
from probclass_core.model.description import describe
from probclass_core.model.model import SPEC_NOTES
from probclass_core.report.html import (
    Html,
    as_text,
    details,
    figure,
    finite,
    group,
    joined,
    number,
    pairs,
    paragraph,
    parts_html,
    percent,
    report_html,
    tiles,
    words,
)
from probclass_core.spec.model_spec import ModelSpec

Picture = Callable[[str | None, str], Html]
"""The image of the effect of a column, or without one of the reliability of the evaluation, and its
alternative text."""

_MAX_PLOTS, _PLOTS_AT_ONCE = 60, 8
"""Largest number of plots, and of those that are unfolded."""

_TITLES = {
    "log_loss": ("Log loss", number),
    "accuracy": ("Accuracy", percent),
    "brier": ("Brier score", number),
    "ece": ("Calibration error", number),
    "cost": ("Mean cost", number),
}
_OF_DENSITY = {"log_density": ("Log density", number)}
"""Title and format of each metric of an evaluation, and of that of a model without a label."""


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

    @cached_property
    def evaluation(self) -> Evaluation | None:
        """The evaluation, if it is complete; a record may contain anything."""
        try:
            evaluation = Evaluation.from_dict(self.result)
            report_of(evaluation)
        except Exception:  # damaged values can cause any error
            return None
        return evaluation


def metrics(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Title, value and baseline of each metric of an evaluation.

    Args:
        result: the evaluation as a dict, in which an infinite log loss is None.
    """
    shown = []
    titles = _OF_DENSITY if result.get("is_of_density") else _TITLES
    for key, (title, form) in titles.items():
        if key == "log_loss" and key in result and result[key] is None:
            shown.append((title, "∞", ""))
        elif (value := finite(result.get(key))) is not None:
            baseline = finite(result.get(f"baseline_{key}"))
            shown.append((title, form(value), "" if baseline is None else form(baseline)))
    return shown


def headline(
    bundle: Bundle, measured: Measured | None, operation: Iterable[tuple[str, str, str]] = ()
) -> Html:
    """The figures that matter most: how good the model is next to its prior, and its size.

    Args:
        bundle: the model.
        measured: an evaluation of the model, or None for what its training recorded.
        operation: title, value and remark of further figures, such as those of its operation.
    """
    provenance, spec = bundle.provenance, ModelSpec.from_dict(bundle.content["spec"])
    items = [*_figures(bundle, measured)[:2], *operation]
    if spec.label is not None:
        classes = counted(bundle.tables["priors"].num_rows, "class", "classes")
        items.append(("Label", spec.label, classes))
    items += [
        ("Columns", number(len(bundle.content["features"])), counted(len(spec.pool), "block")),
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
        Section("model", "What it is", _model(bundle)),
        Section("training", "Training", _training(bundle)),
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
    evaluation, rows = measured.evaluation, described_rows(measured.on)
    found = [paragraph(f"Measured on {rows}.", "under")] if rows else []
    if rows and rows == described_rows(bundle.provenance):
        found.append(
            paragraph(
                "These are the rows of the training: on rows that it has not seen, expect the "
                "model to be worse.",
                "line warned",
            )
        )
    if evaluation is None:
        return joined([*found, tiles(_figures(bundle, measured))])
    parts = report_of(evaluation)
    title, *sentences = (part for part in parts if isinstance(part, str))
    css = "line problem" if evaluation.warning else "line"
    found += [paragraph(title, "line"), *(paragraph(sentence, css) for sentence in sentences)]
    tables = [part for part in parts if isinstance(part, TablePart)]
    shown = [group("", [parts_html(tables)])] if tables else []
    if picture is not None and not evaluation.is_of_density:
        alt = "Observed frequency against predicted probability, with the diagonal"
        meaning = (
            "How often predictions of each probability come true. On the diagonal, probabilities "
            "mean what they say."
        )
        shown.append(figure(picture(None, alt), meaning))
    return joined([*found, group("columns", shown)])


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
    said = (
        f"Measured in the training on {number(fitted['rows'])} of its distinct rows: the blocks "
        "predict each row without having seen it (five folds); the weights of the blocks were "
        "fitted on the same rows. An evaluation on rows of a later time is a harder test."
    )
    return joined([paragraph(said, "under"), tiles(_figures(bundle, None))])


def _fitted_weights(bundle: Bundle) -> Mapping[str, Any]:
    """What fitting the block weights recorded; empty for other models."""
    found = bundle.provenance.get("block_weights")
    keys = ("rows", "log_loss", "prior_log_loss")
    if not isinstance(found, Mapping) or any(finite(found.get(key)) is None for key in keys):
        return {}
    return found


def _importance(bundle: Bundle, importance: Importance | None) -> Html:
    """The columns by their weight of evidence if rows were explained, else the blocks."""
    if importance is not None:
        return report_html(importance)
    blocks = [row for row in _ranked(bundle) if row["importance"] is not None]
    if not blocks:
        return Html("")
    columns = {name: [row[name] for row in blocks] for name in ("block", "importance")}
    title = "how much the log loss rises without a block, in nats, on rows that it did not see"
    return parts_html([TablePart(columns, title, bars="importance")])


def _effects(bundle: Bundle, importance: Importance | None, picture: Picture | None) -> Html:
    """A plot of each column, the most important ones first."""
    if picture is None:
        return paragraph("Plots need matplotlib: pip install 'probclass[plots]'.")
    columns = _columns_by_importance(bundle, importance)
    shown = columns[:_MAX_PLOTS]
    plots = [picture(name, f"Effect of {name}") for name in shown]
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
    for block in _ordered_blocks(bundle):
        names += block["columns"]
    return list(dict.fromkeys([*(name for name in names if name in known), *known]))


def parameter_tables(bundle: Bundle) -> Html:
    """The parameters of each block, folded, the most important block first."""
    tables = []
    for block in _ordered_blocks(bundle):
        rows = _by_column(bundle.tables[block["name"]], block["columns"])
        name = f"{block['name']}: {', '.join(block['columns'])}"
        tables.append(details(name, parts_html([TablePart(rows)])))
    return joined(tables)


def _by_column(table: pa.Table, columns: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """Values of a table; one with vectors has a row for each column, and variances of matrices."""
    values: dict[str, list[Any]] = {name: table[name].to_pylist() for name in table.column_names}
    width, vectors = len(columns), [name for name in values if isinstance(values[name][0], list)]
    sizes = {np.size(value) for name in vectors for value in values[name]}
    if not vectors or not sizes <= {width, width**2}:
        return values
    for name in vectors:
        matrices = [np.reshape(value, (width, -1)) for value in values[name]]
        values[name] = [
            float(matrix[at, min(at, matrix.shape[1] - 1)])
            for matrix in matrices
            for at in range(width)
        ]
    for name in values.keys() - set(vectors):
        values[name] = [value for value in values[name] for _ in columns]
    return {"column": [*columns] * table.num_rows, **values}


def _ordered_blocks(bundle: Bundle) -> list[Mapping[str, Any]]:
    """The blocks of the spec as plain values, the most important first if they have weights."""
    order = {row["block"]: position for position, row in enumerate(_ranked(bundle))}
    return sorted(bundle.content["spec"]["blocks"], key=lambda block: order.get(block["name"], 0))


def _model(bundle: Bundle) -> Html:
    """Classes, blocks and notes."""
    provenance = bundle.provenance
    spec = ModelSpec.from_dict(bundle.content["spec"])
    spec = dataclasses.replace(spec, notes=provenance.get(SPEC_NOTES, ()))
    priors = bundle.tables["priors"]
    _, *parts = describe(bundle.content_id, spec, priors, provenance, bundle.tables)
    return parts_html(parts)


def _training(bundle: Bundle) -> Html:
    provenance = bundle.provenance
    rows = described_rows(provenance)
    facts = [("trained on", rows)] if rows else []
    facts += [
        (words(key), as_text(value))
        for key, value in provenance.items()
        if key not in ("source", "partition", "where", "airflow", "columns", "notes", SPEC_NOTES)
    ]
    spec = bundle.content["spec"]
    facts += [(key, as_text(spec[key])) for key in ("prior", "weight") if key in spec]
    return pairs([*facts, ("content id", bundle.content_id)])


def _ranked(bundle: Bundle) -> list[dict[str, Any]]:
    """Blocks with their weight and importance, the most important first; empty without weights."""
    weights = bundle.tables.get("block_weights")
    found: list[dict[str, Any]] = [] if weights is None else ranked_blocks(weights).to_pylist()
    return found
