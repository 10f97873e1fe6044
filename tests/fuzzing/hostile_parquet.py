"""Parquet files with bytes changed: what fits and scores make of them.

A trial changes the footer, the header of a page, the values of a page, the end, or any bytes of a
file with one row group or three, several encodings and codecs, with checksums of pages or without.
A fit or a score of the file must refuse it, or give what it gives of the original. Arrow accepts
some changes: of values without a checksum, and of metadata that no checksum covers. They are
counted, not defects.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from campaign import Result, Trial
from hostile_bundles import changed_bytes, memory_folder, rows

import probclass_core as pc

SPEC = pc.ModelSpec(
    "y",
    [
        pc.Block("gaussian_diagonal", ["x", "z"]),
        pc.Block("categorical", ["a", "b"]),
        pc.Block("poisson", ["i", "j"]),
        pc.Block("bernoulli", ["t"]),
        pc.Block("discretized", ["hour(d)"]),
    ],
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


@dataclass(frozen=True)
class Original:
    """A file as it was written.

    Attributes:
        layout: how it was written.
        checksums: whether its pages have checksums.
        data: its bytes.
        parts: kinds of bytes, and where they begin and end.
        model: id of the model that a fit gives.
        scored: the rows that a score gives.
    """

    layout: str
    checksums: bool
    data: bytes
    parts: dict[str, list[range]]
    model: str
    scored: object


def parts_of(path: Path) -> dict[str, list[range]]:
    """The places of a file: its footer, the beginnings of its pages, and the rest of them."""
    data, metadata = path.read_bytes(), pq.read_metadata(path)
    footer = int.from_bytes(data[-8:-4], "little")
    chunks = []
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = chunk.data_page_offset
            if chunk.dictionary_page_offset:
                start = min(start, chunk.dictionary_page_offset)
            chunks.append(range(start, start + chunk.total_compressed_size))
    return {
        "footer": [range(len(data) - 8 - footer, len(data) - 8)],
        "length of footer, magic": [range(len(data) - 8, len(data)), range(4)],
        # A header of a page takes 20 to 60 bytes.
        "page headers": [range(chunk.start, min(chunk.start + 40, chunk.stop)) for chunk in chunks],
        "pages": chunks,
    }


def used(path: Path, model: pc.Model, sink: Path) -> tuple[str, object]:
    """Id of the model of a fit, and the rows of a score.

    Raises:
        ProbClassError: if one of them refuses the file.
    """
    shutil.rmtree(sink, ignore_errors=True)
    fitted = pc.fit(path, SPEC)
    pc.score(model, path, sink)
    return fitted.id, pq.read_table(sink)


@contextmanager
def trials() -> Iterator[Trial]:
    """The trials of this campaign."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        folder = Path(name)
        table, sink = rows(), folder / "scored"
        model = pc.fit(table, SPEC)
        path = folder / "rows.parquet"
        originals = []
        for layout, options in LAYOUTS.items():
            for checksums in (False, True):
                pq.write_table(table, path, write_page_checksum=checksums, **options)
                expected = used(path, model, sink)
                data = path.read_bytes()
                originals.append(Original(layout, checksums, data, parts_of(path), *expected))

        def trial(seed: int) -> Result:
            draw = random.Random(seed)
            original = draw.choice(originals)
            part = draw.choice(["footer", *original.parts, "end", "any"])
            data = bytearray(original.data)
            if part == "end":
                data = data[: draw.randrange(len(data))]
            elif part == "any":
                data = bytearray(changed_bytes(original.data, draw))
            else:
                for _ in range(draw.choice([1, 1, 1, 4])):
                    place = draw.choice(draw.choice(original.parts[part]))
                    data[place] = draw.choice([draw.randrange(256), 0, 255, data[place] ^ 1])
            path.write_bytes(data)
            change = f"{part}, {'with' if original.checksums else 'no'} page checksums"
            field = f"{original.layout}/{change}"
            if data == original.data:
                return Result(change, field, "no change")
            try:
                fitted, scored = used(path, model, sink)
            except pc.ProbClassError:
                return Result(change, field, "refused")
            except Exception as error:
                return Result(change, field, "defect", f"raised: {error!r}")
            same = fitted == original.model and scored.equals(original.scored)
            if same or (part == "pages" and not original.checksums):
                return Result(change, field, "as before" if same else "other numbers")
            return Result(change, field, "other numbers")

        yield trial
