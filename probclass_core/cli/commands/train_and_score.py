"""fit, score, evaluate: the road end to end, from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from probclass_core.cli.decision_options import (
    By,
    Costs,
    MinDensityQuantile,
    MinProbability,
    decision_rule,
)
from probclass_core.cli.evaluation_output import show_evaluation
from probclass_core.cli.options import (
    Engine,
    Json,
    MaybeStore,
    Partition,
    Ref,
    Source,
    Store,
    Where,
    Workers,
)
from probclass_core.cli.output import facts, progress, put, put_json, table
from probclass_core.cli.parsing import parse_names, parse_partition, parse_where
from probclass_core.errors import SpecError

if TYPE_CHECKING:
    from probclass_core import Model, ModelSpec, ModelVersion
    from probclass_core.scoring.batch import PosteriorFormat
    from probclass_core.scoring.plan import Overwrite

_MOST_ROWS = 20


def fit(
    source: Source,
    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE", help="Model spec: TOML, YAML or JSON.")
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Make the spec from the table's columns.")
    ] = False,
    label: Annotated[
        str | None, typer.Option("--label", metavar="COLUMN", help="With --auto: the class.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="COLUMN,…", help="With --auto: columns to leave out."),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option("--weight", metavar="COLUMN", help="With --auto: the weight of a row."),
    ] = None,
    store: MaybeStore = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name to save the model under.")
    ] = None,
    alias: Annotated[
        list[str] | None,
        typer.Option("--alias", metavar="ALIAS", help="Promote the version to this alias, too."),
    ] = None,
    partition: Partition = None,
    where: Where = None,
    density_quantiles: Annotated[
        bool,
        typer.Option(
            "--density-quantiles",
            help="Read the rows again, and keep how dense they are; for --min-density-quantile.",
        ),
    ] = False,
    cache: Annotated[
        bool, typer.Option("--cache", help="Keep statistics in the store; reuse those it has.")
    ] = False,
    cache_store: Annotated[
        str | None,
        typer.Option("--cache-store", metavar="URI", help="The same, in another store."),
    ] = None,
    engine: Engine = None,
    workers: Workers = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and show the spec, as TOML; train nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model on a table and save it.

    With --auto, numbers become gaussian_diagonal and text categorical; partition columns are
    left out.

    Example: probclass fit lake --spec air.toml --store models --name air --alias champion
    """
    import probclass_core as pc
    from probclass_core.store.references import check_alias, check_model_name

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    excluded = parse_names("exclude", exclude or ())
    chosen = _spec(source, spec, auto, label, excluded, weight)
    if dry_run:
        _show_spec(source, chosen, as_json)
        return
    if store is None or name is None:
        raise SpecError(
            "fit needs --store (or PROBCLASS_STORE) and --name to save the model; "
            "--dry-run does without."
        )
    aliases = alias or []
    # What would stop the saving had better stop the training.
    check_model_name(name)
    for each in aliases:
        check_alias(each)
    shelf = pc.ModelStore(store)
    with progress("training") as tell:
        model = pc.fit(
            source,
            chosen,
            partition=one,
            where=conditions,
            engine=engine,
            workers=workers,
            progress=tell,
            cache=cache_store or (shelf if cache else None),
        )
    if density_quantiles:
        with progress("measuring") as tell:
            model = pc.with_density_quantiles(
                model, source, partition=one, where=conditions, workers=workers, progress=tell
            )
    version = shelf.save(model, name)
    for each in aliases:
        shelf.promote(name, version, each)
    _show_fit(model, version, aliases, store, as_json)


