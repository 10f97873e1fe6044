"""Records of a store: JSON files that are checked when they are read, and what names them.

The records here are versions, aliases and trainings. A reference to a version is ``name@alias``,
``name@<content id>``, ``name@<at least 8 first digits of it>``, or the bare ``name`` of a model
that has one version. ``name@alias@previous`` is the version to which the alias would be rolled
back; ``name@previous`` is short for ``name@champion@previous``.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast, get_type_hints

from probclass_core.arguments import check_argument
from probclass_core.arrow.bundle import FORMAT_VERSION, Buffer
from probclass_core.display import ShortRepr
from probclass_core.errors import InvalidNameError, StoreError, shown
from probclass_core.io.filesystem import Location
from probclass_core.spec.files import check_depth

_MAX_BYTES = 2**26
"""Largest size of a record; reading a larger file could exhaust the memory."""

_READERS = 16
"""Threads that read records."""

_ID = re.compile(r"[0-9a-f]{64}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ID_PREFIX = re.compile(r"[0-9a-fA-F]{8,64}")
PREVIOUS = "previous"
"""Part of a reference: the version to which an alias would be rolled back."""

DEFAULT_ALIAS = "champion"
"""The alias that ``name@previous`` is about."""

MANIFEST = "manifest.json"

_RULE = "up to 128 letters, digits, '.', '_' or '-', starting with a letter or digit"


def is_id(value: object) -> bool:
    """Whether a value is a whole content id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_time(value: str) -> bool:
    """Whether a text is an ISO 8601 time with an offset from UTC."""
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_object, value))


Time = Annotated[str, "a time", _is_time]
ContentId = Annotated[str, "a content id", is_id]
Object = Annotated[Mapping[str, Any], "a JSON object", _is_object]
Objects = Annotated[Sequence[Mapping[str, Any]], "a list of JSON objects", _are_objects]


class Record(ShortRepr, ABC):
    """A file in the folder of a model; subclasses are frozen dataclasses, checked by their types.

    Attributes:
        folder: folder of the records of this kind, in that of the model.
        advice: what to do about a damaged one.
        model: name of the model.
    """

    folder: ClassVar[str]
    advice: ClassVar[str] = "restore it from a copy, or remove it"
    model: str

    @property
    @abstractmethod
    def path(self) -> str:
        """Path of the file in the store."""

    @classmethod
    def from_values(cls, path: str, values: Mapping[str, Any]) -> Self:
        """The record of the values of a file.

        Raises:
            ValueError: if a value is missing, unknown or not valid; the message is the reason.
        """
        try:
            record = cls(**values)
        except TypeError:
            raise ValueError("it has other fields than a record of its kind") from None
        for name, kind in _types(cast(Any, cls)).items():
            check_argument(name, getattr(record, name), kind)
        if record.path.partition("/")[2] != path.partition("/")[2]:  # models may be renamed
            raise ValueError(f"it is the record {record.path!r}")
        return record

    @classmethod
    def parse(cls, files: Location, path: str, data: Buffer) -> Self:
        """The record in the bytes of a file.

        Raises:
            StoreError: if they are damaged.
        """
        try:
            return cls.from_values(path, _parse(data))
        except ValueError as reason:
            raise _damaged(files, path, reason, cls.advice) from None

    @classmethod
    def read(cls, files: Location, path: str) -> Self | None:
        """The record of a file; None if there is no such file.

        Raises:
            StoreError: if it is damaged, or cannot be read.
        """
        try:
            return cls.parse(files, path, files.read(path, at_most=_MAX_BYTES))
        except FileNotFoundError:
            return None

    def encode(self) -> bytes:
        """The content of the file."""
        return encode_json(asdict(self))  # type: ignore[call-overload] # of a dataclass

    def write(self, files: Location) -> Self:
        """Write the file."""
        files.write(self.path, self.encode())
        return self

    def brief(self) -> Self:
        """The record without what only its own page shows."""
        return self


