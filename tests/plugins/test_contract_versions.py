"""Plugins of older releases, and models whose plugin is missing or has changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pluggy
import pyarrow as pa
import pytest
from fake_install import PLUGIN, install, run

import probclass_core as pc
from probclass_core.plugins import hookspecs
from probclass_core.testing.generators import numbers
from probclass_core.testing.laws import laws_of
from probclass_core.testing.suite import try_law

FROZEN = Path(__file__).parent / "frozen_v1"
SETUP = """
spec = pc.ModelSpec("y", [pc.Block("{name}", ["x"])])
store = pc.ModelStore({store!r})
"""


@pytest.fixture(scope="module")
def frozen() -> Iterator[pc.EstimatorPlugin]:
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
    "rates": store.load("waits").parameters["frozen"]["rate"].to_pylist(),
    "predicted": pq.read_table({str(tmp_path / "scored.parquet")!r})["prediction"].to_pylist(),
    "made by": version.provenance["plugins"],
}}))
"""
    )
    result = run(FROZEN, script)
    assert result.returncode == 0, result.stderr
    output = json.loads(result.stdout)
    assert output["rates"] == pytest.approx([3 / 6, 3 / 60])
    assert output["predicted"] == list("aaabbb")
    assert output["made by"] == {"frozen": {"distribution": "probclass-frozen", "version": "1.0"}}


def test_a_plugin_of_version_1_obeys_the_laws(frozen: pc.EstimatorPlugin) -> None:
    columns = {"x": numbers(at_least=0.0), "y": numbers(at_least=0.0)}
    for law in laws_of(frozen):
        try_law(law, frozen, columns, [{}, {"rows": 1, "sum": 2}], examples=2)


def test_new_hook_arguments_do_not_break_old_plugins(frozen: pc.EstimatorPlugin) -> None:
    """pluggy passes an implementation only the arguments that it names."""
    import probclass_frozen

    class LaterHooks:
        @staticmethod
        @hookspecs.hookspec
        def probclass_estimators(purpose: str) -> None:
            """A hook with an argument that version 1 does not have."""

        @staticmethod
        @hookspecs.hookspec
        def probclass_table_formats(purpose: str) -> None: ...

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(LaterHooks)
    manager.register(probclass_frozen)
    manager.check_pending()
    for hook, name in (("probclass_estimators", "frozen"), ("probclass_table_formats", "jsonl")):
        (descriptors,) = getattr(manager.hook, hook)(purpose="training")
        assert [descriptor.name for descriptor in descriptors] == [name]


def save_model(tmp_path: Path) -> str:
    """Train and save a model, then uninstall its plugin. Returns the start of the next script."""
    install(tmp_path / "before", "expo", PLUGIN.format(name="exponential"), version="1.2")
    setup = SETUP.format(name="exponential", store=str(tmp_path / "models"))
    result = run(tmp_path / "before", setup + 'store.save(pc.fit(table, spec), "waits")')
    assert result.returncode == 0, result.stderr
    return setup


LOAD = """
try:
    store.load("waits")
except pc.ProbClassError as error:
    print(type(error).__name__, error)
"""


def test_loading_without_the_plugin_says_what_to_install(tmp_path: Path) -> None:
    """The parameters can still be read as tables."""
    setup = save_model(tmp_path)
    script = (
        setup
        + LOAD
        + """
tables = store.read_bundle("waits").tables
print(tables["exponential"]["rate"].to_pylist(), tables["priors"].num_rows)
"""
    )
    result = run(tmp_path, script)
    assert result.returncode == 0, result.stderr
    error, rates = result.stdout.splitlines()
    assert error == (
        "PluginError block 'exponential' needs the estimator 'exponential', which is not "
        "installed; it was made by expo 1.2: pip install 'expo==1.2'."
    )
    assert rates == "[0.5, 0.05] 2"


def test_inspect_shows_a_model_without_its_plugin(tmp_path: Path) -> None:
    save_model(tmp_path)
    for options in ("", ', "--json"'):
        shown = run(tmp_path, f"""
from probclass_core.cli.app import app
app(["inspect", "waits", "--store", {str(tmp_path / "models")!r}{options}])
""")  # fmt: skip
        assert shown.returncode == 0, shown.stderr
        assert "expo" in shown.stdout
        assert "rate" in shown.stdout