def score(
    ref: Ref,
    source: Source,
    sink: Annotated[
        str,
        typer.Argument(
            metavar="SINK",
            help="Scored table: a directory or .parquet file; a new Delta table as "
            "delta+file://PATH; or iceberg://catalog/namespace.table.",
        ),
    ],
    store: Store,
    partition: Partition = None,
    where: Where = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="COLUMN,…", help="Columns to keep; by default all."),
    ] = None,
    posterior: Annotated[
        str,
        typer.Option(
            "--posterior", metavar="columns|list", help="One column per class, or one list."
        ),
    ] = "columns",
    decision: By = "map",
    costs: Costs = None,
    min_probability: MinProbability = None,
    min_density_quantile: MinDensityQuantile = None,
    overwrite: Annotated[
        str,
        typer.Option(
            "--overwrite",
            metavar="HOW",
            help="partition: replace what stands there; append: add to it; never: refuse to.",
        ),
    ] = "partition",
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="NAME", help="Of the run, for the record of the commit."),
    ] = None,
    engine: Engine = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Score a table into another, each partition replaced or added to whole, or not at all.

    Example: probclass score air@champion lake scored --partition month=2014-01 --columns time
    """
    import probclass_core as pc

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    kept = parse_names("columns", columns or ())
    rule = decision_rule(decision, costs, min_probability, min_density_quantile)
    shelf = pc.ModelStore(store)
    version = shelf.resolve(ref)
    with progress("scoring") as tell:
        report = pc.score(
            shelf.load(version.ref),
            source,
            sink,
            partition=one,
            where=conditions,
            columns=kept,
            posterior=cast("PosteriorFormat", posterior),
            decision=rule,
            overwrite=cast("Overwrite", overwrite),
            run_id=run_id,
            engine=engine,
            workers=workers,
            progress=tell,
        )
    if as_json:
        put_json({"model": version.ref, **report.to_dict()})
        return
    commits = max(len(report.partitions), 1)
    already = f"{report.skipped} of {commits}: there already, from the same inputs"
    put(
        facts(
            {
                "scored": f"{report.rows:,} rows in {report.seconds:.2f} s",
                "by": version.ref,
                "into": report.uri,
                "partitions": _listed(report.partitions),
                "unchanged": already if report.skipped else None,
            }
        )
    )


def evaluate(
    ref: Ref,
    source: Source,
    store: Store,
    partition: Partition = None,
    where: Where = None,
    decision: By = "map",
    costs: Costs = None,
    min_probability: MinProbability = None,
    min_density_quantile: MinDensityQuantile = None,
    engine: Engine = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Measure a model on labeled rows, beside what guessing by the prior would do.

    Example: probclass evaluate air@champion lake --partition month=2014-01
    """
    import probclass_core as pc

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    rule = decision_rule(decision, costs, min_probability, min_density_quantile)
    shelf = pc.ModelStore(store)
    version = shelf.resolve(ref)
    model = shelf.load(version.ref)
    with progress("evaluating") as tell:
        found = pc.evaluate(
            model,
            source,
            partition=one,
            where=conditions,
            decision=rule,
            engine=engine,
            workers=workers,
            progress=tell,
        )
    if as_json:
        put_json({"model": version.ref, **found.to_dict()})
    else:
        show_evaluation(version.ref, found)


def _spec(
    source: str,
    file: Path | None,
    auto: bool,
    label: str | None,
    exclude: list[str] | None,
    weight: str | None,
) -> ModelSpec:
    from probclass_core import ModelSpec
    from probclass_core.io.open import open_table

    if auto == (file is not None):
        raise SpecError("fit takes either --spec FILE or --auto --label COLUMN.")
    if file is not None:
        for option, value in (("label", label), ("exclude", exclude), ("weight", weight)):
            if value:
                raise SpecError(f"--{option} goes with --auto; a spec file says it itself.")
        return ModelSpec.from_file(file)
    if label is None:
        raise SpecError("--auto needs --label, the column that holds the class.")
    table = open_table(source)
    left_out = [*(exclude or ()), *table.partition_columns]
    keys = [column for column in left_out if column not in (label, weight)]
    return ModelSpec.auto(table.schema, label, weight=weight, exclude=keys)


def _show_spec(source: str, spec: ModelSpec, as_json: bool) -> None:
    from probclass_core import summarize
    from probclass_core.cli.toml import to_toml
    from probclass_core.io.open import open_table

    summarize(open_table(source).schema.empty_table(), spec)  # refuses what does not fit the table
    if as_json:
        put_json({"spec": spec.to_dict(), "spec_digest": spec.digest})
    else:
        typer.echo(to_toml(spec), nl=False)


def _show_fit(
    model: Model, version: ModelVersion, aliases: list[str], store: str, as_json: bool
) -> None:
    if as_json:
        put_json(
            {
                "model": version.ref,
                "model_id": version.id,
                "aliases": aliases,
                "store": store,
                "spec_digest": model.spec.digest,
                "priors": model.priors.to_pylist(),
                **model.training,
            }
        )
        return
    unlabeled, cached = model.training["null_labels"], model.training.get("cache")
    left_out = f", {unlabeled:,} of them left out: {model.spec.label!r} is null"
    put(
        facts(
            {
                "saved": version.ref,
                "as": ", ".join(f"{version.model}@{alias}" for alias in aliases) or None,
                "in": store,
                "rows": f"{model.training['rows']:,}{left_out if unlabeled else ''}",
                "cached": cached and f"{cached['reused']:,} of {cached['fragments']:,} fragments",
            }
        ),
        table(model.priors, "Classes", limit=_MOST_ROWS),
    )


def _listed(partitions: Any) -> str | None:
    """Partitions as their directories read; a few of many."""
    names = ["/".join(f"{key}={value}" for key, value in each.items()) for each in partitions]
    if len(names) <= 3:
        return ", ".join(names) or None
    return f"{len(names)}: {names[0]}, {names[1]}, … {names[-1]}"
