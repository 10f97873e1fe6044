"""Numbers, times and places as text: short, even, and without secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any


def number(value: Any) -> str:
    """A number with four significant digits, a whole one with all of them; a dash for none."""
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


def share(value: float | None) -> str:
    """A share in per cent."""
    if value is None or math.isnan(value):
        return "–"
    if 0.0 < value < 0.001:
        return "< 0.1 %"
    return f"{100 * value:.1f} %"


def bits(value: float | None) -> str:
    """A divergence, between 0 and 1."""
    if value is None:
        return "–"
    return "< 0.0001" if 0.0 < value < 1e-4 else f"{value:.4f}"


def minute(moment: str) -> str:
    """An ISO time in UTC to the minute."""
    return f"{moment[:16].replace('T', ' ')} UTC" if moment else "–"


def place(text: str) -> str:
    """A path or URI without user, password and query."""
    text = re.sub(r"://[^/@]*@", "://", text)
    return text.split("?", 1)[0] if "://" in text else text


def origin(values: Mapping[str, Any]) -> str:
    """Source, partition and conditions as one would type them."""
    partition, where = values.get("partition"), values.get("where")
    parts = [place(str(values["source"]))] if values.get("source") else []
    if isinstance(partition, Mapping):
        parts += [f"{key}={value}" for key, value in partition.items()]
    if isinstance(where, list):
        parts += [" ".join(map(plain, condition)) for condition in where]
    elif where:
        parts.append(str(where))
    return ", ".join(parts)


def plain(value: Any) -> str:
    """Any JSON value as one line of text."""
    if isinstance(value, str):
        return place(value)
    if isinstance(value, (int, float)) or value is None:
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{words(str(key))} {plain(each)}" for key, each in value.items()) or "–"
    return json.dumps(value, ensure_ascii=False, default=str)


def brief(text: Any, longest: int = 80) -> str:
    """A name without its middle where it is very long."""
    text = str(text)
    return text if len(text) <= longest else f"{text[: longest // 2 - 1]}…{text[-longest // 2 :]}"


def words(key: str) -> str:
    """A key as words."""
    return key.replace("_", " ")


def _decimals(size: float) -> int:
    return max(0, 3 - math.floor(math.log10(size))) if size < 1000 else 1
