"""Parse the Markdown of the documentation: what a page needs, blocks, headings, links, tables.

A page with code says what to install in a sentence such as this, which the tests read:

    To run this page, [install](install.md) `probclass[cli,plots]` and `duckdb`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

_FENCE = re.compile(r"^```(?P<language>\w*).*?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(?P<level>#+) +(?P<title>.+?) *$", re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_NEEDS = re.compile(
    r"^To run this (?:page|notebook), \[install\]\(\S*install\.md\) (?P<what>.+?)\.(?=\s|\Z)",
    re.MULTILINE | re.DOTALL,
)
_HEREDOC = re.compile(r"<<-?\s*'?(?P<end>\w+)'?")


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


@dataclass(frozen=True)
class Command:
    """A command of a ``console`` block, after ``$``.

    Attributes:
        text: the command, with its continuation lines or its here-document.
        expected: the output that the page shows, or an empty string.
        line: number of its first line, counted from 1.
    """

    text: str
    expected: str
    line: int


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


def commands(block: Block) -> list[Command]:
    """The commands of a ``console`` block, in order; none for a block of another language."""
    if block.language != "console":
        return []
    found: list[tuple[int, list[str], list[str]]] = []
    until = ""  # the end of a here-document
    for number, line in enumerate(block.body.splitlines(), block.line):
        if until:
            found[-1][1].append(line)
            until = "" if line == until else until
        elif found and not found[-1][2] and found[-1][1][-1].endswith("\\"):
            found[-1][1].append(line)
        elif line.startswith("$ "):
            found.append((number, [line[2:]], []))
            here = _HEREDOC.search(line)
            until = here["end"] if here else ""
        elif found:
            found[-1][2].append(line)
    return [
        Command("\n".join(text), "\n".join(output).strip("\n"), number)
        for number, text, output in found
    ]


def needs(page: Path) -> frozenset[str] | None:
    """What a page or notebook says must be installed, one extra at a time; None if it says nothing.

    Example: `probclass[cli,plots]` and `duckdb` are ``{"probclass[cli]", "probclass[plots]",
    "duckdb"}``, and `probclass` alone is an empty set.
    """
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    sentence = _NEEDS.search(prose(text))
    if sentence is None:
        return None
    atoms = set()
    for requirement in re.findall(r"`([^`]+)`", sentence["what"]):
        name, _, extras = requirement.rstrip("]").partition("[")
        atoms |= {f"{name}[{extra}]" for extra in extras.split(",")} if extras else {name}
    return frozenset(atoms - {"probclass"})


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
