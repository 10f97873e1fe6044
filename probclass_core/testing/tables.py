"""Laws of a sink: a test class whose subclasses make pytest try them on a table format.

Example::

    class TestArrow(SinkLaws):
        format = Arrow
        partitioned = appends = removes = False

        @pytest.fixture
        def ref(self, tmp_path):
            return pc.TableRef(str(tmp_path / "scored.arrow"))
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial, partialmethod
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from probclass_core import io
from probclass_core.arrow.bundle import json_digest
from probclass_core.errors import TableError
from probclass_core.io.open import format_of
from probclass_core.io.references import TableRef
from probclass_core.io.sink import Sink, StagedPartition
from probclass_core.plugins.hookspecs import TableFormat

SUMMARY = {"health": {"rows": 3}}
"""Entries of a commit record that are known once the rows are written."""

Rows = Mapping[str, Sequence[float]]
"""Values of the rows of each partition, by its value."""

Reader = Callable[[], pa.Table]


class SinkLaws:
    """Tests of one table format against the laws of a sink.

    A subclass whose name begins with ``Test`` defines the fixture `ref`. If a law is broken, the
    message shows the rows that a reader found.

    Attributes:
        format: the format, which need not be installed; by default that of the address.
        partitioned: whether a table can have partitions.
        appends: whether rows can be added to a partition.
        removes: whether a partition can be removed.
        keeps_records: whether commit records are stored.
        refuses_second: whether the second of two writers that replace a partition is refused.
        kills: writers to kill, each in a process of its own; 0 if the rows do not outlive it.
    """

    format: ClassVar[type[TableFormat] | None] = None
    partitioned: ClassVar[bool] = True
    appends: ClassVar[bool] = True
    removes: ClassVar[bool] = True
    keeps_records: ClassVar[bool] = True
    refuses_second: ClassVar[bool] = False
    kills: ClassVar[int] = 5

    def __init_subclass__(cls) -> None:
        """Leave out the laws of what the format cannot do."""
        super().__init_subclass__()
        for law, needed in _NEEDED.items():
            if not all(getattr(cls, one) for one in needed.split()):
                setattr(cls, law, None)

    @pytest.fixture
    def ref(self, tmp_path: Path) -> TableRef:
        """Address of a table that does not exist yet."""
        raise NotImplementedError("define the fixture ref, which returns the TableRef of a table")

    @pytest.fixture
    def table(self, ref: TableRef) -> TableUnderTest:
        """The table at `ref`, with one partition "a" of five rows and one "b" of three."""
        described = (self.format or type(format_of(ref)))()
        table = TableUnderTest(
            described, ref, partitioned=self.partitioned, readers=self.readers(ref)
        )
        if self.partitioned:
            table.replace("b", FIRST["b"])
        table.replace("a", FIRST["a"])
        return table

    def readers(self, ref: TableRef) -> Mapping[str, Reader]:
        """Other tools that read the whole table, by name; by default none."""
        return {}

    @property
    def first(self) -> Rows:
        """The rows of the fixture `table`."""
        return FIRST if self.partitioned else {"a": FIRST["a"]}

    def test_published_rows_are_read_with_their_record(self, table: TableUnderTest) -> None:
        """Published rows are there once, with their commit record."""
        table.check(self.first)
        assert table.sink("a").exists
        record = table.sink("a").commit_record
        if self.keeps_records:
            assert record is not None
            assert (record["commit_id"], record["rows"]) == (commit_id(FIRST["a"]), 5)
            assert [one["rows"] for one in table.sink("a").commit_records] == [5]
        else:
            assert record is None

    def test_nothing_changes_without_a_commit(self, table: TableUnderTest) -> None:
        """Leaving ``stage`` without ``publish``, also by an error, changes nothing."""

        def interrupt() -> None:
            table.check(self.first)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            table.replace("a", SECOND, ready=interrupt)
        table.check(self.first)
        assert table.clean() == []

    def test_a_smaller_replacement_leaves_no_stale_rows(self, table: TableUnderTest) -> None:
        """A replacement by fewer rows leaves none of the rows before."""
        for values in (SECOND, [7.0], FIRST["a"]):
            table.replace("a", values)
            table.check({**self.first, "a": values})
        assert table.clean() == []

    def test_copies_of_parts_write_in_other_processes(self, table: TableUnderTest) -> None:
        """A part that is pickled before rows are written can be finished elsewhere."""
        with table.staged("a", ()) as staged:
            copy = pickle.loads(pickle.dumps(staged.part))
            copy.write(rows(SECOND))
            finished = pickle.loads(pickle.dumps(copy.finish()))
            copy.close()
            staged.part.adopt(finished)
            assert staged.rows == len(SECOND)
            staged.publish()
        table.check({**self.first, "a": SECOND})

    def test_any_value_names_a_partition(self, table: TableUnderTest) -> None:
        """Rows are read back whatever the value of their partition is."""
        values = ["2014 01", "a/b=c", "1%41", "ü'\"", "+", "a#b?c", None]
        for value in values:
            table.replace(value, [1.0, 2.0])
            assert table.sink(value).exists
        table.check({**self.first, **{str(value): [1.0, 2.0] for value in values}})

    def test_rows_are_added_once(self, table: TableUnderTest) -> None:
        """Rows that are added are added once, however often and by whom they are tried."""
        together = [partial(table.append, "a", SECOND) for _ in range(3)]
        assert publish_together(together) == ["committed"] * 3
        table.append("a", SECOND)
        table.check({**self.first, "a": [*FIRST["a"], *SECOND]})
        assert table.sink("a").commit_record is None, "the rows are of two commits"
        table.replace("a", [7.0])
        table.append("a", SECOND)
        table.check({**self.first, "a": [7.0, *SECOND]})

    def test_writers_that_add_rows_all_commit(self, table: TableUnderTest) -> None:
        """Writers that add other rows at the same time all commit."""
        added = [[100.0 * n, 100.0 * n + 1.0] for n in range(1, 5)]
        assert publish_together([partial(table.append, "a", one) for one in added]) == (
            ["committed"] * 4
        )
        table.check({**self.first, "a": [*FIRST["a"], *(x for one in added for x in one)]})

    def test_writers_of_different_partitions_all_commit(self, table: TableUnderTest) -> None:
        """Writers of different partitions do not hinder each other."""
        values = {name: [float(n)] for n, name in enumerate("cdefgh")}
        tasks = [partial(table.replace, name, one) for name, one in values.items()]
        assert publish_together(tasks) == ["committed"] * 6
        table.check({**self.first, **values})

    def test_of_two_replacements_one_remains(self, table: TableUnderTest) -> None:
        """Of writers that replace a partition at the same time, one remains as a whole."""
        tasks = [partial(table.replace, "a", one) for one in (SECOND, THIRD)]
        outcomes = publish_together(tasks)
        committed = [
            {**self.first, "a": one}
            for one, outcome in zip((SECOND, THIRD), outcomes, strict=True)
            if outcome == "committed"
        ]
        assert table.state() in [sorted_rows(one) for one in committed]
        if self.refuses_second:
            [refused] = [outcome for outcome in outcomes if outcome != "committed"]
            assert "by another writer" in refused
        table.clean()
        assert table.state() in [sorted_rows(one) for one in committed]

    def test_a_removed_partition_is_gone_as_a_whole(self, table: TableUnderTest) -> None:
        """Removing a partition leaves the others as they are, and may be repeated."""
        for _ in range(2):
            table.sink("a").remove()
        table.check({"b": FIRST["b"]})
        table.replace("a", SECOND)
        table.check({**self.first, "a": SECOND})

    def test_readers_find_the_old_rows_or_the_new_ones(self, table: TableUnderTest) -> None:
        """While a partition is replaced, every reader finds all rows of one commit, or an error."""
        allowed = [sorted_rows({**self.first, "a": one}) for one in (SECOND, THIRD, FIRST["a"])]
        seen = []
        with ThreadPoolExecutor(1) as pool:
            replacing = [pool.submit(table.replace, "a", one) for one in 4 * [SECOND, THIRD]]
            while not replacing[-1].done():
                with suppress(TableError):
                    seen.append(table.state())
            for one in replacing:
                one.result()
        seen.append(table.state())  # also if each reader before met a replacement
        assert [state for state in seen if state not in allowed] == []

    def test_a_killed_writer_leaves_the_old_rows_or_the_new_ones(
        self, table: TableUnderTest
    ) -> None:
        """A writer killed at any step leaves the old partition or the new one.

        The leftovers are then removed, and nothing else; another writer completes the partition.
        """
        self._kill_writers(table, append=False)

    def test_a_killed_writer_adds_all_rows_or_none(self, table: TableUnderTest) -> None:
        """A writer that adds rows and is killed at any step has added all of them or none."""
        self._kill_writers(table, append=True)

    def _kill_writers(self, table: TableUnderTest, *, append: bool) -> None:
        """Kill writers at steps that close in on the commit, and the last at a random time.

        If there are fewer steps than kills, one writer is killed at each.
        """
        old, new = self.first, {**self.first, "a": [*FIRST["a"], *SECOND] if append else SECOND}
        write = partial(table.write_elsewhere, "a", SECOND, append=append)
        count, seconds = map(float, write().split()[-2:])
        last_old, first_new = 0, int(count)
        for kill in range(1, self.kills + 1):
            step, after = None, random.uniform(0.0, seconds)
            if kill < min(self.kills, count):
                step = kill if self.kills > count else (last_old + first_new) // 2
            table.replace("a", FIRST["a"])
            write(step=step, after=None if step is not None else after)
            committed = table.state() != sorted_rows(old)
            how = f"killed at step {step}" if step is not None else f"killed after {after} s"
            table.check(new if committed else old, how)
            table.clean()
            table.check(new if committed else old, f"{how} and cleaned")
            if step is not None and committed:
                first_new = step
            elif step is not None:
                last_old = step
            table.replace("a", SECOND, append=append)
            table.check(new, f"{how} and written again")
            assert table.clean() == []


_NEEDED = {
    "test_any_value_names_a_partition": "partitioned",
    "test_rows_are_added_once": "appends",
    "test_writers_that_add_rows_all_commit": "appends",
    "test_writers_of_different_partitions_all_commit": "partitioned",
    "test_a_removed_partition_is_gone_as_a_whole": "removes",
    "test_a_killed_writer_leaves_the_old_rows_or_the_new_ones": "kills",
    "test_a_killed_writer_adds_all_rows_or_none": "kills appends",
}
"""What a format must be able to do for a law to apply."""


FIRST: Rows = {"a": [0.0, 1.0, 2.0, 3.0, 4.0], "b": [10.0, 11.0, 12.0]}
SECOND = [20.0, 21.0, 22.0]
THIRD = [30.0, 31.0, 32.0, 33.0]


class TableUnderTest:
    """A table whose partitions by ``part`` have rows with one number ``x``.

    Args:
        table_format: its format.
        ref: its address.
        partitioned: whether it has partitions.
        readers: other tools that read it.
    """

    def __init__(
        self,
        table_format: TableFormat,
        ref: TableRef,
        *,
        partitioned: bool,
        readers: Mapping[str, Reader],
    ) -> None:
        self.format, self.ref, self.partitioned = table_format, ref, partitioned
        self._readers = {"probclass": self._read, **readers}

    def sink(self, value: str | None) -> Sink:
        """Open the sink of a partition."""
        return self.format.sink(self.ref, {"part": value} if self.partitioned else {})

    @contextmanager
    def staged(
        self, value: str | None, values: Sequence[float], *, append: bool = False
    ) -> Iterator[StagedPartition]:
        """Stage rows, and finish their file if there are any."""
        record = {"commit_id": commit_id(values), "partition": {"part": value}}
        batch = rows(values)
        with self.sink(value).stage(batch.schema, record, append=append) as staged:
            if values:
                staged.part.write(batch)
                staged.part.finish(SUMMARY)
            yield staged

    def replace(
        self,
        value: str | None,
        values: Sequence[float],
        ready: Callable[[], Any] = int,
        *,
        append: bool = False,
    ) -> None:
        """Replace a partition, or add rows to it; call ``ready`` before the commit."""
        with self.staged(value, values, append=append) as staged:
            ready()
            staged.publish(SUMMARY)

    append = partialmethod(replace, append=True)

    def state(self) -> dict[str, list[float]]:
        """The rows that probclass finds."""
        return self._state(self._read())

    def check(self, expected: Rows, after: str = "") -> None:
        """Check that every reader finds these rows."""
        for name, read in self._readers.items():
            found = self._state(read())
            assert found == sorted_rows(expected), f"{name} finds {found} {after}"

    def clean(self) -> list[str]:
        """Remove the leftovers of writers, and return their paths."""
        if not self.format.can("leftovers"):
            return []
        leftovers = list(self.format.leftovers(self.ref))
        for leftover in leftovers:
            assert leftover.abandoned(timedelta(0))
            leftover.remove()
        return [leftover.path for leftover in leftovers]

    def write_elsewhere(
        self,
        value: str,
        values: Sequence[float],
        *,
        append: bool = False,
        step: int | None = None,
        after: float | None = None,
    ) -> str:
        """Write in a process that is killed at a step, or after some seconds, or not at all.

        Returns:
            What the process printed: at its end, the number of its steps and of their seconds.
        """
        process = self.start(value, values, step, append=append)
        if after is not None and process.stdout is not None:
            process.stdout.readline()
            time.sleep(after)
            process.kill()
        output, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        return output

    def start(
        self,
        value: str,
        values: Sequence[float],
        step: int | None = None,
        *,
        append: bool = False,
    ) -> subprocess.Popen[str]:
        """Replace a partition, or add rows to it, in a process that a step kills."""
        task = (type(self.format), self.ref, self.partitioned, value, values, append, step)
        program = f"from {__name__} import write_and_die; write_and_die({pickle.dumps(task)!r})"
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def _read(self) -> pa.Table:
        plan = self.format.open(self.ref).plan()
        return pa.Table.from_batches(plan.batches(), plan.schema)

    def _state(self, table: pa.Table) -> dict[str, list[float]]:
        parts = table["part"].to_pylist() if self.partitioned else ["a"] * table.num_rows
        found: dict[str, list[float]] = {}
        for part, x in zip(parts, table["x"].to_pylist(), strict=True):
            found.setdefault(str(part), []).append(x)
        return sorted_rows(found)


def rows(values: Sequence[float]) -> pa.RecordBatch:
    """Rows with these values of ``x``."""
    return pa.record_batch({"x": pa.array(values, pa.float64())})


def commit_id(values: Sequence[float]) -> str:
    """The id of the commit of some rows."""
    return json_digest(list(values))


def sorted_rows(values: Rows) -> dict[str, list[float]]:
    """The values of each partition in order."""
    return {name: sorted(one) for name, one in values.items()}


def publish_together(tasks: Sequence[Callable[..., None]]) -> list[str]:
    """Run writers in threads that commit at the same moment, and return what became of each."""
    barrier = threading.Barrier(len(tasks))

    def run(task: Callable[..., None]) -> str:
        try:
            task(ready=partial(barrier.wait, 60))
        except TableError as error:
            return str(error)
        return "committed"

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(run, tasks))


def write_and_die(pickled: bytes) -> None:
    """Run in a process of its own: write a partition, and kill the process at a step."""
    form, ref, partitioned, value, values, append, last = pickle.loads(pickled)
    table = TableUnderTest(form(), ref, partitioned=partitioned, readers={})
    table.sink(value)  # imports what a writer needs
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    start = time.monotonic()
    with ExitStack() as context:
        steps = _Steps({sys.modules[form.__module__].__file__}, last)
        sys.setprofile(steps)
        context.callback(sys.setprofile, None)
        table.replace(value, values, append=append)
    sys.stdout.write(f"{len(steps.passed)} {time.monotonic() - start}\n")


class _Steps:
    """A profile function that counts steps of a writer, and kills the process at one of them.

    A step is a call that the code of a writer makes or receives, or the return from one, the first
    time that it occurs at a line of that code.
    """

    def __init__(self, files: set[str | None], last: int | None) -> None:
        self._files, self._last = files, last
        self._folder = str(Path(io.__file__).parent)
        self.passed: set[tuple[object, ...]] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        candidates = [frame] if event.startswith("c_") else [frame, frame.f_back]
        ours = next((one for one in candidates if one and self._is_ours(one)), None)
        if ours is None:
            return
        called = getattr(argument, "__qualname__", "") if event.startswith("c_") else frame.f_code
        step = (ours.f_code, ours.f_lineno, called, event)
        if step not in self.passed:
            if len(self.passed) == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
            self.passed.add(step)

    def _is_ours(self, frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        return name.startswith(self._folder) or name in self._files
