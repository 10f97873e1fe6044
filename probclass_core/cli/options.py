"""Options that several commands take, alone and in groups.

A group is a frozen dataclass whose fields are options. A command takes a group as one parameter;
`with_groups` replaces that parameter by the options before Typer sees the function.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from probclass_core.cli.parsing import parse_names, parse_partition, parse_where
from probclass_core.errors import SpecError, one_line
from probclass_core.spec.files import read_values

if TYPE_CHECKING:
    from probclass_core import DecisionRule, Model, ModelStore, Watch
    from probclass_core.store.references import ModelVersion

Units = Annotated[
    str,
    typer.Option(
        "--units",
        metavar="nats|bits|decibans",
        help="Unit of the weights of evidence; ten decibans are a factor of ten.",
    ),
]

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Table to read: Parquet, CSV or JSON lines, as a file, a (Hive-partitioned) directory "
        "or a pattern such as 'trips/*.csv'; a Delta table, iceberg://catalog/namespace.table, or "
        "a table of a database as duckdb://file.db::table, sqlite://… or postgresql://….",
    ),
]
Ref = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="Model: name@alias, name@id, or the name of a model with one version; "
        "name@alias@previous and name@alias@DATE are earlier versions.",
    ),
]
_STORE = typer.Option(
    "--store",
    metavar="URI",
    envvar="PROBCLASS_STORE",
    help="Model store: a directory or any fsspec URI.",
)
Store = Annotated[str, _STORE]
OptionalStore = Annotated[str | None, _STORE]
Aliases = Annotated[
    list[str] | None,
    typer.Option("--alias", metavar="ALIAS", help="Promote the new version to this alias."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="COLUMN,…",
        help="Columns to copy to the scored table; by default all, and none in a query.",
    ),
]
Posterior = Annotated[
    str,
    typer.Option(
        "--posterior",
        metavar="columns|list",
        help="Write one column per class, or one list column in class order.",
    ),
]
DryRunRemoval = Annotated[
    bool, typer.Option("--dry-run", help="List what would be removed; remove nothing.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON, for scripts.")]


@dataclass(frozen=True)
class ModelOptions:
    """A stored model: its reference and the store that contains it."""

    ref: Ref
    store: Store

    def resolve(self) -> tuple[ModelStore, ModelVersion]:
        """The store, and the version that the reference names."""
        from probclass_core import ModelStore

        store = ModelStore(self.store)
        return store, store.resolve(self.ref)

    def load(self) -> tuple[Model, ModelVersion]:
        """The model and its version."""
        store, version = self.resolve()
        return store.load(version.ref), version


@dataclass(frozen=True)
class RowOptions:
    """Rows of a table to read."""

    partition: Annotated[
        list[str] | None,
        typer.Option(
            "--partition",
            metavar="COLUMN=VALUE",
            help="Read only this partition; repeat for each partition column.",
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Read only rows that meet this condition: 'month >= 2013-01', 'wind in NW,SE'; "
            "if repeated, rows that meet all.",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The options as keyword arguments of the library's functions."""
        return {
            **vars(self),
            "partition": parse_partition(self.partition or ()),
            "where": parse_where(self.where or ()),
        }


@dataclass(frozen=True)
class WorkerOptions(RowOptions):
    """Rows of a table to read, and how many threads read them."""

    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", min=1, help="Number of workers; by default all processors."
        ),
    ] = None


@dataclass(frozen=True)
class EngineOptions(WorkerOptions):
    """Rows of a table to read, and the engine and workers that read them."""

    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="NAME",
            help="Engine that runs the work: threads (the default), processes, spark, or the "
            "name that a plugin registers.",
        ),
    ] = None


@dataclass(frozen=True)
class DecisionOptions:
    """A decision rule."""

    decision: Annotated[
        str,
        typer.Option(
            "--decision",
            metavar="map|ml",
            help="Predict the class of largest posterior (map) or of largest likelihood (ml).",
        ),
    ] = "map"
    costs: Annotated[
        Path | None,
        typer.Option(
            "--costs",
            metavar="FILE",
            help="Costs of mistakes: TOML or JSON by true class, or CSV with the columns "
            "class,prediction,cost.",
        ),
    ] = None
    min_probability: Annotated[
        float | None,
        typer.Option(
            "--min-probability",
            metavar="P",
            help="Reject a row if its prediction is less probable than this.",
        ),
    ] = None
    min_density_quantile: Annotated[
        float | None,
        typer.Option(
            "--min-density-quantile",
            metavar="Q",
            help="Reject a row if its density is below this quantile of the training rows.",
        ),
    ] = None

    def rule(self) -> DecisionRule:
        """The decision rule that the options describe.

        Raises:
            SpecError: if an option is invalid or the file of costs cannot be read.
        """
        from probclass_core import DecisionRule

        costs = None if self.costs is None else _read_costs(self.costs)
        return DecisionRule(self.decision, costs, self.min_probability, self.min_density_quantile)


MissingColumnsOption = Annotated[
    str,
    typer.Option(
        "--missing-columns",
        metavar="error|warn|allow",
        help="If no file has a column of the model: fail, or read it as null with a warning or "
        "without.",
    ),
]


@dataclass(frozen=True)
class WatchOptions:
    """What to check, from which value on, and what to do."""

    watch: Annotated[
        Path | None,
        typer.Option(
            "--watch",
            metavar="FILE|off",
            help="Thresholds and actions of checks, as TOML or JSON, or in the table watch of such "
            "a file; off turns all checks off. By default all checks warn.",
        ),
    ] = None
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="CHECK,…",
            help="Checks that fail instead of warning, such as nulls,missing.",
        ),
    ] = None

    def parsed(self) -> Watch | None:
        """The watch that the options describe; None for none.

        Raises:
            SpecError: if a check or threshold is invalid, or the file cannot be read.
        """
        from probclass_core import Watch

        names = parse_names("fail-on", self.fail_on or ())
        if self.watch is not None and self.watch.name == "off":
            if names:
                raise SpecError(
                    "--fail-on needs checks, and --watch off makes none; leave one out."
                )
            return None
        values = {} if self.watch is None else read_values(self.watch, "the watch")
        if isinstance(values, dict) and isinstance(values.get("watch"), dict):
            values = values["watch"]
        if names and isinstance(values, dict):
            fail = list(dict.fromkeys([*values.get("fail", []), *names]))
            values = {**values, "fail": fail}
        return Watch.from_dict(values)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each group among its parameters replaced by the options of the group."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {
        name: hint
        for name, hint in hints.items()
        if isinstance(hint, type) and dataclasses.is_dataclass(hint)
    }

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            options = {field.name: values.pop(field.name) for field in dataclasses.fields(group)}
            values[name] = group(**options)
        command(**values)

    parameters = [
        option
        for name, parameter in parameters_of(command).items()
        for option in (parameters_of(groups[name]).values() if name in groups else [parameter])
    ]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters by name, each by keyword and with its annotation evaluated."""
    hints = get_type_hints(function, include_extras=True)
    return {
        name: parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
    }


def _read_costs(path: Path) -> Any:
    if path.suffix != ".csv":
        return read_values(path, "the costs", (".toml", ".json", ".csv"))
    import pyarrow.csv as csv

    try:
        return csv.read_csv(path)
    except OSError as error:
        raise SpecError(f"cannot read the costs {path}: {error.strerror}.") from error
    except ValueError as error:
        raise SpecError(f"{path} is not valid CSV: {one_line(error)}.") from error
