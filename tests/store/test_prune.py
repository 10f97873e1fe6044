"""Old versions are deleted, and those in use are kept."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.errors import SpecError, TableError, TableMismatchError
from probclass_core.store.records import ModelVersion

NOW = timedelta(0)


def rows(number: int) -> pa.Table:
    """Rows that give each number another model."""
    return pa.table({"x": [0.0, 1.0, 2.0, 3.0 + number], "y": ["a", "a", "b", "b"]})


@pytest.fixture
def saved(store: pc.ModelStore) -> list[ModelVersion]:
    """Six versions, oldest first."""
    spec = pc.ModelSpec("y", {"gaussian_diagonal": ["x"]})
    return [store.save(pc.fit(rows(number), spec), "air") for number in range(6)]


def left(store: pc.ModelStore) -> list[str]:
    return [version.id for version in store.versions("air")]


def test_the_newest_are_kept_and_the_rest_are_deleted_with_their_evaluations(
    store: pc.ModelStore, saved: list[ModelVersion]
) -> None:
    for version in saved:
        store.record_evaluation(version, pc.evaluate(store.load(version.ref), rows(0)))
    assert store.prune("air", keep=2, older_than=NOW, dry_run=True) == saved[:4]
    assert left(store) == [version.id for version in saved]
    assert store.prune("air", keep=2, older_than=NOW) == saved[:4]
    assert left(store) == [version.id for version in saved[4:]]
    assert [len(store.evaluations(version)) for version in saved[4:]] == [1, 1]
    for version in saved[:4]:
        assert not list(Path(store.uri, "air").rglob(f"*{version.id}*"))
    assert store.prune("air", keep=2, older_than=NOW) == []


def test_a_young_version_may_belong_to_a_run_that_has_not_promoted_it(
    store: pc.ModelStore, saved: list[ModelVersion]
) -> None:
    assert store.prune("air", keep=0) == []
    assert left(store) == [version.id for version in saved]


def test_aliases_and_every_version_to_roll_back_to_are_kept(
    store: pc.ModelStore, saved: list[ModelVersion]
) -> None:
    for version in saved[:4]:
        store.promote("air", version, "champion")
    store.promote("air", saved[4], "other")
    store.rollback("air")  # from the fourth, which is no target any more
    assert store.prune("air", keep=0, older_than=NOW) == [saved[3], saved[5]]
    named = [store.resolve("air@champion").id]
    while len(named) < 3:
        named.append(store.rollback("air").id)
    assert named == [version.id for version in saved[2::-1]]
    assert store.resolve("air@other").id == saved[4].id


@pytest.mark.parametrize("name", ["parquet", "delta"])
def test_the_versions_that_scored_a_table_are_kept(
    store: pc.ModelStore, saved: list[ModelVersion], tmp_path: Path, name: str
) -> None:
    sink = pc.TableRef(str(tmp_path / "scored"), format=name)
    for version in (saved[3], saved[1]):  # the second replaces the first
        pc.score(store.load(version.ref), rows(0), sink)
    assert saved[1] not in store.prune("air", keep=0, older_than=NOW, sinks=[sink])
    assert left(store) == [saved[1].id]


def test_what_cannot_be_pruned_is_refused(
    store: pc.ModelStore, saved: list[ModelVersion], tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match="keep must be a whole number of at least 0, got -1"):
        store.prune("air", keep=-1)
    with pytest.raises(TableError, match="does not exist"):
        store.prune("air", keep=0, older_than=NOW, sinks=[tmp_path / "nowhere"])
    (tmp_path / "scored.csv").write_text("x,y\n1,a\n")
    with pytest.raises(TableMismatchError, match="does not record which models scored it"):
        store.prune("air", keep=0, older_than=NOW, sinks=[tmp_path / "scored.csv"])
    assert left(store) == [version.id for version in saved]
