"""Spec files of operators: found next to the DAG, and read when it is parsed.

The content of the file takes the place of the path in the field ``spec``, so it is templated, and a
change of it makes a new version of the DAG. Nothing here imports `probclass_core`.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from probclass_core import ModelSpec

_SUFFIXES = (".toml", ".json", ".yaml", ".yml")


def parsed_spec(task: BaseOperator, spec: object) -> object:
    """The field ``spec`` when its DAG is parsed: the values of the file that it names.

    A path that is a template, or is absolute and does not exist on this machine, stays a path.

    Raises:
        ValueError: if a relative path does not exist, or the file is not valid TOML, JSON or YAML;
            the DAG then has an import error.
    """
    if not isinstance(spec, str) or not spec.endswith(_SUFFIXES) or "{" in spec:
        return spec
    path = _located(task, spec)
    if path is None and Path(spec).is_absolute():
        return spec
    if path is None:
        raise ValueError(
            f"{type(task).__name__} {task.task_id!r}: there is no spec {spec!r} in "
            f"{' or '.join(map(str, _folders(task)))}; a relative path starts at the folder of the "
            "DAG, or at one of its template_searchpath."
        )
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        if path.suffix == ".json":
            return json.loads(text)
        import yaml

        return yaml.safe_load(text)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not valid {path.suffix[1:].upper()}: {reason}") from error


def model_spec(task: BaseOperator, spec: Mapping[str, Any] | str) -> ModelSpec:
    """The model spec of a rendered field ``spec``: values, or the path of a file.

    Raises:
        SpecError: if it is not a valid spec, or the file does not exist.
    """
    import probclass_core as pc

    if isinstance(spec, Mapping):
        return pc.ModelSpec.from_dict(spec)
    return pc.ModelSpec.from_file(_located(task, spec) or _folders(task)[0] / spec)


def spec_sha256(spec: object) -> str | None:
    """Digest of a spec that a DAG contains; None for a path.

    Airflow cuts off long fields of a DAG, and the digest still makes a version of it.
    """
    if not isinstance(spec, Mapping):
        return None
    return hashlib.sha256(json.dumps(spec, sort_keys=True, default=str).encode()).hexdigest()


def _located(task: BaseOperator, spec: str) -> Path | None:
    """The first existing file of that name; an absolute path is itself."""
    paths = (folder / spec for folder in _folders(task))
    return next((path for path in paths if path.is_file()), None)


def _folders(task: BaseOperator) -> list[Path]:
    """The folders that Airflow looks for templates in."""
    dag = task.get_dag()
    if dag is None:
        return [Path()]
    more = dag.template_searchpath or ()
    return [Path(dag.folder), *([Path(more)] if isinstance(more, str) else map(Path, more))]
