"""Reports of results as text, for ``print``, and as HTML, for notebooks.

A report is a list of parts, so that both forms have the same content. Values come from data and
may be anything: control characters are escaped in both forms, and HTML contains neither scripts nor
any value as markup.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_ROWS = 20
"""Number of rows of a table that a report shows."""

_WIDTH = 100
"""Number of characters of a line of text, except for tables."""

_HANGING: dict[str, Any] = {"subsequent_indent": "  ", "break_on_hyphens": False}

_LONGEST = 60
"""Number of characters of a value that a report shows."""


@dataclass(frozen=True)
class TablePart:
    """A table of a report.

    Attributes:
        columns: values by column name; numbers are aligned to the right.
        title: line above the table, or None.
        most: largest number of rows to show; a last line counts the others.
        bars: column of numbers that HTML also draws as bars, or None.
    """

    columns: Mapping[str, Sequence[Any]]
    title: str | None = None
    most: int = MOST_ROWS
    bars: str | None = None
    cells: Mapping[str, Sequence[str]] = field(init=False)

    def __post_init__(self) -> None:
        cells = {name: _cells(values[: self.most]) for name, values in self.columns.items()}
        object.__setattr__(self, "cells", cells)

    @property
    def rows_left_out(self) -> int:
        """Number of rows that are not shown."""
        return max(0, len(next(iter(self.columns.values()))) - self.most)


Part = str | TablePart | Sequence[str]
"""A paragraph, a table, or the items of a list."""


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


def as_html(parts: Sequence[Part]) -> str:
    """A report as HTML, every value escaped."""
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(f"<p>{_escaped(part)}</p>")
        elif isinstance(part, TablePart):
            texts.append(_table_html(part))
        elif part:
            items = "".join(f"<li>{_escaped(item)}</li>" for item in part)
            texts.append(f"<ul>{items}</ul>")
    return f'<div class="probclass">{"".join(texts)}</div>'


def shortened(text: str) -> str:
    """The start of a long text."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]} …"


def _table_lines(part: TablePart) -> list[str]:
    columns = []
    for name, cells in part.cells.items():
        title = _printable(name)
        width = max(map(len, (title, *cells)))
        right = _are_numbers(part.columns[name])
        columns.append(
            [text.rjust(width) if right else text.ljust(width) for text in (title, *cells)]
        )
    lines = [] if part.title is None else [_printable(part.title)]
    lines += ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if part.rows_left_out:
        lines.append(f"… and {part.rows_left_out:,} more")
    return lines


def _table_html(part: TablePart) -> str:
    title = "" if part.title is None else f"<caption>{_escaped(part.title)}</caption>"
    names = list(part.cells)
    head = "".join(f"<th{_alignment(part.columns[name])}>{_escaped(name)}</th>" for name in names)
    shares = _shares(part)
    rows = []
    for number, row in enumerate(zip(*part.cells.values(), strict=True)):
        cells = [
            f"<td{_alignment(part.columns[name])}>{html.escape(text)}</td>"
            for name, text in zip(names, row, strict=True)
        ]
        if shares:
            cells.append(f"<td>{_bar(shares[number])}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head += "<th></th>" if shares else ""
    more = f"<p>… and {part.rows_left_out:,} more</p>" if part.rows_left_out else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f"<table>{title}{body}</table>{more}"


def _alignment(values: Sequence[Any]) -> str:
    return ' style="text-align:right"' if _are_numbers(values) else ' style="text-align:left"'


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


def _bar(share: float) -> str:
    """A bar from the middle: to the right if positive, to the left if negative."""
    left, color = (50.0, "#4c78a8") if share >= 0.0 else (50.0 * (1.0 + share), "#e45756")
    return (
        '<div style="position:relative;width:10em;height:0.9em">'
        f'<div style="position:absolute;left:{left:.2f}%;width:{50.0 * abs(share):.2f}%;'
        f'height:100%;background:{color}"></div></div>'
    )


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(
        value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
        for value in values
    )


def _cells(values: Sequence[Any]) -> list[str]:
    """Values of a column as text, its numbers in one format."""
    sizes = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value)]
    sizes = [size for size in sizes if size]
    readable = all(1e-3 <= size < 1e6 for size in sizes)
    number_format = ".4f" if readable else ".4g"
    return [_printable(shortened(cell_text(value, number_format))) for value in values]


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
    return str(value)


def _printable(text: str) -> str:
    """Text without control characters, which are written as in a string of Python."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _escaped(text: str) -> str:
    return html.escape(_printable(text))
