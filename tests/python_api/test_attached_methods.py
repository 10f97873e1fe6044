"""Methods that the public face attaches, such as `Model.save`, and names that editors complete."""

from __future__ import annotations

import ast
import importlib
import pydoc
from pathlib import Path

import pytest
from python_processes import output_of_python

import probclass_core as pc
from probclass_core import attached
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.analysis.explanation import Explanation
from probclass_core.analysis.importance import Importance

CLASSES: dict[str, type] = {
    f"{one.__name__}Methods": one
    for one in (pc.Model, pc.ModelSpec, Evaluation, Explanation, Importance)
}
STUB = ast.parse(Path(attached.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
IMPORTED = {
    alias.asname or alias.name: (node.module, alias.name)
    for node in STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


def stubs() -> dict[tuple[str, str], str]:
    """By class and method, the name in the stub of the function, or of the class of a property."""
    found = {}
    for base in STUB.body:
        for node in base.body if isinstance(base, ast.ClassDef) else []:
            if isinstance(node, ast.FunctionDef):
                method, value = node.name, ast.unparse(node.returns or node)
            else:
                assert isinstance(node, ast.Assign)
                method, value = ast.unparse(node.targets[0]), ast.unparse(node.value)
            found[base.name, method] = value.removeprefix("staticmethod(").removesuffix(")")
    return found


@pytest.mark.parametrize(("base", "method"), stubs())
def test_type_checkers_see_what_runs(base: str, method: str) -> None:
    getattr(CLASSES[base], method)  # imports it
    defined = vars(getattr(attached, base))[method]
    if isinstance(defined, property):
        defined = defined.fget
    elif isinstance(defined, staticmethod):
        defined = defined.__func__
    module, name = IMPORTED[stubs()[base, method]]
    assert module is not None
    assert defined is getattr(importlib.import_module(module), name)


def test_the_stub_names_every_attached_method() -> None:
    assert set(stubs()) == {
        (base, name)
        for base in CLASSES
        for name in vars(getattr(attached, base))
        if not name.startswith("_")
    }


def test_models_have_the_methods_however_they_are_imported() -> None:
    script = (
        "from probclass_core.model.model import Model; import sys;"
        "assert not any(name.startswith('probclass_core.sql') for name in sys.modules);"
        "print(Model.to_sql.__module__, 'matplotlib' in sys.modules)"
    )
    assert output_of_python("-c", script).split() == ["probclass_core.sql.query", "False"]


def test_help_shows_signatures_and_documentation() -> None:
    text = pydoc.plain(pydoc.render_doc(pc.Model))
    assert "to_sql(model: 'Model', *, dialect: 'str'" in text
    assert "The query that scores a table where it is" in text
    assert "Plots of the columns of a model" in text
    model = pc.fit({"x": [1.0, 2.0, 4.0], "y": list("aab")}, label="y")
    assert "Write a model to a folder of its own" in pydoc.render_doc(model.save)
    assert "Plots of the columns of a model" in pydoc.render_doc(model.plot)


def test_names_without_a_meaning_of_their_own_are_hidden() -> None:
    """Completion lists public names only, also after submodules were imported."""
    assert sorted(dir(pc)) == sorted(pc.__all__)
    model = pc.fit({"x": [1.0, 2.0, 3.0, 4.0], "y": list("aabb")}, label="y")
    documented = str(pc.Model.__doc__)
    for name in (name for name in dir(model) if not name.startswith("_")):
        assert f"        {name}: " in documented or getattr(pc.Model, name).__doc__, name
