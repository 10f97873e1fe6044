"""Old plugins under this probclass, and models whose plugin is gone or another."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pluggy
import pyarrow as pa
import pytest
from installing import GOOD, install, run

import probclass_core as pc
from probclass_core.plugins import hookspecs
from probclass_core.testing.generators import numbers
from probclass_core.testing.laws import laws_of
from probclass_core.testing.suite import try_law

FROZEN = Path(__file__).parent / "frozen_v1"
ROAD = """
spec = pk.ModelSpec("y", [pk.Block("{name}", ["x"])])
store = pk.ModelStore({store!r})
"""


@pytest.fixture(scope="module")
def frozen() -> Iterator[pc.EstimatorPlugin]:
    sys.path.insert(0, str(FROZEN))
    try:
        import probclass_frozen

        yield from probclass_frozen.probclass_estimators()
    finally:
        sys.path.remove(str(FROZEN))


def test_a_plugin_of_version_1_goes_the_whole_road_still(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(
        "".join(
            f'{{"x": {x}, "y": "{y}"}}\n'
            for x, y in zip([1, 2, 3, 10, 20, 30], "aaabbb", strict=True)
        )
    )
    script = (
        ROAD.format(name="frozen", store=str(tmp_path / "models"))
        + f"""
import pyarrow.parquet as pq
version = store.save(pk.fit({str(tmp_path / "rows.jsonl")!r}, spec), "waits")
pk.score(store.load("waits"), table, {str(tmp_path / "scored.parquet")!r})
print(json.dumps({{
    "rates": store.load("waits").parameters["frozen"]["rate"].to_pylist(),
    "predicted": pq.read_table({str(tmp_path / "scored.parquet")!r})["prediction"].to_pylist(),
    "made by": version.provenance["plugins"],
}}))
"""
    )
    done = run(FROZEN, script)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["rates"] == pytest.approx([3 / 6, 3 / 60])
    assert said["predicted"] == list("aaabbb")
    assert said["made by"] == {"frozen": {"distribution": "probclass-frozen", "version": "1.0"}}


def test_a_plugin_of_version_1_keeps_the_laws(frozen: pc.EstimatorPlugin) -> None:
    columns = {"x": numbers(at_least=0.0), "y": numbers(at_least=0.0)}
    for law in laws_of(frozen):
        try_law(law, frozen, columns, [{}, {"rows": 1, "sum": 2}], examples=2)


def test_hooks_may_take_more_arguments_and_old_plugins_go_on(frozen: pc.EstimatorPlugin) -> None:
    """pluggy passes an implementation the arguments that it names, and no others."""
    import probclass_frozen

    class Later:
        @staticmethod
        @hookspecs.hookspec
        def probclass_estimators(purpose: str) -> None:
            """What the hooks may be one day."""

        @staticmethod
        @hookspecs.hookspec
        def probclass_table_formats(purpose: str) -> None: ...

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(Later)
    manager.register(probclass_frozen)
    manager.check_pending()
    for hook, name in (("probclass_estimators", "frozen"), ("probclass_table_formats", "jsonl")):
        (offers,) = getattr(manager.hook, hook)(purpose="training")
        assert [offer.name for offer in offers] == [name]


def save(tmp_path: Path) -> str:
    """Train and save a model of a plugin that is then uninstalled; the start of the next script."""
    install(tmp_path / "then", "expo", GOOD.format(name="exponential"), version="1.2")
    road = ROAD.format(name="exponential", store=str(tmp_path / "models"))
    done = run(tmp_path / "then", road + 'store.save(pk.fit(table, spec), "waits")')
    assert done.returncode == 0, done.stderr
    return road


REFUSAL = """
try:
    store.load("waits")
except pk.ProbClassError as error:
    print(type(error).__name__, error)
"""


def test_a_model_without_its_plugin_says_what_to_install_and_is_read_as_tables(
    tmp_path: Path,
) -> None:
    road = save(tmp_path)
    script = (
        road
        + REFUSAL
        + """
tables = store.read_bundle("waits").tables
print(tables["exponential"]["rate"].to_pylist(), tables["priors"].num_rows)
"""
    )
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    said, rates = done.stdout.splitlines()
    assert said == (
        "PluginError block 'exponential' needs the estimator 'exponential', which is not "
        "installed; it was made by expo 1.2: pip install 'expo==1.2'."
    )
    assert rates == "[0.5, 0.05] 2"


def test_a_model_without_its_plugin_is_inspected_on_the_command_line(tmp_path: Path) -> None:
    save(tmp_path)
    for options in ("", ', "--json"'):
        shown = run(tmp_path, f"""