_Kind = TypeVar("_Kind", bound=Record)


def read_records(
    files: Location, places: Collection[tuple[type[_Kind], str]], *, brief: bool = False
) -> list[_Kind | StoreError | None]:
    """The records at some paths, or what is wrong with them; None if there is no file."""

    def read(place: tuple[type[_Kind], str]) -> _Kind | StoreError | None:
        kind, path = place
        try:
            record = kind.read(files, path)
        except StoreError as error:
            return error
        return record.brief() if brief and record is not None else record

    if not places:
        return []
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, places))


def read_all(files: Location, kind: type[_Kind], paths: Iterable[str]) -> list[_Kind]:
    """The records of a kind at some paths, without files that do not exist.

    Raises:
        StoreError: if a record is damaged, or the file system refuses.
    """
    found = read_records(files, [(kind, path) for path in paths])
    for one in found:
        if isinstance(one, StoreError):
            raise one
    return [one for one in found if isinstance(one, kind)]


def listed(files: Location, folder: str) -> list[str]:
    """The paths of the records in a folder, sorted."""
    return [f"{folder}/{name}" for name in files.names(folder) if name.endswith(".json")]


def timestamp() -> str:
    """The time now, ISO 8601 in UTC; later times sort later."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def file_name(time: str, digest: str) -> str:
    """The name of a record of a time, without suffix; not every system allows a colon."""
    return f"{time.replace(':', '').replace('+0000', 'Z')}-{digest[:12]}"


def encode_json(values: Mapping[str, Any]) -> bytes:
    """An object as indented JSON."""
    return (json.dumps(values, indent=2, allow_nan=False) + "\n").encode()


def read_json(files: Location, path: str, advice: str) -> dict[str, Any] | None:
    """Read the JSON object in a file; None if there is no such file.

    Args:
        files: the store.
        path: path of the file.
        advice: what to do if it is damaged.

    Raises:
        StoreError: if it is damaged, or cannot be read.
    """
    try:
        return _parse(files.read(path, at_most=_MAX_BYTES))
    except FileNotFoundError:
        return None
    except ValueError as reason:
        raise _damaged(files, path, reason, advice) from None


def _damaged(files: Location, path: str, reason: object, advice: str) -> StoreError:
    reason = str(reason).rstrip(".")
    return StoreError(f"{files.uri_of(path)} is damaged ({reason}); {advice}.")


def _parse(data: Buffer) -> dict[str, Any]:
    """The values of a JSON object.

    Raises:
        ValueError: if it is not JSON, not an object, or has more levels; the message is the reason.
    """
    if len(data) > _MAX_BYTES:  # a mapped file
        raise ValueError(f"it has {len(data):,} bytes")
    try:
        text = str(data, "utf-8")
        values = json.loads(text, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):  # only in pairs are they characters
            json.dumps(values, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is not JSON in UTF-8") from None
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    check_depth(values)
    return values


@cache
def _types(kind: Any) -> dict[str, Any]:
    """The fields of a record and their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class OfVersion(Record):
    """A record that names a version by its content id."""

    id: ContentId

    @property
    def ref(self) -> str:
        """``name@id``, a reference that always names this version."""
        return f"{self.model}@{self.id}"

    @property
    def short(self) -> str:
        """The reference with the first digits of the id, for messages."""
        return self.ref[: len(self.model) + 13]


