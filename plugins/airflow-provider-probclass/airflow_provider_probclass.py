"""Metadata of the provider, as `airflow providers list` reads them.

They are outside the package `probclass_airflow`, which needs Airflow's SDK: every `airflow` command
reads the metadata of all providers, and an error here would stop an older Airflow from starting.
"""

from __future__ import annotations

from typing import Any

_OPTIONS = {
    "stores": {
        "description": "Model stores that the page Models shows: paths or URIs, separated by "
        "commas; by default the one that PROBCLASS_STORE names.",
        "version_added": "0.2.0",
        "type": "string",
        "example": "/lake/models, s3://bucket/models",
        "default": None,
    },
    "workers": {
        "description": "Threads of a task whose operator names no number; 0 is every processor "
        "of the machine.",
        "version_added": "0.2.0",
        "type": "integer",
        "example": "2",
        "default": "0",
    },
    "progress_seconds": {
        "description": "Seconds between two lines of progress in a task's log.",
        "version_added": "0.2.0",
        "type": "float",
        "example": "60",
        "default": "10",
    },
}

_LINKS = ("ModelCardLink", "RunReportLink")


def get_provider_info() -> dict[str, Any]:
    """The metadata of the provider, as Airflow's schema of it asks."""
    return {
        "package-name": "airflow-provider-probclass",
        "extra-links": [f"probclass_airflow.links.{name}" for name in _LINKS],
        "name": "probclass",
        "description": "Train, calibrate, evaluate, promote and score Bayes classifiers on a lake.",
        "integrations": [{"integration-name": "probclass", "tags": ["software"]}],
        "hooks": [{"integration-name": "probclass", "python-modules": ["probclass_airflow.hooks"]}],
        "connection-types": [
            {
                "hook-class-name": "probclass_airflow.hooks.ProbClassHook",
                "hook-name": "probclass table or model store",
                "connection-type": "probclass",
                "ui-field-behavior": {
                    "hidden-fields": ["schema", "port"],
                    "relabeling": {
                        "login": "Access key, or storage account",
                        "password": "Secret key, or account key",
                        "host": "Catalog",
                    },
                    "placeholders": {"host": "URI of an Iceberg catalog"},
                },
                "conn-fields": {
                    "region": {
                        "label": "Region",
                        "schema": {"type": ["string", "null"]},
                        "description": "of an S3 bucket",
                    },
                    "endpoint": {
                        "label": "Endpoint",
                        "schema": {"type": ["string", "null"]},
                        "description": "address of the store, where it is not its cloud's own",
                    },
                    "options": {
                        "label": "Options",
                        "schema": {"type": ["string", "null"], "format": "password"},
                        "description": "a JSON object, in the words of pyarrow, deltalake, "
                        "pyiceberg or fsspec, whichever reaches the place",
                    },
                    "place": {
                        "label": "Place",
                        "schema": {"type": ["string", "null"]},
                        "description": "URI of the table or folder that a test looks at",
                    },
                },
            }
        ],
        "operators": [
            {
                "integration-name": "probclass",
                "python-modules": [
                    f"probclass_airflow.{module}"
                    for module in ("operators", "calibration", "promotion", "mapped")
                ],
            }
        ],
        "task-decorators": [
            {
                "name": f"probclass_{verb}",
                "class-name": f"probclass_airflow.decorators.{verb}_task",
            }
            for verb in ("train", "score", "evaluate")
        ],
        "asset-uris": [
            {
                "schemes": ["probclass"],
                "handler": "probclass_airflow.assets.sanitize_uri",
                "factory": "probclass_airflow.assets.model_asset",
                "to_openlineage_converter": "probclass_airflow.assets.to_openlineage",
            }
        ],
        "config": {"probclass": {"description": "Defaults of all operators.", "options": _OPTIONS}},
    }
