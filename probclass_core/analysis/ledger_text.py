"""A ledger as text: aligned columns and a bar for each entry, at most 80 characters wide.

Rows and entries are those of the tables of `explanation.Explanation`.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

_LABEL_WIDTH, _VALUE_WIDTH, _NUMBER_WIDTH, _BAR_WIDTH = 18, 24, 9, 7
_PLACEHOLDERS = {
    **dict.fromkeys(("feature", "columns", "block"), "missing"),
    "item": "in {block}",
}
_MAX_VALUE_LENGTH = 120
"""Maximum number of characters shown of a value, which can be a long text."""


def ledger_text(row: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], units: str) -> str:
    """One row of `Explanation.rows` and its entries as text."""
    sizes = [abs(entry["weight"]) for entry in entries if entry["weight"] is not None]
    largest = max((size for size in sizes if math.isfinite(size)), default=0.0)
    left = f"{units:>{_LABEL_WIDTH + _VALUE_WIDTH + _NUMBER_WIDTH + 2}} {'total':>{_NUMBER_WIDTH}}"
    lines = [line for entry in entries for line in _entry_lines(entry, largest)]
    head = f"{left}  {'against':>{_BAR_WIDTH}} for"
    return "\n".join([title(row), head, *lines, outcome(row)])


def title(row: Mapping[str, Any]) -> str:
    """What a row of `Explanation.rows` is an explanation of."""
    return f"row {row['row']}: {row['prediction']} rather than {row['against']}"


def outcome(row: Mapping[str, Any]) -> str:
    """The posterior of a row of `Explanation.rows`."""
    posterior = f"{row['prediction']} {_probability_text(row['probability'])}"
    rival = f"{row['against']} {_probability_text(row['probability_against'])}"
    return f"posterior: {posterior}, {rival}; log odds {_number_text(row['log_odds'])}"


def label_of(entry: Mapping[str, Any]) -> str:
    """The name of an entry, with the weight of its block."""
    kind = entry["entry"]
    if kind in ("columns", "rest"):
        return "columns together" if kind == "columns" else str(entry["value"])
    name: str = entry["item"] or entry["block"] or kind
    return name if entry["block_weight"] is None else f"{name} ×{entry['block_weight']:.2f}"


def value_of(entry: Mapping[str, Any]) -> str:
    """The value of an entry."""
    if entry["entry"] == "rest":
        return ""
    if entry["value"] is None:
        return _PLACEHOLDERS.get(entry["entry"], "").format(**entry)
    return str(entry["value"])


def _entry_lines(entry: Mapping[str, Any], largest: float) -> Iterator[str]:
    value = value_of(entry)
    if len(value) > _MAX_VALUE_LENGTH:
        value = value[: _MAX_VALUE_LENGTH - 2] + " …"
    # Each of several features starts on a new line.
    features = value.split(", ") if entry["entry"] in ("columns", "block") else [value]
    if len(features) > 1 and value.endswith(" …"):
        features[-1] = "…"
    labels = _wrap(label_of(entry), _LABEL_WIDTH)
    values = [line for feature in features for line in _wrap(feature, _VALUE_WIDTH)]
    weight, total = _number_text(entry["weight"]), _number_text(entry["total"])
    numbers = f"{weight:>{_NUMBER_WIDTH}} {total:>{_NUMBER_WIDTH}}"
    for number, (left, right) in enumerate(zip_longest(labels, values, fillvalue="")):
        line = f"{left:{_LABEL_WIDTH}} {right:{_VALUE_WIDTH}}"
        if number == 0:
            line = f"{line} {numbers}  {_bar(entry['weight'], largest)}"
        yield line.rstrip()


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _bar(weight: float | None, largest: float) -> str:
    """Half blocks from the middle: to the left against the prediction, to the right for it."""
    if weight is None or not weight:
        return f"{'':{_BAR_WIDTH}}│"
    share = min(abs(weight) / largest, 1.0) if math.isfinite(weight) else 1.0
    full, half = divmod(round(2 * _BAR_WIDTH * share), 2)
    if weight > 0.0:
        return f"{'':{_BAR_WIDTH}}│{'█' * full}{'▌' * half}"
    return f"{'▐' * half + '█' * full:>{_BAR_WIDTH}}│"


def _number_text(value: float | None) -> str:
    if value is None:
        return "–"
    if math.isinf(value):
        return "+∞" if value > 0.0 else "-∞"
    if abs(value) < 0.005:
        return "0.00"
    return f"{value:+.2f}" if abs(value) < 99_999.0 else f"{value:+.2e}"


def _probability_text(value: float) -> str:
    """A probability with enough digits to distinguish a small one from 0."""
    return f"{value:.4f}" if value >= 1e-4 or value == 0.0 else f"{value:.1e}"
