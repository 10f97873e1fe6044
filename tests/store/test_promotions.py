"""The ledger of promotions: history, earlier versions, rollbacks, the champion gate, deletion."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_models import SampleModel

from probclass_core.errors import DataError, RollbackError, RolledBackError, SpecError, StoreError
from probclass_core.store import promotions
from probclass_core.store.gate import Gate
from probclass_core.store.model_store import ModelStore
from probclass_core.store.records import ModelVersion

Judge = Callable[[ModelVersion, ModelVersion | None], Mapping[str, Any]]


@pytest.fixture
def versions(store: ModelStore) -> list[ModelVersion]:
    """Four versions of ``air``."""
    return [store.save(SampleModel(seed), "air") for seed in range(4)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the time that the store records."""

    def set_time(moment: str) -> None:
        monkeypatch.setattr(promotions, "timestamp", lambda: f"{moment}:00.000000+00:00")

    return set_time


def losses(values: Mapping[str, float | None], *, error: float = 0.01) -> Judge:
    """A judgment of 100 rows with a log loss for the id of each version."""

    def evaluation(version: ModelVersion) -> dict[str, Any]:
        numbers = {"rows": 100, "unseen_labels": 0, "decided": 100, "cost": None}
        return {"log_loss": values[version.id], "baseline_log_loss": 1.0, **numbers}

    def judge(challenger: ModelVersion, champion: ModelVersion | None) -> Mapping[str, Any]:
        own = evaluation(challenger)
        if champion is None:
            return {"challenger": own, "champion": None}
        other = evaluation(champion)
        gain = other["log_loss"] - own["log_loss"]
        gains = {"log_loss": {"gain": gain, "standard_error": error}}
        return {"challenger": own, "champion": other, "gains": gains}

    return judge


def test_the_history_says_who_promoted_what_when_and_why(
    store: ModelStore, versions: list[ModelVersion], clock: Callable[[str], None]
) -> None:
    first, second, *_ = versions
    clock("2014-01-01T05:00")
    store.promote("air", first, "champion", by="ana", reason="the first", provenance={"run": 1})
    clock("2014-02-01T05:00")
    store.promote("air", second, "champion", metrics={"log_loss": 0.7})
    store.promote("air", second, "champion")
    store.promote("air", second, "shadow", by="ben")
    one, two, _ = store.history("air")
    assert (one.action, one.id, one.previous, one.by) == ("promoted", first.id, None, "ana")
    assert (one.reason, one.provenance) == ("the first", {"run": 1})
    assert (two.id, two.previous, two.metrics) == (second.id, first.id, {"log_loss": 0.7})
    assert two.time == "2014-02-01T05:00:00.000000+00:00"
    assert two.by, "the user of this process"
    assert store.history("air", "champion") == [one, two]
    with pytest.raises(StoreError, match="Did you mean 'champion'"):
        store.history("air", "champoin")


def test_a_reference_can_name_an_earlier_version_of_an_alias(
    store: ModelStore, versions: list[ModelVersion], clock: Callable[[str], None]
) -> None:
    for month, version in enumerate(versions[:3], 1):
        clock(f"2014-{month:02}-15T05:00")
        store.promote("air", version, "champion")
    expected = {
        "air@champion": 2,
        "air@champion@previous": 1,
        "air@previous": 1,
    }
    assert {ref: versions.index(store.resolve(ref)) for ref in expected} == expected
    for ref, message in {
        "air@champion@2014-01-14": "cannot follow the alias .*write 'air@champion@previous'",
        "air@champoin@previous": "Did you mean 'champion'",
        "air@deadbeef@previous": "looks like a content id",
    }.items():
        with pytest.raises(StoreError, match=message):
            store.resolve(ref)
    store.promote("air", versions[3], "previous")
    assert store.resolve("air@previous") == versions[3], "an alias of that name comes first"


