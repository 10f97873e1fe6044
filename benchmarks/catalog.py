"""The one tuple of case families; a new file in `benchmarks.cases` goes in here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.case import Case

FAMILIES = (
    "train_gaussian",
    "train_categorical",
    "retrain",
    "engines",
    "score",
    "memory",
    "knn",
    "small",
    "importing",
    "parsing",
)


def all_cases() -> Iterator[tuple[str, Case[Any]]]:
    """Every case, with the name of the module that defines it."""
    for family in FAMILIES:
        module = f"benchmarks.cases.{family}"
        cases: Sequence[Case[Any]] = importlib.import_module(module).CASES
        for case in cases:
            yield module, case
