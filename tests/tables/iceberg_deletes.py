"""Write delete files, which pyiceberg only reads."""

from __future__ import annotations

import uuid
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
) -> None:
    """Delete rows of a file by their positions.

    Args:
        table: table to delete rows from.
        row_filter: filter that matches exactly one data file.
        positions: positions of the rows in the file.
        content: content of the delete file by its manifest; it always contains positions.
        file_format: format of the delete file by its manifest; it always is Parquet.
    """
    (task,) = table.scan(row_filter=row_filter).plan_files()
    location = f"{table.location()}/data/deletes-{uuid.uuid4()}.parquet"
    paths = [task.file.file_path] * len(positions)
    path = Path(location.removeprefix("file://"))
    path.parent.mkdir(exist_ok=True)
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
