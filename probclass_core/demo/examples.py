"""Paths of the small tables that the documentation uses; ``examples.md`` describes them."""

from __future__ import annotations

from pathlib import Path

from probclass_core.errors import TableError, one_of

_FOLDER = Path(__file__).parent / "data"


def example_file(name: str) -> Path:
    """The path of a table that comes with the package.

    Args:
        name: ``"titanic.csv"``, ``"penguins.csv"``, ``"iris_uci.csv"``, ``"adult_train.parquet"``
            or ``"adult_test.parquet"``.

    Returns:
        The path of the file in the installed package. Copy the file before you change it.

    Raises:
        TableError: if the file does not exist.
    """
    path = _FOLDER / name
    if not path.is_file():
        names = sorted(file.name for file in _FOLDER.iterdir())
        raise TableError(f"example file {name!r} does not exist; expected {one_of(names)}.")
    return path
