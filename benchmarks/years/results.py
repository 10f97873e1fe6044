"""What was served in each month, whether a warning was due, and whether it was given.

The served predictions are read from the scored table, and compared with the labels of the lake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks import report
from probclass_core.store.records import ModelVersion

FIRST, LAST = "2010-01", "2014-12"
TRAIN_ON = 24


@dataclass(frozen=True)
class Month:
    """One month of one model; log losses in nats.

    Attributes:
        month: such as ``"2014-01"``.
        version: first digits of the version that scored it.
        is_prior: whether that version is a class prior alone.
        rows: number of labeled rows.
        accuracy: share of the rows that were predicted correctly.
        majority: accuracy of the most frequent class of the version's training.
        log_loss: log loss of the served posteriors.
        prior: log loss of the class prior of that version.
        window_prior: log loss of the class prior of the training window of this month's run.
        warned: checks that warned when the month was scored, without labels.
        flagged: whether the next run reported it worse than the prior, once labels were there; None
            if there was no next run.
        event: what this month's run did to the alias.
    """

    month: str
    version: str
    is_prior: bool
    rows: int
    accuracy: float
    majority: float
    log_loss: float
    prior: float
    window_prior: float
    warned: Sequence[str]
    flagged: bool | None
    event: str

    @property
    def due(self) -> bool:
        """Whether the served predictions were worse than the class prior."""
        return not self.is_prior and self.log_loss > self.prior * (1 + 1e-9)


def month_range(first: str, count: int) -> list[str]:
    """Consecutive months."""
    year, month = (int(part) for part in first.split("-"))
    numbers = range(12 * year + month - 1, 12 * year + month - 1 + count)
    return [f"{number // 12}-{number % 12 + 1:02d}" for number in numbers]


def measure(home: Path, model: str, months: Sequence[str]) -> list[Month]:
    """The months of one model, from its scored table, its store and the lake."""
    store = pc.ModelStore(home / "models")
    scorings = {
        one["partition"]["month"]: (record.version, one)
        for record in store.scorings(model)
        for one in record.partitions
    }
    events = _events(store, model)
    found = []
    for month, following in zip(months, [*months[1:], None], strict=True):
        version_id, scoring = scorings[month]
        version = store.resolve(f"{model}@{version_id}")
        loaded = store.load(version.ref)
        classes = loaded.class_names
        truth, probability = _served(home, model, month, classes)
        prior = np.exp(loaded.log_prior)
        window = month_range(FIRST, 60)
        end = window.index(month) - 2
        window_prior = _window_prior(home, window[max(0, end - TRAIN_ON + 1) : end + 1], classes)
        found.append(
            Month(
                month=month,
                version=version.id[:8],
                is_prior=loaded.is_prior_only,
                rows=len(truth),
                accuracy=float((probability.argmax(axis=1) == truth).mean()),
                majority=float((truth == prior.argmax()).mean()),
                log_loss=_log_loss(probability, truth),
                prior=_log_loss(np.tile(prior, (len(truth), 1)), truth),
                window_prior=_log_loss(np.tile(window_prior, (len(truth), 1)), truth),
                warned=[each["check"] for each in scoring.get("verdicts") or ()],
                flagged=None if following is None else _flagged(store, version, month),
                event=events.get(month, "none"),
            )
        )
    return found


def _served(home: Path, model: str, month: str, classes: Sequence[str]) -> tuple[Any, Any]:
    """Position of the true class, and posterior, of each labeled row."""
    lake = pq.read_table(home / "lake" / f"month={month}", columns=["time", "air"])
    scored = pq.read_table(home / "scored" / model / f"month={month}")
    rows = scored.join(lake.filter(pac.is_valid(lake["air"])), "time", join_type="inner")
    truth = pac.index_in(rows["air"], pa.array(classes)).to_numpy()
    return truth, np.column_stack([rows[f"p_{name}"].to_numpy() for name in classes])


def _window_prior(home: Path, months: Sequence[str], classes: Sequence[str]) -> Any:
    """Shares of the classes in the labeled rows of some months."""
    labels = [pq.read_table(home / "lake" / f"month={month}")["air"] for month in months]
    counts = pac.value_counts(pa.concat_tables([pa.table({"air": each}) for each in labels])["air"])
    by_class = {each["values"].as_py(): each["counts"].as_py() for each in counts}
    shares = np.array([by_class[name] for name in classes], dtype=float)
    return shares / shares.sum()


def _log_loss(probability: Any, truth: Any) -> float:
    return float(-np.log(probability[np.arange(len(truth)), truth]).mean())


def _flagged(store: pc.ModelStore, version: ModelVersion, month: str) -> bool:
    """Whether a recorded evaluation says that the version is worse than its prior in a month."""
    return any(
        "log_loss" in (record.result.get("worse_than_prior") or ())
        for record in store.evaluations(version)
        if record.on.get("partition") == {"month": month}
    )


def _events(store: pc.ModelStore, model: str) -> dict[str, str]:
    """What each month's run did to the champion, by month."""
    events: dict[str, str] = {}
    for entry in store.history(model, "champion"):  # each by what was judged, the month before
        month = month_range(entry.provenance["partition"]["month"], 2)[1]
        is_prior = str(entry.reason).startswith("class prior")
        events[month] = "fallback" if is_prior else entry.action
    return events


