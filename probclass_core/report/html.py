"""Pieces of a page as HTML: every value is escaped, and styles are classes of ``report.css``.

Neither scripts nor styles are in the markup, so that a strict content security policy may apply.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, NewType

from probclass_core.display import Part, Report, html_parts, report_of
from probclass_core.report.formatting import shorten

Html = NewType("Html", str)
"""Markup, in contrast to text that may contain anything."""

_LONGEST = 400
"""Number of characters of a value of a list of pairs."""


def text(value: Any, longest: int = 80) -> Html:
    """A value of any origin: escaped, not too long, and without an effect on what is around it."""
    return Html(f"<bdi>{html.escape(shorten(value, longest))}</bdi>")


def joined(parts: Iterable[Html]) -> Html:
    """Pieces of a page, one after the other."""
    return Html("\n".join(parts))


def paragraph(line: str, css: str = "") -> Html:
    """A sentence or several, which may contain values."""
    return Html(f'<p class="{css}">{text(line, 2_000)}</p>')


def parts_html(parts: Sequence[Part]) -> Html:
    """The parts of a report: sentences, tables and lists."""
    return Html(html_parts(parts))


def report_html(result: Report) -> Html:
    """What ``print`` shows of a result."""
    return parts_html(report_of(result))


def tiles(items: Iterable[tuple[str, str, str]]) -> Html:
    """Figures that matter: the title of each, its value, and a remark below it or an empty text."""
    cells = "".join(
        f"<div><dt>{text(title)}</dt><dd>{text(value)}"
        + (f"<small>{text(aside)}</small>" if aside else "")
        + "</dd></div>"
        for title, value, aside in items
    )
    return Html(f'<dl class="tiles">{cells}</dl>')


def pairs(rows: Iterable[tuple[str, str]]) -> Html:
    """Names and values, a line for each."""
    cells = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value, _LONGEST)}</dd></div>" for name, value in rows
    )
    return Html(f'<dl class="pairs">{cells}</dl>')


def image(address: str, alt: str, css: str = "") -> Html:
    """An image of a plot, loaded when it comes into sight."""
    return Html(
        f'<img class="plot {css}" loading="lazy" src="{html.escape(address)}" '
        f'alt="{html.escape(shorten(alt, 200))}">'
    )


def figure(content: Html, caption: str = "") -> Html:
    """Content with a line below it."""
    below = f"<figcaption>{text(caption, 400)}</figcaption>" if caption else ""
    return Html(f"<figure>{content}{below}</figure>")


def group(css: str, parts: Iterable[Html]) -> Html:
    """Pieces side by side where there is room: ``columns`` or ``plots``."""
    return Html(f'<div class="{css}">{joined(parts)}</div>')


def details(summary: str, content: Html) -> Html:
    """Content that a click unfolds."""
    return Html(f"<details><summary>{text(summary)}</summary>{content}</details>")
