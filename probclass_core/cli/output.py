"""What commands print: results on stdout, as tables or JSON; rich draws the tables."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
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
from probclass_core.display import (
    MOST_ROWS,
    Report,
    TablePart,
    cell_text,
    minute,
    report_of,
    shortened,
)
from probclass_core.display import Part as ReportPart
from probclass_core.display import number_format as format_of
from probclass_core.errors import hide_credentials
from probclass_core.store.records import is_id

_MAX_NUMBERS = 64
"""Numbers of a matrix up to which a report shows all of them; JSON has them in any case."""

_LONGEST_CELL = 300
"""Characters of a cell of a table; JSON has all of them."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")

Part = RenderableType
"""A part of a report; text is printed as it is."""


def show_json(values: Any) -> None:
    """Print JSON on one line: arrays as lists, infinite and undefined numbers as null."""
    document = _json_value(values)
    click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False, default=str))


def show(document: Any, *parts: Part | None) -> None:
    """Print the result of a command: as JSON if asked for, else as parts of a report.

    Args:
        document: plain values, or a function that returns them.
        parts: what to print with a blank line between; text is not parsed as markup,
            and None is left out.
    """
    if prints_json():
        show_json(document() if callable(document) else document)
        return
    console = console_of(stderr=False)
    with console.capture() as captured:
        for number, part in enumerate(part for part in parts if part is not None):
            if number:
                console.print()
            console.print(part, markup=False, soft_wrap=isinstance(part, str), crop=False)
    click.echo(re.sub(r"(?m) +$", "", captured.get()), nl=False)


def prose(text: str) -> Part:
    """Sentences, one or more lines, broken between words."""
    return Text(text)


def key_values(values: Mapping[str, Any]) -> Part:
    """Names and values, one pair per line, without the values that are None."""
    shown = {
        name: _cell(value, format_of([value]))
        for name, value in values.items()
        if value is not None
    }
    pairs = Table.grid(padding=(0, 2, 0, 0))
    pairs.add_column(style="dim", no_wrap=True)
    pairs.add_column(min_width=_longest_word(shown.values()))
    for name, value in shown.items():
        pairs.add_row(Text(name), Text(value))
    return pairs


def table(
    columns: pa.Table | Mapping[str, Sequence[Any]] | list[dict[str, Any]],
    title: str | None = None,
    *,
    limit: int | None = None,
) -> Part:
    """A table with numbers aligned to the right; a cell may contain a matrix.

    Args:
        columns: Arrow table, values by column name, or records as in JSON.
        title: line above the table, or None.
        limit: largest number of rows to show; a last line then counts the others.
    """
    if isinstance(columns, list):
        columns = {
            name.replace("_", " "): [_brief(one.get(name)) for one in columns]
            for name in columns[0]
        }
    if isinstance(columns, pa.Table):
        total, columns = columns.num_rows, column_values(columns, limit)
    else:
        total = len(next(iter(columns.values())))
    drawn = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        padding=(0, 2, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    cells = []
    for name, values in columns.items():
        shown = values[:limit]
        numeric = all(isinstance(value, (int, float)) or value is None for value in shown)
        number_format = format_of(shown)
        cells.append([_cell(value, number_format) for value in shown])
        drawn.add_column(
            Text(name),
            justify="right" if numeric else "left",
            min_width=_longest_word([name, *cells[-1]]),
        )
    for row in zip(*cells, strict=True):
        drawn.add_row(*map(Text, row))
    parts: list[RenderableType] = [] if title is None else [Text(title, style="bold")]
    if drawn.row_count < total:
        more = Text(f"… and {total - drawn.row_count:,} more rows", style="dim")
        return Group(*parts, drawn, more)
    return Group(*parts, drawn)


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
    show({**named, **result.to_dict()}, *first, *report_parts(result, limit))


def report_parts(result: Report, limit: int = MOST_ROWS) -> list[Part]:
    """The parts of the report of a result, with tables of at most some rows."""
    return parts_of(report_of(result), limit)


def parts_of(report: Sequence[ReportPart], limit: int) -> list[Part]:
    """The parts of a report, with tables of at most some rows."""
    return [
        table(part.columns, part.title and part.title[:1].upper() + part.title[1:], limit=limit)
        if isinstance(part, TablePart)
        else prose(part if isinstance(part, str) else "\n".join(part))
        for part in report
        if part
    ]


def column_values(table: pa.Table, limit: int | None = None) -> dict[str, list[Any]]:
    """The first rows of a table as values by column; vectors and tensors as NumPy arrays."""
    table = table if limit is None else table.slice(0, limit)
    return {name: _values(table[name]) for name in table.column_names}


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


def _cell(value: Any, number_format: str) -> str:
    if isinstance(value, np.ndarray):
        form: Any = {"float": "{:.5g}".format}
        return np.array2string(value, threshold=_MAX_NUMBERS, edgeitems=4, formatter=form)
    if isinstance(value, (Mapping, list, tuple)):
        return hide_credentials(json.dumps(value, ensure_ascii=False, default=str))
    return shortened(hide_credentials(cell_text(value, number_format)), _LONGEST_CELL)


def _json_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return hide_credentials(value) if isinstance(value, str) else value
