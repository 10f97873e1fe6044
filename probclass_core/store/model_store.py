"""Save, load, list and promote models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from types import EllipsisType
from typing import Any
from urllib.parse import urlsplit

from probclass_core.arguments import checked_number, checks_arguments
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
from probclass_core.io.filesystem import Location
from probclass_core.io.inspection import scored_by
from probclass_core.io.object_stores import open_location
from probclass_core.io.references import ABANDONED, TableRef
from probclass_core.io.storage_options import SERVICE_OF
from probclass_core.model.model import Model, ModelOption, as_model
from probclass_core.model.stored import model_from_bundle
from probclass_core.store.gate import Decision, Gate
from probclass_core.store.promotions import Ledger, Move, Promotion, counted, returns, user
from probclass_core.store.records import (
    DEFAULT_ALIAS,
    MANIFEST,
    PREVIOUS,
    Alias,
    ModelVersion,
    Training,
    check_alias,
    check_model_name,
    encode_json,
    is_id,
    is_id_prefix,
    is_model_name,
    listed,
    parse_ref,
    read_all,
    read_json,
    timestamp,
)
from probclass_core.store.results import (
    Evaluated,
    EvaluationRecord,
    ModelRecords,
    Scored,
    ScoringRecord,
    evaluation_record,
    new_partitions,
    read_model_records,
    scoring_records,
)

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
        model: ModelOption,
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
        made = as_model(model)
        inputs, bundle = made.inputs, made.to_bundle()
        recorded = plain_json(provenance or {}, "provenance")
        training = Training(name, inputs or bundle.content_id, bundle.content_id)
        stored = self._stored(training)
        if stored is None:
            with self._files.lock(training.path):
                stored = self._stored(training)  # another process may have been faster
                if stored is None:
                    if inputs is not None:  # first: it counts once the version exists
                        training.write(self._files)
                    manifest = {
                        **bundle.manifest(),
                        "provenance": {**bundle.provenance, **recorded},
                        "inputs": inputs,
                        "created": timestamp(),
                    }
                    files = {TABLES: bundle.data, MANIFEST: encode_json(manifest)}
                    self._files.publish(f"{name}/{training.id}", files)
                    return self._version(name, training.id)
        self._bundle(name, stored)  # raises an error if it is damaged
        return self._version(name, stored)

    def _stored(self, training: Training) -> str | None:
        """The version with this content, or that the same training made; None if there is none."""
        known = None
        with suppress(StoreError):  # saving repairs a damaged record
            known = Training.read(self._files, training.path)
        ids = [one.id for one in (known, training) if one is not None]
        return next((id_ for id_ in ids if self._has(training.model, id_)), None)

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
        manifests = [f"{name}/{id_}/{MANIFEST}" for id_ in self._files.names(name) if is_id(id_)]
        versions = read_all(self._files, ModelVersion, manifests)
        if not versions:
            self._check_exists(name)  # raises an error that lists the models
        return sorted(versions, key=lambda version: (version.created, version.id))

    def aliases(self, name: str) -> dict[str, Alias]:
        """Return all aliases of a model by name, sorted.

        Raises:
            StoreError: if there is no such model, or the file of an alias is damaged.
        """
        self._check_exists(name)
        paths = listed(self._files, f"{name}/{Alias.folder}")
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

        ledger, metrics = self._ledger(name, alias), plain_json(metrics or {}, "metrics")

        def chosen(named: Alias | StoreError | None) -> Move:
            current = named if isinstance(named, Alias) else None  # a damaged one is repaired
            current_id = None if current is None else current.id
            if expected_id not in (..., current_id):
                found = "nothing" if current_id is None else f"{current_id[:12]}…"
                raise StoreError(
                    f"'{name}@{alias}' was promoted by another process: it names {found}, not the "
                    "expected version; compare with the version that it names now, and try again."
                )
            entry = Promotion.of(
                promoted, alias, current, by, provenance, reason=reason, metrics=metrics
            )
            if current_id == promoted.id:
                return entry.unchanged(), current_id
            if not force and (why := ledger.rolled_back(current, promoted.id)):
                ledger.refuse(replace(entry, action="refused", reason=why))
                raise RolledBackError(f"{why}; {_TO_PROMOTE_AGAIN}.")
            return entry, current_id

        return ledger.move(chosen)

    def promote_if_better(
        self,
        challenger: ModelVersion | str,
        alias: str,
        judge: Callable[
            [ModelVersion, ModelVersion | None], Evaluated | Mapping[str, Any] | Decision
        ],
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
                rows: a `PairedEvaluation`, or the same as plain values; see `Gate.decide`. Or
                decides by itself.
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
        ledger = self._ledger(version.model, alias)
        named = ledger.named()
        champion = None if named is None else self._version(version.model, named.id)
        entry = Promotion.of(
            version, alias, named, by, provenance, action="refused", metrics=gate.describe()
        )
        if champion is not None and champion.id == version.id:
            return entry.unchanged()
        if why := ledger.rolled_back(named, version.id):
            return ledger.refuse(replace(entry, reason=f"{why}; {_TO_PROMOTE_AGAIN}"))
        decision = judge(version, champion)
        if not isinstance(decision, Decision):
            values = decision if isinstance(decision, Mapping) else decision.to_dict()
            decision = gate.decide(values, alias)
        metrics = plain_json({**entry.metrics, **decision.numbers}, "metrics")
        entry = replace(entry, metrics=metrics, reason=decision.reason)
        if not decision.accepted:
            return ledger.refuse(entry)
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
            return self._ledger(entry.model, entry.alias).refuse(replace(entry, reason=reason))
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

        ledger = self._ledger(name, alias)

        def chosen(named: Alias | StoreError | None) -> Move:
            if isinstance(named, StoreError):
                raise named
            current = named or self._existing_alias(name, alias)
            entries = ledger.in_force(current)
            stack, undone = returns(entries)
            if left is not None and left.id != current.id:
                if left.id in undone:
                    why = f"{alias} was rolled back from {left.short} already"
                    return replace(entries[-1], action="unchanged", reason=why), None
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
            entry = Promotion.of(
                self._version(name, target.id),
                alias,
                current,
                by,
                provenance,
                action="rolled_back",
                reason=reason,
                restores=target.time,
            )
            return entry, stack[position - 1].id if position else None

        return ledger.move(chosen)

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
        _, undone = returns(self._ledger(entry.model, entry.alias).in_force(alias))
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
        ledgers = [self._ledger(name, each) for each in names]
        aliases = [named for each in ledgers if (named := each.named()) is not None]
        paths = [path for each in ledgers for path in each.paths()]
        return counted(read_all(self._files, Promotion, paths), aliases)

    def ledger(self, name: str, alias: str = DEFAULT_ALIAS) -> Iterator[Promotion]:
        """Yield the entries of an alias, the newest first, reading each when it is needed.

        Unlike in `history`, an entry of a promotion that was stopped before the alias moved is
        among them, and damaged entries are left out.

        Args:
            name: name of the model.
            alias: alias that was promoted or rolled back.
        """
        check_model_name(name)
        for path in reversed(self._ledger(name, check_alias(alias)).paths()):
            with suppress(StoreError):
                if (entry := Promotion.read(self._files, path)) is not None:
                    yield entry

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
                f"{version.short} has the alias {one_of(named)}; promote another version to it "
                "first, or roll it back."
            )
        if dry_run:
            return version
        folder = f"{version.model}/{version.id}"
        self._files.remove(f"{folder}/{MANIFEST}")  # without it the version does not exist
        self._files.remove_folder(folder)
        self._files.remove_folder(_evaluations_of(version))
        if version.inputs is not None:
            self._files.remove(Training(version.model, version.inputs, version.id).path)
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
        checked_number("keep", keep, whole=True)
        versions = self.versions(name)
        in_use = {model_id for sink in sinks for model_id in scored_by(sink)}
        for alias, named in self.aliases(name).items():
            in_use |= {entry.id for entry in returns(self._ledger(name, alias).in_force(named))[0]}
        newest = {version.id for version in versions[len(versions) - keep :]} if keep else set()
        latest = datetime.now(UTC) - older_than
        pruned = [
            version
            for version in versions
            if version.id not in in_use | newest
            and datetime.fromisoformat(version.created) <= latest
        ]
        return [self.delete(version, dry_run=dry_run) for version in pruned]

    def _ledger(self, name: str, alias: str) -> Ledger:
        return Ledger(self._files, name, alias)

    def _existing_alias(self, name: str, alias: str) -> Alias:
        named = self._ledger(name, alias).named()
        if named is None:
            raise self._unknown(name, alias)
        return named

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
        record = evaluation_record(self.resolve(version), evaluation, on or {}, provenance or {})
        return EvaluationRecord.read(self._files, record.path) or record.write(self._files)

    def evaluations(self, version: ModelVersion | str) -> list[EvaluationRecord]:
        """Return the recorded evaluations of a version, oldest first.

        Raises:
            StoreError: if there is no such version, or a record is damaged.
        """
        folder = _evaluations_of(self.resolve(version))
        records = read_all(self._files, EvaluationRecord, listed(self._files, folder))
        return sorted(records, key=lambda record: (record.created, record.id))

    def evaluation(self, version: ModelVersion | str, record: str) -> EvaluationRecord:
        """Return one recorded evaluation of a version, with its tables.

        Args:
            version: version that was evaluated, or a reference to it.
            record: `EvaluationRecord.id`.

        Raises:
            StoreError: if there is no such version or evaluation, or it is damaged.
        """
        found, resolved = None, self.resolve(version)
        if is_id(record):
            path = f"{_evaluations_of(resolved)}/{record}.json"
            found = EvaluationRecord.read(self._files, path)
        if found is None:
            raise StoreError(f"{resolved.short!r} has no evaluation {record[:12]!r}.")
        return found

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
        were recorded when they were written, are not recorded again, so a retry is harmless. The
        histograms of the health are in the commits of the sink alone, see `commits`.

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
        records = scoring_records(resolved, report, partitions, provenance or {})
        return [record.write(self._files) for record in records]

    def scorings(self, name: str) -> list[ScoringRecord]:
        """Return the recorded scorings of a model, oldest first.

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
            raise self._unknown(name, content_id[:12])
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
            raise self._unknown(name, content_id[:12])
        return version

    def _unknown(self, name: str, selector: str) -> StoreError:
        """The error that a model has no such version or alias; it lists the ones that it has."""
        self._check_exists(name)
        return StoreError(
            f"model {name!r} has no version or alias {selector!r}; it has {self._choices(name)}."
            + nearest(selector, self._alias_names(name))
        )

    # Resolving references

    def _resolve_id(self, name: str, selector: str | None) -> str:
        if selector is not None and is_id(selector) and self._has(name, selector):
            return selector  # without listing all versions
        if selector is None or is_id_prefix(selector):
            ids = [id_ for id_ in self._ids(name) if id_.startswith((selector or "").lower())]
            if len(ids) == 1:
                return ids[0]
            if selector is None and ids:
                raise StoreError(
                    f"model {name!r} has {len(ids)} versions; choose one, as in '{name}@champion': "
                    f"it has {self._choices(name)}."
                )
            if ids:
                raise StoreError(
                    f"'{name}@{selector}' matches {len(ids)} versions, {one_of(ids)}; give more "
                    "digits."
                )
        elif "@" not in selector and (named := self._ledger(name, selector).named()) is not None:
            return named.id
        elif "@" in selector or selector == PREVIOUS:
            alias = self._existing_alias(name, selector.rpartition("@")[0] or DEFAULT_ALIAS)
            if alias.previous is None:
                raise StoreError(f"'{name}@{alias.alias}' named no version before this one.")
            return alias.previous
        raise self._unknown(name, str(selector))

    def _model_folders(self) -> list[str]:
        return [name for name in self._files.names("") if is_model_name(name)]

    def _has(self, name: str, content_id: str) -> bool:
        return self._files.is_file(f"{name}/{content_id}/{MANIFEST}")

    def _ids(self, name: str) -> Iterator[str]:
        return (id_ for id_ in self._files.names(name) if is_id(id_) and self._has(name, id_))

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
        return [PurePath(path).stem for path in listed(self._files, f"{name}/{Alias.folder}")]

    def _choices(self, name: str) -> str:
        versions = one_of(id_[:12] for id_ in self._ids(name))
        return f"aliases {one_of(self._alias_names(name))}; versions {versions}"


def _evaluations_of(version: ModelVersion) -> str:
    return f"{version.model}/{EvaluationRecord.folder}/{version.id}"


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
        from urllib.request import url2pathname  # takes as long to import as all of our store

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
