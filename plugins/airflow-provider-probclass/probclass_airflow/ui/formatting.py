"""Values as text on the pages, as in reports of models and on the command line."""

from probclass_core.errors import hide_credentials
from probclass_core.report.formatting import (
    as_text,
    divergence,
    finite,
    number,
    percent,
    shorten,
    words,
)
from probclass_core.store.display import described_rows, minute

__all__ = [
    "as_text",
    "described_rows",
    "divergence",
    "finite",
    "hide_credentials",
    "minute",
    "number",
    "percent",
    "shorten",
    "words",
]
