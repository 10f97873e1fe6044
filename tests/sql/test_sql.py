"""A model as SQL gives the table of `predict_table`, on every engine that needs no server."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest
import sqlglot
from sql_cases import (
    BLOCKS,
    ENGINES,
    N,
    check_case,
    compare,
    fitted,
    hard_rows,
    on_duckdb,
    training,
)

import probclass_core as pc
from probclass_core.errors import DataError, NotSupportedError, SpecError


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return hard_rows()


def scored(model: pc.Model, rows: pa.Table, engine: str, **options: object) -> pa.Table:
    """The scored table of an engine, in the order of the rows."""
    query = model.to_sql(dialect=engine, source="rows", options={"columns": "key", **options})
    result = ENGINES[engine](rows, query)
    return result.take(pac.sort_indices(result["key"]))


@pytest.mark.parametrize("engine", [*ENGINES, pytest.param("postgres", marks=pytest.mark.services)])
@pytest.mark.parametrize("case", BLOCKS)
def test_every_family_scores_as_in_python(
    engine: str, case: str, request: pytest.FixtureRequest
) -> None:
    run = ENGINES.get(engine) or request.getfixturevalue("on_postgres")
    if (engine, case) == ("sqlite", "written"):
        with pytest.raises(NotSupportedError, match="sqlite cannot read the text of"):
            check_case(case, engine, run)
    else:
        check_case(case, engine, run)


def with_wrong_labels(table: pa.Table) -> pa.Table:
    """Half of the labels are those of other rows, so that posteriors are too sure of themselves."""
    labels = np.array(table["label"].to_pylist())
    labels[::2] = np.random.default_rng(0).permutation(labels[::2])
    return table.set_column(0, "label", pa.array(labels.tolist()))


COSTS = {"one": {"it's two": 5.0, 'th"ree': 0.5}, 'th"ree': {"one": 2.0}}


@pytest.mark.parametrize(
    ("weights", "calibrated"),
    [
        (None, False),
        ("fit", True),
        ({"gaussian_diagonal": 0.5}, True),
        (None, True),
    ],
)
@pytest.mark.parametrize(
    "decision",
    [
        {"by": "map", "min_probability": 0.6, "min_rarity": 0.2},
        {"by": "ml", "costs": COSTS},
    ],
)
def test_decisions_weights_and_calibration_are_in_the_query(
    decision: dict[str, object], calibrated: bool, weights: object, rows: pa.Table
) -> None:
    spec = pc.ModelSpec(
        "label",
        {"gaussian_diagonal": N, "categorical": ["word"]},
        block_weights=weights,  # type: ignore[arg-type]
    )
    table = training()
    model = pc.fit(table, spec)
    if calibrated:
        model = pc.calibrate(model, with_wrong_labels(training(5, 3000)))
        assert model.calibrator is not None
    model = pc.with_density_quantiles(model, table)
    for engine in ("duckdb", "sqlite"):
        expected = model.predict_table(rows, options={"columns": ["key"], "decision": decision})
        compare(expected, scored(model, rows, engine, decision=decision))


def test_another_prior_gives_the_posteriors_of_that_prior(rows: pa.Table) -> None:
    model = fitted("mixed")
    shares = {"one": 0.7, "it's two": 0.2, 'th"ree': 0.1}
    compare(
        model.with_prior(shares)
        .predict_table(rows, options={"columns": ["key"]})
        .drop_columns(["model_id", "log_density"]),
        scored(model, rows, "duckdb", prior=shares).drop_columns(["model_id", "log_density"]),
    )


def test_a_list_of_posteriors_is_in_class_order(rows: pa.Table) -> None:
    model = fitted("mixed")
    expected = model.predict_table(rows, options={"columns": ["key"], "posterior": "list"})[
        "posterior"
    ]
    actual = scored(model, rows, "duckdb", posterior="list")["posterior"]
    np.testing.assert_allclose(expected.to_pylist(), actual.to_pylist(), rtol=1e-9, atol=1e-300)
    with pytest.raises(NotSupportedError, match="sqlite has no lists"):
        model.to_sql(dialect="sqlite", source="rows", options={"posterior": "list"})


@pytest.mark.parametrize("engine", [*ENGINES, pytest.param("postgres", marks=pytest.mark.services)])
def test_densities_of_bins_at_the_ends_of_float64(
    engine: str, request: pytest.FixtureRequest
) -> None:
    """A single number is beyond the arithmetic of PostgreSQL; the other rows have their density."""
    run = ENGINES.get(engine) or request.getfixturevalue("on_postgres")
    random = np.random.default_rng(2)
    group = random.integers(0, 2, 400)
    table = pa.table(
        {
            "label": np.array(["a", "b"])[group],
            "small": random.gamma(1.0 + group) * 1e-3,
            "large": np.where(random.random(400) < 0.5, 0.0, random.gamma(2.0, 1.0 + group) * 1e3),
        }
    )
    model = pc.fit(table, pc.ModelSpec.auto(table, "label", sql=True))
    largest = float(np.finfo(np.float64).max)
    numbers = [0.0, 5e-324, -5e-324, 1e-300, 1e30, -largest, largest, None, 0.01]
    rows = pa.table({"key": range(9), "small": numbers, "large": numbers})
    result = run(rows, model.to_sql(dialect=engine, source="rows", options={"columns": ["key"]}))
    expected = model.predict_table(rows, options={"columns": ["key"]})
    result = result.take(pac.sort_indices(result["key"]))
    assert set(result["log_density"].slice(5, 2).to_pylist()) == {-np.inf}
    for part in (slice(0, 4), slice(7, 9)):
        places = pa.array(range(9)[part])
        compare(expected.take(places), result.take(places))


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_score_refuses_have_null_in_every_scored_column(engine: str) -> None:
    table = training(rows=200)
    blocks = [
        pc.Block("gaussian_diagonal", ["x"]),
        pc.Block("poisson", ["count"]),
        pc.Block("categorical", ["word"]),
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
    for row in (1, 2, 3):
        with pytest.raises(DataError):
            model.predict_table(rows.slice(row, 1))
    result = scored(model, rows, engine)
    known = [value is not None for value in result["prediction"].to_pylist()]
    assert known == [True, False, False, False, True]
    for name in result.column_names[2:-1]:
        assert [value is not None for value in result[name].to_pylist()] == known
    assert result["model_id"].to_pylist() == [model.id] * 5


def test_text_in_a_column_of_numbers_is_not_0_in_sqlite() -> None:
    model = pc.fit(training(), pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["x"])]))
    rows = pa.table({"key": [0, 1], "x": ["1.0", "abc"]})
    assert scored(model, rows, "sqlite")["prediction"].to_pylist() == [None, None]


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
        model.predict_table(rows, options={"columns": ["y"]}),
        on_duckdb(rows, model.to_sql(dialect="duckdb", source="rows", options={"columns": ["y"]})),
    )
    result = on_duckdb(partly, model.to_sql(dialect="duckdb", source="rows"))
    assert result["prediction"].to_pylist() == [None]


def test_names_of_passthrough_columns_may_be_those_of_the_query(rows: pa.Table) -> None:
    model = fitted("gaussian_diagonal")
    names = ["k1", "x1", "j1", "p1", "prob", "density", "refused", "o1", "s", "t", "reason"]
    table = rows
    for number, name in enumerate(names):
        table = table.append_column(name, pa.array([float(number)] * len(rows)))
    expected = model.predict_table(table, options={"columns": ["key", *names]})
    for engine in ("duckdb", "sqlite", "clickhouse"):
        query = model.to_sql(dialect=engine, source="rows", options={"columns": ["key", *names]})
        result = ENGINES[engine](table, query)
        compare(expected, result.take(pac.sort_indices(result["key"])))


HOSTILE = [
    "",
    "select",
    "it's",
    'a"b`c',
    "\\",
    "\\'; DROP TABLE rows; --",
    "'; DROP TABLE rows; --",
    "${env:HOME}",
    "{{ x }} {% endraw %} %s ? :name $1",
    "größe ☃ 🎲",
    "new\nline\ttab",
    "*/ /* --",
]
"""Texts that SQL, a driver or a template could take for more than text."""


@pytest.mark.parametrize("engine", ENGINES)
def test_hostile_texts_are_only_texts(engine: str) -> None:
    """As classes, categories and names of columns."""
    words = HOSTILE * 6
    names = [f"x{text}" for text in HOSTILE]
    columns = {name: np.arange(len(words)) % (place + 2.0) for place, name in enumerate(names)}
    table = pa.table(
        {"y": words, "word": words[5:] + words[:5], "key": range(len(words)), **columns}
    )
    blocks = {"categorical": ["word"], "gaussian_diagonal": names}
    model = pc.fit(table, pc.ModelSpec("y", blocks))
    rows = table.drop_columns(["y"])
    compare(model.predict_table(rows, options={"columns": ["key"]}), scored(model, rows, engine))
    query = model.to_sql(dialect=engine, source="rows")
    (parsed,) = sqlglot.parse(query, dialect=engine if engine != "datafusion" else "postgres")
    assert isinstance(parsed, sqlglot.exp.Select)
    known = {cte.alias for cte in parsed.ctes}
    read = {each.name for each in parsed.find_all(sqlglot.exp.Table)} - known
    assert read <= {"rows"}


def test_the_recipe_for_dbt_renders_to_the_query() -> None:
    table = pa.table({"y": HOSTILE * 4, "word": HOSTILE * 4, "key": range(4 * len(HOSTILE))})
    model = pc.fit(table, pc.ModelSpec("y", {"categorical": ["word"]}))
    select = model.to_sql(
        dialect="duckdb", source="(SELECT * FROM REF)", options={"columns": "key"}
    )
    template = select.replace("{", "{{ '{' }}").replace("FROM REF)", "FROM {{ ref('trips') }})")
    rendered = jinja2.Template(template).render(ref=lambda name: f"memory.main.{name}")
    assert rendered == select.replace("FROM REF)", "FROM memory.main.trips)")


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
            view = model.to_sql(
                dialect="duckdb", source=source, options={"columns": ["key"]}, view="my scores"
            )
            connection.execute(view)
            found = connection.execute('SELECT count(*) FROM "my scores"').fetchall()
            assert found == [(9 if source[0] == "(" else len(rows),)]
            connection.execute('DROP VIEW "my scores"')


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"sqlite"}))
@pytest.mark.parametrize("column", ["x", "count", "order", "flag"])
def test_text_in_a_column_of_another_type_is_an_error(engine: str, column: str) -> None:
    blocks = {
        "gaussian_diagonal": ["x"],
        "poisson": ["count"],
        "categorical": ["order", "flag"],
    }
    model = pc.fit(training(), pc.ModelSpec("label", blocks))
    rows = training(rows=3)
    rows = rows.set_column(rows.column_names.index(column), column, pa.array(["1", "abc", None]))
    with pytest.raises(Exception, match=f"abc|{column}|String|boolean"):
        scored(model, rows, engine)


@pytest.mark.parametrize(
    ("dialect", "source", "options", "message"),
    [
        ("duckbd", "rows", {}, "dialect 'duckbd' is unknown; use .* Did you mean 'duckdb'"),
        ("duckdb", "", {}, "source '' is not the name of a table"),
        ("duckdb", "a..b", {}, "source 'a..b' is not the name of a table"),
        ("duckdb", "read_parquet('a.parquet')", {}, "not the name of a table; .* in parentheses"),
        ("duckdb", "rows", {"columns": "prediction"}, "has the name of a scored column"),
        ("duckdb", "rows", {"columns": ["p_ONE"]}, "'p_ONE' and 'p_one' are the same to duckdb"),
        ("duckdb", "rows", {"posterior": "rows"}, "posterior must be"),
        ("duckdb", "rows", {"decision": "most"}, "decision by 'most' is unknown"),
        ("duckdb", "rows", {"prior": {"one": 1.0}}, "prior"),
        ("duckdb", "rows", {"watch": {"fail": ["nulls"]}}, "a scored row has no 'watch'"),
        ("postgres", "rows", {"columns": "c" * 64}, "of at most 63 bytes"),
        ("spark", "rows", {"columns": "${env:HOME}"}, "spark cannot have a column named"),
        ("duckdb", "rows", {"columns": "a\0b"}, "duckdb cannot have a column named"),
    ],
)
def test_bad_options_are_one_clear_line(
    dialect: str, source: str, options: dict[str, object], message: str
) -> None:
    model = fitted("gaussian_diagonal")
    with pytest.raises(SpecError, match=re.compile(message)):
        model.to_sql(dialect=dialect, source=source, options=options)


def test_an_estimator_without_a_formula_is_refused_with_its_reason() -> None:
    model = pc.fit(training(), pc.ModelSpec("label", [pc.Block("knn_density", ["number"])]))
    with pytest.raises(NotSupportedError, match="compare a row with all training rows"):
        model.to_sql(dialect="duckdb", source="rows")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("calibrated", [False, True])
def test_contributions_of_weights_calibrations_and_rules_are_those_of_python(
    engine: str, calibrated: bool
) -> None:
    """Blocks that are limited, bins with densities, and rejected rows."""
    blocks = [
        pc.Block("gaussian_diagonal", N[:2]),
        pc.Block("categorical", ["word", "order"]),
        pc.Block("gaussian_full", ["number", "amount"]),
        pc.Block("discretized", "number", "bins"),
    ]
    density = [
        pc.Block("discretized", [*N[:2], "number", "amount"], "of numbers"),
        pc.Block("categorical", ["word", "order"], "of categories", given="number"),
    ]
    spec = pc.ModelSpec(
        "label",
        [*blocks, *density],
        block_weights="fit",
        density=[str(block.name) for block in density],
    )
    model = pc.fit(training(), spec)
    if calibrated:
        labels = training()["label"].take(pa.array(np.arange(600) // 3 * 3))
        mixed_up = training().set_column(0, "label", labels)
        model = pc.calibrate(model, mixed_up)
        assert model.calibrator is not None
    rows = hard_rows()
    rule = pc.DecisionRule(costs={"one": {"it's two": 3.0}}, min_probability=0.6)
    options: dict[str, Any] = {"decision": rule, "contributions": True}
    if engine == "sqlite":
        rows = rows.slice(0, 60)
    expected = model.predict_table(rows, options={"columns": ["key"], **options})
    assert expected["prediction"].null_count > 0
    limited = expected["contribution_gaussian_diagonal"]
    assert 0 < pac.sum(pac.not_equal(limited, 0.0)).as_py() < len(rows)
    actual = scored(model, rows, engine, **options)
    # A tail of 1e5 nats that all classes share takes the digits in which they differ.
    near = pac.greater(expected["log_density"], -1e5)
    compare(expected.filter(near), actual.filter(near), tolerance=1e-8)
