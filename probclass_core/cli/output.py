"""What commands print: results on stdout, as tables or JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from probclass_core.arrow.display import Report, TablePart, cell_text, report_of
from probclass_core.cli.layout import Column, fits, reflowed, tables, wrapped
from probclass_core.cli.messages import console_of, prints_json
from probclass_core.errors import hide_credentials

MAX_ROWS = 20
"""Number of rows of a table that a report shows; JSON has all of them."""

_MAX_MATRIX_SIZE = 8
"""Number of rows and columns of a matrix that a report shows; JSON has all of them."""

_LONGEST_LINE = 100
"""Length of a line of documentation on a terminal that is wider."""

Part = str | Callable[[int], Iterable[RenderableType]]
"""A part of a report: text as it is, or a function from the width of the terminal to what rich
prints below each other."""


def show_json(values: Any) -> None:
    """Print JSON on one line: arrays as lists, infinite and undefined numbers as null."""
    document = _json_value(values)
    typer.echo(json.dumps(document, ensure_ascii=False, allow_nan=False, default=str))


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
    width = console.width
    with console.capture() as captured:
        for number, part in enumerate(part for part in parts if part is not None):
            if number:
                console.print()
            for one in [part] if isinstance(part, str) else part(width):
                console.width = max(width, getattr(one, "width", None) or 0)
                is_table = isinstance(one, Table)
                console.print(one, markup=False, soft_wrap=not is_table, crop=False)
    typer.echo(re.sub(r"(?m) +$", "", captured.get()), nl=False)


def prose(text: str) -> Part:
    """Sentences, one or more lines, broken between words."""
    return lambda width: [wrapped(text, width)]


def documentation(text: str) -> Part:
    """A docstring, or paragraphs in its form, in lines that are not too long to read."""
    return lambda width: [reflowed(text, min(width, _LONGEST_LINE))]


def key_values(values: Mapping[str, Any], title: str | None = None) -> Part:
    """Names and values, one pair per line, without the values that are None."""
    shown = {
        name: _cell(value, _number_format([value]))
        for name, value in values.items()
        if value is not None
    }
    indent = max(map(len, shown), default=0) + 2

    def lines(width: int) -> Iterator[RenderableType]:
        if title is not None:
            yield Text(title, style="bold")
        for name, value in shown.items():
            text = wrapped(value, width - indent).replace("\n", f"\n{' ' * indent}")
            yield Text.assemble((name.ljust(indent), "dim"), text)

    return lines


def table(
    columns: pa.Table | Mapping[str, Sequence[Any]],
    title: str | None = None,
    *,
    limit: int | None = None,
) -> Part:
    """A table with numbers aligned to the right; a cell may contain a matrix.

    Args:
        columns: Arrow table, or values by column name.
        title: line above the table, or None.
        limit: largest number of rows to show; a last line then counts the others.
    """
    if isinstance(columns, pa.Table):
        total, columns = columns.num_rows, column_values(columns, limit)
    else:
        total = len(next(iter(columns.values())))
        columns = {name: values[:limit] for name, values in columns.items()}
    shown = len(next(iter(columns.values())))
    # In a table with matrices, vectors are written vertically, one entry per line.
    has_matrix = any(
        isinstance(cell, np.ndarray) and cell.ndim > 1 for c in columns.values() for cell in c
    )

    def lines(width: int) -> Iterator[RenderableType]:
        for size in range(_MAX_MATRIX_SIZE, 0, -1):
            laid_out = [_column(name, c, has_matrix, size) for name, c in columns.items()]
            if fits(laid_out, width):
                break
        if title is not None:
            yield Text(wrapped(title, width), style="bold")
        for number, one in enumerate(tables(laid_out, width, spaced=has_matrix)):
            yield from [""] if number else []
            yield one
        if shown < total:
            yield Text(f"… and {total - shown:,} more rows", style="dim")

    return lines


def report_parts(result: Report, *, limit: int = MAX_ROWS) -> list[Part]:
    """The report that a result has of itself, as in Python.

    Args:
        result: what a function returned.
        limit: largest number of rows of a table.
    """
    return [
        table(part.columns, part.title and part.title[:1].upper() + part.title[1:], limit=limit)
        if isinstance(part, TablePart)
        else prose(part if isinstance(part, str) else "\n".join(part))
        for part in report_of(result)
        if part
    ]


def column_values(table: pa.Table, limit: int | None = None) -> dict[str, list[Any]]:
    """The first rows of a table as values by column; vectors and tensors as NumPy arrays."""
    table = table if limit is None else table.slice(0, limit)
    return {name: _values(table[name]) for name in table.column_names}


def partition_path(partition: Mapping[str, Any]) -> str:
    """A partition as its directory is named: ``year=2014/month=01``."""
    return "/".join(f"{column}={value}" for column, value in partition.items())


def _column(name: str, values: Sequence[Any], has_matrix: bool, size: int) -> Column:
    numeric = all(isinstance(value, (int, float)) or value is None for value in values)
    number_format = _number_format(values)
    cells = [_cell(value, number_format, vertical=has_matrix, size=size) for value in values]
    return Column(name, cells, numeric)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if isinstance(column.type, pa.FixedShapeTensorType):
        return [tensor for chunk in column.chunks for tensor in chunk.to_numpy_ndarray()]
    values: list[Any] = column.to_pylist()
    nested = pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)
    if nested and pa.types.is_floating(column.type.value_type):
        return [None if value is None else np.asarray(value, np.float64) for value in values]
    return values


def _number_format(values: Sequence[Any]) -> str:
    """A format specification that suits all numbers of a column."""
    sizes = [abs(x) for x in values if isinstance(x, float) and math.isfinite(x) and x != 0.0]
    if all(size.is_integer() and size < 1e15 for size in sizes):
        return ",.0f"
    if all(1e-3 <= size < 1e5 for size in sizes):
        return ".4f"
    return ",.1f" if all(1.0 <= size < 1e9 for size in sizes) else ".5g"


def _cell(
    value: Any, number_format: str, *, vertical: bool = False, size: int = _MAX_MATRIX_SIZE
) -> str:
    if isinstance(value, np.ndarray):
        is_matrix = value.ndim > 1 or vertical
        return _matrix(value.reshape(len(value), -1) if is_matrix else value, size)
    if isinstance(value, (Mapping, list, tuple)):
        return hide_credentials(json.dumps(value, ensure_ascii=False, default=str))
    return hide_credentials(cell_text(value, number_format))


def _matrix(values: np.ndarray, size: int) -> str:
    """The first rows and columns of a matrix as aligned text, one line per row.

    Args:
        values: matrix, or vector to write as one row.
        size: number of columns to show; a vector has few enough.
    """
    corner = np.atleast_2d(values)[:_MAX_MATRIX_SIZE, :size]
    texts = [[format(number, ".5g") for number in row] for row in corner.tolist()]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in texts
    ]
    rows, columns = np.atleast_2d(values).shape
    if columns > size:
        lines = [f"{line}  …" for line in lines]
    return "\n".join([*lines, "…"] if rows > _MAX_MATRIX_SIZE else lines)


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
