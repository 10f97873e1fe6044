"""The pages of what a model did over time, without a server: the application alone, no login."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from html import unescape
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from damage import IN_PLACE, with_junk
from fastapi.testclient import TestClient
from hostile_store import HANDLER, SCRIPT

import probclass_core as pc
from probclass_airflow.links import store_key
from probclass_airflow.ui.runs import Run
from probclass_core.errors import StoreError
from probclass_core.store.promotions import Promotion
from probclass_core.store.records import ModelVersion

pytestmark = [
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`"),
]
ROUNDS = int(os.environ.get("PROBCLASS_ROUNDS", "10"))
VIEWS = ("versions", "evaluations", "partitions", "scorings", "promotions", "drift", "compare")
PAGES = ["", *(f"/-/{view}" for view in VIEWS)]
"""The pages of a model."""
RUNS: dict[str, list[Run]] = {}
"""The newest runs of Airflow, by DAG."""
MONTHS = [f"{year}-{month:02}" for year in (2013, 2014) for month in range(1, 13)]


@dataclass
class History:
    """A store with models that were scored and judged, and the pages of the store."""

    store: pc.ModelStore
    pages: TestClient
    models: list[pc.Model]

    def get(self, path: str = "", status: int = 200) -> str:
        """A page below ``stores/<key>/``, as HTML."""
        response = self.pages.get(f"/stores/{store_key(self.store.uri)}/{path}")
        assert response.status_code == status, response.text
        return response.text

    def score(
        self, version: ModelVersion, month: object, task: str = "score", **values: Any
    ) -> None:
        """Record a scored month."""
        commit = {
            "partition": {"month": month},
            "commit_id": f"{version.id[:8]}{month}{values}",
            "source": "lake",
            "input": "1",
            "input_version": None,
            "rule": "1",
            "rows": 744,
            "skipped": False,
        }
        report = SimpleNamespace(model_id=version.id, uri="scored", commits=[commit | values])
        run = {"dag_id": "air", "run_id": "r 1", "task_id": task, "map_index": "3"}
        self.store.record_scoring(version, report, provenance={"airflow": run})

    def judge(self, version: ModelVersion, month: object, log_loss: float | None) -> None:
        """Record an evaluation; the log loss of the prior is 1."""
        worse = ["log_loss"] if log_loss is None or log_loss > 1 else []
        result = {
            "model_id": version.id,
            "rows": 700,
            "log_loss": log_loss,
            "baseline_log_loss": 1.0,
            "accuracy": 0.7,
            "baseline_accuracy": 0.5,
            "worse_than_prior": worse,
        }
        evaluation = SimpleNamespace(to_dict=lambda: result)
        self.store.record_evaluation(version, evaluation, on={"partition": {"month": month}})


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    from airflow.api_fastapi.core_api.security import get_user

    from probclass_airflow.ui import app

    store = pc.ModelStore(tmp_path / "models")
    monkeypatch.setenv("AIRFLOW__PROBCLASS__STORES", store.uri)
    for name in ("requires_access_asset", "requires_access_dag"):
        monkeypatch.setattr(app, name, lambda *_: lambda: None)
    application = app.application()
    application.dependency_overrides[get_user] = lambda: None
    application.dependency_overrides[app.visible_runs] = lambda: lambda dag_id: RUNS.get(dag_id, [])
    spec = pc.ModelSpec("c", [pc.Block("gaussian_diagonal", ["x"])])
    models = [
        pc.fit(pa.table({"c": ["a", "a", "b", "b"], "x": [1.0, 2.0, 3.0, 4.0 + at]}), spec)
        for at in range(4)
    ]
    with TestClient(application) as pages:
        yield History(store, pages, models)


@pytest.fixture
def operated(history: History) -> History:
    """Two years of months: three promotions, a rollback, a refusal, and two bad months."""
    store, models = history.store, history.models
    first, second = (store.save(model, "air") for model in models[:2])
    for at, month in enumerate(MONTHS):
        if at == 0:
            store.promote("air", first, "champion", by="ana", reason="the first")
        if at == 10:
            store.promote("air", second, "champion", metrics={"gain": 0.02})
        if at == 14:
            store.rollback("air", reason="worse than the prior")
        champion = store.resolve("air@champion")
        drift = 0.4 if at == 12 else 0.001
        health = {
            "columns": {"x": {"nulls": 0.2 if at == 5 else 0.0, "drift": drift}},
            "log_density": {"rare": 0.09 if at == 12 else 0.01},
        }
        sentence = "x drifts 0.400 bits from training."
        verdicts = [{"check": "drift", "subject": "x", "action": "warn", "sentence": sentence}]
        history.score(champion, month, health=health, verdicts=verdicts if at == 12 else [])
        history.judge(champion, month, {12: 1.3, 13: None}.get(at, 0.6))
    return history


def texts(html: str) -> str:
    """The text of a page, in one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_timeline_shows_versions_metrics_and_events_by_month(operated: History) -> None:
    html = operated.get("air")
    first, second = (version.id for version in operated.store.versions("air"))
    bands = re.findall(r'class="band band\d".*?<title>(.*?)</title>', html)
    assert bands == [
        f"{first[:12]}, month=2013-01 to month=2013-10",
        f"{second[:12]}, month=2013-11 to month=2014-02",
        f"{first[:12]}, month=2014-03 to month=2014-12",
    ]
    assert re.findall(r'class="tick".*?>(\d{4}-\d\d)</text>', html) == MONTHS[::3]
    bad = re.findall(r'class="dot bad".*?<title>(.*?)</title>', html)
    assert bad == [
        f"month=2014-01: 1.300, prior alone 1, {second[:12]}",
        f"month=2014-02: ∞, prior alone 1, {second[:12]}",
        "month=2014-01: 9.0 % of the rows are rare",
    ]
    assert "Log loss, nats, up to ∞, drawn at the edge" in html
    assert "month=2013-06: nulls 20.0 % of the rows, largest in x" in html
    assert "month=2014-01: x drifts 0.400 bits from training." in html
    assert html.count('<text class="event promoted"') == 2
    assert html.count('<text class="event rolled_back"') == 1
    assert f"Rolled back to {first[:12]}" in html


