"""Helpers for authors of estimators, and estimators tried before they are installed."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import probclass_core as pc
from probclass_core import authoring
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
TABLE = {"x": [1.0, 2.0, 3.0, 10.0, 20.0, 30.0], "y": list("aaabbb")}


class Narrow(GaussianDiagonal):
    name = "narrow"


class Wide(Narrow):
    pass


NARROW = pc.EstimatorPlugin("narrow", Narrow, "a normal under another name")
SPEC = pc.ModelSpec("y", [pc.Block("narrow", ["x"])])


@pytest.mark.parametrize("name", authoring.__all__)
def test_every_helper_is_documented(name: str) -> None:
    assert re.search(rf"`{name}`", PAGE.read_text(encoding="utf-8"))
    assert inspect.getdoc(getattr(authoring, name)) or name == "MISSING"


def test_an_estimator_can_be_tried_before_it_is_installed() -> None:
    with pc.trying(NARROW):
        assert pc.estimators()["narrow"] is Narrow
        model = pc.fit(TABLE, SPEC, workers=2)
        assert model.predict({"x": [2.5]}).to_pylist() == ["a"]
    assert "narrow" not in pc.estimators()
    with pytest.raises(pc.PluginError, match="unknown estimator 'narrow'"):
        pc.fit(TABLE, SPEC)


def test_trying_ends_after_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), pc.trying(NARROW):
        raise ZeroDivisionError
    assert "narrow" not in pc.estimators()


def test_trying_may_be_nested_and_repeated_but_not_redefine_a_name() -> None:
    other = pc.EstimatorPlugin("narrow", Wide, "another")
    with pc.trying(NARROW):
        with pc.trying(NARROW):
            pass
        with pytest.raises(pc.PluginError, match=r"'narrow' cannot be tried.*Narrow"):
            pc.trying(other).__enter__()
        assert pc.estimators()["narrow"] is Narrow


def test_trying_cannot_replace_a_registered_estimator() -> None:
    impostor = pc.EstimatorPlugin("gaussian_diagonal", Narrow, "an impostor")
    with pytest.raises(pc.PluginError, match="GaussianDiagonal"), pc.trying(NARROW, impostor):
        pass
    assert pc.estimators()["gaussian_diagonal"] is GaussianDiagonal
    assert "narrow" not in pc.estimators()
