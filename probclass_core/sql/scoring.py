"""Score a table inside its database: one transaction for each partition, and a record of it.

The rows of a partition are deleted and inserted again by the query of `Model.to_sql`, and the
record of the commit is written to a table next to the scored one, all in one transaction: readers
see the old rows with their record, or the new ones with theirs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from probclass_core.arguments import checks_arguments
from probclass_core.arrow.bundle import as_json, json_digest
from probclass_core.errors import DataError, TableError, TableMismatchError, one_of
from probclass_core.io.filters import Where, partition_text
from probclass_core.model.decision import DecisionRule
from probclass_core.scoring.batch import BatchScorer
from probclass_core.scoring.options import RowOption, RowOptions
from probclass_core.scoring.reports import Outcome, PartitionOutcome, ScoreReport
from probclass_core.scoring.score import StoredModelOption, load_scorer, record_scored
from probclass_core.sql.connections import Database, database_of
from probclass_core.sql.query import to_sql
from probclass_core.sql.source import SqlSource, where_sql
from probclass_core.store.model_store import ModelStore

_COLUMNS = ("sink", "partition_values", "commit_id", "model_id", "row_count", "record")

_Name = str | Sequence[str]


@checks_arguments
def score_sql(
    model: StoredModelOption,
    connection: Any,
    source: _Name,
    sink: _Name,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    options: RowOption = None,
    run_id: str | None = None,
    store: ModelStore | None = None,
    provenance: Mapping[str, Any] | None = None,
    commits: _Name = "probclass_commits",
) -> ScoreReport:
    """Score a table in its database, and replace a partition of the scored table, in a transaction.

    No row leaves the database. The record of each commit is a row of the table ``commits``, with
    the columns sink, partition_values (JSON), commit_id, model_id, row_count and record (JSON, as
    of `score`: also source, where, decision, run_id and time). What the rows are checked for is not
    what `score` checks: there is no health. See `Model.to_sql` for what else differs.

    Args:
        model: model to score with; see `Model.to_sql` for those that have SQL. With `store`, a
            version in it or a reference to one.
        connection: connection of DuckDB, sqlite3, psycopg or psycopg2, without an open transaction;
            it stays open.
        source: table to score, as for `SqlSource`.
        sink: scored table; it is created if it does not exist.
        partition: values of columns of the source, such as ``{"day": "2014-01-01"}``: these rows
            are scored, and replace the rows of the sink with these values. By default all rows.
        where: further conditions of the rows to score; see `fit`.
        options: what is written for each row, see `RowOptions`; columns of the source are copied to
            the sink after those of the partition, by default none.
        run_id: id of the run. A repeated call with the same one changes nothing, unless the number
            of rows in the source or the sink has changed since. Without it, rows are scored again.
        store: store in which to record what was scored, as for `score`.
        provenance: plain JSON values to record in the store.
        commits: table of the records; it is created if it does not exist.

    Returns:
        As of `score`: the partition is ``unchanged`` if there was an equal commit.

    Raises:
        SpecError: if an option does not fit the model, or a condition cannot be written as
                SQL.
        NotSupportedError: if the model cannot be written as SQL, or the connection is of another
                kind.
        DataError: if a column is missing, or `score` would refuse some of the rows; nothing is
            written.
        TableError: if there are no rows, the connection has an open transaction, or a statement
            fails; nothing is written.
    """
    model, version = load_scorer(model, store)
    began = time.monotonic()
    database = database_of(connection)
    dialect = database.dialect
    chosen = RowOptions.parse(options)
    columns = list(dict.fromkeys([*(partition or {}), *(chosen.columns or ())]))
    chosen = replace(chosen, columns=columns)
    names = {"source": dialect.source(source), "sink": dialect.source(sink)}
    if names["source"] == names["sink"]:
        raise TableMismatchError(f"{sink} is the source; write the scored table somewhere else.")
    address = f"{dialect.name}:{sink if isinstance(sink, str) else '.'.join(sink)}"
    rule = {
        **vars(chosen),
        "where": as_json(where),
        "columns": columns,
        "decision": DecisionRule.parse(chosen.decision).to_dict(),
    }
    identity = {
        "model_id": model.id,
        "input": None,
        "source": source if isinstance(source, str) else list(source),
        "partition": as_json(partition or {}),
        "run_id": run_id,
        **rule,
    }
    commit_id = json_digest(identity)
    schema = pa.schema([(name, pa.null()) for name in columns])
    scorer = BatchScorer(model, schema, chosen)
    with database.transaction():
        table = SqlSource(connection, source)
        selected, replaced = (
            where_sql(dialect, table, partition, condition) for condition in (where, None)
        )
        rows = f"SELECT * FROM {names['source']} AS t{selected}"
        query = to_sql(model, dialect=dialect.name, source=f"({rows})", options=chosen)
        record = _Record(database, dialect.source(commits), address, identity["partition"])
        before = record.lock()
        (count,) = _numbers(database, f"SELECT COUNT(*) FROM ({rows}) AS t")
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {names['sink']} AS "
            f"SELECT * FROM (\n{query}\n) AS q WHERE 1 = 0"
        )
        existing_names = {str(column[0]).lower() for column in database.described(names["sink"])}
        lacking = [name for name in scorer.schema.names if name.lower() not in existing_names]
        if lacking:
            raise TableMismatchError(
                f"{address} has no column {one_of(lacking)}, which these options write; add it "
                "(ALTER TABLE … ADD COLUMN), leave the option out, or write another table."
            )
        written = f"FROM {names['sink']} AS t{replaced}"
        (existing,) = _numbers(database, f"SELECT COUNT(*) {written}")
        skipped = run_id is not None and before == (commit_id, count) and existing == count
        if not skipped:
            if not count:
                raise TableError(f"{source} has no rows of {_text(partition)} to score.")
            database.execute(f"DELETE {written}")
            listed = ", ".join(map(dialect.identifier, scorer.schema.names))
            database.execute(f"INSERT INTO {names['sink']} ({listed})\n{query}")
            never_null = "log_density" if model.spec.label is None else "probability"
            inserted, refused = _numbers(
                database,
                f"SELECT COUNT(*), SUM(CASE WHEN t.{never_null} IS NULL THEN 1 ELSE 0 END) "
                + written,
            )
            if inserted != count:
                raise TableError(
                    f"{address} has {inserted} rows of {_text(partition)} after {count} were "
                    "inserted; other writers or a trigger changed it, and nothing was written."
                )
            if refused:
                raise DataError(
                    f"{refused} of {count} rows have values that the model refuses, such as "
                    "infinite numbers or counts below 0, and nothing was written; pc.score names "
                    "the column, and where leaves rows out."
                )
            time_now = datetime.now(UTC).isoformat(timespec="seconds")
            record.write(commit_id, model.id, count, {**identity, "committed_at": time_now})
    commit = {
        "partition": identity["partition"],
        "source": identity["source"],
        "input": None,
        "input_version": None,
        "rule": json_digest(rule),
        "commit_id": commit_id,
        "rows": count,
        "skipped": skipped,
    }
    outcome: Outcome = "unchanged" if skipped else "scored"
    report = ScoreReport(
        partitions=[PartitionOutcome(dict(partition or {}), outcome, (), count, commit_id)],
        commits=[commit],
        model_id=model.id,
        uri=address,
        seconds=time.monotonic() - began,
    )
    record_scored(store, version, report, provenance or {})
    return report


class _Record:
    """The record of a partition's last commit: a row of a table, which other writers wait for."""

    def __init__(
        self, database: Database, table: str, sink: str, partition: Mapping[str, Any]
    ) -> None:
        self._database, self._table = database, table
        text = database.dialect.string_literal
        values = json.dumps(partition, sort_keys=True, ensure_ascii=False)
        self._others = f"sink = {text(sink)} AND partition_values " + (
            f"= {text('{}')}" if partition else f"<> {text('{}')}"
        )
        self._keys = f"sink = {text(sink)} AND partition_values = {text(values)}"
        self._new = f"{text(sink)}, {text(values)}"

    def lock(self) -> tuple[str, int]:
        """Commit id and rows of the last commit, "" and 0 if there is none; locks the partition."""
        string = self._database.dialect.string
        self._database.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (sink {string}, partition_values {string}, "
            f"commit_id {string}, model_id {string}, row_count BIGINT, record {string}, "
            "PRIMARY KEY (sink, partition_values))"
        )
        self._database.execute(
            f"INSERT INTO {self._table} ({', '.join(_COLUMNS)}) "
            f"VALUES ({self._new}, '', '', 0, '{{}}') ON CONFLICT DO NOTHING"
        )
        locked = " FOR UPDATE" if self._database.dialect.name == "postgres" else ""
        query = f"SELECT commit_id, row_count FROM {self._table} WHERE {self._keys}{locked}"
        ((commit_id, rows),) = self._database.rows(query)
        return str(commit_id), int(rows)

    def write(self, commit_id: str, model_id: str, rows: int, record: Mapping[str, Any]) -> None:
        text = self._database.dialect.string_literal
        values = json.dumps({"commit_id": commit_id, **record, "rows": rows}, ensure_ascii=False)
        self._database.execute(
            f"UPDATE {self._table} SET commit_id = {text(commit_id)}, "
            f"model_id = {text(model_id)}, row_count = {rows}, record = {text(values)} "
            f"WHERE {self._keys}"
        )
        # A commit of the whole table replaces the partitions, and one of a partition the whole.
        self._database.execute(f"DELETE FROM {self._table} WHERE {self._others}")


def _numbers(database: Database, query: str) -> tuple[int, ...]:
    (row,) = database.rows(query)
    return tuple(int(value or 0) for value in row)


def _text(partition: Mapping[str, Any] | None) -> str:
    return f"partition {partition_text(partition)}" if partition else "the table"