def test_a_model_without_a_label_shows_its_density_and_no_metric_of_classes(
    history: History,
) -> None:
    rows = pa.table({"x": [1.0, 2.0, 3.0, 4.0, 6.0]})
    spec = pc.ModelSpec(None, [pc.Block("gaussian_diagonal", ["x"])])
    version = history.store.save(pc.fit(rows, spec), "density")
    history.store.promote("density", version, "champion")
    evaluation = pc.evaluate(history.store.load(version.ref), rows)
    on = {"source": "s3://bucket/lake", "partition": {"month": "2014-01"}}
    history.store.record_evaluation(version, evaluation, on=on)
    history.score(version, "2014-02", health={"log_density": {"rare": 0.25}})
    html = history.get("density")
    shown = f"−{abs(evaluation.log_density or 0.0):.4g}"
    assert f"has log density {shown} on lake, month=2014-01;" in texts(html)
    assert "month=2014-02: 25.0 % of the rows are rare" in html
    assert "Mean log density of rows that the version was not trained on, nats" in html
    assert "Accuracy" not in html
    assert f"{shown} log density" in texts(history.get("density/-/evaluations"))
    assert "100.0 %" not in history.get("density/-/evaluations")


def test_partitions_say_what_changed_and_lead_to_the_log(operated: History) -> None:
    store = operated.store
    second = store.versions("air")[1]
    operated.score(second, "2014-12")
    operated.score(second, "2014-12", input="2")
    operated.score(second, "2014-12", input="2", rule="2")
    html = operated.get("air/-/scorings?q=2014-12&sort=-scored")
    changes = re.findall(r"<td>((?:<span class=\"state\">\w+</span> )+)", html)
    assert [texts(change) for change in changes] == ["rule", "input", "model", "new"]
    assert 'target="_top" href="/dags/air/runs/r%201/tasks/score/mapped/3"' in html
    assert "map_index=3" in html
    current = operated.get("air/-/partitions?q=2014-12")
    assert len(re.findall(r"<tr>\n<td", current)) == 1
    warned = operated.get("air/-/partitions?sort=-warnings").partition("<tbody>")[2]
    assert texts(warned).index("drift x x drifts 0.400 bits") < texts(warned).index("month=2014-12")


