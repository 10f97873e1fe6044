"""How good a model is, why, which model is best, what changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from probclass_core.cli.options import (
    DecisionOptions,
    EngineOptions,
    Json,
    MissingColumnsOption,
    ModelOptions,
    Ref,
    RowOptions,
    Source,
    Store,
    Units,
    WatchOptions,
)
from probclass_core.cli.output import MAX_ROWS, Part, key_values, prose, show, show_json, table
from probclass_core.cli.verbosity import progress
from probclass_core.errors import SpecError, one_of

if TYPE_CHECKING:
    from probclass_core.analysis.comparison import ModelOdds
    from probclass_core.analysis.evaluation import Evaluation
    from probclass_core.analysis.explanation import Units as WeightUnits
    from probclass_core.io.missing_columns import MissingColumns
    from probclass_core.store.evaluations import EvaluationRecord
    from probclass_core.store.references import ModelVersion

_MAX_CLASSES = 12
"""With more classes than this, the largest mistakes are shown instead of the confusion matrix."""

_COMPARISON_HEADERS = {
    "model": "model",
    "log_evidence": "log evidence",
    "baseline_log_evidence": "class prior alone",
    "log_bayes_factor": "log Bayes factor",
    "prior": "prior",
    "odds": "odds",
    "posterior": "posterior",
    "reading": "reading",
}
"""Columns of a comparison, and their headers in a report."""

_LARGE_ODDS = 1e6
"""Odds beyond this, or below its inverse, are written as a power of ten."""


def evaluate(
    model: ModelOptions,
    source: Source,
    *,
    rows: EngineOptions,
    decision: DecisionOptions,
    watch: WatchOptions,
    missing_columns: MissingColumnsOption = "error",
    as_json: Json = False,
) -> None:
    """Measure accuracy, log loss and calibration of a model on labeled rows.

    The same metrics are shown for the class prior alone, with a warning if the model is worse. A
    check that --fail-on names fails after the metrics are shown.

    Example: probclass evaluate air@champion lake --partition month=2014-01
    """
    import probclass_core as pc
    from probclass_core.errors import HealthError

    reading, rule, checks = rows.arguments(), decision.rule(), watch.parsed()
    store, version = model.resolve()
    with progress("evaluating") as report:
        evaluation = pc.evaluate(
            store.load(version.ref),
            source,
            decision=rule,
            missing_columns=cast("MissingColumns", missing_columns),
            progress=report,
            **reading,
        )
    promoted = store.evaluation_at_promotion(version)
    before = None if promoted is None else promoted.result
    verdicts = [] if checks is None else checks.judge(evaluation, before)
    plain = [verdict.to_dict() for verdict in verdicts]
    failed = [verdict for verdict in verdicts if verdict.action == "fail"]
    if as_json:
        show_json({"model": version.ref, **evaluation.to_dict(), "verdicts": plain})
    else:
        _show_evaluation(evaluation, version, [str(verdict) for verdict in verdicts])
    if failed:
        raise HealthError(" ".join(map(str, failed)), [one.to_dict() for one in failed])


def _show_evaluation(
    evaluation: Evaluation, version: ModelVersion, sentences: Sequence[str]
) -> None:
    show(
        key_values(
            {
                "model": version.ref,
                "rows": f"{evaluation.rows:,} labeled",
                "left out": evaluation.left_out,
                "rejected": _rejected(evaluation),
                "warning": evaluation.warning,
                "checks": " ".join(sentences) or None,
            }
        ),
        _quality(evaluation),
        _confusion(evaluation),
        table(evaluation.per_class, "By class", limit=MAX_ROWS),
    )


def health(
    model: ModelOptions,
    source: Source,
    *,
    rows: EngineOptions,
    decision: DecisionOptions,
    as_json: Json = False,
) -> None:
    """Compare rows with what a model expects, without labels.

    It shows nulls, unseen values and drift of each column, the shares of the classes, and the
    accuracy to expect. Scoring records the same with each partition.

    Example: probclass health air@champion lake --partition month=2014-01
    """
    import probclass_core as pc

    reading, rule = rows.arguments(), decision.rule()
    loaded, version = model.load()
    with progress("measuring") as report:
        measured = pc.health(loaded, source, decision=rule, progress=report, **reading)
    if as_json:
        show_json({"model": version.ref, **measured.to_dict()})
        return
    density = measured.log_density
    show(
        key_values(
            {
                "model": version.ref,
                "rows": f"{measured.rows:,}",
                "accuracy": measured.accuracy.text("the most frequent class"),
                "log loss": measured.log_loss.text("the prior"),
                "rejected": f"{measured.rejected:.2%} of the rows" if measured.rejected else None,
                "rare": None
                if density is None or density.rare is None
                else f"{density.rare:.2%} of the rows; 1% would be usual",
            }
        ),
        *(table(columns, title, limit=MAX_ROWS) for title, columns in measured.tables()),
    )


def explain(
    model: ModelOptions,
    source: Source,
    *,
    row: Annotated[
        list[int] | None,
        typer.Option(
            "--row",
            metavar="N",
            help="Explain only this row, counted from 0 among the rows that --partition and "
            "--where select; may be repeated.",
        ),
    ] = None,
    rows: RowOptions,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="CLASS",
            help="Class to compare the prediction with; by default the runner-up.",
        ),
    ] = None,
    units: Units = "nats",
    by: Annotated[
        Literal["column", "block"],
        typer.Option(
            "--by",
            metavar="column|block",
            help="One entry for each column, or for each block and column with its weight.",
        ),
    ] = "column",
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            metavar="N",
            min=1,
            help="Number of entries to show per row, largest first; the others are summed up.",
        ),
    ] = 10,
    as_json: Json = False,
) -> None:
    """Explain why a model predicts a class: what each column adds to the log odds.

    Example: probclass explain air@champion lake --partition month=2014-01 --row 0
    """
    import probclass_core as pc

    selection = rows.arguments()
    loaded, version = model.load()
    explanation = pc.explain(
        loaded,
        source,
        rows=row or None,
        against=against,
        units=cast("WeightUnits", units),
        by=by,
        limit=limit,
        **selection,
    )
    if as_json:
        show_json({"model": version.ref, **explanation.to_dict()})
    else:
        show(str(explanation))


def importance(
    model: ModelOptions,
    source: Source,
    *,
    rows: RowOptions,
    explained: Annotated[
        int,
        typer.Option(
            "--rows",
            metavar="N",
            min=1,
            help="Number of rows to explain, drawn at random; the same ones each time.",
        ),
    ] = 1_000,
    units: Units = "nats",
    as_json: Json = False,
) -> None:
    """Show what each column contributes to predictions, on average over rows.

    Example: probclass importance air@champion lake --partition month=2014-01
    """
    import probclass_core as pc

    selection = rows.arguments()
    loaded, version = model.load()
    result = pc.importance(
        loaded, source, rows=explained, units=cast("WeightUnits", units), **selection
    )
    if as_json:
        show_json({"model": version.ref, **result.to_dict()})
    else:
        show(str(result))


def report(
    model: ModelOptions,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="SOURCE",
            help="Table of labeled rows to evaluate the model on, and to measure the importance of "
            "columns with; by default the newest evaluation in the store is shown.",
        ),
    ] = None,
    rows: RowOptions,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE.html", help="Page to write."),
    ] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write one HTML page: how good a model is, what matters, and what it is.

    The page loads nothing and can be sent by mail. Its plots need probclass[plots].

    Example: probclass report air@champion --source lake --partition month=2014-01
    """
    import probclass_core as pc

    selection = rows.arguments()
    if source is None and (rows.partition or rows.where):
        raise SpecError("--partition and --where select rows of --source; add --source TABLE.")
    store, version = model.resolve()
    loaded = store.load(version.ref)
    evaluation: Evaluation | EvaluationRecord | None = None
    if source is None:
        recorded = store.evaluations(version)
        evaluation = recorded[-1] if recorded else None
    else:
        with progress("evaluating") as done:
            evaluation = pc.evaluate(loaded, source, progress=done, **selection)
    with progress("drawing", "plots") as done:
        loaded.report(
            output,
            source=source,
            evaluation=evaluation,
            title=version.model,
            progress=done,
            **selection,
        )
    if as_json:
        show_json({"model": version.ref, "output": str(output)})
    else:
        show(f"Wrote the report of {version.ref} to {output}.")


