"""Packs give back every kind of table unchanged, and detect damage."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from every_type import TABLE

from probclass_core.arrow.bundle import pack_tables, unpack_tables
from probclass_core.io.table import Footer
from probclass_core.store.statistics_cache import Entry, decode_pack, encode_pack, pack_name

FOOTER = Footer("a file", TABLE.schema, (3, 9))
TABLES: Mapping[str, pa.Table] = {
    "every type": TABLE,
    "no rows": TABLE.slice(0, 0),
    "no columns": pa.table({}),
    "chunks": pa.concat_tables([TABLE.slice(0, 5), TABLE.slice(7)]),
    "notes": TABLE.replace_schema_metadata({"of": "the estimator"}),
    "dictionaries": pa.table({"a": TABLE["text"].combine_chunks().dictionary_encode()}),
    "no dictionary rows": pa.table({"a": pa.array([], pa.dictionary(pa.int8(), pa.string()))}),
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
SUMMARY = "0.1.0-digest"


def entry_of(tables: Mapping[str, pa.Table], rows: int = 0, *footers: Footer) -> Entry:
    return Entry(rows, 1, pack_tables(tables, stream=True), footers)


def entries_in(data: bytes) -> dict[str, Entry]:
    summary, entries = decode_pack(data, pack_name(data), "the pack")
    assert summary == SUMMARY
    return entries


def test_tables_and_footers_are_read_back_unchanged() -> None:
    entries = {
        name: entry_of(
            {"statistics": table, **({} if name == "no rows" else {"more": TABLE})},
            table.num_rows,
            *([] if name == "chunks" else [Footer(name, TABLE.schema, (3, 9)), FOOTER]),
        )
        for name, table in TABLES.items()
    }
    data = encode_pack(SUMMARY, entries)
    for name, entry in entries_in(data).items():
        tables = unpack_tables(entry.tables, stream=True)
        assert tables["statistics"].equals(TABLES[name], check_metadata=True), name
        assert name == "no rows" or tables["more"].equals(TABLE)
        assert (entry.rows, entry.null_labels) == (TABLES[name].num_rows, 1)
        assert entry.footers == entries[name].footers


def test_equal_entries_give_equal_bytes_in_any_order_and_after_any_merge() -> None:
    entries = {name: entry_of({"statistics": table}) for name, table in TABLES.items()}
    data = encode_pack(SUMMARY, entries)
    assert encode_pack(SUMMARY, dict(reversed(entries.items()))) == data
    assert encode_pack(SUMMARY, entries_in(data)) == data
    halves = [dict(list(entries_in(data).items())[part::2]) for part in (0, 1)]
    first, second = (entries_in(encode_pack(SUMMARY, half)) for half in halves)
    assert encode_pack(SUMMARY, {**second, **first}) == data
