"""Stored models with one thing wrong: refused by one line, or scored with distributions."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hostile_bundles import models, notes, rows, unusual_rows, with_value

import probclass_core as pc
from probclass_core.arrow.bundle import TABLES, Bundle, from_ipc, to_ipc
from probclass_core.errors import StoreError
from probclass_core.model.stored import model_from_bundle


def stored(bundle: Bundle, **tables: pa.Table) -> pc.Model:
    """Store tables instead of those of a bundle, with right checksums, and load the model."""
    changed = Bundle(bundle.content, {**bundle.tables, **tables}, bundle.provenance)
    read = Bundle.from_files(changed.manifest(), {TABLES: changed.data}.__getitem__)
    return model_from_bundle(read, where="air")


@pytest.fixture(scope="module")
def bundles() -> dict[str, Bundle]:
    return models()


@pytest.mark.parametrize(
    ("name", "table", "column", "value", "message"),
    [
        ("gaussian_diagonal", "priors", "prior", np.nan, "prior is nan"),
        ("gaussian_diagonal", "priors", "prior", -0.2, "prior is -0.2, and must be"),
        ("gaussian_diagonal", "priors", "prior", 0.9, "the priors sum to 1[.][0-9]* instead"),
        ("gaussian_diagonal", "gaussian_diagonal", "variance", -1.0, "variance is -1.0"),
        ("gaussian_diagonal", "gaussian_diagonal", "mean", np.inf, "mean is inf"),
        ("categorical", "categorical", "log_probability", 2.0, "log_probability is not what the"),
        ("categorical", "categorical", "log_probability", -9.0, "log_probability is not what the"),
        ("discretized", "discretized", "lower", 0.5, "lower is not what the counts"),
        ("poisson", "poisson", "rate", -3.0, "rate is not what the counts"),
        ("calibrated", "calibration", "value", np.nan, "bias is nan"),
        ("weights", "block_weights", "value", -2.0, "block weight is -2.0"),
    ],
)
def test_a_wrong_number_is_named(
    bundles: dict[str, Bundle], name: str, table: str, column: str, value: float, message: str
) -> None:
    bundle = bundles[name]
    wrong = with_value(bundle.tables[table], column, 1, value)
    with pytest.raises(StoreError, match=rf"air is not a valid model: .*{message}.*restore it"):
        stored(bundle, **{table: wrong})


def test_a_missing_row_and_an_indefinite_covariance_are_refused(
    bundles: dict[str, Bundle],
) -> None:
    categorical = bundles["categorical"]
    with pytest.raises(StoreError, match="1 rows are missing"):
        stored(categorical, categorical=categorical.tables["categorical"].slice(1))
    full = bundles["gaussian_full"]
    table = full.tables["gaussian_full"]
    matrices = table["covariance"].combine_chunks().to_numpy_ndarray().copy()
    matrices[0] = [[1.0, 2.0], [2.0, 1.0]]
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(matrices)
    place = table.column_names.index("covariance")
    with pytest.raises(StoreError, match="a covariance is not positive definite"):
        stored(full, gaussian_full=table.set_column(place, "covariance", tensor))


def test_cuts_that_are_an_empty_text_are_refused(bundles: dict[str, Bundle]) -> None:
    table = bundles["bins given"].tables["discretized"]
    changed = json.dumps({**notes(table), "cuts": {"x": ""}})
    with pytest.raises(StoreError, match="a list of ascending numbers"):
        stored(
            bundles["bins given"], discretized=table.replace_schema_metadata({"probclass": changed})
        )


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("text", [True, False], ids=["in a dictionary", "in a batch"])
def test_a_compressed_file_is_refused(codec: str, text: bool) -> None:
    values = pa.array(["x" * 10_000_000]).dictionary_encode() if text else np.zeros(10_000_000)
    table, sink = pa.table({"a": values}), io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    before = pa.total_allocated_bytes()
    with pytest.raises(StoreError, match="compressed" if text else "rows, which its"):
        from_ipc(sink.getvalue())
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert from_ipc(to_ipc(table)).equals(table)


@pytest.mark.parametrize("name", ["knn_density", "gaussian_full"])
def test_a_model_in_use_outlives_its_files(tmp_path: Path, name: str) -> None:
    store = pc.ModelStore(tmp_path)
    store.save(pc.fit(rows(), pc.ModelSpec("y", {name: ["x", "z"]})), "air")
    model = store.load("air")
    expected = model.predict_table(unusual_rows())
    for path in tmp_path.glob("air/*/*.arrow"):
        path.write_bytes(b"")  # a mapped file would kill the process when it is read
    assert model.predict_table(unusual_rows()).equals(expected)
