"""The errors of probclass: one base, a few children, messages that name the mend.

A message says what was wrong, where, what was available, and what to do about it, on one line,
because it is read in a task log or a terminal. Nothing else in the package defines an exception.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Which some libraries put into what they say."""

_LONGEST_REASON = 400


class ProbClassError(Exception):
    """Base of every error that probclass raises on purpose."""


class SpecError(ProbClassError, ValueError):
    """The model that was asked for makes no sense: a name, an option, a type of column."""


class DataError(ProbClassError, ValueError):
    """The rows do not fit the model: infinite values, one class only, a column without values."""


class TableError(ProbClassError):
    """A table, partition or file cannot be read or written."""


class StoreError(ProbClassError):
    """A stored model is missing, damaged, or from a newer probclass."""


class PluginError(ProbClassError):
    """A plugin cannot be loaded, claims a name twice, or is built for another API version."""


class NotSupportedError(ProbClassError):
    """The estimator does not offer what was asked of it."""


def expect(value: object, kind: type, mend: str) -> None:
    """Refuse an argument of another type, before it fails for an attribute that it lacks.

    Raises:
        SpecError: it is not of that type; the line ends with the mend.
    """
    if not isinstance(value, kind):
        raise SpecError(f"a {kind.__name__} is wanted, got {type(value).__name__}; {mend}.")


def one_of(names: Iterable[object]) -> str:
    """Names as a readable list, for the part of a message that says what was available.

    Example: ``one_of(["b", "a"])`` is ``"'a', 'b'"``; an empty collection reads ``"none"``.
    """
    listed = sorted(str(name) for name in names)
    shown = ", ".join(repr(name) for name in listed[:20])
    if len(listed) > 20:
        shown += f" and {len(listed) - 20} more"
    return shown or "none"


def one_line(error: BaseException) -> str:
    """What a library said, as the end of a line of ours: of bearable length, and uncolored."""
    text = " ".join(_COLOURS.sub("", str(error)).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]} …"


def nearest(name: str, available: Iterable[str]) -> str:
    """A hint such as ``" Did you mean 'gaussian_full'?"``, or nothing where no name is close."""
    close = difflib.get_close_matches(name, list(available), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
