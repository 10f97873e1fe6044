"""A damaged or encrypted file is refused at once, by an error that names it."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from python_processes import output_of_python

import probclass_core as pc
from probclass_core.errors import TableError


def rows(count: int = 3_000) -> pa.Table:
    draw = np.random.default_rng(0)
    return pa.table(
        {
            "x": draw.normal(size=count),
            "z": draw.random(count),
            "s": draw.choice(["a", "b", "c"], count),
            "y": draw.choice(["good", "bad"], count),
        }
    )


def test_a_damaged_local_file_is_refused_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    path = tmp_path / "rows.parquet"
    pq.write_table(rows(), path, compression="none", use_dictionary=False)
    data, messages = path.read_bytes(), []
    for place in range(4, 44):  # the header of the first page
        path.write_bytes(data[:place] + b"\x7e" + data[place + 1 :])
        try:
            pc.fit(path, pc.ModelSpec("y", [pc.Block("gaussian_full", ["x"])]))
        except TableError as error:
            messages.append(str(error))
    assert any("Unexpected end of stream" in message for message in messages)
    assert pauses == []


class KmsClient(pe.KmsClient):  # type: ignore[misc]
    """Keys that are kept in the file as they are."""

    def __init__(self, _: object) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def write_encrypted(path: Path, count: int, columns: list[str], *, plaintext_footer: bool) -> None:
    configuration = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"key": columns}, plaintext_footer=plaintext_footer
    )
    properties = pe.CryptoFactory(KmsClient).file_encryption_properties(
        pe.KmsConnectionConfig(), configuration
    )
    table = rows(count)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


USES = """
import sys
import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.io.selection import count_labels

def model(path, column, where=None):
    spec = pc.ModelSpec("y", [pc.Block("gaussian_full", [column])])
    return pc.fit(path, spec, where=where).training["rows"]

uses = {
    "inspect": lambda path: pc.inspect_table(path).rows,
    "fit": lambda path: model(path, "x"),
    "filter": lambda path: model(path, "z", where=[("x", ">", 0.0)]),
    "count": lambda path: count_labels(path, "s").labeled,
    "others": lambda path: model(path, "z", where=[("z", "<", 2.0)]),
}
for path in sys.argv[1:]:
    for name, use in uses.items():
        try:
            print(path, name, use(path), flush=True, sep="|")
        except TableError as error:
            print(path, name, error, flush=True, sep="|")
"""
"""Uses of files, in a process that may be ended by them."""

SIZES = 300, 20_000
"""Numbers of rows that are read at once, and in batches."""

DAMAGES = {
    # Fields of a column in Thrift: 1 is its type, 3 its path, 4 its compression.
    "type": (b"\x15\x0a\x19", b"\x15\x04\x19", "values of type 2 where the schema says DOUBLE"),
    "codec": (b"\x18\x01x\x15\x00", b"\x18\x01x\x15\x40", "the unknown compression 32"),
    "bound": (
        b"\x18\x08" + np.float64(7.0).tobytes(),
        b"\x18\x01\x00",
        "a bound that is too short",
    ),
}
"""Bytes of the footer of column x, others in their place, and what is said about them."""


def replace_in_footer(path: Path, old: bytes, new: bytes) -> None:
    """Replace the last occurrence of some bytes in the footer of a file."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    before, found, after = data[-8 - length : -8].rpartition(old)
    assert found
    footer = before + new + after
    end = len(footer).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(data[: -8 - length] + footer + end)


def write_damaged(path: Path, count: int, damage: str) -> None:
    table = rows(count)
    numbers = np.minimum(table["x"].to_numpy(), 6.0)
    numbers[0] = 7.0
    table = table.drop_columns("x").append_column("x", pa.array(numbers))
    pq.write_table(table, path, compression="none")
    old, new, _ = DAMAGES[damage]
    replace_in_footer(path, old, new)


@pytest.fixture(scope="module")
def uses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each use of each file gives, a number of rows or a TableError, by ``file use``."""
    folder = tmp_path_factory.mktemp("files")
    for count in SIZES:
        write_encrypted(
            folder / f"columns-{count}.parquet", count, ["x", "s"], plaintext_footer=True
        )
        for damage in DAMAGES:
            write_damaged(folder / f"{damage}-{count}.parquet", count, damage)
    write_encrypted(folder / "footer.parquet", 300, ["x"], plaintext_footer=False)
    output = output_of_python("-W", "ignore", "-c", USES, *sorted(folder.iterdir()))
    lines = (line.split("|") for line in output.splitlines())
    return {
        f"{Path(path).stem} {name}": result.replace(path, "FILE") for path, name, result in lines
    }


@pytest.mark.parametrize("count", SIZES)
def test_an_encrypted_column_under_a_plaintext_footer_is_refused_by_name(
    uses: dict[str, str], count: int
) -> None:
    assert uses[f"columns-{count} others"] == str(count)
    for name, column in {"inspect": "x", "fit": "x", "filter": "x", "count": "s"}.items():
        assert uses[f"columns-{count} {name}"] == (
            f"column '{column}' of FILE is encrypted; write the file again without encryption, "
            "or leave the column out."
        )


def test_an_encrypted_footer_is_refused_by_name(uses: dict[str, str]) -> None:
    for name in ("inspect", "fit", "filter", "count", "others"):
        assert uses[f"footer {name}"] == (
            "cannot read FILE: it is encrypted; write it again without encryption."
        )


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_column_that_the_footer_describes_wrongly_is_refused_by_name(
    uses: dict[str, str], count: int, damage: str
) -> None:
    for name in ("inspect", "filter"):
        assert uses[f"{damage}-{count} {name}"] == (
            f"cannot read FILE: its footer is damaged: column 'x' has {DAMAGES[damage][2]}; "
            "write it again."
        )
    assert uses[f"{damage}-{count} others"] == str(count)
