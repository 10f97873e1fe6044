"""Plots as SVG, in light and in dark colors.

A page embeds an SVG as an image, in which a browser runs no script. Letters remain text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Literal

from probclass_core.plots.style import least_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Theme = Literal["light", "dark", "system"]
"""Colors of a plot; those of ``"system"`` change with the color scheme of the reader."""

_MATPLOTLIB = Lock()
"""matplotlib draws in one thread at a time."""

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that a name may contain and an XML document may not."""

_WIDTH = 5.8
"""Width in inches: letters of 10 points are readable where a page is 390 pixels wide."""

_LETTER_WIDTH, _SHORT_TITLE = 0.08, 22
"""What a letter of the title of each of two panels adds to the width beyond this length."""

_INK = "#000000"
"""Color of what has none of its own, such as letters."""

_DARK_COLORS = {
    _INK: "#d7dae0",
    "#222222": "#e6e8ec",
    "#ffffff": "#16181d",
    "#0072b2": "#4ca6e0",
    "#666666": "#9aa0aa",
    "#999999": "#8b919b",
}
"""Colors for a dark page; the colors of classes that are not listed are legible on both."""

_COLOR = re.compile("#[0-9a-f]{6}")
_STYLE = re.compile('style="[^"]*"')
_OUTLINE = re.compile(' d="[^"]*"')
_FONTS = re.compile(r"font-family: [^;\"]*|'DejaVu Sans'[^;\"]*sans-serif")


def as_svg(draw: Callable[[], Figure], theme: Theme) -> str:
    """The figure that a function draws, as an SVG on a transparent ground.

    Raises:
        NotSupportedError: if matplotlib is not installed.
    """
    with _MATPLOTLIB:
        figure = draw()
        from matplotlib import rc_context

        _fit_to_page(figure)
        figure.patch.set_alpha(0.0)
        for axes in figure.axes:
            axes.patch.set_alpha(0.0)
        file = io.StringIO()
        with rc_context({"svg.fonttype": "none"}):
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = _NOT_IN_XML.sub("�", file.getvalue())
    svg = _OUTLINE.sub(lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    svg = _STYLE.sub(lambda style: _FONTS.sub(_system_font, style[0]), svg)
    svg = svg.replace("<svg ", f'<svg style="fill: {_INK}" ', 1)
    if theme == "light":
        return svg
    if theme == "dark":
        return _colored(svg, _DARK_COLORS)
    names = {light: f"var(--{light[1:]}, {light})" for light in _DARK_COLORS}
    dark = "".join(f"--{light[1:]}: {color};" for light, color in _DARK_COLORS.items())
    scheme = f"<style>@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}</style>"
    return _colored(svg, names).replace("<defs>", f"{scheme}<defs>", 1)


def _fit_to_page(figure: Figure) -> None:
    """Make a figure as narrow as its texts allow; titles side by side get a line more."""
    names = [name.get_text() for legend in figure.legends for name in legend.get_texts()]
    width = max(_WIDTH, least_width(names))
    titled = [axes for axes in figure.axes if axes.get_title(loc="left")]
    if len({axes.get_position().x0 for axes in titled}) > 1:
        titles = [axes.get_title(loc="left").replace(": ", ":\n") for axes in titled]
        for axes, title in zip(titled, titles, strict=True):
            axes.set_title(title, loc="left", fontsize=10)
        longest = max(len(line) for title in titles for line in title.split("\n"))
        width += len(titled) * _LETTER_WIDTH * max(0, longest - _SHORT_TITLE)
    figure.set_figwidth(width)


def _colored(svg: str, colors: Mapping[str, str]) -> str:
    """An SVG whose styles have other colors; texts are left as they are."""
    return _STYLE.sub(
        lambda style: _COLOR.sub(lambda color: colors.get(color[0], color[0]), style[0]), svg
    )


def _system_font(fonts: re.Match[str]) -> str:
    font = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
    return f"font-family: {font}" if fonts[0].startswith("font-family") else font
