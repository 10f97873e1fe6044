"""A model as SQL gives the table of `predict_table`, on every engine that needs no server."""

from __future__ import annotations

import dataclasses
import re
import time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest
from sql_cases import (
    BLOCKS,
    ENGINES,
    IN_TABLES,
    N,
    check_case,
    compare,
    fitted,
    hard_rows,
    on_duckdb,
    on_sqlite,
    training,
)

import probclass_core as pc

LONG_TO_PLAN = {
    *("gaussian_shared", "mixed", "multinomial", "multinomial_predictive", "negative_binomial"),
    *("poisson_predictive", "predictive", "student_full", "student_t"),
}
"""Cases that ClickHouse plans for 10 seconds: there they run with tables of numbers only."""


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return hard_rows()


def scored(
    model: pc.Model, rows: pa.Table, engine: str, *, tables: str | None = None, **options: object
) -> pa.Table:
    """The scored table of an engine, in the order of the rows; with tables of numbers if named."""
    query = model.to_sql(dialect=engine, source="rows", columns="key", tables=tables, **options)
    statements = model.to_sql_tables(dialect=engine, tables=tables) if tables else []
    result = ENGINES[engine](rows, query, statements)
    return result.take(pac.sort_indices(result["key"]))


@pytest.mark.parametrize("tables", [None, "numbers"], ids=["in_query", "in_tables"])
@pytest.mark.parametrize("case", BLOCKS)
@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_every_family_scores_as_in_python(engine: str, case: str, tables: str | None) -> None:
    check_case(case, engine, ENGINES[engine], tables)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "case", "tables"),
    [("datafusion", case, None) for case in BLOCKS]
    + [("datafusion", case, "numbers") for case in IN_TABLES]
    + [("clickhouse", case, None) for case in BLOCKS if case not in LONG_TO_PLAN]
    + [("clickhouse", case, "numbers") for case in sorted(LONG_TO_PLAN)],
)
def test_other_engines_score_as_in_python(engine: str, case: str, tables: str | None) -> None:
    check_case(case, engine, ENGINES[engine], tables)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "size"), [("duckdb", 200), ("sqlite", 5)])
