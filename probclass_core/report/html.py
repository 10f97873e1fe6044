"""Pieces of a page as HTML: every value is escaped, and styles are classes of ``report.css``.

Neither scripts nor styles are in the markup, so that a strict content security policy may apply.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NewType

from probclass_core.arrow.display import counted
from probclass_core.report.formatting import as_text, shorten

Html = NewType("Html", str)
"""Markup, in contrast to text that may contain anything."""

_LONGEST = 400
"""Number of characters of a value of a list of pairs."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: its title.
        key: key of its values in the rows.
        form: a value as text; all but `as_text` are for numbers, which are aligned to the right.
        longest: number of characters of a text above which its middle is left out.
    """

    title: str
    key: str
    form: Callable[[Any], str] = as_text
    longest: int = 80


def text(value: Any, longest: int = 80) -> Html:
    """A value of any origin: escaped, not too long, and without an effect on what is around it."""
    return Html(f"<bdi>{html.escape(shorten(value, longest))}</bdi>")


def joined(parts: Iterable[Html]) -> Html:
    """Pieces of a page, one after the other."""
    return Html("\n".join(parts))


def paragraph(line: str, css: str = "") -> Html:
    """A sentence or several, which may contain values."""
    return Html(f'<p class="{css}">{text(line, 2_000)}</p>')


def lines(sentences: Iterable[str]) -> Html:
    """A list of sentences."""
    items = "".join(f"<li>{text(line, 1_000)}</li>" for line in sentences)
    return Html(f'<ul class="notes">{items}</ul>')


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


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    most: int | None = None,
    unit: tuple[str, str] = ("row", "rows"),
    bars: Sequence[float] | None = None,
    css: str = "",
) -> Html:
    """A table, which scrolls in its box if it is wide.

    Args:
        rows: values by key; a row may lack some.
        columns: its columns.
        most: largest number of rows to show, or None for all; a line below counts the others.
        unit: what a row is, and several of them.
        bars: a fraction for each row, drawn as a bar after the last column, or None.
        css: ``"narrow"`` for a table of few short columns.
    """
    kinds = ["" if column.form is as_text else 'class="n"' for column in columns]
    titled = zip(kinds, columns, strict=True)
    head = "".join(f"<th {kind}>{text(one.title)}</th>" for kind, one in titled)
    lines = []
    for position, row in enumerate(rows[:most]):
        cells = "".join(
            f"<td {kind}>{text(one.form(row.get(one.key)), one.longest)}</td>"
            for kind, one in zip(kinds, columns, strict=True)
        )
        if bars is not None:
            cells += f'<td class="wide">{bar(bars[position])}</td>'
        lines.append(f"<tr>{cells}</tr>")
    head += "" if bars is None else "<th></th>"
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    grid = f'<div class="scroll" tabindex="0"><table class="{css}">{body}</table></div>'
    if not (more := len(rows) - len(lines)):
        return Html(grid)
    others = counted(more, *(f"more {name}" for name in unit))
    note = f"{others} {'is' if more == 1 else 'are'} not listed."
    return Html(f"{grid}{paragraph(note, 'faint small')}")


def bar(fraction: float) -> Html:
    """A bar that is filled up to a fraction."""
    width = 100.0 * max(0.0, min(1.0, fraction))
    return Html(
        '<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rail" width="100" height="4"/>'
        f'<rect width="{width:.2f}" height="4"/></svg>'
    )


def confusion(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> Html:
    """A confusion matrix: counts and shares by true class (rows) and predicted class."""
    head = "".join(f'<th class="n">{text(name, 40)}</th>' for name in classes)
    rows = []
    for name, row in zip(classes, counts, strict=True):
        total = sum(row) or 1
        cells = "".join(
            f'<td class="n t{round(10 * count / total)}">{count:,}'
            f"<small>{100 * count / total:.1f} %</small></td>"
            for count in row
        )
        rows.append(f"<tr><th>{text(name, 40)}</th>{cells}</tr>")
    matrix = (
        f'<table class="confusion"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    return figure(
        Html(f'<div class="scroll" tabindex="0">{matrix}</div>'),
        "Rows: true class. Columns: predicted class, with its share of the row.",
    )


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
