"""Scores onto a disk of a few megabytes that is full, then onto one with room again.

Run as ``unshare --mount python on_a_small_disk.py <folder> <format>``: the disk is a tmpfs, mounted
on the folder for this process alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from campaign import FORMATS, ROWS, arrange, one_file_of_new, rows_of, score

import probclass_core as pc

DISK, LEFT = 24_000_000, 300_000


def fill(path: Path, left: int) -> None:
    """Write until so many bytes are free."""
    with path.open("wb", buffering=0) as ballast:
        try:
            while ballast.write(b"\0" * 4096):
                pass
        except OSError:
            ballast.truncate(ballast.tell() - left)


def main(folder: Path, name: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", str(folder)]
    subprocess.run(command, check=True)
    arrange(folder, name)
    one_file_of_new(folder, rows_of(2, 50_000))
    fill(folder / "old" / "ballast", LEFT)
    try:
        score(folder, name, "new")
    except pc.TableError as error:
        sys.stdout.write(f"{error}\n")
    (folder / "old" / "ballast").unlink()
    assert FORMATS[name].states(folder) == {"old"}
    one_file_of_new(folder, rows_of(2, ROWS["new"]))
    assert score(folder, name, "new").skipped == 0
    assert FORMATS[name].states(folder) == {"new"}
    assert not FORMATS[name].strangers(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
