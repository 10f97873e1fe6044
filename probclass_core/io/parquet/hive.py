"""Directories that spell out the values of partition columns, as Hive names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from probclass_core.errors import TableError
from probclass_core.spec import category_text

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What stands for a null in the name of a directory."""


def hive_folder(partition: Mapping[str, Any]) -> str:
    """The folder of a partition relative to its table, ``"a=1/b=2"``; empty for a whole table.

    Args:
        partition: values of the partition columns, outermost first.

    Raises:
        TableError: as `hive_segment`.
    """
    return "/".join(hive_segment(name, value) for name, value in partition.items())


def hive_segment(name: str, value: Any) -> str:
    """The directory of a partition value, escaped as Hive does.

    Raises:
        TableError: a column whose name would hide the directory from readers, or split it.
    """
    if name.startswith(("_", ".")) or set(name) & set("/="):
        raise TableError(
            f"column {name!r} cannot name a partition: readers pass over names that begin with '_' "
            "or '.', and '/' or '=' would be misread; rename it."
        )
    if value is None:
        return f"{name}={HIVE_NULL}"
    # Beyond ASCII nothing is escaped: Hive and Spark would take each byte for a letter.
    escaped = (quote(c, safe=" -_.~") if c.isascii() else c for c in category_text(value))
    return f"{name}={''.join(escaped)}"
