"""Write models of this release, and their results for some rows: run by ``make golden``.

The models of a release are written once, into a folder named after it, and never again: every later
release must read them. The rows have nulls and unseen values for every estimator.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

import probclass_core as pc
from probclass_core.arrow.bundle import to_ipc

RULES: Mapping[str, pc.DecisionRule] = {
    "costs": pc.DecisionRule(costs={"low": {"high": 5.0}, "high": {"low": 0.5}}),
    "least": pc.DecisionRule(min_probability=0.6),
    "usual": pc.DecisionRule(min_rarity=0.1),
}
"""Decision rules whose results are stored; the last needs quantiles of the density."""

NUMBERS, WORDS = ["x", "y"], ["u", "v"]
BLOCKS: Mapping[str, list[pc.Block]] = {
    "gaussian_diagonal": [pc.Block("gaussian_diagonal", NUMBERS)],
    "gaussian_full": [pc.Block("gaussian_full", NUMBERS, ridge=1e-6)],
    "gaussian_shared": [pc.Block("gaussian_shared", NUMBERS)],
    "categorical": [pc.Block("categorical", WORDS, domain={"u": ["p", "q", "r", "s"]})],
    "categorical_joint": [pc.Block("categorical_joint", WORDS)],
    "discretized": [pc.Block("discretized", NUMBERS, method="frequency", bins=4)],
    "bernoulli": [pc.Block("bernoulli", ["text"])],
    "multinomial": [pc.Block("multinomial", ["text"])],
    "poisson": [pc.Block("poisson", ["i"], pseudo_rows=2.0)],
    "knn_density": [pc.Block("knn_density", NUMBERS, k=7)],
    "mixed": [pc.Block("gaussian_full", NUMBERS), pc.Block("categorical", WORDS)],
    "dates": [
        pc.Block("categorical", ["hour(at)", "weekday(at)"]),
        pc.Block("gaussian_diagonal", ["time_of_day(at)"]),
    ],
    "given": [
        pc.Block("categorical", ["u"]),
        pc.Block("categorical", ["v"], given=["u"]),
        pc.Block("discretized", ["x"], given=["u", "v"], cuts={"x": [0.0, 1.5]}),
    ],
}
POOL = [
    pc.Block("discretized", ["x"], name="x", cuts={"x": [0.0, 1.5]}, missing="level"),
    pc.Block("discretized", ["y"], name="y", method="width", bins=3),
    pc.Block(
        "discretized", ["x"], name="x given y", given=["y"], cuts={"x": [0.0, 1.5], "y": [-2.0]}
    ),
    pc.Block("categorical", ["u"], name="u"),
    pc.Block("categorical", ["v"], name="v given u", given=["u"]),
    pc.Block("gaussian_full", NUMBERS, ridge=1e-3),
]
"""Blocks as `ModelSpec.auto` makes them: columns in several blocks, and blocks given others."""


def rows() -> pa.Table:
    """Rows of three classes; each feature is null in one row of eight."""
    rng = np.random.default_rng(20260101)
    size = 72
    kind = rng.integers(0, 3, size)
    nulls = rng.random((5, size)) < 0.125
    documents = [
        [["rain", "wind", "sun"][word] for word in rng.integers(0, 2, 3) + (code == 2)]
        for code in kind
    ]
    seconds = 26_000 * np.arange(size) + 9_000 * kind
    columns = {
        "x": np.round(rng.normal(kind, 1.0), 3),
        "y": np.round(rng.normal(-2.0 * kind, 1.5), 3),
        "u": np.array(["p", "q", "r"])[(kind + (rng.random(size) < 0.3)) % 3],
        "v": np.array(["yes", "no"])[(kind + rng.integers(0, 2, size)) % 2],
        "i": rng.poisson(1.0 + 2.0 * kind),
    }
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    table = pa.table(
        {
            **{
                name: pa.array(table[name].to_pylist(), table[name].type, mask=mask)
                for name, mask in zip(columns, nulls, strict=True)
            },
            "at": pa.array(seconds, mask=nulls[0]).cast(pa.timestamp("s", "America/New_York")),
            "text": pa.array(documents, pa.list_(pa.string())),
            "kind": np.array(["low", "middle", "high"])[kind],
            "weight": rng.integers(1, 4, size).astype(float),
        }
    )
    values = {"x": 40.0, "y": 3.0, "u": "never", "i": 30, "at": 10**9, "text": ["snow"]}
    unseen = pa.Table.from_pylist([{**values, "weight": 0.0}, {"weight": 0.0}], table.schema)
    return pa.concat_tables([table, unseen]).combine_chunks()


def models(table: pa.Table) -> dict[str, pc.Model]:
    """Models of every built-in estimator, and with weights, calibration or density quantiles."""
    fitted = {
        name: pc.fit(table, pc.ModelSpec("kind", blocks, weight="weight"))
        for name, blocks in BLOCKS.items()
    }
    mixed = fitted["mixed"]
    by_hand = {"x": 0.8, "x given y": 0.5, "u": 1.2, "v given u": 0.75, "gaussian_full": 0.3}
    for name, blocks, weights in (
        ("fitted_weights", POOL, "fit"),
        ("weights_by_hand", POOL, by_hand),
    ):
        spec = pc.ModelSpec("kind", blocks, weight="weight", block_weights=weights)
        fitted[name] = pc.fit(table, spec)
    # Too sure of its classes, so that a calibration helps.
    sure = {"gaussian_full": 20.0, "categorical": 20.0}
    spec = pc.ModelSpec("kind", BLOCKS["mixed"], weight="weight", block_weights=sure)
    extreme = pc.fit(table, spec)
    return {
        **fitted,
        "uniform_prior": mixed.with_prior("uniform"),
        "calibrated": pc.calibrate(extreme, table),
        "density_quantiles": pc.with_density_quantiles(mixed, table),
    }


def results(model: pc.Model, table: pa.Table) -> pa.Table:
    """A model's joint log-likelihoods, posteriors, densities if any, predictions and decisions."""
    columns: dict[str, pa.Array] = {
        "joint": pa.array(list(model.joint_log_likelihood(table)), pa.list_(pa.float64())),
        "posterior": pa.array(list(model.predict_proba(table)), pa.list_(pa.float64())),
        "prediction": model.predict(table),
    }
    if model.normalized:
        columns["log_density"] = pa.array(model.score_samples(table))
    for name, rule in RULES.items():
        if rule.min_rarity is None or model.density_quantiles is not None:
            columns[name] = model.predict(table, decision=rule)
    return pa.table(columns)


def write(folder: Path) -> None:
    """Write rows, models and results to a folder."""
    table = rows()
    store = pc.ModelStore(folder / "models")
    fitted = models(table)
    used = {block.estimator for model in fitted.values() for block in model.spec.blocks}
    missing = {name for name in pc.estimators() if "." not in name} - used
    if missing:
        raise SystemExit(
            f"no golden model uses the estimators {sorted(missing)}: add them to BLOCKS."
        )
    (folder / "results").mkdir(parents=True)
    (folder / "rows.arrow").write_bytes(to_ipc(table))
    for name, model in fitted.items():
        model = dataclasses.replace(model, training={"rows": table.num_rows})
        store.save(model, name)
        (folder / "results" / f"{name}.arrow").write_bytes(to_ipc(results(model, table)))
    release = {"release": pc.__version__, "models": sorted(fitted), "estimators": sorted(used)}
    (folder / "release.json").write_text(json.dumps(release, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, metavar="DIR")
    folder = parser.parse_args().into / pc.__version__
    if folder.exists():
        sys.exit(f"{folder} exists, and a release is never written again; raise the version first.")
    write(folder)
    sys.stdout.write(f"wrote {folder}; commit it with the release\n")


if __name__ == "__main__":
    main()
