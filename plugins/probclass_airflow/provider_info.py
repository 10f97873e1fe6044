"""What Airflow's list of providers says of this package; see the entry point in pyproject.toml."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The metadata of the provider, as Airflow's schema of it asks."""
    return {
        "package-name": "probclass",
        "name": "probclass",
        "description": "Train, calibrate, evaluate, promote and score Bayes classifiers on a lake.",
        "integrations": [{"integration-name": "probclass", "tags": ["software"]}],
        "operators": [
            {
                "integration-name": "probclass",
                "python-modules": [
                    f"probclass_airflow.{module}"
                    for module in ("operators", "calibration", "promotion", "mapped")
                ],
            }
        ],
    }
