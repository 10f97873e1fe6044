"""fit, calibrate and score: train a model, calibrate it, and apply it to tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from probclass_core.cli.options import (
    Aliases,
    Columns,
    DecisionOptions,
    EngineOptions,
    Json,
    MissingColumnsOption,
    ModelOptions,
    OptionalStore,
    Posterior,
    RowOptions,
    Source,
    WatchOptions,
    WorkerOptions,
)
from probclass_core.cli.output import (
    MAX_ROWS,
    Part,
    key_values,
    prose,
    show,
    show_json,
    table,
)
from probclass_core.cli.parsing import parse_names, parse_prior
from probclass_core.cli.verbosity import progress
from probclass_core.errors import SpecError
from probclass_core.store.display import minute
from probclass_core.store.records import timestamp

if TYPE_CHECKING:
    import probclass_core as pc
    from probclass_core import Model, ModelSpec, ModelStore
    from probclass_core.pipeline.scoring import Deleted
    from probclass_core.scoring.reports import ScoreReport
    from probclass_core.spec.model_spec import Effort
    from probclass_core.store.references import ModelVersion


log = logging.getLogger("probclass_core.cli")

_UNCHANGED_SCORES = "unchanged: already scored from the same inputs, nothing written"


Sink = Annotated[
    str,
    typer.Argument(
        metavar="SINK",
        help="Scored table to write: a directory, a .parquet or .csv file; a new Delta table "
        "as delta+file://PATH; or iceberg://catalog/namespace.table.",
    ),
]


@dataclass(frozen=True)
class SpecOptions:
    """A model spec: a file, or derived from the columns of the table."""

    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE", help="Model spec: TOML, YAML or JSON.")
    ] = None
    auto: Annotated[
        bool, typer.Option("--auto", help="Derive the spec from the rows of the table.")
    ] = False
    effort: Annotated[
        str | None,
        typer.Option(
            "--effort",
            metavar="fast|default|best",
            help="With --auto: a block for each column; also pairs of columns and normal "
            "densities (the default); also densities of nearest neighbors.",
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="With --auto: column of the class."),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="COLUMN,…", help="With --auto: columns to leave out."),
    ] = None
    weight: Annotated[
        str | None,
        typer.Option("--weight", metavar="COLUMN", help="With --auto: column of row weights."),
    ] = None
    max_classes: Annotated[
        int | None,
        typer.Option("--max-classes", metavar="N", help="With --auto: largest number of classes."),
    ] = None

    def read(self, source: str, **reading: Any) -> ModelSpec:
        """The spec for a table, whose rows ``--auto`` reads; see `ModelSpec.auto`."""
        from probclass_core import ModelSpec

        if self.auto == (self.spec is not None):
            raise SpecError("fit needs either --spec FILE or --auto --label COLUMN.")
        if self.spec is not None:
            for option in ("label", "effort", "exclude", "weight", "max-classes"):
                if getattr(self, option.replace("-", "_")):
                    raise SpecError(f"--{option} needs --auto; with --spec, set it in the file.")
            return ModelSpec.from_file(self.spec)
        excluded = parse_names("exclude", self.exclude or ()) or ()
        if self.label is None:
            raise SpecError("--auto needs --label, the column of the class.")
        with progress("choosing blocks") as report:
            return ModelSpec.auto(
                source,
                self.label,
                effort=cast("Effort", self.effort or "default"),
                weight=self.weight,
                exclude=excluded,
                max_classes=self.max_classes,
                progress=report,
                **reading,
            )


@dataclass(frozen=True)
class ScoringOptionGroup(DecisionOptions, WatchOptions):
    """The options of `probclass_core.ScoringOptions`."""

    columns: Columns = None
    posterior: Posterior = "columns"
    prior: Annotated[
        list[str] | None,
        typer.Option(
            "--prior",
            metavar="SHARES|estimated",
            help="Class shares to have the posteriors under, CLASS=SHARE,…; or estimated: those of "
            "the rows of each partition, found by reading them twice.",
        ),
    ] = None
    overwrite: Annotated[
        str,
        typer.Option(
            "--overwrite",
            metavar="HOW",
            help="partition: replace existing partitions; append: add rows to them; "
            "never: fail if they exist.",
        ),
    ] = "partition"
    missing_columns: MissingColumnsOption = "error"
    schema: Annotated[
        str,
        typer.Option(
            "--schema",
            metavar="evolve|same",
            help="If the sink lacks a passthrough column: add it, or fail; it is null in "
            "partitions that are not scored now.",
        ),
    ] = "evolve"

    def parsed_options(self) -> pc.ScoringOptions:
        """The options that the library takes.

        Raises:
            SpecError: if an option is invalid, or a file cannot be read.
        """
        import probclass_core as pc

        plain = {name: getattr(self, name) for name in ("posterior", "overwrite", "schema")}
        return pc.ScoringOptions(
            columns=parse_names("columns", self.columns or ()),
            decision=self.rule(),
            prior=parse_prior(self.prior or ()),
            watch=self.parsed(),
            missing_columns=cast("Any", self.missing_columns),
            **plain,
        )


@dataclass(frozen=True)
class PartitionOptions(EngineOptions):
    """Which rows to score, of which partitions, and the engine and workers."""

    partitions: Annotated[
        list[str] | None,
        typer.Option(
            "--partitions",
            metavar="CONDITION",
            help="Consider only partitions that meet this condition: 'month >= 2013-01'; if "
            "repeated, those that meet all.",
        ),
    ] = None
    catch_up: Annotated[
        int,
        typer.Option(
            "--catch-up",
            metavar="N",
            min=0,
            help="Also score those of the N partitions before that of --partition that are missing "
            "in the sink.",
        ),
    ] = 0
    scored_by: Annotated[
        list[str] | None,
        typer.Option(
            "--scored-by",
            metavar="NAME@VERSION",
            help="Consider only partitions that this version scored, such as one that was rolled "
            "back; repeat for several.",
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Score at most this many partitions."),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The options as keyword arguments of `score`.

        Raises:
            SpecError: if an option is invalid, or one excludes another.
        """
        import probclass_core as pc

        read = RowOptions(self.partition, self.where).arguments()
        one = read["partition"]
        if one and self.partitions:
            raise SpecError("give --partition or --partitions, not both.")
        if self.partitions or self.catch_up or self.scored_by or self.limit:
            where = [one] if one else self.partitions
            several = pc.Partitions(
                where, catch_up=self.catch_up, scored_by=self.scored_by, limit=self.limit
            )
            read["partition"] = several
        return {**read, "engine": self.engine, "workers": self.workers}


