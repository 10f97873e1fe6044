"""Models with one thing wrong, and right checksums: what loading and scoring make of them.

Run as a program, it is the campaign of `make hostile`; `test_bundles` runs a sample.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

import probclass_core as pc
from probclass_core.arrow.bundle import Bundle, _File, to_ipc

NUMBERS = [float("nan"), float("inf"), float("-inf"), -1.0, -1e-300, 0.0, 0.5, 3.0, 1e308, None]
VALUES = [None, -1, 0, 1, 1.5, 1e308, "", "x", True, [], {}, [1, "a"], {"a": 1}, "9" * 400]

SPECS: dict[str, dict[str, Any]] = {
    "gaussian_diagonal": {"blocks": {"gaussian_diagonal": ["x", "z"]}},
    "predictive": {
        "blocks": [pc.Block("gaussian_diagonal", ["x"], predictive=True)],
    },
    "gaussian_full": {"blocks": {"gaussian_full": ["x", "z"]}},
    "gaussian_shared": {"blocks": {"gaussian_shared": ["x", "z"]}},
    "categorical": {"blocks": {"categorical": ["a", "b"]}},
    "shared strength": {"blocks": [pc.Block("categorical", ["a"], shared_strength="loo")]},
    "categorical_joint": {"blocks": {"categorical_joint": ["a", "b"]}},
    "given": {"blocks": [pc.Block("categorical", ["a"], given=["b"])]},
    "bins given": {"blocks": [pc.Block("discretized", ["x"], given=["b"])]},
    "discretized": {"blocks": {"discretized": ["x", "w"]}},
    "bernoulli": {"blocks": {"bernoulli": ["i", "j"]}},
    "multinomial": {"blocks": {"multinomial": ["i", "j"]}},
    "poisson": {"blocks": {"poisson": ["i", "j"]}},
    "knn_density": {"blocks": {"knn_density": ["x", "z"]}},
    "weights": {
        "blocks": {"gaussian_diagonal": ["x", "z"], "categorical": ["a", "b"]},
        "block_weights": "fit",
    },
}


def rows(count: int = 300) -> pa.Table:
    """Rows of three classes with numbers, counts and categories, some of them null."""
    draw = np.random.default_rng(0)
    y = draw.integers(3, size=count)
    x = draw.normal(y, 1.0)
    return pa.table(
        {
            "x": pa.array(x, mask=draw.random(count) < 0.05),
            "z": draw.normal(size=count) + x,
            "w": draw.normal(3.0 * y, 1.0),
            "a": pa.array(np.array(["p", "q", "r"])[(y + draw.integers(2, size=count)) % 3]),
            "b": pa.array(np.array(["u", "v"])[draw.integers(2, size=count)]),
            "i": draw.poisson(1.0 + y),
            "j": draw.poisson(2.0, size=count),
            "y": pa.array(np.array(["one", "two", "three"])[y]),
        }
    )


def unusual_rows() -> pa.Table:
    """Rows to score: usual, null, far away and with categories that training never saw."""
    usual = rows(20)
    missing = pa.table({name: pa.nulls(1, usual[name].type) for name in usual.column_names})
    far = {"x": [1e300], "z": [-1e300], "w": [1e-300], "a": ["?"], "b": [""], "i": [10**6]}
    far |= {"j": [0], "y": ["one"]}
    return pa.concat_tables([usual, missing, pa.table(far, schema=usual.schema)])


def models() -> dict[str, Bundle]:
    """A model of each estimator, and one with each table that is fitted afterwards."""
    data, bundles = rows(), {}
    for name, spec in SPECS.items():
        bundles[name] = pc.fit(data, pc.ModelSpec("y", **spec)).to_bundle()
    model = pc.fit(data, pc.ModelSpec("y", {"gaussian_diagonal": ["x", "z"]}))
    for method in ("temperature_and_bias", "isotonic"):
        few = pc.fit(data.slice(0, 12), model.spec)
        bundles[method] = pc.calibrate(few, rows(3000), method).to_bundle()
    bundles["density_quantiles"] = pc.with_density_quantiles(model, data).to_bundle()
    return bundles


def changed_number(table: pa.Table, draw: random.Random) -> pa.Table:
    """One number of a table is another one."""
    columns = [n for n in table.column_names if pa.types.is_floating(table[n].type)]
    if not columns or not table.num_rows:
        return changed_bytes(table, draw)
    name, row = draw.choice(columns), draw.randrange(table.num_rows)
    values = table[name].to_pylist()
    values[row] = draw.choice(NUMBERS)
    column = pa.array(values, pa.float64())
    return table.set_column(table.column_names.index(name), name, column)


def changed_rows(table: pa.Table, draw: random.Random) -> pa.Table:
    """A row is missing or repeated, or there is none."""
    if not table.num_rows:
        return table.drop_columns(table.column_names[:1])
    row = draw.randrange(table.num_rows)
    kept = [number for number in range(table.num_rows) if number != row]
    chosen = draw.choice([kept, [*kept, row, row], [], kept[::-1]])
    return table.take(pa.array(chosen, pa.int64()))


def changed_columns(table: pa.Table, draw: random.Random) -> pa.Table:
    """A column is missing, renamed or of another type."""
    name = draw.choice(table.column_names)
    place = table.column_names.index(name)
    kind = draw.choice([pa.null(), pa.int8(), pa.string(), pa.float32(), pa.list_(pa.float64())])
    return draw.choice(
        [
            lambda: table.drop_columns([name]),
            lambda: table.rename_columns(["other" if n == name else n for n in table.column_names]),
            lambda: table.set_column(place, name, pa.nulls(table.num_rows, kind)),
            lambda: table.append_column(name, table[name]),
        ]
    )()


def changed_notes(table: pa.Table, draw: random.Random) -> pa.Table:
    """A value of the notes in the metadata of a table is another one, or missing."""
    metadata = dict(table.schema.metadata or {})
    if b"probclass" not in metadata:
        return changed_number(table, draw)
    notes = changed_json(json.loads(metadata[b"probclass"]), draw)
    return table.replace_schema_metadata({b"probclass": json.dumps(notes).encode()})


def changed_bytes(table: pa.Table, draw: random.Random) -> pa.Table | bytes:
    """Some bytes of the file are others."""
    data = bytearray(to_ipc(table))
    for _ in range(draw.choice([1, 1, 1, 5])):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data[: draw.choice([len(data), len(data), len(data) // 2])])


def changed_json(value: Any, draw: random.Random) -> Any:
    """JSON with one value replaced, removed or added, at any depth."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        if draw.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: changed_json(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        place = draw.randrange(len(value))
        if draw.random() < 0.15:
            return value[:place] + value[place + 1 :]
        return [*value[:place], changed_json(value[place], draw), *value[place + 1 :]]
    return draw.choice(VALUES)


