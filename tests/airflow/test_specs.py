"""Spec files of operators: next to the DAG, templated, and part of the DAG's version."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from lakes import write_rows

import probclass_core as pc
from probclass_airflow import ProbClassTrainOperator
from probclass_core.errors import SpecError

TOML = """
label = "air"
[[blocks]]
estimator = "{{ params.estimator }}"
columns = ["temperature", "pressure"]
"""
VALUES = {
    "label": "air",
    "blocks": [{"estimator": "{{ params.estimator }}", "columns": ["temperature", "pressure"]}],
}
JANUARY = {"month": "2013-01"}


def write_dag(folder: Path, lake: str, spec: str) -> Path:
    """Write a DAG file whose task trains by a spec."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "by_spec.py"
    task = {"source": lake, "store": str(folder / "models"), "model": "air", "spec": spec}
    source = f"""
        from airflow.sdk import DAG
        from probclass_airflow import ProbClassTrainOperator

        with DAG("by_spec", params={{"estimator": "gaussian_full"}}):
            ProbClassTrainOperator(task_id="train", partition={JANUARY}, **{task!r})
        """
    path.write_text(textwrap.dedent(source))
    return path


def parsed(path: Path) -> DagBag:
    return DagBag(path, bundle_name="dags-folder", bundle_path=path.parent)


def task_of(path: Path) -> ProbClassTrainOperator:
    bag = parsed(path)
    assert not bag.import_errors
    task: Any = bag.dags["by_spec"].get_task("train")
    return task


def version_of(path: Path) -> dict[str, Any]:
    """What the version of a DAG depends on."""
    bag = parsed(path)
    assert not bag.import_errors
    return DagSerialization.to_dict(bag.dags["by_spec"])


@pytest.mark.parametrize("suffix", [".toml", ".json", ".yaml"])
def test_a_relative_path_starts_at_the_folder_of_the_dag(
    suffix: str, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dags" / "specs").mkdir(parents=True)
    text = TOML if suffix == ".toml" else json.dumps(VALUES)
    (tmp_path / "dags" / "specs" / f"air{suffix}").write_text(text)
    monkeypatch.chdir(tmp_path)  # which has no folder specs
    task = task_of(write_dag(tmp_path / "dags", lake, f"specs/air{suffix}"))
    assert task.spec == VALUES


def test_templates_in_a_spec_and_in_its_path_are_rendered(
    run_dag: Any, lake: str, tmp_path: Path
) -> None:
    (tmp_path / "air.toml").write_text(TOML)
    fields: dict[str, Any] = {
        "source": lake,
        "store": str(tmp_path / "models"),
        "partition": JANUARY,
    }
    params = {"estimator": "gaussian_full", "name": "air"}
    with DAG("templated", params=params, template_searchpath=[str(tmp_path)]) as dag:
        ProbClassTrainOperator(task_id="content", spec="air.toml", model="air", **fields)
        (tmp_path / "other.json").write_text(
            json.dumps(VALUES).replace("{{ params.estimator }}", "gaussian_full")
        )
        ProbClassTrainOperator(task_id="path", spec="{{ 'other' }}.json", model="other", **fields)
        ProbClassTrainOperator.partial(task_id="mapped", spec="other.json", **fields).expand(
            model=["one"]
        )
    ran = run_dag(dag)
    spec = pc.ModelSpec("air", {"gaussian_full": ["temperature", "pressure"]})
    expected = pc.fit(lake, spec, partition=JANUARY).id
    assert {name: task.result["model"].partition("@")[2] for name, task in ran.items()} == {
        "content": expected,
        "path": expected,
        "mapped[0]": expected,
    }


def test_a_change_of_the_spec_makes_a_version_of_the_dag(lake: str, tmp_path: Path) -> None:
    path = write_dag(tmp_path, lake, "air.toml")
    spec = tmp_path / "air.toml"
    # Airflow cuts off fields of more than 4,096 characters, and this is the last of them.
    columns = json.dumps([f"a_column_with_a_long_name_{number:03d}" for number in range(300)])
    long = TOML.replace(
        "[[blocks]]",
        f'[[blocks]]\nname = "wide"\nestimator = "categorical"\ncolumns = {columns}\n[[blocks]]',
    )
    versions = []
    for text in (TOML, TOML.replace("pressure", "dew_point"), long, long.replace("pressure", "x")):
        spec.write_text(text)
        versions.append(version_of(path))
        assert version_of(path) == versions[-1]
    assert all(one != other for one in versions for other in versions if one is not other)


@pytest.mark.parametrize(
    ("spec", "text", "message"),
    [
        (
            "specs/ear.toml",
            TOML,
            "there is no spec 'specs/ear.toml' in .*starts at the folder of the",
        ),
        ("air.toml", "label = ", r"air\.toml is not valid TOML: "),
        ("air.json", "{", r"air\.json is not valid JSON: "),
        ("air.yaml", "a: [", r"air\.yaml is not valid YAML: "),
    ],
)
def test_a_spec_that_cannot_be_read_is_an_import_error(
    spec: str, text: str, message: str, lake: str, tmp_path: Path
) -> None:
    path = write_dag(tmp_path, lake, spec)
    (tmp_path / "air").with_suffix(Path(spec).suffix).write_text(text)
    ((_, error),) = parsed(path).import_errors.items()
    assert re.search(message, error)


def test_an_absolute_path_may_exist_on_workers_only(lake: str, tmp_path: Path) -> None:
    task = task_of(write_dag(tmp_path, lake, "/no/such/air.toml"))
    assert task.spec == "/no/such/air.toml"


def test_groups_and_a_half_life_are_those_of_a_derived_spec(tmp_path: Path) -> None:
    for week in range(3):
        rows = pa.table({"x": [0.0, 1.0, 5.0, 6.0], "shop": [*"abab"], "late": [0, 0, 1, 1]})
        write_rows(tmp_path / "lake" / f"week={week}", rows)
    task: dict[str, Any] = {
        "task_id": "train",
        "source": str(tmp_path / "lake"),
        "store": str(tmp_path / "models"),
        "model": "late",
    }
    derived = ProbClassTrainOperator(**task, label_column="late", groups="shop", half_life=2)
    spec = derived._spec(task["source"], None)
    assert (spec.groups, spec.half_life) == (("shop",), 2)
    given = ProbClassTrainOperator(**task, spec=VALUES, half_life=2)
    with pytest.raises(SpecError, match="set them in the spec"):
        given._spec(task["source"], None)
