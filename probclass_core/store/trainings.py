"""Which version a training made: one small file for each, named by the digest of its inputs.

Processors round differently, so that the same training on another one gives a model that differs in
its last digits and so in its content id. A training is therefore known by what goes into it, see
`Model.inputs`: repeated on any machine, it names the version that it made before.
"""

from __future__ import annotations

from probclass_core.io.filesystem import Location
from probclass_core.store.records import encode_record, read_record

FOLDER = "trainings"


def version_of_training(files: Location, name: str, inputs: str) -> str | None:
    """The content id of the version of a model that a training made, or None if it is unknown."""
    try:
        version = read_record(files, _path(name, inputs)).get("id")
    except (FileNotFoundError, ValueError):
        return None  # a damaged record is written again
    return version if isinstance(version, str) else None


def record_training(files: Location, name: str, inputs: str, content_id: str) -> None:
    """Record which version a training made."""
    files.write(_path(name, inputs), encode_record({"id": content_id}))


def _path(name: str, inputs: str) -> str:
    return f"{name}/{FOLDER}/{inputs}.json"
