"""models and inspect: list, show and delete the models of a store, and their promotions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import click
import pyarrow as pa

import probclass_core as pc
from probclass_core import ModelStore
from probclass_core.arrow.bundle import Bundle
from probclass_core.cli.messages import log, progress
from probclass_core.cli.options import Age, Count, DryRun, EngineRows, Store, StoredModel
from probclass_core.cli.output import Part, column_values, prose, records_table, report_parts, show
from probclass_core.display import MOST_ROWS, TablePart, described_rows, minute
from probclass_core.errors import SpecError, check_known, without_credentials
from probclass_core.io.references import ABANDONED
from probclass_core.model.decision import DecisionRule
from probclass_core.model.description import describe
from probclass_core.store.gate import Gate
from probclass_core.store.promotions import Promotion
from probclass_core.store.records import Alias, ModelVersion
from probclass_core.store.results import ModelRecords

Name = Annotated[str, "MODEL: Name of the model."]

_MAX_BLOCKS = 12
"""Largest number of blocks whose parameters are shown at once."""

_NOT_SHOWN = {"source", "partition", "where", "notes", "spec_notes"}
"""What a card does not list of the provenance, because it says it in another way."""

NOT_PROMOTED = 1
"""Exit code of ``promote --if-better`` if the champion stays."""

Reason = Annotated[str | None, "TEXT: Why, for the ledger of promotions."]


def ls(
    name: Annotated[str | None, "NAME: List the versions of this model."] = None, *, store: Store
) -> None:
    """List the models in a store, or the versions of one model.

    Example: probclass models air --store models
    """
    models = ModelStore(store)
    found = [models.records(name)] if name is not None else [*models.catalog()]
    listed = [records for records in found if records.versions]
    documents = [
        {
            "name": records.model,
            "versions": [without_credentials(vars(version)) for version in records.versions],
            "aliases": {alias: vars(record) for alias, record in records.aliases.items()},
        }
        for records in listed
    ]
    if not listed:
        shown: Part = f"The store at {store} contains no models."
    elif name is None:
        columns: dict[str, list[Any]] = {
            "model": [records.model for records in listed],
            "versions": [len(records.versions) for records in listed],
            "latest": [minute(records.versions[-1].created) for records in listed],
            "aliases": [", ".join(records.aliases) for records in listed],
        }
        shown = TablePart(columns, f"Models in {store}", most=len(listed))
    else:
        versions = listed[0].versions
        shown = TablePart(_versions(listed[0]), f"Versions of {name}, oldest first", len(versions))
    show({"store": store, "models": documents}, shown)
    for records in found:
        for sentence in records.damaged:
            log.warning("%s", sentence)


def _versions(records: ModelRecords) -> dict[str, list[Any]]:
    versions = records.versions
    return {
        "version": [version.id[:12] for version in versions],
        "saved": [minute(version.created) for version in versions],
        "rows": [version.provenance.get("rows") for version in versions],
        "trained on": [described_rows(version.provenance) for version in versions],
        "aliases": [", ".join(_aliases_of(version, records.aliases)) for version in versions],
    }


def history(
    model: Name, *, store: Store, alias: str | None = None, limit: Count = MOST_ROWS
) -> None:
    """List the promotions of a model, newest first: who, when and why, refused ones included.

    Example: probclass models history air

    Options:
        alias: only promotions to this alias.
        limit: number of entries to show.
    """
    entries = ModelStore(store).history(model, alias)[::-1]
    names = ("alias", "action", "id", "previous", "time", "by", "reason")
    records = [{name: getattr(entry, name) for name in names} for entry in entries]
    show(
        {"model": model, "promotions": [document(entry) for entry in entries]},
        records_table(records, f"Promotions of {model}, newest first", limit)
        if entries
        else f"No version of {model} was promoted.",
    )


def delete(
    refs: Annotated[list[str], "REF…: Versions to delete, such as air@1f0c2a9b."],
    *,
    store: Store,
    dry_run: DryRun = False,
) -> None:
    """Delete versions and their evaluations; a version with an alias is not deleted.

    Their promotions stay in the history. If one of the versions cannot be deleted, none is.

    Example: probclass models delete air@1f0c2a9b
    """
    models = ModelStore(store)
    versions = [models.delete(ref, dry_run=True) for ref in refs]
    if not dry_run:
        for version in versions:
            models.delete(version.ref)
    _show_deleted(store, versions, dry_run=dry_run)


def prune(
    name: Name,
    *,
    store: Store,
    keep: Annotated[int, click.IntRange(min=0)],
    older_than: Age = ABANDONED / timedelta(days=1),
    sinks: Sequence[str] = (),
    dry_run: DryRun = False,
) -> None:
    """Delete the old versions of a model and their evaluations, except those in use.

    In use are the versions that an alias names, those that an alias can be rolled back to, and
    those that scored rows of the tables given by --scored.

    Example: probclass models prune air --keep 12 --scored scored --dry-run

    Options:
        keep: number of newest versions to keep.
        older_than: DAYS: keep younger versions: their run may not have promoted them yet.
        sinks: --scored URI: keep the versions that scored this table; repeatable.
    """
    pruned = ModelStore(store).prune(
        name, keep=keep, older_than=timedelta(days=older_than), sinks=sinks, dry_run=dry_run
    )
    _show_deleted(store, pruned, dry_run=dry_run)


def _show_deleted(store: str, versions: Sequence[ModelVersion], *, dry_run: bool) -> None:
    deleted = [version.ref for version in versions]
    verb = "Would delete" if dry_run else "Deleted"
    lines = [f"{verb} {ref}" for ref in deleted] or ["There is no version to delete."]
    show({"store": store, "dry_run": dry_run, "deleted": deleted}, "\n".join(lines))


def inspect(
    model: StoredModel,
    *,
    block: str | None = None,
    rows: Annotated[int | None, click.IntRange(min=0)] = None,
) -> None:
    """Show a model card: the spec, what the model was trained on, and its parameters.

    The estimators of the model need not be installed.

    Example: probclass inspect air@champion --block gaussian_full

    Options:
        block: NAME: show only this block.
        rows: number of rows to show of each table; by default 20, in JSON all.
    """
    version = model.version
    limit = MOST_ROWS if rows is None else rows
    bundle = model.models.read_bundle(version)
    aliases = _aliases_of(version, model.models.aliases(version.model))
    blocks = {values["name"]: values for values in bundle.content["spec"]["blocks"]}
    names = list(blocks) if block is None else [block]
    check_known(names, blocks, f"{version.model} has no block")
    parts: list[Part] = [] if block else [*_overview(version, aliases, bundle, limit)]
    if len(names) > _MAX_BLOCKS:
        parts.append(prose(f"{len(names)} blocks; --block NAME shows the parameters of one."))
    else:
        tables = {_title(blocks[name]): column_values(bundle.tables[name]) for name in names}
        parts += [TablePart(values, title, limit) for title, values in tables.items()]
    show(lambda: _document(version, aliases, bundle, names, rows), *parts)


def _overview(
    version: ModelVersion, aliases: list[str], bundle: Bundle, limit: int
) -> Iterator[Part]:
    """What a card says before the parameters."""
    provenance = without_credentials(bundle.provenance)
    facts = {
        "model": version.ref,
        "aliases": ", ".join(aliases) or None,
        "saved": minute(version.created),
        "plugins": _plugins(provenance) or None,
        "source": described_rows(provenance) or None,
    }
    training = {
        name: value
        for name, value in provenance.items()
        if name not in _NOT_SHOWN and not isinstance(value, Mapping)
    }
    yield facts | {name.replace("_", " "): value for name, value in training.items()}
    spec = pc.ModelSpec.from_dict(bundle.content["spec"])
    spec = replace(spec, notes=provenance.get("spec_notes", ()))
    described = describe(version.id, spec, bundle.tables["priors"], provenance, bundle.tables)
    yield from report_parts(described, limit)
    if columns := provenance.get("columns"):
        seen = [{"column": name, **values} for name, values in columns.items()]
        by_name = {key: [row[key] for row in seen] for key in seen[0]}
        yield TablePart(by_name, "Columns of the training rows", limit)


def _document(
    version: ModelVersion,
    aliases: list[str],
    bundle: Bundle,
    blocks: Sequence[str],
    rows: int | None,
) -> dict[str, Any]:
    weights = bundle.tables.get("block_weights")
    return {
        "model": version.ref,
        "model_id": version.id,
        "created": version.created,
        "aliases": aliases,
        "spec": bundle.content["spec"],
        "features": dict(bundle.content["features"]),
        "training": without_credentials(bundle.provenance),
        "priors": bundle.tables["priors"].to_pylist(),
        **({} if weights is None else {"block_weights": weights.to_pylist()}),
        "blocks": {
            name: {
                **bundle.content["blocks"][name],
                "parameters": _records(bundle.tables[name], rows),
            }
            for name in blocks
        },
    }


def _title(block: dict[str, Any]) -> str:
    options = ", ".join(
        f"{key} {json.dumps(value)}"
        for key, value in block.items()
        if key not in ("name", "estimator", "columns", "given")
    )
    estimator = "" if block["name"] == block["estimator"] else f" ({block['estimator']})"
    columns = ", ".join(block["columns"])
    if "given" in block:
        columns += f" given {', '.join(block['given'])}"
    return f"Block {block['name']}{estimator}: {columns}" + (f"; {options}" if options else "")


def _records(parameters: pa.Table, limit: int | None) -> list[dict[str, Any]]:
    columns = column_values(parameters, limit)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plugins(provenance: Mapping[str, Any]) -> str:
    """The distributions that provide the model's estimators, except the built-in ones."""
    origins = {tuple(origin.values()) for origin in provenance.get("plugins", {}).values()}
    return ", ".join(sorted(" ".join(origin) for origin in origins))


