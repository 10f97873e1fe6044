"""Columns that are decoded by the compiled loops are those that Arrow reads."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probclass_core.arrow.arrays import joined
from probclass_core.io.parquet import pages

ROWS = 8192
"""Rows of a batch; the compiled loops are not called for few."""

TEXTS = ["a", "b"]
NUMBERS = ["distinct", "rounded", "half", "whole", "narrow", "price", "large"]


def table(seed: int, rows: int, values: int, nulls: float) -> pa.Table:
    rng = np.random.default_rng(seed)
    texts = np.array([f"tëxt {number}" * (number % 3) for number in range(values)])
    is_sorted = bool(rng.integers(2))
    codes = rng.integers(0, values, rows)
    distinct = rng.normal(size=rows)
    whole = np.sort(codes) if is_sorted else codes
    columns = {
        "a": texts[whole],
        "b": texts[rng.integers(0, values, rows)],
        "distinct": distinct,
        "rounded": np.round(distinct, 1),
        "half": distinct.astype(np.float32),
        "whole": whole - values // 2,
        "narrow": rng.integers(-(2**31), 2**31, rows).astype(np.int32),
    }
    arrays = {
        name: pa.array(column, mask=rng.random(rows) < nulls) for name, column in columns.items()
    }
    arrays["price"] = arrays["whole"].cast(pa.decimal128(21, 0)).cast(pa.decimal128(9, 2))
    arrays["large"] = arrays["narrow"].cast(pa.decimal128(30, 4))
    return pa.table(arrays)


def opened(path: Any) -> pq.ParquetFile:
    texts = [name for name in pq.ParquetFile(path).schema.names if name in TEXTS]
    return pq.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True)


def batches_of(content: bytes, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    source = pa.BufferReader(content)
    file = opened(source)
    return pages.page_batches(file, source, range(file.num_row_groups), names, ROWS)


def decoded(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> pa.Table:
    """See `plain`."""
    tables = []
    for batch in batches:
        batch.validate(full=True)
        tables.append(plain(pa.Table.from_batches([batch])))
    return pa.concat_tables(tables).select(names)


def plain(rows: pa.Table) -> pa.Table:
    """The rows without dictionaries, and the bits of floating-point numbers as integers."""
    return pa.table(dict(zip(rows.column_names, map(_plain, rows.columns), strict=True)))


def _plain(column: pa.ChunkedArray) -> Any:
    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        bits = pa.int64() if column.type == pa.float64() else pa.int32()
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    return column


@pytest.fixture
def by_arrow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by an item whenever Arrow reads the rows that follow."""
    calls: list[int] = []
    skip = pages.skip_rows

    def noted(count: int, batches: Any) -> Any:
        calls.append(count)
        return skip(count, batches)

    monkeypatch.setattr(pages, "skip_rows", noted)
    return calls


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 40_000),
    values=st.sampled_from([1, 2, 3, 17, 255, 257, 4000]),
    nulls=st.sampled_from([0.0, 0.0, 0.1, 0.9, 1.0]),
    compression=st.sampled_from(["none", "snappy", "zstd", "gzip"]),
    group=st.sampled_from([1000, 8192, 20_000, 100_000]),
    page=st.sampled_from([100, 5000, 1_000_000]),
    version=st.sampled_from(["1.0", "2.0"]),
    names=st.lists(st.sampled_from(TEXTS + NUMBERS), min_size=1, max_size=4, unique=True),
    dictionaries=st.booleans(),
    integers=st.booleans(),
    checked=st.booleans(),
)
def test_any_file_is_read_as_arrow_reads_it(
    seed: int,
    rows: int,
    values: int,
    nulls: float,
    compression: str,
    group: int,
    page: int,
    version: str,
    names: list[str],
    dictionaries: bool,
    integers: bool,
    checked: bool,
) -> None:
    stored = io.BytesIO()
    pq.write_table(
        table(seed, rows, values, nulls).select(names),
        stored,
        compression=compression,
        row_group_size=group,
        data_page_size=page,
        data_page_version=version,
        write_page_checksum=checked,
        use_dictionary=True if dictionaries else [name for name in TEXTS if name in names],
        store_decimal_as_integer=integers,
    )
    content = stored.getvalue()
    found = list(batches_of(content, names))
    expected = opened(io.BytesIO(content)).read(names)
    assert all(batch.schema.equals(expected.schema) for batch in found)
    assert max(batch.num_rows for batch in found) <= ROWS
    assert decoded(iter(found), names).equals(plain(expected))
    by_arrow = opened(io.BytesIO(content)).iter_batches(ROWS, columns=names)
    assert sizes(found) == sizes(by_arrow), "the statistics of a fragment depend on its batches"


