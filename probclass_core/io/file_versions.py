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

        An object is checked after it was read: one that is put again has a new time. A local file
        is checked before as well, and by its inode: two files that are renamed to and fro keep
        their times.

        Raises:
            TableError: if the file was replaced, changed or removed since the plan, whatever error
                reading it raised then.
        """
        inode = None if self.location.remote else self._inode()
        if not self.location.remote:
            self._check(inode)
        try:
            yield
        except Exception as error:
            self._check(inode, error)
            raise
        self._check(inode)

    def _check(self, inode: tuple[int, int] | None, cause: Exception | None = None) -> None:
        info = self.location.info(self.path)
        if file_state(self.location, info) != self.state or (
            not self.location.remote and self._inode() != inode
        ):
            uri = self.location.uri_of(self.path)
            raise TableError(f"{uri} has changed while it was being read; run it again.") from cause

    def _inode(self) -> tuple[int, int] | None:
        """Number of the inode of a local file, and when it last changed, also by a rename."""
        try:
            status = Path(self.location.absolute(self.path)).stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns
