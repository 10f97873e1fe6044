"""Models are the same, to the last bit, with and without the compiled loops."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np
import probclass_kernels
import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.arrow import compiled

ROWS = 20_000
NUMBERS = ["far", "few", "gaps", "whole", "single"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    label = rng.choice(["a", "b", "c"], ROWS, p=[0.5, 0.4, 0.1])
    shift = (label == "a") * 1.0
    gaps = rng.normal(shift)
    gaps[rng.random(ROWS) < 0.1] = np.nan
    words = np.array(["low", "middle", "high"])[rng.integers(0, 3, ROWS)]
    return pa.table(
        {
            "label": label,
            "far": rng.normal(1e9 + shift),
            "few": np.round(rng.normal(shift), 1),
            "gaps": pa.array(gaps, from_pandas=True),
            "whole": rng.integers(-(2**60), 2**60, ROWS),
            "single": rng.normal(shift).astype(np.float32),
            "word": pa.array(words, mask=rng.random(ROWS) < 0.1).dictionary_encode(),
            "number": rng.integers(0, 4, ROWS),
            "weight": rng.integers(0, 3, ROWS) / 3.0,
        }
    )


@pytest.fixture(autouse=True)
def uncached() -> Iterator[None]:
    yield
    compiled._installed.cache_clear()


def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_installed", lambda: None)


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize(
    ("estimator", "columns"),
    [
        ("gaussian_diagonal", NUMBERS),
        ("gaussian_diagonal", ["far", "few", "single"]),
        ("gaussian_full", NUMBERS),
        ("gaussian_full", ["far", "few", "single"]),
        ("discretized", NUMBERS),
        ("categorical", ["word", "number"]),
        ("categorical_joint", ["word", "number"]),
    ],
)
def test_a_model_has_the_same_id_and_posteriors_without_the_compiled_loops(
    table: pa.Table,
    estimator: str,
    columns: list[str],
    weight: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = pc.ModelSpec(label="label", weight=weight, blocks=[pc.Block(estimator, columns)])
    with_kernels = pc.fit(table, spec)
    scored = with_kernels.predict_table(table)
    without_kernels(monkeypatch)
    model = pc.fit(table, spec)
    assert model.id == with_kernels.id
    assert model.predict_table(table).equals(scored)


def test_the_default_model_has_the_same_id_without_the_compiled_loops(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table.slice(0, 11_000)
    with_kernels = pc.fit(rows, label="label")
    without_kernels(monkeypatch)
    assert pc.fit(rows, label="label").id == with_kernels.id


def test_the_loops_are_called_for_many_rows_and_not_for_few() -> None:
    assert compiled.kernels(10_000) is probclass_kernels
    assert compiled.kernels(10) is None


def test_the_loops_of_another_release_are_not_called(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled._installed.cache_clear()
    monkeypatch.setattr(probclass_kernels, "INTERFACE", compiled.INTERFACE + 1)
    with caplog.at_level(logging.WARNING):
        assert compiled.kernels(10_000) is None
        pc.fit(table, pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["far"])]))
    (record,) = caplog.records
    assert "of another release than probclass" in record.message
    assert "pip install --upgrade probclass-kernels" in record.message


@pytest.mark.parametrize("error", [OSError("wrong ELF class"), AttributeError("undefined symbol")])
def test_a_library_that_cannot_be_loaded_is_not_used(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load(path: str) -> None:
        raise error

    compiled._installed.cache_clear()
    monkeypatch.delitem(sys.modules, "probclass_kernels")
    monkeypatch.setattr(ctypes, "CDLL", load)
    with caplog.at_level(logging.WARNING):
        assert compiled.kernels(10_000) is None
    (record,) = caplog.records
    assert str(error) in record.message


def test_a_folder_that_is_left_of_the_loops_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "probclass_kernels").mkdir()
    compiled._installed.cache_clear()
    monkeypatch.delitem(sys.modules, "probclass_kernels")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    with caplog.at_level(logging.WARNING):
        assert compiled.kernels(10_000) is None
    (record,) = caplog.records
    assert f"probclass-kernels in {tmp_path}" in record.message
