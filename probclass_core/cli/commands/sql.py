"""The query that scores a table in a database."""

from __future__ import annotations

from probclass_core.cli.options import Columns, StoredModel
from probclass_core.cli.output import show
from probclass_core.model.decision import DecisionRule
from probclass_core.scoring.options import PosteriorFormat, ScoringOptions


def sql(
    model: StoredModel,
    *,
    dialect: str,
    source: str,
    columns: Columns = (),
    posterior: PosteriorFormat = "columns",
    decision: DecisionRule,
    rarity: bool = False,
    rare: float | None = None,
    contributions: bool = False,
    view: str | None = None,
) -> None:
    """Print the SQL query that scores a table where it is.

    It gives the table that the command score writes, as one SELECT.

    Example: probclass sql air@champion --dialect duckdb --source measurements --columns time

    Options:
        dialect: NAME: dialect of the database: duckdb, postgres, sqlite, spark, datafusion or
            clickhouse.
        source: TABLE: table to score, such as schema.table; or a query in parentheses.
        posterior: write one column per class, or one list column in class order.
        rarity: add the share of the known rows that are at least as improbable.
        rare: NUMBER: add whether the rarity is at most this share, such as 0.001.
        contributions: add what each column contributes.
        view: NAME: create this view of the query.
    """
    options = ScoringOptions(
        columns=columns,
        posterior=posterior,
        decision=decision,
        rarity=rarity,
        rare=rare,
        contributions=contributions,
    )
    query = model.load().to_sql(dialect=dialect, source=source, options=options, view=view)
    show({"model": model.version.ref, "query": query}, f"{query};")