@dataclass(frozen=True, repr=False)
class ModelVersion(OfVersion):
    """One saved version of a model.

    Attributes:
        model: name of the model.
        id: content id, 64 hex digits; equal fits have equal ids.
        created: time when it was first saved, ISO 8601 in UTC.
        provenance: how it was made, as recorded by the fit and by the caller of `save`.
        inputs: digest of what it was made from, see `Model.inputs`; None if that is unknown.
        format_version: version of the format of its files.
    """

    advice = "restore it from a copy, or remove this version and save it again"

    model: str
    id: ContentId
    created: Time
    provenance: Object
    inputs: ContentId | None = None
    format_version: int = FORMAT_VERSION

    @property
    def path(self) -> str:
        """Path of the manifest, which exists once the version does."""
        return f"{self.model}/{self.id}/{MANIFEST}"

    @classmethod
    def from_values(cls, path: str, values: Mapping[str, Any]) -> Self:
        """The version of a manifest."""
        model, id_, _ = path.split("/")
        names = ("created", "provenance", "inputs", "format_version")
        own = {name: values.get(name) for name in names}
        return super().from_values(path, {"model": model, "id": id_, **own})

    @property
    def is_readable(self) -> bool:
        """Whether this release reads the format of its files."""
        return self.format_version == FORMAT_VERSION

    def brief(self) -> Self:
        """The version without the profiles of its columns and the notes of its spec."""
        left_out = ("columns", "spec_notes")
        kept = {key: one for key, one in self.provenance.items() if key not in left_out}
        return replace(self, provenance=kept)


@dataclass(frozen=True, repr=False)
class Alias(OfVersion):
    """A name that moves from version to version, such as ``champion``.

    Attributes:
        model: name of the model.
        alias: the alias itself.
        id: content id of the version that it names.
        promoted: time of the promotion, ISO 8601 in UTC.
        previous: content id of the version to which it would be rolled back, or None: the one that
            it named before the promotion in force.
    """

    folder = "aliases"
    advice = "promote a version to it again"

    model: str
    alias: str
    id: ContentId
    promoted: Time
    previous: ContentId | None

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return f"{self.model}/{self.folder}/{self.alias}.json"


@dataclass(frozen=True, repr=False)
class Training(OfVersion):
    """The version that a training made, found by what it was made from.

    Attributes:
        model: name of the model.
        inputs: digest of spec, rows and release, see `Model.inputs`.
        id: content id of the version.
    """

    folder = "trainings"

    model: str
    inputs: ContentId
    id: ContentId

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return f"{self.model}/{self.folder}/{self.inputs}.json"


def is_model_name(name: object) -> bool:
    """Whether this is a valid name of a model."""
    return isinstance(name, str) and _SAFE_NAME.fullmatch(name) is not None


def check_model_name(name: str) -> str:
    """Return the name if it is a valid name of a folder on any file system.

    Raises:
        InvalidNameError: if it is not.
    """
    if not is_model_name(name):
        raise InvalidNameError(f"{shown(name)} cannot name a model; use {_RULE}.")
    return name


def check_alias(alias: str) -> str:
    """Return the alias if it is a valid name of a file and cannot be mistaken for a content id.

    Raises:
        InvalidNameError: if it is not valid, or looks like a content id.
    """
    if not isinstance(alias, str) or not _SAFE_NAME.fullmatch(alias):
        raise InvalidNameError(f"{alias!r} cannot be an alias; use {_RULE}.")
    if is_id_prefix(alias):
        raise InvalidNameError(f"alias {alias!r} looks like a content id; choose another name.")
    return alias


def is_id_prefix(text: str) -> bool:
    """Whether the text is the beginning of a content id: 8 to 64 hex digits."""
    return _ID_PREFIX.fullmatch(text) is not None


def parse_ref(ref: str) -> tuple[str, str | None]:
    """Split a reference into the name of the model and the part after ``@``, or None.

    Raises:
        InvalidNameError: if the reference has none of the forms above.
    """
    if not isinstance(ref, str):
        raise InvalidNameError(f"a reference is text such as 'name@alias', got {shown(ref)}.")
    name, at, selector = ref.partition("@")
    check_model_name(name)
    if not at:
        return name, None
    alias, at, before = selector.partition("@")
    if not is_id_prefix(selector):
        check_alias(alias)
    if at and before != PREVIOUS:
        raise InvalidNameError(
            f"{before!r} cannot follow the alias of {ref!r}; write '{name}@{alias}@{PREVIOUS}', "
            f"or find the version in 'probclass models history {name}'."
        )
    return name, selector