def test_promotions_show_rollbacks_and_refusals_with_their_reasons(operated: History) -> None:
    store = operated.store
    third = store.save(operated.models[2], "air")
    reason = "log_loss 0.71 against 0.7 on 700 rows is not better"
    metrics = {
        "metric": "log_loss",
        "challenger_value": 0.71,
        "champion_value": 0.7,
        "gain": -0.01,
        "standard_error": 0.004,
        "z": -2.5,
        "floors": {"log_loss": {"value": 0.71, "floor": 1.0}},
        "windows": [{"window": {"month": "2014-11"}, "gain": 0.1}, {"gain": -1.0}, {"gain": None}],
        "trained_on": {"challenger": "unknown"},
    }
    refusal = Promotion(
        *("air", "champion", "refused", third.id, store.resolve("air@champion").id),
        *("2026-01-01T00:00:00.000000+00:00", "air.gate", reason, metrics),
    )
    refusal.write(store.files)
    html = texts(operated.get("air/-/promotions"))
    assert reason in html
    assert "log loss 0.7100 against 0.7000 −0.01000 ± 0.004000, z -2.5" in html
    assert "floors: log loss 0.7100 against 1" in html
    assert "better in 1 of 3 windows" in html
    assert "trained on these rows: unknown" in html
    assert "rolled back champion" in html
    assert "worse than the prior" in html
    assert "ana" in html
    assert "the first" not in texts(operated.get("air/-/promotions?q=rolled"))


def every_page(history: History, path: str, row: str) -> list[str]:
    """What a pattern finds on all pages of a table, following the links."""
    found: list[str] = []
    html = history.get(path)
    while True:
        found += re.findall(row, html)
        following = re.search(r'<a rel="next" href="([^"]*)"', html)
        if following is None:
            return found
        html = history.get(path.partition("?")[0] + unescape(following[1]))


