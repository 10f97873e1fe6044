"""Methods that the public face attaches to classes of lower packages, such as `Model.save`."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import probclass_core as pc
from probclass_core import attached
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.analysis.explanation import Explanation

CLASSES: dict[str, type] = {
    f"{one.__name__}Methods": one for one in (pc.Model, pc.ModelSpec, Evaluation, Explanation)
}
STUB = ast.parse(Path(attached.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
METHODS = [
    pytest.param(base.name, method, id=f"{base.name}.{method.name}")
    for base in STUB.body
    if isinstance(base, ast.ClassDef)
    for method in base.body
    if isinstance(method, ast.FunctionDef)
]


def first_parameter(function: Any) -> str:
    return next(iter(inspect.signature(function).parameters))


def without_parameter(text: str, name: str) -> str:
    """A docstring without one of its arguments."""
    text = re.sub(rf"(?m)^    {name}: .*\n(        .*\n)*", "", text)
    return text.replace("Args:\n\n", "")


@pytest.mark.parametrize(("base", "method"), METHODS)
def test_type_checkers_see_what_runs(base: str, method: ast.FunctionDef) -> None:
    getattr(CLASSES[base], method.name)  # imports it
    defined = vars(getattr(attached, base))[method.name]
    documentation = ast.get_docstring(method)
    if isinstance(defined, property):
        assert method.returns is not None
        assert ast.unparse(method.returns) == getattr(defined.fget, "__name__", None)
        assert documentation == inspect.getdoc(defined)
        return
    function = defined.__func__ if isinstance(defined, staticmethod) else defined
    code = ast.parse(inspect.getsource(inspect.unwrap(function))).body[0]
    assert isinstance(code, ast.FunctionDef)
    parameters, text = code.args, inspect.getdoc(function)
    assert text is not None
    if not isinstance(defined, staticmethod):
        parameters.args[0] = ast.arg("self")
        text = without_parameter(text, first_parameter(function))
    assert ast.unparse(method.args) == ast.unparse(parameters)
    assert ast.unparse(method.returns or code) == ast.unparse(code.returns or method)
    assert documentation == text


def test_the_stub_names_every_attached_method() -> None:
    named = {(param.values[0], param.values[1].name) for param in METHODS}  # type: ignore[union-attr]
    assert named == {
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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["probclass_core.sql.query", "False"], done.stderr


def test_help_shows_signatures_and_documentation() -> None:
    text = pydoc.plain(pydoc.render_doc(pc.Model))
    assert "to_sql(model: 'Model', *, dialect: 'str'" in text
    assert "The query that scores a table where it is" in text
    assert "Plots of a model" in text
    model = pc.fit({"x": [1.0, 2.0, 4.0], "y": list("aab")}, label="y")
    assert "Write a model to a folder of its own" in pydoc.render_doc(model.save)
    assert "Plots of a model" in pydoc.render_doc(model.plot)
