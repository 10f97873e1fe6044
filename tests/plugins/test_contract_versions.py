"""Plugins of older releases, and models whose plugin is missing or has changed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_install import PLUGIN, install, run

from probclass_core.authoring import EstimatorPlugin
from probclass_core.testing.laws import laws_of
from probclass_core.testing.suite import numbers, try_law

FROZEN = Path(__file__).parent / "frozen_v1"
SETUP = """
spec = pc.ModelSpec("y", [pc.Block("{name}", ["x"])])
store = pc.ModelStore({store!r})
"""


@pytest.fixture(scope="module")
def frozen() -> Iterator[EstimatorPlugin]:
    sys.path.insert(0, str(FROZEN))
    try:
        import probclass_frozen

        yield from probclass_frozen.probclass_estimators()
    finally:
        sys.path.remove(str(FROZEN))


def test_a_plugin_of_version_1_still_fits_saves_and_scores(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(
        "".join(
            f'{{"x": {x}, "y": "{y}"}}\n'
            for x, y in zip([1, 2, 3, 10, 20, 30], "aaabbb", strict=True)
        )
    )
    script = (
        SETUP.format(name="frozen", store=str(tmp_path / "models"))
        + f"""
import pyarrow.parquet as pq
version = store.save(pc.fit({str(tmp_path / "rows.jsonl")!r}, spec), "waits")
pc.score(store.load("waits"), table, {str(tmp_path / "scored.parquet")!r})
print(json.dumps({{
    "parameters": store.load("waits").parameters["frozen"].to_pylist(),
    "predicted": pq.read_table({str(tmp_path / "scored.parquet")!r})["prediction"].to_pylist(),
    "made by": version.provenance["plugins"],
}}))
"""
    )
    result = run(FROZEN, script)
    assert result.returncode == 0, result.stderr
    output = json.loads(result.stdout)
    # SQL that reads these columns must go on working.
    assert output["parameters"] == [
        {"class": "a", "feature": "x", "rate": 3 / 6},
        {"class": "b", "feature": "x", "rate": 3 / 60},
    ]
    assert output["predicted"] == list("aaabbb")
    assert output["made by"] == {"frozen": {"distribution": "probclass-frozen", "version": "1.0"}}


def test_a_plugin_of_version_1_obeys_the_laws(frozen: EstimatorPlugin) -> None:
    columns = {"x": numbers(at_least=0.0), "y": numbers(at_least=0.0)}
    for law in laws_of(frozen):
        try_law(law, frozen, columns, [{}, {"rows": 1, "sum": 2}], examples=2)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, ``models``, that has a model whose plugin is no longer installed."""
    folder = tmp_path_factory.mktemp("saved")
    install(folder / "before", "expo", PLUGIN.format(name="exponential"), version="1.2")
    script = SETUP.format(name="exponential", store=str(folder / "models"))
    result = run(folder / "before", script + 'store.save(pc.fit(table, spec), "waits")')
    assert result.returncode == 0, result.stderr
    return folder


MADE_BY_EXPO = r"made by expo 1\.2: pip install 'expo==1\.2'\.$"
PLUGINS_LATER = {
    "not installed": (
        None,
        r"PluginError block 'exponential' needs the estimator 'exponential', .* not installed; .*"
        + MADE_BY_EXPO,
    ),
    "broken": (
        "raise RuntimeError('no license found')",
        r"pip install 'expo==1\.2'\. Not loaded: plugin 'expo' .* of expo 2\.0 .*no license found",
    ),
    "with other parameters": (
        PLUGIN.format(name="exponential").replace(
            'name = "exponential"', 'name = "exponential"\n    parameters_version = 2'
        ),
        r"StoreError block 'exponential' has parameters of version 1, .* reads version 2; .*"
        + MADE_BY_EXPO,
    ),
}
"""The plugin of a model when it is loaded, and the error."""


@pytest.mark.parametrize("case", PLUGINS_LATER)
def test_a_model_whose_plugin_is_missing_says_what_to_install(
    saved: Path, tmp_path: Path, case: str
) -> None:
    """Its parameters can still be read as tables, and it can be inspected."""
    source, message = PLUGINS_LATER[case]
    if source:
        install(tmp_path, "expo", source, version="2.0")
    script = """
try:
    store.load("waits")
except pc.ProbClassError as error:
    print(type(error).__name__, error)
print(store.read_bundle("waits").tables["exponential"]["rate"].to_pylist())
from probclass_core.cli.app import app
app(["inspect", "waits", "--store", store.uri])
"""
    script = SETUP.format(name="exponential", store=str(saved / "models")) + script
    result = run(tmp_path, script)
    assert result.returncode == 0, result.stderr
    error, rates, *inspected = result.stdout.splitlines()
    assert re.search(message, error)
    assert rates == "[0.5, 0.05]"
    assert {"expo", "rate"} <= set(re.findall(r"\w+", " ".join(inspected)))


def test_the_id_of_a_model_does_not_depend_on_the_version_of_its_plugin(
    saved: Path, tmp_path: Path
) -> None:
    install(tmp_path, "expo", PLUGIN.format(name="exponential"), version="1.3")
    script = """
again = store.save(pc.fit(table, spec), "waits")
print(len(store.versions("waits")), again.provenance["plugins"]["exponential"]["version"])
print("plugins" in pc.fit(table, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])]))
      .to_bundle().provenance)
"""
    setup = SETUP.format(name="exponential", store=str(saved / "models"))
    result = run(tmp_path, setup + script)
    assert result.stdout.split() == ["1", "1.2", "False"], result.stderr
