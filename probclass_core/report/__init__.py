"""The report of a model: one page of HTML that says what the model is and how good it is.

`Model.report` writes it; the card of a version in Airflow has the same sections.

page        a report as a file: measured, drawn, written
sections    what a report says, section by section
html        pieces of a page as HTML, every value escaped, and values as text
pictures    plots as SVG

The folder ``static`` has the stylesheet, ``report.css``.
"""

from probclass_core.report.html import Html, image, joined, paragraph, report_html
from probclass_core.report.pictures import Theme, as_svg
from probclass_core.report.sections import (
    Measured,
    Picture,
    Section,
    headline,
    metrics,
    parameter_tables,
    sections,
)

__all__ = [
    "Html",
    "Measured",
    "Picture",
    "Section",
    "Theme",
    "as_svg",
    "headline",
    "image",
    "joined",
    "metrics",
    "paragraph",
    "parameter_tables",
    "report_html",
    "sections",
]
