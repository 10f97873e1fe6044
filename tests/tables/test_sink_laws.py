"""The laws of a sink, tried on every format that is written, and on the one of docs/plugins.md.

``PROBCLASS_KILLS`` is the number of writers to kill for each law and format; ``make faults`` kills
one at every step, and others at random times. By day, one format stands for all sinks of one file.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from backends import Backend, appending, objects

import probclass_core as pc
from probclass_core.authoring import Sink
from probclass_core.errors import TableError
from probclass_core.io.commit.file_sink import StagedFile
from probclass_core.io.open import Parquet
from probclass_core.io.parquet.sink import ParquetFileSink
from probclass_core.testing.tables import FIRST, Reader, SinkLaws, TableUnderTest

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


LOCAL = ("parquet", "delta", "iceberg")
SinkLaws.kills = int(os.environ.get("PROBCLASS_KILLS", "3"))
KILLS_AT_NIGHT = int(os.environ.get("PROBCLASS_KILLS", "0"))
_LOGS = ("delta on ", "iceberg on ")


class Formats(SinkLaws):
    """Parquet, Delta and Iceberg; on servers, writers are killed in test_object_store_faults.py."""

    @pytest.fixture(autouse=True)
    def _backend(self, backend: Backend, request: Any) -> None:
        # In buckets, polars neither decodes the paths of a Delta log, nor takes the endpoint from a
        # catalog of Iceberg.
        lacks = {"polars"} if request.node.callspec.params["backend"].startswith(_LOGS) else set()
        self.others = {name: backend.others[name] for name in backend.others.keys() - lacks}
        type(self).refuses_second = backend.name not in ("parquet", "object store")
        local = request.node.callspec.params["backend"] in LOCAL
        type(self).kills = SinkLaws.kills if local else 0

    @pytest.fixture
    def ref(self, backend: Backend) -> pc.TableRef:
        return backend.ref("scored")

    def _kill_writers(self, table: TableUnderTest, *, append: bool) -> None:
        if self.kills:  # else not even the steps of a writer are counted
            super()._kill_writers(table, append=append)

    def readers(self, ref: pc.TableRef) -> Mapping[str, Reader]:
        return {name: partial(read, "scored") for name, read in self.others.items()}


@appending
class TestPartitionedFormats(Formats):
    """On local disks and on servers of object stores."""


@objects
class TestPartitionedObjects(Formats):
    """A Parquet directory on an object store, where a partition is one object."""

    appends = False


@pytest.mark.parametrize("backend", LOCAL, indirect=True)
class TestFormatsWithoutPartitions(Formats):
    partitioned = removes = False
    kills = 0


@pytest.mark.parametrize("backend", ["object store"], indirect=True)
class TestObjectsWithoutPartitions(Formats):
    partitioned = appends = removes = False
    kills = 0


class TestParquetFile(SinkLaws):
    partitioned = appends = removes = False

    @pytest.fixture
    def ref(self, tmp_path: Path) -> pc.TableRef:
        return pc.TableRef(str(tmp_path / "scored.parquet"))


class TestCsvFile(SinkLaws):
    partitioned = appends = removes = False
    keeps_records = False
    kills = KILLS_AT_NIGHT

    @pytest.fixture(params=["scored.csv", "scored.tsv.gz"])
    def ref(self, tmp_path: Path, request: Any) -> pc.TableRef:
        return pc.TableRef(str(tmp_path / request.param))


class TestFormatOfThePage(SinkLaws):
    """The format of a third party in docs/plugins.md, which is not installed."""

    partitioned = appends = removes = False
    kills = KILLS_AT_NIGHT

    @pytest.fixture(autouse=True)
    def _module(self, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        section = PAGE.read_text(encoding="utf-8").split("## Table formats")[1]
        folder = tmp_path_factory.mktemp("plugin")
        (folder / "probclass_arrow.py").write_text(section.split("```py\n")[1].split("```")[0])
        monkeypatch.syspath_prepend(folder)
        type(self).format = importlib.import_module("probclass_arrow").Arrow
        yield
        del sys.modules["probclass_arrow"]

    @pytest.fixture
    def ref(self, _module: None, tmp_path: Path) -> pc.TableRef:
        return pc.TableRef(str(tmp_path / "scored.arrow"))


class InPlace(ParquetFileSink):
    """A sink that writes at the place of the table, which readers then find unfinished."""

    @contextmanager
    def stage(self, schema: Any, commit: Any, *, append: bool = False) -> Iterator[StagedFile]:
        part = self.new_part(self.path, schema, commit)
        with closing(Written(self, self.path, part)) as staged:
            yield staged


class Written(StagedFile):
    def publish(self, summary: Any = None) -> None:
        self.part.finish(summary)


class Broken(Parquet):
    def sink(self, ref: pc.TableRef, partition: Mapping[str, Any]) -> Sink:
        return InPlace(ref, partition)


def test_a_sink_that_does_not_stage_its_rows_is_caught(tmp_path: Path) -> None:
    ref = pc.TableRef(str(tmp_path / "scored.parquet"))
    table = TableUnderTest(Broken(), ref, partitioned=False, readers={})
    table.replace("a", FIRST["a"])
    TestParquetFile().test_published_rows_are_read_with_their_record(table)
    with pytest.raises((AssertionError, TableError)):
        TestParquetFile().test_nothing_changes_without_a_commit(table)
