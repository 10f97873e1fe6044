"""Plugins as pip would leave them: found by entry point, and every failure named."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from installing import ESTIMATOR, GOOD, HOOK, install, refusal, run


def test_an_estimator_of_another_distribution_goes_the_whole_road(tmp_path: Path) -> None:
    """Fit, store, load and score; the rate is n / Σx, the density rate · exp(−rate x)."""
    install(tmp_path, "expo", GOOD.format(name="exponential"))
    script = f"""
import pyarrow.parquet as pq
model = pk.fit(table, pk.ModelSpec("y", [pk.Block("exponential", ["x"])]))
store = pk.ModelStore({str(tmp_path / "models")!r})
loaded = store.load(store.save(model, "waiting").ref)
pk.score(loaded, table, {str(tmp_path / "scored.parquet")!r})
print(json.dumps({{
    "listed": "exponential" in pk.estimators(),
    "rates": model.parameters["exponential"]["rate"].to_pylist(),
    "likelihood": loaded.log_likelihood_by_block({{"x": [4.0]}})[0, :, 0].tolist(),
    "predicted": pq.read_table({str(tmp_path / "scored.parquet")!r})["prediction"].to_pylist(),
}}))
"""
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["listed"]
    assert said["rates"] == pytest.approx([3 / 6, 3 / 60])
    expected = [math.log(rate) - 4.0 * rate for rate in (0.5, 0.05)]
    assert said["likelihood"] == pytest.approx(expected)
    assert said["predicted"] == ["a", "a", "a", "b", "b", "b"]


BROKEN = {
    "raises on import": (
        "raise RuntimeError('no license found')",
        ["cannot be loaded", "RuntimeError: no license found"],
    ),
    "built for another contract": (
        GOOD.format(name="exponential").replace("PROBCLASS_API = 1", "PROBCLASS_API = 2"),
        ["built for API version 2", "this probclass has 1"],
    ),
    "names no contract": (
        GOOD.format(name="exponential").replace("PROBCLASS_API = 1", ""),
        ["names no API version", "PROBCLASS_API = 1"],
    ),
    "misspells the hook": (
        GOOD.format(name="exponential").replace("probclass_estimators", "probclass_estimator"),
        ["probclass_estimator"],
    ),
    "yields another thing": (
        ESTIMATOR.format(name="exponential")
        + HOOK.replace('yield pk.EstimatorPlugin("{name}", Exponential, "an exponential density")',
                       "yield Exponential"),
        ["must yield EstimatorPlugin"],
    ),
    "fails in its hook": (
        ESTIMATOR.format(name="exponential")
        + "\nPROBCLASS_API = 1\n\n@pk.hookimpl\ndef probclass_estimators():\n    return [1 / 0]\n",
        ["ZeroDivisionError"],
    ),
    "takes the name of a built-in": (
        GOOD.format(name="gaussian_full"),
        ["'gaussian_full' is offered by 2 plugins", "built in"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_named_with_its_distribution_and_version(
    tmp_path: Path, case: str
) -> None:
    source, words = BROKEN[case]
    install(tmp_path, "expo", source)
    said = refusal(tmp_path)
    assert "\n" not in said
    for word in [*words, "expo", "1.2"]:
        assert word in said


def test_two_plugins_of_one_name_are_both_named(tmp_path: Path) -> None:
    install(tmp_path, "expo", GOOD.format(name="exponential"), version="1.2")
    install(tmp_path, "other-expo", GOOD.format(name="exponential"), version="3.4")
    said = refusal(tmp_path)
    for word in ("'exponential' is offered by 2 plugins", "of expo 1.2", "of other-expo 3.4"):
        assert word in said


def test_a_broken_plugin_is_an_error_in_the_log_of_a_model_without_it(tmp_path: Path) -> None:
    """The model is fitted all the same; asking for the missing estimator raises with the cause."""
    install(tmp_path, "expo", "raise RuntimeError('no license found')")
    script = """
logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
model = pk.fit(table, pk.ModelSpec("y", [pk.Block("gaussian_diagonal", ["x"])]))
print(model.predict({"x": [2.5]})[0])
try:
    pk.fit(table, pk.ModelSpec("y", [pk.Block("exponential", ["x"])]))
except pk.PluginError as error:
    print(error, type(error.__cause__).__name__)
"""
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    predicted, refused = done.stdout.splitlines()
    assert predicted == "a"
    assert "unknown estimator 'exponential'" in refused
    assert "no license found" in refused
    assert refused.endswith("PluginError")
    assert done.stderr.count("ERROR plugin 'expo' (expo) of expo 1.2 cannot be loaded") == 1


def test_a_table_format_of_another_distribution_is_read_and_only_read(tmp_path: Path) -> None:
    """The format of the page on plugins, once installed."""
    page = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
    source = page.split("## Table formats")[1].split("```py\n")[1].split("```")[0]
    install(tmp_path, "tables-of-text", source)
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y\n1.0,a\n2.0,a\n3.0,a\n10.0,b\n20.0,b\n30.0,b\n")
    script = f"""
spec = pk.ModelSpec("y", [pk.Block("gaussian_diagonal", ["x"])])
named = pk.TableRef({str(rows)!r}, format="csv")
prefixed = "csv+file://" + {str(rows)!r}
print(*{{pk.fit(one, spec).id == pk.fit(table, spec).id for one in (named, prefixed, named.uri)}})
for source, sink in [
    (table, prefixed), (table, "tsv+file:///nowhere"), ({str(tmp_path / "none.csv")!r}, "scored")
]:
    try:
        pk.score(pk.fit(table, spec), source, sink)
    except pk.ProbClassError as error:
        print(type(error).__name__, error)
"""
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    same, only_read, unknown, missing = done.stdout.splitlines()
    assert same == "True"
    assert only_read.endswith("tables of format 'csv' are read-only.")
    assert "PluginError unknown table format 'tsv'; registered: 'csv', " in unknown
    assert missing.startswith("TableError cannot read")


def test_a_hook_that_yields_something_else_is_named(tmp_path: Path) -> None:
    source = """
import probclass_core as pk
PROBCLASS_API = 1
@pk.hookimpl
def probclass_table_formats():
    yield "csv"
"""
    install(tmp_path, "tables-of-text", source)
    said = refusal(tmp_path)
    assert "probclass_table_formats yielded 'csv'; it must yield TableFormat values" in said
    assert "tables-of-text 1.2" in said