def test_every_record_is_reachable(history: History) -> None:
    version = history.store.save(history.models[0], "air")
    for at in range(60):
        history.judge(version, f"{at:03}", 0.5 + at / 1000)
        history.score(version, f"{at:03}")
    names = [f"month={at:03}" for at in range(60)]
    pattern = r"<bdi>(month=\d+)</bdi>"
    assert every_page(history, "air/-/evaluations?sort=loss", pattern) == names
    assert every_page(history, "air/-/partitions", pattern) == names[::-1]
    assert every_page(history, "air/-/evaluations?q=month%3D04&sort=loss", pattern) == names[40:50]
    assert every_page(history, "air/-/partitions?page=1000", pattern) == names[:10][::-1]
    links = every_page(history, "air/-/evaluations?sort=loss", r'href="[^"]*/(air/\S+)#evaluation"')
    for name, link in zip(names[::20], links[::20], strict=True):
        assert f"Measured on {name}." in texts(history.get(link))
    for wrong in ("page=0", "page=x", f"q={'x' * 201}"):
        history.get(f"air/-/partitions?{wrong}", status=422)


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page by id, without its pictures and without white space."""
    text = re.sub(r"<img [^>]*>|\s+", "", page)
    return dict(re.findall(r'<sectionid="(\w+)">(.*?)</section>', text))


def test_a_card_has_the_sections_of_the_report(history: History, tmp_path: Path) -> None:
    version = history.store.save(history.models[0], "air")
    model = history.store.load(version.ref)
    rows = pa.table({"c": ["a", "b", "b"], "x": [1.5, 3.0, 2.0]})
    history.store.record_evaluation(version, pc.evaluate(model, rows), on={"source": "april"})
    (record,) = history.store.evaluations(version)
    model.report(tmp_path / "air.html", evaluation=record)
    report = sections_of((tmp_path / "air.html").read_text(encoding="utf-8"))
    card = sections_of(history.get(f"air/{version.id}"))
    assert report.items() <= card.items()
    assert card.keys() - report.keys() == {"parameters"}
    assert {"evaluation", "effects", "model", "training"} <= report.keys()


def test_a_card_has_the_mean_and_the_variance_of_each_column_in_each_class(
    history: History,
) -> None:
    draw = np.random.default_rng(0)
    rows = {
        "c": ["a", "b"] * 500,
        "x": draw.normal(3.0, 2.0, 1000),
        "y": draw.normal(0.0, 5.0, 1000),
    }
    spec = pc.ModelSpec("c", [pc.Block("gaussian_full", ["x", "y"])])
    version = history.store.save(pc.fit(pa.table(rows), spec), "air")
    parameters = sections_of(history.get(f"air/{version.id}"))["parameters"]
    cells = re.findall(r"<td(?:class=\"n\")?><bdi>(.*?)</bdi>", parameters)
    shown = {(row[1], row[0]): row[2:] for row in zip(*[iter(cells)] * 5, strict=True)}
    for at, label in enumerate("ab"):
        for column in "xy":
            values = np.asarray(rows[column])[at::2]
            count, mean, variance = map(float, shown[label, column])
            assert count == 500
            assert mean == pytest.approx(values.mean(), abs=1e-3)
            assert variance == pytest.approx(values.var(), rel=0.01)


def test_home_shows_the_champion_and_what_needs_attention_first(operated: History) -> None:
    store = operated.store
    bad = store.save(operated.models[3], "zinc")
    store.promote("zinc", bad, "champion")
    operated.judge(bad, "2014-12", 1.4)
    html = operated.pages.get("/").text
    rows = re.findall(r"<tr>\n.*?</tr>", html, flags=re.DOTALL)
    assert [texts(row).split()[0] for row in rows] == ["zinc", "air"]
    assert '<span class="problem">1.400</span>' in rows[0]
    assert "is worse than its class prior alone" in rows[0]
    assert "never" in rows[0]
    assert store.resolve("air@champion").id[:8] in rows[1]
    assert texts(rows[1]).count("month=2014-12") == 2
    assert "problem" not in rows[1]


def test_each_page_says_first_what_is_wrong_and_what_to_do(operated: History) -> None:
    store = operated.store
    first = store.resolve("air@champion").id[:8]

    def lede(page: str) -> str:
        html = operated.get(f"air{page}")
        return texts(re.findall(r'<p class="lede.*?</p>', html, flags=re.DOTALL)[0])

    assert lede("") == (
        f"The champion {first} is better than the class prior alone on month=2014-12; the last "
        "scored partition is month=2014-12, which has no warnings."
    )
    assert len({lede(page) for page in PAGES}) == 1
    assert lede(f"/{store.resolve('air@champion').id}") == lede("")
    other = store.versions("air")[1].id
    assert lede(f"/{other}") == f"The champion is another version, {first}."
    assert "No model needs attention." in operated.pages.get("/").text
    for month in ("2015-01", "2015-02"):
        operated.judge(store.resolve("air@champion"), month, 1.2)
    assert lede("") == (
        f"The champion {first} is worse than the class prior alone by log loss on month=2015-02, "
        "since month=2015-01. Train on newer rows and promote."
    )
    assert "air is worse than its class prior alone." in operated.pages.get("/").text
    store.promote("air", store.versions("air")[1], "champion", force=True, reason="again")
    operated.judge(store.resolve("air@champion"), "2015-03", 1.2)
    assert f"or return to {first}: probclass rollback air." in lede("")


FAULTS = {
    "no champion": "air has no champion",
    "prior": "air predicts its class prior for every row",
    "failed run": "air failed in its last run",
    "gap": "air has a gap between its partitions",
    "no training": "air was not retrained for long",
    "damaged": "air has damaged records",
    "warning": "air has warnings",
    "worse": "air is worse than its class prior alone",
    "two": "air is worse than its class prior alone; air has warnings",
}
"""What the first page says of each fault; that of a partition not scored has a test of its own."""


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_needs_attention(
    history: History, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = history.store
    version = store.save(history.models[0], "air")
    if fault != "no champion":
        prior = fault == "prior"
        store.promote("air", version, "champion", reason="class prior: worse" if prior else None)
    if fault == "no training":  # a challenger is judged after each scoring, and then no more
        for model in history.models[1:]:
            refused = store.save(model, "air")
            entry = Promotion(
                *("air", "champion", "refused", refused.id, version.id),
                f"2026-01-0{len(store.versions('air'))}T00:00:00.000000+00:00",
            )
            entry.write(store.files)
    for month in MONTHS[:14]:
        if (fault, month) != ("gap", "2013-11"):
            sentence = "x drifts 0.4 bits from training."
            verdict = {"check": "drift", "subject": "x", "action": "warn", "sentence": sentence}
            warns = fault in ("warning", "two") and month == MONTHS[13]
            history.score(version, month, verdicts=[verdict] if warns else [])
    history.judge(version, MONTHS[13], 1.2 if fault in ("worse", "two") else 0.6)
    if fault == "damaged":
        records = Path(store.uri, "air", "scorings").glob("*.json")
        next(path for path in records if MONTHS[0] in path.read_text()).write_text("{")
    if fault == "failed run":
        run = Run("air", "r 2", "failed", "2026-01-02T00:00:00+00:00", ["air.train"])
        monkeypatch.setitem(RUNS, "air", [run])
    html = history.pages.get("/").text
    found = texts(re.findall(r'<p class="lede wrong.*?</p>', html, flags=re.DOTALL)[0])
    said = f"1 file cannot be read; {FAULTS[fault]}." if fault == "damaged" else f"{FAULTS[fault]}."
    assert found == said
    top = re.findall(r'<p class="lede wrong.*?</p>', history.get("air"), flags=re.DOTALL)
    assert len(top) == 1
    if fault == "failed run":
        assert "The last run of air, r 2, failed at 2026-01-02 00:00 UTC: air.train." in texts(
            top[0]
        )
    if fault == "gap":
        assert "1 partition between month=2013-10 and month=2013-12 not scored." in texts(top[0])


def test_models_show_their_last_run_in_airflow(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = history.store.save(history.models[0], "air")
    history.store.promote("air", version, "champion")
    history.score(version, "2014-01")

    def cell() -> str:
        return texts(re.findall(r"<td.*?</td>", history.pages.get("/").text, re.DOTALL)[-1])

    assert cell() == "–"  # Airflow has no run of its DAG, or the user may not see it
    ended, begun = "2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00"
    failed = Run("air", "r 2", "failed", ended, ["air.train"])
    monkeypatch.setitem(RUNS, "air", [failed, Run("air", "r 3", "running", begun, [])])
    assert cell().startswith("running")
    assert 'href="/dags/air/runs/r%203"' in history.get("air")
    assert "air failed in its last run." in history.pages.get("/").text  # until one succeeds
    monkeypatch.setitem(RUNS, "air", [Run("air", "r 3", "success", begun, [])])
    assert cell().startswith("success")
    assert "No model needs attention." in history.pages.get("/").text


def test_an_outlier_squeezes_no_axis_and_a_gap_is_an_empty_place(history: History) -> None:
    version = history.store.save(history.models[0], "air")
    history.store.promote("air", version, "champion")
    for at, month in enumerate(month for month in MONTHS if month != "2014-03"):
        history.judge(version, month, 90.0 if at == 7 else 0.5 + at / 100)
    history.judge(version, "2099-01", 0.5)
    html = history.get("air")
    dots = re.findall(r'class="dot.*?x="([\d.]+)" y="([\d.]+)".*?<title>month=(\S+):', html)[:24]
    x = {month: float(left) for left, _, month in dots}
    steps = [x[later] - x[month] for month, later in pairwise(x)]
    wide = [month for month, step in zip(x, steps, strict=False) if step > 1.5 * min(steps)]
    assert wide == ["2014-02", "2014-12"]
    assert max(steps) < 2.1 * min(steps)
    heights = sorted(float(top) for _, top, _ in dots)
    assert "up to 90, drawn at the edge" in texts(html)
    assert heights[-1] - heights[1] > 15  # from 0.50 to 0.73, below a prior of 1


def test_the_timeline_has_pages_of_dates(history: History) -> None:
    version = history.store.save(history.models[0], "air")
    days = [f"{date(2020, 1, 1) + timedelta(days=at)}" for at in range(450)]
    for at in range(0, 450, 50):
        commits = [
            {"partition": {"day": day}, "commit_id": day, "source": "lake", "input": "1"}
            | {"input_version": None, "rule": "1", "rows": 9, "skipped": False}
            | {"health": {"log_density": {"rare": 0.01}}}
            for day in days[at : at + 50]
        ]
        report = SimpleNamespace(model_id=version.id, uri="scored", commits=commits)
        history.store.record_scoring(version, report)
    pattern = r"day=(\S+): 1.0 % of the rows are rare"
    assert every_page(history, "air", pattern) == [*days[50:], *days[:50]]


def test_of_the_regions_of_a_day_each_warning_is_shown(history: History) -> None:
    version = history.store.save(history.models[0], "air")
    history.store.promote("air", version, "champion")
    verdict = {"check": "drift", "subject": "x", "action": "warn", "sentence": "x drifts."}

    def score(region: str, day: str, rare: float, verdicts: list[dict[str, str]]) -> None:
        partition = {"region": region, "day": day}
        health = {"log_density": {"rare": rare}}
        history.score(version, "", partition=partition, verdicts=verdicts, health=health)

    score("east", "2014-01-01", 0.2, [verdict])
    score("west", "2014-01-01", 0.01, [])
    html = history.get("air")
    assert "region=east, day=2014-01-01: x drifts." in html
    assert "20.0 % of the rows are rare" in html
    assert "air has warnings." in history.pages.get("/").text
    score("east", "2014-01-01", 0.01, [])
    assert 'rect class="warned' not in history.get("air")
    assert "No model needs attention." in history.pages.get("/").text
    score("east", "2014-01-02", 0.2, [verdict])
    score("east", "2014-01-03", 0.01, [])
    assert "No model needs attention." in history.pages.get("/").text  # the newest day has none


def test_near_identical_events_are_one_line(history: History) -> None:
    store = history.store
    versions = [store.save(model, "air") for model in history.models]
    store.promote("air", versions[0], "champion")
    for at, refused in enumerate(versions[1:]):
        time = f"2099-01-0{at + 1}T00:00:00.000000+00:00"
        entry = ("air", "champion", "refused", refused.id, versions[0].id, time, "gate")
        Promotion(*entry, f"log loss 0.{at} is not better").write(store.files)
    verdict = {"check": "drift", "subject": "x", "action": "warn"}
    for at, month in enumerate(MONTHS[:6]):
        verdicts = [] if at == 3 else [verdict | {"sentence": f"x drifts {at} bits."}]
        history.score(versions[0], month, verdicts=verdicts)
    html = history.get("air")
    events = [texts(one) for one in re.findall(r'<span class="state.*?</span>', html)]
    assert events == [
        f"Refused {versions[1].id[:12]} to {versions[3].id[:12]}",
        "Warning in month=2013-05 to month=2013-06",
        "Warning in month=2013-01 to month=2013-03",
        f"Promoted {versions[0].id[:12]}",
    ]
    assert "x drifts 5 bits." in html


def test_a_card_says_first_how_the_version_does_in_operation(operated: History) -> None:
    store = operated.store
    champion = store.resolve("air@champion")
    verdict = {"check": "nulls", "subject": "x", "action": "warn", "sentence": "x has nulls."}
    operated.score(champion, "2015-01", verdicts=[verdict])
    metrics = {"metric": "log_loss", "gain": 0.02, "standard_error": 0.004}
    metrics |= {"challenger_value": 0.58, "champion_value": 0.6}
    time = "2099-01-01T00:00:00.000000+00:00"
    entry = ("air", "champion", "refused", champion.id, champion.id, time, "gate", "", metrics)
    Promotion(*entry).write(store.files)
    text = texts(operated.get("air/champion")).partition("How good it is")[0]
    assert "month=2015-01, scored last, with" in text
    assert "Partitions has the sentences; check the input first." in text
    assert "Log loss 0.6000 prior alone 1" in text
    assert "In force since 20" in text
    assert "0.02000 log loss 0.5800 against 0.6000, ± 0.004000" in text
    assert "Scored last month=2015-01 nulls x" in text


def test_a_partition_that_was_not_scored_is_shown_until_it_is(operated: History) -> None:
    store = operated.store
    champion = store.resolve("air@champion")
    outcome = SimpleNamespace(partition={"month": "2015-01"}, is_transient=False, error="x drifts.")
    report = SimpleNamespace(model_id=champion.id, uri="scored", commits=[], failed=[outcome])
    run = {"dag_id": "air", "run_id": "r 1", "task_id": "score"}
    (record,) = store.record_scoring(champion, report, provenance={"airflow": run})
    assert record.partitions == []
    html = operated.get("air")
    assert "month=2015-01 was not scored: x drifts." in html
    assert "Not scored: month=2015-01 x drifts." in texts(html)
    assert "Newest scored month=2014-12 scored today" in texts(html)
    text = texts(operated.get("air/-/partitions"))
    assert "Not scored Reason Model Since Task month=2015-01 x drifts." in text
    assert "air has partitions that were not scored." in operated.pages.get("/").text
    operated.score(champion, "2015-01")
    assert "Not scored" not in operated.get("air/-/partitions")
    assert "No model needs attention." in operated.pages.get("/").text


@pytest.mark.parametrize("what", IN_PLACE)
def test_whatever_is_in_the_place_of_a_record_is_shown_as_damaged(
    history: History, what: str
) -> None:
    make, reason = IN_PLACE[what]
    first, second = (history.store.save(model, "air") for model in history.models[:2])
    history.store.save(history.models[0], "zinc")
    for version, alias in ((first, "champion"), (second, "old")):
        history.store.promote("air", version, alias)
        history.judge(version, "2014-01", 0.5)
    folder = Path(history.store.uri, "air")
    replaced = [
        folder / "aliases/old.json",
        folder / second.id / "manifest.json",
        *folder.glob(f"evaluations/{second.id}/*.json"),
        *folder.glob("promotions/old/*.json"),
    ]
    for path in replaced:
        path.unlink()
        make(path)
    home = texts(history.pages.get("/").text)
    assert home.count(reason) == 4
    assert all(str(path) in home for path in replaced)
    assert "zinc" in home
    for page in PAGES:
        html = history.get(f"air{page}")
        assert "4 records are damaged and not shown" in html
    assert first.id[:8] in texts(history.get("air/-/evaluations"))
    assert "manifest.json" in texts(history.get(f"air/{second.id}", status=422))
    assert history.store.models() == ["air", "zinc"]
    assert history.store.load("air@champion").id == first.id
    with pytest.raises(StoreError, match="old"):
        history.store.resolve("air@old")


def test_junk_in_a_record_is_text_or_damage(operated: History) -> None:
    draw = random.Random(ROUNDS)
    rows = {"source": "lake", "where": [["month", "<", "2014-03"]], "partition": None}
    third = operated.store.save(operated.models[2], "air", provenance=rows)
    table = pa.table({"c": ["a", "b", "b"], "x": [1.0, 3.0, 4.0]})
    operated.store.record_evaluation(third, pc.evaluate(operated.models[2], table), on=rows)
    folder = Path(operated.store.uri, "air")
    good = {path: path.read_text() for path in sorted(folder.glob("**/*.json"))}
    pages = [f"air{page}" for page in PAGES]
    pages += [f"air/{version.id}" for version in operated.store.versions("air")]
    for _ in range(ROUNDS):
        for path in draw.sample([*good], 6):
            path.write_text(json.dumps(with_junk(json.loads(good[path]), draw)))
        for page in draw.sample(pages, 4):
            address = f"/stores/{store_key(operated.store.uri)}/{page}"
            response = operated.pages.get(address)  # raises what the application does not catch
            assert response.status_code in (200, 404, 422), response.text
        assert "air" in texts(operated.pages.get("/").text)
        for path, text in good.items():
            path.write_text(text)


def test_a_new_model_has_all_pages(history: History) -> None:
    history.store.save(history.models[0], "air")
    for page, line in {
        "": "No scoring and no evaluation is recorded yet",
        "/-/versions": "1 version",
        "/-/evaluations": "No evaluation is recorded",
        "/-/partitions": "No scoring is recorded",
        "/-/promotions": "No version was promoted yet.",
        "/-/drift": "No scored partition was watched.",
        "/-/compare": "Settings",
    }.items():
        assert line in texts(history.get(f"air{page}"))
        assert "There is no model 'ari'" in texts(history.get(f"ari{page}", status=404))


def test_a_version_is_compared_with_the_champion_and_that_with_the_one_before(
    history: History,
) -> None:
    store = history.store
    versions = [store.save(model, "air") for model in history.models]

    def compared(right: str) -> list[str]:
        html = history.get(f"air/-/compare?right={right}")
        return re.findall(r'value="(\w+)" selected', html)

    assert compared(versions[2].id) == [versions[1].id, versions[2].id]  # no champion: the last one
    store.promote("air", versions[1], "champion")
    assert compared("") == [versions[1].id, versions[3].id]
    store.promote("air", versions[3], "champion")
    assert compared(versions[3].id) == [versions[1].id, versions[3].id]
    card = history.get(f"air/{versions[0].id}")
    assert f"compare?left={versions[3].id}&amp;right={versions[0].id}" in card
    history.get(f"air/-/compare?right={'0' * 64}", status=404)


def test_two_versions_are_compared_on_the_same_rows(operated: History) -> None:
    first, second = operated.store.versions("air")
    operated.judge(second, "2013-02", 0.77)
    html = operated.get(f"air/-/compare?left={first.id}&right={second.id}")
    text = texts(html)
    assert "month=2013-02 0.6000 0.7700" in text
    assert text.count("month=2013-") == 1
    assert re.search(r'<tr class="differs"><th><bdi>rows', html) is None  # both have 4
    assert "block gaussian_diagonal" in text
    assert "x 0.0925 b 0.6325 4" in text  # divergence, class, shift of the mean, ratio of variances
    operated.get("air/-/compare?left=champion", status=404)


def test_hostile_values_are_text(history: History) -> None:
    version = history.store.save(history.models[0], "air", provenance={"source": SCRIPT})
    history.store.promote("air", version, "champion", by=HANDLER, reason=SCRIPT)
    verdicts = [{"action": SCRIPT, "sentence": HANDLER}, SCRIPT, 3]
    health = {"columns": {SCRIPT: {"drift": 0.5, "nulls": "x"}, "y": 3}, "log_density": SCRIPT}
    history.score(version, SCRIPT, task="../" + HANDLER, verdicts=verdicts)
    history.score(version, "2014-01", input_version=HANDLER)
    recorded = history.store.scorings("air")
    for record, values in zip(recorded, (health, {"columns": [SCRIPT]}), strict=True):
        (one,) = record.partitions
        replace(record, partitions=[{**one, "health": values}]).write(history.store.files)
    history.score(version, "0001-01-01T00:00:00+05:00")  # before the first day in UTC
    history.judge(version, HANDLER, 0.5)
    for page in PAGES:
        html = history.get(f"air{page}")
        assert "<script>document" not in html
        assert "<img src=x" not in html
    html = history.get(f"air/-/partitions?{'q=' + '%22%3E%3Cscript%3Ex'}")
    assert "<script>x" not in html


def test_stores_of_a_team_are_shown_to_its_members(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from probclass_airflow.ui import app

    own = pc.ModelStore(tmp_path / "team")
    own.save(history.models[0], "secret")
    history.store.save(history.models[0], "air")
    monkeypatch.setenv("AIRFLOW__RED___PROBCLASS__STORES", own.uri)
    address = f"/stores/{store_key(own.uri)}/secret"
    teams = {"red"}
    manager = SimpleNamespace(get_authorized_teams=lambda user: teams)
    monkeypatch.setattr(app, "get_auth_manager", lambda: manager)
    assert history.pages.get(address).status_code == 404  # Airflow has no teams
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    assert history.pages.get(address).status_code == 200
    assert "secret" in history.pages.get("/").text
    assert "air" in history.pages.get("/").text
    teams.clear()
    assert history.pages.get(address).status_code == 404
    assert "secret" not in history.pages.get("/").text


ERROR_PAGES = [
    ("/stores/{key}/ari", 404, "There is no model &#39;ari&#39; in the store"),
    ("/stores/0123456789ab/air", 404, "not among those that Airflow shows"),
    ("/stores/{key}/air/00000000", 404, "Model &#39;air&#39; has no version"),
    ("/stores/{key}/air/-/compare?left=1", 404, "has no version &#39;1"),
    ("/stores/{key}/air/-/aliases", 404, "There is no such page."),
    ("/stores/{key}/%2e%2e/{version}", 404, "There is no"),
    ("/stores/{key}/..%2f..%2fetc/passwd", 404, "There is no"),
    ("/stores/{key}/air/aliases", 404, "has no version"),
    ("/static/..%2fapp.py", 404, "There is no"),
    ("/static/%2fetc%2fpasswd", 404, "There is no"),
    ("/stores/{key}/air/{version}/column.svg?column=y", 404, "no such column"),
    ("/stores/{key}/air/{version}/column.svg", 422, "This address is incomplete"),
    ("/run?dag_id=air&run_id=x&task_id=y&map_index=z", 422, "incomplete"),
    ("/stores/{key}/damaged/{damaged}", 422, "tables.arrow&#39;"),
]


def test_an_error_page_has_a_status_and_one_line(history: History) -> None:
    version, damaged = (history.store.save(history.models[0], name) for name in ("air", "damaged"))
    tables = Path(history.store.uri, "damaged", damaged.id, "tables.arrow")
    tables.write_bytes(tables.read_bytes()[:-8])
    names = {"key": store_key(history.store.uri), "version": version.id, "damaged": damaged.id}
    for path, status, line in ERROR_PAGES:
        response = history.pages.get(path.format(**names))
        assert response.status_code == status, path
        assert line in response.text, path
        assert "Traceback" not in response.text, path
        assert "default-src 'none'" in response.headers["content-security-policy"], path


def test_an_alias_leads_to_its_version_and_an_empty_store_is_listed(history: History) -> None:
    assert "This store has no models." in history.pages.get("/").text
    version = history.store.save(history.models[0], "air")
    history.store.promote("air", version, "champion")
    address = f"/stores/{store_key(history.store.uri)}/air/champion"
    response = history.pages.get(address, follow_redirects=False)
    assert response.headers["location"].endswith(version.id)


def test_only_reading_is_allowed(history: History) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert history.pages.request(method, "/").status_code == 405