def compare(
    source: Source,
    specs: Annotated[
        list[Path],
        typer.Argument(
            metavar="SPEC SPEC…",
            help="Two or more model specs: TOML, YAML or JSON. The file name names the model.",
        ),
    ],
    *,
    odds: Annotated[
        list[str] | None,
        typer.Option(
            "--odds",
            metavar="MODEL=NUMBER",
            help="Prior odds of a model, by default 1; may be repeated.",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            metavar="N",
            min=2,
            help="Compare predictions by cross-validation on N folds instead; the models may have "
            "different columns.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="COLUMN",
            help="With --folds: column whose rows with the same value are in one fold.",
        ),
    ] = None,
    rows: EngineOptions,
    as_json: Json = False,
) -> None:
    """Compare models by their evidence, which one the rows support, or by cross-validation.

    The models must have the same label and, without --folds, the same columns. Nothing is saved.

    Example: probclass compare lake full.toml naive.toml --where "month < 2014-01"
    """
    import probclass_core as pc
    from probclass_core.analysis.comparison import check_same_columns

    reading = rows.arguments()
    paths = {path.stem: path for path in specs}
    if len(paths) < len(specs):
        raise SpecError("the file name of a spec names its model, and two files have one name.")
    if groups is not None and folds is None:
        raise SpecError("--groups is an option of cross-validation; write --folds N as well.")
    if odds and folds is not None:
        raise SpecError("--odds is about evidence, and cross-validation has none; remove --odds.")
    models = {name: pc.ModelSpec.from_file(path) for name, path in paths.items()}
    if folds is not None:
        with progress("cross-validating") as report:
            result = pc.cross_validate(
                source, models, folds=folds, groups=groups, progress=report, **reading
            )
        if as_json:
            show_json(result.to_dict())
        else:
            show(str(result))
        return
    check_same_columns(models)
    prior = dict.fromkeys(paths, 1.0) | _prior_odds(odds or (), paths)
    with progress("summarizing") as report:
        statistics = {
            name: pc.summarize(source, spec, progress=report, **reading)
            for name, spec in models.items()
        }
    comparison = pc.compare(statistics, prior=prior)
    if as_json:
        count = sum(next(iter(statistics.values())).classes["rows"].to_pylist())
        records = comparison.table.to_pylist()
        show_json({"rows": count, "best": comparison.best, "models": records})
        return
    columns = {
        header: comparison.table[name].to_pylist() for name, header in _COMPARISON_HEADERS.items()
    }
    best, second = columns["model"][:2]
    columns["odds"] = [_odds(comparison.odds(name, best)) for name in columns["model"]]
    lead = comparison.odds(best, second)
    line = f"{best} against {second}: odds of {_odds(lead)} to 1, {lead.reading}."
    limits = (
        "Odds say which of these models describes the rows better, not that any of them predicts "
        "well: see evaluate."
    )
    worse = (
        f"{name} is worse than its class prior alone: the rows are more probable if the columns do "
        "not depend on the class."
        for name in comparison.worse_than_prior
    )
    show(
        table(columns, "Models, the most probable first; odds against the best"),
        prose("\n".join([limits, line, *worse])),
    )