def fit(
    source: Source,
    *,
    model: SpecOptions,
    store: OptionalStore = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name to save the model under.")
    ] = None,
    alias: Aliases = None,
    rows: EngineOptions,
    density_quantiles: Annotated[
        bool,
        typer.Option(
            "--density-quantiles",
            help="Read the rows again to measure their density, which --min-density-quantile "
            "needs.",
        ),
    ] = False,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache", help="Cache statistics in the store, so that only new files are read."
        ),
    ] = False,
    cache_store: Annotated[
        str | None,
        typer.Option("--cache-store", metavar="URI", help="Cache statistics in this store."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the spec and print it as TOML; train nothing."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model on a table and save it.

    With --auto, the spec is derived from the rows, and notes say how: what each column is, which
    columns are left out, and which blocks help. Partition columns are left out.

    Example: probclass fit lake --spec air.toml --store models --name air --alias champion
    """
    import probclass_core as pc

    if not dry_run and (store is None or name is None):
        raise SpecError(
            "fit needs --store (or PROBCLASS_STORE) and --name to save the model; "
            "with --dry-run it needs neither."
        )
    reading = rows.arguments()
    cached_in = cache_store or (store if cache else None)
    spec = model.read(source, cache=cached_in, **reading)
    if dry_run:
        _show_spec(source, spec, as_json)
        return
    assert store is not None
    assert name is not None
    aliases = alias or []
    _check_names(name, aliases)
    model_store = pc.ModelStore(store)
    with progress("training") as report:
        fitted = pc.fit(
            source,
            spec,
            progress=report,
            cache=cached_in,
            **reading,
        )
    if density_quantiles:
        del reading["engine"]
        with progress("measuring") as report:
            fitted = pc.with_density_quantiles(fitted, source, progress=report, **reading)
    version, is_new = _save(model_store, fitted, name, aliases)
    cached = fitted.training.get("cache") or {"units": 0, "reused": 0}
    unchanged = not is_new and cached["units"] == cached["reused"]
    _show_fit(fitted, version, aliases, store, unchanged, as_json)


def calibrate(
    model: ModelOptions,
    source: Source,
    *,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="temperature_and_bias|temperature|isotonic",
            help="Fit one temperature and a bias for each class; only a temperature, which keeps "
            "the most probable class; or an isotonic function for each class.",
        ),
    ] = "temperature_and_bias",
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name to save the calibrated model under; by default the same.",
        ),
    ] = None,
    alias: Aliases = None,
    rows: WorkerOptions,
    as_json: Json = False,
) -> None:
    """Calibrate a model's posteriors on labeled rows that it was not trained on.

    The calibrated model is saved as a new version; the original does not change. If the method does
    not lower the log loss of held-out rows, the posteriors stay as they are, with a warning.

    Example: probclass calibrate air@champion lake --partition month=2014-01 --alias calibrated
    """
    import probclass_core as pc

    reading = rows.arguments()
    store, version = model.resolve()
    name, aliases = name or version.model, alias or []
    _check_names(name, aliases)
    original = store.load(version.ref)
    with progress("calibrating") as report:
        calibrated = pc.calibrate(original, source, method, progress=report, **reading)
    saved, is_new = _save(store, calibrated, name, aliases)
    calibration, record = calibrated.calibration, calibrated.training["calibration"]
    assert calibration is not None
    figures = {
        name: record[name] for name in ("applied", "uncalibrated_log_loss", "calibrated_log_loss")
    }
    if as_json:
        show_json(
            {
                "model": saved.ref,
                "model_id": saved.id,
                "aliases": aliases,
                "of": version.ref,
                "store": model.store,
                "unchanged": not is_new,
                "method": method,
                "rows": record["rows"],
                **figures,
                "calibration": calibration.to_pylist(),
            }
        )
        return
    show(
        *([] if is_new else [_unchanged(saved)]),
        key_values(
            {
                **_saved(saved, aliases, model.store),
                "of": version.ref,
                "rows": f"{record['rows']:,} labeled",
                "log loss": f"{_nats(figures['uncalibrated_log_loss'])} before, "
                f"{_nats(figures['calibrated_log_loss'])} when calibrated by other rows",
            }
        ),
        table(calibration, "Calibration", limit=MAX_ROWS),
    )


def score(
    model: ModelOptions,
    source: Source,
    sink: Sink,
    *,
    rows: PartitionOptions,
    scoring: ScoringOptionGroup,
    deleted: Annotated[
        str,
        typer.Option(
            "--deleted",
            metavar="keep|remove|fail",
            help="Keep partitions of the sink that are gone from the source, remove them, or fail "
            "before anything is written.",
        ),
    ] = "keep",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be scored; write nothing.")
    ] = False,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Run id to record in the commit.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score the partitions of a table that are missing in a scored table, or stale there.

    A partition is stale if its input, the model or the rule (conditions, columns, decision) changed
    since it was scored. Each is checked, and committed completely or not at all. What is unusual in
    it is shown as a warning, or fails before the commit with --fail-on. A partition that cannot be
    scored fails alone; the exit code is then 2. The scoring is recorded in the store of the model.

    Example: probclass score air@champion lake scored --partition month=2014-01 --columns time
    """
    import probclass_core as pc
    from probclass_core.errors import PartitionError

    options, where = scoring.parsed_options(), rows.arguments()
    store, version = model.resolve()
    failure: PartitionError | None = None
    try:
        with progress("scoring") as report:
            result = pc.score(
                version,
                source,
                sink,
                options=options,
                deleted=cast("Deleted", deleted),
                dry_run=dry_run,
                store=store,
                provenance={} if run_id is None else {"run_id": run_id},
                progress=report,
                **where,
            )
    except PartitionError as error:
        failure, result = error, error.report
    if as_json:
        show_json({"model": version.ref, **result.to_dict()})
    else:
        _show_scored(result, version)
    if failure is not None:
        raise failure


def _show_scored(result: ScoreReport, version: ModelVersion) -> None:
    changed = [one for one in result.partitions if one.outcome != "unchanged"]
    counts = {name: count for name, count in result.counts.items() if count}
    listed = {
        "partition": [str(one) for one in changed],
        "outcome": [one.outcome for one in changed],
        "because of": [", ".join(one.reasons) for one in changed],
        "rows": ["" if one.rows is None else f"{one.rows:,}" for one in changed],
    }
    is_partitioned = any(one.partition for one in result.partitions)
    scored = f"{result.scored_rows:,} rows in {result.seconds:.2f} s"
    show(
        *([] if changed else [prose(_UNCHANGED_SCORES)]),
        key_values(
            {
                "scored": scored if changed else f"{result.rows:,} rows",
                "by": version.ref,
                "into": result.uri,
                "added columns": ", ".join(result.changes.added) or None,
                "partitions": ", ".join(f"{count:,} {name}" for name, count in counts.items())
                if is_partitioned
                else None,
            }
        ),
        *([table(listed, "Partitions", limit=MAX_ROWS)] if changed and is_partitioned else []),
    )


def _check_names(name: str, aliases: Sequence[str]) -> None:
    """Check the names to save under before the work starts, not after it."""
    from probclass_core.store.references import check_alias, check_model_name

    check_model_name(name)
    for alias in aliases:
        check_alias(alias)


def _save(
    store: ModelStore, model: Model, name: str, aliases: Sequence[str]
) -> tuple[ModelVersion, bool]:
    """Save a model and promote it; the version, and whether anything was written."""
    started = timestamp()
    version = store.save(model, name)
    times = [store.promote(name, version, alias).promoted for alias in aliases]
    return version, any(time >= started for time in (version.created, *times))


def _unchanged(version: ModelVersion) -> Part:
    return prose(f"unchanged: saved {minute(version.created)}, nothing written")


def _show_spec(source: str, spec: ModelSpec, as_json: bool) -> None:
    from probclass_core import summarize
    from probclass_core.io.open import open_table

    summarize(open_table(source).schema.empty_table(), spec)  # raises if the spec does not fit
    if as_json:
        show_json({"spec": spec.to_dict(), "spec_digest": spec.digest, "spec_notes": spec.notes})
    else:
        typer.echo("".join(f"# {note}\n" for note in spec.notes) + to_toml(spec), nl=False)


def to_toml(spec: ModelSpec) -> str:
    """The spec as the text of a TOML file.

    Raises:
        SpecError: if an option is null.
    """
    import tomli_w

    try:
        return tomli_w.dumps(spec.to_dict())
    except TypeError as error:
        raise SpecError(
            "an option of the spec is null, which TOML cannot express; use --json."
        ) from error


def _show_fit(
    model: Model,
    version: ModelVersion,
    aliases: list[str],
    store: str,
    unchanged: bool,
    as_json: bool,
) -> None:
    if as_json:
        show_json(
            {
                "model": version.ref,
                "model_id": version.id,
                "aliases": aliases,
                "store": store,
                "unchanged": unchanged,
                "spec_digest": model.spec.digest,
                "spec_notes": model.spec.notes,
                "priors": model.priors.to_pylist(),
                **model.training,
            }
        )
        return
    unlabeled, cache = model.training["null_labels"], model.training.get("cache")
    left_out = f", {unlabeled:,} of them left out: {model.spec.label!r} is null"
    show(
        *([_unchanged(version)] if unchanged else []),
        key_values(
            {
                **_saved(version, aliases, store),
                "rows": f"{model.training['rows']:,}{left_out if unlabeled else ''}",
                "cached": cache and f"{cache['reused']:,} of {cache['units']:,} units",
                "log loss": _log_loss(model),
                "next": f"probclass evaluate {_short_ref(version, aliases)} SOURCE, on rows that "
                "training did not see, compares the model with its class prior",
            }
        ),
        table(model.priors, "Classes", limit=MAX_ROWS),
        *([prose("\n".join(["Notes", *model.spec.notes]))] if model.spec.notes else []),
    )


def _log_loss(model: Model) -> str | None:
    """Log loss of rows that the blocks did not see, if the fit measured it."""
    fitted = model.training.get("block_weights")
    if fitted is None:
        return None
    return (
        f"{_nats(fitted['log_loss'])} on {fitted['rows']:,} different rows that the blocks did not "
        f"see; blocks without weights {_nats(fitted['product_log_loss'])}, "
        f"class prior {_nats(fitted['prior_log_loss'])}"
    )


def _short_ref(version: ModelVersion, aliases: Sequence[str]) -> str:
    return f"{version.model}@{aliases[0]}" if aliases else version.model


def _saved(version: ModelVersion, aliases: Sequence[str], store: str) -> dict[str, str | None]:
    return {
        "saved": version.ref,
        "as": ", ".join(f"{version.model}@{alias}" for alias in aliases) or None,
        "in": store,
    }


def _nats(value: float | None) -> str:
    return "∞" if value is None else f"{value:.4f}"
