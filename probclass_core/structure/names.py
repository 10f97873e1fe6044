"""Names of blocks, which are unique and can name files."""

from __future__ import annotations

import re

from probclass_core.spec.model_spec import TABLE_NAMES

_SIMPLE_NAME = re.compile(r"[^\W_][\w \-+.,()%=]{0,63}")
"""Names of columns that can name blocks, and thereby files, on every system."""


class Names:
    """The names that blocks have so far."""

    def __init__(self) -> None:
        self._taken = {name.casefold() for name in TABLE_NAMES}

    def of(self, wanted: str) -> str:
        """The name, or a similar one if it is taken or cannot name a file."""
        base = wanted if _SIMPLE_NAME.fullmatch(wanted) else "block"
        name, number = base.rstrip("."), 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{base} {number}"
        self._taken.add(name.casefold())
        return name
