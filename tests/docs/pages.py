"""Markdown as the tests of the documentation read it: fenced blocks, headings, links, tables."""

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
    """A fenced block.

    Attributes:
        language: what follows the opening fence.
        body: the text between the fences.
        line: of the page, counted from 1, on which the body begins.
        start, end: where the block lies in the page.
    """

    language: str
    body: str
    line: int
    start: int
    end: int


def relative(page: Path) -> str:
    """The page's path as the reader knows it."""
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(
            language=found["language"],
            body=found["body"],
            line=text.count("\n", 0, found.start("body")) + 1,
            start=found.start(),
            end=found.end(),
        )
        for found in _FENCE.finditer(text)
    ]


def examples(text: str) -> Iterator[tuple[Block, str]]:
    """Each ``python`` block, with the ``text`` block right below it: what it prints."""
    found = blocks(text)
    shown = {block.start: block.body for block in found if block.language == "text"}
    for block in found:
        if block.language == "python":
            below = len(text) - len(text[block.end :].lstrip())
            yield block, shown.get(below, "")


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """Targets of links and images."""
    return [found["target"] for found in _LINK.finditer(prose(text))]


def anchors(text: str) -> set[str]:
    """What a link can name after ``#``: the headings, spelt as in their addresses."""
    titles = (found["title"].lower() for found in _HEADING.finditer(prose(text)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def section(text: str, title: str) -> str:
    """The second-level section of that title; empty where there is none."""
    parts = re.split(r"^## +(.+?) *$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(title, "")


def table(text: str, header: str) -> list[list[str]]:
    """Cells of the rows of the table whose first heading is ``header``; code marks taken off."""
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
