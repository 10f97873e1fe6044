"""Checks of partitions before their commits, against earlier partitions of the same table."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.seasons import earlier_partitions
from probclass_core.analysis.distributions.unlabeled_checks import Reference
from probclass_core.analysis.distributions.verdicts import Verdict, raise_failed
from probclass_core.analysis.distributions.watch import Watch
from probclass_core.errors import TableError
from probclass_core.io.filters import partition_text
from probclass_core.io.table import TypedPartition
from probclass_core.scoring.plan import PlannedPartition

log = logging.getLogger(__name__)


class PartitionChecks:
    """Checks the partitions of one call in order, each before its commit.

    Earlier partitions are read from the commit records of the sink, each at most once.

    Args:
        watch: what to check.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._health: dict[str, Health | None] = {}

    def check(self, planned: PlannedPartition, health: Health) -> list[Verdict]:
        """Check a partition that is about to be committed, and log its verdicts as warnings.

        Raises:
            HealthError: if a check that is not passed stops the commit.
        """
        partition = planned.sink.partition
        verdicts = self._watch.check(
            health,
            list(self._references(planned)),
            missing=planned.missing,
            seasonal="year" in earlier_partitions(partition),
        )
        where = partition_text(partition) or planned.sink.location
        raise_failed(verdicts, where)
        for verdict in verdicts:
            log.warning("%s: %s", where, verdict)
        self._health[partition_text(partition)] = health
        return verdicts

    def _references(self, planned: PlannedPartition) -> Iterator[Reference]:
        """The earlier partitions with a health, the last one first."""
        partition = planned.sink.partition
        if not partition:  # a whole table is compared with what it replaces
            record = planned.sink.commit_record
            if record is not None and record.get("health"):
                yield Reference("the table before", Health.from_dict(record["health"]))
            return
        for name, earlier in earlier_partitions(partition).items():
            text = partition_text(earlier)
            if text not in self._health:
                self._health[text] = _read(planned, earlier)
            if (health := self._health[text]) is not None:
                yield Reference(text, health, season=name == "year")


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
