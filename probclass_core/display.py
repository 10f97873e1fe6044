"""Reports of results: as text, for ``print``, as HTML, for notebooks, in short, and as JSON.

Times and descriptions of rows, at the end, read the same on the command line and on pages.

A report is a list of parts, so that all forms have the same content. Values come from data and
may be anything: control characters are escaped in all forms, and HTML contains neither scripts nor
any value as markup.
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.errors import hide_credentials

MOST_ROWS = 20
"""Number of rows of a table that a report shows."""

_WIDTH = 100
"""Number of characters of a line of text, except for tables."""

_HANGING: dict[str, Any] = {"subsequent_indent": "  ", "break_on_hyphens": False}

_LONGEST = 60
"""Number of characters of a value that a report shows."""

_LONGEST_VALUE = 80
"""Number of characters of a value in a ``repr``."""

_BRIEF_LINES = 12
"""Number of lines of a ``repr``."""

_MAX_NUMBERS = 64
"""Numbers of a matrix up to which a table shows all of them."""

_BAR_WIDTH = 8
"""Number of characters of the longest bar, to each side if there are bars to both."""

_STYLE = (
    ".probclass .part{overflow-x:auto} .probclass .bar{width:10em;height:.6em;fill:#4c78a8}"
    ".probclass th,.probclass td,.probclass caption{text-align:left;padding:.1em .6em}"
    ".probclass .n{text-align:right} .probclass .rail{fill:none} .probclass .against{fill:#e45756}"
)
"""Style of a report in a notebook; a page has its own for these classes."""

_ID = re.compile(r"'([0-9a-f]{12})[0-9a-f]{52}'")


@dataclass(frozen=True)
class TablePart:
    """A table of a report.

    Attributes:
        columns: values by column name; numbers are aligned to the right.
        title: line above the table, or None.
        most: largest number of rows to show; a last line counts the others.
        bars: column of numbers that is also drawn as bars, or None.
        longest: number of characters of a cell that are shown.
    """

    columns: Mapping[str, Sequence[Any]]
    title: str | None = None
    most: int = MOST_ROWS
    bars: str | None = None
    longest: int = _LONGEST

    @cached_property
    def cells(self) -> Mapping[str, Sequence[str]]:
        """The shown values as text, the numbers of a column in one format."""
        cells = {}
        for name, values in self.columns.items():
            form = number_format(values[: self.most])
            cells[name] = [_cell(value, form, self.longest) for value in values[: self.most]]
        return cells

    def has_numbers(self, name: str) -> bool:
        """Whether all values of a column are numbers or null."""
        return all(
            value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
            for value in self.columns[name]
        )

    @property
    def rows_left_out(self) -> int:
        """Number of rows that are not shown."""
        return max(0, len(next(iter(self.columns.values()))) - self.most)


Part = str | TablePart | Sequence[str]
"""A paragraph, a table, or the items of a list."""


class Report(ABC):
    """Base of results that display themselves: in ``print``, in notebooks, and by ``repr``.

    Dataclasses that inherit it are declared with ``repr=False``.
    """

    @abstractmethod
    def _report(self) -> Sequence[Part]:
        """The content of all forms, the most important part first."""

    def __repr__(self) -> str:
        """The start of the report, in at most a dozen lines."""
        return as_brief_text(self._report())

    def __str__(self) -> str:
        """The report as text."""
        return as_text(self._report())

    def _repr_html_(self) -> str:
        """The whole report as HTML, for notebooks."""
        return as_html(self._whole_report())

    def _whole_report(self) -> Sequence[Part]:
        """The report and what ``print`` leaves out, for notebooks and the command line."""
        return self._report()


def report_of(result: Report) -> Sequence[Part]:
    """The parts of the whole report of a result."""
    return result._whole_report()


class ShortRepr:
    """Base of dataclasses whose ``repr`` shortens long values and leaves out defaults.

    They are declared with ``repr=False``.
    """

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type] # a dataclass inherits it
        values = [
            f"{one.name}={_short_repr(getattr(self, one.name))}"
            for one in fields
            if not _is_default(one, getattr(self, one.name))
        ]
        text = f"{type(self).__name__}({', '.join(values)})"
        return textwrap.fill(text, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def as_text(parts: Sequence[Part]) -> str:
    """A report as lines of text, with a blank line between the parts."""
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(textwrap.fill(_printable(part), _WIDTH, break_on_hyphens=False))
        elif isinstance(part, TablePart):
            texts.append("\n".join(_table_lines(part)))
        elif part:
            items = (textwrap.fill(f"- {_printable(item)}", _WIDTH, **_HANGING) for item in part)
            texts.append("\n".join(items))
    return "\n\n".join(texts)


def as_brief_text(parts: Sequence[Part]) -> str:
    """The start of a report, in at most a dozen lines of at most 100 characters."""
    lines = [shortened(line, _WIDTH) for line in as_text(parts).splitlines() if line]
    return "\n".join(lines if len(lines) <= _BRIEF_LINES else [*lines[: _BRIEF_LINES - 1], "…"])


def as_html(parts: Sequence[Part]) -> str:
    """A report as HTML for notebooks, every value escaped."""
    return f'<div class="probclass"><style>{_STYLE}</style>{html_parts(parts)}</div>'


def html_parts(parts: Sequence[Part]) -> str:
    """The parts of a report as HTML whose style is in classes, every value escaped."""
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(f"<p>{_escaped(part)}</p>")
        elif isinstance(part, TablePart):
            texts.append(_table_html(part))
        elif part:
            items = "".join(f"<li>{_escaped(item)}</li>" for item in part)
            texts.append(f'<ul class="notes">{items}</ul>')
    return "\n".join(texts)


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things: ``counted(1, "block")`` is "1 block", of 2 "2 blocks"."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def shortened(text: str, longest: int = _LONGEST) -> str:
    """The start of a long text."""
    return text if len(text) <= longest else f"{text[: longest - 2].rstrip()} …"


def _short_repr(value: object) -> str:
    return shortened(_ID.sub(r"'\1…'", " ".join(repr(value).split())), _LONGEST_VALUE)


def _is_default(one: dataclasses.Field[Any], value: object) -> bool:
    if one.default_factory is not dataclasses.MISSING:
        return bool(value == one.default_factory())
    return one.default is not dataclasses.MISSING and bool(value == one.default)


def _more(count: int) -> str:
    return f"… and {count:,} more"


def _table_lines(part: TablePart) -> list[str]:
    columns = []
    for name, cells in part.cells.items():
        title = _printable(name)
        width = max(map(len, (title, *cells)))
        right = part.has_numbers(name)
        columns.append(
            [text.rjust(width) if right else text.ljust(width) for text in (title, *cells)]
        )
    if shares := _shares(part):
        columns.append(["", *_text_bars(shares)])
    lines = [] if part.title is None else [_printable(part.title)]
    lines += ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if part.rows_left_out:
        lines.append(_more(part.rows_left_out))
    return lines


def _table_html(part: TablePart) -> str:
    """A table, which scrolls in its box if it is wide."""
    title = "" if part.title is None else f"<caption>{_escaped(part.title)}</caption>"
    kinds = ['class="n"' if part.has_numbers(name) else "" for name in part.columns]
    rows = [
        "".join(f"<td {kind}>{_escaped(text)}</td>" for kind, text in zip(kinds, row, strict=True))
        for row in zip(*part.cells.values(), strict=True)
    ]
    names = zip(kinds, part.cells, strict=True)
    head = "".join(f"<th {kind}>{_escaped(name)}</th>" for kind, name in names)
    if shares := _shares(part):
        head += "<th></th>"
        bars = _html_bars(shares)
        rows = [f'{row}<td class="wide">{bar}</td>' for row, bar in zip(rows, bars, strict=True)]
    more = f'<p class="faint small">{_more(part.rows_left_out)}</p>' if part.rows_left_out else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    table = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="part" tabindex="0">{table}</div>{more}'


def _shares(part: TablePart) -> list[float]:
    """The numbers of the column with bars, divided by the largest; empty without such a column."""
    if part.bars is None:
        return []
    values = [
        0.0 if value is None or math.isnan(value) else float(value)
        for value in part.columns[part.bars][: part.most]
    ]
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    return [max(-1.0, min(1.0, value / largest)) for value in values]


def _text_bars(shares: Sequence[float]) -> list[str]:
    """Bars from a common line: to the right if positive, to the left if negative."""
    width = _BAR_WIDTH if min(shares) < 0.0 else 0
    sizes = [round(_BAR_WIDTH * share) for share in shares]
    return [f"{'█' * max(0, -size):>{width}}│{'█' * max(0, size)}" for size in sizes]


def _html_bars(shares: Sequence[float]) -> Iterator[str]:
    """Bars from a common line: to the right if positive, to the left if negative."""
    start = -100 if min(shares) < 0.0 else 0
    for share in shares:
        css = "" if share >= 0.0 else ' class="against"'
        yield (
            f'<svg class="bar" viewBox="{start} 0 {100 - start} 4" preserveAspectRatio="none" '
            f'aria-hidden="true"><rect class="rail" x="{start}" width="{100 - start}" height="4"/>'
            f'<rect{css} x="{100.0 * min(share, 0.0):.2f}" width="{100.0 * abs(share):.2f}" '
            'height="4"/></svg>'
        )


def _cell(value: Any, number_format: str, longest: int) -> str:
    if isinstance(value, np.ndarray):
        form: Any = {"float": "{:.5g}".format}
        return np.array2string(value, threshold=_MAX_NUMBERS, edgeitems=4, formatter=form)
    return _printable(shortened(hide_credentials(cell_text(value, number_format)), longest))


def number_format(values: Sequence[Any]) -> str:
    """A format specification that suits all floats of a column."""
    sizes = [abs(x) for x in values if isinstance(x, float) and math.isfinite(x) and x != 0.0]
    if all(size.is_integer() and size < 1e15 for size in sizes):
        return ",.0f"
    if all(1e-3 <= size < 1e5 for size in sizes):
        return ".4f"
    return ",.1f" if all(1.0 <= size < 1e9 for size in sizes) else ".5g"


def cell_text(value: Any, number_format: str) -> str:
    """A plain value of a table as text: floats in the format, null as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return format(value, number_format)
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _printable(text: str) -> str:
    """Text without control characters, which are written as in a string of Python."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _escaped(text: str) -> str:
    """Text without an effect on what is around it."""
    return f"<bdi>{html.escape(_printable(text))}</bdi>"


def json_values(value: Any, text: Callable[[str], str] = str) -> Any:
    """A result as plain JSON values.

    Tables become lists of rows, arrays lists; an infinite or undefined number, which JSON lacks,
    becomes null.

    Args:
        value: the result.
        text: what becomes of texts.
    """
    if isinstance(value, (pa.Table, np.ndarray)):
        value = value.to_pylist() if isinstance(value, pa.Table) else value.tolist()
    if isinstance(value, Mapping):
        return {str(key): json_values(item, text) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_values(item, text) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return text(value) if isinstance(value, str) else value


def minute(moment: datetime | str | None) -> str | None:
    """A time in UTC to the minute, such as ``2014-01-31 05:00 UTC``; None if unknown.

    Args:
        moment: the time, or its ISO 8601 text, in UTC.
    """
    if not moment:
        return None
    return f"{str(moment)[:16].replace('T', ' ')} UTC"


def described_rows(provenance: Mapping[str, Any]) -> str:
    """Source, partition and conditions of the rows that were read, as one would type them.

    Credentials in the source are left out, and so is whatever is not in the recorded form.

    Args:
        provenance: a record with any of the keys ``source``, ``partition`` and ``where``.
    """
    partition, where = provenance.get("partition"), provenance.get("where")
    parts = [hide_credentials(str(provenance.get("source") or ""))]
    if isinstance(partition, Mapping):
        parts += [f"{key}={value}" for key, value in partition.items()]
    if isinstance(where, str):  # a pyarrow expression, which a call from Python may pass
        parts.append(where)
    elif isinstance(where, Sequence):
        parts += [
            " ".join(map(_operand, condition)).replace(" == ", "=")
            for condition in where
            if isinstance(condition, (list, tuple))
        ]
    return ", ".join(filter(None, parts))


def _operand(value: object) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, list) else str(value)
