"""A user of Airflow, through its REST API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

SECONDS_TO_FINISH = 400.0


class Client:
    """Actions of a user in Airflow's UI, through the REST API."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        token = self._http.get("/auth/token").raise_for_status().json()["access_token"]
        self._http.headers["Authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, **rest: Any) -> Any:
        response = self._http.request(method, f"/api/v2/dags/{path}", **rest)
        assert response.is_success, response.text
        return response.json()

    def unpause(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            self.ask("PATCH", dag_id, json={"is_paused": False})

    def trigger(self, dag_id: str, **body: Any) -> str:
        run = self.ask("POST", f"{dag_id}/dagRuns", json={"logical_date": None, **body})
        return str(run["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self.ask("GET", f"{dag_id}/dagRuns", params={"limit": 100})["dag_runs"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        return list(self.ask("GET", f"{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"])

    def event(self, asset: str) -> None:
        """Say that an asset was changed, as a producer outside of Airflow does."""
        response = self._http.get("/api/v2/assets", params={"name_pattern": asset})
        (found,) = response.raise_for_status().json()["assets"]
        body = {"asset_id": found["id"]}
        self._http.post("/api/v2/assets/events", json=body).raise_for_status()

    def events(self, dag_id: str) -> list[dict[str, Any]]:
        """The asset events of a DAG's tasks."""
        query = {"source_dag_id": dag_id, "limit": 100}
        response = self._http.get("/api/v2/assets/events", params=query)
        return list(response.raise_for_status().json()["asset_events"])

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear one task of a run, without those after it."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id]}
        body |= {"only_failed": False, "reset_dag_runs": True}
        self.ask("POST", f"{dag_id}/clearTaskInstances", json=body)

    def result(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> Any:
        path = f"{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        query = {"map_index": map_index, "deserialize": True}
        return self.ask("GET", path, params=query)["value"]


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS_TO_FINISH
    while not (result := condition()):
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.5)
    return result
