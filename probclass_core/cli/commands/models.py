"""models and inspect: list, show and delete the models of a store, and their promotions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probclass_core.cli.command import Group
from probclass_core.cli.commands.promotions import document
from probclass_core.cli.options import DryRunRemoval, Json, ModelOptions, Store
from probclass_core.cli.output import (
    MAX_ROWS,
    Part,
    column_values,
    key_values,
    prose,
    show,
    show_json,
    show_message,
    table,
)
from probclass_core.errors import SpecError, suggest, without_credentials
from probclass_core.io.references import ABANDONED
from probclass_core.store.display import described_rows, minute

if TYPE_CHECKING:
    import pyarrow as pa

    from probclass_core.arrow.bundle import Bundle
    from probclass_core.store.references import Alias, ModelVersion


_MAX_BLOCKS = 12
"""Largest number of blocks whose parameters are shown at once."""

_BAR_WIDTH = 24


class _ListByDefault(Group):
    """A group whose first command runs if none is named: ``models air`` is ``models ls air``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] != ["--help"] and (not args or args[0] not in self.commands):
            args = ["ls", *args]
        return super().parse_args(ctx, args)


models = typer.Typer(
    cls=_ListByDefault,
    help="List the models of a store and their versions; their promotions; delete versions.",
)


@models.command("ls")
def ls(
    store: Store,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="List the versions of this model.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models in a store, or the versions of one model.

    Example: probclass models air --store models
    """
    from probclass_core import ModelStore

    model_store = ModelStore(store)
    found = [model_store.records(name)] if name is not None else [*model_store.catalog()]
    listed = [records for records in found if records.versions]
    damaged = [sentence for records in found for sentence in records.damaged]
    if as_json:
        documents = [
            {
                "name": records.model,
                "versions": [without_credentials(vars(version)) for version in records.versions],
                "aliases": {alias: vars(record) for alias, record in records.aliases.items()},
            }
            for records in listed
        ]
        show_json({"store": store, "models": documents})
    elif not listed:
        show(f"The store at {store} contains no models.")
    elif name is None:
        columns = {
            "model": [records.model for records in listed],
            "versions": [len(records.versions) for records in listed],
            "latest": [minute(records.versions[-1].created) for records in listed],
            "aliases": [", ".join(records.aliases) for records in listed],
        }
        show(table(columns, f"Models in {store}"))
    else:
        (records,) = listed
        columns = {
            "version": [version.id[:12] for version in records.versions],
            "saved": [minute(version.created) for version in records.versions],
            "rows": [version.provenance.get("rows") for version in records.versions],
            "trained on": [described_rows(version.provenance) for version in records.versions],
            "aliases": [
                ", ".join(_aliases_of(version, records.aliases)) for version in records.versions
            ],
        }
        show(table(columns, f"Versions of {name}, oldest first"))
    for sentence in damaged:
        show_message("warning", sentence, as_json=as_json)


@models.command("history")
def history(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")],
    store: Store,
    alias: Annotated[
        str | None,
        typer.Option("--alias", metavar="ALIAS", help="Only promotions to this alias."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Number of entries to show.")
    ] = MAX_ROWS,
    as_json: Json = False,
) -> None:
    """List the promotions of a model, newest first: who, when and why, refused ones included.

    Example: probclass models history air
    """
    from probclass_core import ModelStore

    entries = ModelStore(store).history(model, alias)[::-1]
    if as_json:
        show_json({"model": model, "promotions": [document(entry) for entry in entries]})
    elif not entries:
        show(f"No version of {model} was promoted.")
    else:
        columns = {
            "alias": [entry.alias for entry in entries],
            "what": [entry.action.replace("_", " ") for entry in entries],
            "version": [entry.id[:12] for entry in entries],
            "before": [entry.previous and entry.previous[:12] for entry in entries],
            "when": [minute(entry.time) for entry in entries],
            "by": [entry.by for entry in entries],
            "why": [entry.reason for entry in entries],
        }
        show(table(columns, f"Promotions of {model}, newest first", limit=limit))


@models.command("delete")
def delete(
    refs: Annotated[
        list[str],
        typer.Argument(metavar="REF…", help="Versions to delete, such as air@1f0c2a9b."),
    ],
    store: Store,
    dry_run: DryRunRemoval = False,
    as_json: Json = False,
) -> None:
    """Delete versions and their evaluations; a version with an alias is not deleted.

    Their promotions stay in the history. If one of the versions cannot be deleted, none is.

    Example: probclass models delete air@1f0c2a9b
    """
    from probclass_core import ModelStore

    model_store = ModelStore(store)
    versions = [model_store.delete(ref, dry_run=True) for ref in refs]
    if not dry_run:
        for version in versions:
            model_store.delete(version.ref)
    _show_deleted(store, versions, dry_run=dry_run, as_json=as_json)


@models.command("prune")
def prune(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")],
    store: Store,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=0, help="Number of newest versions to keep.")
    ],
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            min=0.0,
            help="Keep younger versions: their run may not have promoted them yet.",
        ),
    ] = ABANDONED / timedelta(days=1),
    sinks: Annotated[
        list[str] | None,
        typer.Option(
            "--scored", metavar="URI", help="Keep the versions that scored this table; repeatable."
        ),
    ] = None,
    dry_run: DryRunRemoval = False,
    as_json: Json = False,
) -> None:
    """Delete the old versions of a model and their evaluations, except those in use.

    In use are the versions that an alias names, those that an alias can be rolled back to, and
    those that scored rows of the tables given by --scored.

    Example: probclass models prune air --keep 12 --scored scored --dry-run
    """
    from probclass_core import ModelStore

    age = timedelta(days=older_than)
    pruned = ModelStore(store).prune(
        name, keep=keep, older_than=age, sinks=sinks or (), dry_run=dry_run
    )
    _show_deleted(store, pruned, dry_run=dry_run, as_json=as_json)


def _show_deleted(
    store: str, versions: Sequence[ModelVersion], *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        deleted = [version.ref for version in versions]
        show_json({"store": store, "dry_run": dry_run, "deleted": deleted})
    elif not versions:
        show("There is no version to delete.")
    else:
        verb = "Would delete" if dry_run else "Deleted"
        show("\n".join(f"{verb} {version.ref}" for version in versions))


def inspect(
    model: ModelOptions,
    *,
    block: Annotated[
        str | None, typer.Option("--block", metavar="NAME", help="Show only this block.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            metavar="N",
            min=0,
            help=f"Number of rows to show of each table; by default {MAX_ROWS}, in JSON all.",
        ),
    ] = None,
    linear: Annotated[
        bool,
        typer.Option("--linear", help="Show the weights of a linear model, not the model card."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a model card: the spec, what the model was trained on, and its parameters.

    The estimators of the model need not be installed, except for --linear.

    Example: probclass inspect air@champion --block gaussian_full
    """
    store, version = model.resolve()
    limit = MAX_ROWS if rows is None else rows
    if linear:
        if block is not None:
            raise SpecError("--linear shows the whole model and cannot be used with --block.")
        form = store.load(version.ref).linear_form()
        if as_json:
            records = _records(form, rows)
            show_json({"model": version.ref, "model_id": version.id, "linear": records})
        else:
            # The row without a feature is the intercept.
            title = f"log p(x, class) of {version.model}, up to a term that all classes share"
            show(table(form, title, limit=limit))
        return
    bundle = store.read_bundle(version.ref)
    aliases = _aliases_of(version, store.aliases(version.model))
    blocks = {values["name"]: values for values in bundle.content["spec"]["blocks"]}
    if block is not None and block not in blocks:
        raise SpecError(f"{version.model} has no block {block!r}; it has {suggest(block, blocks)}")
    names = list(blocks) if block is None else [block]
    if as_json:
        show_json(_document(version, aliases, bundle, names, rows))
        return
    tables = [table(bundle.tables[name], _title(blocks[name]), limit=limit) for name in names]
    if block is None:
        card = key_values(_card(version, aliases, bundle))
        training = key_values(_training(bundle), "Training")
        parts = [card, training, table(bundle.tables["priors"], "Classes", limit=limit)]
        if "block_weights" in bundle.tables:
            parts.append(_weights(bundle, limit))
        if len(tables) > _MAX_BLOCKS:
            parts.append(prose(f"{len(tables)} blocks; --block NAME shows the parameters of one."))
            tables = []
        if notes := [*bundle.provenance.get("spec_notes", ()), *bundle.provenance.get("notes", ())]:
            parts.append(prose("\n".join(["Notes", *notes])))
        if columns := bundle.provenance.get("columns"):
            seen = [{"column": name, **values} for name, values in columns.items()]
            by_name = {key: [row[key] for row in seen] for key in seen[0]}
            parts.append(table(by_name, "Columns of the training rows", limit=limit))
        tables = [*parts, *tables]
    show(*tables)


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


def _weights(bundle: Bundle, limit: int) -> Part:
    """The blocks by importance, with a bar for each; by weight if the weights were given."""
    from probclass_core.model.block_weights import ranked_blocks

    blocks = ranked_blocks(bundle.tables["block_weights"]).to_pydict()
    fitted = bundle.content["spec"]["block_weights"] == "fit"
    sizes = blocks["importance"] if fitted else blocks["weight"]
    largest = max(sizes) or 1.0
    bars = ["█" * round(_BAR_WIDTH * max(size, 0.0) / largest) for size in sizes]
    title = "Block weights; importance is the increase of the log loss without the block, in nats"
    columns = blocks if fitted else {name: blocks[name] for name in ("block", "weight")}
    return table({**columns, "": bars}, title if fitted else "Block weights", limit=limit)


def _card(version: ModelVersion, aliases: list[str], bundle: Bundle) -> dict[str, Any]:
    spec = bundle.content["spec"]
    return {
        "model": version.ref,
        "aliases": ", ".join(aliases) or None,
        "saved": minute(version.created),
        "label": spec["label"],
        "weight": spec.get("weight"),
        "prior": spec["prior"],
        "plugins": _plugins(bundle.provenance) or None,
    }


def _training(bundle: Bundle) -> dict[str, Any]:
    """The provenance of the fit, and of the calibration and density quantiles if there are any."""
    provenance = without_credentials(bundle.provenance)
    values = {**provenance, "source": described_rows(bundle.provenance) or None}
    return {
        key.replace("_", " "): _postfit(value) if _is_postfit(value) else value
        for key, value in values.items()
        if key not in ("columns", "notes", "partition", "plugins", "spec_notes", "where")
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


def _is_postfit(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("rows"), int)


def _postfit(values: Mapping[str, Any]) -> str:
    """What was measured on rows: the method, the number of rows, their source, the log loss."""
    applied = values.get("applied", True)
    remark = "" if applied else ", not applied: it does not lower the log loss"
    method = f"{values['method']}{remark}, " if "method" in values else ""
    rows = described_rows(values)
    losses = ""
    if "prior_log_loss" in values:
        losses = f"; log loss {values['log_loss']:.4f}, class prior {values['prior_log_loss']:.4f}"
    return f"{method}{values['rows']:,} rows" + (f" of {rows}" if rows else "") + losses


def _aliases_of(version: ModelVersion, aliases: Mapping[str, Alias]) -> list[str]:
    return [name for name, alias in aliases.items() if alias.id == version.id]
