"""Parquet files with bytes changed: what fits and scores make of them.

A trial changes the footer, the pages or the end of a file with one row group or three, several
encodings and codecs, with checksums of pages or without. A fit and a score of the file must refuse
it or read it. Arrow accepts some changes: of values without a checksum, and of metadata that no
checksum covers. That no bit of a page with a checksum is read as another value is a test of its
own, in `tests/tables/test_damage.py`.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
from campaign import Result, Trial
from hostile_bundles import changed_bytes, memory_folder, rows

import probclass_core as pc

SPEC = pc.ModelSpec(
    "y",
    {
        "gaussian_diagonal": ["x", "z"],
        "categorical": ["a", "b"],
        "poisson": ["i", "j"],
        "bernoulli": ["t"],
        "discretized": ["hour(d)"],
    },
)

LAYOUTS: dict[str, dict[str, object]] = {
    "plain": {"use_dictionary": False, "compression": "none"},
    "dictionaries": {"compression": "none", "row_group_size": 20},
    "snappy": {"compression": "snappy"},
    "zstd": {"compression": "zstd", "row_group_size": 20, "data_page_version": "2.0"},
    "delta": {
        "use_dictionary": False,
        "compression": "gzip",
        "column_encoding": {"i": "DELTA_BINARY_PACKED"},
    },
}


@contextmanager
def trials() -> Iterator[Trial]:
    """The trials of this campaign."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        table, path, sink = rows(), Path(name, "rows.parquet"), Path(name, "scored")
        model = pc.fit(table, SPEC)
        files = []
        for layout, options in LAYOUTS.items():
            for checksums in (False, True):
                pq.write_table(table, path, write_page_checksum=checksums, **options)
                files.append((layout, path.read_bytes()))

        def trial(seed: int) -> Result:
            draw = random.Random(seed)
            layout, data = draw.choice(files)
            pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
            part = draw.choice(["footer", "pages", "end"])
            if part == "footer":
                data = data[:pages] + changed_bytes(data[pages:], draw)
            elif part == "pages":
                data = changed_bytes(data[:pages], draw) + data[pages:]
            else:
                data = data[: draw.randrange(len(data))]
            path.write_bytes(data)
            try:
                pc.fit(path, SPEC)
                pc.score(model, path, sink)
            except pc.ProbClassError:
                return Result(part, layout, "refused")
            except Exception as error:
                return Result(part, layout, "defect", f"raised: {error!r}")
            return Result(part, layout, "read")

        yield trial