def _aliases_of(version: ModelVersion, aliases: Mapping[str, Alias]) -> list[str]:
    return [name for name, alias in aliases.items() if alias.id == version.id]


def promote(
    model: StoredModel,
    alias: Annotated[str, "ALIAS: Alias, such as champion."],
    source: Annotated[
        str | None, "SOURCE: With --if-better: table of labeled rows to compare on."
    ] = None,
    *,
    if_better: bool = False,
    gate: Gate,
    windows: str | None = None,
    force: bool = False,
    rows: EngineRows,
    decision: DecisionRule,
    reason: Reason = None,
) -> None:
    """Point an alias at a version of a model, in any case or only if it is better.

    With --if-better, both versions are evaluated on the same rows, which neither may be trained on,
    and the options from --metric to --allow-training-rows say what is better. Without a version to
    compare with, the floors decide. A version that was rolled back from is
    promoted again only by --force. The decision is recorded, see 'probclass models history'.

    Example: probclass promote air@new champion lake --if-better --partition month=2014-01

    Options:
        if_better: promote only if the version is better than the one that the alias names, on the
            same rows; exit code 1 if it is not.
        windows: COLUMN: with --if-better: partition column that divides the rows into judging
            windows.
        force: promote a version from which the alias was rolled back; needs --reason.
    """
    version = model.version
    if if_better:
        if source is None:
            raise SpecError("--if-better needs SOURCE, the table of labeled rows to compare on.")
        if force:
            raise SpecError("--force promotes without comparing; leave --if-better out.")
        with progress(f"evaluating {version.id[:12]}") as report:
            entry = pc.promote_if_better(
                model.models,
                version,
                source,
                alias,
                windows=windows,
                gate=None if gate == Gate() else gate,
                decision=decision,
                provenance={"reason": reason} if reason else None,
                progress=report,
                **vars(rows),
            )
    else:
        compared = source or windows or rows.partition or rows.where
        if compared or (gate, decision) != (Gate(), DecisionRule()):
            raise SpecError(
                "SOURCE, its rows and the options that say what is better need --if-better."
            )
        entry = model.models.promote(version.model, version, alias, reason=reason, force=force)
    show(document(entry), prose(_line(entry)))
    if entry.action == "refused":
        raise click.exceptions.Exit(NOT_PROMOTED)


