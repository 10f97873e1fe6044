"""Figures as JSON and as Markdown tables, and models compared with one another over all tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.accuracy.models import PRIOR, Model
from benchmarks.accuracy.scores import METRICS, OPTIMUM, Result, to_dict
from benchmarks.accuracy.tables import SMALL, Table
from benchmarks.environment import environment

NEGLIGIBLE = 1e-3
"""Log losses are raised to this in ratios: below it, folds are too few to compare models."""
MANY = 500
"""Rows from which on a table also counts in a summary of its own: the folds of smaller ones are so
few rows that their log losses differ by chance."""
TOLERANCE = 1.02
"""A log loss above this times that of the class prior is worse than no model."""
MAX_ECE = 0.05
"""Calibration error that probclass should not exceed on tables of at least `SMALL` rows."""


def section(result: Result, models: Sequence[Model]) -> str:
    """A table as a Markdown section."""
    size = f"{result.rows:,} rows × {result.columns} columns, {result.classes} classes"
    lines = [
        f"### {result.name}",
        "",
        f"{result.description}; {size}; folds: {result.folds}.",
        "",
        "| model | error | log loss | ECE | fit | rows/s |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    names = [model.name for model in models if model.name in result.outcomes]
    for name in [*names, *(name for name in (OPTIMUM,) if name in result.outcomes)]:
        outcome = result.outcomes[name]
        if outcome.failure is not None:
            lines.append(f"| {name} | refused: {outcome.failure[:100]} | | | | |")
            continue
        mean = outcome.mean
        speed = f"{mean.fit_seconds:.2f} s | {mean.rows_per_second:,.0f}"
        lines.append(
            f"| {name} | {mean.error:.1%} | {mean.log_loss:.3f} | {mean.ece:.3f} | "
            f"{speed if name != OPTIMUM else ' | '} |"
        )
    return "\n".join([*lines, ""])


def log_loss(result: Result, name: str) -> float | None:
    """The log loss of a model on a table; None if it was refused or not run."""
    outcome = result.outcomes.get(name)
    return outcome.mean.log_loss if outcome is not None and outcome.folds else None


def ratios(results: Sequence[Result], name: str, against: str) -> dict[str, float]:
    """Log loss of a model relative to another's, by table; only tables on which both ran."""
    found = {}
    for result in results:
        over, under = log_loss(result, name), log_loss(result, against)
        if over is not None and under is not None:
            found[result.name] = max(over, NEGLIGIBLE) / max(under, NEGLIGIBLE)
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of at least one positive number."""
    return math.exp(float(np.mean(np.log(values))))


def summary(results: Sequence[Result], models: Sequence[Model]) -> str:
    """Every model of probclass next to every other model, by kind of table."""
    ours = [model.name for model in models if model.kind == "ours"]
    lines = []
    real = [result for result in results if result.kind == "real"]
    large = [result for result in real if result.rows >= MANY]
    generated = [result for result in results if result.kind == "generated"]
    if real:
        lines += [f"### Summary of {len(real)} real tables", ""]
        lines += _comparison(real, models, ours) if ours else []
        lines += _averages(real, models)
    if ours and 0 < len(large) < len(real):
        lines += [f"The same for the {len(large)} of them with {MANY} rows or more.", ""]
        lines += _comparison(large, models, ours)
    if generated:
        lines += [f"### Summary of {len(generated)} generated tables", ""]
        lines += _comparison(generated, models, ours) if ours else []
        lines += _averages(generated, models)
    if ours:
        lines += ["### Checks", "", *checks(results, ours), ""]
    return "\n".join(lines)


def matrices(results: Sequence[Result], models: Sequence[Model]) -> str:
    """Log losses, errors and calibration errors of all tables and models, as Markdown tables."""
    lines = []
    formats = {"log_loss": ("Log loss", ".3f"), "error": ("Error", ".1%"), "ece": ("ECE", ".3f")}
    for metric, (title, form) in formats.items():
        for kind in ("real", "generated"):
            of_kind = [result for result in results if result.kind == kind]
            if not of_kind:
                continue
            names = [m.name for m in models if any(m.name in r.outcomes for r in of_kind)]
            names += [OPTIMUM] if any(OPTIMUM in r.outcomes for r in of_kind) else []
            lines += [f"### {title}, {kind} tables", "", f"| | {' | '.join(names)} |"]
            lines.append("|---|" + "--:|" * len(names))
            for result in of_kind:
                cells = [_cell(result, name, metric, form) for name in names]
                lines.append(f"| {result.name} | {' | '.join(cells)} |")
            lines.append("")
    return "\n".join(lines)


def _cell(result: Result, name: str, metric: str, form: str) -> str:
    outcome = result.outcomes.get(name)
    if outcome is None:
        return ""
    if not outcome.folds:
        return "refused"
    value: float = getattr(outcome.mean, metric)
    return format(value, form)


def _comparison(
    results: Sequence[Result], models: Sequence[Model], ours: Sequence[str]
) -> list[str]:
    lines = [
        "Log loss relative to other models: geometric mean, and the tables on which it is lower.",
        "",
        "| relative to | " + " | ".join(ours) + " |",
        "|---|" + "--:|" * len(ours),
    ]
    for model in models:
        cells = []
        for name in ours:
            found = ratios(results, name, model.name)
            if name == model.name or not found:
                cells.append("–")
                continue
            wins = sum(ratio < 1.0 for ratio in found.values())
            mean = geometric_mean(list(found.values()))
            cells.append(f"{mean:.2f}, {wins} of {len(found)}")
        lines.append(f"| {model.name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _averages(results: Sequence[Result], models: Sequence[Model]) -> list[str]:
    """Averages over the tables on which every model that ran at all was accepted."""
    names = [model.name for model in models if any(log_loss(r, model.name) for r in results)]
    common = [r for r in results if all(log_loss(r, name) is not None for name in names)]
    if not common:
        return []
    lines = [
        f"Averages over the {len(common)} of them that no model refused.",
        "",
        "| model | error | ECE | refused |",
        "|---|--:|--:|--:|",
    ]
    for name in names:
        means = [result.outcomes[name].mean for result in common]
        refused = sum(r.outcomes[name].failure is not None for r in results if name in r.outcomes)
        error, ece = (np.mean([getattr(m, metric) for m in means]) for metric in ("error", "ece"))
        lines.append(f"| {name} | {error:.1%} | {ece:.3f} | {refused} |")
    return [*lines, ""]


def checks(results: Sequence[Result], ours: Sequence[str]) -> Iterator[str]:
    """What should be true of each model of probclass on every table."""
    for name in ours:
        refused = [r.name for r in results if name in r.outcomes and r.outcomes[name].failure]
        yield f"- {name}: refused {_listed(refused)}"
        worse = {t: q for t, q in ratios(results, name, PRIOR).items() if q > TOLERANCE}
        said = [f"{table} ({ratio:.2f} ×)" for table, ratio in worse.items()]
        yield f"- {name}: log loss more than 2 % above the class prior's on {_listed(said)}"
        uncalibrated = [
            f"{r.name} ({r.outcomes[name].mean.ece:.3f})"
            for r in results
            if r.rows >= SMALL and log_loss(r, name) is not None
            if r.outcomes[name].mean.ece > MAX_ECE
        ]
        yield f"- {name}: ECE above {MAX_ECE} on {_listed(uncalibrated)} ({SMALL:,} rows or more)"
        found = {r.name: r.outcomes.get(name) for r in results}
        plain, random = found.get("german"), found.get("german-random")
        if plain is not None and random is not None and plain.folds and random.folds:
            points = 100.0 * (random.mean.error - plain.mean.error)
            yield f"- {name}: error with a column of 300 random levels {points:+.1f} points."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no table"


def targets(results: Sequence[Result], tables: Sequence[Table]) -> str:
    """Limits of the tables, and whether they are met, as a Markdown table."""
    limits = {table.name: table.limits for table in tables}
    lines = []
    for result in results:
        for name, of_model in limits.get(result.name, {}).items():
            outcome = result.outcomes.get(name)
            if outcome is None:
                continue
            for metric, limit in of_model.items():
                start = f"| {result.name} | {name} | {metric} | {limit:g} | "
                if not outcome.folds:
                    lines.append(start + "– | refused |")
                    continue
                value = getattr(outcome.mean, metric)
                lines.append(f"{start}{value:.3f} | {'met' if value <= limit else 'missed'} |")
    if not lines:
        return ""
    head = ["| table | model | metric | at most | reached | |", "|---|---|---|--:|--:|---|"]
    return "\n".join(["### Targets", "", *head, *lines, ""])


def write(
    results: Sequence[Result], models: Sequence[Model], tables: Sequence[Table], out: Path
) -> str:
    """Write ``accuracy.json`` and ``accuracy.md``; return what is about all tables."""
    out.mkdir(parents=True, exist_ok=True)
    about = environment()
    described = {model.name: model.description for model in models}
    document = {**asdict(about), "metrics": METRICS, "models": described}
    document["tables"] = [to_dict(result) for result in results]
    text = json.dumps(document, indent=1) + "\n"
    (out / "accuracy.json").write_text(text, encoding="utf-8")
    head = f"{about.date}; {about.machine}; {about.software}.\n"
    overall = "\n".join([head, summary(results, models), targets(results, tables)])
    legend = [f"- {name}: {description}." for name, description in described.items()]
    sections = [section(result, models) for result in results]
    page = "\n".join([overall, matrices(results, models), *legend, "", *sections])
    (out / "accuracy.md").write_text(page, encoding="utf-8")
    return overall
