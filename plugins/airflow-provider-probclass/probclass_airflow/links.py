"""Links from a task to the pages of models; Airflow computes them on the worker when a task ends.

If the worker does not know Airflow's address, a link is relative to it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

ROUTE = "probclass"
"""Path of the pages below Airflow's address, and of their frame below ``plugin/``."""

_FRAMED_SINCE = (1, 3, 2)
"""Version of the Task SDK, in Airflow 3.3.2, from which ``plugin/`` opens a page in a frame."""


class RunReportLink(BaseOperatorLink):
    """Link to the report of a task."""

    @property
    def name(self) -> str:
        """Text of the button."""
        return "Run report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the report, whether or not the task succeeded."""
        names = ("dag_id", "run_id", "task_id", "map_index")
        return _page("run?" + urlencode({name: getattr(ti_key, name) for name in names}))


class ModelCardLink(BaseOperatorLink):
    """Link to the card of the version that a task trained, used or evaluated."""

    @property
    def name(self) -> str:
        """Text of the button."""
        return "Model card"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the card; empty, which hides the button, if the report has no model."""
        from airflow.sdk.execution_time.xcom import XCom

        report: Any = XCom.get_value(ti_key=ti_key, key="return_value")
        store = getattr(operator, "store", None)
        if not isinstance(report, dict) or not isinstance(store, str):
            return ""
        name, at, version = str(report.get("model", "")).partition("@")
        return _page(f"stores/{store_key(store)}/{name}/{version}") if at else ""


def store_key(uri: str) -> str:
    """The key of a store in addresses: a digest, because its URI may contain a secret."""
    return hashlib.sha256(uri.removeprefix("file://").rstrip("/").encode()).hexdigest()[:12]


def _page(path: str) -> str:
    from airflow.sdk import __version__
    from airflow.sdk.configuration import conf

    base = conf.get("api", "base_url", fallback="") or ""
    base += "" if base.endswith("/") or not base else "/"
    page = f"{ROUTE}/{path}"
    sdk_version = tuple(int(part) for part in __version__.split(".")[:3] if part.isdigit())
    if sdk_version < _FRAMED_SINCE:
        return base + page
    return f"{base}plugin/{ROUTE}{urlsplit(base).path or '/'}{page}"
