"""calibrate: a new version of a model, its posteriors put right by held-out rows."""

from __future__ import annotations

from typing import Annotated

import typer

from probclass_core.cli.options import Json, Partition, Ref, Source, Store, Where, Workers
from probclass_core.cli.output import facts, progress, put, put_json, table
from probclass_core.cli.parsing import parse_partition, parse_where

_ROWS = 20


def calibrate(
    ref: Ref,
    source: Source,
    store: Store,
    method: Annotated[
        str,
        typer.Option(
            "--method", metavar="temperature|isotonic", help="One number, or a map per class."
        ),
    ] = "temperature",
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name to save under; by default the same."),
    ] = None,
    alias: Annotated[
        list[str] | None,
        typer.Option("--alias", metavar="ALIAS", help="Promote the version to this alias, too."),
    ] = None,
    partition: Partition = None,
    where: Where = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Put a model's posteriors right by labeled rows that its training did not see.

    The result is a version of its own; the model it came from stays as it is.

    Example: probclass calibrate air@champion lake --partition month=2014-01 --alias calibrated
    """
    import probclass_core as pc
    from probclass_core.store.references import check_alias, check_model_name

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    shelf = pc.ModelStore(store)
    version = shelf.resolve(ref)
    name, aliases = name or version.model, alias or []
    # What would stop the saving had better stop the work before it.
    check_model_name(name)
    for each in aliases:
        check_alias(each)
    model = shelf.load(version.ref)
    with progress("calibrating") as tell:
        calibrated = pc.calibrate(
            model,
            source,
            method,
            partition=one,
            where=conditions,
            workers=workers,
            progress=tell,
        )
    saved = shelf.save(calibrated, name)
    for each in aliases:
        shelf.promote(name, saved, each)
    rows = calibrated.training["calibration"]["rows"]
    assert calibrated.calibration is not None
    if as_json:
        put_json(
            {
                "model": saved.ref,
                "model_id": saved.id,
                "aliases": aliases,
                "of": version.ref,
                "store": store,
                "method": method,
                "rows": rows,
                "calibration": calibrated.calibration.to_pylist(),
            }
        )
        return
    named = ", ".join(f"{name}@{each}" for each in aliases) or None
    put(
        facts(
            {
                "saved": saved.ref,
                "as": named,
                "in": store,
                "of": version.ref,
                "rows": f"{rows:,} labeled",
            }
        ),
        table(calibrated.calibration, "Calibration", limit=_ROWS),
    )