CHANGES: list[Callable[[pa.Table, random.Random], pa.Table | bytes]] = [
    changed_number,
    changed_number,
    changed_rows,
    changed_columns,
    changed_notes,
    changed_bytes,
]


def mutations(bundles: dict[str, Bundle], seed: int) -> Iterator[tuple[str, Bundle]]:
    """Bundles with one thing wrong, and what it is; checksums are those of the changed bytes."""
    draw = random.Random(seed)
    while True:
        name = draw.choice(list(bundles))
        bundle = bundles[name]
        if draw.random() < 0.15:
            try:
                content = changed_json(bundle.content, draw)
                if isinstance(content, dict):
                    yield f"{name}: content", replace(bundle, content=content)
            except pc.StoreError:
                continue  # JSON lacks the value
            continue
        table, change = draw.choice(list(bundle.tables)), draw.choice(CHANGES)
        changed = change(bundle.tables[table], draw)
        what = f"{name}: {change.__name__} of {table}"
        if isinstance(changed, bytes):
            mutated = replace(bundle)
            files = {**mutated._files, quote(table, safe="") + ".arrow": _File.hash(changed)}
            vars(mutated)["_files"] = files
            yield what, mutated
        else:
            yield what, replace(bundle, tables={**bundle.tables, table: changed})


def outcome(bundle: Bundle, data: pa.Table) -> str:
    """What loading a bundle and scoring rows by it comes to: one word if it is as promised."""
    try:
        model = pc.Model.from_bundle(
            Bundle.from_files(bundle.manifest(), bundle.files().__getitem__)
        )
    except (pc.StoreError, pc.PluginError):
        return "refused"
    except Exception as error:  # any other is a defect
        return f"raised on loading: {error!r}"
    try:
        scored = model.predict_table(data)
    except pc.ProbClassError:
        return "refused when scoring"
    except Exception as error:  # any other is a defect
        return f"raised on scoring: {error!r}"
    columns = [scored[f"p_{name}"].to_numpy() for name in model.class_names]
    sums = np.sum(columns, axis=0)
    return "scored" if (np.abs(sums - 1.0) < 1e-6).all() else f"not distributions: {sums}"


AS_PROMISED = ("refused", "refused when scoring", "scored")


def main() -> None:
    """Try bundles until there are enough, and report."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bundles", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    counts: Counter[str] = Counter()
    data, began = unusual_rows(), time.monotonic()
    for number, (what, bundle) in enumerate(mutations(models(), options.seed), 1):
        result = outcome(bundle, data)
        counts[result if result in AS_PROMISED else "defect"] += 1
        if result not in AS_PROMISED:
            sys.stdout.write(f"{number:,}: {what}: {result[:300]}\n")
        if number % 10_000 == 0 or number == options.bundles:
            seconds = time.monotonic() - began
            sys.stdout.write(f"{number:,} bundles, {seconds:.0f} s: {dict(counts)}\n")
            sys.stdout.flush()
        if number == options.bundles:
            break
    sys.exit(1 if counts["defect"] else 0)


if __name__ == "__main__":
    main()
