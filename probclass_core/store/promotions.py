"""The ledger of promotions: an append-only record of what each alias named, when, by whom and why.

Every entry names the entry before it, and the alias names the last one by its time and version. An
entry is written before the alias is replaced, in one step. So an entry counts as soon as the alias
names it, directly or through later entries, and what a killed writer leaves behind never counts.
Refused promotions are entries that no alias names.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from probclass_core.arrow.bundle import plain_json
from probclass_core.errors import StoreError
from probclass_core.io.filesystem import Location
from probclass_core.store.records import ContentId, Record, Time, file_name
from probclass_core.store.references import Alias

Action = Literal["promoted", "refused", "rolled_back", "unchanged", "proposed"]


@dataclass(frozen=True, repr=False)
class Promotion(Record):
    """A promotion, a rollback, or the refusal of a promotion.

    Attributes:
        model: name of the model.
        alias: the alias, such as ``champion``.
        action: ``"promoted"``, ``"rolled_back"``, ``"refused"``, ``"unchanged"`` if the alias named
            the version already, or ``"proposed"`` if it passed the gate; the last two are never
            recorded.
        id: content id of the version that was promoted, returned to, or refused.
        previous: content id of the version that the alias named until then, or None.
        time: time of the entry, ISO 8601 in UTC.
        by: who did it: a user, or a task; None if unknown.
        reason: why, in one line, or None.
        metrics: what the decision compared, such as metric, margin and the value of each version.
        provenance: on which rows and in which run, as plain JSON values.
        before: time of the entry that was in force until then, or None.
        restores: for a rollback, time of the entry that is in force again; None otherwise.
    """

    folder = "promotions"
    advice = "restore it from a copy, or remove it and lose the promotions before it"

    model: str
    alias: str
    action: Action
    id: ContentId
    previous: ContentId | None
    time: Time
    by: str | None = None
    reason: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    before: Time | None = None
    restores: Time | None = None

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return _path(self.model, self.alias, self.time, self.id)

    @property
    def ref(self) -> str:
        """``name@id``, a reference that always names this version."""
        return f"{self.model}@{self.id}"


def user() -> str | None:
    """The name of the user of this process, or None if the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container without a user database
        return None


def record_promotion(files: Location, entry: Promotion) -> Promotion:
    """Append an entry, and return it as it is recorded.

    Raises:
        StoreError: if its metrics or provenance are not plain JSON, or the file system refuses.
    """
    metrics = plain_json(entry.metrics, "metrics")
    provenance = plain_json(entry.provenance, "provenance")
    entry = replace(entry, metrics=metrics, provenance=provenance)
    files.write(entry.path, entry.encode())
    return entry


def in_force(alias: Alias | None, read: Callable[[str], Promotion | None]) -> list[Promotion]:
    """The entries that an alias names, directly or through later entries, oldest first.

    Args:
        alias: the alias; None if it does not exist.
        read: returns the entry at a path in the store, or None if there is none.

    Raises:
        StoreError: if an entry is damaged, or the file system refuses.
    """
    if alias is None:
        return []
    entries: dict[str, Promotion] = {}
    time: str | None = alias.promoted
    id_: str | None = alias.id
    while time is not None and id_ is not None:
        path = _path(alias.model, alias.alias, time, id_)
        if path in entries:
            break
        # If it was removed, what was before it is unknown.
        lost = Promotion(alias.model, alias.alias, "promoted", id_, None, time)
        entries[path] = entry = read(path) or lost
        time, id_ = entry.before, entry.previous
    return [*entries.values()][::-1]


def counted(entries: Iterable[Promotion], aliases: Iterable[Alias]) -> list[Promotion]:
    """The entries that count, oldest first: refusals, and those that aliases name.

    Args:
        entries: all entries of the aliases.
        aliases: the aliases.
    """
    by_path = {entry.path: entry for entry in entries}
    found = [entry for entry in by_path.values() if entry.action == "refused"]
    for alias in aliases:
        found += in_force(alias, by_path.get)
    return sorted(found, key=lambda entry: (entry.time, entry.alias))


def newest_first(files: Location, model: str, alias: str) -> Iterator[Promotion]:
    """The entries of an alias, the newest first, each read when it is needed.

    They include refusals, and what a killed writer left behind; damaged entries are left out.
    """
    for path in sorted(ledger_paths(files, model, alias), reverse=True):
        with suppress(StoreError):
            entry = Promotion.read(files, path)
            if entry is not None:
                yield entry


def returns(entries: Sequence[Promotion]) -> tuple[list[Promotion], dict[str, Promotion]]:
    """To which entries an alias can roll back, and which versions it was rolled back from.

    Args:
        entries: the entries in force, oldest first.

    Returns:
        The promotions that no rollback undid, oldest first, the last one in force; and the
        rollbacks by content id of the versions whose last promotion they undid.
    """
    stack: list[Promotion] = []
    undone: dict[str, Promotion] = {}
    for entry in entries:
        if entry.action == "rolled_back":
            while len(stack) > 1 and stack[-1].time != entry.restores:
                undone[stack.pop().id] = entry
        else:
            stack.append(entry)
            undone.pop(entry.id, None)
    return stack, undone


def ledger_paths(files: Location, model: str, alias: str, id_: str = "") -> list[str]:
    """The files of the entries of a version; of all versions if the id is empty."""
    folder, end = f"{model}/{Promotion.folder}/{alias}", f"-{id_[:12]}.json" if id_ else ".json"
    return [f"{folder}/{name}" for name in files.names(folder) if name.endswith(end)]


def _path(model: str, alias: str, time: str, id_: str) -> str:
    return f"{model}/{Promotion.folder}/{alias}/{file_name(time, id_)}.json"
