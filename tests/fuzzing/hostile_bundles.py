"""Stored models with one thing wrong: what loading and scoring make of them.

A trial changes one field of one model: a column, the rows or the bytes of a table, a note in its
metadata, or a value of the manifest. The checksums are those of the changed bytes, or, in one trial
of five, those of the bytes before the change.
"""

from __future__ import annotations

import functools
import json
import math
import os
import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from campaign import Result, Trial

import probclass_core as pc
from probclass_core.arrow.bundle import (
    TABLES,
    Bundle,
    _content_id,
    _sha256,
    pack_tables,
    unpack_tables,
)
from probclass_core.errors import PluginError, StoreError
from probclass_core.model.stored import model_from_bundle

sys.path += map(str, (Path(__file__).parents[2] / "plugins").glob("probclass-*"))
import probclass_distributions
import probclass_kde
import probclass_student_t

NUMBERS = [math.nan, math.inf, -math.inf, -1.0, -1e-300, 0.0, -0.0, 5e-324, 0.5, 3.0, 1e308, None]
VALUES = [
    *(None, -1, 0, 1, 1.5, 1e308, math.nan, -math.inf, True, 2**63, 10**400),
    *("", "x", "nan", "\ud800", "\0", "9" * 400, [], {}, [[]], [1, "a"], {"a": 1}),
]

PLUGINS = [
    *probclass_distributions.probclass_estimators(),
    *probclass_kde.probclass_estimators(),
    *probclass_student_t.probclass_estimators(),
]

SPECS: dict[str, dict[str, Any]] = {
    "gaussian_diagonal": {"blocks": {"gaussian_diagonal": ["x", "z"]}},
    "gaussian_full": {"blocks": {"gaussian_full": ["x", "z"]}},
    "shrunk": {"blocks": [pc.Block("gaussian_full", ["x", "z"], shrinkage="oas")]},
    "gaussian_shared": {"blocks": {"gaussian_shared": ["x", "z"]}},
    "categorical": {"blocks": {"categorical": ["a", "b"]}},
    "nulls": {"blocks": [pc.Block("categorical", ["a"], missing="level", smooth="zeros")]},
    "shared strength": {"blocks": [pc.Block("categorical", ["a"], shared_strength="loo")]},
    "categorical_joint": {"blocks": {"categorical_joint": ["a", "b"]}},
    "given": {"blocks": [pc.Block("categorical", ["a"], given=["b"])]},
    "bins given": {"blocks": [pc.Block("discretized", ["x"], given=["b"])]},
    "discretized": {"blocks": {"discretized": ["x", "w"]}},
    "cuts": {"blocks": [pc.Block("discretized", ["x"], cuts={"x": [0.0, 1.0]}, missing="level")]},
    "bernoulli": {"blocks": {"bernoulli": ["i", "j"]}},
    "multinomial": {"blocks": {"multinomial": ["i", "j"]}},
    "poisson": {"blocks": {"poisson": ["i", "j"]}},
    "words": {"blocks": {"bernoulli": ["t"]}},
    "counted words": {"blocks": {"multinomial": ["t"]}},
    "events of words": {"blocks": {"poisson": ["t"]}},
    "knn_density": {"blocks": {"knn_density": ["x", "z"]}},
    "dates": {"blocks": {"discretized": ["hour(d)"], "categorical": ["weekday(d)"]}},
    "weights": {
        "blocks": {"gaussian_diagonal": ["x", "z"], "categorical": ["a", "b"]},
        "block_weights": "fit",
    },
    "exponential": {"blocks": {"exponential": ["v"]}},
    "gamma": {"blocks": {"gamma": ["v"]}},
    "log_normal": {"blocks": {"log_normal": ["v"]}},
    "zero_inflated": {"blocks": {"zero_inflated": ["v"]}},
    "beta": {"blocks": {"beta": ["u"]}},
    "von_mises": {"blocks": {"von_mises": ["x"]}},
    "negative_binomial": {"blocks": {"negative_binomial": ["i"]}},
    "kde": {"blocks": {"kde": ["x"]}},
    "student_t": {"blocks": {"student_t": ["x", "z"]}},
}


