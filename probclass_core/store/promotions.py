"""The ledger of promotions: an append-only record of what each alias named, when, by whom and why.

Every entry names the entry before it, and the alias names the last one by its time and version. An
entry is written before the alias is replaced, in one step. So an entry counts as soon as the alias
names it, directly or through later entries, and what a killed writer leaves behind never counts.
Refused promotions are entries that no alias names.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

from probclass_core.arrow.bundle import plain_json
from probclass_core.errors import StoreError
from probclass_core.io.failures import CONTENDED_ATTEMPTS, contended_attempts
from probclass_core.io.filesystem import Location
from probclass_core.store.records import (
    Alias,
    ContentId,
    ModelVersion,
    Object,
    OfVersion,
    Time,
    file_name,
    listed,
    read_all,
    timestamp,
)

Action = Literal["promoted", "refused", "rolled_back", "unchanged", "proposed"]


@dataclass(frozen=True, repr=False)
class Promotion(OfVersion):
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
    metrics: Object = field(default_factory=dict)
    provenance: Object = field(default_factory=dict)
    before: Time | None = None
    restores: Time | None = None

    @classmethod
    def of(
        cls,
        version: ModelVersion,
        alias: str,
        named: Alias | None,
        by: str | None,
        provenance: Mapping[str, Any] | None,
        **values: Any,
    ) -> Self:
        """An entry about a version and an alias, which names another version until now.

        Raises:
            StoreError: if metrics or provenance are not plain JSON.
        """
        return cls(
            model=version.model,
            alias=alias,
            id=version.id,
            previous=None if named is None else named.id,
            time=timestamp(),
            by=by or user(),
            provenance=plain_json(provenance or {}, "provenance"),
            before=None if named is None else named.promoted,
            **{"action": "promoted", **values},
        )

    def unchanged(self) -> Self:
        """The entry of an alias that names the version already."""
        reason = f"{self.short} is the {self.alias} already"
        return replace(self, action="unchanged", reason=reason)

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return _path(self.model, self.alias, self.time, self.id)


def user() -> str | None:
    """The name of the user of this process, or None if the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container without a user database
        return None


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


Move: TypeAlias = tuple[Promotion, str | None]
"""An entry of the ledger, and the content id of the version that its alias names after a rollback
of the entry; nothing is moved if the action is ``"unchanged"``."""


class Ledger:
    """The entries of one alias, and the file of the alias, which names the last one in force.

    Args:
        files: the store.
        model: name of the model.
        alias: the alias.
    """

    def __init__(self, files: Location, model: str, alias: str) -> None:
        self._files, self._name = files, f"{model}@{alias}"
        self._folder = f"{model}/{Promotion.folder}/{alias}"
        self._alias = f"{model}/{Alias.folder}/{alias}.json"

    def named(self) -> Alias | None:
        """What the alias names now; None if there is no such alias."""
        return Alias.read(self._files, self._alias)

    def paths(self, id_: str = "") -> list[str]:
        """The files of the entries of a version, oldest first; of all versions without an id."""
        paths = listed(self._files, self._folder)
        return [path for path in paths if path.endswith(f"-{id_[:12]}.json" if id_ else "")]

    def in_force(self, named: Alias | None) -> list[Promotion]:
        """The entries that count, refusals aside, oldest first; see `in_force`."""
        return in_force(named, lambda path: Promotion.read(self._files, path))

    def rolled_back(self, named: Alias | None, id_: str) -> str:
        """When and why the alias was rolled back from a version; empty if it was not."""
        if named is None or not self.paths(id_):
            return ""  # Most challengers are new, and the entries need not be read.
        rollback = returns(self.in_force(named))[1].get(id_)
        if rollback is None:
            return ""
        reason = f" ({rollback.reason})" if rollback.reason else ""
        left = f"{named.alias} was rolled back from {named.model}@{id_[:12]}"
        return f"{left} at {rollback.time[:16]}{reason}"

    def refuse(self, entry: Promotion) -> Promotion:
        """Record a refusal, unless the last one was the same."""
        for last in read_all(self._files, Promotion, self.paths(entry.id)[-1:]):
            if replace(last, time=entry.time, by=entry.by) == entry:
                return last
        return entry.write(self._files)

    def move(self, chosen: Callable[[Alias | StoreError | None], Move]) -> Promotion:
        """Record an entry and make the alias name it, and again if another process was faster.

        Args:
            chosen: makes the move, by what the alias names now, or the error of its file.

        Returns:
            The entry as it is recorded.
        """
        with self._files.lock(self._alias):
            for _ in contended_attempts():
                seen = self._files.revision(self._alias)
                named: Alias | StoreError | None = None
                try:
                    if seen.data is not None:
                        named = Alias.parse(self._files, self._alias, seen.data)
                except StoreError as error:
                    named = error
                entry, previous = chosen(named)
                if entry.action == "unchanged":
                    return entry
                entry.write(self._files)
                moved = Alias(entry.model, entry.alias, entry.id, entry.time, previous)
                if self._files.replace(self._alias, moved.encode(), seen):
                    return entry
        raise StoreError(
            f"'{self._name}': other processes promoted first {CONTENDED_ATTEMPTS} times; try again "
            "later."
        )


def _path(model: str, alias: str, time: str, id_: str) -> str:
    return f"{model}/{Promotion.folder}/{alias}/{file_name(time, id_)}.json"
