"""What a model did in each month, from the records of its store, and its timeline as a page."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import probclass_core as pc
from probclass_airflow.demo.local_airflow import LocalAirflow
from probclass_airflow.links import ROUTE, store_key
from probclass_core.display import TablePart, as_text

if TYPE_CHECKING:
    from probclass_core.store.results import ModelRecords


def done_by(records: ModelRecords, run: str) -> list[str]:
    """What a run did to the model and to its scored table, in order."""
    done = [
        f"{entry.action} {entry.model}@{entry.id[:8]}"
        for entry in records.promotions
        if entry.provenance["airflow"]["run_id"] == run
    ]
    for record in records.scorings:
        if record.provenance["airflow"]["run_id"] == run:
            months = [one["partition"]["month"] for one in record.partitions]
            done += [f"scored {' and '.join(months)}"] if months else []
            done += [one["error"] for one in record.stopped]
    for one in records.evaluations:
        is_of_run = one.provenance.get("airflow", {}).get("run_id") == run
        if is_of_run and "partition" in one.on and "log_loss" in one.result["worse_than_prior"]:
            done.append(f"{one.on['partition']['month']} was served worse than by its prior")
    return done


def months_table(records: ModelRecords) -> str:
    """The scored months, and the means of those with labels."""
    evaluated = {
        (one.version, one.on["partition"]["month"]): one.result
        for one in records.evaluations
        if "partition" in one.on
    }
    rows: list[tuple[Any, ...]] = []
    for record in records.scorings:
        run = record.provenance["airflow"]["run_id"]
        for one in record.partitions:
            month = one["partition"]["month"]
            warnings = [verdict["check"] for verdict in one.get("verdicts") or ()]
            held_back = f"held back, scored by run {run}" if run != month else ""
            result = evaluated.get((record.version, month), {})
            losses = result.get("log_loss"), result.get("baseline_log_loss")
            health = held_back or ", ".join(warnings) or "no warning"
            rows.append((month, one["rows"], record.version[:8], *losses, health))
    means = [fmean(row[at] for row in rows if row[at] is not None) for at in (3, 4)]
    rows = [*sorted(rows), ("mean", None, None, *means, None)]
    names = ("month", "rows", "version", "log loss", "its prior", "health")
    return as_text([TablePart(dict(zip(names, zip(*rows, strict=True), strict=True)))])


def save_timeline(airflow: LocalAirflow, store: pc.ModelStore, model: str, to: Path) -> Path:
    """Save the timeline of a model in Airflow's UI as a page that needs no Airflow."""
    page = airflow.page(f"/{ROUTE}/stores/{store_key(store.uri)}/{model}")
    for link, address in re.findall(r'(<link rel="stylesheet" href="([^"]+)">)', page):
        page = page.replace(link, f"<style>{airflow.page(address)}</style>")
    # Links, forms and scripts need Airflow.
    page = re.sub(
        r"<(nav|form|script)\b.*?</\1>|<link\b[^>]*>|</?a\b[^>]*>", "", page, flags=re.DOTALL
    )
    to.write_text(page, encoding="utf-8")
    return to
