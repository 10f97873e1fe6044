"""Draw the pictures of docs/plots.md: run its examples and copy the files they save.

python tests/docs/draw.py
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pages import ROOT, examples

PAGE = ROOT / "docs" / "plots.md"
IMAGES = ROOT / "docs" / "images"


def draw() -> list[Path]:
    """Run the page in a temporary folder and return the paths of its pictures in docs/images."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        os.chdir(folder)
        namespace: dict[str, object] = {"__name__": "__main__"}
        for block, _ in examples(PAGE.read_text(encoding="utf-8")):
            exec(compile("\n" * (block.line - 1) + block.body, str(PAGE), "exec"), namespace)
        drawn = [IMAGES / picture.name for picture in sorted(Path().glob("*.png"))]
        for picture in drawn:
            shutil.copy(picture.name, picture)
        os.chdir(ROOT)
    return drawn


if __name__ == "__main__":
    for drawn in draw():
        sys.stdout.write(f"{drawn.relative_to(ROOT)}  {drawn.stat().st_size / 1000:.0f} kB\n")
