"""Values as text on pages: numbers of even length, and URIs without credentials.

Times and descriptions of rows are formatted by `probclass_core.store.display`, as on the command
line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from probclass_core.errors import without_credentials


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