def rows(count: int = 60) -> pa.Table:
    """Rows of three classes with numbers, counts, categories, words and times, some null."""
    draw = np.random.default_rng(0)
    y = draw.integers(3, size=count)
    x = draw.normal(y, 1.0)
    words = np.array(["one", "two", "three", "four"])
    texts = [list(words[draw.integers(4, size=2 + of_class)]) for of_class in y]
    return pa.table(
        {
            "x": pa.array(x, mask=draw.random(count) < 0.05),
            "z": draw.normal(size=count) + x,
            "w": draw.normal(3.0 * y, 1.0),
            "u": draw.beta(1.0 + y, 2.0),
            "v": draw.gamma(1.0 + y, 2.0),
            "a": pa.array(
                np.array(["p", "q", "r"])[(y + draw.integers(2, size=count)) % 3],
                mask=draw.random(count) < 0.05,
            ),
            "b": pa.array(np.array(["u", "v"])[draw.integers(2, size=count)]),
            "i": draw.poisson(1.0 + y),
            "j": draw.poisson(2.0, size=count),
            "t": pa.array(texts, pa.list_(pa.string())),
            "d": pa.array(draw.integers(0, 10**15, size=count), pa.timestamp("us", "UTC")),
            "y": pa.array(np.array(["one", "two", "three"])[y]),
        }
    )


def unusual_rows() -> pa.Table:
    """Rows to score: usual, null, far away and with categories that training never saw."""
    usual = rows(8)
    missing = pa.table({name: pa.nulls(1, usual[name].type) for name in usual.column_names})
    far = {"x": [1e300], "z": [-1e300], "w": [1e-300], "u": [1.0], "v": [1e300], "a": ["?"]}
    far |= {"b": [""], "i": [10**6], "j": [0], "t": [["?", "one"]], "d": [0], "y": ["one"]}
    return pa.concat_tables([usual, missing, pa.table(far, schema=usual.schema)]).combine_chunks()


@functools.cache
def models() -> dict[str, Bundle]:
    """A model of each estimator, and one with each table that is fitted afterwards."""
    data, bundles = rows(), {}
    with pc.trying(*PLUGINS):
        for name, spec in SPECS.items():
            bundles[name] = pc.fit(data, pc.ModelSpec("y", **spec)).to_bundle()
    model = pc.fit(data, pc.ModelSpec("y", {"gaussian_diagonal": ["x", "z"]}))
    calibrated = pc.calibrate(model, rows(3000))
    assert calibrated.calibration is not None
    bundles["calibrated"] = calibrated.to_bundle()
    bundles["density_quantiles"] = pc.with_density_quantiles(model, data).to_bundle()
    return bundles


def with_value(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    """A table with another value in a row of a column."""
    values = table[column].to_pylist()
    values[row] = value
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.array(values, table[column].type))


SHARES = {"column": 4, "rows": 1, "bytes": 1, "note": 2, "manifest": 2}
"""Kinds of fields, and how often they are changed."""

Path_ = tuple[Any, ...]


def json_paths(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """All places in a JSON value; of a list, those of its first three items."""
    yield path
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list):
        items = list(enumerate(value))[:3]
    for key, inner in items:
        yield from json_paths(inner, (*path, key))


def changed_json(value: Any, path: Path_, draw: random.Random) -> Any:
    """A JSON value in which the item at a path is replaced, removed, repeated or nested."""
    if path:
        key, rest = path[0], path[1:]
        if rest or draw.random() < 0.6:
            new = changed_json(value[key], rest, draw)
            if isinstance(value, list):
                return [*value[:key], new, *value[key + 1 :]]
            return {**value, key: new}
        if isinstance(value, list):
            again = draw.choice([[], [value[key]] * 2])
            return [*value[:key], *again, *value[key + 1 :]]
        others = {k: v for k, v in value.items() if k != key}
        return draw.choice([others, {**others, f"{key} ": value[key]}])
    change = draw.random()
    if isinstance(value, bool | None) or change < 0.5:
        return draw.choice(VALUES)
    if isinstance(value, int | float):
        return draw.choice([-value, value + 1, value * 2, value / 2, str(value), [value]])
    if isinstance(value, str):
        return draw.choice([value.upper(), value + "x", value[:-1], value[::-1], [value]])
    if isinstance(value, list):
        return draw.choice([value[::-1], value[:-1], value * 2, [value]])
    return draw.choice([dict(list(value.items())[:-1]), list(value), [value]])


