"""A damaged or encrypted file is refused at once, by an error that names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.io import retry


def rows(count: int = 3_000) -> pa.Table:
    draw = np.random.default_rng(0)
    return pa.table(
        {
            "x": draw.normal(size=count),
            "s": draw.choice(["a", "b", "c"], count),
            "y": draw.choice(["good", "bad"], count),
        }
    )


def test_a_damaged_local_file_is_refused_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(retry.time, "sleep", pauses.append)
    path = tmp_path / "rows.parquet"
    pq.write_table(rows(), path, compression="none", use_dictionary=False)
    data, messages = path.read_bytes(), []
    for place in range(4, 44):  # the header of the first page
        path.write_bytes(data[:place] + b"\x7e" + data[place + 1 :])
        try:
            pc.fit(path, pc.ModelSpec("y", [pc.Block("gaussian_full", ["x"])]))
        except pc.TableError as error:
            messages.append(str(error))
    assert any("Unexpected end of stream" in message for message in messages)
    assert pauses == []


def test_a_read_that_ends_early_is_tried_again_over_a_network_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry.time, "sleep", lambda seconds: None)
    batch = pa.record_batch({"x": [1, 2]})

    def read(*, remote: bool) -> list[pa.RecordBatch]:
        errors = [OSError("Unexpected end of stream")]

        def open_batches() -> list[pa.RecordBatch]:
            if errors:
                raise errors.pop()
            return [batch]

        return list(retry.read_again(open_batches, remote=remote))

    assert read(remote=True) == [batch]
    with pytest.raises(OSError, match="Unexpected end of stream"):
        read(remote=False)
