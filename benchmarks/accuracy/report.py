"""Markdown tables: a table of the benchmark, and models compared over all tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy.models import KHIOPS, MODELS, PRIOR
from benchmarks.accuracy.scores import OPTIMUM, Result, from_record
from benchmarks.accuracy.tables import SMALL, TABLES
from benchmarks.report import table

NEGLIGIBLE = 1e-3
"""Log losses are raised to this in ratios: below it, folds are too few to compare models."""
MANY = 500
"""Rows from which on a table also counts in a summary of its own: the folds of smaller ones are so
few rows that their log losses differ by chance."""
TOLERANCE = 1.02
"""A log loss above this times that of the class prior is worse than no model."""
MAX_ECE = 0.05
"""Calibration error that probclass should not exceed on tables of at least `SMALL` rows."""
OURS = tuple(name for name, model in MODELS.items() if model.kind == "ours")
FORMATS = {"error": ".1%", "log_loss": ".3f", "ece": ".3f"}


def section(result: Result) -> str:
    """A table and its models."""
    size = f"{result.rows:,} rows × {result.columns} columns, {result.classes} classes"
    rows = []
    for name in names([result]):
        outcome = result.outcomes[name]
        if isinstance(outcome, str):
            rows.append([name, f"refused: {outcome[:100]}", *[""] * 4])
            continue
        metrics = [format(getattr(outcome, metric), form) for metric, form in FORMATS.items()]
        speed = [f"{outcome.fit_seconds:.2f} s", f"{outcome.rows_per_second:,.0f}"]
        rows.append([name, *metrics, *(speed if name != OPTIMUM else ["", ""])])
    head = f"{result.name}: {size}; folds: {result.folds}.\n\n"
    return head + table(["model", "error", "log loss", "ECE", "fit", "rows/s"], rows)


def names(results: Sequence[Result]) -> list[str]:
    """The models that ran on a table, and `OPTIMUM`, in the order of columns."""
    return [
        name
        for name in (*MODELS, KHIOPS, OPTIMUM)
        if any(name in result.outcomes for result in results)
    ]


def ratios(results: Sequence[Result], name: str, against: str) -> dict[str, float]:
    """Log loss of a model relative to another's, by table; only tables on which both ran."""
    found = {}
    for result in results:
        over, under = result.scores(name), result.scores(against)
        if over is not None and under is not None:
            found[result.name] = max(over.log_loss, NEGLIGIBLE) / max(under.log_loss, NEGLIGIBLE)
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of at least one positive number."""
    return math.exp(float(np.mean(np.log(values))))


def comparison(results: Sequence[Result]) -> str:
    """Log loss of the default and of the best effort relative to the others', by kind of table."""
    real = [result for result in results if result.kind == "real"]
    groups = {
        f"real, {MANY} rows or more": [result for result in real if result.rows >= MANY],
        "all real": real,
        "generated": [result for result in results if result.kind == "generated"],
    }
    compared = [(name, group) for name in ("default", "best") for group in groups]

    def cell(name: str, group: str, other: str) -> str:
        found = ratios(groups[group], name, other)
        if name == other or not found:
            return "–"
        lower = sum(ratio < 1.0 for ratio in found.values())
        return f"{geometric_mean([*found.values()]):.2f}, {lower} of {len(found)}"

    others = [name for name in names(results) if name != OPTIMUM]
    header = ["relative to", *(f"{name}: {group}" for name, group in compared)]
    return table(header, ([other, *(cell(*each, other) for each in compared)] for other in others))


def matrix(results: Sequence[Result], metric: str, kind: str) -> str:
    """A metric of all models on the tables of a kind."""
    chosen = [result for result in results if result.kind == kind]
    models = names(chosen)

    def cell(result: Result, name: str) -> str:
        scores = result.scores(name)
        if scores is None:
            return "refused" if name in result.outcomes else ""
        return format(getattr(scores, metric), FORMATS[metric])

    rows = [[result.name, *(cell(result, name) for name in models)] for result in chosen]
    return table(["", *models], rows)


def checks(results: Sequence[Result]) -> str:
    """What should be true of each model of probclass on every table."""
    rows = []
    for name in (name for name in names(results) if name in OURS):
        scores = {each.name: each.scores(name) for each in results if name in each.outcomes}
        refused = [on for on, found in scores.items() if found is None]
        above = [
            f"{on} ({ratio:.2f} ×)"
            for on, ratio in ratios(results, name, PRIOR).items()
            if ratio > TOLERANCE
        ]
        large = {each.name for each in results if each.rows >= SMALL}
        uncalibrated = [
            f"{on} ({found.ece:.3f})"
            for on, found in scores.items()
            if on in large and found is not None and found.ece > MAX_ECE
        ]
        plain, random = scores.get("german"), scores.get("german-random")
        points = f"{100 * (random.error - plain.error):+.1f} points" if plain and random else ""
        rows.append([name, *(", ".join(each) or "none" for each in (refused, above, uncalibrated))])
        rows[-1].append(points)
    header = ["model", "refused", f"log loss above {TOLERANCE} × the class prior's"]
    header.append(f"ECE above {MAX_ECE} with {SMALL:,} rows or more")
    return table([*header, "error with 300 random levels"], rows, words=4)


def targets(results: Sequence[Result]) -> str:
    """Count the limits of the tables that are met, and list the others."""
    met, missed = 0, []
    for result in results:
        limits = TABLES[result.name].limits if result.name in TABLES else {}
        for name, of_model in limits.items():
            for metric, limit in of_model.items() if name in result.outcomes else ():
                scores = result.scores(name)
                value = math.inf if scores is None else getattr(scores, metric)
                met += value <= limit
                if value > limit:
                    missed.append(f"{metric} of {name} on {result.name} ({value:.3f} > {limit})")
    return f"Met: {met} of {met + len(missed)} targets; missed: {', '.join(missed) or 'none'}."


def page(measured: Mapping[str, Any], show: str, *words: str) -> str:
    """A table of the stored figures: `comparison`, `checks`, `targets`, or `matrix` with words."""
    stored = from_record(measured["tables"])
    results = [stored[name] for name in TABLES if name in stored]
    shows: Mapping[str, Callable[..., str]] = {
        "comparison": comparison,
        "matrix": matrix,
        "checks": checks,
        "targets": targets,
    }
    return shows[show](results, *words)
