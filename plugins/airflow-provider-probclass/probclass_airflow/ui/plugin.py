"""The plugin that adds the pages of models to Airflow: an application and an entry in the menu."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from probclass_airflow.links import ROUTE


class ProbClassPlugin(AirflowPlugin):
    """The pages of models."""

    name = "probclass"
    external_views: list[Any] = [
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
        """The application, built on demand: only the API server asks for it."""
        from probclass_airflow.ui.app import application

        return [{"app": application(), "url_prefix": f"/{ROUTE}", "name": "probclass"}]
