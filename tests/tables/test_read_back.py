"""Other tools read the same rows, types, nulls and partition values from a scored table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backends import parquet
from every_type import ROWS, TABLE, columns_of, every_third_null

import probclass_core as pc

COLUMNS = {
    **{name: TABLE[name] for name in TABLE.column_names if name != "label"},
    "unsigned": every_third_null([1, 2**63], pa.uint64()),
    "large": every_third_null(["x", "y"], pa.large_string()),
    "coded": every_third_null(["p", "q"], pa.string()).dictionary_encode(),
    "nothing": pa.nulls(ROWS, pa.float64()),
}


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("back")
    labels = pa.array([[True, False, None][row % 3] for row in range(ROWS)])
    table = pa.table({**COLUMNS, "label": labels})
    spec = pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["double", "small"])])
    model = pc.fit(table, spec)
    pq.write_to_dataset(table, root / "lake", partition_cols=["month", "hour"])
    pc.score(model, root / "lake", root / "scored")
    return root / "scored"


def with_pandas(sink: Path) -> pa.Table:
    frame = pd.read_parquet(sink, dtype_backend="pyarrow")
    return pa.Table.from_pandas(frame, preserve_index=False)


def with_tool(tool: str, sink: Path) -> pa.Table:
    return with_pandas(sink) if tool == "pandas" else parquet(sink.parent).others[tool](sink.name)


@pytest.mark.parametrize("tool", ["duckdb", "polars", "pandas"])
def test_another_tool_reads_the_same(sink: Path, tool: str) -> None:
    expected = columns_of(with_tool("pyarrow", sink))
    for name, column in COLUMNS.items():
        assert expected[name] == column.to_pylist(), name
    assert columns_of(with_tool(tool, sink)) == expected


def test_scored_columns_have_types_that_all_tools_read(sink: Path) -> None:
    schema = pq.read_schema(next(sink.rglob("*.parquet")))
    kinds = {name: schema.field(name).type for name in schema.names if name not in COLUMNS}
    assert kinds == {
        "label": pa.bool_(),
        "prediction": pa.bool_(),
        "probability": pa.float64(),
        "p_false": pa.float64(),
        "p_true": pa.float64(),
        "log_density": pa.float64(),
        "model_id": pa.string(),
    }


def test_categories_of_many_files_are_read_back_from_one_file(tmp_path: Path) -> None:
    # pandas encodes up to 127 categories in 8 bits; the two days together have more.
    (tmp_path / "lake").mkdir()
    days = []
    for day in ("monday", "tuesday"):
        stations = [f"{day} {number}" for number in range(100)]
        frame = pd.DataFrame({"station": pd.Categorical(stations), "x": range(100)})
        days.append(frame.assign(label=frame["x"] % 2 == 0))
        days[-1].to_parquet(tmp_path / "lake" / f"{day}.parquet", index=False)
    written = [name for day in days for name in day["station"]]
    together = pa.concat_tables([pa.table(day) for day in days])
    model = pc.fit(tmp_path / "lake", pc.ModelSpec("label", [pc.Block("categorical", ["station"])]))
    assert pc.fit(together, model.spec).classes == model.classes
    sources = {"files": tmp_path / "lake", "memory": together, "reader": together.to_reader()}
    for name, source in sources.items():
        pc.score(model, source, tmp_path / name)
        for tool in ("pyarrow", "pandas"):
            assert with_tool(tool, tmp_path / name)["station"].to_pylist() == written, (name, tool)
        assert (
            pc.score(model, tmp_path / name, tmp_path / "again", options={"columns": ["x"]}).rows
            == 200
        )
