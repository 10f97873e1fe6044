"""A model spec as TOML, ready to be kept in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from probclass_core.errors import SpecError
from probclass_core.spec import ModelSpec

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(spec: ModelSpec) -> str:
    """The spec as TOML text that `ModelSpec.from_file` reads back as an equal spec.

    Raises:
        SpecError: an option is null, for which TOML has no word.
    """
    values = spec.to_dict()
    blocks = values.pop("blocks")
    lines = [_pair(key, value) for key, value in values.items()]
    for block in blocks:
        lines += ["", "[[blocks]]", *(_pair(key, value) for key, value in block.items())]
    return "\n".join(lines) + "\n"


def _pair(key: str, value: Any) -> str:
    return f"{key if _BARE_KEY.fullmatch(key) else _text(key)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inside = ", ".join(_pair(key, item) for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if value is None:
        raise SpecError("an option of the spec is null, for which TOML has no word; see --json.")
    return json.dumps(value)  # numbers, true and false are written alike in both


def _text(text: str) -> str:
    # JSON's escapes are TOML's too, but for characters beyond 16 bits and for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
