"""Write one Parquet file on a local disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probclass_core.io.commit.file_sink import FileSink
from probclass_core.io.commit.parquet_writer import ParquetPart
from probclass_core.io.commit.records import COMMIT_KEY, read_commit_record
from probclass_core.io.sink import CommitRecord


class ParquetFileSink(FileSink):
    """A table of one Parquet file, whose footer has the commit record."""

    def commits(self) -> Sequence[CommitRecord | None]:
        return [read_commit_record(self.path)] if self.exists else []

    def new_part(self, path: Path, schema: pa.Schema, commit: Mapping[str, Any]) -> ParquetPart:
        return _FilePart(path, schema, commit, location=self.location)

    def add_summary(self, path: Path, summary: Mapping[str, Any]) -> None:
        """Write the rows again if there are verdicts, because a footer cannot be changed."""
        if "verdicts" not in summary:
            return
        schema = pq.read_schema(path)
        commit = json.loads(schema.metadata[COMMIT_KEY.encode()])
        part = self.new_part(path.with_name(f"{path.name}.again"), schema, commit)
        part.write_again(path, summary)
        Path(part.path).replace(path)


class _FilePart(ParquetPart):
    """A file that exists also without rows."""

    def finish(self, summary: Mapping[str, Any] | None = None) -> Any:
        self._summary = summary
        return self.finish_file()
