"""What commands print: results on stdout, as tables or as JSON; progress and errors on stderr."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_MOST_FEATURES = 8
"""Of larger matrices the first rows and columns are shown; JSON has them whole."""

_SECONDS_BETWEEN_LINES = 5.0


def put_json(values: Any) -> None:
    """One JSON document; an infinite or undefined number is null, an array a list."""
    plain = _plain(values)
    typer.echo(json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def put(*parts: RenderableType) -> None:
    """Parts of a report with a blank line between them; text is shown as it is."""
    console = _console(stderr=False)
    for number, part in enumerate(parts):
        if number:
            console.print()
        console.print(part, markup=False, soft_wrap=isinstance(part, str))


def facts(values: Mapping[str, Any], title: str | None = None) -> RenderableType:
    """Names and values, one pair a line; a value of None is left out."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        if value is not None:
            grid.add_row(Text(name), Text(_cell(value, _decimals([value]))))
    return grid if title is None else Group(Text(title, style="bold"), grid)


def table(
    columns: pa.Table | Mapping[str, Sequence[Any]], title: str, *, limit: int | None = None
) -> RenderableType:
    """A table, numbers to the right, a matrix in its cell.

    Args:
        columns: an Arrow table, or values by column.
        title: stands above.
        limit: rows to show at most; a last line says how many there are beyond.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if isinstance(columns, pa.Table):
        total, columns = columns.num_rows, column_values(columns, limit)
    else:
        total = len(next(iter(columns.values())))
        columns = {name: values[:limit] for name, values in columns.items()}
    # Beside matrices, vectors stand upright, entry by row.
    tall = any(
        isinstance(cell, np.ndarray) and cell.ndim > 1 for c in columns.values() for cell in c
    )
    drawn = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, leading=int(tall))
    cells = []
    for name, values in columns.items():
        numeric = all(isinstance(value, (int, float)) or value is None for value in values)
        drawn.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
        decimals = _decimals(values)
        cells.append([Text(_cell(value, decimals, upright=tall)) for value in values])
    for row in zip(*cells, strict=True):
        drawn.add_row(*row)
    parts: list[RenderableType] = [Text(title, style="bold"), drawn]
    if len(cells[0]) < total:
        parts.append(Text(f"… and {total - len(cells[0]):,} more rows", style="dim"))
    return Group(*parts)


def column_values(table: pa.Table, limit: int | None = None) -> dict[str, list[Any]]:
    """The first rows of a table as values by column; vectors and tensors as NumPy arrays."""
    table = table if limit is None else table.slice(0, limit)
    return {name: _values(table[name]) for name in table.column_names}


def minute(moment: str | None) -> str | None:
    """An ISO time in UTC to the minute, as people read it; none where none is known."""
    return f"{moment[:16].replace('T', ' ')} UTC" if moment else None


def put_error(message: str) -> None:
    """One line on stderr."""
    _put_aside("error", "bold red", message)


def put_warning(message: str) -> None:
    """One line on stderr."""
    _put_aside("warning", "yellow", message)


@contextmanager
def progress(verb: str) -> Iterator[Callable[[int, int | None], None]]:
    """A callback for ``progress=``: a bar on a terminal, elsewhere a line now and then."""
    console = _console(stderr=True)
    if not console.is_terminal:
        yield _Lines(verb)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    shape = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*shape, console=console, transient=True) as bar:
        task = bar.add_task(verb, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Lines:
    """Progress where nobody watches: in a log, a line every few seconds."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._last = time.monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            of = "" if total is None else f" of {total:,}"
            sys.stderr.write(f"{self._verb}: {done:,}{of} rows\n")
            sys.stderr.flush()


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 1_000  # a file or a pipe has no edge to wrap at
    return console


def _put_aside(kind: str, style: str, message: str) -> None:
    from rich.text import Text

    line = " ".join(part.strip() for part in message.splitlines())
    _console(stderr=True).print(Text.assemble((f"{kind}: ", style), line), soft_wrap=True)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if isinstance(column.type, pa.FixedShapeTensorType):
        return [tensor for chunk in column.chunks for tensor in chunk.to_numpy_ndarray()]
    values: list[Any] = column.to_pylist()
    nested = pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)
    if nested and pa.types.is_floating(column.type.value_type):
        return [None if value is None else np.asarray(value, np.float64) for value in values]
    return values


def _decimals(values: Sequence[Any]) -> str:
    """The format that suits all numbers of a column."""
    sizes = [abs(x) for x in values if isinstance(x, float) and math.isfinite(x) and x != 0.0]
    if all(size.is_integer() and size < 1e15 for size in sizes):
        return ",.0f"
    if all(1e-3 <= size < 1e5 for size in sizes):
        return ".4f"
    return ",.1f" if all(1.0 <= size < 1e9 for size in sizes) else ".5g"


def _cell(value: Any, decimals: str, *, upright: bool = False) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return format(value, decimals)
    if isinstance(value, np.ndarray):
        return _matrix(value.reshape(len(value), -1) if value.ndim > 1 or upright else value)
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _matrix(values: np.ndarray) -> str:
    """Numbers in straight columns, one line per row; of many, the first ones."""
    corner = np.atleast_2d(values)[:_MOST_FEATURES, :_MOST_FEATURES]
    texts = [[format(number, ".5g") for number in row] for row in corner.tolist()]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in texts
    ]
    rows, columns = np.atleast_2d(values).shape
    if columns > _MOST_FEATURES:
        lines = [f"{line}  …" for line in lines]
    return "\n".join([*lines, "…"] if rows > _MOST_FEATURES else lines)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
