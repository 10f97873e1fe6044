"""Draw the pictures of docs/plots.md, whose examples save them.

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
    """Draw all pictures and return their paths in docs/images."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        os.chdir(folder)
        namespace: dict[str, object] = {"__name__": "__main__"}
        for block, _ in examples(PAGE.read_text(encoding="utf-8")):
            exec(compile("\n" * (block.line - 1) + block.body, str(PAGE), "exec"), namespace)
        images = [IMAGES / path.name for path in sorted(Path().glob("*.png"))]
        for image in images:
            shutil.copy(image.name, image)
        os.chdir(ROOT)
    return images


if __name__ == "__main__":
    for image in draw():
        sys.stdout.write(f"{image.relative_to(ROOT)}  {image.stat().st_size / 1000:.0f} kB\n")
