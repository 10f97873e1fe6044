"""What a plan asks the footer of a Parquet file: where it is kept, the file is not opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa


@dataclass(frozen=True)
class Footer:
    """What a file says of itself.

    Attributes:
        file: digest of the table's place, the file's name in it, and its state.
        schema: of its columns.
        rows: of each of its row groups.
    """

    file: str
    schema: pa.Schema
    rows: tuple[int, ...]


KnownFooters: TypeAlias = Callable[[str], Footer | None]
"""The footer of the file of a digest; none where it is not known."""
