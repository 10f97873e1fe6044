"""The link from a task to its report; Airflow computes it on the worker when a task ends.

If the worker does not know Airflow's address, the link is relative to it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
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
    """Link to the report of a task, which leads to the card of its model."""

    @property
    def name(self) -> str:
        """Text of the button."""
        return "Run report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the report, whether or not the task succeeded."""
        names = ("dag_id", "run_id", "task_id", "map_index")
        return _page("run?" + urlencode({name: getattr(ti_key, name) for name in names}))


def comparison_link(store: str, model: str, left: str, right: str) -> str:
    """The address of two versions side by side, by their content ids."""
    versions = urlencode({"left": left, "right": right})
    return _page(f"stores/{store_key(store)}/{model}/-/compare?{versions}")


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
