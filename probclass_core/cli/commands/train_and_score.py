"""fit, calibrate and score: train a model, calibrate it, and apply it to tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tomli_w

import probclass_core as pc
from probclass_core.arrow.display import MOST_ROWS
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
from probclass_core.cli.output import Part, key_values, prose, report_parts, show, table
from probclass_core.errors import PartitionError, SpecError
from probclass_core.pipeline.scoring import Deleted
from probclass_core.scoring.reports import ScoreReport
from probclass_core.spec.model_spec import Effort
from probclass_core.store.display import minute
from probclass_core.store.records import timestamp
from probclass_core.store.references import ModelVersion, check_alias, check_model_name

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
    cached = fitted.training.get("cache") or {"units": 0, "reused": 0}
    unchanged = not is_new and cached["units"] == cached["reused"]
    _show_fit(fitted, version, alias, store, unchanged)


def calibrate(
    model: StoredModel,
    source: Source,
    *,
    method: str = "temperature_and_bias",
    name: str | None = None,
    alias: Aliases = (),
    rows: WorkerRows,
) -> None:
    """Calibrate a model's posteriors on labeled rows that it was not trained on.

    The calibrated model is saved as a new version; the original does not change. If the method does
    not lower the log loss of held-out rows, the posteriors stay as they are, with a warning.

    Example: probclass calibrate air@champion lake --partition month=2014-01 --alias calibrated

    Options:
        method: temperature_and_bias|temperature|isotonic: fit one temperature and a bias for each
            class; only a temperature, which keeps the most probable class; or an isotonic function
            for each class.
        name: name to save the calibrated model under; by default the same.
    """
    name = name or model.version.model
    _check_names(name, alias)
    with progress("calibrating") as report:
        calibrated = pc.calibrate(model.load(), source, method, progress=report, **vars(rows))
    saved, is_new = _save(model.models, calibrated, name, alias)
    calibration, record = calibrated.calibration, calibrated.training["calibration"]
    assert calibration is not None
    before, after = record["uncalibrated_log_loss"], record["calibrated_log_loss"]
    show(
        {
            "model": saved.ref,
            "model_id": saved.id,
            "aliases": [*alias],
            "of": model.version.ref,
            "store": model.store,
            "unchanged": not is_new,
            "method": method,
            "rows": record["rows"],
            "applied": record["applied"],
            "uncalibrated_log_loss": before,
            "calibrated_log_loss": after,
            "calibration": calibration.to_pylist(),
        },
        None if is_new else _unchanged(saved),
        key_values(
            {
                **_saved(saved, alias, model.store),
                "of": model.version.ref,
                "rows": f"{record['rows']:,} labeled",
                "log loss": f"{_nats(before)} before, {_nats(after)} when calibrated by other rows",
            }
        ),
        table(calibration, "Calibration", limit=MOST_ROWS),
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
    show({"model": version.ref, **result.to_dict()}, *_scored(result, version))
    if failure is not None:
        raise failure


def _scored(result: ScoreReport, version: ModelVersion) -> list[Part | None]:
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
    return [
        None if changed else prose(_UNCHANGED_SCORES),
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
        table(listed, "Partitions", limit=MOST_ROWS) if changed and is_partitioned else None,
    ]


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
    times = [store.promote(name, version, alias).promoted for alias in aliases]
    return version, any(time >= started for time in (version.created, *times))


def _unchanged(version: ModelVersion) -> Part:
    return prose(f"unchanged: saved {minute(version.created)}, nothing written")


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


def _show_fit(
    model: pc.Model, version: ModelVersion, aliases: Sequence[str], store: str, unchanged: bool
) -> None:
    unlabeled, cache = model.training["null_labels"], model.training.get("cache")
    show(
        {
            "model": version.ref,
            "model_id": version.id,
            "aliases": [*aliases],
            "store": store,
            "unchanged": unchanged,
            "spec_digest": model.spec.digest,
            "spec_notes": model.spec.notes,
            "priors": model.priors.to_pylist(),
            **model.training,
        },
        _unchanged(version) if unchanged else None,
        key_values(
            {
                **_saved(version, aliases, store),
                "left out": f"{unlabeled:,} rows whose label is null" if unlabeled else None,
                "cached": cache and f"{cache['reused']:,} of {cache['units']:,} units",
                "next": f"probclass evaluate {_short_ref(version, aliases)} SOURCE, on rows that "
                "training did not see, compares the model with its class prior",
            }
        ),
        *report_parts(model),
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
