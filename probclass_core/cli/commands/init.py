"""init: write a project file for a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tomli_w

import probclass_core as pc
from probclass_core.cli.options import Source
from probclass_core.cli.output import show
from probclass_core.cli.project import FILE
from probclass_core.errors import SpecError, hide_credentials, suggest
from probclass_core.io.table import Source as Table

_TEXT = """\
# Values for options and arguments of probclass that are not given; paths are relative to this file.
# Keys at the top apply to every command that has such an option, a table such as [fit] to one.

# Table to train on and to score. Its columns:
{columns}
{source}
# Column of the class; probclass fit derives a spec from the rows. Columns that reveal the class,
# such as those that are known only after it, belong in exclude.
{label}
# exclude = []

# Where models are kept, the model that commands use, and the table that score writes.
{model}
[fit]
alias = "champion"  # the new version is used at once; write "new" to compare it first: promote
cache = true  # fit reads only files that are new
{rows}"""

_ROWS = """\
# where = "{column} >= …"  # partitions to train on; probclass score scores those that are missing
"""


def init(
    source: Source,
    *,
    label: str | None = None,
    sink: str = "scored",
    store: str = "models",
) -> None:
    """Write a project file for a table, probclass.toml, in the working directory.

    Its comments list the columns of the table. With --label, 'probclass fit' and then
    'probclass score' need no more options. A file that exists is not overwritten.

    Example: probclass init lake --label air

    Options:
        label: COLUMN: column of the class.
        sink: scored table that score will write.
        store: URI: model store that fit will write.
    """
    table = pc.open_table(source)
    names = table.schema.names
    if label is not None and label not in names:
        raise SpecError(f"{source} has no column {label!r}; it has {suggest(label, names)}")
    name = re.sub(r"[^A-Za-z0-9]+", "_", label or Path(source).stem).strip("_") or "model"
    text = _TEXT.format(
        columns="\n".join(f"#   {line}" for line in _columns(table)),
        source=_toml(source=source),
        label='# label = "…"' if label is None else _toml(label=label).rstrip(),
        model=_toml(store=store, model=f"{name}@champion", sink=sink),
        rows="".join(_ROWS.format(column=column) for column in table.partition_columns[:1]),
    )
    try:
        with Path(FILE).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SpecError(f"{FILE} exists already; change it, or remove it first.") from None
    except OSError as error:
        raise SpecError(f"cannot write {FILE}: {error.strerror}.") from error
    found = f"{hide_credentials(source)}, {len(names)} columns"
    first = "probclass fit" if label else f"set the label in {FILE}, then probclass fit"
    show(
        {"file": FILE, "source": source, "label": label, "columns": names},
        f"Wrote {FILE} for {found}. Next: {first}, then probclass score.",
    )


def _columns(table: Table) -> list[str]:
    """The columns with their types; a name with a line break is no comment."""
    partition = {*table.partition_columns}
    return [
        f"{' '.join(column.name.split())}: {column.type}"
        + (", of the partitions" if column.name in partition else "")
        for column in table.schema
    ]


def _toml(**values: Any) -> str:
    return tomli_w.dumps(values)
