"""Score onto a disk of a few megabytes that is full, and again once it has room.

Run as ``unshare --mount python score_on_a_full_disk.py <folder> <format>``: the disk is a tmpfs
that is mounted on the folder for this process only.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from backends import BACKENDS
from scored_lakes import replace_new, score, set_up, states

import probclass_core as pc
from probclass_core.errors import TableError

DISK_BYTES, FREE_BYTES = 24_000_000, 300_000


def fill_disk(path: Path, free: int) -> None:
    """Write a file until only ``free`` bytes are left on the disk."""
    with path.open("wb", buffering=0) as ballast:
        try:
            while ballast.write(b"\0" * 4096):
                pass
        except OSError:
            ballast.truncate(ballast.tell() - free)


def main(folder: Path, name: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "tmpfs", str(folder)]
    subprocess.run(command, check=True)
    sink = BACKENDS[name](folder).ref("scored")
    set_up(folder, sink)
    replace_new(folder, 50_000)
    fill_disk(folder / "old" / "ballast", FREE_BYTES)
    try:
        score(folder, sink, "new")
    except TableError as error:
        sys.stdout.write(f"{error}\n")
    (folder / "old" / "ballast").unlink()
    assert states(folder, name) == {"old"}
    replace_new(folder)
    assert score(folder, sink, "new").counts["unchanged"] == 0
    assert states(folder, name) == {"new"}
    assert pc.clean_table(sink, older_than=timedelta(0), dry_run=True) == []


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
