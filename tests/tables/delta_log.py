"""Change the logs of Delta tables: features of readers, and rows deleted by deletion vectors."""

from __future__ import annotations

import base64
import json
import string
import struct
import uuid
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from delta_and_iceberg import DeltaLake
from deltalake import DeltaTable
from pyroaring import BitMap

Action = dict[str, Any]

DIGITS = string.digits + string.ascii_letters
PYTHON_BASE85 = DIGITS[:10] + string.ascii_uppercase + string.ascii_lowercase
PYTHON_BASE85 += "!#$%&()*+-;<=>?@^_`{|}~"
DELTA_BASE85 = DIGITS + ".-:+=^!/*?&<>()[]{}@%$#"


def entry(lake: DeltaLake, name: str, version: int) -> Path:
    """Return the file of the log that made a version."""
    return lake.root / name / "_delta_log" / f"{version:020}.json"


def actions(lake: DeltaLake, name: str, version: int = 0) -> list[Action]:
    lines = entry(lake, name, version).read_text().splitlines()
    return [json.loads(line) for line in lines]


def commit(lake: DeltaLake, name: str, version: int, changed: Sequence[Action]) -> None:
    """Write an entry of the log."""
    entry(lake, name, version).write_text("\n".join(map(json.dumps, changed)))


def edit(lake: DeltaLake, name: str, kind: str, change: Callable[[Action], object]) -> None:
    """Change the actions of one kind in the first version of a table."""
    changed = actions(lake, name)
    for action in changed:
        if kind in action:
            change(action[kind])
    commit(lake, name, 0, changed)


def require(lake: DeltaLake, name: str, *features: str) -> None:
    """Add features of readers to the first version of a table."""
    both = {"readerFeatures": list(features), "writerFeatures": list(features)}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **both}
    edit(lake, name, "protocol", lambda action: action.update(protocol))


def replace_file(lake: DeltaLake, name: str, table: pa.Table, **options: Any) -> None:
    """Replace the rows of a table's only file, which was added in the first version."""
    [path] = lake.files(name)
    pq.write_table(table, path, **options)
    size, stats = path.stat().st_size, json.dumps({"numRecords": table.num_rows})
    edit(lake, name, "add", lambda action: action.update(size=size, stats=stats))


def deletion_vector(folder: Path, positions: Sequence[int]) -> Action:
    """Write a file with a deletion vector and return its descriptor, by the Delta protocol."""
    bitmap = struct.pack("<iqi", 1681511377, 1, 0) + BitMap(positions).serialize()
    number = uuid.uuid4()
    checksum = struct.pack(">I", zlib.crc32(bitmap))
    content = b"\x01" + struct.pack(">i", len(bitmap)) + bitmap + checksum
    (folder / f"deletion_vector_{number}.bin").write_bytes(content)
    text = base64.b85encode(number.bytes).decode()
    return {
        "storageType": "u",
        "pathOrInlineDv": text.translate(str.maketrans(PYTHON_BASE85, DELTA_BASE85)),
        "offset": 1,
        "sizeInBytes": len(bitmap),
        "cardinality": len(positions),
    }


def delete_rows(lake: DeltaLake, name: str, positions: Sequence[int], part: str = "") -> None:
    """Delete rows of the one file whose path contains a text, in a new version."""
    version = DeltaTable(lake.root / name).version()
    every = [
        action["add"]
        for v in range(version + 1)
        for action in actions(lake, name, v)
        if "add" in action
    ]
    add = [action for action in every if part in action["path"]][-1]
    removed = {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}
    if "deletionVector" in add:
        removed["deletionVector"] = add["deletionVector"]
    vector = deletion_vector(lake.root / name, positions)
    changed = [{"remove": removed}, {"add": {**add, "deletionVector": vector}}]
    commit(lake, name, version + 1, changed)
