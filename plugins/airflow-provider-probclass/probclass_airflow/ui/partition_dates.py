"""The dates of partitions and of evaluated rows, and gaps between partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import Any

from probclass_core.display import described_rows

_NEWEST = 60
"""Partitions among which a gap is looked for."""


def partition_date(partition: Any) -> datetime | None:
    """The date in the values of a partition, such as ``month=2014-01``, or None."""
    if not isinstance(partition, Mapping):
        return None
    values = {str(key).lower(): str(value) for key, value in partition.items()}
    if values.get("year", "").isdecimal() and len(values["year"]) == 4:
        parts = [values.get(name, "1") for name in ("month", "day", "hour")]
        numbers = [int(part) if part.isdecimal() else 1 for part in parts]
        hour = numbers[2] if "hour" in values else 0
        try:
            return datetime(int(values["year"]), numbers[0], numbers[1], hour, tzinfo=UTC)
        except ValueError:
            return None
    found = [moment for moment in map(moment_of, values.values()) if moment is not None]
    return found[0] if found else None


def rows_date(on: Mapping[str, Any]) -> datetime | None:
    """The date of the partition or, in the conditions, the last day that rows must reach."""
    when = partition_date(on.get("partition"))
    if when is not None:
        return when
    where = on.get("where")
    found = [
        moment
        for condition in (where if isinstance(where, list) else [])
        if isinstance(condition, list) and len(condition) == 3 and condition[1] in ("==", ">=", ">")
        if (moment := moment_of(str(condition[2]))) is not None
    ]
    return max(found, default=None)


def moment_of(text: str) -> datetime | None:
    """A year, month, day or time of ISO 8601, in UTC."""
    if len(text) == 4 and text.isdecimal():
        text += "-01"
    if len(text) == 7:
        text += "-01"
    if len(text) < 8 or not text[:4].isdecimal():
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # the first and the last day of all, in other time zones
        return None


def gap(partitions: Sequence[Any]) -> tuple[str, str, int] | None:
    """The newest unusual gap between the dates of partitions.

    A gap that comes regularly, such as a weekend, is usual.

    Returns:
        The partition before, the one after, and about how many are missing; or None.
    """
    dated = {when: one for one in partitions if (when := partition_date(one)) is not None}
    days = sorted(dated)[-_NEWEST:]
    steps = [round((later - earlier).total_seconds()) for earlier, later in pairwise(days)]
    if not steps:
        return None
    usual, times = median(steps), Counter(steps)
    for before, after, step in reversed([*zip(days, days[1:], steps, strict=False)]):
        if step > 1.5 * usual and times[step] <= max(1, len(steps) // 10):
            names = [described_rows({"partition": dated[at]}) for at in (before, after)]
            return names[0], names[1], round(step / usual) - 1
    return None


def days_since(moment: str) -> str:
    """How long ago an ISO 8601 time was, in words."""
    then = moment_of(moment)
    if then is None:
        return ""
    days = (datetime.now(UTC) - then).days
    return "today" if days < 1 else "1 day ago" if days == 1 else f"{days:,} days ago"
