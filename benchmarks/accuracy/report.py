"""Markdown tables: a table of the benchmark, and models compared over all tables."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy.models import MODELS, PEERS, PRIOR
from benchmarks.accuracy.scores import OPTIMUM, Result, from_record
from benchmarks.accuracy.tables import SMALL, TABLES
from benchmarks.report import table, times

REAL = ("real", "keel")
"""Kinds of real tables, over which models are compared."""
POINTS = 0.03
"""An error above that of a peer by this is worth an explanation."""
LOG_LOSSES = {
    "german": 0.53,
    "soybean": 0.11,
    "segment": 0.068,
    "titanic": 0.384,
    "oil-spill": 0.160,
    "diamonds": 0.640,
    "digits": 0.085,
    "adult": 0.280,
    "beijing-months": 0.825,
}
"""Log losses that the default should reach."""
RATIOS = {"EBM": 0.95, "CatBoost": 1.0, "LightGBM": 0.85}
"""Log losses that the default should reach on real tables, relative to those of others."""
NEGLIGIBLE = 1e-3
"""Log losses are raised to this in ratios: below it, folds are too few to compare models."""
MANY = 500
"""Rows from which on a table also counts in a summary of its own: the folds of smaller ones are so
few rows that their log losses differ by chance."""
TOLERANCE = 1.02
"""A log loss above this times that of the class prior is worse than no model."""
MAX_ECE = 0.03
"""Calibration error that probclass should not exceed on tables of at least `SMALL` rows."""
OURS = tuple(name for name, model in MODELS.items() if model.kind == "ours")
FORMATS = {"error": ".1%", "log_loss": ".3f", "ece": ".3f", "auroc": ".4f"}


def of_kinds(results: Sequence[Result], *kinds: str) -> list[Result]:
    """The results of some kinds of tables."""
    return [result for result in results if result.kind in kinds]


def section(result: Result) -> str:
    """A table and its models."""
    size = f"{result.rows:,} rows × {result.columns} columns, {result.classes} classes"
    rows = []
    for name in names([result]):
        outcome = result.outcomes[name]
        if isinstance(outcome, str):
            rows.append([name, f"refused: {outcome[:100]}", *[""] * 5])
            continue
        metrics = [format(getattr(outcome, metric), form) for metric, form in FORMATS.items()]
        speed = [f"{outcome.fit_seconds:.2f} s", f"{outcome.rows_per_second:,.0f}"]
        rows.append([name, *metrics, *(speed if name != OPTIMUM else ["", ""])])
    head = f"{result.name}: {size}; folds: {result.folds}.\n\n"
    return head + table(["model", "error", "log loss", "ECE", "AUROC", "fit", "rows/s"], rows)


def names(results: Sequence[Result]) -> list[str]:
    """The models that ran on a table, and `OPTIMUM`, in the order of columns."""
    return [
        name for name in (*MODELS, OPTIMUM) if any(name in result.outcomes for result in results)
    ]


def pairs(
    results: Sequence[Result], name: str, against: str, metric: str
) -> dict[str, tuple[float, float]]:
    """A metric of two models by table, on the folds that both have."""
    found = {}
    for result in results:
        over, under = result.scores(name), result.scores(against)
        if over is not None and under is not None:
            folds = min(len(over.log_losses), len(under.log_losses))
            found[result.name] = over.mean(metric, folds), under.mean(metric, folds)
    return found


def ratios(results: Sequence[Result], name: str, against: str) -> dict[str, float]:
    """Log loss of a model relative to another's, by table; only tables on which both ran."""
    return {
        table: max(over, NEGLIGIBLE) / max(under, NEGLIGIBLE)
        for table, (over, under) in pairs(results, name, against, "log_loss").items()
    }


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of at least one positive number."""
    return math.exp(float(np.mean(np.log(values))))


def comparison(results: Sequence[Result]) -> str:
    """Log loss, errors and times of the default, and log loss of the best effort, by peer."""
    real, generated = of_kinds(results, *REAL), of_kinds(results, "generated")
    many = [result for result in real if result.rows >= MANY]

    def log_loss(name: str, group: Sequence[Result], other: str) -> str:
        found = [*ratios(group, name, other).values()]
        if name == other or not found:
            return "–"
        return f"{geometric_mean(found):.2f}, {sum(each < 1.0 for each in found)} of {len(found)}"

    def lower_error(other: str) -> str:
        found = pairs(real, "default", other, "error").values()
        lower, equal = (sum(f(*each) for each in found) for f in (operator.lt, operator.eq))
        return f"{lower} of {len(found)}, {equal} equal"

    def time(other: str, metric: str) -> str:
        found = [a / b for a, b in pairs(real, "default", other, metric).values()]
        return times(geometric_mean(found) ** (1 if metric == "fit_seconds" else -1))

    rows = [
        [
            other,
            *(log_loss("default", group, other) for group in (real, many, generated)),
            lower_error(other),
            time(other, "fit_seconds"),
            time(other, "rows_per_second"),
            *(log_loss("best", group, other) for group in (real, many)),
        ]
        for other in names(results)
        if other != OPTIMUM and ratios(real, "default", other)
    ]
    head = ["real", f"{MANY} rows or more", "generated", "lower error", "time to fit", "to score"]
    return table(["relative to", *head, "best: real", f"best: {MANY} rows or more"], rows)


def behind(results: Sequence[Result], metric: str) -> str:
    """Real tables on which a peer is clearly ahead of the default, and by how much."""
    real, peers, rows = of_kinds(results, *REAL), (*PEERS, "boosting"), []
    by_peer = {peer: pairs(real, "default", peer, metric) for peer in peers}

    def cell(ours: float, theirs: float) -> str:
        if metric == "error":
            return f"{100 * (ours - theirs):.1f}" if ours - theirs > POINTS else ""
        theirs = max(theirs, NEGLIGIBLE)
        return times(ours / theirs) if ours > TOLERANCE * theirs else ""

    for result in real:
        cells = [cell(*by_peer[peer].get(result.name, (0.0, 0.0))) for peer in peers]
        if any(cells):
            rows.append([result.name, f"{result.rows:,}", *cells])
    return table(["", "rows", *peers], rows)


def matrix(results: Sequence[Result], metric: str, kind: str) -> str:
    """A metric of all models on the tables of a kind; of lakes with partitions above the prior."""
    chosen = of_kinds(results, kind)
    models = names(chosen)

    def cell(result: Result, name: str) -> str:
        scores = result.scores(name)
        if scores is None:
            return "refused" if name in result.outcomes else ""
        figure = format(getattr(scores, metric), FORMATS[metric]).replace("0.0000", "")
        prior = result.scores(PRIOR)
        if kind == "lakes" and prior:
            figure += f" ({np.greater(scores.log_losses, prior.log_losses).sum()})"
        return figure

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
    """Count the targets of the default that are met, and list the others."""
    real, found = of_kinds(results, *REAL), []
    for result in results:
        scores = result.scores("default")
        if scores and result.name in LOG_LOSSES:
            found.append((f"log loss on {result.name}", scores.log_loss, LOG_LOSSES[result.name]))
    for peer, limit in RATIOS.items():
        if compared := ratios(real, "default", peer):
            mean = geometric_mean([*compared.values()])
            found.append((f"log loss relative to {peer}", mean, limit))
    missed = [f"{what} ({value:.3f} > {limit})" for what, value, limit in found if value > limit]
    met = f"Met: {len(found) - len(missed)} of {len(found)} targets"
    return f"{met}; missed: {', '.join(missed) or 'none'}."


def page(measured: Mapping[str, Any], show: str, *words: str) -> str:
    """A table of the stored figures by its name, `behind` and `matrix` with words."""
    stored = from_record(measured["tables"])
    results = [stored[name] for name in TABLES if name in stored]
    shows: Mapping[str, Callable[..., str]] = {
        "comparison": comparison,
        "behind": behind,
        "matrix": matrix,
        "checks": checks,
        "targets": targets,
    }
    return shows[show](results, *words)
