"""What a new user types in the first minutes works from the wheels, in a new environment.

``trips.py`` takes a CSV file from fit to a scored file, ``monthly.sh`` is a cron job with one
``probclass.toml``, and `GAMMA` makes a gamma density of the generated plugin.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from environments import Environments, run

pytestmark = pytest.mark.nightly  # makes environments
HERE = Path(__file__).parent
GAMMA = {
    "support = (0.0, math.inf)": "support = (math.ulp(0.0), math.inf)",
    'parameters = {"rate": POSITIVE}': 'parameters = {"shape": POSITIVE, "scale": POSITIVE}',
    'return {"rate": 1.0 / m.x.mean}': """\
variance = np.maximum(m.x.scatter / m.x.count, 1e-6 * m.x.mean**2)
        return {"shape": m.x.mean**2 / variance, "scale": variance / m.x.mean}""",
    "return np.log(p.rate) - p.rate * x": """\
constant = gammaln(p.shape) + p.shape * np.log(p.scale)
        return (p.shape - 1.0) * np.log(x) - x / p.scale - constant""",
    "import numpy as np\n": "import numpy as np\nfrom scipy.special import gammaln\n",
}
LAWS = """
import probclass_gamma
from probclass_core.testing.generators import numbers
from probclass_core.testing.suite import EstimatorLaws

class TestGamma(EstimatorLaws):
    estimator = probclass_gamma.Gamma
    columns = {"wait": numbers(at_least=0.125), "delay": numbers(at_least=0.125)}
"""


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environments]:
    made = Environments(tmp_path_factory.mktemp("environments"))
    yield made
    made.remove()


def test_a_csv_file_is_fitted_evaluated_explained_plotted_saved_and_scored(
    environments: Environments, tmp_path: Path
) -> None:
    python = environments.python(["probclass[plots]"])
    script = HERE / "trips.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) < 15
    run(python, HERE / "make_trips.py", cwd=tmp_path)
    shown = run(python, script, cwd=tmp_path, MPLBACKEND="Agg")
    assert "hour(pickup)" in shown
    assert "macro average" in shown
    assert "posterior: " in shown
    assert shown.endswith("1000 rows scored\n")
    assert (tmp_path / "fare.png").stat().st_size > 0
    scored = pq.read_table(tmp_path / "scored.parquet")
    right = pac.mean(pac.equal(scored["prediction"], scored["tipped"])).as_py()
    majority = pac.max(scored["tipped"].value_counts().field("counts")).as_py() / len(scored)
    assert right > majority


def test_a_cron_job_fits_gates_scores_and_rolls_back(
    environments: Environments, tmp_path: Path
) -> None:
    python = environments.python(["probclass[cli]", "probclass[plots]"])
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    wide = {"COLUMNS": "200"}
    shown = run("bash", HERE / "monthly.sh", cwd=tmp_path, PATH=path, PYTHONSAFEPATH="", **wide)
    assert "unchanged: already scored" in shown
    assert "champion   rolled_back" in shown
    march = pq.read_table(tmp_path / "scored")
    assert len(set(march["model_id"].to_pylist())) == 1  # scored again by the first champion


def test_a_gamma_density_from_the_template_passes_the_laws(
    environments: Environments, tmp_path: Path
) -> None:
    python = environments.python(["probclass[cli]", "probclass[plots]", "probclass[testing]"])
    run(python, "-m", "probclass_core", "plugin", "new", "gamma", cwd=tmp_path)
    project = tmp_path / "probclass-gamma"
    module = project / "probclass_gamma" / "estimator.py"
    text = module.read_text(encoding="utf-8")
    for generated, ours in GAMMA.items():
        assert text.count(generated) == 1, generated
        text = text.replace(generated, ours)
    module.write_text(text, encoding="utf-8")
    (project / "tests" / "test_gamma.py").write_text(LAWS, encoding="utf-8")
    passed = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert "passed" in passed