def sizes(batches: Any) -> list[int]:
    return [batch.num_rows for batch in joined(batches, ROWS)]


@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("writer", ["pyarrow", "pandas", "polars", "duckdb", "duckdb, not null"])
def test_what_writers_write_by_default_is_not_left_to_arrow(
    writer: str, nulls: float, tmp_path: Path, by_arrow: list[int]
) -> None:
    path, rows = tmp_path / "rows.parquet", table(1, 50_000, 30, nulls)
    if writer == "pyarrow":
        pq.write_table(rows, path)
    elif writer == "pandas":
        rows.to_pandas().to_parquet(path)
    elif writer == "polars":
        pl.from_arrow(rows).write_parquet(path)  # type: ignore[union-attr]
    else:
        duckdb.sql(f"COPY (SELECT * FROM rows) TO '{path}' (FORMAT parquet)")
    names = [*TEXTS, *NUMBERS]
    found = decoded(batches_of(path.read_bytes(), names), names)
    assert found.equals(plain(opened(path).read(names)))
    assert not by_arrow


@pytest.mark.parametrize("options", [{"data_page_version": "2.0"}, {"write_page_checksum": True}])
def test_other_pages_are_left_to_arrow(options: dict[str, Any], by_arrow: list[int]) -> None:
    stored = io.BytesIO()
    rows = table(2, 20_000, 30, 0.1)
    pq.write_table(rows, stored, **options)
    assert decoded(batches_of(stored.getvalue(), TEXTS), TEXTS).equals(rows.select(TEXTS))
    assert by_arrow == [0]


def test_arrow_goes_on_where_a_dictionary_was_given_up(by_arrow: list[int]) -> None:
    """Writers store texts as they are once the dictionary of a row group is too large."""
    stored = io.BytesIO()
    few, many = table(3, 20_000, 30, 0.1), table(4, 20_000, 19_000, 0.1)
    with pq.ParquetWriter(stored, few.schema, dictionary_pagesize_limit=50_000) as writer:
        writer.write_table(few)
        writer.write_table(many)
    names = ["a", "distinct"]
    rows = decoded(batches_of(stored.getvalue(), names), names)
    assert rows.equals(plain(pa.concat_tables([few, many]).select(names)))
    (before,) = by_arrow
    assert before >= 20_000


def whole(read: Callable[[], Iterator[pa.RecordBatch]], names: list[str]) -> pa.Table | None:
    """The 9,000 rows of a file, or None if it is refused."""
    try:
        rows = decoded(read(), names)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None
    return rows if len(rows) == 9000 else None


@given(
    seed=st.integers(0, 2**32),
    compression=st.sampled_from(["none", "snappy", "zstd"]),
    names=st.sampled_from([TEXTS, ["rounded", "price"], ["distinct", "whole"]]),
    flips=st.integers(1, 3),
)
def test_a_damaged_file_is_read_as_arrow_reads_it_or_refused(
    seed: int, compression: str, names: list[str], flips: int
) -> None:
    """Bytes that Arrow refuses may still be values; then they are checked like those of any file.

    Arrow ends at some damages as if there were no more rows. Readers of batches count them.
    """
    stored = io.BytesIO()
    rows = table(seed, 9000, 40, 0.1).select(names)
    pq.write_table(rows, stored, compression=compression, data_page_size=2000)
    content = bytearray(stored.getvalue())
    rng = np.random.default_rng(seed)
    file = opened(io.BytesIO(bytes(content)))
    end = sum(file.metadata.row_group(0).column(leaf).total_compressed_size for leaf in range(2))
    for _ in range(flips):
        content[rng.integers(4, 4 + end)] ^= 1 << rng.integers(8)
    damaged = bytes(content)
    expected = whole(lambda: opened(io.BytesIO(damaged)).iter_batches(columns=names), names)
    found = whole(lambda: batches_of(damaged, names), names)
    assert expected is None or (found is not None and found.equals(expected))
