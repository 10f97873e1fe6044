"""The sentence at the top of a page: what is wrong, since when, which version, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from probclass_airflow.ui.comparison import ColumnDrift, MetricPair
from probclass_airflow.ui.formatting import divergence, minute, number, words
from probclass_airflow.ui.partition_dates import gap
from probclass_airflow.ui.rows import (
    CHAMPION,
    EvaluationRow,
    ModelRow,
    PartitionRow,
    Stop,
    evaluation_row,
)

if TYPE_CHECKING:
    from probclass_core.store.model_records import ModelRecords
    from probclass_core.store.references import Alias, ModelVersion

_MOST_PROBLEMS = 5
_MOST_UNJUDGED = 8
"""Scorings without a judgment of a challenger that need no attention."""


@dataclass(frozen=True)
class Status:
    """What a page says first.

    Attributes:
        text: one sentence, or empty.
        is_problem: whether something is wrong.
        advice: what to do, or empty.
    """

    text: str
    is_problem: bool = False
    advice: str = ""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a model.

    Attributes:
        brief: words after the name of the model.
        text: one or two sentences.
        advice: what to do.
    """

    brief: str
    text: str
    advice: str


def problems(row: ModelRow) -> list[Problem]:
    """What is wrong with a model, the worst first."""
    return list(_problems(row))


def home_status(rows: Sequence[ModelRow], damaged: int) -> Status:
    """Which models need attention."""
    if not rows and not damaged:
        return Status("")
    found = [f"{_count(damaged, 'file')} cannot be read"] if damaged else []
    found += [f"{row.name} {problem.brief}" for row in rows for problem in problems(row)]
    if not found:
        return Status("No model needs attention.")
    more = len(found) - _MOST_PROBLEMS
    shown = "; ".join(found[:_MOST_PROBLEMS])
    return Status(f"{shown}{f'; and {more} more' if more > 0 else ''}.", is_problem=True)


def champion_status(row: ModelRow) -> Status:
    """Whether the champion, and what was scored last, are as they should be."""
    champion, newest, scored = row.champion, row.evaluation, row.scored
    found = problems(row)
    if found:
        more = f" It also {' and '.join(one.brief for one in found[1:])}." if found[1:] else ""
        return Status(f"{found[0].text}{more}", True, found[0].advice)
    assert champion is not None
    known = []
    if newest is not None:
        better = "is better than the class prior alone"
        if newest.is_of_density:
            better = f"has log density {number(newest.number('log_density'))}"
        known.append(f"{better} on {newest.on or 'its newest rows'}")
    if scored is not None:
        health = "which has no warnings" if scored.health else "which was not watched"
        known.append(f"the last scored partition is {scored.name}, {health}")
    if not known:
        return Status(f"The champion {champion.id[:8]} was neither evaluated nor used yet.")
    beginning = "" if newest is None else f"The champion {champion.id[:8]} "
    text = beginning + "; ".join(known)
    return Status(f"{text[0].upper()}{text[1:]}.")


def _problems(row: ModelRow) -> Iterator[Problem]:
    champion, newest, scored, records = row.champion, row.evaluation, row.scored, row.records
    if champion is None:
        advice = f"probclass promote {row.name}@<id> champion"
        yield Problem("has no champion", "No version is the champion; promote one.", advice)
    elif newest is not None and newest.worse:
        own = _evaluations_of(champion, records)
        first = [*takewhile(lambda one: one.worse, reversed(own))][-1]
        since = f", since {first.on}" if first.on != newest.on else ""
        metrics = " and ".join(map(words, newest.worse))
        text = f"The champion {champion.id[:8]} is worse than the class prior alone by {metrics} on"
        back = champion.previous
        advice = "Train on newer rows and promote"
        advice += f", or return to {back[:8]}: probclass rollback {row.name}" if back else ""
        text += f" {newest.on or 'its newest rows'}{since}."
        yield Problem("is worse than its class prior alone", text, f"{advice}.")
    for run in row.failed:
        tasks = f": {', '.join(run.tasks)}" if run.tasks else ""
        text = f"The last run of {run.dag_id}, {run.run_id}, failed at {minute(run.ended)}{tasks}."
        yield Problem("failed in its last run", text, "The log of the first of these says why.")
    entries = [one for one in records.promotions if one.alias == CHAMPION]
    in_force = [one for one in entries if one.action != "refused"][-1:]
    for entry in in_force:
        if (entry.reason or "").startswith("class prior"):
            text = f"The class prior is in force, since {minute(entry.time)}: {entry.reason}."
            advice = "The next challenger that passes the gate takes over; see Drift for the cause."
            yield Problem("predicts its class prior for every row", text, advice)
    if row.stops:
        stopped = _stopped(row.stops)
        yield Problem("has partitions that were not scored", stopped.text, stopped.advice)
    if missing := gap(
        [one["partition"] for record in records.scorings for one in record.partitions]
    ):
        before, after, count = missing
        text = f"{_count(count, 'partition')} between {before} and {after} not scored."
        advice = "Score them if they exist, or ask the owner of the table."
        yield Problem("has a gap between its partitions", text, advice)
    since = entries[-1].time if len(entries) > 1 else ""
    later = [one for one in records.scorings if since and one.created > since and one.partitions]
    usual = len(records.scorings) / max(len(entries), 1)
    if len(later) > max(_MOST_UNJUDGED, 3 * usual):
        text = (
            f"No challenger was judged since {minute(since)}, and {len(later):,} scorings followed."
        )
        yield Problem("was not retrained for long", text, "See whether trainings fail or stopped.")
    if records.damaged:
        text = f"{_count(len(records.damaged), 'record')} cannot be read: {records.damaged[0]}"
        yield Problem("has damaged records", text, "Restore them from a copy, or remove them.")
    if scored is not None and scored.warnings:
        text = f"{scored.name}, scored last, with {scored.record.version[:8]}, has "
        text += f"{_count(len(scored.warnings), 'warning')}: {_titles(scored)}."
        advice = "Partitions has the sentences; check the input first."
        yield Problem("has warnings", text, advice)


