"""Specs, models, commits and units keep their ids; scored rows keep their bytes.

Stores and lakes refer to models and commits by these ids, so a change of one is a change of format.
``identity.json`` contains them as they were first recorded. They do not depend on the platform: all
sums are exact, no parameter is a logarithm, and the Parquet files of the lake are stored next to
this file, because the writer's version changes their size and thereby their digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.arrow.bundle import to_ipc
from probclass_core.io.parquet.units import FragmentDigests, file_digest

HERE = Path(__file__).parent
MODIFIED_NS = 1_388_534_400_000_000_000
BLOCKS: Mapping[str, pc.Block] = {
    "gaussian_diagonal": pc.Block("gaussian_diagonal", ["x", "y"]),
    "gaussian_full": pc.Block("gaussian_full", ["x", "y"], ridge=0.5),
    "gaussian_shared": pc.Block("gaussian_shared", ["x", "y"], ridge=0.5),
    "categorical": pc.Block("categorical", ["word"], domain={"word": ["p", "q", "r", "s"]}),
    "categorical_joint": pc.Block("categorical_joint", ["word", "y"]),
    "discretized": pc.Block("discretized", ["x"], method="width", bins=4),
    "bernoulli": pc.Block("bernoulli", ["text"]),
    "multinomial": pc.Block("multinomial", ["text"]),
    "poisson": pc.Block("poisson", ["i"], pseudo_rows=2.0),
    "knn_density": pc.Block("knn_density", ["x"], k=1),
}
PINNED = json.loads((HERE / "identity.json").read_text())


def rows() -> pa.Table:
    """Rows whose weights add up to a power of two in each class, so that their means are exact."""
    columns = {
        "kind": ["b", "a", "a", "c", "a", "b", "c", None, "a", "b", "a", "a", "b", "a", "a", "c"],
        "x": pa.array([1, 3, 5, -2, 4, 2, 7, 4, 1, 7, 4, 1, 6, -3, 2, 9], pa.float64()),
        "y": pa.array([2, 2, -4, 8, 1, 0, 3, 0, 5, 2, -2, 4, 4, 6, 1, 0], pa.int16()),
        "i": pa.array([0, 1, 2, 3, None, 2, 1, 5] * 2, pa.int64()),
        "word": ["p", "q", "p", None, "r", "q", "q", "p"] * 2,
        "text": pa.array([["p", "q"], ["q"], [], None, ["r", "r"], ["p"], ["q"], []] * 2),
        "weight": [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0] + [1.0] * 7 + [0.0],
    }
    return pa.table(columns)


def spec_of(estimator: str) -> pc.ModelSpec:
    return pc.ModelSpec("kind", [BLOCKS[estimator]], prior="uniform", weight="weight")


@pytest.mark.parametrize("estimator", PINNED["specs"])
def test_digest_of_a_spec_is_unchanged(estimator: str) -> None:
    assert spec_of(estimator).digest == PINNED["specs"][estimator]


@pytest.mark.parametrize("estimator", PINNED["models"])
def test_id_of_a_fitted_model_is_unchanged(estimator: str) -> None:
    assert pc.fit(rows(), spec_of(estimator)).id == PINNED["models"][estimator]


def test_commit_id_and_files_of_a_scored_lake_are_unchanged(tmp_path: Path) -> None:
    """The commit id covers the model, the state of the files read, the partition and the types."""
    source, sink = tmp_path / "lake", tmp_path / "scored"
    shutil.copytree(HERE / "lake", source)
    for path in source.rglob("*.parquet"):
        os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))
    model = pc.fit(rows(), pc.ModelSpec("kind", [BLOCKS["poisson"]], prior="uniform"))
    report = pc.score(
        model,
        source,
        sink,
        options=pc.ScoringOptions(decision=pc.DecisionRule(min_probability=0.6)),
    )
    assert report.commit_id == PINNED["scored"]["commit_id"]
    files = sorted(path.relative_to(sink).as_posix() for path in sink.rglob("*") if path.is_file())
    assert files == PINNED["scored"]["files"]


def test_scored_rows_are_unchanged(tmp_path: Path) -> None:
    """Rows without features have the prior as their posterior: halves and quarters are exact."""
    prior = {"a": 0.5, "b": 0.25, "c": 0.25}
    model = pc.fit(rows(), pc.ModelSpec("kind", [BLOCKS["gaussian_diagonal"]], prior=prior))
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("y", pa.int64())])
    unknown = pa.table({"id": [1, 2, 3], "x": [None] * 3, "y": [None] * 3}, schema)
    pc.score(model, unknown, tmp_path / "scored")
    scored = pq.read_table(tmp_path / "scored").replace_schema_metadata(None).combine_chunks()
    assert hashlib.sha256(to_ipc(scored)).hexdigest() == PINNED["prior"], str(scored)


def test_digests_of_fragments_and_files_are_unchanged() -> None:
    """Cached statistics and footers are stored under these digests."""
    schema = pa.schema([("x", pa.float64()), ("kind", pa.dictionary(pa.int32(), pa.string()))])
    digests = FragmentDigests("s3://lake/rows", schema, {"part": 1}, [("x", ">", 0.5)])
    state = f"part=1/rows.parquet\0{1234}\0{MODIFIED_NS}"
    assert {
        "fragment": digests.digest(state, {}, [0, 1]),
        "fragment_of_a_partition": digests.digest(state, {"part": 1}, [0]),
        "file": file_digest("s3://lake/rows", state),
    } == PINNED["digests"]
