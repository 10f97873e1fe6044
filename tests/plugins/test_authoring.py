"""Helpers for authors of estimators, and estimators tried before they are installed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core import authoring
from probclass_core.authoring import EstimatorPlugin
from probclass_core.errors import PluginError, SpecError
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.estimation.options import describe_options

TABLE = {"x": [1.0, 2.0, 3.0, 10.0, 20.0, 30.0], "y": list("aaabbb")}


class Narrow(GaussianDiagonal):
    name = "narrow"


class Wide(Narrow):
    pass


SPEC = pc.ModelSpec("y", [pc.Block("narrow", ["x"])])


def test_an_estimator_can_be_tried_before_it_is_installed() -> None:
    with pc.trying(Narrow):
        assert pc.estimators()["narrow"] is Narrow
        model = pc.fit(TABLE, SPEC, workers=2)
        assert model.predict({"x": [2.5]}).to_pylist() == ["a"]
    assert "narrow" not in pc.estimators()
    with pytest.raises(PluginError, match="unknown estimator 'narrow'"):
        pc.fit(TABLE, SPEC)
    with pytest.raises(ZeroDivisionError), pc.trying(Narrow):
        raise ZeroDivisionError
    assert "narrow" not in pc.estimators()


def test_trying_may_be_nested_and_repeated_but_not_redefine_a_name() -> None:
    with pc.trying(Narrow):
        with pc.trying(Narrow):
            pass
        with pytest.raises(PluginError, match=r"'narrow' cannot be tried.*Narrow"):
            pc.trying(Wide).__enter__()
        assert pc.estimators()["narrow"] is Narrow


def test_trying_cannot_replace_a_registered_estimator() -> None:
    class Impostor(Narrow):
        name = "gaussian_diagonal"

    with pytest.raises(PluginError, match="GaussianDiagonal"), pc.trying(Narrow, Impostor):
        pass
    assert pc.estimators()["gaussian_diagonal"] is GaussianDiagonal
    assert "narrow" not in pc.estimators()


def test_a_factory_may_be_an_address() -> None:
    address = f"{GaussianDiagonal.__module__}:GaussianDiagonal"
    with pc.trying(EstimatorPlugin("narrow", address, "a normal under another name")):
        assert pc.estimators()["narrow"] is GaussianDiagonal
        assert pc.fit(TABLE, SPEC).predict({"x": [2.5]}).to_pylist() == ["a"]


def test_an_estimator_without_statistics_is_refused_when_it_is_defined() -> None:
    methods = {"finalize": GaussianDiagonal.finalize, "likelihood": GaussianDiagonal.likelihood}
    with pytest.raises(PluginError, match="Empty has no statistics; return a kind"):
        type("Empty", (pc.Estimator,), {"name": "empty", **methods})
    with pytest.raises(PluginError, match="write merge"):
        type("Half", (pc.Estimator,), {"name": "half", "summarize": lambda *_: None, **methods})
    kind = property(lambda self: authoring.JointMoments(self.features.names))
    type("Whole", (pc.Estimator,), {"name": "whole", "kind": kind, **methods})


class Faulty(pc.Density):
    name = "faulty"
    parameters = {"mean": authoring.FINITE}

    def estimate(self, m: authoring.Terms) -> dict[str, Any]:
        return {"mean": m.x.mean}

    def log_density(self, x: Any, p: Any) -> Any:
        return -np.square(x - p.mean)


FAULTY = pc.ModelSpec("y", [pc.Block("faulty", ["x"])])
BARE = r"parameters are .*\{'rate': POSITIVE\}\.$"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"parameters": ["rate"]}, BARE),
        ({"parameters": {"rate": float}}, BARE),
        ({"parameters": {"count": authoring.POSITIVE}}, "a parameter cannot have the name 'count'"),
        ({"support": (0, None)}, r"support is \(0, None\); name the least and the largest value"),
        ({"support": (1.0, 0.0)}, r"support is \(1.0, 0.0\)"),
        ({"support": (math.nan, 1.0)}, "support is"),
        ({"Options": dict}, "Options is .*dict.*; derive a class from EstimatorOptions"),
    ],
)
def test_a_wrong_declaration_is_refused_when_the_density_is_defined(
    declared: dict[str, Any], message: str
) -> None:
    with pytest.raises(PluginError, match=f"^Wrong: {message}"):
        type("Wrong", (Faulty,), declared)


def test_a_density_that_lacks_a_member_is_refused_by_its_name() -> None:
    bare = type("Bare", (pc.Density,), {"name": "bare", "log_density": Faulty.log_density})
    message = r"^Bare lacks 'estimate', 'parameters', which it must define\.$"
    with pytest.raises(PluginError, match=message), pc.trying(bare):
        pass


@pytest.mark.parametrize(
    ("method", "result", "message"),
    [
        ("log_density", np.zeros(7), r"log_density returns .* of type float64 and shape \(7,\)"),
        ("log_density", None, r"log_density .* type object .* computed elementwise\.$"),
        ("terms", {}, "terms returns {}; map names to arrays like x"),
        ("terms", np.zeros(3), r"terms returns a ndarray; map names to arrays .* \{'x': x\}"),
        ("terms", {"x": 1.0}, r"term 'x' has the shape \(\), but x has \(6,\)"),
        ("estimate", np.ones(2), r"estimate returns a ndarray, and the parameters are 'mean'\.$"),
        (
            "estimate",
            {"mean": 1.0},
            r"estimate returns arrays of the shapes \{'mean': \(\)\}; each",
        ),
        ("estimate", {"mean": np.zeros(1)}, r"estimate returns arrays .* \{'mean': \(1,\)\}; each"),
        (
            "next_pass",
            ["at_most"],
            "faulty asks for another pass by .*; return its options by name",
        ),
    ],
)
def test_a_wrong_result_is_an_error_that_says_what_is_expected(
    method: str, result: Any, message: str
) -> None:
    passes = 2 if method == "next_pass" else 1
    wrong = type("Wrong", (Faulty,), {"passes": passes, method: lambda *_: result})
    with pc.trying(wrong), pytest.raises(PluginError, match=f"^(faulty: )?{message}"):
        pc.fit(TABLE, FAULTY).predict({"x": [1.0, 2.0]})


def test_a_term_that_does_not_exist_is_named() -> None:
    wrong = type("Wrong", (Faulty,), {"estimate": lambda _, m: {"mean": m.y.mean}})
    with pc.trying(wrong), pytest.raises(AttributeError, match="there is no 'y'; there are x"):
        pc.fit(TABLE, FAULTY)


def test_a_likelihood_with_classes_in_rows_is_refused() -> None:
    class Transposed(Faulty):
        def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
            right = super().likelihood(parameters, classes)
            return SimpleNamespace(
                normalized=True, log_likelihood=lambda rows: right.log_likelihood(rows).T
            )

    with pc.trying(Transposed), pytest.raises(PluginError, match=r"shape \(2, 6\) for 6 rows"):
        pc.fit(TABLE, FAULTY).predict(TABLE)


@pytest.mark.parametrize("fault", [np.nan, np.inf])
def test_a_density_that_is_no_number_is_an_error_and_not_a_posterior(fault: float) -> None:
    class Fractional(Faulty):
        def log_density(self, x: Any, p: Any) -> Any:
            return np.where(x > 2.0, fault, -np.square(x - p.mean))

    with pc.trying(Fractional):
        model = pc.fit(TABLE, FAULTY)
        assert np.isfinite(model.predict_proba({"x": [1.0]})).all()
        with pytest.raises(PluginError, match=r"of 1 rows is NaN or \+∞, such as of row 1"):
            model.predict_proba({"x": [1.0, 3.0]})


@pytest.mark.parametrize("address", ["no.such_module:Narrow", "math:Narrow", "Narrow", "math"])
def test_an_address_without_a_factory_is_an_error(address: str) -> None:
    plugin = EstimatorPlugin("narrow", address, "an estimator that is not there")
    message = rf"^'{address}' cannot be imported: .*'package.module:Name'\.$"
    with pytest.raises(PluginError, match=message), pc.trying(plugin):
        pc.fit(TABLE, SPEC)


class Kernel(authoring.EstimatorOptions):
    width: float = authoring.number(1, at_least=0.5, doc="Width of the kernel.")
    shape: str = authoring.choice("normal", ["normal", "triangle"], doc="Shape of the kernel.")


class Grid(Kernel):
    width: float = authoring.number(2, doc="Width of a cell.")
    cells: int = authoring.whole(8, at_least=2, doc="Number of cells.")


def test_options_are_typed_immutable_and_stored_as_given() -> None:
    options = Grid("grid", {"cells": 4.0}, ["x"])
    assert (options.width, options.shape, options.cells) == (2, "normal", 4)
    assert isinstance(options.cells, int)
    assert repr(options.plain()) == "{'width': 2, 'shape': 'normal', 'cells': 4.0}"
    with pytest.raises(AttributeError, match="immutable: cannot set 'cells'"):
        options.cells = 5


def test_options_describe_themselves() -> None:
    described = {
        name: (option.default, option.expected, option.doc)
        for name, option in Grid.declared().items()
    }
    assert described == {
        "width": (2, "a number of at least 0", "Width of a cell."),
        "shape": ("normal", "one of 'normal', 'triangle'", "Shape of the kernel."),
        "cells": (8, "a whole number of at least 2", "Number of cells."),
    }


@pytest.mark.parametrize("estimator", pc.estimators())
def test_every_built_in_option_is_described(estimator: str) -> None:
    for option in describe_options(pc.estimators()[estimator]).values():
        assert option.doc.endswith(".")
        assert option.expected


@pytest.mark.parametrize("cells", [math.inf, math.nan, 2.5, True, "3", None])
def test_a_whole_number_is_refused_unless_it_is_one(cells: object) -> None:
    with pytest.raises(SpecError, match="grid: cells must be a whole number of at least 2"):
        Grid("grid", {"cells": cells}, ["x"])


def test_tidy_tables_and_dense_arrays_are_inverse() -> None:
    classes, features = pa.array(["b", "a"]), pa.array(["x", "y", "z"])
    count = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]])
    table = authoring.tidy_table(classes, {"feature": features}, {"count": count}, count > 0.0)
    assert table.to_pylist() == [
        {"class": "b", "feature": "x", "count": 1.0},
        {"class": "b", "feature": "z", "count": 2.0},
        {"class": "a", "feature": "y", "count": 3.0},
        {"class": "a", "feature": "z", "count": 4.0},
    ]
    (dense,) = authoring.dense_arrays(table, classes, "feature", features, ["count"])
    np.testing.assert_array_equal(dense, count)
    (some,) = authoring.dense_arrays(table, classes, "feature", features[1:], ["count"])
    np.testing.assert_array_equal(some, count[:, 1:])