def changed_column(table: pa.Table, name: str, draw: random.Random) -> pa.Table:
    """A table in which a value, a type or a name is changed, or a column is missing."""
    place, column = table.column_names.index(name), table[name].combine_chunks()
    kinds = [pa.null(), pa.int8(), pa.string(), pa.float32(), pa.list_(pa.float64())]
    change = draw.random()
    if change < 0.25:
        return draw.choice(
            [
                lambda: table.drop_columns([name]),
                lambda: table.rename_columns(
                    ["other" if n == name else n for n in table.column_names]
                ),
                lambda: table.set_column(place, name, pa.nulls(len(table), draw.choice(kinds))),
                lambda: table.append_column(name, column),
                lambda: table.set_column(place, name, table[draw.choice(table.column_names)]),
                lambda: table.set_column(place, name, column.dictionary_encode()),
            ]
        )()
    if not len(column):
        return table.drop_columns([name])
    stored = column.storage if isinstance(column, pa.ExtensionArray) else column
    values = stored.to_pylist()
    row = draw.randrange(len(values))
    if change < 0.35:
        other = draw.randrange(len(values))
        values[row], values[other] = values[other], values[row]
    elif pa.types.is_floating(stored.type) or pa.types.is_integer(stored.type):
        number = values[row] or 0.0
        values[row] = draw.choice([*NUMBERS, -number, 2.0 * number, number + 1e-9, number + 1.0])
    elif isinstance(values[row], list) and values[row]:
        position = draw.randrange(len(values[row]))
        values[row][position] = draw.choice(NUMBERS)
    else:
        values[row] = draw.choice([None, "", "?", "one", "\0", "x" * 10_000])
    new = pa.array(values, stored.type)
    if isinstance(column, pa.ExtensionArray):
        new = pa.ExtensionArray.from_storage(column.type, new)
    return table.set_column(place, name, new)


def changed_rows(table: pa.Table, draw: random.Random) -> pa.Table:
    """A table in which one row or all are missing or repeated, or the order is changed."""
    if not table.num_rows:
        return table.drop_columns(table.column_names[:1])
    row = draw.randrange(table.num_rows)
    others = [number for number in range(table.num_rows) if number != row]
    chosen = draw.choice([others, [*others, row, row], [], [*others, row][::-1], [row] * 9])
    return table.take(pa.array(chosen, pa.int64())).combine_chunks()


