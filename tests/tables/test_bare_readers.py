"""Readers that list the directory of a table on an object store see old rows or new ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from python_processes import output_of_python

SCRIPT = Path(__file__).with_name("bare_readers.py")


@pytest.mark.services
@pytest.mark.parametrize("store", ["s3", "azure", "google"])
@pytest.mark.parametrize("rows", [[], ["--same-rows"]], ids=["other rows", "same rows"])
def test_readers_of_the_directory_see_whole_partitions_or_an_error(
    store: str, rows: list[str]
) -> None:
    output = output_of_python(
        *(SCRIPT, "--store", store, "--replacements", 8, "--pause", 1.0, *rows)
    )
    read = json.loads(output)["read"]
    for reader in ("pyarrow", "polars", "probclass"):
        assert read[reader]["whole"] > 0
        assert {*read[reader]} <= {"whole", "error"}, read[reader]
