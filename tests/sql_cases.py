"""Models, rows and engines for the tests of SQL, and the comparison with `predict_table`."""

from __future__ import annotations

import functools
import json
import math
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest

import probclass_core as pc

sys.path += map(str, (Path(__file__).parents[1] / "plugins").glob("probclass-*"))
import probclass_distributions
import probclass_student_t

Run = Callable[[pa.Table, str], pa.Table]
"""``run(rows, query)`` gives the result of the query."""

NAMES = {
    "plain": "x",
    "keyword": "select",
    "quotes": "a\"b'c`d\\",
    "injection": '"; DROP TABLE rows; --',
    "unicode": "größe (µm) ☃",
}
"""Names of columns that need quoting."""

WORDS = ["", "b", "it's", 'a"b', "a`b\\n", "x'; DROP TABLE rows; --", "Ünïcode ☃", "${env:HOME}"]
"""Categories that need quoting."""

HARD = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, -1e-300, 1e300, -1e300, 1e150, 3.5, 1e9, 1e-9, 5e-324]
"""Numbers at the ends of float64, among others."""

WRITTEN = ["0", "-.5", "5.", " 7 ", "1.2E-05", "-3e2", "007", "+5", "1e400", "nan", "1,2", "?", ""]
"""Texts that are numbers, and texts that are not."""


