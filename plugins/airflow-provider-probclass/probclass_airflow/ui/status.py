"""The state of each model, and what needs attention: what is wrong, since when, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from probclass_airflow.ui.partition_dates import gap, partition_date, rows_date
from probclass_airflow.ui.rows import (
    CHAMPION,
    EvaluationRow,
    PartitionRow,
    Stop,
    evaluation_row,
    partition_rows,
    stops,
)
from probclass_airflow.ui.runs import Run, run_of
from probclass_airflow.ui.stores import ShownStore
from probclass_core.display import minute
from probclass_core.errors import StoreError
from probclass_core.report.html import number, words

if TYPE_CHECKING:
    from probclass_core.store.records import Alias
    from probclass_core.store.results import ModelRecords

_LOOKED_AT = 50
"""Newest records among which that of the newest rows is."""
_MOST_PROBLEMS = 5
_MOST_UNJUDGED = 8
"""Scorings without a judgment of a challenger that need no attention."""

RunsOf = Callable[[str], Sequence[Run]]
"""Returns the newest runs of a DAG, see `runs.newest_runs`."""
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Status:
    """What a page says first.

    Attributes:
        text: one or two sentences.
        advice: what to do, or empty.
        brief: what is wrong, in words after the name of the model; empty if nothing is.
    """

    text: str
    advice: str = ""
    brief: str = ""


@dataclass(frozen=True)
class ModelRow:
    """A model, with its champion.

    Attributes:
        records: all of its records.
        champion: the version that the alias ``champion`` names, or None.
        evaluation: newest evaluation of the champion, or None.
        labeled: evaluation of any version on the newest rows, or None.
        scored: newest scored partition, or None.
        stops: partitions that were not scored, and have not been since.
        runs: newest runs in Airflow of the DAGs that wrote the newest records.
    """

    records: ModelRecords
    champion: Alias | None
    evaluation: EvaluationRow | None
    labeled: EvaluationRow | None
    scored: PartitionRow | None
    stops: list[Stop]
    runs: list[Run]

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.records.model

    @cached_property
    def problems(self) -> list[Status]:
        """What is wrong, the worst first."""
        return list(_problems(self))

    @property
    def status(self) -> Status:
        """The worst problem; without any, how the champion does."""
        if not self.problems:
            return Status(_what_is_right(self))
        worst, *others = self.problems
        more = f" It also {', '.join(one.brief for one in others)}." if others else ""
        return Status(worst.text + more, worst.advice, worst.brief)


@dataclass(frozen=True)
class StoreRows:
    """A store in the list, with a line for each problem in reading it."""

    shown: ShownStore
    models: list[ModelRow]
    problems: list[str]


def store_rows(shown: ShownStore, runs_of: RunsOf) -> StoreRows:
    """The models of a store; a damaged model is a problem and does not hide the others."""
    rows, problems = [], []
    try:
        for records in shown.store.catalog():
            problems += records.damaged
            if records.versions:
                rows.append(model_row(records, runs_of))
    except StoreError as error:
        problems.append(str(error))
    return StoreRows(shown, rows, problems)


def model_row(records: ModelRecords, runs_of: RunsOf) -> ModelRow:
    """The state of a model."""
    written: Sequence[Any] = (records.versions, records.promotions, records.scorings)
    writers = [run_of(known[-1].provenance) for known in written if known]
    dags = dict.fromkeys(run["dag_id"] for run in writers if run is not None)
    champion = records.aliases.get(CHAMPION)
    own = [] if champion is None else _evaluations_of(champion, records)
    scored = [record for record in records.scorings if record.partitions][-_LOOKED_AT:]
    return ModelRow(
        records=records,
        champion=champion,
        evaluation=own[-1] if own else None,
        labeled=_newest(
            [evaluation_row(one) for one in records.evaluations[-_LOOKED_AT:]],
            lambda row: rows_date(row.record.on),
        ),
        scored=_newest_scored(partition_rows(scored)),
        stops=stops(records.scorings),
        runs=[run for dag_id in dags for run in runs_of(dag_id)],
    )


def home_status(stores: Sequence[StoreRows]) -> Status:
    """Which models need attention."""
    damaged = sum(len(one.problems) for one in stores)
    rows = [row for one in stores for row in one.models]
    found = [f"{_count(damaged, 'file')} cannot be read"] if damaged else []
    found += [f"{row.name} {problem.brief}" for row in rows for problem in row.problems]
    if not found:
        return Status("No model needs attention." if rows else "")
    more = f"; and {len(found) - _MOST_PROBLEMS} more" if found[_MOST_PROBLEMS:] else ""
    text = "; ".join(found[:_MOST_PROBLEMS])
    return Status(f"{text}{more}.", brief="needs attention")


def _problems(row: ModelRow) -> Iterator[Status]:
    champion, newest, scored, records = row.champion, row.evaluation, row.scored, row.records
    if champion is None:
        advice = f"probclass promote {row.name}@<id> champion"
        yield Status("No version is the champion; promote one.", advice, "has no champion")
    elif newest is not None and newest.worse:
        own = _evaluations_of(champion, records)
        first = [*takewhile(lambda one: one.worse, reversed(own))][-1]
        since = f", since {first.on}" if first.on != newest.on else ""
        metrics = " and ".join(map(words, newest.worse))
        text = f"The champion {champion.id[:8]} is worse than the class prior alone by {metrics} on"
        text += f" {newest.on or 'its newest rows'}{since}."
        advice = "Train on newer rows and promote"
        if back := champion.previous:
            advice += f", or return to {back[:8]}: probclass rollback {row.name}"
        yield Status(text, f"{advice}.", "is worse than its class prior alone")
    for run in row.runs:
        if run.state == "failed":
            tasks = f": {', '.join(run.failed)}" if run.failed else ""
            text = f"The last run of {run.dag_id}, {run.run_id}, failed at {minute(run.time)}"
            advice = "The log of the first of these tasks says why."
            yield Status(f"{text}{tasks}.", advice, "failed in its last run")
    entries = [one for one in records.promotions if one.alias == CHAMPION]
    for entry in [one for one in entries if one.action != "refused"][-1:]:
        if (entry.reason or "").startswith("class prior"):
            text = f"The class prior is in force, since {minute(entry.time)}: {entry.reason}."
            advice = "The next challenger that passes the gate takes over; see Drift for the cause."
            yield Status(text, advice, "predicts its class prior for every row")
    if row.stops:
        last = max(row.stops, key=lambda stop: stop.record.created)
        more = f" (and {len(row.stops) - 1:,} more)" if row.stops[1:] else ""
        text = f"{last.name}{more} was not scored, since {minute(last.record.created)}: "
        advice = "The sink has what was scored before; correct the input and rerun."
        yield Status(text + last.reason, advice, "has partitions that were not scored")
    every = (one for record in records.scorings for one in record.partitions)
    partitions = [one.get("partition") for one in every]
    if missing := gap(partitions):
        before, after, count = missing
        text = f"{_count(count, 'partition')} between {before} and {after} not scored."
        advice = "Score them if they exist, or ask the owner of the table."
        yield Status(text, advice, "has a gap between its partitions")
    since = entries[-1].time if len(entries) > 1 else ""
    later = [one for one in records.scorings if since and one.created > since and one.partitions]
    usual = len(records.scorings) / max(len(entries), 1)
    if len(later) > max(_MOST_UNJUDGED, 3 * usual):
        text = f"No challenger was judged since {minute(since)}, and {len(later):,} scorings "
        advice = "See whether trainings fail or stopped."
        yield Status(f"{text}followed.", advice, "was not retrained for long")
    if records.damaged:
        text = f"{_count(len(records.damaged), 'record')} cannot be read: {records.damaged[0]}"
        yield Status(text, "Restore them from a copy, or remove them.", "has damaged records")
    if scored is not None and scored.warnings:
        titles = ", ".join(warning.title for warning in scored.warnings[:3])
        text = f"{scored.name}, scored last, with {scored.record.version[:8]}, has "
        text += f"{_count(len(scored.warnings), 'warning')}: {titles}."
        advice = "Partitions has the sentences; check the input first."
        yield Status(text, advice, "has warnings")


def _what_is_right(row: ModelRow) -> str:
    champion, newest, scored = row.champion, row.evaluation, row.scored
    assert champion is not None  # that would be a problem
    known = []
    if newest is not None:
        better = "is better than the class prior alone"
        if newest.is_of_density:
            better = f"has log density {number(newest.number('log_density'))}"
        known.append(f"The champion {champion.id[:8]} {better} on {newest.on or 'its newest rows'}")
    if scored is not None:
        health = "which has no warnings" if scored.health else "which was not watched"
        known.append(f"the last scored partition is {scored.name}, {health}")
    if not known:
        return f"The champion {champion.id[:8]} was neither evaluated nor used yet."
    text = "; ".join(known)
    return f"{text[0].upper()}{text[1:]}."


def _newest_scored(rows: Sequence[PartitionRow]) -> PartitionRow | None:
    """The partition with the newest data; of several with one date, one that has warnings."""
    dates = {id(row): partition_date(row.values.get("partition")) for row in rows}
    newest = _newest(rows, lambda row: dates[id(row)])
    if newest is None or dates[id(newest)] is None:
        return newest
    others = [row for row in rows if row.is_current and dates[id(row)] == dates[id(newest)]]
    return next((row for row in reversed(others) if row.warnings), newest)


def _newest(rows: Sequence[_Row], date: Callable[[_Row], datetime | None]) -> _Row | None:
    """The row with the newest data; of several, and without dates, the last."""
    dated = [(date(row) or datetime.min.replace(tzinfo=UTC), at) for at, row in enumerate(rows)]
    return rows[max(dated)[1]] if dated else None


def _evaluations_of(alias: Alias, records: ModelRecords) -> list[EvaluationRow]:
    return [evaluation_row(one) for one in records.evaluations if one.version == alias.id]


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
