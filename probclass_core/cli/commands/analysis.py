"""How good a model is, why, which model is best, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import click

import probclass_core as pc
from probclass_core.cli.messages import progress
from probclass_core.cli.options import (
    ChecksOption,
    Count,
    EngineRows,
    Parser,
    Ref,
    Rows,
    Source,
    Store,
    StoredModel,
    parse_numbers,
)
from probclass_core.cli.output import report_parts, show, show_report
from probclass_core.display import report_of
from probclass_core.errors import HealthError, SpecError, check_known
from probclass_core.io.selection import MissingColumns
from probclass_core.model.decision import DecisionRule


def evaluate(
    model: StoredModel,
    source: Source,
    *,
    rows: EngineRows,
    decision: DecisionRule,
    watch: ChecksOption,
    missing_columns: MissingColumns = "error",
) -> None:
    """Measure accuracy, log loss and calibration of a model on labeled rows.

    The same metrics are shown for the class prior alone, with a warning if the model is worse. A
    check that --fail-on names fails after the metrics are shown.

    Example: probclass evaluate air@champion lake --partition month=2014-01

    Options:
        missing_columns: if no file has a column of the model: fail, or read it as null with a
            warning or without.
    """
    version = model.version
    with progress("evaluating") as report:
        evaluation = pc.evaluate(
            model.load(),
            source,
            decision=decision,
            missing_columns=missing_columns,
            progress=report,
            **vars(rows),
        )
    promoted = model.models.evaluation_at_promotion(version)
    before = None if promoted is None else promoted.result
    verdicts = [] if watch is None else watch.judge(evaluation, before)
    show_report(
        evaluation,
        {"model": version.ref, "verdicts": [verdict.to_dict() for verdict in verdicts]},
        {"model": version.ref, "checks": " ".join(map(str, verdicts)) or None},
    )
    if failed := [verdict for verdict in verdicts if verdict.action == "fail"]:
        raise HealthError(" ".join(map(str, failed)), [one.to_dict() for one in failed])


def health(model: StoredModel, source: Source, *, rows: EngineRows, decision: DecisionRule) -> None:
    """Compare rows with what a model expects, without labels.

    It shows nulls, unseen values and drift of each column, and the shares of the classes. Scoring
    records the same with each partition.

    Example: probclass health air@champion lake --partition month=2014-01
    """
    with progress("measuring") as report:
        measured = pc.health(model.load(), source, decision=decision, progress=report, **vars(rows))
    named = {"model": model.version.ref}
    show_report(measured, named, named)


def explain(
    model: StoredModel,
    source: Source,
    *,
    row: Sequence[int] = (),
    rows: Rows,
    against: str | None = None,
    limit: Count = 10,
) -> None:
    """Explain why a model predicts a class: what each column adds to the log odds.

    Example: probclass explain air@champion lake --partition month=2014-01 --row 0

    Options:
        row: N: explain only this row, counted from 0 among the rows that --partition and --where
            select; may be repeated.
        against: CLASS: class to compare the prediction with; by default the runner-up.
        limit: number of entries to show per row, largest first; the others are summed up.
    """
    explanation = pc.explain(
        model.load(),
        source,
        rows=row or None,
        against=against,
        limit=limit,
        **vars(rows),
    )
    show({"model": model.version.ref, **explanation.to_dict()}, str(explanation))


def importance(
    model: StoredModel,
    source: Source,
    *,
    rows: Rows,
    explained: Count = 1_000,
) -> None:
    """Show what each column contributes to predictions, on average over rows.

    Example: probclass importance air@champion lake --partition month=2014-01

    Options:
        explained: --rows N: number of rows to explain, drawn at random; the same ones each time.
    """
    result = pc.importance(model.load(), source, rows=explained, **vars(rows))
    show({"model": model.version.ref, **result.to_dict()}, str(result))


def report(
    model: StoredModel,
    *,
    source: str | None = None,
    rows: Rows,
    output: Path = Path("report.html"),
) -> None:
    """Write one HTML page: how good a model is, what matters, and what it is.

    The page loads nothing and can be sent by mail. Its plots need probclass[plots].

    Example: probclass report air@champion --source lake --partition month=2014-01

    Options:
        source: table of labeled rows to evaluate the model on, and to measure the importance of
            columns with; by default the newest evaluation in the store is shown.
        output: --output/-o FILE.html: page to write.
    """
    if source is None and (rows.partition or rows.where):
        raise SpecError("--partition and --where select rows of --source; add --source TABLE.")
    version, loaded = model.version, model.load()
    evaluation: Any = None
    if source is None:
        evaluation = next(reversed(model.models.evaluations(version)), None)
    else:
        with progress("evaluating") as done:
            evaluation = pc.evaluate(loaded, source, progress=done, **vars(rows))
    with progress("drawing", "plots") as done:
        loaded.report(
            output,
            source=source,
            evaluation=evaluation,
            title=version.model,
            progress=done,
            **vars(rows),
        )
    show(
        {"model": version.ref, "output": str(output)},
        f"Wrote the report of {version.ref} to {output}.",
    )


def compare(
    source: Source,
    specs: Annotated[
        list[Path],
        "SPEC…: Two or more model specs: TOML, YAML or JSON. The file name names the model.",
    ],
    *,
    odds: Annotated[dict[str, float] | None, Parser(parse_numbers)] = None,
    folds: Annotated[int | None, click.IntRange(min=2)] = None,
    groups: str | None = None,
    rows: EngineRows,
) -> None:
    """Compare models by their evidence, which one the rows support, or by cross-validation.

    The models must have the same label and, without --folds, the same columns. Nothing is saved.

    Example: probclass compare lake full.toml naive.toml --where "month < 2014-01"

    Options:
        odds: MODEL=NUMBER: prior odds of a model, by default 1; may be repeated.
        folds: compare predictions by cross-validation on N folds instead; the models may have
            different columns.
        groups: COLUMN: with --folds: column whose rows with the same value are in one fold.
    """
    models = {path.stem: pc.ModelSpec.from_file(path) for path in specs}
    if len(models) < len(specs):
        raise SpecError("the file name of a spec names its model, and two files have one name.")
    if groups is not None and folds is None:
        raise SpecError("--groups is an option of cross-validation; write --folds N as well.")
    if odds and folds is not None:
        raise SpecError("--odds is about evidence, and cross-validation has none; remove --odds.")
    if folds is not None:
        with progress("cross-validating") as report:
            result = pc.cross_validate(
                source, models, folds=folds, groups=groups, progress=report, **vars(rows)
            )
        show(result.to_dict(), str(result))
        return
    check_known(odds or (), models, "--odds MODEL=NUMBER: no model", "there are")
    prior = dict.fromkeys(models, 1.0) | (odds or {})
    with progress("summarizing") as report:
        comparison = pc.compare(source, models, prior=prior, progress=report, **vars(rows))
    show(
        {"best": comparison.best, "models": comparison.table.to_pylist()},
        *report_parts(report_of(comparison)),
    )


def drift(
    before: Ref,
    after: Annotated[str, "REF: Later model, written in the same way."],
    *,
    store: Store,
    limit: Count = 20,
) -> None:
    """Show what changed between two models, from their parameters alone.

    Divergences are in bits: 0 if nothing changed, 1 if the distributions do not overlap. The other
    columns describe the class that changed most.

    Example: probclass drift air@2014-01 air@2014-02

    Options:
        limit: number of features to show, most changed first.
    """
    models = [StoredModel(ref, store=store) for ref in (before, after)]
    changes = pc.drift(*(model.load() for model in models))
    show_report(changes, {"models": [model.version.ref for model in models]}, limit=limit)