@functools.cache
def training(seed: int = 0, rows: int = 600) -> pa.Table:
    """Labeled rows: numbers, counts, shares, categories, with nulls and names that need quoting."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 3, rows)

    def with_nulls(values: Any, kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, kind, mask=random.random(rows) < 0.1)

    numbers = {
        name: with_nulls(random.normal(group * (place - 2), 1.0 + place, rows))
        for place, name in enumerate(NAMES.values())
    }
    words = np.array(WORDS[:5])
    number = random.normal(group, 1.0, rows)
    return pa.table(
        {
            "label": [["one", "it's two", 'th"ree'][each] for each in group],
            **numbers,
            "word": with_nulls(words[(group + random.integers(0, 3, rows)) % 5].tolist()),
            "order": with_nulls((group + random.integers(0, 4, rows)).tolist(), pa.int64()),
            "flag": with_nulls((random.random(rows) < 0.2 + 0.3 * group).tolist(), pa.bool_()),
            "count": with_nulls(random.poisson(1.0 + group).tolist(), pa.int64()),
            "events": with_nulls(random.poisson(4.0 - group).tolist(), pa.int64()),
            "share": with_nulls(np.clip(random.beta(1.0 + group, 2.0), 1e-9, 1 - 1e-9)),
            "amount": with_nulls(random.gamma(1.0 + group, 2.0)),
            "mostly_zero": with_nulls(
                np.where(random.random(rows) < 0.5, 0.0, random.gamma(2.0, 1.0 + group))
            ),
            "number": number,
            "key": np.arange(rows),
            "written": np.where(np.arange(rows) % 9, number.round(3).astype(str), "?"),
        }
    )


@functools.cache
def hard_rows(seed: int = 1) -> pa.Table:
    """Difficult rows: extreme numbers, unseen and null categories, whole rows of nulls."""
    table = training(seed, 240)
    random = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {}
    for name in table.column_names:
        values = table[name].to_pylist()
        for row in range(160):
            if name in (*NAMES.values(), "number") and random.random() < 0.3:
                values[row] = HARD[int(random.integers(len(HARD)))]
            elif name == "word" and random.random() < 0.5:
                values[row] = WORDS[int(random.integers(len(WORDS)))]
            elif name == "order" and random.random() < 0.3:
                values[row] = int(random.choice([-5, 0, 99, 2**53 + 1]))
            elif name in ("count", "events") and random.random() < 0.2:
                values[row] = int(random.choice([0, 1, 1000, 10**4]))
            elif name == "share" and random.random() < 0.3:
                values[row] = float(random.choice([1e-300, 0.0, 1.0, 0.5, 1 - 1e-16, -1.0]))
            elif name in ("amount", "mostly_zero") and random.random() < 0.3:
                values[row] = float(random.choice([0.0, 1e-300, 1e300, 1e6, 5e-324]))
            elif name == "written":
                values[row] = WRITTEN[row % len(WRITTEN)]
        for row in range(160, 200):  # many nulls
            if name not in ("key", "label") and random.random() < (row - 150) / 50:
                values[row] = None
        columns[name] = pa.array(values, table.schema.field(name).type)
    return pa.table(columns)


N = list(NAMES.values())

PLUGINS = [
    *probclass_distributions.probclass_estimators(),
    *probclass_student_t.probclass_estimators(),
]

BLOCKS: Mapping[str, list[pc.Block]] = {
    "gaussian_diagonal": [pc.Block("gaussian_diagonal", N)],
    "point_mass": [pc.Block("gaussian_diagonal", ["flag", "x"], variance_floor=0)],
    "gaussian_full": [pc.Block("gaussian_full", N[:3])],
    "gaussian_shared": [pc.Block("gaussian_shared", N[:4], shrinkage="oas")],
    "full_of_two": [pc.Block("gaussian_full", ["key", "number"])],
    "categorical": [pc.Block("categorical", ["word", "order", "flag"])],
    "categorical_ignore": [pc.Block("categorical", ["word", "order"], unseen="ignore")],
    "categorical_levels": [pc.Block("categorical", ["word", "order"], missing="level")],
    "without_pseudo_count": [pc.Block("categorical", ["word", "order"], pseudo_count=0)],
    "categorical_joint": [pc.Block("categorical_joint", ["word", "flag"])],
    "discretized": [pc.Block("discretized", N)],
    "written": [pc.Block("gaussian_diagonal", ["number(written)"])],
    "bernoulli": [pc.Block("bernoulli", ["count", "events", "flag"])],
    "poisson": [pc.Block("poisson", ["count", "events"])],
    "multinomial": [pc.Block("multinomial", ["count", "events"])],
    "given_categories": [
        pc.Block("categorical", ["word"], given=["flag", "order"]),
        pc.Block("discretized", ["x"], given=["word"]),
    ],
    "given_category": [pc.Block("categorical", ["word"], given=["flag"])],
    "mixed": [
        pc.Block("gaussian_diagonal", N[:2]),
        pc.Block("gaussian_full", N[2:4]),
        pc.Block("categorical", ["word", "order"]),
        pc.Block("poisson", ["count"]),
    ],
    "exponential": [pc.Block("exponential", ["amount"])],
    "gamma": [pc.Block("gamma", ["amount"])],
    "log_normal": [pc.Block("log_normal", ["amount"])],
    "beta": [pc.Block("beta", ["share"])],
    "negative_binomial": [pc.Block("negative_binomial", ["count", "events"])],
    "zero_inflated": [pc.Block("zero_inflated", ["mostly_zero"])],
    "student_t": [pc.Block("student_t", N)],
}
"""Blocks by what they show; those at the end are of plugins."""

BUILT_IN = [
    case for case, blocks in BLOCKS.items() if all(b.estimator in pc.estimators() for b in blocks)
]
"""Cases that need no plugin."""


@functools.cache
def fitted(case: str) -> pc.Model:
    """The model of a case."""
    with pc.trying(*PLUGINS):
        return pc.fit(training(), pc.ModelSpec("label", BLOCKS[case]))


def compare(expected: pa.Table, actual: pa.Table, tolerance: float = 1e-9) -> float:
    """Check that two scored tables agree; the largest difference of a log posterior.

    Raises:
        AssertionError: naming the column and the row.
    """
    assert actual.column_names == expected.column_names
    worst = 0.0
    logs = [name for name in expected.column_names if name.startswith("p_")]
    posterior = np.array([expected[name].to_pylist() for name in logs], float)
    largest = np.sort(posterior, axis=0)
    clear = largest[-1] - largest[-2] > 1e-9 if len(logs) > 1 else np.ones(len(expected), bool)
    for name in expected.column_names:
        want, got = expected[name].to_pylist(), actual[name].to_pylist()
        for row, (one, other) in enumerate(zip(want, got, strict=True)):
            where = f"{name} of row {row}: {one!r}, not {other!r}"
            if name in ("prediction", "rejected"):
                assert one == other or not clear[row], where
            elif isinstance(one, float) and name in (*logs, "probability"):
                assert other is not None, where
                if one > 1e-280:
                    assert other > 0.0, where
                    difference = abs(math.log(one) - math.log(other))
                    worst = max(worst, difference / max(1.0, -math.log(one)))
                else:
                    assert other <= 1e-279, where
                assert worst <= tolerance, where
            elif isinstance(one, float):
                same = one == other or abs(one - (other or 0.0)) <= tolerance * max(1.0, abs(one))
                assert other is not None, where
                assert same, where
            else:
                assert one == other, where
    return worst


def compare_parameters(expected: pc.Model, actual: pc.Model, tolerance: float = 1e-9) -> None:
    """Check that two models have the same parameters: numbers to a relative tolerance."""
    assert actual.classes.equals(expected.classes)
    np.testing.assert_allclose(actual.log_prior, expected.log_prior, rtol=tolerance)
    for block, table in expected.parameters.items():
        other = actual.parameters[block]
        assert other.schema.equals(table.schema), block
        for name in table.column_names:
            one, two = table[name].to_pylist(), other[name].to_pylist()
            if pa.types.is_string(table[name].type) or name == "class":
                assert one == two, name
            else:
                largest = np.max(np.abs(np.nan_to_num(np.array(one, float), posinf=0, neginf=0)))
                np.testing.assert_allclose(
                    np.array(two, float),
                    np.array(one, float),
                    rtol=tolerance,
                    atol=1e-13 * largest,
                    err_msg=f"{block}: {name}",
                )


def nist_rows() -> pa.Table:
    """NIST StRD NumAcc4, where E[x²] − m² has no correct digit; mean 10000000.2, deviation 0.1."""
    values = [10000000.2, *[10000000.1, 10000000.3] * 500]
    return pa.table(
        {
            "set": ["nist"] * len(values) + ["other"] * 3,
            "x": [*values, -1.0, 0.0, 1.0],
            "v": np.resize([1.0, 2.0, 4.0], len(values) + 3),
        }
    )


def check_nist(source: pc.SqlSource) -> None:
    """The doubles of the data have 8 digits of the certified deviation."""
    blocks = [
        pc.Block("gaussian_diagonal", ["x"], name="one", ddof=1, variance_floor=0.0),
        pc.Block("gaussian_full", ["x", "v"], name="full", ddof=1),
    ]
    for block in blocks:
        model = pc.fit(source, pc.ModelSpec("set", [block]))
        row = model.parameters[str(block.name)].slice(0, 1).to_pylist()[0]
        is_full = block.name == "full"
        mean = row["mean"][0] if is_full else row["mean"]
        variance = np.ravel(row["covariance"])[0] if is_full else row["variance"]
        assert mean == pytest.approx(10000000.2, rel=1e-14)
        assert variance**0.5 == pytest.approx(0.1, rel=1e-7)


def check_case(case: str, dialect: str, run: Run) -> None:
    """Check that an engine scores `hard_rows` as `predict_table` does.

    Args:
        case: key of `BLOCKS`.
        dialect: dialect of the engine.
        run: runs a query over these rows, which are in the table "rows".
    """
    rows, model = hard_rows(), fitted(case)
    options = {"columns": ["key"], "contributions": True}
    with pc.trying(*PLUGINS):
        expected = model.predict_table(rows, options=options)
        query = model.to_sql(dialect=dialect, source="rows", options=options)
    result = run(rows, query)
    result = result.take(pac.sort_indices(result["key"]))
    if dialect == "postgres" and case not in BUILT_IN:  # see "Plugins" in docs/sql.md
        columns = [rows[name].to_numpy() for block in BLOCKS[case] for name in block.columns]
        sizes = np.nan_to_num(np.abs(np.array(columns, np.float64)))
        extreme = pa.array(((sizes > 1e150) | ((sizes > 0.0) & (sizes < 1e-150))).any(axis=0))
        assert result["prediction"].filter(extreme).null_count == sum(extreme.to_pylist())
        expected, result = (table.filter(pac.invert(extreme)) for table in (expected, result))
    compare(expected, result)


# Engines: each runs a query over the table "rows", whose result it returns.


def on_duckdb(rows: pa.Table, query: str) -> pa.Table:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return connection.sql(query).to_arrow_table()


def sqlite_table(connection: sqlite3.Connection, rows: pa.Table) -> None:
    """Load rows into the new table "rows" of SQLite."""
    listed = ", ".join(
        "`" + field.name.replace("`", "``") + "`" + " BOOLEAN" * pa.types.is_boolean(field.type)
        for field in rows.schema
    )
    connection.execute(f"CREATE TABLE rows ({listed})")
    marks = ", ".join("?" * rows.num_columns)
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    connection.executemany(f"INSERT INTO rows VALUES ({marks})", values)
    connection.commit()


def on_sqlite(rows: pa.Table, query: str) -> pa.Table:
    connection = sqlite3.connect(":memory:")
    sqlite_table(connection, rows)
    result = fetched(connection.execute(query))
    connection.close()
    return result


def on_datafusion(rows: pa.Table, query: str) -> pa.Table:
    from datafusion import SessionContext

    context = SessionContext()
    context.register_record_batches("rows", [rows.to_batches()])
    return context.sql(query).to_arrow_table()


def on_clickhouse(rows: pa.Table, query: str) -> pa.Table:
    from chdb.session import Session

    with Session() as session:
        return session.query(query.replace("`rows`", "Python(rows)"), "ArrowTable")


def postgres_table(connection: Any, rows: pa.Table, name: str = "rows") -> None:
    """Load rows into a new table of a psycopg connection."""
    kinds = {"string": "text", "double": "float8", "int64": "bigint", "bool": "boolean"}
    listed = ", ".join(
        '"' + field.name.replace('"', '""') + '" ' + kinds[str(field.type)] for field in rows.schema
    )
    connection.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({listed})")
    with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            copy.write_row(row)


def fetched(cursor: Any) -> pa.Table:
    """The rows of a DB-API cursor."""
    names = [column[0] for column in cursor.description]
    found = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    columns = {
        name: [json.dumps(value) if isinstance(value, dict) else value for value in column]
        for name, column in zip(names, found, strict=True)
    }
    return pa.table(columns)


ENGINES: Mapping[str, Run] = {
    "duckdb": on_duckdb,
    "sqlite": on_sqlite,
    "datafusion": on_datafusion,
    "clickhouse": on_clickhouse,
}
"""Engines that need no server, by dialect."""
