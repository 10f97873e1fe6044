"""fit, calibrate, score and sql: train a model, calibrate it, and apply it to tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tomli_w

import probclass_core as pc
from probclass_core.cli.messages import progress
from probclass_core.cli.options import (
    Aliases,
    EngineRows,
    Names,
    OptionalStore,
    Parser,
    Source,
    StoredModel,
    WorkerRows,
    parse_half_life,
)
from probclass_core.cli.output import Part, column_values, report_parts, show, show_report
from probclass_core.display import TablePart, minute, report_of
from probclass_core.errors import PartitionError, SpecError
from probclass_core.scoring.options import RowOptions
from probclass_core.scoring.score import Deleted
from probclass_core.spec.model_spec import Effort
from probclass_core.store.records import ModelVersion, check_alias, check_model_name, timestamp

_UNCHANGED_SCORES = "unchanged: already scored from the same inputs, nothing written"


@dataclass(frozen=True, kw_only=True)
class SpecOptions:
    """A model spec: a file, or derived from the rows of the table.

    Attributes:
        spec: model spec: TOML, YAML or JSON.
        label: COLUMN: column of the class; without --spec, the spec is derived from the rows.
        no_label: derive a density of all rows: it says how usual a row is, and no class.
        effort: without --spec: a block for each column; also pairs of columns and normal densities
            (the default); also densities of nearest neighbors.
        exclude: COLUMN,…: without --spec: columns to leave out.
        weight: COLUMN: without --spec: column of row weights.
        max_classes: with --label: largest number of classes.
        groups: COLUMN,…: with --label: columns whose values tell which rows are alike, such as a
            day; those of the partitions by default.
        half_life: PARTITIONS: without --spec: rows count half as much after this number of
            partitions, or auto to compare a few; the same at any age by default.
        sql: without --spec: leave out blocks that SQL cannot score.
    """

    spec: Path | None = None
    label: str | None = None
    no_label: bool = False
    effort: Effort | None = None
    exclude: Names = ()
    weight: str | None = None
    max_classes: int | None = None
    groups: Names = ()
    half_life: Annotated[Any, Parser(parse_half_life, repeats=False)] = None
    sql: bool = False

    def read(self, source: str, **reading: Any) -> pc.ModelSpec:
        """The spec for a table; see `ModelSpec.auto`."""
        derived = {name: value for name, value in vars(self).items() if value and name != "spec"}
        if self.spec is not None:
            for name in derived:
                option = name.replace("_", "-")
                raise SpecError(f"--{option} derives a spec; with --spec, set it in the file.")
            return pc.ModelSpec.from_file(self.spec)
        if (self.label is None) != self.no_label:
            raise SpecError(
                "fit needs --spec FILE, or --label COLUMN or --no-label to derive a spec."
            )
        with progress("choosing blocks") as report:
            others = {name: derived[name] for name in derived if name not in ("label", "no_label")}
            return pc.ModelSpec.auto(source, self.label, **others, progress=report, **reading)


@dataclass(frozen=True, kw_only=True)
class ScoredRows(EngineRows):
    """Which rows to score, of which partitions, and the engine and workers."""

    partitions: pc.Partitions

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as arguments of `score`.

        Raises:
            SpecError: if an option excludes another.
        """
        options = vars(self).copy()
        partitions, partition = options.pop("partitions"), self.partition
        if partition and partitions.where:
            raise SpecError("give --partition or --partitions, not both.")
        if partitions != pc.Partitions():
            where = [partition] if partition else partitions.where
            options["partition"] = replace(partitions, where=where)
        return options


def fit(
    source: Source,
    *,
    model: SpecOptions,
    store: OptionalStore = None,
    name: str | None = None,
    alias: Aliases = (),
    rows: EngineRows,
    density_quantiles: bool = False,
    cache: bool = False,
    cache_store: str | None = None,
    dry_run: bool = False,
) -> None:
    """Train a model on a table and save it.

    Without --spec, the spec is derived from the rows, and notes say how: what each column is, which
    columns are left out, and which blocks help. Partition columns are left out.

    Example: probclass fit lake --label air --store models --name air --alias champion

    Options:
        name: name to save the model under.
        density_quantiles: read the rows again to measure their density, which
            --min-rarity needs.
        cache: cache statistics in the store, so that only new files are read.
        cache_store: URI: cache statistics in this store.
        dry_run: check the spec and print it as TOML; train nothing.
    """
    if not dry_run and (store is None or name is None):
        raise SpecError(
            "fit needs --store (or PROBCLASS_STORE) and --name to save the model; "
            "with --dry-run it needs neither."
        )
    reading = vars(rows).copy()
    cached_in = cache_store or (store if cache else None)
    spec = model.read(source, cache=cached_in, **reading)
    if dry_run:
        pc.summarize(pc.open_table(source).schema.empty_table(), spec)  # raises if it does not fit
        document = {"spec": spec.to_dict(), "spec_digest": spec.digest, "spec_notes": spec.notes}
        show(document, to_toml(spec).rstrip())
        return
    assert store is not None
    assert name is not None
    _check_names(name, alias)
    models = pc.ModelStore(store)
    with progress("training") as report:
        fitted = pc.fit(source, spec, progress=report, cache=cached_in, **reading)
    if density_quantiles:
        del reading["engine"]
        with progress("measuring") as report:
            fitted = pc.with_density_quantiles(fitted, source, progress=report, **reading)
    version, is_new = _save(models, fitted, name, alias)
    training, found = fitted.training, fitted.training.get("cache")
    unchanged = not is_new and (found is None or found["units"] == found["reused"])
    unlabeled = training["null_labels"]
    advice = (
        f"probclass evaluate {f'{name}@{alias[0]}' if alias else name} SOURCE, on rows that "
        "training did not see, compares the model with its class prior"
    )
    _show_saved(
        version,
        alias,
        store,
        unchanged,
        {
            "spec_digest": fitted.spec.digest,
            "spec_notes": fitted.spec.notes,
            "priors": fitted.priors.to_pylist(),
            **training,
        },
        {
            "left out": f"{unlabeled:,} rows whose label is null" if unlabeled else None,
            "cached": found and f"{found['reused']:,} of {found['units']:,} units",
            "next": advice if fitted.spec.label is not None else None,
        },
        *report_parts(report_of(fitted)),
    )


def calibrate(
    model: StoredModel,
    source: Source,
    *,
    name: str | None = None,
    alias: Aliases = (),
    rows: WorkerRows,
) -> None:
    """Calibrate a model's posteriors on labeled rows that it was not trained on.

    The calibrated model is saved as a new version; the original does not change. If a calibration
    does not lower the log loss of held-out rows, the model stays as it is, with a warning.

    Example: probclass calibrate air@champion lake --partition month=2014-01 --alias calibrated

    Options:
        name: name to save the calibrated model under; by default the same.
    """
    name = name or model.version.model
    _check_names(name, alias)
    with progress("calibrating") as report:
        calibrated = pc.calibrate(model.load(), source, progress=report, **vars(rows))
    saved, is_new = _save(model.models, calibrated, name, alias)
    calibration, record = calibrated.calibration, calibrated.training["calibration"]
    numbers = ("rows", "applied", "uncalibrated_log_loss", "calibrated_log_loss")
    before, after = ("∞" if record[one] is None else f"{record[one]:.4f}" for one in numbers[2:])
    _show_saved(
        saved,
        alias,
        model.store,
        not is_new,
        {
            "of": model.version.ref,
            **{one: record[one] for one in numbers},
            "calibration": None if calibration is None else calibration.to_pylist(),
        },
        {
            "of": model.version.ref,
            "rows": f"{record['rows']:,} labeled",
            "log loss": f"{before} before, {after} when calibrated by other rows",
        },
        *([] if calibration is None else [TablePart(column_values(calibration), "calibration")]),
    )