def drift(
    before: Ref,
    after: Annotated[
        str, typer.Argument(metavar="REF", help="Later model, written in the same way.")
    ],
    *,
    store: Store,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=1, help="Number of features to show, most changed first."
        ),
    ] = 20,
    as_json: Json = False,
) -> None:
    """Show what changed between two models, from their parameters alone.

    Divergences are in bits: 0 if nothing changed, 1 if the distributions do not overlap. The other
    columns describe the class that changed most.

    Example: probclass drift air@2014-01 air@2014-02
    """
    import probclass_core as pc

    model_store = pc.ModelStore(store)
    versions = [model_store.resolve(ref) for ref in (before, after)]
    changes = pc.drift(*(model_store.load(version.ref) for version in versions))
    if as_json:
        show_json({"models": [version.ref for version in versions], **changes.to_dict()})
        return
    rows = changes.by_feature.to_pylist()
    columns = {
        "feature": [row["feature"] if row["term"] is None else row["term"] for row in rows],
        "divergence": [row["divergence"] for row in rows],
        "class": [row["class"] for row in rows],
        "mean shift (sd)": [row["mean_shift"] for row in rows],
        "variance ratio": [row["variance_ratio"] for row in rows],
        "value": [row["value"] for row in rows],
        "before": [row["probability_before"] for row in rows],
        "after": [row["probability_after"] for row in rows],
    }
    columns = {
        name: values
        for name, values in columns.items()
        if name == "feature" or any(value is not None for value in values)
    }
    headers = ("class", "share before", "share after")
    shares = dict(zip(headers, changes.classes.to_pydict().values(), strict=True))
    not_compared = "\n".join(["Not compared", *changes.uncompared])
    show(
        table(shares, f"Classes: {changes.class_divergence:.4f} bits"),
        table(columns, "Features, the most changed first; divergence in bits", limit=limit),
        *([prose(not_compared)] if changes.uncompared else []),
    )


