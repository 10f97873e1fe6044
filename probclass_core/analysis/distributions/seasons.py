"""Earlier partitions to compare a partition with, found from the values of its partition columns.

Of ``month=2014-09`` these are 2014-08 and 2013-09. Times are recognized in years (2014), months
(2014-09), days (2014-09-01), weeks (2014-W36), hours (2014-09-01T05 and the like), in values of
dates and timestamps, and in columns such as ``year=2014/month=9``. Other whole numbers, such as
those of batches, have the one before. Values of all other columns, such as ``country=de``, stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Literal

ReferenceName = Literal["last", "second_last", "week", "year"]
"""The partition before, and the one before that; of days and hours that a week before; that of the
same season, a year before: the same month, or the same weekday 52 weeks before."""

_YEARS = range(1900, 2200)

_FORMS: Mapping[str, tuple[str, str]] = {
    r"\d{4}": ("%Y", "year"),
    r"\d{4}-\d{2}": ("%Y-%m", "month"),
    r"\d{4}-\d{2}-\d{2}": ("%Y-%m-%d", "day"),
    r"\d{6}": ("%Y%m", "month"),
    r"\d{8}": ("%Y%m%d", "day"),
    r"\d{4}-W\d{2}": ("%G-W%V", "week"),
    **{
        rf"\d{{4}}-\d{{2}}-\d{{2}}{separator}\d{{2}}{rest}": (f"%Y-%m-%d{separator}%H{end}", "hour")
        for separator in ("T", " ", "-")
        for rest, end in (("", ""), (":00", ":00"), (":00:00", ":00:00"))
    },
}
"""Forms of text: format and unit."""

_UNITS = ("year", "month", "day", "hour")
"""Names of columns that are a time together, such as ``year=2014/month=9``, largest first."""


def earlier_partitions(
    partition: Mapping[str, Any],
) -> dict[ReferenceName, Mapping[str, Any]]:
    """The earlier partitions by what they are; those that do not apply are left out.

    Args:
        partition: values of the partition columns.
    """
    for values in (_in_columns(partition), *_in_one_column(partition)):
        if values:
            return values
    return {}


def _in_columns(partition: Mapping[str, Any]) -> dict[ReferenceName, Mapping[str, Any]]:
    """Of a time in columns of its own, such as ``year`` and ``month``."""
    names = {name.lower(): name for name in partition}
    units = [unit for unit in _UNITS if unit in names]
    if not units or units != list(_UNITS[: len(units)]):
        return {}
    try:
        numbers = [int(partition[names[unit]]) for unit in units]
        time = datetime(*(*numbers, 1, 1)[: max(len(numbers), 3)])  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return {}

    def write(earlier: datetime) -> Mapping[str, Any]:
        changed = {
            names[unit]: _like(partition[names[unit]], getattr(earlier, unit)) for unit in units
        }
        return {**partition, **changed}

    return {name: write(one) for name, one in _earlier(time, units[-1]).items()}


def _like(value: Any, number: int) -> Any:
    """A number as text with as many digits as the text that it replaces, or as a number."""
    return f"{number:0{len(value)}d}" if isinstance(value, str) else number


def _in_one_column(
    partition: Mapping[str, Any],
) -> Iterator[dict[ReferenceName, Mapping[str, Any]]]:
    """Of a time in one column, the innermost first; then of a whole number."""
    for name, value in reversed(list(partition.items())):
        for read in (_read_time, _read_number):
            if (found := read(value)) is not None:
                yield {kind: {**partition, name: one} for kind, one in found.items()}


def _read_time(value: Any) -> dict[ReferenceName, Any] | None:
    if isinstance(value, datetime):
        whole_day = (value.hour, value.minute, value.second) == (0, 0, 0)
        return dict(_earlier(value, "day" if whole_day else "hour"))
    if isinstance(value, date):
        time = datetime(value.year, value.month, value.day)
        return {name: one.date() for name, one in _earlier(time, "day").items()}
    if isinstance(value, int) and not isinstance(value, bool):
        times = _read_time(str(value)) or {}
        return {name: int(one) for name, one in times.items()} or None
    if not isinstance(value, str):
        return None
    for form, (pattern, unit) in _FORMS.items():
        if not re.fullmatch(form, value):
            continue
        try:
            day = "-1" if unit == "week" else ""
            time = datetime.strptime(value + day, pattern + ("-%u" if day else ""))
        except ValueError:
            continue
        if time.year in _YEARS:
            return {name: one.strftime(pattern) for name, one in _earlier(time, unit).items()}
    return None


def _read_number(value: Any) -> dict[ReferenceName, Any] | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return {"last": value - 1, "second_last": value - 2}
    if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value) and int(value) > 1:
        numbers = _read_number(int(value)) or {}
        return {name: f"{number:0{len(value)}d}" for name, number in numbers.items()}
    return None


def _earlier(time: datetime, unit: str) -> dict[ReferenceName, datetime]:
    """The times before one of a unit."""
    if unit == "year":
        return {"last": _months_before(time, 12), "second_last": _months_before(time, 24)}
    if unit == "month":
        return {
            "last": _months_before(time, 1),
            "second_last": _months_before(time, 2),
            "year": _months_before(time, 12),
        }
    steps: dict[str, Callable[[int], timedelta]] = {
        "week": lambda number: timedelta(weeks=number),
        "day": lambda number: timedelta(days=number),
        "hour": lambda number: timedelta(hours=number),
    }
    # 52 weeks before is the same season and the same weekday.
    found: dict[ReferenceName, datetime] = {
        "last": time - steps[unit](1),
        "second_last": time - steps[unit](2),
    }
    if unit != "week":
        found["week"] = time - timedelta(weeks=1)
    found["year"] = time - timedelta(weeks=52)
    return found


def _months_before(time: datetime, months: int) -> datetime:
    year, month = divmod(time.year * 12 + time.month - 1 - months, 12)
    return time.replace(year=year, month=month + 1)