def score(
    model: StoredModel,
    source: Source,
    sink: Annotated[
        str,
        "SINK: Scored table to write: a directory, a .parquet or .csv file; a new Delta table as "
        "delta+file://PATH; or iceberg://catalog/namespace.table.",
    ],
    *,
    rows: ScoredRows,
    options: pc.ScoringOptions,
    deleted: Deleted = "keep",
    dry_run: bool = False,
    run_id: str | None = None,
) -> None:
    """Score the partitions of a table that are missing in a scored table, or stale there.

    A partition is stale if its input, the model or the rule (conditions, columns, decision) changed
    since it was scored. Each is checked, and committed completely or not at all. What is unusual in
    it is shown as a warning, or fails before the commit with --fail-on. A partition that cannot be
    scored fails alone; the exit code is then 2. The scoring is recorded in the store of the model.

    Example: probclass score air@champion lake scored --partition month=2014-01 --columns time

    Options:
        deleted: keep partitions of the sink that are gone from the source, remove them, or fail
            before anything is written.
        dry_run: show what would be scored; write nothing.
        run_id: ID: run id to record in the commit.
    """
    failure: PartitionError | None = None
    arguments = rows.arguments
    version = model.version
    try:
        with progress("scoring") as report:
            result = pc.score(
                version,
                source,
                sink,
                options=options,
                deleted=deleted,
                dry_run=dry_run,
                store=model.models,
                provenance={} if run_id is None else {"run_id": run_id},
                progress=report,
                **arguments,
            )
    except PartitionError as error:
        failure, result = error, error.report
    changed = any(one.outcome != "unchanged" for one in result.partitions)
    show_report(result, {"model": version.ref}, None if changed else _UNCHANGED_SCORES)
    if failure is not None:
        raise failure


def _check_names(name: str, aliases: Sequence[str]) -> None:
    """Check the names to save under before the work starts, not after it."""
    check_model_name(name)
    for alias in aliases:
        check_alias(alias)


def _save(
    store: pc.ModelStore, model: pc.Model, name: str, aliases: Sequence[str]
) -> tuple[ModelVersion, bool]:
    """Save a model and promote it; the version, and whether anything was written."""
    started = timestamp()
    version = store.save(model, name)
    actions = [store.promote(name, version, alias).action for alias in aliases]
    return version, version.created >= started or "promoted" in actions


def to_toml(spec: pc.ModelSpec) -> str:
    """The spec as the text of a TOML file, after its notes.

    Raises:
        SpecError: if an option is null.
    """
    try:
        return "".join(f"# {note}\n" for note in spec.notes) + tomli_w.dumps(spec.to_dict())
    except TypeError as error:
        raise SpecError(
            "an option of the spec is null, which TOML cannot express; use --json."
        ) from error


def _show_saved(
    version: ModelVersion,
    aliases: Sequence[str],
    store: str,
    unchanged: bool,
    values: Mapping[str, Any],
    facts: Mapping[str, str | None],
    *parts: Part,
) -> None:
    """Print which version a model was saved as, and what else is known of it.

    Args:
        version: the version.
        aliases: aliases that it was promoted to.
        store: store of the version.
        unchanged: whether it was saved before.
        values: further values in JSON.
        facts: further facts in the report.
        parts: parts of the report after the facts.
    """
    saved = {"model": version.ref, "model_id": version.id, "aliases": [*aliases], "store": store}
    names = ", ".join(f"{version.model}@{alias}" for alias in aliases) or None
    show(
        {**saved, "unchanged": unchanged, **values},
        f"unchanged: saved {minute(version.created)}, nothing written" if unchanged else None,
        {"saved": version.ref, "as": names, "in": store, **facts},
        *parts,
    )


def sql(
    model: StoredModel,
    *,
    dialect: str,
    source: str,
    options: RowOptions,
    view: str | None = None,
) -> None:
    """Print the SQL query that scores a table where it is.

    It gives the table that the command score writes, as one SELECT.

    Example: probclass sql air@champion --dialect duckdb --source measurements --columns time

    Options:
        dialect: NAME: dialect of the database: duckdb, postgres, sqlite, spark, datafusion or
            clickhouse.
        source: TABLE: table to score, such as schema.table; or a query in parentheses.
        view: NAME: create this view of the query.
    """
    query = model.load().to_sql(dialect=dialect, source=source, options=options, view=view)
    show({"model": model.version.ref, "query": query}, f"{query};")
