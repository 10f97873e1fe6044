"""Installed plugins are found by entry point, and every failure names its plugin."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pytest
from fake_install import ESTIMATOR, HOOK, PLUGIN, install, plugin_error, run


def test_an_installed_estimator_fits_saves_loads_and_scores(tmp_path: Path) -> None:
    """The rate is n / Σx, the density rate · exp(−rate x)."""
    install(tmp_path, "expo", PLUGIN.format(name="exponential"))
    script = f"""
import pyarrow.parquet as pq
model = pc.fit(table, pc.ModelSpec("y", [pc.Block("exponential", ["x"])]))
store = pc.ModelStore({str(tmp_path / "models")!r})
loaded = store.load(store.save(model, "waiting").ref)
pc.score(loaded, table, {str(tmp_path / "scored.parquet")!r})
print(json.dumps({{
    "listed": "exponential" in pc.estimators(),
    "rates": model.parameters["exponential"]["rate"].to_pylist(),
    "likelihood": loaded.log_likelihood_by_block({{"x": [4.0]}})[0, :, 0].tolist(),
    "predicted": pq.read_table({str(tmp_path / "scored.parquet")!r})["prediction"].to_pylist(),
}}))
"""
    result = run(tmp_path, script)
    assert result.returncode == 0, result.stderr
    output = json.loads(result.stdout)
    assert output["listed"]
    assert output["rates"] == pytest.approx([3 / 6, 3 / 60])
    expected = [math.log(rate) - 4.0 * rate for rate in (0.5, 0.05)]
    assert output["likelihood"] == pytest.approx(expected)
    assert output["predicted"] == ["a", "a", "a", "b", "b", "b"]


BROKEN = {
    "raises on import": (
        "raise RuntimeError('no license found')",
        ["cannot be loaded", "RuntimeError: no license found"],
    ),
    "built for another contract": (
        PLUGIN.format(name="exponential").replace("PROBCLASS_API = 1", "PROBCLASS_API = 2"),
        ["built for API version 2", "this probclass has 1"],
    ),
    "names no contract": (
        PLUGIN.format(name="exponential").replace("PROBCLASS_API = 1", ""),
        ["names no API version", "PROBCLASS_API = 1"],
    ),
    "misspells the hook": (
        PLUGIN.format(name="exponential").replace("probclass_estimators", "probclass_estimator"),
        ["no hook 'probclass_estimator';", "Did you mean 'probclass_estimators'?"],
    ),
    "yields the class itself": (
        ESTIMATOR.format(name="exponential")
        + HOOK.replace('yield pc.EstimatorPlugin("{name}", Exponential, "an exponential density")',
                       "yield Exponential"),
        ["must yield EstimatorPlugin"],
    ),
    "fails in its hook": (
        ESTIMATOR.format(name="exponential")
        + "\nPROBCLASS_API = 1\n\n@pc.hookimpl\ndef probclass_estimators():\n    return [1 / 0]\n",
        ["ZeroDivisionError"],
    ),
    "takes the name of a built-in": (
        PLUGIN.format(name="gaussian_full"),
        ["'gaussian_full' is offered by 2 plugins", "built in"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_error_of_a_broken_plugin_names_distribution_and_version(tmp_path: Path, case: str) -> None:
    source, words = BROKEN[case]
    install(tmp_path, "expo", source)
    message = plugin_error(tmp_path)
    assert "\n" not in message
    for word in [*words, "expo", "1.2"]:
        assert word in message


def test_error_for_a_duplicate_name_names_both_plugins(tmp_path: Path) -> None:
    install(tmp_path, "expo", PLUGIN.format(name="exponential"), version="1.2")
    install(tmp_path, "other-expo", PLUGIN.format(name="exponential"), version="3.4")
    message = plugin_error(tmp_path)
    for word in ("'exponential' is offered by 2 plugins", "of expo 1.2", "of other-expo 3.4"):
        assert word in message


def test_a_broken_plugin_is_logged_when_a_model_does_not_need_it(tmp_path: Path) -> None:
    """The model is fitted; asking for the missing estimator raises an error with the cause."""
    install(tmp_path, "expo", "raise RuntimeError('no license found')")
    script = """
logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
model = pc.fit(table, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])]))
print(model.predict({"x": [2.5]})[0])
try:
    pc.fit(table, pc.ModelSpec("y", [pc.Block("exponential", ["x"])]))
except pc.PluginError as error:
    print(error, type(error.__cause__).__name__)
"""
    result = run(tmp_path, script)
    assert result.returncode == 0, result.stderr
    predicted, error = result.stdout.splitlines()
    assert predicted == "a"
    assert "unknown estimator 'exponential'" in error
    assert "no license found" in error
    assert error.endswith("PluginError")
    assert result.stderr.count("ERROR plugin 'expo' (expo) of expo 1.2 cannot be loaded") == 1


def test_an_installed_table_format_can_be_read_but_not_written(tmp_path: Path) -> None:
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
for source, sink in [
    (table, prefixed), (table, "tsv+file:///nowhere"), ({str(tmp_path / "none.arrow")!r}, "scored")
]:
    try:
        pc.score(pc.fit(table, spec), source, sink)
    except pc.ProbClassError as error:
        print(type(error).__name__, error)
"""
    result = run(tmp_path, script)
    assert result.returncode == 0, result.stderr
    same, only_read, unknown, missing = result.stdout.splitlines()
    assert same == "True"
    assert "tables of format 'arrow' are read-only; write one Parquet file" in only_read
    assert "PluginError unknown table format 'tsv'; registered: 'arrow', 'csv', " in unknown
    assert missing.startswith("TableError cannot read")


def test_error_for_a_hook_that_yields_another_type_names_the_plugin(tmp_path: Path) -> None:
    source = """
import probclass_core as pc
PROBCLASS_API = 1
@pc.hookimpl
def probclass_table_formats():
    yield "csv"
"""
    install(tmp_path, "tables-of-text", source)
    message = plugin_error(tmp_path)
    assert "probclass_table_formats yielded 'csv'; it must yield TableFormat values" in message
    assert "tables-of-text 1.2" in message
