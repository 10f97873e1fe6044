"""Draw the pictures of docs/plots.md, whose examples save them, and that of the pipeline.

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
PIPELINE = IMAGES / "pipeline.svg"

TRAIN = (
    ("files of a lake", "month=2013-01, …"),
    ("statistics of each file", "counts, means, scatter"),
    ("statistics of all rows", "however they are split"),
    ("model", "prior × densities"),
)
SCORE = (
    ("a new partition", "month=2014-01"),
    ("log prior + terms", "one per block of columns"),
    ("class probabilities", "decision, log p(x)"),
    ("scored partition", "all of it or nothing"),
)
STEPS = (("summarize", "merge", "finalize"), ("read", "normalize", "commit"))
WIDTH, HEIGHT, GAP, ROWS = 184, 56, 88, (40, 170)


def draw() -> list[Path]:
    """Draw all pictures and return their paths in docs/images."""
    PIPELINE.write_text(pipeline(), encoding="utf-8")
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
    return [PIPELINE, *images]


def pipeline() -> str:
    """The way from files to a model, and from a partition to its scores, as SVG."""
    left = [20 + column * (WIDTH + GAP) for column in range(4)]
    parts = []
    for top, boxes, steps, behind in zip(ROWS, (TRAIN, SCORE), STEPS, (2, 0), strict=True):
        for column, (x, lines) in enumerate(zip(left, boxes, strict=True)):
            many = behind if column < 2 else 0  # as many boxes behind: one for each file
            parts += [_box(x + 5 * layer, top - 5 * layer) for layer in range(many, -1, -1)]
            parts += [_text(x, top, lines)]
        for x, step in zip(left, steps, strict=False):
            parts += [_arrow(f"M{x + WIDTH + 14} {top + HEIGHT / 2} h{GAP - 22}")]
            middle = x + WIDTH + GAP / 2 + 4
            parts += [f'<text x="{middle}" y="{top + HEIGHT / 2 - 8}" class="step">{step}</text>']
    bottom, turn, top = ROWS[0] + HEIGHT, ROWS[1] - 36, ROWS[1]
    model, term = (left[column] + WIDTH / 2 for column in (3, 1))
    parts += [_arrow(f"M{model} {bottom} V{turn} H{term} V{top - 8}")]
    width, height = left[-1] + WIDTH + 20, ROWS[1] + HEIGHT + 24
    return "\n".join([_HEAD.format(width=width, height=height), *parts, "</svg>\n"])


_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">
<style>
text {{ font: 12.5px sans-serif; text-anchor: middle; fill: #57606a }}
.name {{ font-weight: bold; fill: #1f2328 }}
.step {{ font-style: italic }}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#57606a"/></marker></defs>
<rect width="100%" height="100%" rx="8" fill="#ffffff"/>"""


def _box(x: int, y: int) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
        'fill="#eef2fb" stroke="#3f51b5"/>'
    )


def _text(x: int, y: int, lines: tuple[str, str]) -> str:
    name, note = lines
    middle = x + WIDTH / 2
    return (
        f'<text x="{middle}" y="{y + 24}" class="name">{name}</text>\n'
        f'<text x="{middle}" y="{y + 43}">{note}</text>'
    )


def _arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="#57606a" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    for image in draw():
        sys.stdout.write(f"{image.relative_to(ROOT)}  {image.stat().st_size / 1000:.0f} kB\n")
