"""A bundle is read back unchanged, is named by its content, and detects every changed byte."""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_models import sample_bundle

from probclass_core.arrow.bundle import (
    FORMAT_VERSION,
    Bundle,
    from_ipc,
    pack_tables,
    to_ipc,
    unpack_tables,
)
from probclass_core.errors import StoreError

CELLS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"])),
    pa.bool_(): st.booleans(),
    pa.list_(pa.float64()): st.lists(st.floats(), max_size=3),
    pa.list_(pa.float64(), 2): st.lists(st.floats(), min_size=2, max_size=2),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["NW", "cv", "SE"]),
    pa.binary(): st.binary(max_size=3),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.decimal128(9, 2): st.decimals(-9, 9, places=2),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 20))
    types = draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=4))
    columns = {
        f"c{number}": pa.array(
            draw(st.lists(st.none() | CELLS[kind], min_size=rows, max_size=rows)), kind
        )
        for number, kind in enumerate(types)
    }
    if draw(st.booleans()):
        tensor = pa.fixed_shape_tensor(pa.float64(), (2, 1))
        flat = pa.array([[float(row), -0.0] for row in range(rows)], pa.list_(pa.float64(), 2))
        columns["tensor"] = pa.ExtensionArray.from_storage(tensor, flat)
    metadata = draw(st.dictionaries(st.text("abc", min_size=1), st.text("xyz"), max_size=3))
    return pa.table(columns).replace_schema_metadata(metadata or None)


def equal(left: pa.Table, right: pa.Table) -> bool:
    """Whether schema, metadata and every value are equal; a NaN equals a NaN."""
    schemas = left.schema.equals(right.schema, check_metadata=True)
    return schemas and repr(left.to_pylist()) == repr(right.to_pylist())


@given(tables())
def test_a_table_is_read_back_unchanged(table: pa.Table) -> None:
    back = from_ipc(to_ipc(table))
    assert equal(back, table)
    assert to_ipc(back) == to_ipc(table)


@given(tables(), st.data())
def test_the_bytes_do_not_depend_on_slices_and_chunks(table: pa.Table, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, table.num_rows))
    cut = data.draw(st.integers(start, table.num_rows))
    rows = table.slice(start)
    chunked = pa.concat_tables([table.slice(start, cut - start), table.slice(cut)])
    assert to_ipc(rows) == to_ipc(chunked)
    # Dictionaries and tensors are not rebuilt from lists: they are more than their values.
    plain = rows.select([f.name for f in rows.schema if f.type in CELLS and not is_dictionary(f)])
    assert to_ipc(plain) == to_ipc(pa.Table.from_pylist(plain.to_pylist(), plain.schema))


def is_dictionary(field: pa.Field) -> bool:
    return bool(pa.types.is_dictionary(field.type))


def test_values_under_a_null_are_not_stored() -> None:
    validity, values = pa.py_buffer(bytes([0b11111101])), pa.array([1, 99, 3]).buffers()[1]
    stray = pa.Array.from_buffers(pa.int64(), 3, [validity, values])
    assert to_ipc(pa.table({"x": stray})) == to_ipc(pa.table({"x": [1, None, 3]}))


def test_chunks_with_different_dictionaries_become_one() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "b"]).dictionary_encode()]
    back = from_ipc(to_ipc(pa.table({"wind": pa.chunked_array(chunks)})))
    assert back["wind"].num_chunks == 1
    assert back["wind"].to_pylist() == ["a", "b", "c", "b"]


def test_the_content_id_is_the_documented_digest() -> None:
    bundle = sample_bundle()
    named = {
        "format_version": FORMAT_VERSION,
        "content": bundle.content,
        "tables_sha256": hashlib.sha256(bundle.data).hexdigest(),
    }
    text = json.dumps(named, sort_keys=True, separators=(",", ":"))
    assert bundle.content_id == hashlib.sha256(text.encode()).hexdigest()


def test_the_content_id_depends_on_everything_but_the_provenance() -> None:
    bundle = sample_bundle()
    assert sample_bundle(rows=10, run="monday").content_id == bundle.content_id
    priors = bundle.tables["priors"]
    others = [
        sample_bundle(seed=1),
        Bundle({**bundle.content, "more": 1}, bundle.tables),
        Bundle(bundle.content, {"priors": priors}),
        Bundle(bundle.content, {**bundle.tables, "priors": priors.slice(0, 1)}),
    ]
    ids = {other.content_id for other in others}
    assert len(ids) == len(others)
    assert bundle.content_id not in ids


@pytest.mark.parametrize("value", [float("nan"), datetime(2014, 1, 1, tzinfo=UTC), {1, 2}])
def test_values_that_are_not_json_are_refused(value: object) -> None:
    with pytest.raises(StoreError, match="provenance must be plain values"):
        Bundle({}, {}, {"value": value})


@pytest.mark.parametrize("name", ["", "a/b", "../up", "wind direction", "风向", "a:b%2F"])
def test_a_table_may_have_any_name(name: str) -> None:
    bundle = Bundle({}, {name: pa.table({"x": [1]})})
    assert list(read_back(bundle).tables) == [name]


