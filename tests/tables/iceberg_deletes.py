"""Write delete files, which pyiceberg only reads."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyroaring import BitMap

# The columns and ids of a position delete file, by the Iceberg specification.
POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ]
)


class DeletesManifest(ManifestWriterV2):
    """A manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_rows(
    table: Table,
    row_filter: str,
    positions: Sequence[int],
    content: DataFileContent = DataFileContent.POSITION_DELETES,
    file_format: FileFormat = FileFormat.PARQUET,
) -> Path:
    """Delete rows of a file by their positions, and return the path of the delete file.

    Args:
        table: table to delete rows from.
        row_filter: filter that matches exactly one data file.
        positions: positions of the rows in the file.
        content: content of the delete file by its manifest; it always contains positions.
        file_format: Parquet, or Puffin for a deletion vector.
    """
    (task,) = table.scan(row_filter=row_filter).plan_files()
    location = f"{table.location()}/data/deletes-{uuid.uuid4()}.{file_format.value.lower()}"
    paths = [task.file.file_path] * len(positions)
    path = Path(location.removeprefix("file://"))
    path.parent.mkdir(exist_ok=True)
    if file_format == FileFormat.PUFFIN:
        path.write_bytes(puffin(task.file.file_path, positions))
    else:
        pq.write_table(pa.table([paths, list(positions)], schema=POSITIONS), path)
    deletes = DataFile.from_args(
        content=content,
        file_path=location,
        file_format=file_format,
        partition=task.file.partition,
        record_count=len(positions),
        file_size_in_bytes=len(table.io.new_input(location)),
        sort_order_id=None,
        spec_id=task.file.spec_id,
        equality_ids=[1] if content == DataFileContent.EQUALITY_DELETES else None,
        key_metadata=None,
    )
    with table.transaction() as change:
        append: Any = change.update_snapshot().fast_append()

        def new_manifest_writer(spec: PartitionSpec) -> ManifestWriter:
            output = append.new_manifest_output()
            return DeletesManifest(spec, table.schema(), output, append.snapshot_id, "deflate")

        append.new_manifest_writer = new_manifest_writer
        append.append_data_file(deletes)
        append.commit()
    return path


def puffin(data_file: str, positions: Sequence[int]) -> bytes:
    """A file with the deletion vector of a data file, by the Puffin specification."""
    vector = b"\xd1\xd3\x39\x64" + struct.pack("<qi", 1, 0) + BitMap(positions).serialize()
    blob = struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    entry = {
        "type": "deletion-vector-v1",
        "fields": [],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": len(blob),
        "properties": {"referenced-data-file": data_file, "cardinality": str(len(positions))},
    }
    footer = json.dumps({"blobs": [entry]}).encode()
    magic = b"PFA1"
    return b"".join([magic, blob, magic, footer, struct.pack("<ii", len(footer), 0), magic])
