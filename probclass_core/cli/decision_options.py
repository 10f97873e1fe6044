"""A decision rule from the options of a command."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probclass_core.errors import SpecError, one_line

if TYPE_CHECKING:
    from probclass_core import DecisionRule

By = Annotated[
    str,
    typer.Option(
        "--decision", metavar="map|ml", help="Largest posterior, or largest likelihood (ml)."
    ),
]
Costs = Annotated[
    Path | None,
    typer.Option(
        "--costs",
        metavar="FILE",
        help="What mistakes cost: TOML or JSON by true class, or CSV of class,prediction,cost.",
    ),
]
MinProbability = Annotated[
    float | None,
    typer.Option("--min-probability", metavar="P", help="Reject a row that is less probable."),
]
MinDensityQuantile = Annotated[
    float | None,
    typer.Option(
        "--min-density-quantile",
        metavar="Q",
        help="Reject a row that is rarer than this share of the training rows.",
    ),
]


def decision_rule(
    by: str,
    costs: Path | None,
    min_probability: float | None,
    min_density_quantile: float | None,
) -> DecisionRule:
    """The rule that the options ask for.

    Raises:
        SpecError: an option is none, or the file of costs cannot be read.
    """
    from probclass_core import DecisionRule

    given = None if costs is None else _costs(costs)
    return DecisionRule(by, given, min_probability, min_density_quantile)


def _costs(path: Path) -> Any:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(path.read_text(encoding="utf-8"))
        if path.suffix == ".json":
            return json.loads(path.read_text(encoding="utf-8"))
        if path.suffix == ".csv":
            import pyarrow.csv as csv

            return csv.read_csv(path)
    except OSError as error:
        raise SpecError(f"cannot read the costs {path}: {error.strerror}.") from error
    except ValueError as error:
        kind = path.suffix[1:].upper()
        raise SpecError(f"{path} is not valid {kind}: {one_line(error)}.") from error
    raise SpecError(f"{path}: costs are a .toml, .json or .csv file.")
