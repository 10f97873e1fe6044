"""Writers that are killed, race or lose their object store leave whole versions or none."""

from __future__ import annotations

import subprocess
import time
import uuid
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from python_processes import start_python
from sample_models import SampleModel

from probclass_core.errors import StoreError
from probclass_core.store.model_store import ModelStore

PROCESSES = Path(__file__).parent / "processes.py"


def start(*arguments: object) -> subprocess.Popen[str]:
    return start_python(PROCESSES, *arguments, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def test_a_writer_killed_before_any_step_leaves_all_or_nothing_and_a_rerun_completes(
    tmp_path: Path,
) -> None:
    finish(start("killed", tmp_path))
    roots = sorted(tmp_path.iterdir())
    saved = promoted = 0
    for root in roots:
        store = ModelStore(root)
        for folder in root.glob(f"air/{SampleModel(1).id}"):
            assert {path.name for path in folder.iterdir()} == {"manifest.json", "tables.arrow"}
        if store.models():
            saved += 1
            assert store.read_bundle("air").content_id == SampleModel(1).id
            assert len(store.versions("air")) == 1
            if store.aliases("air"):
                promoted += 1
                assert store.resolve("air@champion").id == SampleModel(1).id
        version = store.save(SampleModel(1), "air")
        store.promote("air", version, "champion")
        assert store.read_bundle("air@champion").content_id == SampleModel(1).id
        assert store.versions("air") == [version]
    # Some were killed before and some after each of the two commits.
    assert len(roots) > 20
    assert 3 < promoted < saved < len(roots) - 3


def test_processes_that_save_equal_models_make_one_version_of_each(tmp_path: Path) -> None:
    racers = [start("race", tmp_path, time.time() + 2) for _ in range(3)]
    for racer in racers:
        finish(racer)
    store = ModelStore(tmp_path)
    assert {version.id for version in store.versions("air")} == {
        SampleModel(n).id for n in range(10)
    }
    for version in store.versions("air"):
        assert store.read_bundle(version.ref).content_id == version.id
        assert version.provenance["process"] in {racer.pid for racer in racers}
    assert not list(tmp_path.rglob(".*"))


def test_no_swap_of_racing_processes_is_lost_and_the_alias_always_resolves(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models")
    first = store.save(SampleModel(99), "air")
    store.promote("air", first, "champion")
    outputs = [tmp_path / f"moves-{number}" for number in range(3)]
    racers = [
        start("swap", tmp_path / "models", 12 * number, 12 * (number + 1), path)
        for number, path in enumerate(outputs)
    ]
    seen = set()
    while any(racer.poll() is None for racer in racers):
        seen.add(store.resolve("air@champion").id)
        assert set(store.aliases("air")) == {"champion"}
    for racer in racers:
        finish(racer)
    moves = [line.split() for path in outputs for line in path.read_text().splitlines()]
    followed_by = dict(moves)
    assert len(moves) == len(followed_by) == 36  # no version was replaced twice
    assert len(seen) > 1
    assert seen <= {first.id, *followed_by.values()}
    last = first.id
    while last in followed_by:
        last = followed_by.pop(last)
    assert followed_by == {}
    assert store.resolve("air@champion").id == last
    assert not list(tmp_path.rglob(".*"))


class FailingFileSystem(MemoryFileSystem):
    """An object store that fails after a number of PUTs."""

    protocol = "failing"
    remaining_puts = 0

    def pipe_file(self, path: str, value: bytes, **options: object) -> None:
        if FailingFileSystem.remaining_puts == 0:
            raise ConnectionError("the object store went away")
        FailingFileSystem.remaining_puts -= 1
        super().pipe_file(path, value, **options)


@pytest.fixture
def failing_uri() -> str:
    fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
    return f"failing://{uuid.uuid4()}"


@pytest.mark.parametrize("puts", [0, 1])
def test_a_save_that_fails_in_an_object_store_shows_no_version(failing_uri: str, puts: int) -> None:
    store = ModelStore(failing_uri)
    FailingFileSystem.remaining_puts = puts
    with pytest.raises(StoreError, match=r"cannot write failing://.*: the object store went away"):
        store.save(SampleModel(), "air")
    assert store.models() == []
    with pytest.raises(StoreError, match="no model 'air'"):
        store.load(f"air@{SampleModel().id}")
    FailingFileSystem.remaining_puts = 10
    version = store.save(SampleModel(), "air")
    assert store.read_bundle("air").content_id == version.id


def test_a_promotion_that_fails_leaves_the_alias_unchanged(failing_uri: str) -> None:
    store = ModelStore(failing_uri)
    FailingFileSystem.remaining_puts = 10
    first, second = store.save(SampleModel(), "air"), store.save(SampleModel(1), "air")
    store.promote("air", first, "champion")
    FailingFileSystem.remaining_puts = 0
    with pytest.raises(StoreError, match="went away"):
        store.promote("air", second, "champion")
    assert store.resolve("air@champion") == first
