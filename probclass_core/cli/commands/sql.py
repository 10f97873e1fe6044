"""The query that scores a table in a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from probclass_core.cli.options import Columns, DecisionOptions, ModelOptions, Posterior
from probclass_core.cli.parsing import parse_names

if TYPE_CHECKING:
    from probclass_core.scoring.batch import PosteriorFormat


def sql(
    model: ModelOptions,
    *,
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect",
            metavar="NAME",
            help="duckdb, postgres, sqlite, spark, datafusion or clickhouse.",
        ),
    ],
    source: Annotated[
        str,
        typer.Option(
            "--source",
            metavar="TABLE",
            help="Table to score, such as schema.table; or a query in parentheses.",
        ),
    ],
    columns: Columns = None,
    posterior: Posterior = "columns",
    decision: DecisionOptions,
    view: Annotated[
        str | None, typer.Option("--view", metavar="NAME", help="Create this view of the query.")
    ] = None,
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="NAME",
            help="Put the numbers of the model in tables whose names begin so. The statements that "
            "create and fill them come before the query.",
        ),
    ] = None,
) -> None:
    """Print the SQL query that scores a table where it is.

    It gives the table that the command score writes, as one SELECT.

    Example: probclass sql air@champion --dialect duckdb --source measurements --columns time
    """
    loaded, _ = model.load()
    query = loaded.to_sql(
        dialect=dialect,
        source=source,
        columns=parse_names("columns", columns or ()) or (),
        posterior=cast("PosteriorFormat", posterior),
        decision=decision.rule(),
        view=view,
        tables=tables,
    )
    if tables is not None:
        for statement in loaded.to_sql_tables(dialect=dialect, tables=tables):
            typer.echo(f"{statement};")
    typer.echo(f"{query};")
