"""What commands print: results on stdout, as tables or JSON; rich draws the tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

import click
import numpy as np
import pyarrow as pa
from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from probclass_core.cli.messages import console_of, prints_json
from probclass_core.display import MOST_ROWS, TablePart, json_values, minute, report_of
from probclass_core.display import Part as ReportPart
from probclass_core.errors import hide_credentials
from probclass_core.store.records import is_id

_LONGEST_CELL = 300
"""Characters of a cell of a table; JSON has all of them."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")

Part = RenderableType | TablePart | Mapping[str, Any]
"""What a command prints: text as it is, a table, or names and values."""


def show_json(values: Any) -> None:
    """Print JSON on one line: arrays as lists, infinite and undefined numbers as null."""
    document = json_values(values, hide_credentials)
    click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False, default=str))


def show(document: Any, *parts: Part | None) -> None:
    """Print the result of a command: as JSON if asked for, else as parts of a report.

    Args:
        document: plain values, or a function that returns them.
        parts: what to print with a blank line between; text is not parsed as markup,
            and None is left out. Of names and values, a value of None is left out.
    """
    if prints_json():
        show_json(document() if callable(document) else document)
        return
    console = console_of(stderr=False)
    with console.capture() as captured:
        for number, part in enumerate(part for part in parts if part is not None):
            if number:
                console.print()
            drawn = _drawn(part)
            console.print(drawn, markup=False, soft_wrap=isinstance(drawn, str), crop=False)
    click.echo(re.sub(r"(?m) +$", "", captured.get()), nl=False)


def prose(text: str) -> Part:
    """Sentences, one or more lines, broken between words."""
    return Text(text)


def records_table(records: Sequence[Mapping[str, Any]], title: str, most: int) -> TablePart:
    """A table of records as in JSON: lists with commas, the start of ids, times to the minute."""
    columns = {
        name.replace("_", " "): [_brief(one[name]) for one in records] for name in records[0]
    }
    return TablePart(columns, title, most)


def show_report(
    result: Any, named: Mapping[str, Any], *first: Part | None, limit: int = MOST_ROWS
) -> None:
    """Print what a function returned: all of it as JSON, else its report, as in Python.

    Args:
        result: the result, a `Report` with ``to_dict``.
        named: values to print before it, such as the model.
        first: parts to print before it.
        limit: largest number of rows of a table.
    """
    show({**named, **result.to_dict()}, *first, *report_parts(report_of(result), limit))


def report_parts(report: Sequence[ReportPart], limit: int = MOST_ROWS) -> list[Part]:
    """The parts of the report of a result, with tables of at most some rows."""
    return [
        replace(part, most=limit)
        if isinstance(part, TablePart)
        else prose(part if isinstance(part, str) else "\n".join(part))
        for part in report
        if part
    ]


def column_values(table: pa.Table, limit: int | None = None) -> dict[str, list[Any]]:
    """The first rows of a table as values by column; vectors and tensors as NumPy arrays."""
    table = table if limit is None else table.slice(0, limit)
    return {name: _values(table[name]) for name in table.column_names}


def _drawn(part: Part) -> RenderableType:
    if isinstance(part, TablePart):
        return _table(replace(part, longest=_LONGEST_CELL))
    return _pairs(part) if isinstance(part, Mapping) else part


def _pairs(values: Mapping[str, Any]) -> RenderableType:
    """Names and values, one pair per line, without the values that are None."""
    shown = {
        name: TablePart({"": [value]}, longest=_LONGEST_CELL).cells[""][0]
        for name, value in values.items()
        if value is not None
    }
    pairs = Table.grid(padding=(0, 2, 0, 0))
    pairs.add_column(style="dim", no_wrap=True)
    pairs.add_column(min_width=_longest_word(shown.values()))
    for pair in shown.items():
        pairs.add_row(*map(Text, pair))
    return pairs


def _table(part: TablePart) -> RenderableType:
    """A table with numbers aligned to the right; a cell may contain a matrix."""
    drawn = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        padding=(0, 2, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for name, cells in part.cells.items():
        drawn.add_column(
            Text(name),
            justify="right" if part.has_numbers(name) else "left",
            min_width=_longest_word([name, *cells]),
        )
    for row in zip(*part.cells.values(), strict=True):
        drawn.add_row(*map(Text, row))
    title = part.title or ""
    parts = [Text(title[:1].upper() + title[1:], style="bold")] if title else []
    more = (
        [Text(f"… and {part.rows_left_out:,} more rows", style="dim")] if part.rows_left_out else []
    )
    return Group(*parts, drawn, *more)


def _brief(value: Any) -> Any:
    """A value of a record: a list with commas, the start of an id, a time to the minute."""
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, datetime) or (isinstance(value, str) and _TIME.match(value)):
        return minute(value)
    return value[:12] if isinstance(value, str) and is_id(value) else value


def _values(column: pa.ChunkedArray) -> list[Any]:
    if isinstance(column.type, pa.FixedShapeTensorType):
        return [tensor for chunk in column.chunks for tensor in chunk.to_numpy_ndarray()]
    values: list[Any] = column.to_pylist()
    nested = pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)
    if nested and pa.types.is_floating(column.type.value_type):
        return [None if value is None else np.asarray(value, np.float64) for value in values]
    return values


def _longest_word(texts: Any) -> int:
    """Width in which no word is broken; the lines of a matrix are words."""
    words = (text.split("\n" if "\n" in text else None) for text in texts)
    return max(map(cell_len, chain.from_iterable(words)), default=1)
