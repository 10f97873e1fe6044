"""Save, load, list and promote models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import EllipsisType
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit
from urllib.request import url2pathname

from probclass_core.arguments import checks_arguments
from probclass_core.arrow.bundle import TABLES, Bundle, plain_json
from probclass_core.errors import (
    RollbackError,
    RolledBackError,
    SpecError,
    StoreError,
    TableError,
    hide_credentials,
    nearest,
    one_of,
    suggest,
)
from probclass_core.io.conditional_writes import Revision
from probclass_core.io.filesystem import Location, open_location
from probclass_core.io.inspection import scored_by
from probclass_core.io.references import ABANDONED, TableRef
from probclass_core.io.retry import CONTENDED_ATTEMPTS, contended_attempts
from probclass_core.io.storage_options import SERVICE_OF
from probclass_core.model.model import Model, ModelOption, as_model
from probclass_core.model.stored import model_from_bundle
from probclass_core.store.evaluations import (
    Evaluated,
    EvaluationRecord,
    evaluations,
    read_evaluation,
    record_evaluation,
)
from probclass_core.store.gate import Gate
from probclass_core.store.model_records import ModelRecords, read_model_records
from probclass_core.store.promotions import (
    Promotion,
    counted,
    in_force,
    ledger_paths,
    newest_first,
    record_promotion,
    returns,
    user,
)
from probclass_core.store.records import (
    encode_json,
    is_id,
    read_all,
    read_json,
    read_records,
    timestamp,
)
from probclass_core.store.references import (
    DEFAULT_ALIAS,
    MANIFEST,
    PREVIOUS,
    Alias,
    ModelVersion,
    check_alias,
    check_model_name,
    is_id_prefix,
    is_model_name,
    parse_ref,
)
from probclass_core.store.scorings import (
    Scored,
    ScoringRecord,
    new_partitions,
    record_partitions,
)


@runtime_checkable
class Bundled(Protocol):
    """Anything that can be written as a bundle."""

    def to_bundle(self) -> Bundle:
        """Content, tables and provenance."""


_TO_PROMOTE_AGAIN = (
    "if that was a mistake, promote it with force and a reason (--force --reason TEXT)"
)


class ModelStore:
    """A folder of models: versions named by their content, and aliases that move between them.

    Args:
        uri: a local path or ``file://`` URI, or a URI of any file system that fsspec knows
            (``pip install 'probclass[fsspec]'``). The folder is made by the first save.
        options: arguments of the file system, as in a `TableRef`, such as credentials or an
            endpoint. They are never shown or recorded.

    Examples:
        >>> store = ModelStore("models")                                    # doctest: +SKIP
        >>> version = store.save(model, "air_quality")                      # doctest: +SKIP
        >>> store.promote("air_quality", version, alias="champion")         # doctest: +SKIP
        >>> store.load("air_quality@champion").id == version.id             # doctest: +SKIP
        True
    """

    @checks_arguments
    def __init__(
        self, uri: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None
    ) -> None:
        self.uri = os.fspath(uri)
        self._files = open_store_location(self.uri, options)

    def __repr__(self) -> str:
        return f"ModelStore({hide_credentials(self.uri)!r})"

    @property
    def files(self) -> Location:
        """The files of the store."""
        return self._files

    # Saving and loading

    def save(
        self,
        model: Bundled | ModelOption,
        name: str,
        *,
        provenance: Mapping[str, Any] | None = None,
    ) -> ModelVersion:
        """Save a model; if it is stored already, return that version unchanged.

        That is a version with the same content, or one that the same training made: with the same
        spec, rows and release, on any processor; see `Model.inputs`.

        Args:
            model: model to save, or a fitted `ProbClassifier`.
            name: name of the model; its versions share it.
            provenance: plain JSON values to record in addition to those of the fit, such as a run
                id.

        Raises:
            StoreError: if the name or provenance is not valid, the file system refuses, or the
                stored version is damaged.
        """
        check_model_name(name)
        made = model if isinstance(model, Bundled) else as_model(model)
        inputs = made.inputs if isinstance(made, Model) else None
        recorded = plain_json(provenance or {}, "provenance")
        bundle = made.to_bundle()
        stored = self._stored(name, bundle.content_id, inputs)
        if stored is not None:
            self._bundle(name, stored)  # raises an error if it is damaged
            return self._version(name, stored)
        manifest = {
            **bundle.manifest(),
            "provenance": {**bundle.provenance, **recorded},
            "inputs": inputs,
            "created": timestamp(),
        }
        files = {TABLES: bundle.data, MANIFEST: encode_json(manifest)}
        self._files.publish(f"{name}/{bundle.content_id}", files)
        return self._version(name, bundle.content_id)

    def _stored(self, name: str, content_id: str, inputs: str | None) -> str | None:
        """The version with this content, or that was made from these inputs; None if none was."""
        if self._files.is_file(f"{name}/{content_id}/{MANIFEST}"):
            return content_id
        if inputs is None:
            return None
        manifests = [(ModelVersion, path) for path in self._manifests(name)]
        known = read_records(self._files, manifests, brief=True)  # damaged ones are left out
        versions = (version for version in known if isinstance(version, ModelVersion))
        return next((version.id for version in versions if version.inputs == inputs), None)

    def load(self, ref: ModelVersion | str) -> Model:
        """Load the model that a reference names.

        The tables are first checked against their SHA-256; a local file above 256 MiB is mapped.

        Args:
            ref: ``name@alias``, ``name@<content id>``, ``name@<at least 8 first digits of it>``,
                or ``name`` if the model has one version; ``name@alias@previous`` for the version
                that the alias named before. Or a version.

        Raises:
            StoreError: if there is no such model or version, or it is damaged, or was written by a
                newer release.
            PluginError: if an estimator of the model is not installed.
        """
        where = repr(ref.ref if isinstance(ref, ModelVersion) else ref)
        return model_from_bundle(self.read_bundle(ref), where=where)

    def read_bundle(self, ref: ModelVersion | str) -> Bundle:
        """Read the verified tables and manifest of a version; its estimators need not be installed.

        Args:
            ref: reference to the version; see `load`.

        Raises:
            StoreError: see `load`.
        """
        version = self.resolve(ref)
        return self._bundle(version.model, version.id)

    # Listing

    def models(self) -> list[str]:
        """Return the names of all models, sorted; empty if no model was ever saved."""
        return [name for name in self._model_folders() if next(self._ids(name), None)]

    def versions(self, name: str) -> list[ModelVersion]:
        """Return all versions of a model, oldest first.

        Raises:
            StoreError: if there is no such model, or a version is damaged.
        """
        check_model_name(name)
        versions = read_all(self._files, ModelVersion, self._manifests(name))
        if not versions:
            self._check_exists(name)  # raises an error that lists the models
        return sorted(versions, key=lambda version: (version.created, version.id))

    def aliases(self, name: str) -> dict[str, Alias]:
        """Return all aliases of a model by name, sorted.

        Raises:
            StoreError: if there is no such model, or the file of an alias is damaged.
        """
        self._check_exists(name)
        paths = [_alias_path(name, alias) for alias in self._alias_names(name)]
        return {record.alias: record for record in read_all(self._files, Alias, paths)}

    def resolve(self, ref: ModelVersion | str) -> ModelVersion:
        """Return the version that a reference names now; a run resolves once and records the id.

        Args:
            ref: reference to the version; see `load`. A version is returned as it is.

        Raises:
            StoreError: if there is no such model or version, or the reference matches several.
        """
        if isinstance(ref, ModelVersion):
            return ref
        name, selector = parse_ref(ref)
        return self._version(name, self._resolve_id(name, selector))

    # Promoting

    def promote(
        self,
        name: str,
        version: ModelVersion | str,
        alias: str,
        *,
        expected: ModelVersion | str | EllipsisType | None = ...,
        force: bool = False,
        by: str | None = None,
        reason: str | None = None,
        metrics: Mapping[str, Any] | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> Promotion:
        """Make an alias name a version, in one step: a reader finds the old or the new version.

        The promotion is recorded, see `history`. Promoting the version that the alias names already
        changes nothing, so a retry is harmless. A version from which the alias was rolled back is
        refused, so that a repeated task does not bring it back; the refusal is recorded.

        Args:
            name: name of the model.
            version: version of that model, or a reference to it, its id, or one of its aliases.
            alias: alias to move, such as ``"champion"``.
            expected: version that the alias must name until then (compare and swap), given like
                `version`, or `None` if it must not exist yet; by default it may name any. Of two
                processes that expect the same version, one gets an error; only on file systems of
                fsspec are comparing and swapping two separate steps.
            force: whether to promote a version from which the alias was rolled back; needs a
                reason.
            by: who promotes, by default the user of this process.
            reason: why, in one line.
            metrics: plain JSON values on which the decision was based.
            provenance: plain JSON values to record with it, such as a run id.

        Returns:
            The entry of the ledger; its `action` is ``"promoted"``, or ``"unchanged"`` if the alias
            names the version already: nothing is recorded then.

        Raises:
            StoreError: if the alias is not valid, there is no such version of this model, or the
                alias does not name the expected version.
            RolledBackError: if the alias was rolled back from this version.
            SpecError: if `force` comes without a reason.
            NotSupportedError: if the store is on S3, Google Cloud Storage or Azure, and obstore is
                not installed (``pip install 'probclass[object-store]'``).
        """
        check_alias(alias)
        if force and not (reason or "").strip():
            raise SpecError(
                "force needs a reason (--force --reason TEXT), which the ledger of promotions "
                "keeps."
            )
        promoted = self._version_of(name, version)
        expected_id = expected
        if isinstance(expected, (ModelVersion, str)):
            expected_id = self._version_of(name, expected).id
        for seen in self._alias_revisions(name, alias):
            current = None
            with suppress(StoreError):  # promoting again repairs a damaged alias
                current = self._seen_alias(name, alias, seen)
            current_id = None if current is None else current.id
            if expected_id not in (..., current_id):
                named = "nothing" if current_id is None else f"{current_id[:12]}…"
                raise StoreError(
                    f"'{name}@{alias}' was promoted by another process: it names {named}, not the "
                    "expected version; compare with the version that it names now, and try again."
                )
            entry = _entry(promoted, alias, current, by, provenance)
            entry = replace(entry, reason=reason, metrics=metrics or {})
            if current_id == promoted.id:
                return _unchanged(entry)
            if not force and (why := self._rolled_back(current, promoted)):
                self._refuse(replace(entry, action="refused", reason=why))
                raise RolledBackError(f"{why}; {_TO_PROMOTE_AGAIN}.")
            if moved := self._move(seen, entry, current_id):
                return moved
        raise self._contended(name, alias)

    def promote_if_better(
        self,
        challenger: ModelVersion | str,
        alias: str,
        judge: Callable[[ModelVersion, ModelVersion | None], Evaluated | Mapping[str, Any]],
        *,
        gate: Gate | None = None,
        propose: bool = False,
        by: str | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> Promotion:
        """Promote a challenger if a gate lets it pass; `pc.promote_if_better` reads the rows.

        A challenger that does not pass is refused, and so is one from which the alias was rolled
        back; the refusal is recorded, see `history`. Without a champion, the version that the alias
        names, the challenger must only reach the floors of the gate.

        Args:
            challenger: version to promote, or a reference to it.
            alias: alias to move, such as ``"champion"``.
            judge: evaluates the challenger and the champion, which may be None, on the same labeled
                rows: a `PairedEvaluation`, or the same as plain values; see `Gate.decide`.
            gate: the conditions; those of ``Gate()`` by default.
            propose: whether a challenger that passes is left to somebody's decision: see `decide`.
            by: who promotes, by default the user of this process.
            provenance: plain JSON values to record with it, such as source, partition and run id.

        Returns:
            The entry of the ledger; its `action` is ``"promoted"``, ``"refused"``, or
            ``"unchanged"`` if the alias names the challenger already, or ``"proposed"``: nothing is
            recorded then.

        Raises:
            SpecError: if a metric of the gate needs a decision rule with costs.
            DataError: if a version cannot be evaluated, or not on the same rows as the other.
            StoreError: if there is no such version, or another process promotes meanwhile.
        """
        gate = Gate() if gate is None else gate
        check_alias(alias)
        version = self.resolve(challenger)
        named = self._alias(version.model, alias)
        champion = None if named is None else self._version(version.model, named.id)
        entry = _entry(version, alias, named, by, plain_json(provenance or {}, "provenance"))
        entry = replace(entry, action="refused", metrics=gate.describe())
        if champion is not None and champion.id == version.id:
            return _unchanged(entry)
        if why := self._rolled_back(named, version):
            return self._refuse(replace(entry, reason=f"{why}; {_TO_PROMOTE_AGAIN}"))
        judged = judge(version, champion)
        decision = gate.decide(judged if isinstance(judged, Mapping) else judged.to_dict(), alias)
        metrics = plain_json({**entry.metrics, **decision.numbers}, "metrics")
        entry = replace(entry, metrics=metrics, reason=decision.reason)
        if not decision.accepted:
            return self._refuse(entry)
        proposal = replace(entry, action="proposed")
        return proposal if propose else self.decide(proposal, by=by)

    def decide(
        self,
        proposal: Promotion,
        *,
        accepted: bool = True,
        by: str | None = None,
        reason: str | None = None,
    ) -> Promotion:
        """Promote a version that was proposed, or record that it is refused.

        Args:
            proposal: what `promote_if_better` returned with ``propose=True``.
            accepted: whether the alias is moved.
            by: who decided, by default the user of this process.
            reason: why, before the reason of the proposal.

        Returns:
            The entry of the ledger.

        Raises:
            RolledBackError: if the alias was rolled back from this version.
            StoreError: if there is no such version, or the alias names another champion by now,
                with which it was not compared.
        """
        reason = ": ".join(filter(None, (reason, proposal.reason)))
        if not accepted:
            entry = replace(proposal, action="refused", time=timestamp(), by=by or user())
            return self._refuse(replace(entry, reason=reason))
        return self.promote(
            proposal.model,
            proposal.id,
            proposal.alias,
            expected=proposal.previous,
            by=by,
            reason=reason,
            metrics=proposal.metrics,
            provenance=proposal.provenance,
        )

    def rollback(
        self,
        name: str,
        alias: str = DEFAULT_ALIAS,
        *,
        steps: int = 1,
        expected: ModelVersion | str | None = None,
        by: str | None = None,
        reason: str | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> Promotion:
        """Make an alias name the version that it named before the promotion in force.

        Rolling back again goes further back. The versions left behind are not promoted to this
        alias again, except by `promote` with ``force=True``.

        Args:
            name: name of the model.
            alias: alias to move back.
            steps: number of promotions to undo.
            expected: version to roll back from, or a reference to it. If the alias was rolled back
                from it already, nothing changes, so a retry is harmless.
            by: who rolls back, by default the user of this process.
            reason: why, in one line.
            provenance: plain JSON values to record with it, such as a run id.

        Returns:
            The entry of the ledger; its `action` is ``"rolled_back"``, or ``"unchanged"`` if the
            alias was rolled back from the expected version already.

        Raises:
            RollbackError: if there is no such promotion before, or the alias names another version
                than the expected one.
            StoreError: if there is no such alias, or the version was deleted.
        """
        check_alias(alias)
        left = None if expected is None else self._version_of(name, expected)
        for seen in self._alias_revisions(name, alias):
            current = self._seen_alias(name, alias, seen) or self._existing_alias(name, alias)
            entries = self._in_force(current)
            stack, undone = returns(entries)
            if left is not None and left.id != current.id:
                if left.id in undone:
                    why = f"{alias} was rolled back from {_short(left)} already"
                    return replace(entries[-1], action="unchanged", reason=why)
                raise RollbackError(
                    f"'{name}@{alias}' names {current.id[:12]}, not {left.id[:12]}, the expected "
                    "version; nothing to roll back."
                )
            position = len(stack) - 1 - steps
            if not 0 <= position < len(stack) - 1:
                raise RollbackError(
                    f"cannot roll back '{name}@{alias}' by {steps}: it has {len(stack) - 1} "
                    f"earlier promotions; 'probclass models history {name}' lists them."
                )
            target = stack[position]
            entry = _entry(self._version(name, target.id), alias, current, by, provenance)
            entry = replace(entry, action="rolled_back", reason=reason, restores=target.time)
            previous = stack[position - 1].id if position else None
            if moved := self._move(seen, entry, previous):
                return moved
        raise self._contended(name, alias)

    def left_behind(self, entry: Promotion) -> list[ModelVersion]:
        """The versions that a rollback left behind and that the alias has not named since.

        Args:
            entry: what `rollback` returned, or an entry of `history`.

        Returns:
            The versions whose promotion it undid, newest first; several after several steps. If the
            entry is not a rollback, all versions that the alias was rolled back from. Versions that
            were deleted are left out.

        Raises:
            StoreError: if there is no such alias, or an entry is damaged.
        """
        alias = self._existing_alias(entry.model, entry.alias)
        _, undone = returns(self._in_force(alias))
        left = [
            f"{entry.model}/{id_}/{MANIFEST}"
            for id_, rollback in undone.items()
            if entry.action != "rolled_back" or rollback.time == entry.time
        ]
        return read_all(self._files, ModelVersion, left)

    def history(self, name: str, alias: str | None = None) -> list[Promotion]:
        """Return the promotions of a model, rollbacks and refused ones included, oldest first.

        Args:
            name: name of the model.
            alias: only promotions to this alias; by default, to all aliases.

        Raises:
            StoreError: if there is no such model or alias, or an entry is damaged.
        """
        self._check_exists(name)
        refused_to = self._files.names(f"{name}/{Promotion.folder}")
        if alias is not None and alias not in refused_to:
            self._existing_alias(name, alias)
        names = {*self._alias_names(name), *refused_to} if alias is None else {alias}
        aliases = read_all(self._files, Alias, [_alias_path(name, each) for each in names])
        paths = [path for each in names for path in ledger_paths(self._files, name, each)]
        return counted(read_all(self._files, Promotion, paths), aliases)

    def ledger(self, name: str, alias: str = DEFAULT_ALIAS) -> Iterator[Promotion]:
        """Yield the entries of an alias, the newest first, reading each when it is needed.

        Unlike in `history`, an entry of a promotion that was stopped before the alias moved is
        among them, and damaged entries are left out.
        """
        check_model_name(name)
        return newest_first(self._files, name, check_alias(alias))

    def delete(self, ref: ModelVersion | str, *, dry_run: bool = False) -> ModelVersion:
        """Delete a version with its evaluations; its promotions stay in the ledger.

        Args:
            ref: reference to the version; see `load`.
            dry_run: whether only to check that it can be deleted.

        Raises:
            StoreError: if an alias names the version, there is no such version, or the file system
                refuses.
        """
        version = self.resolve(ref)
        aliases = self.aliases(version.model).items()
        if named := [alias for alias, record in aliases if record.id == version.id]:
            raise StoreError(
                f"{_short(version)} has the alias {one_of(named)}; promote another version to it "
                "first, or roll it back."
            )
        if dry_run:
            return version
        folder = f"{version.model}/{version.id}"
        self._files.remove(f"{folder}/{MANIFEST}")  # without it the version does not exist
        self._files.remove_folder(folder)
        self._files.remove_folder(f"{version.model}/{EvaluationRecord.folder}/{version.id}")
        return version

    def prune(
        self,
        name: str,
        *,
        keep: int,
        older_than: timedelta = ABANDONED,
        sinks: Iterable[str | Path | TableRef] = (),
        dry_run: bool = False,
    ) -> list[ModelVersion]:
        """Delete the old versions of a model with their evaluations, except those in use.

        In use are the versions that an alias names, those that an alias can be rolled back to, and
        those that scored rows of the given tables.

        Args:
            name: name of the model.
            keep: number of newest versions to keep, whether or not they are in use.
            older_than: least age of what is deleted; a younger version may belong to a run that has
                not promoted it yet. By default a day.
            sinks: scored tables; their files name the versions that scored them.
            dry_run: whether to delete nothing.

        Returns:
            The versions that were deleted, or would be, oldest first.

        Raises:
            SpecError: if keep is not a whole number of at least 0.
            StoreError: if there is no such model, or the file system refuses.
            TableError: if a table cannot be read, or does not record which versions scored it.
        """
        if not isinstance(keep, int) or keep < 0:
            raise SpecError(f"keep must be a whole number of at least 0, got {keep!r}.")
        versions = self.versions(name)
        in_use = {model_id for sink in sinks for model_id in scored_by(sink)}
        for alias in self.aliases(name).values():
            in_use |= {entry.id for entry in returns(self._in_force(alias))[0]}
        newest = {version.id for version in versions[len(versions) - keep :]} if keep else set()
        latest = datetime.now(UTC) - older_than
        pruned = [
            version
            for version in versions
            if version.id not in in_use | newest
            and datetime.fromisoformat(version.created) <= latest
        ]
        return [self.delete(version, dry_run=dry_run) for version in pruned]

    def _alias_revisions(self, name: str, alias: str) -> Iterator[Revision]:
        """What the file of an alias contains, once for each attempt at replacing it."""
        path = _alias_path(name, alias)
        with self._files.lock(path):
            for _ in contended_attempts():
                yield self._files.revision(path)

    def _seen_alias(self, name: str, alias: str, seen: Revision) -> Alias | None:
        if seen.data is None:
            return None
        return Alias.parse(self._files, _alias_path(name, alias), seen.data)

    def _contended(self, name: str, alias: str) -> StoreError:
        return StoreError(
            f"'{name}@{alias}': other processes promoted first {CONTENDED_ATTEMPTS} times; try "
            "again later."
        )

    def _move(self, seen: Revision, entry: Promotion, previous: str | None) -> Promotion | None:
        """Record an entry and make its alias name it, unless another process moved the alias.

        Args:
            seen: content of the file of the alias; on a local disk it must be locked.
            entry: the entry to record.
            previous: content id of the version that the alias names after a rollback of the entry.

        Returns:
            The entry as it is recorded; None if another process moved the alias first.
        """
        alias = Alias(entry.model, entry.alias, entry.id, entry.time, previous)
        entry = record_promotion(self._files, entry)
        return entry if self._files.replace(alias.path, alias.encode(), seen) else None

    def _refuse(self, entry: Promotion) -> Promotion:
        """Record a refusal, unless the last one was the same."""
        paths = ledger_paths(self._files, entry.model, entry.alias, entry.id)
        for last in read_all(self._files, Promotion, paths[-1:]):
            if replace(last, time=entry.time, by=entry.by) == entry:
                return last
        return record_promotion(self._files, entry)

    def _rolled_back(self, named: Alias | None, version: ModelVersion) -> str:
        """When and why an alias was rolled back from a version; empty if it was not."""
        if named is None or not ledger_paths(self._files, named.model, named.alias, version.id):
            return ""  # Most challengers are new, and the entries need not be read.
        rollback = returns(self._in_force(named))[1].get(version.id)
        if rollback is None:
            return ""
        reason = f" ({rollback.reason})" if rollback.reason else ""
        left = f"{named.alias} was rolled back from {_short(version)}"
        return f"{left} at {rollback.time[:16]}{reason}"

    def _existing_alias(self, name: str, alias: str) -> Alias:
        record = self._alias(name, alias)
        if record is None:
            self._resolve_id(name, alias)  # raises an error that lists the aliases
            raise StoreError(f"'{name}@{alias}' is not an alias.")
        return record

    def _version_of(self, name: str, version: ModelVersion | str) -> ModelVersion:
        ref = version.ref if isinstance(version, ModelVersion) else version
        ref = ref if "@" in ref else f"{name}@{ref}"
        if parse_ref(ref)[0] != name:
            raise StoreError(f"{ref!r} is not a version of model {name!r}; give one that is.")
        return self.resolve(ref)

    # Evaluations

    def record_evaluation(
        self,
        version: ModelVersion | str,
        evaluation: Evaluated,
        *,
        on: Mapping[str, Any] | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> EvaluationRecord:
        """Record an evaluation of a version; the same result on the same rows is recorded once.

        Args:
            version: version that was evaluated, or a reference to it.
            evaluation: evaluation of that version.
            on: plain JSON values that describe the rows, such as source, partition and where.
            provenance: plain JSON values to record with it, such as a run id.

        Raises:
            StoreError: if there is no such version, the evaluation is of another one, or the file
                system refuses.
        """
        return record_evaluation(
            self._files, self.resolve(version), evaluation, on or {}, provenance or {}
        )

    def evaluations(self, version: ModelVersion | str) -> list[EvaluationRecord]:
        """Return the recorded evaluations of a version, oldest first.

        Raises:
            StoreError: if there is no such version, or a record is damaged.
        """
        return evaluations(self._files, self.resolve(version))

    def evaluation(self, version: ModelVersion | str, record: str) -> EvaluationRecord:
        """Return one recorded evaluation of a version, with its tables.

        Args:
            version: version that was evaluated, or a reference to it.
            record: `EvaluationRecord.id`.

        Raises:
            StoreError: if there is no such version or evaluation, or it is damaged.
        """
        return read_evaluation(self._files, self.resolve(version), record)

    def evaluation_at_promotion(self, version: ModelVersion | str) -> EvaluationRecord | None:
        """Return the evaluation that later ones of a version are compared with.

        It is the last one that was recorded before the last promotion of the version, to any alias.
        If it was never promoted, or not evaluated before that, it is its first evaluation; None if
        it was never evaluated.

        Args:
            version: version that was evaluated, or a reference to it.

        Raises:
            StoreError: if there is no such version, or a record is damaged.
        """
        resolved = self.resolve(version)
        records = self.evaluations(resolved)
        promoted = max(
            (
                entry.time
                for entry in self.history(resolved.model)
                if entry.action == "promoted" and entry.id == resolved.id
            ),
            default="",
        )
        before = [record for record in records if record.created <= promoted]
        return next(iter([*before[-1:], *records]), None)

    # Scorings

    def record_scoring(
        self,
        version: ModelVersion | str,
        report: Scored,
        *,
        provenance: Mapping[str, Any] | None = None,
    ) -> list[ScoringRecord]:
        """Record which partitions were scored with a version, from which input and how healthy.

        The partitions that a check stopped are recorded as well, with the reason, and so are those
        that failed with an error which a retry does not fix. Partitions that were skipped, and that
        were recorded when they were written, are not recorded again, so a retry is harmless. Of a
        record above 1 MB, the histograms of the health are left out, and then all columns but the
        most unusual ones.

        Args:
            version: version that scored, or a reference to it.
            report: what `pc.score` returned, or the ``report`` of a `PartitionError` or a
                `HealthError`.
            provenance: plain JSON values to record with it, such as a run id.

        Returns:
            The new records: none if nothing is new, one for up to 500 partitions.

        Raises:
            StoreError: if there is no such version, the report is of another one, or the file
                system refuses.
        """
        resolved = self.resolve(version)
        partitions: Sequence[Mapping[str, Any]] = report.commits
        if any(one["skipped"] for one in partitions):
            known = read_model_records(self._files, resolved.model).scorings
            partitions = new_partitions(report, known)
        return record_partitions(self._files, resolved, report, partitions, provenance or {})

    def scorings(self, name: str) -> list[ScoringRecord]:
        """Return the recorded scorings of a model, oldest first, without histograms.

        Damaged records are left out; `records` lists them.

        Raises:
            StoreError: if there is no such model, or the file system refuses.
        """
        return self.records(name).scorings

    def records(self, name: str) -> ModelRecords:
        """Return all records of a model; one listing, and what this process has not read, are read.

        Raises:
            StoreError: if there is no such model, or the file system refuses.
        """
        check_model_name(name)
        records = read_model_records(self._files, name)
        if not records.versions and not records.damaged:
            self._check_exists(name)  # raises an error that lists the models
        return records

    def catalog(self) -> Iterator[ModelRecords]:
        """Yield the records of every model, by name.

        A damaged file does not hide other records or models: `ModelRecords.damaged` has a sentence
        for each. If the folder of a model cannot be read, that is all that its records contain.

        Raises:
            StoreError: if the store cannot be listed.
        """
        for name in self._model_folders():
            try:
                records = read_model_records(self._files, name)
            except StoreError as error:
                records = ModelRecords(name, damaged=[str(error)])
            if records.versions or records.damaged:
                yield records

    # Reading records

    def _bundle(self, name: str, content_id: str) -> Bundle:
        folder = f"{name}/{content_id}"
        where = f"model '{name}@{content_id[:12]}' ({self._files.uri_of(folder)})"
        manifest = read_json(self._files, f"{folder}/{MANIFEST}", ModelVersion.advice)
        if manifest is None:
            raise self._no_version(name, content_id)
        bundle = Bundle.from_files(
            manifest, lambda file: self._files.read(f"{folder}/{file}"), where=where
        )
        if bundle.content_id != content_id:
            raise StoreError(
                f"{where} contains version {bundle.content_id[:12]}…; rename the folder to that "
                "whole id, or remove it."
            )
        return bundle

    def _version(self, name: str, content_id: str) -> ModelVersion:
        version = ModelVersion.read(self._files, f"{name}/{content_id}/{MANIFEST}")
        if version is None:
            raise self._no_version(name, content_id)
        return version

    def _no_version(self, name: str, content_id: str) -> StoreError:
        path = self._files.uri_of(f"{name}/{content_id}/{MANIFEST}")
        return StoreError(
            f"model {name!r} has no version {content_id[:12]}… ({path} does not exist); it has "
            f"{self._choices(name)}."
        )

    def _alias(self, name: str, alias: str) -> Alias | None:
        return Alias.read(self._files, _alias_path(name, alias))

    def _in_force(self, alias: Alias | None) -> list[Promotion]:
        """The entries of the ledger that an alias names, oldest first."""
        return in_force(alias, lambda path: Promotion.read(self._files, path))

    # Resolving references

    def _resolve_id(self, name: str, selector: str | None) -> str:
        if selector is None:
            ids = self._known_ids(name)
            if len(ids) == 1:
                return ids[0]
            raise StoreError(
                f"model {name!r} has {len(ids)} versions; choose one, as in '{name}@champion': "
                f"it has {self._choices(name)}."
            )
        if is_id(selector) and self._files.is_file(f"{name}/{selector}/{MANIFEST}"):
            return selector  # without listing all versions
        if is_id_prefix(selector):
            matches = [id_ for id_ in self._known_ids(name) if id_.startswith(selector.lower())]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise StoreError(
                    f"'{name}@{selector}' matches {len(matches)} versions, {one_of(matches)}; "
                    "give more digits."
                )
        elif "@" not in selector and (record := self._alias(name, selector)) is not None:
            return record.id
        elif "@" in selector or selector == PREVIOUS:
            alias = selector.rpartition("@")[0] or DEFAULT_ALIAS
            return self._previous(self._existing_alias(name, alias))
        self._check_exists(name)
        raise StoreError(
            f"model {name!r} has no version or alias {selector!r}; it has {self._choices(name)}."
            + nearest(selector, self._alias_names(name))
        )

    def _previous(self, alias: Alias) -> str:
        """Content id of the version that an alias named before."""
        if alias.previous is None:
            raise StoreError(f"'{alias.model}@{alias.alias}' named no version before this one.")
        return alias.previous

    def _model_folders(self) -> list[str]:
        return [name for name in self._files.names("") if is_model_name(name)]

    def _manifests(self, name: str) -> list[str]:
        """The paths at which versions of a model have their manifests."""
        return [f"{name}/{id_}/{MANIFEST}" for id_ in self._files.names(name) if is_id(id_)]

    def _ids(self, name: str) -> Iterator[str]:
        ids = (folder for folder in self._files.names(name) if is_id(folder))
        return (id_ for id_ in ids if self._files.is_file(f"{name}/{id_}/{MANIFEST}"))

    def _known_ids(self, name: str) -> list[str]:
        """Content ids of the versions of a model; an error that lists the models if it has none."""
        self._check_exists(name)
        return list(self._ids(name))

    def _check_exists(self, name: str) -> None:
        """Refuse the name of a model without versions; the error lists the models."""
        check_model_name(name)
        if next(self._ids(name), None) is None:
            models = self.models()
            empty = "is empty; check the path, or save a model first."
            found = f"has {suggest(name, models)}" if models else empty
            where = self._files.uri_of("")
            raise StoreError(f"no model {name!r}: the store at {where} {found}")

    def _alias_names(self, name: str) -> list[str]:
        files = self._files.names(f"{name}/{Alias.folder}")
        return [file.removesuffix(".json") for file in files if file.endswith(".json")]

    def _choices(self, name: str) -> str:
        versions = one_of(id_[:12] for id_ in self._ids(name))
        return f"aliases {one_of(self._alias_names(name))}; versions {versions}"


def _entry(
    version: ModelVersion,
    alias: str,
    named: Alias | None,
    by: str | None,
    provenance: Mapping[str, Any] | None,
) -> Promotion:
    """The entry of a promotion of a version to an alias, which names another version until now."""
    return Promotion(
        model=version.model,
        alias=alias,
        action="promoted",
        id=version.id,
        previous=None if named is None else named.id,
        time=timestamp(),
        by=by or user(),
        provenance=provenance or {},
        before=None if named is None else named.promoted,
    )


def _unchanged(entry: Promotion) -> Promotion:
    """The entry of an alias that names the version already."""
    reason = f"{entry.model}@{entry.id[:12]} is the {entry.alias} already"
    return replace(entry, action="unchanged", reason=reason)


def _short(version: ModelVersion) -> str:
    return f"{version.model}@{version.id[:12]}"


def _alias_path(name: str, alias: str) -> str:
    return f"{name}/{Alias.folder}/{alias}.json"


def open_store_location(uri: str, options: Mapping[str, Any] | None) -> Location:
    """Open the folder of a store.

    Args:
        uri: local path, ``file://`` URI, or URI of another file system.
        options: arguments of the file system, as in a `TableRef`; a local path takes none.

    Raises:
        StoreError: if the scheme is unknown, or the library for it is not installed.
    """
    scheme, is_uri, _ = uri.partition("://")
    if scheme == "file" and is_uri:
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise StoreError(
                f"{uri!r} names the host {parts.netloc!r}; a local path is 'file:///…'."
            )
        uri, is_uri = url2pathname(parts.path), ""
    if not is_uri:
        uri = str(Path(uri).absolute())
    elif scheme in SERVICE_OF:
        try:
            ref = TableRef(uri, options=options or {})
        except TableError as error:
            raise StoreError(str(error)) from error
        uri, options = ref.uri, ref.options
    return open_location(uri, options, error=StoreError, folder_markers=True)
