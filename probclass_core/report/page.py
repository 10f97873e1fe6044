"""A report as a file: the model measured if rows are given, its plots drawn, one page written."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probclass_core import plots
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.analysis.importance import Importance, importance
from probclass_core.errors import ProbClassError, SpecError, TableError
from probclass_core.execution.progress import ProgressOption, RowCounter, draws_progress
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.selection import Selection
from probclass_core.model.model import Model
from probclass_core.pipeline.evaluation import evaluate
from probclass_core.report.html import Html, image, joined, paragraph, text
from probclass_core.report.pictures import as_svg
from probclass_core.report.sections import Measured, headline, sections
from probclass_core.store.results import EvaluationRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = Path(__file__).parent / "static" / "report.css"


def report(
    model: Model,
    path: str | os.PathLike[str],
    *,
    source: Any = None,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    evaluation: Evaluation | EvaluationRecord | None = None,
    title: str | None = None,
    progress: ProgressOption = None,
) -> None:
    """Write the report of a model: one HTML page that loads nothing from anywhere.

    It says how good the model is next to its class prior, which columns matter, what each of
    them does, and what the model is: classes, blocks, training.
    Without an evaluation, it has what the training recorded. Plots need matplotlib
    (``pip install 'probclass[plots]'``); without it, the rest is written.

    Args:
        model: model to report on.
        path: file to write, such as ``"air.html"``.
        source: labeled rows to evaluate the model on, and to measure the importance of its
            columns with; as for `pipeline.evaluate`. Rows that training has not seen, best.
        partition: partition of the source to read.
        where: rows of the source to read.
        evaluation: evaluation of the model to show, also one that a store recorded.
        title: title of the page; by default the label.
        progress: True for bars while rows are evaluated and plots are drawn, or a function that
            the numbers of rows, and then of plots, are reported to.

    Raises:
        SpecError: if the evaluation is of another model, rows are selected without a source, or the
            file is to have another format.
        DataError, TableError: as `pipeline.evaluate`; also if the file cannot be written.
    """
    if (suffix := Path(path).suffix) not in ("", ".html", ".htm"):
        raise SpecError(f"a report is a page of HTML, not {suffix}: write it to a file .html.")
    measured, important = _given(model, evaluation), None
    if source is not None:
        rows: dict[str, Any] = {"partition": partition, "where": where}
        table = open_table(source)
        selection = Selection(table, partition, where)
        if measured is None:
            measured = Measured(evaluate(model, table, **rows, progress=progress).to_dict())
        if not measured.on:
            on = selection.provenance(selection.plan(model.spec.label_columns))
            measured = Measured(measured.result, {"source": "a table in memory", **on})
        if len(model.classes) > 1:  # evidence is for one class against another
            important = importance(model, table, **rows)
    elif partition is not None or where is not None:
        raise SpecError("partition and where select rows of source: give a source as well.")
    content = _page(model, measured, important, title, progress=progress)
    try:
        Path(path).write_text(content, encoding="utf-8")
    except OSError as error:
        raise TableError(f"cannot write the report to {str(path)!r}: {error.strerror}.") from error


def _given(model: Model, evaluation: Evaluation | EvaluationRecord | None) -> Measured | None:
    """An evaluation as plain values.

    Raises:
        SpecError: if it is of another model.
    """
    if evaluation is None:
        return None
    if isinstance(evaluation, EvaluationRecord):
        measured = Measured(evaluation.result, evaluation.on)
    else:
        measured = Measured(evaluation.to_dict())
    evaluated = str(measured.result.get("model_id"))
    if evaluated != model.id:
        raise SpecError(
            f"the evaluation is of model {evaluated[:12]}, and the report of {model.id[:12]}; "
            "evaluate this model."
        )
    return measured


@draws_progress("drawing", "plots")
def _page(
    model: Model,
    measured: Measured | None,
    importance: Importance | None,
    title: str | None,
    *,
    progress: ProgressOption,
) -> str:
    """The page, with its style and without anything to load."""
    bundle, counter = model.to_bundle(), RowCounter(progress, None)
    evaluation = None if measured is None else measured.evaluation

    def picture(column: str | None, alt: str) -> Html:
        """An image, or a line that says why there is none."""
        try:
            svg = as_svg(lambda: _draw(model, evaluation, column), "system")
        except ProbClassError as error:
            return paragraph(f"{alt}: {error}", "faint small")
        counter.add(1)
        return image(f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}", alt)

    found = sections(
        bundle,
        picture=picture if find_spec("matplotlib") is not None else None,
        measured=measured,
        importance=importance,
    )
    name = text(title or f"Model{model.spec.of_label}")
    links = joined(Html(f'<a href="#{section.id}">{section.title}</a>') for section in found)
    return f"""<!doctype html>
<html lang="en" data-theme="system">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name[5:-6]}</title>
<style>
{_STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
<h1>{name} <code>{model.id[:12]}</code></h1>
{headline(bundle, measured)}
<nav class="contents" aria-label="Sections">
{links}
</nav>
{joined(section.__html__() for section in found)}
</main>
</body>
</html>
"""


def _draw(model: Model, evaluation: Evaluation | None, column: str | None) -> Figure:
    if column is not None:
        return plots.effect(model, column)
    assert evaluation is not None  # only its section has the picture
    return plots.reliability(evaluation)
