"""Parse the Markdown of the documentation: fenced blocks, headings, links and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(?P<language>\w*).*?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(?P<level>#+) +(?P<title>.+?) *$", re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: the word after the opening fence, or an empty string.
        body: the text between the fences.
        line: number of the line on which the body starts, counted from 1.
        start: position of the first character of the block in the page.
        end: position after its last character.
    """

    language: str
    body: str
    line: int
    start: int
    end: int


def relative(page: Path) -> str:
    """The path of a page relative to the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(
            language=fence["language"],
            body=fence["body"],
            line=text.count("\n", 0, fence.start("body")) + 1,
            start=fence.start(),
            end=fence.end(),
        )
        for fence in _FENCE.finditer(text)
    ]


def examples(text: str) -> Iterator[tuple[Block, str]]:
    """Each ``python`` block and its output: the ``text`` block directly below it, if any."""
    fenced = blocks(text)
    outputs = {block.start: block.body for block in fenced if block.language == "text"}
    for block in fenced:
        if block.language == "python":
            below = len(text) - len(text[block.end :].lstrip())
            yield block, outputs.get(below, "")


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """Targets of links and images."""
    return [link["target"] for link in _LINK.finditer(prose(text))]


def anchors(text: str) -> set[str]:
    """The anchors of a page that links can name after ``#``, one per heading."""
    titles = (heading["title"].lower() for heading in _HEADING.finditer(prose(text)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def section(text: str, title: str) -> str:
    """The text of the second-level section with this title, or an empty string."""
    parts = re.split(r"^## +(.+?) *$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(title, "")


def table(text: str, header: str) -> list[list[str]]:
    """Rows of the table whose first column has this header, as cells without backticks."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {header} |"):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows
