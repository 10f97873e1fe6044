"""The errors of probclass, and helpers that write their messages.

Every error raised on purpose is a `ProbClassError`; its class says where to look for the fix:

- `SpecError`: the model or an argument, before any row is read.
- `DataError`: the rows; `HealthError`: a partition that its watch refuses.
- `TableError`: a table, partition or file; `PartitionError` for some partitions of many.
- `StoreError`: a saved model, or the store that contains it; `RolledBackError`: a version from
  which an alias was rolled back is not promoted to it again; `RollbackError`: an alias cannot be
  rolled back; `InvalidNameError`: no model, alias or version can have that name.
- `PluginError`: an installed plugin, or one that is missing.
- `NotSupportedError`: the estimator, which lacks the requested feature.

`is_transient` says whether the same call may succeed later: a table or a store may be busy or not
there yet. A `TableMismatchError` is a `TableError` that stays, and a `MissingLabelsError` a
`DataError` that goes away when labels arrive.

A message says what is wrong, where, what was expected and how to fix it, in one line, because it is
read in a task log or a terminal. No other module of the package defines exceptions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, TypeVar

Expected = TypeVar("Expected")

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_STACK = re.compile(r"\n\s*0: .*", re.DOTALL)  # of a library in Rust
"""Terminal colors, which some libraries put into their messages."""

_URI = re.compile(r"([A-Za-z][\w+.-]{0,39})://([^\s'\"<>]+)")
"""A URI in a text. Without a longest scheme, searching a text of n letters takes n² steps."""

_WHOLE_URI = re.compile(r"([A-Za-z][\w+.-]*)://(\S+)")
"""A text that is nothing but a URI, which may contain quotes."""

_SECRET_NAME = re.compile(
    r"secret|password|passwd|token|credential|(access|account|sas)_?key", re.IGNORECASE
)

_SEPARATORS = re.compile(r"[\W_]+")

_MAX_REASON = 400
"""Characters of another library's message that are repeated."""

_MAX_SHOWN = 80
"""Characters of a value that are shown as they are."""

_PLAIN_TYPES = (str, bytes, bool, int, float, type(None), list, tuple, set, Mapping, PurePath)
"""Types of values that are shown as they are."""

_MAX_NAMES = 20
"""Names listed in a message before the rest is counted."""


class ProbClassError(Exception):
    """Base of every error that probclass raises on purpose.

    Attributes:
        is_transient: whether the same call may succeed later, so that it makes sense to retry it.
        report: what was done, with ``failed``, if partitions could not be scored; else None.
    """

    is_transient: bool = False
    report: Any = None

    def __init__(self, *args: object) -> None:
        super().__init__(*(hide_credentials(a) if isinstance(a, str) else a for a in args))


class SpecError(ProbClassError, ValueError):
    """The requested model or an argument is invalid: a name, an option, a column's type."""


class DataError(ProbClassError, ValueError):
    """The rows do not fit the model: a missing column, an infinite value, only one class."""


class MissingLabelsError(DataError):
    """No row has a label yet; labels may come later."""

    is_transient = True


class HealthError(DataError):
    """The rows of a partition do not pass a check of its watch; nothing of it was written.

    Attributes:
        verdicts: verdict of each check, as plain JSON values.
    """

    def __init__(self, message: str, verdicts: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.verdicts = list(verdicts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the verdicts."""
        return type(self), (str(self), self.verdicts)


class TableError(ProbClassError):
    """A table, partition or file cannot be read or written."""

    is_transient = True


class TableMismatchError(TableError):
    """A table does not fit the request, or a file is damaged, and a retry cannot change that.

    It has other columns, types, partitions, another format or location.
    """

    is_transient = False


class PartitionError(TableError):
    """Some partitions could not be scored; the others are committed.

    It is transient if one of them may be scored by the same call later.

    Args:
        message: which ones, and why.
        report: what was done: a `ScoreReport`, with ``failed``.
    """

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report = report
        self.is_transient = report is None or any(one.is_transient for one in report.failed)


class StoreError(ProbClassError):
    """A saved model is missing, damaged, or was written by a newer probclass."""

    is_transient = True


class RolledBackError(StoreError):
    """An alias was rolled back from the version to promote; a retry cannot change that."""

    is_transient = False


class RollbackError(StoreError):
    """An alias has nothing to roll back to, or names another version: a retry cannot help."""

    is_transient = False


class InvalidNameError(StoreError):
    """The name of a model, an alias or a reference is not valid; a retry cannot change that."""

    is_transient = False


class PluginError(ProbClassError):
    """A plugin cannot be loaded, registers a name twice, or targets another API version."""


class NotSupportedError(ProbClassError):
    """The estimator does not support the requested operation."""


def hide_credentials(text: str) -> str:
    """Text whose URIs have no password and no query: safe to show, to log and to record.

    A password may contain ``/`` and ``@``, so it ends at the last ``@`` of the address. A number
    after the first colon is a port. Paths are returned as they are.
    """
    whole = _WHOLE_URI.fullmatch(text)
    return _URI.sub(_shown, text) if whole is None else _shown(whole)


def without_credentials(value: Any) -> Any:
    """A JSON value with `hide_credentials` of all texts, and without the values of secrets.

    A value is a secret if its key says so: ``secret_key``, ``password``, ``token`` and the like.
    """
    if isinstance(value, str):
        return hide_credentials(value)
    if isinstance(value, Mapping):
        return {
            key: "***" if _SECRET_NAME.search(str(key)) else without_credentials(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_credentials(item) for item in value]
    return value


def shown_cause(error: BaseException) -> BaseException | None:
    """The cause of an error of ours for its traceback; None if its message has credentials."""
    return error if hide_credentials(str(error)) == str(error) else None


def _shown(uri: re.Match[str]) -> str:
    """A URI without password and query, with the punctuation that follows it."""
    scheme, rest = uri[1], uri[2]
    address, mark, query = rest.partition("?")
    end = "" if uri.re is _WHOLE_URI else rest[len(rest.rstrip(".,;:)")) :]
    if mark and ("=" in query or scheme.startswith("http")):
        rest = address + end
    else:
        address = rest
    user, colon, password = address.partition("/")[0].partition(":")
    if colon and "@" in address and "@" not in user and not password.isdigit():
        rest = f"***@{rest.rpartition('@')[2]}"
    return f"{scheme}://{rest}"


def expect(value: object, kind: type[Expected], fix: str) -> Expected:
    """The argument; one of another type is refused before it fails for a missing attribute.

    Args:
        value: the argument.
        kind: the type that it must have.
        fix: how to get a value of that type; ends the message.

    Raises:
        SpecError: if it is not of that type.
    """
    if not isinstance(value, kind):
        raise SpecError(f"expected a {kind.__name__}, got {type(value).__name__}; {fix}.")
    return value


def shown(value: object) -> str:
    """A value for a message: itself if it is short and plain, and otherwise its type.

    Example: ``shown(["y"])`` is ``"['y']"``, and ``shown(frame)`` is ``"a DataFrame"``.
    """
    if isinstance(value, _PLAIN_TYPES) and len(text := repr(value)) <= _MAX_SHOWN:
        return text
    if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
        return f"{'the class' if isinstance(value, type) else 'the function'} {value.__name__}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def one_of(names: Iterable[object]) -> str:
    """Names as a sorted, quoted list, for messages that say what is available.

    Example: ``one_of(["b", "a"])`` is ``"'a', 'b'"``; an empty collection gives ``"none"``.
    """
    listed = sorted(str(name) for name in names)
    shown = ", ".join(repr(name) for name in listed[:_MAX_NAMES])
    if len(listed) > _MAX_NAMES:
        shown += f" and {len(listed) - _MAX_NAMES} more"
    return shown or "none"


def nearest(name: str, available: Iterable[str]) -> str:
    """A hint such as ``" Did you mean 'gaussian_full'?"``, or ``""`` if no name is similar.

    Names that differ in case and separators only come first: ``Wind_Speed`` for ``windspeed``.
    """
    names = list(available)
    same = [one for one in names if _plain(one) == _plain(name)]
    close = difflib.get_close_matches(name, same or names, n=1, cutoff=0.0 if same else 0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name).lower()


def suggest(name: object, known: Iterable[str]) -> str:
    """The known names and the one that is meant, such as ``"'mean', 'max'. Did you mean 'max'?"``.

    Args:
        name: an unknown name.
        known: names that are available.
    """
    listed = list(known)
    return f"{one_of(listed)}.{nearest(str(name), listed)}"


def check_known(
    names: Iterable[object],
    known: Collection[str],
    unknown: str,
    has: str = "it has",
    error: type[ProbClassError] = SpecError,
) -> None:
    """Refuse a name that is not known; the message says what there is, and what may be meant.

    Example: for ``"the model has no class"``, "the model has no class 'B'; it has 'a', 'b'."

    Args:
        names: names that are given.
        known: names that are available.
        unknown: what comes before an unknown name.
        has: what comes before the known names.
        error: class of the error.

    Raises:
        ProbClassError: if a name is not known.
    """
    for name in names:
        if name not in known:
            raise error(f"{unknown} {name!r}; {has} {suggest(name, known)}")


def one_line(error: BaseException) -> str:
    """Another library's message as the end of one line: without colors, stack or period."""
    words = _STACK.sub("", _COLORS.sub("", str(error))).split()
    text = " ".join(words).rstrip(".") or type(error).__name__
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]} …"


@contextmanager
def naming(part: str) -> Iterator[None]:
    """Let errors begin with the name of what they are about, if it has one."""
    try:
        yield
    except ProbClassError as error:
        if not part:
            raise
        raise type(error)(f"{part}: {error}") from error
