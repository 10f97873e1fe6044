"""A bundle is read back unchanged, is named by its content, and detects every changed byte."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_models import sample_bundle

from probclass_core.arrow.bundle import FORMAT_VERSION, Bundle, from_ipc, to_ipc
from probclass_core.errors import StoreError

CELLS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"])),
    pa.bool_(): st.booleans(),
    pa.list_(pa.float64()): st.lists(st.floats(), max_size=3),
    pa.list_(pa.float64(), 2): st.lists(st.floats(), min_size=2, max_size=2),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["NW", "cv", "SE"]),
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
        "kind": "model",
        "format_version": FORMAT_VERSION,
        "content": bundle.content,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in bundle.files().items()},
    }
    text = json.dumps(named, sort_keys=True, separators=(",", ":"))
    assert bundle.content_id == hashlib.sha256(text.encode()).hexdigest()


def test_the_content_id_depends_on_everything_but_the_provenance() -> None:
    bundle = sample_bundle()
    assert sample_bundle(rows=10, run="monday").content_id == bundle.content_id
    priors = bundle.tables["priors"]
    others = [
        sample_bundle(seed=1),
        Bundle("statistics", bundle.content, bundle.tables),
        Bundle("model", {**bundle.content, "more": 1}, bundle.tables),
        Bundle("model", bundle.content, {"priors": priors}),
        Bundle("model", bundle.content, {**bundle.tables, "priors": priors.slice(0, 1)}),
    ]
    ids = {other.content_id for other in others}
    assert len(ids) == len(others)
    assert bundle.content_id not in ids


@pytest.mark.parametrize("value", [float("nan"), datetime(2014, 1, 1, tzinfo=UTC), {1, 2}])
def test_values_that_are_not_json_are_refused(value: object) -> None:
    with pytest.raises(StoreError, match="provenance must be plain values"):
        Bundle("model", {}, {}, {"value": value})


@pytest.mark.parametrize("name", ["a/b", "../up", "wind direction", "风向", "a:b%2F", ".hidden"])
def test_any_table_name_makes_a_file_in_its_folder(name: str) -> None:
    bundle = Bundle("model", {}, {name: pa.table({"x": [1]})})
    (file,) = bundle.files()
    assert Path("folder", file).resolve().parent == Path("folder").resolve()
    assert list(read_back(bundle).tables) == [name]


def without(key: str) -> tuple[Callable[[dict[str, Any]], object], str]:
    return lambda manifest: manifest.pop(key), f"no valid '{key}'"


def with_file(name: str) -> tuple[Callable[[dict[str, Any]], object], str]:
    file = {name: {"sha256": "0" * 64, "bytes": 1}}
    return lambda manifest: manifest.update(files=file), "entry for file .* is invalid"


EDITED = "the manifest was edited"
OUTSIDE = ["../priors.arrow", "/etc/passwd", "a/b.arrow", "priors", "%.arrow"]
EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    **{f"no {key}": without(key) for key in sample_bundle().manifest()},
    **{f"a file {name}": with_file(name) for name in OUTSIDE},
    "another format": (
        lambda manifest: manifest.clear() or manifest.update(format_version=2),
        "in format 2; .* reads format 1; upgrade probclass",
    ),
    "the kind": (lambda manifest: manifest.update(kind="statistics"), EDITED),
    "a value of the content": (
        lambda manifest: manifest["content"]["spec"].update(label="water"),
        EDITED,
    ),
    "a digest": (
        lambda manifest: manifest["files"]["priors.arrow"].update(sha256="0" * 64),
        EDITED,
    ),
    "a missing file": (lambda manifest: manifest["files"].pop("priors.arrow"), EDITED),
    "the id": (lambda manifest: manifest.update(content_id="0" * 64), EDITED),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_wrong_manifest_is_refused_before_a_file_is_read(case: str) -> None:
    edit, message = EDITS[case]
    manifest = copy.deepcopy(sample_bundle().manifest())
    edit(manifest)
    with pytest.raises(StoreError, match=message):
        Bundle.from_files(manifest, no_file)


def test_all_files_are_verified_before_a_table_is_opened() -> None:
    bundle = sample_bundle()
    files = {**bundle.files(), "gaussian.arrow": b"x" * len(bundle.files()["gaussian.arrow"])}
    with pytest.raises(StoreError, match=r"'gaussian.arrow' is damaged \(SHA-256"):
        Bundle.from_files(bundle.manifest(), lambda name: files[name])


def array_that_would_crash_a_reader() -> bytes:
    """An Arrow file whose offsets of texts lie outside its values."""
    offsets = pa.array([0, 2**30, 2], pa.int32()).buffers()[1]
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([text], ["x"])
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (array_that_would_crash_a_reader(), "is not a valid table"),
        (b"not arrow", "is not a readable Arrow IPC file"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused_under_a_right_digest(
    data: bytes, message: str
) -> None:
    manifest, files = bundle_of({"priors.arrow": data})
    with pytest.raises(StoreError, match=f"'priors.arrow' {message}"):
        Bundle.from_files(manifest, files.__getitem__)


def read_back(bundle: Bundle) -> Bundle:
    """The bundle read from the text of its manifest and a buffer per file, as a store does."""
    manifest = json.loads(json.dumps(bundle.manifest()))
    files = bundle.files()
    return Bundle.from_files(manifest, lambda name: pa.py_buffer(files[name]))


def no_file(name: str) -> bytes:
    raise AssertionError(f"{name} was read")


def bundle_of(files: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A manifest with the right digests of any files, as an attacker would write it."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    named = {"kind": "model", "format_version": 1, "content": {}, "files": digests}
    text = json.dumps(named, sort_keys=True, separators=(",", ":"))
    manifest = {
        **named,
        "content_id": hashlib.sha256(text.encode()).hexdigest(),
        "files": {name: {"sha256": digests[name], "bytes": len(files[name])} for name in files},
        "provenance": {},
    }
    return manifest, files
