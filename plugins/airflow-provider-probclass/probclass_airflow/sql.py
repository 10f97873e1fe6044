"""Scores a table where it is: in the database of a connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar

from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.score import ScoringOperator, summary_of


class ProbClassSQLScoreOperator(ScoringOperator):
    """Score a table in its database, and replace a partition of the scored table.

    The database runs the query of the model: no row leaves it. Deletion, insertion and the record
    of the commit are one transaction. The record has the id of the DAG run: a retry finds it and
    changes nothing. See `probclass_core.score_sql`.

    Args:
        conn_id: connection to PostgreSQL or SQLite, whose hook is a `DbApiHook` of the provider
            ``common.sql``.
        source: table to score, such as ``"public.measurements"``.
        sink: scored table, which is created if it does not exist.
        model: ``name@alias`` or ``name@id``; an alias is resolved once, and the id is recorded.
        options: columns of the source to copy to the sink, after those of the partition; posterior,
            decision and prior, as for `ProbClassScoreOperator`.
        commits: table of the records, which is created if it does not exist.
        kwargs: store, partition, where and store_conn_id, see `ProbClassOperator`; arguments of
            `BaseOperator`. The partition is values of columns of the source.

    Returns (XCom and the `extra` of outlet assets):
        As `ProbClassScoreOperator`.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "conn_id",
        "sink",
        "model",
        "options",
        "commits",
    )
    sink_conn_id: ClassVar[None] = None

    def __init__(
        self,
        *,
        conn_id: str,
        source: str,
        sink: str,
        model: str,
        options: Mapping[str, Any] | None = None,
        commits: str = "probclass_commits",
        **kwargs: Any,
    ) -> None:
        super().__init__(source=source, **kwargs)
        self.conn_id = conn_id
        self.sink = sink
        self.model = model
        self.options = options
        self.commits = commits
        self.dataset_columns: dict[str, dict[str, str]] = {}

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Load the model, score in the database."""
        import probclass_core as pc

        store = self.model_store()
        version = store.resolve(self.model)
        with closing(self._connect()) as connection:
            report = pc.score_sql(
                version,
                connection,
                str(self.source),
                self.sink,
                partition=self.partition,
                where=self.where,
                options=self.options,
                run_id=run["run_id"],
                store=store,
                provenance={"airflow": run},
                commits=self.commits,
                uri=self.dataset_uri(self.sink),
                before_commit=self.raise_if_stopped,
            )
            for table in (str(self.source), self.sink):
                schema = pc.SqlSource(connection, table).schema
                columns = {field.name: str(field.type) for field in schema}
                self.dataset_columns[self.dataset_uri(table)] = columns
        return {"model": version.ref, "partition": self.partition, **summary_of(report)}

    def dataset_uri(self, table: str) -> str:
        """The URI of a table by the naming rules of OpenLineage, for lineage and reports."""
        from airflow.sdk import BaseHook

        connection = BaseHook.get_connection(self.conn_id)
        name = f"{connection.schema or ''}.{table}".lstrip(".")
        if connection.conn_type != "postgres":
            return f"{connection.conn_type}://{connection.host or ''}/{table}"
        if "." not in table:
            name = f"{connection.schema or ''}.public.{table}"
        return f"postgres://{connection.host or 'localhost'}:{connection.port or 5432}/{name}"

    def _connect(self) -> Any:
        """A connection of the database's driver.

        Raises:
            AirflowFailException: if the connection does not exist, or is not one to a database.
            TableError: if the database cannot be reached.
        """
        from probclass_core.errors import TableError

        try:
            from airflow.providers.common.sql.hooks.sql import DbApiHook
        except ImportError:
            raise AirflowFailException(
                "ProbClassSQLScoreOperator needs apache-airflow-providers-common-sql: pip install "
                "'airflow-provider-probclass[sql]', and the provider of the database."
            ) from None
        try:
            hook = DbApiHook.get_hook(self.conn_id)
        except AirflowNotFoundException:
            raise AirflowFailException(
                f"connection {self.conn_id!r} does not exist; create it, or use another one."
            ) from None
        except Exception as error:
            raise AirflowFailException(
                f"connection {self.conn_id!r} cannot be used: {error}"
            ) from None
        if not isinstance(hook, DbApiHook):
            raise AirflowFailException(
                f"connection {self.conn_id!r} is not to a database with SQL; name one of type "
                "postgres or sqlite."
            )
        try:
            return hook.get_conn()
        except Exception as error:  # of the driver, which may be any
            text = " ".join(str(error).split())
            raise TableError(f"connection {self.conn_id!r}: {text}") from None
