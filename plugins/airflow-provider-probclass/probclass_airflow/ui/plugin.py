"""The plugin as Airflow sees it: an application below its own address, and a place in its menu."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from probclass_airflow.links import ROUTE


class ProbClassPlugin(AirflowPlugin):
    """The page of models."""

    name = "probclass"
    external_views: list[Any] = [  # noqa: RUF012 - as Airflow declares it
        {
            "name": "Models",
            "href": f"{ROUTE}/",
            "destination": "nav",
            "url_route": ROUTE,
            "nav_top_level": True,
            "icon": f"{ROUTE}/static/icon.svg",
            "icon_dark_mode": f"{ROUTE}/static/icon-dark.svg",
        }
    ]

    @cached_property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """Made when asked for: every process loads plugins, the API server alone their apps."""
        from probclass_airflow.ui.app import application

        return [{"app": application(), "url_prefix": f"/{ROUTE}", "name": "probclass"}]