def test_500_columns_and_50_classes_are_scored_by_joins(engine: str, size: int) -> None:
    random = np.random.default_rng(0)
    group = np.arange(400) % 50
    numbers = random.normal(0.1 * group, 1.0, (500, 400))
    names = [f"x{number}" for number in range(500)]
    table = pa.table({"y": group, "key": np.arange(400), **dict(zip(names, numbers, strict=True))})
    model = pc.fit(table, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", names)]))
    query = model.to_sql(dialect=engine, source="rows", columns="key", tables="numbers")
    assert len(query) < 150_000  # with numbers in it, 4 MB
    rows = table.slice(0, size)
    expected = model.predict_table(rows, columns=["key"])
    started = time.process_time()
    compare(expected, scored(model, rows, engine, tables="numbers"))
    assert time.process_time() - started < 60.0


def test_a_query_gives_null_if_rows_of_its_tables_are_missing(rows: pa.Table) -> None:
    model = fitted("mixed")
    query = model.to_sql(dialect="duckdb", source="rows", tables="numbers")
    statements = model.to_sql_tables(dialect="duckdb", tables="numbers")
    names = [each.split('"')[1] for each in statements if each.startswith("CREATE")]
    assert all(model.id[:12] in name for name in names)
    for change in (
        *(f'DELETE FROM "{name}" WHERE rowid = 0' for name in names),
        statements[-1],  # rows that are loaded twice
    ):
        result = on_duckdb(rows, query, [*statements, change])
        for name in result.column_names[:-1]:
            assert result[name].null_count == len(rows)
    twice = on_duckdb(rows, query, statements * 2)
    assert twice["prediction"].null_count < len(rows)


def with_wrong_labels(table: pa.Table) -> pa.Table:
    """Half of the labels are those of other rows, so that posteriors are too sure of themselves."""
    labels = np.array(table["label"].to_pylist())
    labels[::2] = np.random.default_rng(0).permutation(labels[::2])
    return table.set_column(0, "label", pa.array(labels.tolist()))


COSTS = {"one": {"it's two": 5.0, 'th"ree': 0.5}, 'th"ree': {"one": 2.0}}


@pytest.mark.parametrize(
    ("weights", "method"),
    [
        (None, None),
        ("fit", "temperature_and_bias"),
        ({"gaussian_diagonal": 0.5}, "isotonic"),
        (None, "temperature"),
        (None, "isotonic"),
    ],
)
@pytest.mark.parametrize(
    "decision",
    [
        {"by": "map", "min_probability": 0.6, "min_density_quantile": 0.2},
        {"by": "ml", "costs": COSTS},
    ],
)
def test_decisions_weights_and_calibration_are_in_the_query(
    decision: dict[str, object], method: str | None, weights: object, rows: pa.Table
) -> None:
    spec = pc.ModelSpec(
        "label",
        [pc.Block("gaussian_diagonal", N), pc.Block("categorical", ["word"])],
        block_weights=weights,  # type: ignore[arg-type]
    )
    table = training()
    model = pc.fit(table, spec)
    if method is not None:
        model = pc.calibrate(model, with_wrong_labels(training(5, 3000)), method=method)
        assert model.calibrator is not None
    model = pc.with_density_quantiles(model, table)
    for engine, tables in (("duckdb", None), ("sqlite", None), ("duckdb", "numbers")):
        expected = model.predict_table(rows, columns=["key"], decision=decision)
        compare(expected, scored(model, rows, engine, decision=decision, tables=tables))


def test_another_prior_gives_the_posteriors_of_that_prior(rows: pa.Table) -> None:
    model = fitted("mixed")
    shares = {"one": 0.7, "it's two": 0.2, 'th"ree': 0.1}
    compare(
        model.with_prior(shares)
        .predict_table(rows, columns=["key"])
        .drop_columns(["model_id", "log_density"]),
        scored(model, rows, "duckdb", prior=shares).drop_columns(["model_id", "log_density"]),
    )


def test_a_list_of_posteriors_is_in_class_order(rows: pa.Table) -> None:
    model = fitted("mixed")
    expected = model.predict_table(rows, columns=["key"], posterior="list")["posterior"]
    actual = scored(model, rows, "duckdb", posterior="list")["posterior"]
    np.testing.assert_allclose(expected.to_pylist(), actual.to_pylist(), rtol=1e-9, atol=1e-300)
    with pytest.raises(pc.NotSupportedError, match="sqlite has no lists"):
        model.to_sql(dialect="sqlite", source="rows", posterior="list")


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_score_refuses_have_null_in_every_scored_column(engine: str) -> None:
    table = training(rows=200)
    blocks = [
        pc.Block("gaussian_diagonal", ["x"]),
        pc.Block("poisson", ["count"]),
        pc.Block("categorical", ["word"], unseen="error"),
    ]
    model = pc.fit(table, pc.ModelSpec("label", blocks))
    rows = pa.table(
        {
            "key": [0, 1, 2, 3, 4],
            "x": [0.0, np.inf, 0.0, 0.0, None],
            "count": [1.0, 1.0, -2.0, 0.5, None],
            "word": ["b", "b", "b", "b", "b"],
        }
    )
    rows = pa.concat_tables([rows, rows.slice(0, 1).set_column(3, "word", pa.array(["unknown"]))])
    rows = rows.set_column(0, "key", pa.array(range(6)))
    for row in (1, 2, 3, 5):
        with pytest.raises(pc.DataError):
            model.predict_table(rows.slice(row, 1))
    result = scored(model, rows, engine)
    known = [value is not None for value in result["prediction"].to_pylist()]
    assert known == [True, False, False, False, True, False]
    for name in result.column_names[2:-1]:
        assert [value is not None for value in result[name].to_pylist()] == known
    assert result["model_id"].to_pylist() == [model.id] * 6


def test_text_in_a_column_of_numbers_is_not_0_in_sqlite() -> None:
    model = pc.fit(training(), pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["x"])]))
    rows = pa.table({"x": ["1.0", "abc"]})
    result = on_sqlite(rows, model.to_sql(dialect="sqlite", source="rows"))
    assert result["prediction"].to_pylist() == [None, None]


def test_many_columns_with_nulls_in_a_covariance_are_refused_row_by_row() -> None:
    random = np.random.default_rng(0)
    names = [f"x{number}" for number in range(6)]
    data = random.normal(size=(200, 6)) @ random.normal(size=(6, 6))
    table = pa.table({"y": ["a", "b"] * 100, **dict(zip(names, data.T, strict=True))})
    model = pc.fit(table, pc.ModelSpec("y", [pc.Block("gaussian_full", names)]))
    partly = table.slice(0, 1).set_column(1, "x0", pa.array([None], pa.float64()))
    none = pa.table({"y": ["a"], **{name: pa.array([None], pa.float64()) for name in names}})
    rows = pa.concat_tables([table, none])
    compare(
        model.predict_table(rows, columns=["y"]),
        on_duckdb(rows, model.to_sql(dialect="duckdb", source="rows", columns=["y"])),
    )
    result = on_duckdb(partly, model.to_sql(dialect="duckdb", source="rows"))
    assert result["prediction"].to_pylist() == [None]