from probclass_core.cli.app import app
app(["inspect", "waits", "--store", {str(tmp_path / "models")!r}{options}])
""")  # fmt: skip
        assert shown.returncode == 0, shown.stderr
        assert "expo" in shown.stdout
        assert "rate" in shown.stdout


def test_a_model_whose_plugin_is_broken_hears_why(tmp_path: Path) -> None:
    road = save(tmp_path)
    install(tmp_path / "now", "expo", "raise RuntimeError('no license found')", version="1.3")
    done = run(tmp_path / "now", road + REFUSAL)
    assert "pip install 'expo==1.2'. Not loaded: plugin 'expo' (expo) of expo 1.3" in done.stdout
    assert "no license found" in done.stdout


def test_a_model_of_other_parameters_names_the_release_that_made_it(tmp_path: Path) -> None:
    road = save(tmp_path)
    newer = GOOD.format(name="exponential").replace(
        '"an exponential density")', '"an exponential density", parameters_version=2)'
    )
    install(tmp_path / "now", "expo", newer, version="2.0")
    done = run(tmp_path / "now", road + REFUSAL)
    assert done.stdout.strip() == (
        "StoreError block 'exponential' has parameters of version 1, but the installed "
        "exponential reads version 2; it was made by expo 1.2: pip install 'expo==1.2'."
    )


def test_the_provenance_of_plugins_is_no_part_of_a_models_identity(tmp_path: Path) -> None:
    road = save(tmp_path)
    install(tmp_path / "now", "expo", GOOD.format(name="exponential"), version="1.3")
    script = (
        road
        + """
again = store.save(pk.fit(table, spec), "waits")
print(len(store.versions("waits")), again.provenance["plugins"]["exponential"]["version"])
print("plugins" in pk.fit(table, pk.ModelSpec("y", [pk.Block("gaussian_diagonal", ["x"])]))
      .to_bundle().provenance)
"""
    )
    done = run(tmp_path / "now", script)
    assert done.stdout.split() == ["1", "1.2", "False"], done.stderr


BROKEN = {
    "another contract": GOOD.format(name="other").replace("PROBCLASS_API = 1", "PROBCLASS_API = 2"),
    "no contract": GOOD.format(name="other").replace("PROBCLASS_API = 1", ""),
    "raises": "raise RuntimeError('no license found')",
    "no hook": "PROBCLASS_API = 1",
    "a hook's name": GOOD.format(name="other").replace(
        "probclass_estimators", "probclass_estimator"
    ),
    "fails in its hook": GOOD.format(name="other").replace("    yield", "    1 / 0\n    yield"),
    "yields another thing": "import probclass_core as pk\nPROBCLASS_API = 1\n@pk.hookimpl\n"
    "def probclass_estimators():\n    return ['expo']\n",
    "another's name": GOOD.format(name="gaussian_full"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_takes_down_nobody_who_does_without_it(tmp_path: Path, case: str) -> None:
    """Another plugin's model is trained; --check names the broken one; its own model hears why."""
    install(tmp_path, "broken-one", BROKEN[case], version="6.6")
    install(tmp_path, "expo", GOOD.format(name="exponential"))
    needed = "gaussian_full" if case == "another's name" else "other"
    script = f"""
print(pk.fit(table, pk.ModelSpec("y", [pk.Block("exponential", ["x"])])).predict({{"x": [2.0]}})[0])
try:
    pk.fit(table, pk.ModelSpec("y", [pk.Block({needed!r}, ["x"])]))
except pk.PluginError as error:
    print(error)
from probclass_core.cli.app import app
sys.argv = ["probclass", "estimators", "--check", "--json"]
app()
"""
    done = run(tmp_path, script)
    assert done.returncode == 2, done.stderr
    predicted, needed_said, report = done.stdout.split("\n", 2)
    assert predicted == "a"
    assert "broken-one 6.6" in needed_said
    found = {one["distribution"]: one for one in json.loads(report)["plugins"] if one["advice"]}
    assert "broken-one 6.6" in found["broken-one"]["advice"]
    assert "expo" not in found


def test_a_frozen_table_is_what_it_was(frozen: pc.EstimatorPlugin) -> None:
    """Parameters of a plugin of version 1 keep their columns: what SQL reads of them stands."""
    table = pa.table({"x": [1.0, 3.0, 8.0], "y": ["a", "a", "b"]})
    with pc.trying(frozen):
        model = pc.fit(table, pc.ModelSpec("y", [pc.Block("frozen", ["x"])]))
    assert model.parameters["frozen"].to_pylist() == [
        {"class": "a", "feature": "x", "rate": 0.5},
        {"class": "b", "feature": "x", "rate": 0.125},
    ]
