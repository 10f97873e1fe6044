"""Tables and text in the width of a terminal, drawn by rich; words and numbers are never broken.

A line is longer than the width only if a word, next to the name of its row, is longer.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

_GAPS = (3, 2)
"""Spaces between columns; the smaller gap where the larger one does not fit."""

_ENTRY = re.compile(r"\s*[\w.*`]+( \(.*?\))?: ")
"""Start of an entry in a list of a docstring, such as ``SpecError: if …``."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        header: its name; may be broken between words.
        cells: text of each row; the lines of a matrix, which has several, are never broken.
        numeric: whether it is aligned to the right and its cells are never broken.
    """

    header: str
    cells: Sequence[str]
    numeric: bool = False

    @cached_property
    def natural(self) -> int:
        """The width in which no line is broken."""
        return max(_longest(text, "\n") for text in (self.header, *self.cells))

    @cached_property
    def least(self) -> int:
        """The smallest width in which no word is broken, after the indentation of its text."""
        cells = (
            _longest(text, "\n")
            if self.numeric or "\n" in text
            else len(_indent(text)) + _longest(text)
            for text in self.cells
        )
        return max(1, _longest(self.header), *cells)


def tables(columns: Sequence[Column], width: int, *, spaced: bool = False) -> Iterator[Table]:
    """A table; if its columns do not fit next to each other, several.

    Each begins with the first column, which names the rows.

    Args:
        columns: at least one column; all have equally many cells.
        width: largest length of a line.
        spaced: whether a blank line separates the rows.
    """
    for group in _groups(columns, width):
        gap = next((gap for gap in _GAPS if _least(group, gap) <= width), _GAPS[-1])
        table = Table(
            box=box.SIMPLE_HEAD,
            header_style="bold",
            padding=(0, gap - 1, 0, 0),
            pad_edge=False,
            show_edge=False,
            show_lines=spaced,
        )
        widths = _widths(group, width - gap * (len(group) - 1))
        for column, size in zip(group, widths, strict=True):
            side: Literal["left", "right"] = "right" if column.numeric else "left"
            table.add_column(Text(column.header), width=size, justify=side, overflow="fold")
        for cells in zip(*(column.cells for column in group), strict=True):
            table.add_row(*map(Text, cells))
        table.width = sum(widths) + gap * (len(group) - 1)
        yield table


def fits(columns: Sequence[Column], width: int) -> bool:
    """Whether each column fits in the width, next to the first one or alone if it is the first."""
    first, *others = (column.least for column in columns)
    return first <= width and all(first + _GAPS[-1] + least <= width for least in others)


def wrapped(text: str, width: int) -> str:
    """Text whose lines are broken between words only, each with the indentation of its first."""
    lines = (
        textwrap.fill(
            line,
            width,
            subsequent_indent=_indent(line),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )
    return "\n".join(lines)


def reflowed(text: str, width: int) -> str:
    """A docstring, whose paragraphs are wrapped anew unless its lines fit in the width."""
    lines = text.split("\n")
    if _longest(text, "\n") <= width:
        return text
    joined: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        continues = before.strip() and line.strip() and _indent(before) == _indent(line)
        if continues and not _ENTRY.match(line):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    return wrapped("\n".join(joined), width)


def _groups(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns that fit next to each other; each group begins with the first column."""
    groups: list[list[Column]] = []
    for column in columns:
        if groups and _least([*groups[-1], column], _GAPS[-1]) <= width:
            groups[-1].append(column)
        else:
            groups.append([columns[0], column] if groups else [column])
    return groups


def _least(columns: Sequence[Column], gap: int) -> int:
    return sum(column.least for column in columns) + gap * (len(columns) - 1)


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Widths between the least and the natural one; columns that lack little get it first."""
    widths = [column.least for column in columns]
    space = max(width - sum(widths), 0)
    lacking = sorted(range(len(columns)), key=lambda at: columns[at].natural - columns[at].least)
    for count, at in zip(range(len(columns), 0, -1), lacking, strict=True):
        more = min(columns[at].natural - widths[at], space // count)
        widths[at] += more
        space -= more
    return widths


def _longest(text: str, separator: str | None = None) -> int:
    """Width of the longest word, or of the longest part between separators."""
    return max(map(cell_len, text.split(separator)), default=0)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
