"""models, promote, inspect: what lies in a store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probclass_core.cli.options import Json, Ref, Store
from probclass_core.cli.output import column_values, facts, minute, put, put_json, table
from probclass_core.errors import SpecError, nearest, one_of

if TYPE_CHECKING:
    import pyarrow as pa

    from probclass_core import Alias, ModelVersion
    from probclass_core.arrow.bundle import Bundle

_ROWS = 20


def models(
    store: Store,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the versions of this model.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models of a store, or the versions of one.

    Example: probclass models air --store models
    """
    from probclass_core import ModelStore

    shelf = ModelStore(store)
    names = shelf.models() if name is None else [name]
    versions = {each: shelf.versions(each) for each in names}
    aliases = {each: shelf.aliases(each) for each in names}
    if as_json:
        listed = [
            {
                "name": each,
                "versions": [vars(version) for version in versions[each]],
                "aliases": {alias: vars(record) for alias, record in aliases[each].items()},
            }
            for each in names
        ]
        put_json({"store": store, "models": listed})
    elif not names:
        put(f"The store at {store} holds no models.")
    elif name is None:
        columns = {
            "model": names,
            "versions": [len(versions[each]) for each in names],
            "latest": [minute(versions[each][-1].created) for each in names],
            "aliases": [", ".join(aliases[each]) for each in names],
        }
        put(table(columns, f"Models in {store}"))
    else:
        columns = {
            "version": [version.id[:12] for version in versions[name]],
            "saved": [minute(version.created) for version in versions[name]],
            "rows": [version.provenance.get("rows") for version in versions[name]],
            "trained on": [_origin(version.provenance) for version in versions[name]],
            "aliases": [", ".join(_naming(version, aliases[name])) for version in versions[name]],
        }
        put(table(columns, f"Versions of {name}, oldest first"))


def promote(
    ref: Ref,
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="Such as champion.")],
    store: Store,
    as_json: Json = False,
) -> None:
    """Let an alias name this version from now on, in one step.

    Example: probclass promote air@1f0c2a9b champion --store models
    """
    from probclass_core import ModelStore

    shelf = ModelStore(store)
    version = shelf.resolve(ref)
    record = shelf.promote(version.model, version, alias)
    if as_json:
        put_json(vars(record))
        return
    before = f" (before: {record.previous[:12]})" if record.previous else ""
    put(f"{record.model}@{record.alias} is {record.id[:12]}{before}")


def inspect(
    ref: Ref,
    store: Store,
    block: Annotated[
        str | None, typer.Option("--block", metavar="NAME", help="Only this block.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            metavar="N",
            min=0,
            help=f"Rows of each table; by default {_ROWS}, in JSON all; 0 shows none.",
        ),
    ] = None,
    linear: Annotated[
        bool,
        typer.Option("--linear", help="The weights of a linear model, in place of the card."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a model card: what it is, what it was trained on, and its parameters.

    It needs none of the model's estimators installed, unless --linear is asked for.

    Example: probclass inspect air@champion --block gaussian_full
    """
    from probclass_core import ModelStore

    shelf = ModelStore(store)
    version = shelf.resolve(ref)
    if linear:
        if block is not None:
            raise SpecError("--linear tells of the whole model; leave out --block.")
        _put_linear(shelf.load(version.ref).linear_form(), version, rows, as_json)
        return
    bundle = shelf.read_bundle(version.ref)
    aliases = _naming(version, shelf.aliases(version.model))
    blocks = {each["name"]: each for each in bundle.content["spec"]["blocks"]}
    if block is not None and block not in blocks:
        raise SpecError(
            f"{version.model} has no block {block!r}; it has {one_of(blocks)}."
            + nearest(block, blocks)
        )
    chosen = list(blocks) if block is None else [block]
    if as_json:
        put_json(_document(version, aliases, bundle, chosen, rows))
        return
    limit = _ROWS if rows is None else rows
    tables = [table(bundle.tables[name], _title(blocks[name]), limit=limit) for name in chosen]
    if block is not None:
        put(*tables)
        return
    card, training = facts(_card(version, aliases, bundle)), facts(_training(bundle), "Training")
    put(card, training, table(bundle.tables["priors"], "Classes", limit=limit), *tables)


def _document(
    version: ModelVersion,
    aliases: list[str],
    bundle: Bundle,
    blocks: Sequence[str],
    rows: int | None,
) -> dict[str, Any]:
    return {
        "model": version.ref,
        "model_id": version.id,
        "created": version.created,
        "aliases": aliases,
        "spec": bundle.content["spec"],
        "features": dict(bundle.content["features"]),
        "training": bundle.provenance,
        "priors": bundle.tables["priors"].to_pylist(),
        "blocks": {
            name: {
                **bundle.content["blocks"][name],
                "parameters": _records(bundle.tables[name], rows),
            }
            for name in blocks
        },
    }


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
    """What the provenance tells of the fit, and of what was measured after it."""
    told = {**bundle.provenance, "source": _origin(bundle.provenance) or None}
    return {
        key.replace("_", " "): _measured(value) if _is_measured(value) else value
        for key, value in told.items()
        if key not in ("partition", "plugins", "where")
    }


def _put_linear(form: pa.Table, version: ModelVersion, rows: int | None, as_json: bool) -> None:
    """The weights of `Model.linear_form`; the row without feature is the intercept."""
    if as_json:
        linear = _records(form, rows)
        put_json({"model": version.ref, "model_id": version.id, "linear": linear})
        return
    limit = _ROWS if rows is None else rows
    put(table(form, f"log p(x, class) of {version.model}, but for a common term", limit=limit))


def _title(block: dict[str, Any]) -> str:
    options = {
        key: value for key, value in block.items() if key not in ("name", "estimator", "columns")
    }
    chosen = ", ".join(f"{key} {json.dumps(value)}" for key, value in options.items())
    estimator = "" if block["name"] == block["estimator"] else f" ({block['estimator']})"
    columns = ", ".join(block["columns"])
    return f"Block {block['name']}{estimator}: {columns}" + (f"; {chosen}" if chosen else "")


def _records(parameters: pa.Table, limit: int | None) -> list[dict[str, Any]]:
    columns = column_values(parameters, limit)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _origin(provenance: Mapping[str, Any]) -> str:
    """Source, partition and conditions as one would type them."""
    partition, where = provenance.get("partition") or {}, provenance.get("where") or ()
    parts = [str(provenance.get("source", "")), *(f"{key}={partition[key]}" for key in partition)]
    if isinstance(where, str):  # an expression, which fit was given from code
        parts.append(where)
    else:
        parts += [" ".join((column, operator, _words(value))) for column, operator, value in where]
    return ", ".join(part for part in parts if part)


def _plugins(provenance: Mapping[str, Any]) -> str:
    """The distributions that made the model's estimators, the built-in ones left out."""
    origins = {tuple(origin.values()) for origin in provenance.get("plugins", {}).values()}
    return ", ".join(sorted(" ".join(origin) for origin in origins))


def _is_measured(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("rows"), int)


def _measured(values: Mapping[str, Any]) -> str:
    """What was measured after the fit: by which method, on how many rows, from where."""
    method = f"{values['method']}, " if "method" in values else ""
    origin = _origin(values)
    return f"{method}{values['rows']:,} rows" + (f" of {origin}" if origin else "")


def _words(value: Any) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, list) else str(value)


def _naming(version: ModelVersion, aliases: Mapping[str, Alias]) -> list[str]:
    """The aliases that name this version."""
    return [name for name, alias in aliases.items() if alias.id == version.id]
