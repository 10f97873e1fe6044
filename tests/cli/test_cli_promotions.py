"""promote, rollback, models history and models delete; reruns that change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import probclass_core as pc

GOOD = {"gaussian_full": ["petal_length", "petal_width"]}
POOR = {"gaussian_diagonal": ["sepal_width"]}


@pytest.fixture
def store(probclass: Any, iris: pa.Table) -> pc.ModelStore:
    """``iris@poor`` and ``iris@good``, trained on the same rows; no champion; rows to judge on."""
    probclass.table("iris.parquet", iris)
    probclass.table("judged.parquet", iris)
    for alias, block in (("poor", POOR), ("good", GOOD)):
        spec = probclass.spec("species", **block)
        probclass.ok(f"fit iris.parquet --spec {spec} --name iris --alias {alias}")
    return pc.ModelStore("models")


def test_only_a_better_version_is_promoted_and_the_exit_code_says_so(
    probclass: Any, store: pc.ModelStore
) -> None:
    poor, good = (store.resolve(f"iris@{alias}").id for alias in ("poor", "good"))
    gate = "champion judged.parquet --if-better --where 'sepal_width > 2'"
    first = probclass.ok(f"promote iris@poor {gate}")
    assert first.out == f"iris@champion is {poor[:12]}: there is no champion yet\n"
    entry = probclass(f"promote iris@good {gate} --json").json
    assert (entry["action"], entry["id"], entry["previous"]) == ("promoted", good, poor)
    judged = str(probclass.folder / "judged.parquet")
    rows = {"source": judged, "where": [["sepal_width", ">", "2"]]}
    assert entry["provenance"] == rows
    assert store.evaluations(f"iris@{good}")[-1].on == rows

    refused = probclass(f"promote iris@poor {gate}")
    assert (refused.code, refused.err) == (1, "")
    assert refused.out.startswith(f"not promoted: iris@{good[:12]} stays champion: log_loss ")
    assert refused.out.count("\n") == 1
    refused = probclass(f"promote iris@poor {gate} --metric accuracy --json")
    assert refused.code == 1
    assert '"action": "refused"' in refused.out

    again = probclass.ok(f"promote iris@good {gate}")
    assert again.out == f"unchanged: iris@{good[:12]} is the champion already, nothing written\n"
    assert probclass.ok("promote iris@good champion").out == again.out


def test_models_without_a_label_are_compared_by_their_density(
    probclass: Any, iris: pa.Table
) -> None:
    numbers = iris.drop_columns("species")
    for name, rows in (("few", numbers[:80:8]), ("many", numbers[::2]), ("judged", numbers[1::2])):
        probclass.table(f"{name}.parquet", rows)
    for name in ("few", "many"):
        saved = probclass.ok(f"fit {name}.parquet --no-label --name rows --alias {name}").out
        assert "class prior" not in saved
        probclass.ok(f"promote rows@{name} champion judged.parquet --if-better")
    reason = pc.ModelStore("models").history("rows", "champion")[-1].reason
    assert reason.startswith("log_density ")


def test_a_promotion_can_be_rolled_back_and_listed(probclass: Any, store: pc.ModelStore) -> None:
    poor, good = (store.resolve(f"iris@{alias}").id for alias in ("poor", "good"))
    probclass.ok("promote iris@poor champion --reason 'a poor one'")
    promoted = probclass.ok("promote iris@good champion --reason 'a good one'").out
    assert promoted == f"iris@champion is {good[:12]} (before: {poor[:12]}): a good one\n"
    assert probclass("inspect iris@previous --json").json["model_id"] == poor
    back = probclass.ok("rollback iris --reason odd")
    assert back.out == f"iris@champion is {poor[:12]} again (before: {good[:12]}): odd\n"
    refused = probclass("promote iris@good champion judged.parquet --if-better")
    assert refused.code == 1
    assert f"champion was rolled back from iris@{good[:12]}" in refused.out
    blocked = probclass("promote iris@good champion")
    assert (blocked.code, blocked.err.count("\n")) == (2, 1)
    assert "--force --reason" in blocked.err
    assert "force needs a reason" in probclass.error("promote iris@good champion --force")

    shown = probclass.ok("models history iris --alias champion").lines
    assert [" ".join(line.split()[:3]) for line in shown[3:]] == [
        *[f"champion refused {good[:12]}"] * 2,
        f"champion rolled_back {poor[:12]}",
        f"champion promoted {good[:12]}",
        f"champion promoted {poor[:12]}",
    ]
    assert "a good one" in shown[6]
    entries = probclass("models history iris --json").json["promotions"]
    assert [entry["reason"] for entry in entries][2:5] == ["odd", "a good one", "a poor one"]
    forced = probclass.ok("promote iris@good champion --force --reason 'labels were wrong'")
    assert forced.out.endswith(": labels were wrong\n")
    line = probclass.error("rollback iris --alias good --steps 2")
    assert "cannot roll back 'iris@good' by 2: it has 0 earlier promotions" in line


def test_versions_without_an_alias_are_deleted_together_or_not_at_all(
    probclass: Any, store: pc.ModelStore
) -> None:
    poor = store.resolve("iris@poor")
    store.promote("iris", "good", "poor")
    line = probclass.error(f"models delete {poor.ref} iris@good")
    assert "has the alias 'good', 'poor'" in line
    assert probclass.ok(f"models delete {poor.ref} --dry-run").out.startswith("Would delete")
    assert len(store.versions("iris")) == 2
    deleted = probclass(f"models delete {poor.ref} --json").json
    assert deleted["deleted"] == [poor.ref]
    assert [version.ref for version in store.versions("iris")] == [store.resolve("iris@good").ref]
    assert "has no version" in probclass.error("rollback iris --alias poor")


def test_the_subcommands_of_models_are_not_names_of_models(
    probclass: Any, store: pc.ModelStore
) -> None:
    assert probclass.ok("models iris").out == probclass.ok("models ls iris").out
    assert probclass.ok("models").out == probclass.ok("models ls").out
    store.save(store.load("iris@good"), "history")
    assert "Versions of history" in probclass.ok("models ls history").out
    assert "history" in probclass.ok("models --help").out


def test_the_conditions_of_the_gate_are_options(probclass: Any, store: pc.ModelStore) -> None:
    store.promote("iris", "poor", "champion")
    gate = "promote iris@good champion judged.parquet --if-better"
    on_training_rows = gate.replace("judged", "iris")
    for command, reason in {
        f"{gate} --margin 9": "less than the margin 9",
        f"{gate} --min-z 1000": "standard errors and not 1000",
        on_training_rows: "it was trained on rows that it is judged on",
    }.items():
        refused = probclass(command)
        assert refused.code == 1
        assert reason in refused.out
    for options, problem in {
        "--floor accuracy": "floor must be one of 'prior', got 'accuracy'",
        "--windows month": "windows: no partition column 'month'",
        "--metric ece --min-z 1": "has no standard error",
        "--force": "--force promotes without comparing",
    }.items():
        assert problem in probclass.error(f"{gate} {options}")
    assert store.resolve("iris@champion") == store.resolve("iris@poor")
    done = probclass(f"{on_training_rows} --allow-training-rows --floor none --min-z 0 --json")
    assert done.err.count("was trained on the rows that it is judged on") == 2
    trained_on = json.loads(done.out)["metrics"]["trained_on"]
    assert trained_on == {"challenger": "yes", "champion": "yes"}


def test_what_is_compared_and_how_needs_if_better(probclass: Any, store: pc.ModelStore) -> None:
    for options in ("--where 'sepal_width > 2'", "iris.parquet", "--min-z 2", "--decision ml"):
        line = probclass.error(f"promote iris@good champion {options}")
        assert "need --if-better." in line
    assert "needs SOURCE" in probclass.error("promote iris@good champion --if-better")
    Path("probclass.toml").write_text('source = "iris.parquet"\n[promote]\nmin_z = 2\n')
    assert probclass.ok("promote iris@good champion")


def test_a_rerun_that_changes_nothing_says_so_first(probclass: Any, store: pc.ModelStore) -> None:
    spec = probclass.spec("species", **GOOD)
    fit = f"fit iris.parquet --spec {spec} --name iris"
    before = probclass.files()
    first = probclass.ok(f"{fit} --alias good").lines[0]
    assert first.startswith("unchanged: saved ")
    assert first.endswith(", nothing written")
    assert probclass(f"{fit} --json").json["unchanged"] is True
    assert probclass.files() == before
    assert probclass(f"{fit} --alias new --json").json["unchanged"] is False
    calibrate = "calibrate iris@good iris.parquet --name fair --quiet"
    assert probclass(f"{calibrate} --json").json["unchanged"] is False
    assert probclass(calibrate).out.startswith("unchanged: saved ")


def test_prune_deletes_versions_that_nothing_uses(probclass: Any, store: pc.ModelStore) -> None:
    store.promote("iris", "poor", "champion")
    spec = pc.ModelSpec("species", {"gaussian_full": ["petal_width"]})
    unused = store.save(pc.fit("iris.parquet", spec), "iris")
    prune = "models prune iris --keep 0"
    assert probclass.ok(prune).lines == ["There is no version to delete."]
    old = f"{prune} --older-than 0"
    assert probclass.ok(f"{old} --dry-run").lines == [f"Would delete {unused.ref}"]
    assert probclass.ok(f"{old} --json").json["deleted"] == [unused.ref]
    assert unused not in store.versions("iris")
