"""Checks of partitions before their commits, against earlier partitions of the same table."""

from __future__ import annotations

import logging
import re
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Any

from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.watch import Verdict, Watch, raise_failed
from probclass_core.errors import TableError
from probclass_core.io.filters import partition_text, typed_partition
from probclass_core.io.open import open_table
from probclass_core.io.sink import TypedPartition
from probclass_core.scoring.plan import PlannedPartition

log = logging.getLogger(__name__)

_MOST_EARLIER = 7
"""Earlier partitions to compare with: of days a week, so that a Sunday has a Sunday among them."""


class PartitionChecks:
    """Checks the partitions of one call in order, each before its commit.

    Earlier partitions are read from the commit records of the sink, each at most once.

    Args:
        watch: what to check.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._earlier: EarlierPartitions | None = None
        self._health: dict[str, Health | None] = {}

    def check(self, planned: PlannedPartition, health: Health) -> list[Verdict]:
        """Check a partition that is about to be committed, and log its verdicts as warnings.

        Raises:
            HealthError: if a check that is not passed stops the commit.
        """
        partition = planned.sink.partition
        if self._earlier is None:
            self._earlier = _partitions_of_sink(planned)
        verdicts = self._watch.check(
            health,
            dict(self._references(planned, self._earlier)),
            missing=planned.missing,
            in_order=is_in_order(partition),
        )
        # Its own columns have one value in a partition, and several in training.
        verdicts = [
            verdict
            for verdict in verdicts
            if verdict.check not in ("nulls", "drift") or verdict.subject not in partition
        ]
        where = partition_text(partition) or planned.sink.location
        raise_failed(verdicts, where)
        for verdict in verdicts:
            log.warning("%s: %s", where, verdict)
        self._health[partition_text(partition)] = health
        self._earlier.add(partition)
        return verdicts

    def _references(
        self, planned: PlannedPartition, earlier: EarlierPartitions
    ) -> Iterator[tuple[str, Health]]:
        """The earlier partitions with a health, the last one first."""
        partition = planned.sink.partition
        if not partition:  # a whole table is compared with what it replaces
            record = planned.sink.commit_record
            if record is not None and record.get("health"):
                yield "the table before", Health.from_dict(record["health"])
            return
        for one in earlier.before(partition):
            text = partition_text(one)
            if text not in self._health:
                self._health[text] = _read(planned, one)
            if (health := self._health[text]) is not None:
                yield text, health


class EarlierPartitions:
    """Partitions in the order of the numbers in their values.

    Such as months, days, hours or numbered batches; a value that does not begin with a digit, such
    as ``country=de``, has no order, and partitions of other countries are not compared.
    """

    def __init__(self) -> None:
        self._sequences: dict[tuple[Any, ...], list[tuple[Any, str]]] = {}
        self._partitions: dict[str, Mapping[str, Any]] = {}

    def add(self, partition: Mapping[str, Any]) -> None:
        """Add a partition, once."""
        text = partition_text(partition)
        if text not in self._partitions:
            self._partitions[text] = dict(partition)
            others, numbers = _place(partition)
            insort(self._sequences.setdefault(others, []), (numbers, text))

    def before(self, partition: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Those before a partition, the last one first; none if its values have no order."""
        others, numbers = _place(partition)
        sequence = self._sequences.get(others, [])
        stop = bisect_left(sequence, (numbers, ""))
        last = sequence[max(0, stop - _MOST_EARLIER) : stop]
        return [self._partitions[text] for _, text in reversed(last)]


def is_in_order(partition: Mapping[str, Any]) -> bool:
    """Whether a partition is one of a sequence, such as a month."""
    return bool(_place(partition)[1])


def _place(partition: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The values without an order, and the numbers in the others, outermost first."""
    texts = {name: str(value) for name, value in partition.items()}
    others = tuple(
        (name, "" if text[:1].isdigit() else text) for name, text in sorted(texts.items())
    )
    numbers = [
        tuple(int(number) for number in re.findall(r"\d+", text))
        for text in texts.values()
        if text[:1].isdigit()
    ]
    return others, tuple(numbers)


def _partitions_of_sink(planned: PlannedPartition) -> EarlierPartitions:
    """The partitions of the scored table; none if there is no such table yet."""
    earlier, planner = EarlierPartitions(), planned.planner
    if planned.sink.partition:
        try:
            for partition in open_table(planner.sink).partitions():
                if set(partition) == set(planned.sink.partition):
                    # In the same order and of the same types as those that are planned.
                    typed = typed_partition(planner.table.schema, partition)
                    earlier.add({name: typed[name] for name in planned.sink.partition})
        except TableError as error:
            log.info("earlier partitions are not compared: %s", error)
    return earlier


def _read(planned: PlannedPartition, partition: Mapping[str, Any]) -> Health | None:
    """The health of a partition of the sink; None if it has none, or cannot be read."""
    schema = planned.planner.table.schema
    try:
        record = planned.planner.open_sink(TypedPartition(partition, schema)).commit_record
    except TableError as error:
        log.info("%s is not compared with: %s", partition_text(partition), error)
        return None
    return (
        None if record is None or not record.get("health") else Health.from_dict(record["health"])
    )