def test_a_proposal_moves_nothing_until_somebody_decides(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    first, second, third, _ = versions
    store.promote("air", first, "champion")
    judge = losses({first.id: 0.9, second.id: 0.7, third.id: 0.5})
    proposals = [
        store.promote_if_better(version, "champion", judge, propose=True)
        for version in (second, third)
    ]
    assert [proposal.action for proposal in proposals] == ["proposed", "proposed"]
    assert store.resolve("air@champion") == first
    assert len(store.history("air", "champion")) == 1
    refused = store.decide(proposals[0], accepted=False, by="ana", reason="too soon")
    assert (refused.action, refused.by) == ("refused", "ana")
    assert next(iter(store.ledger("air", "champion"))) == refused
    promoted = store.decide(proposals[1], by="ana")
    assert (promoted.action, promoted.reason) == ("promoted", proposals[1].reason)
    assert store.resolve("air@champion") == third
    with pytest.raises(StoreError, match="was promoted by another process"):
        store.decide(proposals[0], by="ben")


def test_rolling_back_twice_goes_back_two_promotions(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    for version in versions:
        store.promote("air", version, "champion")
    entry = store.rollback("air", reason="it was worse")
    assert (entry.action, entry.id, entry.previous) == (
        "rolled_back",
        versions[2].id,
        versions[3].id,
    )
    assert store.resolve("air@previous") == versions[1], "not the version rolled back from"
    assert store.rollback("air").id == versions[1].id
    store.promote("air", versions[3], "champion", force=True, reason="it was better after all")
    assert store.rollback("air", steps=2).id == versions[0].id
    with pytest.raises(
        RollbackError, match=r"cannot roll back 'air@champion' by 1: .* 0 earlier"
    ) as nothing:
        store.rollback("air")
    assert not nothing.value.is_transient
    assert store.resolve("air@champion") == versions[0]
    with pytest.raises(StoreError, match="named no version before"):
        store.resolve("air@previous")
    assert [entry.reason for entry in store.history("air")][4] == "it was worse"


@given(steps=st.lists(st.one_of(st.integers(0, 3), st.just("back")), max_size=12))
def test_any_sequence_of_promotions_and_rollbacks_is_a_stack(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = ModelStore(folder)
        versions = [store.save(SampleModel(seed), "air") for seed in range(4)]
        stack: list[int] = []
        moves = 0
        for step in steps:
            if step == "back" and len(stack) > 1:
                stack.pop()
                store.rollback("air")
                moves += 1
            elif step != "back" and stack[-1:] != [step]:
                stack.append(step)
                store.promote("air", versions[step], "champion", force=True, reason="again")
                moves += 1
        assert len(store.history("air")) == moves
        for name, depth in (("air@champion", 1), ("air@previous", 2)):
            if len(stack) >= depth:
                assert store.resolve(name) == versions[stack[-depth]]


def test_an_entry_that_its_alias_never_named_does_not_count(
    store: ModelStore, versions: list[ModelVersion], tmp_path: Path
) -> None:
    """A writer may be killed after the entry and before the alias."""
    first, second, *_ = versions
    store.promote("air", first, "champion")
    alias = tmp_path / "models" / "air" / "aliases" / "champion.json"
    before = alias.read_bytes()
    store.promote("air", second, "champion")
    alias.write_bytes(before)
    assert [entry.id for entry in store.history("air")] == [first.id]
    store.promote("air", second, "champion")
    assert [entry.id for entry in store.history("air")] == [first.id, second.id]
    assert store.rollback("air").id == first.id


def test_a_damaged_entry_is_named(
    store: ModelStore, versions: list[ModelVersion], tmp_path: Path
) -> None:
    store.promote("air", versions[0], "champion")
    (file,) = (tmp_path / "models" / "air" / "promotions" / "champion").iterdir()
    file.write_text("{}")
    with pytest.raises(StoreError, match=rf"promotions.*{file.name} is damaged"):
        store.history("air")
    assert store.resolve("air@champion") == versions[0], "an alias does not need its ledger"
    store.promote("air", versions[1], "champion")
    file.unlink()
    assert [entry.id for entry in store.history("air")] == [versions[0].id, versions[1].id]
    assert store.rollback("air").id == versions[0].id


def test_only_a_better_challenger_is_promoted_and_a_refusal_is_recorded_once(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    first, second, third, _ = versions
    judge = losses({first.id: 0.7, second.id: 0.6, third.id: 0.8})
    entry = store.promote_if_better(first, "champion", judge)
    assert (entry.action, entry.reason) == ("promoted", "there is no champion yet")
    entry = store.promote_if_better(second, "champion", judge, provenance={"run": 1})
    assert entry.action == "promoted"
    assert entry.reason == "log_loss 0.6 against 0.7 on 100 rows is better by 0.1 ± 0.01"
    assert store.history("air")[-1] == dataclasses.replace(entry, by=store.history("air")[-1].by)
    refused = [store.promote_if_better(third, "champion", judge) for _ in range(2)]
    assert refused[0] == refused[1]
    metrics = refused[0].metrics
    assert (metrics["challenger_value"], metrics["champion_value"]) == (0.8, 0.6)
    assert metrics["z"] == pytest.approx(-20)
    assert metrics["floors"] == {"log_loss": {"value": 0.8, "floor": 1.0}}
    assert [e.action for e in store.history("air")] == ["promoted", "promoted", "refused"]
    assert store.resolve("air@champion") == second
    assert store.promote_if_better(second, "champion", judge).action == "unchanged"
    assert len(store.history("air")) == 3


def test_a_champion_promoted_during_the_comparison_is_not_replaced(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    first, second, third, _ = versions
    judge = losses({first.id: 0.7, second.id: 0.6})
    store.promote("air", first, "champion")

    def overtaken(*pair: Any) -> Mapping[str, Any]:
        store.promote("air", third, "champion")
        return judge(*pair)

    with pytest.raises(StoreError, match="promoted by another process"):
        store.promote_if_better(second, "champion", overtaken)
    assert store.resolve("air@champion") == third


def test_a_version_that_was_rolled_back_returns_only_by_force_with_a_reason(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    first, second, *_ = versions
    judge = losses({first.id: 0.7, second.id: 0.6})
    for version in (first, second):
        assert store.promote_if_better(version, "champion", judge).action == "promoted"
    store.rollback("air", reason="it was worse")
    entry = store.promote_if_better(second, "champion", judge)
    assert entry.action == "refused"
    blocked = rf"champion was rolled back from air@{second.id[:12]} at .* \(it was worse\)"
    assert re.match(blocked, str(entry.reason))
    with pytest.raises(RolledBackError, match=blocked):
        store.promote("air", second, "champion")
    store.promote("air", second, "shadow")  # another alias
    with pytest.raises(SpecError, match="force needs a reason"):
        store.promote("air", second, "champion", force=True)
    assert store.resolve("air@champion") == first
    assert [entry.action for entry in store.history("air", "champion")[-2:]] == ["refused"] * 2
    store.promote("air", second, "champion", force=True, reason="the labels were wrong")
    store.promote("air", first, "champion")
    assert store.promote_if_better(second, "champion", judge).action == "promoted"


def test_a_rollback_from_an_expected_version_happens_once(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    for version in versions[:3]:
        store.promote("air", version, "champion")
    third = versions[2].ref
    assert store.rollback("air", expected=third).action == "rolled_back"
    again = store.rollback("air", expected=third)
    assert (again.action, again.id) == ("unchanged", versions[1].id)
    with pytest.raises(StoreError, match=f"names {versions[1].id[:12]}, not {versions[3].id[:12]}"):
        store.rollback("air", expected=versions[3])
    assert [entry.action for entry in store.history("air")].count("rolled_back") == 1


@pytest.mark.parametrize(
    ("gate", "gain", "error", "reason"),
    [
        ({}, 3.4e-5, 5.8e-5, r"better by 3.4e-05 ± 5.8e-05, 0.59 standard errors and not 1"),
        ({"min_z": 2}, 0.03, 0.02, "1.5 standard errors and not 2"),
        ({"margin": 0.1}, 0.05, 0.001, "less than the margin 0.1"),
        ({}, -0.4, 0.001, "1.1 on 100 rows is worse than that of the class prior, 1"),
        ({"floor": None}, -0.4, 0.001, "log_loss 1.1 against 0.7 on 100 rows is not better"),
    ],
)
def test_a_gate_says_which_condition_a_challenger_misses(
    gate: Any,
    gain: float,
    error: float,
    reason: str,
    store: ModelStore,
    versions: list[ModelVersion],
) -> None:
    first, second, *_ = versions
    judge = losses({first.id: 0.7, second.id: 0.7 - gain}, error=error)
    store.promote("air", first, "champion")
    entry = store.promote_if_better(second, "champion", judge, gate=Gate(**gate))
    assert entry.action == "refused"
    assert re.search(reason, str(entry.reason))
    free = Gate(min_z=0, floor=None)
    assert (store.promote_if_better(second, "champion", judge, gate=free).action == "promoted") == (
        gain > 0
    )


def test_the_first_champion_must_reach_the_floors(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    first = versions[0]
    judge = losses({first.id: 1.2})
    entry = store.promote_if_better(first, "champion", judge)
    assert (entry.action, entry.previous) == ("refused", None)
    assert "champion" not in store.aliases("air")
    assert store.history("air") == [entry], "an alias without a promotion has a history"
    infinite = losses({versions[1].id: None})  # as JSON says it
    entry = store.promote_if_better(versions[1], "champion", infinite)
    assert "log_loss inf on 100 rows is worse than" in str(entry.reason)
    entry = store.promote_if_better(first, "champion", judge, gate=Gate(floor=None))
    assert (entry.action, entry.reason) == ("promoted", "there is no champion yet")


def test_a_challenger_must_be_better_in_half_of_the_windows(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    first, second, *_ = versions
    judge = losses({first.id: 0.7, second.id: 0.6})
    store.promote("air", first, "champion")

    def in_windows(*gains: float) -> Judge:
        def judged(*pair: Any) -> Mapping[str, Any]:
            windows = [
                {
                    "window": {"month": str(number)},
                    "rows": 10,
                    "challenger": {"log_loss": 0.6},
                    "champion": {"log_loss": 0.6 + gain},
                    "gains": {"log_loss": {"gain": gain, "standard_error": 0.1}},
                }
                for number, gain in enumerate(gains)
            ]
            return {**judge(*pair), "windows": windows}

        return judged

    entry = store.promote_if_better(second, "champion", in_windows(0.9, -0.1, -0.1))
    assert (entry.action, len(entry.metrics["windows"])) == ("refused", 3)
    assert "in 1 of 3 windows, less than a share of 0.5" in str(entry.reason)
    assert entry.metrics["windows"][0]["gain"] == 0.9
    assert store.promote_if_better(second, "champion", in_windows(0.9, -0.1)).action == "promoted"


def test_the_gate_refuses_what_it_cannot_compare(
    store: ModelStore, versions: list[ModelVersion]
) -> None:
    first, second, *_ = versions
    store.promote("air", first, "champion")
    numbers = {"log_loss": 0.5, "brier": 0.5, "ece": 0.1, "cost": None, "baseline_log_loss": 1.0}
    numbers |= {"unseen_labels": 0, "decided": 9}

    def judge(*pair: Any) -> Mapping[str, Any]:
        return {"challenger": {**numbers, "rows": 99}, "champion": {**numbers, "rows": 100}} | {
            "gains": {}
        }

    def fail(*pair: Any) -> Mapping[str, Any]:
        raise DataError("no rows.")

    gate: Any = store.promote_if_better
    with pytest.raises(DataError, match="on 99 rows and the champion on 100"):
        gate(second, "champion", judge)
    with pytest.raises(DataError, match="no rows"):
        gate(second, "champion", fail)
    with pytest.raises(SpecError, match="'cost' needs a decision with costs"):
        gate(second, "champion", judge, gate=Gate(metric="cost"))
    with pytest.raises(StoreError, match="provenance must be plain"):
        gate(second, "champion", judge, provenance={"when": object()})
    assert len(store.history("air")) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"margin": -1}, "margin must be a number of at least 0, got -1"),
        ({"min_windows_better": 2}, "min_windows_better must be a number from 0 to 1"),
        ({"metric": "ece", "min_z": 1}, "'ece' is not a mean over rows and has no standard error"),
        ({"metric": "acuracy"}, "Did you mean 'accuracy'"),
        ({"floor": "priors"}, "floor must be one of 'prior', got 'priors'. Did you mean 'prior'"),
    ],
)
def test_a_gate_checks_its_conditions(fields: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Gate(**fields)


def test_a_deleted_version_is_gone_and_its_promotions_stay(
    store: ModelStore, versions: list[ModelVersion], tmp_path: Path
) -> None:
    first, second, *_ = versions
    store.promote("air", first, "champion")
    store.promote("air", second, "champion")
    with pytest.raises(StoreError, match="has the alias 'champion'; promote another version"):
        store.delete("air@champion")
    assert store.delete(first.ref) == first
    assert first not in store.versions("air")
    assert not (tmp_path / "models" / "air" / first.id).exists()
    assert [entry.id for entry in store.history("air")] == [first.id, second.id]
    for call in (lambda: store.rollback("air"), lambda: store.resolve("air@previous")):
        with pytest.raises(StoreError, match=f"has no version or alias {first.id[:12]!r}"):
            call()
    assert store.resolve("air@champion") == second
    assert store.save(SampleModel(0), "air").id == first.id
    assert store.rollback("air").id == first.id