def summarize(months: Sequence[Month]) -> dict[str, Any]:
    """Means, and the months of one model in which each thing was so."""
    judged = [month for month in months if month.flagged is not None]
    quarters: dict[str, list[float]] = {}
    for month in months:
        name = f"{month.month[:4]}-Q{(int(month.month[5:]) + 2) // 3}"
        quarters.setdefault(name, []).append(month.log_loss - month.window_prior)
    worst = max(quarters, key=lambda name: float(np.mean(quarters[name])))
    return {
        "months": len(months),
        "due": [month.month for month in months if month.due],
        "missed_with_labels": [each.month for each in judged if each.due and not each.flagged],
        "false_with_labels": [each.month for each in judged if each.flagged and not each.due],
        "missed_without_labels": [each.month for each in months if each.due and not each.warned],
        "false_without_labels": [each.month for each in months if each.warned and not each.due],
        "served_by_prior": [each.month for each in months if each.is_prior],
        "mean_log_loss": float(np.mean([each.log_loss for each in months])),
        "mean_window_prior": float(np.mean([each.window_prior for each in months])),
        "mean_accuracy": float(np.mean([each.accuracy for each in months])),
        "mean_majority": float(np.mean([each.majority for each in months])),
        "worst_quarter": worst,
        "worst_quarter_excess": float(np.mean(quarters[worst])),
    }


def _found(summary: Mapping[str, Any], missed: str) -> str:
    due = len(summary["due"])
    return f"{due - len(summary[missed])} of {due}"


ROWS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "months": lambda of: f"{of['months']}",
    "mean log loss served": lambda of: f"{of['mean_log_loss']:.3f}",
    "mean log loss of the prior": lambda of: f"{of['mean_window_prior']:.3f}",
    "mean accuracy": lambda of: f"{of['mean_accuracy']:.1%}",
    "mean accuracy of the majority": lambda of: f"{of['mean_majority']:.1%}",
    "worst quarter, log loss above the prior's": lambda of: (
        f"{of['worst_quarter_excess']:+.3f} ({of['worst_quarter']})"
    ),
    "months served by the prior": lambda of: f"{len(of['served_by_prior'])}",
    "warnings due": lambda of: f"{len(of['due'])}",
    "flagged once labels came": lambda of: _found(of, "missed_with_labels"),
    "flagged, not due": lambda of: f"{len(of['false_with_labels'])}",
    "warned when scored, without labels": lambda of: _found(of, "missed_without_labels"),
    "warned without labels, not due": lambda of: (
        f"{len(of['false_without_labels'])} of {of['months'] - len(of['due'])}"
    ),
}


def table(measured: Mapping[str, Any]) -> str:
    """The summaries of the models as a Markdown table."""
    models = measured["models"]
    rows = ([title, *(show(of) for of in models.values())] for title, show in ROWS.items())
    return report.table(["", *models], rows)
