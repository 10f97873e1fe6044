"""What type checkers, and so editors, know about results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import probclass_core as pc

CODE = """
import probclass_core as pc

model = pc.fit("rows.parquet", label="y")
evaluation = pc.evaluate(model, "rows.parquet")
reveal_type(model)
reveal_type(model.predict({}))
reveal_type(model.predict({}).to_pylist())
reveal_type(model.predict_proba({}))
reveal_type(model.predict_table({}))
reveal_type(model.priors["prior"].to_numpy())
reveal_type(model.plot.effect("x"))
reveal_type(evaluation.log_loss)
reveal_type(evaluation.per_class)
reveal_type(pc.ModelSpec.auto("rows.parquet", "y").blocks)
reveal_type(pc.score(model, "rows.parquet", "scored").rows)
reveal_type(pc.compare("rows.parquet", []).best)
reveal_type(pc.cross_validate("rows.parquet", label="y").summary)
reveal_type(pc.load("model"))
"""
TYPES = [
    "probclass_core.model.model.Model",
    "probclass_core.arrow.annotations.ArrowArray",
    "list[Any]",
    "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]",
    "probclass_core.arrow.annotations.ArrowTable",
    "numpy.ndarray[tuple[Any, ...], numpy.dtype[Any]]",
    "matplotlib.figure.Figure",
    "float",
    "probclass_core.arrow.annotations.ArrowTable",
    "tuple[probclass_core.spec.model_spec.Block, ...]",
    "int",
    "str",
    "probclass_core.arrow.annotations.ArrowTable",
    "probclass_core.model.model.Model",
]


def test_type_checkers_know_the_types_of_results(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE)
    root = Path(pc.__file__).parents[1]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", root / ".mypy_cache", tmp_path / "code.py"],
        env={**os.environ, "MYPYPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
    )
    revealed = re.findall(r'Revealed type is "(.*)"', checked.stdout)
    plain = [text.replace("builtins.", "").replace("typing.", "") for text in revealed]
    assert plain == TYPES, checked.stdout + checked.stderr


def test_names_without_a_meaning_of_their_own_are_hidden() -> None:
    """Completion lists public names only, also after submodules were imported."""
    assert sorted(dir(pc)) == sorted(pc.__all__)
    model = pc.fit({"x": [1.0, 2.0, 3.0, 4.0], "y": list("aabb")}, label="y")
    documented = str(pc.Model.__doc__)
    for name in (name for name in dir(model) if not name.startswith("_")):
        assert f"        {name}: " in documented or getattr(pc.Model, name).__doc__, name
