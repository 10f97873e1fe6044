"""What the tests know of the Airflow that runs for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx

BASE = "/team/airflow"
"""The path that Airflow is served below."""


@dataclass(frozen=True)
class Site:
    """A running Airflow.

    Attributes:
        url: of Airflow, without a slash at its end.
        token: of a viewer.
        stranger: of a user without any role.
        store: where the models lie.
        key: what stands for that store in addresses.
        run_id: of the finished run of the DAG ``air``.
    """

    url: str
    token: str
    stranger: str
    store: Path
    key: str
    run_id: str

    def get(self, path: str, *, token: str | None = None, **headers: str) -> httpx.Response:
        """An answer as it is, redirections included."""
        bearer = self.token if token is None else token
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        with httpx.Client(trust_env=False, timeout=60.0) as client:
            return client.get(f"{self.url}{path}", headers=headers)