def rollback(
    model: Annotated[str, "MODEL: Name of the model."],
    *,
    store: Store,
    alias: str = "champion",
    steps: Count = 1,
    reason: Reason = None,
) -> None:
    """Point an alias at the version that it named before the last promotion.

    Rolling back again goes one promotion further back. The version left behind stays in the store,
    and 'promote --if-better' does not promote it again.

    Example: probclass rollback air --reason "worse on new rows"

    Options:
        alias: alias to move back.
        steps: number of promotions to undo.
    """
    entry = pc.ModelStore(store).rollback(model, alias, steps=steps, reason=reason)
    show(document(entry), prose(_line(entry)))


def document(entry: Promotion) -> dict[str, Any]:
    """An entry of the ledger as plain JSON values."""
    return {key: one for key, one in vars(entry).items() if key not in ("before", "restores")}


def _line(entry: Promotion) -> str:
    version, before = f"{entry.model}@{entry.id[:12]}", str(entry.previous)[:12]
    if entry.action == "unchanged":
        return f"unchanged: {entry.reason}, nothing written"
    if entry.action == "refused":
        stays = f"{entry.model}@{before} stays {entry.alias}" if entry.previous else version
        return f"not promoted: {stays}: {entry.reason}"
    again = " again" if entry.action == "rolled_back" else ""
    reason = f": {entry.reason}" if entry.reason else ""
    named = f" (before: {before})" if entry.previous else ""
    return f"{entry.model}@{entry.alias} is {entry.id[:12]}{again}{named}{reason}"
