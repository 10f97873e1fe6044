"""A ledger of weights as text: aligned, with a bar for each entry, at most 80 columns wide."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LABEL, _VALUE, _NUMBER, _HALF_BAR = 18, 24, 9, 7
_WITHOUT_VALUE = {"feature": "missing", "block": "missing", "item": "in {block}"}
_LONGEST_VALUE = 120
"""Characters of a value to show, which may be a whole text."""


def ledger_text(row: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], units: str) -> str:
    """The story of one row.

    Args:
        row: a row of `explanation.Explanation.rows`.
        entries: its rows of `explanation.Explanation.table`, in order.
        units: of the weights.
    """
    prediction, against = row["prediction"], row["against"]
    sizes = [abs(entry["weight"]) for entry in entries if entry["weight"] is not None]
    largest = max((size for size in sizes if math.isfinite(size)), default=0.0)
    story = f"row {row['row']}: {prediction} rather than {against}"
    heads = f"{units:>{_LABEL + _VALUE + _NUMBER + 2}} {'total':>{_NUMBER}}"
    lines = [line for entry in entries for line in _lines(entry, largest)]
    posterior = f"{prediction} {_probability(row['probability'])}"
    rival = f"{against} {_probability(row['probability_against'])}"
    told = f"posterior: {posterior}, {rival}; log odds {_number(row['log_odds'])}"
    return "\n".join([story, f"{heads}  {'against':>{_HALF_BAR}} for", *lines, told])


def _lines(entry: Mapping[str, Any], largest: float) -> Iterator[str]:
    label = entry["item"] or entry["block"] or entry["entry"]
    value = entry["value"]
    if value is None:
        value = _WITHOUT_VALUE.get(entry["entry"], "").format(**entry)
    value = value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 2] + " …"
    # The features of a whole block stand one below the other.
    parts = value.split(", ") if entry["entry"] == "block" else [value]
    labels = _wrapped(label, _LABEL)
    values = [line for part in parts for line in _wrapped(part, _VALUE)]
    numbers = f"{_number(entry['weight']):>{_NUMBER}} {_number(entry['total']):>{_NUMBER}}"
    for place in range(max(len(labels), len(values))):
        left = labels[place] if place < len(labels) else ""
        right = values[place] if place < len(values) else ""
        line = f"{left:{_LABEL}} {right:{_VALUE}}"
        if place == 0:
            line = f"{line} {numbers}  {_bar(entry['weight'], largest)}"
        yield line.rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _bar(weight: float | None, largest: float) -> str:
    """Half blocks from the middle: to the left against the prediction, to the right for it."""
    if weight is None or not weight:
        return f"{'':{_HALF_BAR}}│"
    share = min(abs(weight) / largest, 1.0) if math.isfinite(weight) else 1.0
    whole, half = divmod(round(2 * _HALF_BAR * share), 2)
    if weight > 0.0:
        return f"{'':{_HALF_BAR}}│{'█' * whole}{'▌' * half}"
    return f"{'▐' * half + '█' * whole:>{_HALF_BAR}}│"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if math.isinf(value):
        return "+∞" if value > 0.0 else "-∞"
    if abs(value) < 0.005:
        return "0.00"
    return f"{value:+.2f}" if abs(value) < 99_999.0 else f"{value:+.2e}"


def _probability(value: float) -> str:
    """Enough digits to tell a small one from 0."""
    return f"{value:.4f}" if value >= 1e-4 or value == 0.0 else f"{value:.1e}"
