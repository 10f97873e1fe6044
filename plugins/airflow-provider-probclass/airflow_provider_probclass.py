"""Metadata of the provider, as `airflow providers list` reads them.

They are outside the package `probclass_airflow`, which needs Airflow's SDK: every `airflow` command
reads the metadata of all providers, and an error here would stop an older Airflow from starting.
"""

from __future__ import annotations

from typing import Any

_OPTIONS = {
    "stores": {
        "description": "Model stores that the page Models shows: paths or URIs, separated by "
        "commas; by default the value of the environment variable PROBCLASS_STORE.",
        "version_added": "0.1.0",
        "type": "string",
        "example": "/lake/models, s3://bucket/models",
        "default": None,
    },
    "workers": {
        "description": "Number of threads of a task whose operator has no workers; 0 is one for "
        "each processor.",
        "version_added": "0.1.0",
        "type": "integer",
        "example": "2",
        "default": "0",
    },
    "progress_seconds": {
        "description": "Seconds between two lines of progress in the log of a task.",
        "version_added": "0.1.0",
        "type": "float",
        "example": "60",
        "default": "10",
    },
}


def get_provider_info() -> dict[str, Any]:
    """The metadata of the provider, in the schema of Airflow."""
    return {
        "package-name": "airflow-provider-probclass",
        "extra-links": ["probclass_airflow.links.RunReportLink"],
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
                        "description": "Region of an S3 bucket",
                    },
                    "endpoint": {
                        "label": "Endpoint",
                        "schema": {"type": ["string", "null"]},
                        "description": "Address of the service, if it is not the public one",
                    },
                    "options": {
                        "label": "Options",
                        "schema": {"type": ["string", "null"], "format": "password"},
                        "description": "JSON object with options of pyarrow, deltalake, pyiceberg "
                        "or fsspec, depending on the table or store",
                    },
                    "place": {
                        "label": "Place",
                        "schema": {"type": ["string", "null"]},
                        "description": "URI of the table or folder that the connection test reads",
                    },
                },
            }
        ],
        "operators": [
            {
                "integration-name": "probclass",
                "python-modules": [
                    f"probclass_airflow.{module}"
                    for module in (
                        "operators",
                        "promotion",
                        "approval",
                        "mapped",
                        "score",
                        "maintenance",
                        "operate",
                    )
                ],
            }
        ],
        "asset-uris": [
            {
                "schemes": ["probclass"],
                "handler": "probclass_airflow.assets.sanitize_uri",
                "factory": "probclass_airflow.assets.model_asset",
                "to_openlineage_converter": "probclass_airflow.assets.to_openlineage",
            }
        ],
        "config": {
            "probclass": {
                "description": "Defaults of the operators, and the stores of the page Models.",
                "options": _OPTIONS,
            }
        },
    }
