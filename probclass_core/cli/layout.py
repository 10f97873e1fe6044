"""Tables and text in the width of a terminal; words and numbers are never broken.

A line is text with a style of rich, so that these functions need no terminal and are easy to test.
A line is longer than the width only if a word, next to the name of its row, is longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

Line = tuple[str, str]
"""A line and its style, such as ``("class  count", "bold")``."""

_GAPS = (3, 2)
"""Spaces between columns; the smaller gap where the larger one does not fit."""

_ENTRY = re.compile(r"\s*[\w.*`]+( \(.*?\))?: ")
"""Start of an entry in a list of a docstring, such as ``SpecError: if …``."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        header: its name; may be broken between words.
        cells: text of each row, of one or more lines.
        numeric: whether it is aligned to the right and its cells are never broken.
    """

    header: str
    cells: Sequence[str]
    numeric: bool = False

    @cached_property
    def natural(self) -> int:
        """The width in which no line is broken."""
        return max(_width(line) for text in (self.header, *self.cells) for line in _lines(text))

    @cached_property
    def least(self) -> int:
        """The width of the longest word; the smallest one in which no word is broken."""
        pieces = _pieces(self.header)
        for cell in self.cells:
            pieces += _lines(cell) if self._is_rigid(cell) else _pieces(cell)
        return max(map(_width, pieces))

    def broken(self, text: str, width: int) -> list[str]:
        """The lines of a cell, those that are longer than the width broken between words."""
        return _lines(text) if self._is_rigid(text) else wrap(text, width)

    def align(self, line: str, width: int) -> str:
        """A line with spaces around it."""
        space = " " * (width - _width(line))
        return space + line if self.numeric else line + space

    def _is_rigid(self, text: str) -> bool:
        """Whether the lines of a text must stay: numbers, and matrices, which have many lines."""
        return self.numeric or "\n" in text


def fits(columns: Sequence[Column], width: int) -> bool:
    """Whether each column fits in the width, next to the first one or alone if it is the first."""
    first, *others = (column.least for column in columns)
    return first <= width and all(first + _GAPS[-1] + least <= width for least in others)


def table_lines(columns: Sequence[Column], width: int, *, spaced: bool = False) -> list[Line]:
    """The lines of a table.

    If the columns do not fit next to each other, the table continues below with the other columns,
    each time after the first one, which names the rows.

    Args:
        columns: at least one column; all have equally many cells.
        width: largest length of a line.
        spaced: whether a blank line separates the rows.
    """
    lines: list[Line] = []
    for group in _groups(columns, width):
        if lines:
            lines.append(("", ""))
        gap = next((gap for gap in _GAPS if _least(group, gap) <= width), _GAPS[-1])
        widths = _widths(group, width - gap * (len(group) - 1))
        header = [wrap(c.header, w) for c, w in zip(group, widths, strict=True)]
        height = max(map(len, header))
        header = [[""] * (height - len(cell)) + cell for cell in header]  # aligned to the rule
        lines += [(line, "bold") for line in _row(group, header, widths, gap)]
        lines.append(("─" * (sum(widths) + gap * (len(group) - 1)), ""))
        for number in range(len(group[0].cells)):
            if spaced and number:
                lines.append(("", ""))
            cells = [c.broken(c.cells[number], w) for c, w in zip(group, widths, strict=True)]
            lines += [(line, "") for line in _row(group, cells, widths, gap)]
    return lines


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most the width, broken between words only; later lines indented."""
    lines: list[str] = []
    for line in _lines(text):
        if _width(line) <= width:
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        shown = indent
        for word in line.split():
            if shown.strip() and _width(shown) + 1 + _width(word) > width:
                lines.append(shown)
                shown = indent
            shown += f" {word}" if shown.strip() else word
        lines.append(shown)
    return lines


def reflow(text: str, width: int) -> list[str]:
    """The paragraphs of a docstring in lines of at most the width."""
    if all(_width(line) <= width for line in _lines(text)):
        return _lines(text)
    paragraphs: list[str] = []
    indent = ""
    for line in _lines(text):
        before, indent = indent, line[: len(line) - len(line.lstrip())]
        continues = paragraphs and paragraphs[-1].strip() and line.strip() and indent == before
        if continues and not _ENTRY.match(line):
            paragraphs[-1] += f" {line.strip()}"
        else:
            paragraphs.append(line)
    return [line for paragraph in paragraphs for line in wrap(paragraph, width)]


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


def _row(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], widths: Sequence[int], gap: int
) -> Iterable[str]:
    for parts in zip_longest(*cells, fillvalue=""):
        aligned = (c.align(part, w) for c, part, w in zip(columns, parts, widths, strict=True))
        yield (" " * gap).join(aligned).rstrip()


def _pieces(text: str) -> list[str]:
    """The words of a text, each indented as the line that `wrap` gives it."""
    indent = text[: len(text) - len(text.lstrip())]
    return [indent + word for word in text.split()] or [text]


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _width(text: str) -> int:
    """Cells of a terminal that a text takes; two for each letter of East Asian scripts."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