@given(st.lists(tables(), min_size=1, max_size=4), st.booleans())
def test_tables_are_read_back_unchanged_from_one_file(
    several: list[pa.Table], stream: bool
) -> None:
    listed = pa.array([["p"], [], None], pa.list_(pa.dictionary(pa.int8(), pa.string())))
    several = [*several, pa.table({}), pa.table({"words": listed})]
    named = {str(number): table for number, table in enumerate(several)}
    packed = pack_tables(named, stream=stream)
    back = unpack_tables(packed, stream=stream)
    assert list(back) == list(named)
    assert all(equal(back[name], table) for name, table in named.items())
    assert pack_tables(back, stream=stream) == packed


def without(key: str) -> tuple[Callable[[dict[str, Any]], object], str]:
    return lambda manifest: manifest.pop(key), f"no valid '{key}'"


EDITED = "the manifest was edited"
EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    **{f"no {key}": without(key) for key in sample_bundle().manifest()},
    "a newer format": (
        lambda manifest: manifest.clear() or manifest.update(format_version=3),
        "in format 3; .* reads format 2; upgrade probclass",
    ),
    "a file for each table": (
        lambda manifest: manifest.clear() or manifest.update(format_version=1),
        "in format 1; .* reads format 2; train and save the model again",
    ),
    "a value of the content": (
        lambda manifest: manifest["content"]["spec"].update(label="water"),
        EDITED,
    ),
    "a digest": (
        lambda manifest: manifest.update(tables_sha256="0" * 64),
        EDITED,
    ),
    "the id": (lambda manifest: manifest.update(content_id="0" * 64), EDITED),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_wrong_manifest_is_refused_before_a_file_is_read(case: str) -> None:
    edit, message = EDITS[case]
    manifest = copy.deepcopy(sample_bundle().manifest())
    edit(manifest)
    with pytest.raises(StoreError, match=message):
        Bundle.from_files(manifest, no_file)


def test_the_tables_are_verified_before_one_is_opened() -> None:
    bundle = sample_bundle()
    damaged = b"x" * len(bundle.data)
    with pytest.raises(StoreError, match=r"'tables.arrow' is damaged \(SHA-256"):
        Bundle.from_files(bundle.manifest(), lambda _: damaged)


def ipc(column: pa.Array, rows: int = 1) -> bytes:
    """An Arrow file with rows of one column, ``priors``."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([column], ["priors"])
    with pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(rows):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def table_of(column: pa.Array) -> pa.Array:
    """A table of one column, as a file has it: a list of structs."""
    structs = pa.StructArray.from_arrays([column], ["x"])
    return pa.ListArray.from_arrays([0, len(structs)], structs)


def table_outside_its_rows() -> bytes:
    offsets, beyond = struct.pack("<ii", 0, 4099), struct.pack("<ii", 0, 2**30)
    return ipc(table_of(pa.array([True] * 4099))).replace(offsets, beyond)


def text_outside_its_values() -> pa.Array:
    offsets = pa.array([0, 2**30, 2], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])


CRAFTED: dict[str, tuple[bytes, str]] = {
    "not Arrow": (b"not arrow", "is not a readable Arrow IPC file"),
    "offsets of a text outside its values": (
        ipc(table_of(text_outside_its_values())),
        "is not valid: table 'priors'",
    ),
    "offsets of a table outside its rows": (
        table_outside_its_rows(),
        "is not valid: table 'priors'",
    ),
    "a column that is not a table": (ipc(pa.array([1.0])), "is not valid: table 'priors'"),
    "a list that is not a table": (ipc(pa.array([[1.0]])), "is not valid: table 'priors'"),
    "a name that is not text": (
        ipc(table_of(pa.array([1.0]))).replace(b"priors", b"pri\xffrs"),
        "is not a readable Arrow IPC file: 'utf-8' codec",
    ),
    "two rows": (ipc(table_of(pa.array([1.0])), rows=2), "is not one row of tables"),
    "rows without memory": (
        ipc(table_of(pa.nulls(2**30))),
        "is of 1,073,741,824 rows, which its .* bytes cannot be",
    ),
}
"""Files that a careless reader would crash on, or that are not tables."""


@pytest.mark.parametrize("case", CRAFTED)
def test_a_file_that_is_not_of_tables_is_refused_under_a_right_digest(case: str) -> None:
    data, message = CRAFTED[case]
    with pytest.raises(StoreError, match=f"'tables.arrow' {message}"):
        Bundle.from_files(manifest_of(data), lambda _: data)


def read_back(bundle: Bundle) -> Bundle:
    """The bundle read from the text of its manifest and a buffer, as a store does."""
    manifest = json.loads(json.dumps(bundle.manifest()))
    return Bundle.from_files(manifest, lambda _: pa.py_buffer(bundle.data))


def no_file(name: str) -> bytes:
    raise AssertionError(f"{name} was read")


def manifest_of(data: bytes) -> dict[str, Any]:
    """A manifest with the right digest of any bytes, as an attacker would write it."""
    digest = hashlib.sha256(data).hexdigest()
    named = {"format_version": FORMAT_VERSION, "content": {}, "tables_sha256": digest}
    text = json.dumps(named, sort_keys=True, separators=(",", ":"))
    content_id = hashlib.sha256(text.encode()).hexdigest()
    return {**named, "content_id": content_id, "provenance": {}}