def test_loading_with_a_broken_plugin_says_why_it_is_broken(tmp_path: Path) -> None:
    setup = save_model(tmp_path)
    install(tmp_path / "now", "expo", "raise RuntimeError('no license found')", version="1.3")
    result = run(tmp_path / "now", setup + LOAD)
    assert "pip install 'expo==1.2'. Not loaded: plugin 'expo' (expo) of expo 1.3" in result.stdout
    assert "no license found" in result.stdout


def test_error_for_another_parameters_version_names_the_release_to_install(tmp_path: Path) -> None:
    setup = save_model(tmp_path)
    newer = PLUGIN.format(name="exponential").replace(
        '"an exponential density")', '"an exponential density", parameters_version=2)'
    )
    install(tmp_path / "now", "expo", newer, version="2.0")
    result = run(tmp_path / "now", setup + LOAD)
    assert result.stdout.strip() == (
        "StoreError block 'exponential' has parameters of version 1, but the installed "
        "exponential reads version 2; it was made by expo 1.2: pip install 'expo==1.2'."
    )


def test_the_id_of_a_model_does_not_depend_on_the_version_of_its_plugin(tmp_path: Path) -> None:
    setup = save_model(tmp_path)
    install(tmp_path / "now", "expo", PLUGIN.format(name="exponential"), version="1.3")
    script = (
        setup
        + """
again = store.save(pc.fit(table, spec), "waits")
print(len(store.versions("waits")), again.provenance["plugins"]["exponential"]["version"])
print("plugins" in pc.fit(table, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])]))
      .to_bundle().provenance)
"""
    )
    result = run(tmp_path / "now", script)
    assert result.stdout.split() == ["1", "1.2", "False"], result.stderr


BROKEN = {
    "built for another contract": PLUGIN.format(name="other").replace(
        "PROBCLASS_API = 1", "PROBCLASS_API = 2"
    ),
    "names no contract": PLUGIN.format(name="other").replace("PROBCLASS_API = 1", ""),
    "raises on import": "raise RuntimeError('no license found')",
    "implements no hook": "PROBCLASS_API = 1",
    "misspells the hook": PLUGIN.format(name="other").replace(
        "probclass_estimators", "probclass_estimator"
    ),
    "fails in its hook": PLUGIN.format(name="other").replace("    yield", "    1 / 0\n    yield"),
    "yields text": "import probclass_core as pc\nPROBCLASS_API = 1\n@pc.hookimpl\n"
    "def probclass_estimators():\n    return ['expo']\n",
    "takes the name of a built-in": PLUGIN.format(name="gaussian_full"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_affects_only_models_that_need_it(tmp_path: Path, case: str) -> None:
    """Another plugin's model is trained, --check and the error of its own model name the plugin."""
    install(tmp_path, "broken-one", BROKEN[case], version="6.6")
    install(tmp_path, "expo", PLUGIN.format(name="exponential"))
    needed = "gaussian_full" if case == "takes the name of a built-in" else "other"
    script = f"""
print(pc.fit(table, pc.ModelSpec("y", [pc.Block("exponential", ["x"])])).predict({{"x": [2.0]}})[0])
try:
    pc.fit(table, pc.ModelSpec("y", [pc.Block({needed!r}, ["x"])]))
except pc.PluginError as error:
    print(error)
from probclass_core.cli.app import app
sys.argv = ["probclass", "estimators", "--check", "--json"]
app()
"""
    result = run(tmp_path, script)
    assert result.returncode == 2, result.stderr
    predicted, error, report = result.stdout.split("\n", 2)
    assert predicted == "a"
    assert "broken-one 6.6" in error
    plugins = json.loads(report)["plugins"]
    advice = {plugin["distribution"]: plugin["advice"] for plugin in plugins if plugin["advice"]}
    assert "broken-one 6.6" in advice["broken-one"]
    assert "expo" not in advice


def test_parameters_of_a_version_1_plugin_have_the_same_columns(frozen: pc.EstimatorPlugin) -> None:
    """SQL that reads these columns must go on working."""
    table = pa.table({"x": [1.0, 3.0, 8.0], "y": ["a", "a", "b"]})
    with pc.trying(frozen):
        model = pc.fit(table, pc.ModelSpec("y", [pc.Block("frozen", ["x"])]))
    assert model.parameters["frozen"].to_pylist() == [
        {"class": "a", "feature": "x", "rate": 0.5},
        {"class": "b", "feature": "x", "rate": 0.125},
    ]
