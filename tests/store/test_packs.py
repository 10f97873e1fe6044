"""Packs: every kind of table comes out as it went in, however often it was taken up by others."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from every_type import TABLE

import probclass_core as pc
from probclass_core.io.footers import Footer
from probclass_core.store.packs import Entry, Pack, packed

FOOTER = Footer("a file", TABLE.schema, (3, 9))
TABLES: Mapping[str, pa.Table] = {
    "every type": TABLE,
    "no rows": TABLE.slice(0, 0),
    "no columns": pa.table({}),
    "chunks": pa.concat_tables([TABLE.slice(0, 5), TABLE.slice(7)]),
    "notes": TABLE.replace_schema_metadata({"of": "the estimator"}),
    "dictionaries": pa.table({"a": TABLE["text"].combine_chunks().dictionary_encode()}),
    "lists of dictionaries": pa.table(
        {"a": pa.array([["p"], [], None], pa.list_(pa.dictionary(pa.int8(), pa.string())))}
    ),
    "tensors": pa.table(
        {
            "a": pa.FixedShapeTensorArray.from_storage(
                pa.fixed_shape_tensor(pa.float64(), [2, 2]),
                pa.array([[1.0, 2.0, 3.0, 4.0]], pa.list_(pa.float64(), 4)),
            )
        }
    ),
}


def opened(data: bytes) -> dict[str, Entry]:
    pack = Pack(data, "the pack")
    assert pack.told == {"model": "m"}
    return {name: pack.entry(name, data) for name in pack.names}


def test_tables_and_footers_come_out_as_they_went_in() -> None:
    entries = {
        name: Entry.of({"rows": table.num_rows}, {"statistics": table, "more": TABLE}, FOOTER)
        for name, table in TABLES.items()
    }
    digest, data = packed({"model": "m"}, entries)
    for name, entry in opened(data).items():
        found = entry.tables("the pack")
        assert found["statistics"].equals(TABLES[name], check_metadata=True), name
        assert found["more"].equals(TABLE)
        assert entry.told == {"rows": TABLES[name].num_rows}
        assert entry.footer == FOOTER
    assert packed({"model": "m"}, opened(data)) == (digest, data)
    halves = [dict(list(opened(data).items())[part::2]) for part in (0, 1)]
    first, second = (opened(packed({"model": "m"}, half)[1]) for half in halves)
    assert packed({"model": "m"}, {**second, **first}) == (digest, data)


def test_a_pack_says_what_is_damaged() -> None:
    entries = {
        name: Entry.of({}, {"statistics": TABLE.slice(row)}, None)
        for row, name in enumerate(("first", "second"))
    }
    _, data = packed({"model": "m"}, entries)
    last = bytearray(data)
    last[-10] ^= 1
    found = opened(bytes(last))
    assert found["first"].tables("the pack")["statistics"].equals(TABLE)
    with pytest.raises(pc.StoreError, match=r"^the pack is damaged: "):
        found["second"].tables("the pack")
    for damaged in (b"", data[:40], data[:200], b"{}" + data):
        with pytest.raises(pc.StoreError, match=r"^the pack is damaged: "):
            Pack(damaged, "the pack")
