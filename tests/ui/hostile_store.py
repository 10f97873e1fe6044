"""A lake, a spec, and a store with a model of hostile names and a damaged model."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

import probclass_core as pc
from probclass_core.demo.lake import lay_out

SCRIPT = "<script>document.title='owned'</script>"
HANDLER = "\"'><img src=x onerror=\"document.title='owned'\">"
NAMES = [
    SCRIPT,
    HANDLER,
    "../../../etc/passwd",
    "$\\frac{$ {{ 7 * 7 }} {% raw %}",
    "שלום \u202egnirts",
    "long " * 200,
]
"""Classes and categories of the model ``hostile``; some of its columns have these names too."""

SPEC = {
    "label": "air",
    "blocks": {
        "gaussian_full": ["dew_point", "temperature", "pressure"],
        "categorical": ["wind_direction"],
    },
}


def fill(home: Path) -> None:
    """Write the lake and the spec of the DAG, and fill the store below ``home``."""
    lay_out(home / "lake")
    (home / "air.json").write_text(json.dumps(SPEC))
    store = pc.ModelStore(home / "models")
    first = pc.fit(
        home / "lake",
        pc.ModelSpec.from_dict(SPEC),
        where=[
            ("month", ">=", "2012-06"),
            ("month", "<", "2012-09"),
        ],  # summer, a bad model of January
    )
    store.promote("air", store.save(first, "air"), "champion")
    _save_hostile(store)
    _save_damaged(store)


def _save_hostile(store: pc.ModelStore) -> None:
    rows = [name for name in NAMES for _ in range(4)]
    numbers = {f"{name} x": [float(at % 5 + at) for at in range(len(rows))] for name in NAMES[:3]}
    categories = {f"{name} y": NAMES * 4 for name in (SCRIPT, NAMES[3], NAMES[5])}
    table = pa.table({SCRIPT: rows, **numbers, **categories})
    spec = pc.ModelSpec(
        SCRIPT,
        [
            pc.Block("gaussian_full", list(numbers), name="numbers"),
            pc.Block("categorical", list(categories), name="values"),
        ],
    )
    for part in (table, table.slice(0, 22)):
        model = pc.fit(part, spec)
        version = store.save(
            model,
            "hostile",
            provenance={
                "source": f"s3://user:secret@bucket/{SCRIPT}?token=secret",
                HANDLER: SCRIPT,
                "airflow": {"dag_id": HANDLER, "run_id": SCRIPT, "task_id": "../.."},
            },
        )
        store.record_evaluation(version, pc.evaluate(model, part), on={"source": SCRIPT})


def _save_damaged(store: pc.ModelStore) -> None:
    table = pa.table({"c": ["a", "a", "b", "b"], "x": [1.0, 2.0, 3.0, 4.0]})
    model = pc.fit(table, pc.ModelSpec("c", [pc.Block("gaussian_diagonal", ["x"])]))
    store.save(model, "damaged")
    parameters = Path(store.uri, "damaged", model.id, "tables.arrow")
    parameters.write_bytes(parameters.read_bytes()[:-8])