def versions_status(records: ModelRecords) -> Status:
    """Which version is the champion, and why the newest one is not."""
    champion = records.aliases.get(CHAMPION)
    newest = records.versions[-1].id if records.versions else ""
    if champion is None:
        return Status("No version is the champion.", is_problem=True)
    if champion.id == newest:
        return Status(f"The champion is the newest version, {newest[:8]}.")
    reasons = [
        entry.reason
        for entry in records.promotions
        if (entry.action, entry.alias, entry.id) == ("refused", CHAMPION, newest)
    ]
    why = f"was refused: {reasons[-1]}" if reasons else "was not promoted"
    return Status(f"The champion is {champion.id[:8]}; the newest version, {newest[:8]}, {why}.")


def evaluations_status(records: ModelRecords) -> Status:
    """How the champion did on labeled rows."""
    champion = records.aliases.get(CHAMPION)
    own = [] if champion is None else _evaluations_of(champion, records)
    if not own:
        return Status("The champion was not evaluated yet." if champion is not None else "")
    last, worse = own[-1], sum(bool(one.worse) for one in own)
    if last.is_of_density:
        text = f"The champion {last.record.version[:8]} has a mean log density of "
        text += f"{number(last.number('log_density'))} nats on {last.on or 'its newest rows'}."
        return Status(text)
    loss, floor = (number(last.number(name)) for name in ("log_loss", "baseline_log_loss"))
    text = f"The champion {last.record.version[:8]} has log loss {loss} on "
    text += f"{last.on or 'its newest rows'}, the class prior alone {floor}; it is worse than the "
    text += f"prior in {worse:,} of its {len(own):,} evaluations."
    return Status(text, bool(last.worse))


def partitions_status(rows: Sequence[PartitionRow], stopped: Sequence[Stop]) -> Status:
    """Which partitions were not scored, or have warnings."""
    if stopped:
        return _stopped(stopped)
    current = [row for row in rows if row.is_current]
    warned = [row for row in current if row.warnings]
    if not current:
        return Status("")
    if not warned:
        watched = any(row.health for row in current)
        return Status("No partition has warnings." if watched else "No partition was watched.")
    last = warned[-1]
    text = f"{len(warned):,} of {len(current):,} partitions have warnings, most recently "
    advice = "Correct the input and score again: only partitions whose input changed are scored."
    return Status(f"{text}{last.name}: {_titles(last)}.", last is current[-1], advice)


def promotions_status(records: ModelRecords) -> Status:
    """Which version is the champion, since when, and to which one a rollback returns."""
    champion = records.aliases.get(CHAMPION)
    if champion is None:
        return Status("No version is the champion." if records.promotions else "")
    refused = [
        entry
        for entry in records.promotions
        if (entry.action, entry.alias) == ("refused", CHAMPION) and entry.time > champion.promoted
    ]
    text = f"The champion is {champion.id[:8]}, since {minute(champion.promoted)}"
    text += f"; {_count(len(refused), 'promotion')} refused since" if refused else ""
    back = champion.previous
    advice = f"probclass rollback {records.model} returns to {back[:8]}." if back else ""
    return Status(f"{text}.", advice=advice)


def drift_status(columns: Sequence[ColumnDrift]) -> Status:
    """Which column of the scored rows differs most from training, and where."""
    if not columns:
        return Status("")
    first = columns[0]
    where = max(first.cells, key=lambda cell: cell[1] or 0.0)[0]
    bits = divergence(first.largest)
    return Status(f"{first.column} differs most from training: by {bits} bits in {where}.")


def comparison_status(
    pairs: Sequence[MetricPair], left: ModelVersion, right: ModelVersion
) -> Status:
    """Which of two versions is better on the same rows."""
    name, more = "log_loss", "less log loss"
    if any(pair.left.is_of_density for pair in pairs):
        name, more = "log_density", "more log density"
    values = [(pair.left.number(name), pair.right.number(name)) for pair in pairs]
    better = [(b < a) == (name == "log_loss") for a, b in values if a is not None and b is not None]
    if not better or left.id == right.id:
        return Status("")
    text = f"{right.id[:8]} has {more} than {left.id[:8]} in {sum(better)} of "
    return Status(f"{text}{len(better):,} evaluations on the same rows.")


def _stopped(stopped: Sequence[Stop]) -> Status:
    last = max(stopped, key=lambda stop: stop.record.created)
    more = f" (and {len(stopped) - 1:,} more)" if len(stopped) > 1 else ""
    text = f"{last.name}{more} was not scored, since {minute(last.record.created)}: {last.reason}"
    return Status(text, True, "The sink has what was scored before; correct the input and rerun.")


def _evaluations_of(alias: Alias, records: ModelRecords) -> list[EvaluationRow]:
    return [evaluation_row(one) for one in records.evaluations if one.version == alias.id]


def _titles(row: PartitionRow) -> str:
    """The first warnings of a partition."""
    return ", ".join(warning.title for warning in row.warnings[:3])


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
