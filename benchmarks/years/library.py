"""A month of a scheduled model by calls of the library alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import probclass_core as pc
from probclass_core.operation.runs import judge_served, plan_run

SPEC = Path(__file__).parents[2] / "dags" / "specs" / "air_full.toml"


def operate(home: Path, months: Sequence[str]) -> None:
    """What the DAG does, with the same versions and commits."""
    lake, store = home / "lake", pc.ModelStore(home / "models")
    for month in months:
        run = _run(month)
        plan = plan_run(lake, {"month": month})
        rows: dict[str, Any] = {"where": plan.train, "cache": store, "workers": 1}
        spec = pc.ModelSpec.auto(lake, "air", exclude=["pm25"], half_life="auto", **rows)
        challenger = store.save(pc.fit(lake, spec, **rows), "air")
        pc.promote_if_better(store, challenger, lake, where=plan.judge, provenance=run)
        judge_served(
            store,
            "air",
            lake,
            home / "scored" / "air",
            plan.labeled,
            prior_of=challenger,
            provenance=run,
        )
        _score(home, store, "air", month, run)


def operate_unguarded(home: Path, months: Sequence[str]) -> None:
    """`air_full` of the demo without block weights, floor and fallback; any gain promotes."""
    lake, store = home / "lake", pc.ModelStore(home / "models")
    spec, gate = pc.ModelSpec.from_file(SPEC), pc.Gate(floor=None, min_z=0.0)
    for month in months:
        run = _run(month)
        plan = plan_run(lake, {"month": month})
        model = pc.fit(lake, spec, where=plan.train, cache=store, workers=1)
        challenger = store.save(model, "unguarded")
        pc.promote_if_better(store, challenger, lake, where=plan.judge, gate=gate, provenance=run)
        judge_served(
            store,
            "unguarded",
            lake,
            home / "scored" / "unguarded",
            plan.labeled,
            fallback=None,
            provenance=run,
        )
        _score(home, store, "unguarded", month, run)


def _score(home: Path, store: pc.ModelStore, name: str, month: str, run: Mapping[str, Any]) -> None:
    champion = store.resolve(f"{name}@champion")
    pc.score(
        champion,
        home / "lake",
        home / "scored" / name,
        partition={"month": month},
        options=pc.ScoringOptions(columns=["time"]),
        store=store,
        provenance=run,
    )


def _run(month: str) -> dict[str, Any]:
    return {"airflow": {"dag_id": "years", "run_id": f"library__{month}"}}