def changed_bytes(data: bytes, draw: random.Random) -> bytes:
    """The data with some bytes replaced, removed or inserted."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 5])):
        place = draw.randrange(len(changed) + 1)
        kind = draw.random()
        if kind < 0.7 and place < len(changed):
            changed[place] = draw.choice([draw.randrange(256), 0, 255, changed[place] ^ 1])
        elif kind < 0.8:
            changed[place : place + 8] = draw.choice([0, 1, 2**31, 2**62]).to_bytes(8, "little")
        elif kind < 0.9:
            del changed[place : place + draw.choice([1, 8, len(data) // 2])]
        else:
            changed[place:place] = bytes(draw.choice([1, 8, 64]))
    return bytes(changed)


@dataclass(frozen=True)
class StoredModel:
    """A model as it is stored, and `unusual_rows` scored by it.

    Attributes:
        tables: its tables by name.
        manifest: its manifest.
        data: bytes of its file of tables.
        scored: the scored table.
    """

    tables: Mapping[str, pa.Table]
    manifest: dict[str, Any]
    data: bytes
    scored: pa.Table


Field = tuple[str, Path_]
"""Kind and place of what a trial changes; in a table, the place begins with its name."""


def fields_of_tables(tables: Mapping[str, pa.Table]) -> Iterator[Field]:
    """All fields of tables."""
    for table, values in tables.items():
        yield "rows", (table,)
        yield "bytes", (table,)
        for column in values.column_names:
            yield "column", (table, column)
        for path in json_paths(notes(values)):
            yield "note", (table, *path)


def fields_of(stored: StoredModel) -> Iterator[Field]:
    """All fields of a model."""
    yield from fields_of_tables(stored.tables)
    for path in json_paths(stored.manifest):
        if path and path[-1] not in ("tables_sha256", "content_id"):  # they are recomputed
            yield "manifest", path


def by_kind(models: Mapping[str, Iterable[Field]]) -> Mapping[str, list[tuple[str, Path_]]]:
    """The name of a model and a place, for all fields of each kind."""
    found: dict[str, list[tuple[str, Path_]]] = {}
    for name, fields in models.items():
        for kind, path in fields:
            found.setdefault(kind, []).append((name, path))
    return found


def shown(name: str, kind: str, path: Path_) -> str:
    """A field of a model as text."""
    return f"{name}/{kind}{''.join(f'[{key!r}]' for key in path)}"


def notes(table: pa.Table) -> Any:
    """The notes in the metadata of a table."""
    return json.loads((table.schema.metadata or {}).get(b"probclass", b"{}"))


def changed_table(table: pa.Table, kind: str, path: Path_, draw: random.Random) -> pa.Table:
    """A table with a change of its rows, a column or a note."""
    if kind == "rows":
        return changed_rows(table, draw)
    if kind == "column":
        return changed_column(table, path[0], draw)
    changed = json.dumps(changed_json(notes(table), path, draw))
    return table.replace_schema_metadata({b"probclass": changed.encode()})


def with_right_checksums(manifest: Any, data: bytes) -> Any:
    """A manifest with the checksum of these tables and its own content id, if it can have one."""
    try:
        checksum = _sha256(data)
        identity = _content_id(manifest["content"], checksum)
        return {**manifest, "tables_sha256": checksum, "content_id": identity}
    except (TypeError, ValueError, KeyError, AttributeError):
        return manifest


def scored(model: pc.Model, data: pa.Table) -> tuple[str, pa.Table | None]:
    """The outcome of scoring, and the scored table."""
    try:
        table = model.predict_table(data)
    except pc.ProbClassError:
        return "refused when scoring", None
    shares = np.stack([table[f"p_{name}"].to_numpy() for name in model.class_names])
    right = (np.abs(shares.sum(axis=0) - 1.0) < 1e-6).all() and (shares >= 0.0).all()
    return ("scored" if right else "not distributions"), table


def outcome(manifest: Any, stored: bytes, data: pa.Table) -> tuple[str, pa.Table | None]:
    """The outcome of loading a model and scoring rows with it, and the scored table."""
    try:
        bundle = Bundle.from_files(manifest, {TABLES: stored}.__getitem__)
        model = model_from_bundle(bundle)
    except (StoreError, PluginError):
        return "refused", None
    except Exception as error:  # any other is a defect
        return f"raised on loading: {error!r}", None
    try:
        return scored(model, data)
    except Exception as error:  # any other is a defect
        return f"raised on scoring: {error!r}", None


AS_PROMISED = ("refused", "refused when scoring", "scored", "as before")


@contextmanager
def trials() -> Iterator[Trial]:
    """The trials of this campaign."""
    data = unusual_rows()
    stored = {}
    with pc.trying(*PLUGINS):
        for name, bundle in models().items():
            expected = model_from_bundle(bundle).predict_table(data)
            tables = unpack_tables(bundle.data)
            stored[name] = StoredModel(tables, bundle.manifest(), bytes(bundle.data), expected)
        fields = by_kind({name: fields_of(model) for name, model in stored.items()})

        def trial(seed: int) -> Result:
            draw = random.Random(seed)
            (kind,) = draw.choices(list(SHARES), list(SHARES.values()))
            name, path = draw.choice(fields[kind])
            model, field = stored[name], shown(name, kind, path)
            manifest, tables = model.manifest, model.data
            kept = draw.random() < 0.2
            try:
                if kind == "manifest":
                    manifest = changed_json(manifest, path, draw)
                elif kind == "bytes":
                    tables = changed_bytes(tables, draw)
                else:
                    table = changed_table(model.tables[path[0]], kind, path[1:], draw)
                    tables = pack_tables({**model.tables, path[0]: table})
            except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeError):
                return Result("no change", field, "cannot be written")
            if not kept:
                manifest = with_right_checksums(manifest, tables)
            what, scores = outcome(manifest, tables, data)
            if what == "scored" and scores.equals(model.scored):
                what = "as before"
            change = f"{kind}, checksums {'kept' if kept else 'right'}"
            defect = "" if what in AS_PROMISED else what
            if kept and what == "scored":
                defect = "scored with other results under the checksums of the original"
            return Result(change, field, "defect" if defect else what, defect)

        yield trial


def memory_folder() -> str | None:
    """A file system in memory, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