def test_names_of_passthrough_columns_may_be_those_of_the_query(rows: pa.Table) -> None:
    model = fitted("gaussian_diagonal")
    names = ["k1", "x1", "j1", "p1", "prob", "density", "refused", "o1", "s", "t", "reason"]
    table = rows
    for number, name in enumerate(names):
        table = table.append_column(name, pa.array([float(number)] * len(rows)))
    expected = model.predict_table(table, columns=["key", *names])
    for engine in ("duckdb", "sqlite", "clickhouse"):
        query = model.to_sql(dialect=engine, source="rows", columns=["key", *names])
        result = ENGINES[engine](table, query)
        compare(expected, result.take(pac.sort_indices(result["key"])))


def test_classes_may_be_integers_or_bools() -> None:
    for labels in ([3, -1] * 50, [True, False] * 50):
        table = pa.table({"y": labels, "x": np.arange(100.0) % 7})
        model = pc.fit(table, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])]))
        query = model.to_sql(dialect="duckdb", source="rows")
        result = on_duckdb(table, query)
        assert result["prediction"].to_pylist() == model.predict(table).to_pylist()


def test_a_view_is_created_and_its_source_may_be_a_query(rows: pa.Table) -> None:
    model = fitted("gaussian_diagonal")
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        for source in ("rows", ["memory", "main", "rows"], "(SELECT * FROM rows WHERE key < 9)"):
            if isinstance(source, list):
                connection.execute("CREATE TABLE copied AS SELECT * FROM rows")
                source = [*source[:2], "copied"]
            view = model.to_sql(dialect="duckdb", source=source, columns=["key"], view="my scores")
            connection.execute(view)
            found = connection.execute('SELECT count(*) FROM "my scores"').fetchall()
            assert found == [(9 if source[0] == "(" else len(rows),)]
            connection.execute('DROP VIEW "my scores"')


def test_a_column_that_the_table_lacks_is_named_by_the_engine(rows: pa.Table) -> None:
    model = fitted("gaussian_diagonal")
    table = rows.drop_columns(["select"])
    with pytest.raises(duckdb.Error, match="select"):
        on_duckdb(table, model.to_sql(dialect="duckdb", source="rows"))
    with pytest.raises(Exception, match=r"no such column: t\.select"):
        on_sqlite(table, model.to_sql(dialect="sqlite", source="rows"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "duckbd"}, "dialect 'duckbd' is unknown; use .* Did you mean 'duckdb'"),
        ({"source": ""}, "source '' is not the name of a table"),
        ({"source": "a..b"}, "source 'a..b' is not the name of a table"),
        ({"columns": "prediction"}, "has the name of a scored column"),
        ({"columns": ["p_ONE"]}, "'p_ONE' and 'p_one' are the same to duckdb"),
        ({"posterior": "rows"}, "posterior must be"),
        ({"decision": "most"}, "decision by 'most' is unknown"),
        ({"prior": {"one": 1.0}}, "prior"),
        ({"dialect": "postgres", "columns": "c" * 64}, "of at most 63 bytes"),
        ({"dialect": "spark", "columns": "${env:HOME}"}, "spark cannot have a column named"),
        ({"columns": "a\0b"}, "duckdb cannot have a column named"),
        ({"tables": ""}, "tables '' is not the name of a table"),
        ({"tables": "a" * 64, "dialect": "postgres"}, "postgres cannot have"),
    ],
)
def test_bad_options_are_one_clear_line(options: dict[str, object], message: str) -> None:
    model = fitted("gaussian_diagonal")
    with pytest.raises(pc.SpecError, match=re.compile(message)):
        model.to_sql(**{"dialect": "duckdb", "source": "rows", **options})  # type: ignore[arg-type]


def test_an_estimator_without_a_formula_is_refused_with_its_reason() -> None:
    model = pc.fit(training(), pc.ModelSpec("label", [pc.Block("knn_density", ["number"])]))
    with pytest.raises(pc.NotSupportedError, match="compare a row with all training rows"):
        model.to_sql(dialect="duckdb", source="rows")
    newer = fitted("gaussian_diagonal")
    likelihood = newer.likelihoods["gaussian_diagonal"]
    formula = dataclasses.replace(likelihood.formula(), version=2)  # type: ignore[attr-defined]
    likelihood.formula = lambda: formula  # type: ignore[attr-defined]
    with pytest.raises(pc.NotSupportedError, match="has a formula of version 2"):
        newer.to_sql(dialect="duckdb", source="rows")


def test_the_query_of_20_columns_and_5_classes_is_short() -> None:
    random = np.random.default_rng(0)
    columns = {f"column_{number}": random.normal(size=500) for number in range(20)}
    table = pa.table({"y": random.integers(0, 5, 500), **columns})
    model = pc.fit(table, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", list(columns))]))
    assert len(model.to_sql(dialect="postgres", source="rows").encode()) < 100_000
