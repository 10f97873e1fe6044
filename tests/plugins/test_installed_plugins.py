"""Installed plugins are found by entry point, and every failure names its plugin."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pytest
from fake_install import PLUGIN, install, run

OTHER = PLUGIN.format(name="other")
BROKEN = {
    "raises on import": (
        "raise RuntimeError('no license found')",
        ["cannot be loaded", "RuntimeError: no license found"],
    ),
    "built for another contract": (
        OTHER.replace("PROBCLASS_API = 1", "PROBCLASS_API = 2"),
        ["built for API version 2", "this probclass has 1"],
    ),
    "misspells the hook": (
        OTHER.replace("probclass_estimators", "probclass_estimator"),
        ["no hook 'probclass_estimator';", "Did you mean 'probclass_estimators'?"],
    ),
    "gives the hook an argument": (
        OTHER.replace("probclass_estimators()", "probclass_estimators(options)"),
        ["probclass_estimators", "options"],
    ),
    "yields an object": (
        OTHER.replace("yield Exponential", "yield object()"),
        ["probclass_estimators yielded <object", "it must yield classes of estimators"],
    ),
    "takes the name of another plugin": (
        PLUGIN.format(name="twin"),
        ["'twin' is offered by 2 plugins", "of twin 1.2"],
    ),
}
"""Sources of plugins, and what is said about them."""


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_named_and_affects_only_models_that_need_it(
    tmp_path: Path, case: str
) -> None:
    """A model of another plugin is trained, and the failure is logged once."""
    source, words = BROKEN[case]
    install(tmp_path, "broken-one", source, version="6.6")
    for name in ("exponential", "twin"):
        install(tmp_path, name, PLUGIN.format(name=name))
    taken = re.search("'(.*)' is offered", words[0])
    script = f"""
logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
print(pc.fit(table, pc.ModelSpec("y", [pc.Block("exponential", ["x"])])).predict({{"x": [2.0]}})[0])
needed = pc.ModelSpec("y", [pc.Block({taken[1] if taken else "other"!r}, ["x"])])
for ask in (lambda: pc.fit(table, needed), pc.estimators):
    try:
        ask()
    except pc.errors.PluginError as error:
        print(error)
from probclass_core.cli.app import app
sys.argv = ["probclass", "estimators", "--json"]
app()
"""
    result = run(tmp_path, script)
    assert result.returncode == 2, result.stderr
    predicted, *errors = result.stdout.splitlines()
    assert predicted == "a"
    assert len(errors) == 2
    shown = json.loads(result.stderr.splitlines()[-1])["error"]
    for message in (*errors, shown):
        assert all(word in message for word in (*words, "broken-one 6.6")), message
    assert result.stderr.count("ERROR ") == 1


def test_an_installed_table_format_is_read_and_written(tmp_path: Path) -> None:
    """The example in docs/plugins.md."""
    page = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
    source = page.split("## Table formats")[1].split("```py\n")[1].split("```")[0]
    install(tmp_path, "tables-of-arrow", source)
    rows = tmp_path / "rows.arrow"
    table = pa.table({"x": [1.0, 2.0, 3.0, 10.0, 20.0, 30.0], "y": list("aaabbb")})
    pa.feather.write_feather(table, rows)
    script = f"""
spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])
named = pc.TableRef({str(rows)!r}, format="arrow")
prefixed = "arrow+file://" + {str(rows)!r}
model = pc.fit(table, spec)
print(*{{pc.fit(rows, spec).id == model.id for rows in (named, prefixed, named.uri)}})
scored = {str(tmp_path / "scored.arrow")!r}
reports = [pc.score(model, {str(rows)!r}, scored) for _ in range(2)]
print(*[report.counts["unchanged"] for report in reports], len(pc.commits(scored)))
for source, sink in [
    (table, "scored.jsonl"), (table, "tsv+file:///nowhere"), ({str(tmp_path / "none.arrow")!r}, "s")
]:
    try:
        pc.score(pc.fit(table, spec), source, sink)
    except pc.ProbClassError as error:
        print(type(error).__name__, error)
"""
    result = run(tmp_path, script)
    assert result.returncode == 0, result.stderr
    same, skipped, only_read, unknown, missing = result.stdout.splitlines()
    assert same == "True"
    assert skipped == "0 0 1"  # rows in memory have no identity, so a rerun writes them again
    assert "tables of format 'jsonl' are read-only; write one Parquet file" in only_read
    assert "PluginError unknown table format 'tsv'; registered: 'arrow', 'csv', " in unknown
    assert missing.startswith("TableError cannot read")