def _rejected(evaluation: Evaluation) -> str | None:
    if evaluation.decided == evaluation.rows:
        return None
    reasons = ", ".join(f"{count:,} by {reason}" for reason, count in evaluation.rejected.items())
    rows = evaluation.rows - evaluation.decided
    return f"{rows:,} ({evaluation.rejected_share:.1%}): {reasons}"


def _quality(evaluation: Evaluation) -> Part:
    among = "" if evaluation.decided == evaluation.rows else ", among decided rows"
    metrics = [
        (
            "accuracy",
            evaluation.accuracy,
            evaluation.baseline_accuracy,
            f"share predicted right{among}",
        ),
        (
            "log loss",
            evaluation.log_loss,
            evaluation.baseline_log_loss,
            "nats per row, less is better",
        ),
        ("Brier score", evaluation.brier, evaluation.baseline_brier, "0 to 2, less is better"),
        (
            "calibration error",
            evaluation.ece,
            evaluation.baseline_ece,
            "0 to 1, less is better",
        ),
    ]
    if evaluation.cost is not None:
        explained = "mean per decided row, less is better"
        metrics.insert(1, ("cost", evaluation.cost, evaluation.baseline_cost, explained))
    headers = ("metric", "model", "prior alone", "")
    return table(dict(zip(headers, map(list, zip(*metrics, strict=True)), strict=True)), "Quality")


def _confusion(evaluation: Evaluation) -> Part:
    """The confusion matrix; with many classes, its largest mistakes."""
    names = evaluation.confusion["class"].to_pylist()
    if len(names) <= _MAX_CLASSES:
        matrix = evaluation.confusion.rename_columns(["true class", *names])
        return table(matrix, "Confusion: rows by true class, columns by predicted class")
    counts = evaluation.confusion.drop(["class"]).to_pylist()
    mistakes = [
        (true, predicted, count)
        for true, row in zip(names, counts, strict=True)
        for predicted, count in zip(names, row.values(), strict=True)
        if true != predicted and count
    ]
    mistakes.sort(key=lambda mistake: -mistake[2])
    columns = {
        name: [mistake[position] for mistake in mistakes]
        for position, name in enumerate(("true class", "predicted", "rows"))
    }
    return table(columns, "Most frequent mistakes", limit=MAX_ROWS)


def _odds(odds: ModelOdds) -> str:
    """Odds as text; very large and very small ones as a power of ten."""
    if math.isfinite(odds.log_odds) and not 1 / _LARGE_ODDS < odds.odds < _LARGE_ODDS:
        return f"10^{odds.log_odds / math.log(10.0):.0f}"
    return f"{odds.odds:,.3g}"


def _prior_odds(texts: Sequence[str], models: Mapping[str, Path]) -> dict[str, float]:
    """Parse prior odds from ``MODEL=NUMBER``."""
    odds = {}
    for text in texts:
        name, _, number = (part.strip() for part in text.rpartition("="))
        if name not in models:
            raise SpecError(f"--odds {text!r}: write MODEL=NUMBER with one of {one_of(models)}.")
        try:
            odds[name] = float(number)
        except ValueError as error:
            raise SpecError(f"--odds {text!r}: {number!r} is not a number.") from error
    return odds
