"""Read HTML back: its tags, its attributes, and whether it is well formed."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "img", "link", "rect", "br"}
"""Tags that are not closed, or close themselves."""


class Markup(HTMLParser):
    """The tags and attributes of a text of HTML, whose tags must be closed in order."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(content)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
