"""One version of a file: a file that is replaced while it is read is an error, never a mixture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import FileInfo

from probclass_core.errors import TableError
from probclass_core.io.filesystem import Location


def file_state(location: Location, info: FileInfo) -> str:
    """Name, size and time of change of a file: they differ between two states of it."""
    name = location.relative(info.path)
    state = f"{name or info.base_name}\0{info.size}\0{info.mtime_ns}"
    key = location.fsspec_key(name)  # fsspec gives pyarrow no times
    return state if key is None else f"{state}\0{key}"


@dataclass(frozen=True)
class FileVersion:
    """A file in the state in which it was planned; it pickles.

    Attributes:
        location: location of its table.
        path: path of the file, relative to it.
        state: its state; see `file_state`.
    """

    location: Location
    path: str
    state: str

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Read within this context: all that is read belongs to this version.

        Size and time are those of the plan. In addition, what is read has one ETag, or one inode
        on a local disk: S3 and Azure report times in seconds, and two files that are renamed to
        and fro keep theirs.

        Raises:
            TableError: if the file was replaced, changed or removed since the plan, whatever error
                reading it raised then.
        """
        identity = self._identity()
        if not self.location.remote:
            self._check(self._is_as_planned())
        try:
            yield
        except Exception as error:
            self._check(self._is_same(identity), error)
            raise
        self._check(self._is_same(identity))

    def _check(self, unchanged: bool, cause: Exception | None = None) -> None:
        if not unchanged:
            uri = self.location.uri_of(self.path)
            raise TableError(f"{uri} has changed while it was being read; run it again.") from cause

    def _is_as_planned(self) -> bool:
        return file_state(self.location, self.location.info(self.path)) == self.state

    def _is_same(self, identity: object) -> bool:
        """Whether the file is the one that had this identity; an ETag does not cover its time."""
        same = self._identity() == identity
        return same and (self._is_as_planned() if self.location.remote else True)

    def _identity(self) -> object:
        """What differs between two files of one name, size and time; None if it is unknown."""
        return self.location.etag(self.path) if self.location.remote else self._status()

    def _status(self) -> tuple[int, ...] | None:
        """Inode of a local file, its size, and when it last changed, also by a rename."""
        try:
            status = Path(self.location.absolute(self.path)).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
