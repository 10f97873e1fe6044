"""Upkeep: remove what killed writers left, statistics that no fit uses, and old versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.hooks import table_ref


class ProbClassMaintainOperator(ProbClassOperator):
    """Remove leftovers of scored tables, unused statistics and old versions of models.

    Nothing that a reader can see is removed, except versions of models if `keep` is given: never a
    version that an alias names, that an alias can be rolled back to, or that scored rows of the
    tables. A retry or another run at the same time is harmless. Each removal is logged.

    Args:
        tables: paths or URIs of scored tables, whose leftovers are removed; see `clean_table`.
        keep: number of newest versions of each model to keep; see `ModelStore.prune`. By default,
            no version is removed.
        models: names of the models whose versions are removed; by default all.
        cache_days: remove files of statistics written longer ago as well as stale ones; more than
            the longest training window. By default, stale ones only.
        dry_run: whether only to log what would be removed.
        table_conn_id: connection with the credentials of the tables, see `ProbClassHook`.
        kwargs: store and its connection, see `ProbClassOperator`; arguments of `BaseOperator`.

    Returns (XCom and the `extra` of outlet assets):
        leftovers, statistics and versions (numbers of what was removed; of statistics, of files),
        bytes (of leftovers and statistics), dry_run.
    """

    template_fields: Sequence[str] = (
        "store",
        "store_conn_id",
        "tables",
        "table_conn_id",
        "keep",
        "models",
        "cache_days",
    )
    operator_extra_links = ()
    ui_color = "#e8e8ee"

    def __init__(
        self,
        *,
        tables: Sequence[str] = (),
        keep: int | str | None = None,
        models: Sequence[str] | None = None,
        cache_days: float | str | None = None,
        dry_run: bool = False,
        table_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(source=None, **kwargs)
        self.tables = tables
        self.keep = keep
        self.models = models
        self.cache_days = cache_days
        self.removes_nothing = dry_run  # BaseOperator has a method dry_run
        self.table_conn_id = table_conn_id

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Remove, and count what was removed."""
        import probclass_core as pc
        from probclass_core.errors import SpecError
        from probclass_core.store.statistics_cache import StatisticsCache

        try:
            keep = None if self.keep is None else int(self.keep)
            age = None if self.cache_days is None else timedelta(days=float(self.cache_days))
        except ValueError:
            raise SpecError(
                f"{self.task_id}: keep and cache_days must be numbers, got {self.keep!r} and "
                f"{self.cache_days!r}."
            ) from None
        if age is not None and age < timedelta(0):
            raise SpecError(f"{self.task_id}: cache_days must be at least 0, got {age.days}.")
        for name, listed in {"tables": self.tables, "models": self.models}.items():
            if isinstance(listed, str):
                raise SpecError(f"{self.task_id}: {name} must be a list, got {listed!r}.")
        tables = [table_ref(table, self.table_conn_id) for table in self.tables]
        store, dry_run = self.model_store(), self.removes_nothing
        sizes = [
            leftover.bytes
            for table in tables
            for leftover in self._removed(pc.clean_table(table, dry_run=dry_run))
        ]
        statistics = self._removed(StatisticsCache(store).collect(age, dry_run=dry_run))
        versions = []
        if keep is not None:
            for name in store.models() if self.models is None else self.models:
                pruned = store.prune(name, keep=keep, sinks=tables, dry_run=dry_run)
                versions += self._removed(pruned)
        return {
            "leftovers": len(sizes),
            "statistics": len(statistics),
            "versions": len(versions),
            "bytes": sum(sizes) + sum(file.bytes for file in statistics),
            "dry_run": dry_run,
        }

    def _connections(self) -> Iterator[tuple[str, str]]:
        yield from super()._connections()
        if self.table_conn_id is not None:
            yield from ((self.table_conn_id, table) for table in self.tables)

    def _removed(self, things: list[Any]) -> list[Any]:
        verb = "Would remove" if self.removes_nothing else "Removed"
        for thing in things:
            self.log.info("%s %s", verb, getattr(thing, "ref", None) or thing.path)
        return things
