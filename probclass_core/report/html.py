"""Pieces of a page as HTML: every value is escaped, and styles are classes of ``report.css``.

Numbers have an even length, and URIs no credentials. Times and descriptions of rows are formatted
by `probclass_core.display`, as on the command line. Neither scripts nor styles are in the
markup, so that a strict content security policy may apply.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NewType

from probclass_core.display import Part, Report, html_parts, report_of
from probclass_core.errors import without_credentials

Html = NewType("Html", str)
"""Markup, in contrast to text that may contain anything."""

_LONGEST = 400
"""Number of characters of a value of a list of pairs."""


def number(value: Any) -> str:
    """A number with four significant digits, an integer with all of them; a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}".replace("-", "−")
    size = abs(value)
    text = f"{value:,.{_decimals(size)}f}" if 1e-3 <= size < 1e7 else f"{value:.3g}"
    return text.replace("-", "−")


def finite(value: Any) -> float | None:
    """A finite number of a record, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def percent(value: Any) -> str:
    """A fraction as a percentage; a dash for anything else."""
    fraction = finite(value)
    if fraction is None:
        return "–"
    if 0.0 < fraction < 0.001:
        return "< 0.1 %"
    return f"{100 * fraction:.1f} %"


def divergence(bits: float | None) -> str:
    """A Jensen–Shannon divergence, between 0 and 1 bit."""
    if bits is None:
        return "–"
    return "< 0.0001" if 0.0 < bits < 1e-4 else f"{bits:.4f}"


def as_text(value: Any) -> str:
    """Any JSON value as one line of text, without credentials."""
    return _text(without_credentials(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) or value is None:
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{words(str(key))} {_text(item)}" for key, item in value.items()) or "–"
    return json.dumps(value, ensure_ascii=False, default=str)


def shorten(text: Any, longest: int = 80) -> str:
    """Text without its middle if it is longer than ``longest`` characters."""
    text = str(text)
    return text if len(text) <= longest else f"{text[: longest // 2 - 1]}…{text[-longest // 2 :]}"


def words(key: str) -> str:
    """A key as words."""
    return key.replace("_", " ")


def _decimals(size: float) -> int:
    return max(0, 3 - math.floor(math.log10(size))) if size < 1000 else 1


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
