"""What a result shows at the prompt, in ``print`` and in a notebook; a spec without a column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from lakes import write_rows

import probclass_core as pc
from probclass_core.operation.promotion import evaluate_paired
from probclass_core.training.shards import plan_shards

MOST_LINES, MOST_CHARACTERS = 12, 100


@pytest.fixture(scope="module")
def rows(titanic: pa.Table) -> pa.Table:
    return titanic


@pytest.fixture(scope="module")
def model(rows: pa.Table) -> pc.Model:
    return pc.fit(rows, label="label")


@pytest.fixture(scope="module")
def results(
    rows: pa.Table, model: pc.Model, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """A result of each public function, of the default model wherever there is one."""
    folder = tmp_path_factory.mktemp("displays")
    fast = pc.ModelSpec.auto(rows, "label", effort="fast")
    rival = pc.fit(rows, fast)
    lake = folder / "lake"
    for port in ("S", "C", "Q"):
        write_rows(lake / f"port={port}", rows)
    store = pc.ModelStore(folder / "store")
    version = store.save(model, "titanic", provenance={"rows": {str(i): i for i in range(50)}})
    store.save(rival, "titanic")
    store.promote("titanic", version, "champion", force=True, reason="the first one")
    alias = store.aliases("titanic")["champion"]
    evaluation = pc.evaluate(model, rows)
    record = store.record_evaluation(version, evaluation, on={"source": "titanic.parquet"})
    promotion = pc.promote_if_better(
        store, store.versions("titanic")[1], rows, gate=pc.Gate(allow_training_rows=True)
    )
    scored = pc.score(model, lake, folder / "scored")
    (scoring,) = store.record_scoring(version, scored)
    two = {
        name: pc.ModelSpec("label", {name: ["sibsp", "fare"]})
        for name in ("gaussian_diagonal", "gaussian_full")
    }
    comparison = pc.compare(rows, two)
    equal = {f"hypothesis {i}": 0.05 for i in range(20)}
    return {
        "model": model,
        "spec": model.spec,
        "block": max(model.spec.blocks, key=lambda block: len(str(block.to_dict()))),
        "statistics": pc.summarize(rows, fast),
        "evaluation": evaluation,
        "evaluation record": record,
        "paired evaluation": evaluate_paired(model, rival, lake, windows="port"),
        "drift": pc.drift(model, rival),
        "health": pc.health(model, rows),
        "importance": pc.importance(model, rows),
        "explanation": pc.explain(model, rows.slice(0, 3)),
        "comparison": comparison,
        "odds": comparison.odds("gaussian_diagonal", "gaussian_full"),
        "cross-validation": pc.cross_validate(rows, fast, folds=10),
        "inspection": pc.inspect_table(lake),
        "Bayes' rule": pc.bayes_rule(equal, dict.fromkeys(equal, 0.5)),
        "version": version,
        "alias": alias,
        "promotion": promotion,
        "score report": scored,
        "scoring record": scoring,
        "report of a dry run": pc.score(model, lake, folder / "other", dry_run=True),
        "shard plan": plan_shards(lake, fast, cache=store, min_rows=1),
        "records": store.records("titanic"),
        "gate": pc.Gate(),
    }


def test_a_result_at_the_prompt_takes_at_most_a_dozen_lines(results: dict[str, Any]) -> None:
    for name, result in results.items():
        lines = repr(result).splitlines()
        assert 1 <= len(lines) <= MOST_LINES, name
        assert max(map(len, lines)) <= MOST_CHARACTERS, name
        assert all(line.isprintable() for line in lines), name


def test_a_spec_shows_a_row_for_each_block_and_its_notes_in_print_and_notebooks(
    model: pc.Model,
) -> None:
    spec = model.spec
    text, html = str(spec), spec._repr_html_()
    assert html.count("<tr>") == 1 + len(spec.pool)
    assert html.count("<li>") == len(spec.notes)
    for block in spec.pool:
        row = next(line for line in text.splitlines() if line.startswith(f"{block.name} "))
        for words in (block.estimator, ", ".join(block.columns), ", ".join(block.given)):
            assert words in row
            assert words in html
