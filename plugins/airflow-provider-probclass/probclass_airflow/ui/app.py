"""The routes: each requires Airflow's login and permissions, and each only reads.

Permission to read assets is permission to read models; the report of a task requires permission to
read the XComs of its DAG. Content of stores and runs is not trusted: templates escape every value,
an address is looked up and never used as a path, and the content security policy allows no script
but one file of this package.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

import jinja2
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_asset,
    requires_access_dag,
)
from airflow.configuration import conf
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from starlette.exceptions import HTTPException

import probclass_core as pc
from probclass_airflow.links import ROUTE
from probclass_airflow.ui import plots, runs
from probclass_airflow.ui.comparison import (
    column_drift,
    compared_evaluations,
    parameter_drift,
    reference_of,
    settings,
)
from probclass_airflow.ui.listing import Table, Wanted
from probclass_airflow.ui.model_card import model_card
from probclass_airflow.ui.partition_dates import days_since
from probclass_airflow.ui.rows import TABLES, partition_rows, stops, words_of, worse_metrics
from probclass_airflow.ui.status import ModelRow, RunsOf, home_status, model_row, store_rows
from probclass_airflow.ui.stores import (
    NotFound,
    ShownStore,
    configured_stores,
    find_store,
    load_model,
    version_of,
)
from probclass_airflow.ui.timeline import timeline
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.display import described_rows, minute
from probclass_core.errors import NotSupportedError, PluginError, StoreError, hide_credentials
from probclass_core.report import metrics
from probclass_core.report.html import as_text, divergence, number, percent, shorten, words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from probclass_core.store.records import ModelVersion
    from probclass_core.store.results import ModelRecords

FOLDER = Path(__file__).parent
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
NOT_FOUND = "There is no such page."
ERRORS: dict[type[Exception], tuple[int, str]] = {
    RequestValidationError: (422, "This address is incomplete or invalid."),
    pc.ProbClassError: (422, ""),
    NotSupportedError: (501, ""),
    PluginError: (501, ""),
}
"""Status and line of the page of an error, or an empty text for its own message."""
MODELS: Table[ModelRow] = Table(
    rows=lambda store: store.models,
    text=lambda row: row.name,
    keys={
        "name": lambda row: row.name,
        "attention": lambda row: (-len(row.problems), row.name),
        "loss": lambda row: row.evaluation and row.evaluation.number("log_loss"),
        "labels": lambda row: row.labeled and row.labeled.on,
        "scored": lambda row: row.scored and row.scored.name,
        "warnings": lambda row: len(row.problems),
    },
    order="attention",
)

Theme = Annotated[Literal["light", "dark"], Query()]
Asked = Annotated[Wanted, Query()]


def visible_stores(user: GetUserDep) -> list[ShownStore]:
    """The stores that all users see, and those of the user's teams if Airflow has teams."""
    stores = configured_stores()
    if conf.getboolean("core", "multi_team", fallback=False):
        for team in sorted(get_auth_manager().get_authorized_teams(user=user)):
            stores += configured_stores(team)
    return list({shown.key: shown for shown in stores}.values())


Stores = Annotated[list[ShownStore], Depends(visible_stores)]


def shown_store(key: str, stores: Stores) -> ShownStore:
    """The store that an address names."""
    return find_store(stores, key)


Shown = Annotated[ShownStore, Depends(shown_store)]


def visible_runs(session: SessionDep, user: GetUserDep) -> RunsOf:
    """The newest runs of each DAG whose runs the user may see."""

    def runs_of(dag_id: str) -> list[runs.Run]:
        may_see = get_auth_manager().is_authorized_dag(
            method="GET",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id),
            user=user,
        )
        return runs.newest_runs(session, dag_id) if may_see else []

    return functools.cache(runs_of)


Runs = Annotated[RunsOf, Depends(visible_runs)]


@dataclass(frozen=True)
class ModelPage:
    """A page of a model.

    Attributes:
        request: the request.
        shown: the store.
        row: the state of the model.
    """

    request: Request
    shown: ShownStore
    row: ModelRow

    @property
    def records(self) -> ModelRecords:
        """All records of the model."""
        return self.row.records

    def version(self, content_id: str) -> ModelVersion:
        """A version by its content id, by default the newest.

        Raises:
            NotFound: if there is no such version.
            StoreError: if it is damaged.
        """
        if content_id:
            return version_of(self.records, content_id)
        if not self.records.versions:
            raise NotFound(f"No version of {self.row.name!r} can be read.")
        return self.records.versions[-1]

    def render(self, template: str, **values: Any) -> Response:
        """The page, which first says the state of the model."""
        of_model = {"name": self.row.name, "records": self.records, "status": self.row.status}
        values = {"shown": self.shown, "row": self.row, **of_model, **values}
        return _page(self.request, template, **values)


def model_page(request: Request, shown: Shown, name: str, runs_of: Runs) -> ModelPage:
    """The page of the model that an address names."""
    return ModelPage(request, shown, model_row(shown.records(name), runs_of))


Model = Annotated[ModelPage, Depends(model_page)]


def application() -> FastAPI:
    """The application that Airflow mounts."""
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(requires_access_asset("GET"))],
    )
    entities = (DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM)
    may_read_run = [Depends(requires_access_dag("GET", entity)) for entity in entities]
    model = "/stores/{key}/{name}"
    routes: dict[str, Callable[..., Any]] = {
        "/": stores_page,
        model: timeline_page,
        # No version and no alias is named "-".
        f"{model}/-/drift": drift_page,
        f"{model}/-/compare": compare_page,
        f"{model}/-/{{view}}": table_page,
        f"{model}/{{version}}": card_page,
        f"{model}/{{version}}/column.svg": column_plot,
        f"{model}/{{version}}/reliability/{{record}}.svg": reliability_plot,
        "/run": run_page,
        "/static/{name}": static_file,
        "/{path:path}": unknown_page,
    }
    for path, handler in routes.items():
        more = may_read_run if handler is run_page else []
        app.get(path, dependencies=more, response_model=None)(handler)
    app.middleware("http")(_add_headers)
    app.add_exception_handler(HTTPException, _http_error)
    for kind in ERRORS:
        app.add_exception_handler(kind, _error)
    return app


# Pages


def stores_page(request: Request, stores: Stores, asked: Asked, runs_of: Runs) -> Response:
    """All stores and their models."""
    found = [store_rows(shown, runs_of) for shown in stores]
    tables = [(one, MODELS.listing(one, asked)) for one in found]
    return _page(request, "stores.html", stores=tables, status=home_status(found))


def timeline_page(model: Model, page: Annotated[int, Query(ge=1)] = 1) -> Response:
    """What a model did over time."""
    return model.render("timeline.html", drawn=timeline(model.records, page))


def table_page(model: Model, view: str, asked: Asked) -> Response:
    """A table of the records of a model."""
    if view not in TABLES:
        raise NotFound(NOT_FOUND)
    table = TABLES[view].listing(model.records, asked)
    template = "partitions" if view == "scorings" else view
    stopped = stops(model.records.scorings)[::-1] if template == "partitions" else []
    return model.render(f"{template}.html", table=table, view=view, stopped=stopped)


def drift_page(model: Model) -> Response:
    """How far the rows that were scored are from what the model expects."""
    partitions, columns = column_drift(partition_rows(model.records.scorings))
    return model.render("drift.html", partitions=partitions, columns=columns)


def compare_page(model: Model, left: str = "", right: str = "") -> Response:
    """Two versions side by side."""
    second = model.version(right)
    first = model.version(left or reference_of(model.records, second))
    return model.render(
        "compare.html",
        left=first,
        right=second,
        settings=[settings(model.shown, version) for version in (first, second)],
        pairs=compared_evaluations(model.records, first, second),
        drift=parameter_drift(model.shown, first, second),
    )


def card_page(model: Model, version: str, evaluation: str | None = None) -> Response:
    """The card of one version, named by its content id or by an alias."""
    root, aliases = _root(model.request), model.records.aliases
    if version in aliases:
        address = f"{root}/stores/{model.shown.key}/{model.row.name}/{aliases[version].id}"
        return RedirectResponse(address)
    card = model_card(model.shown, model.row, version, root, evaluation)
    return model.render("card.html", card=card, status=card.status)


def run_page(
    request: Request,
    session: SessionDep,
    stores: Stores,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int = -1,
) -> Response:
    """The report of one task, or the list of its mapped instances."""
    instances = runs.task_instances(session, dag_id, run_id, task_id)
    if map_index not in instances:
        if map_index >= 0:
            raise NotFound(f"The task {task_id!r} has no map index {map_index} in run {run_id!r}.")
        return _page(request, "mapped.html", instances=list(instances.values()))
    task = instances[map_index]
    report = runs.returned(session, task)
    reference = report.get("model")
    name, _, version = reference.partition("@") if isinstance(reference, str) else ("", "", "")
    return _page(
        request,
        "run.html",
        task=task,
        report=report,
        metrics=metrics(report),
        worse=worse_metrics(report),
        name=name,
        version=version,
        shown=_store_of(stores, name, version) if version else None,
    )


def unknown_page(path: str) -> Response:
    """Any other address."""
    raise NotFound(NOT_FOUND)


async def static_file(request: Request, name: str) -> Response:
    """The stylesheet, the script, the icons."""
    response = await _STATIC.get_response(name, request.scope)
    response.headers["Cache-Control"] = "private, no-cache"
    return response


# Plots


def column_plot(
    shown: Shown, name: str, version: str, column: str, theme: Theme = "light"
) -> Response:
    """One column of a model in each class."""
    ref = version_of(shown.records(name), version).ref
    if column not in load_model(shown.uri, ref).features.names:
        raise NotFound("The model has no such column.")
    return _svg(plots.effect(shown.uri, ref, column, theme))


def reliability_plot(
    shown: Shown, name: str, version: str, record: str, theme: Theme = "light"
) -> Response:
    """The reliability diagram of a recorded evaluation."""
    records = shown.records(name)
    if record not in [one.id for one in records.evaluations if one.version == version]:
        raise NotFound("There is no such evaluation.")
    recorded = shown.store.evaluation(version_of(records, version), record)
    try:
        text = plots.reliability(Evaluation.from_dict(recorded.result), theme)
    except NotSupportedError:
        raise
    except Exception as error:  # the tables of a record may contain anything
        raise NotFound("This evaluation has no tables to draw.") from error
    return _svg(text)


def _svg(text: str) -> Response:
    """A plot; it never changes, because its address has a content id."""
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(text, media_type="image/svg+xml", headers=headers)


def _store_of(stores: Sequence[ShownStore], name: str, version: str) -> ShownStore | None:
    """The first store with a version; a task's report does not name its store."""
    for shown in stores:
        try:
            version_of(shown.records(name), version)
        except (NotFound, StoreError):
            continue
        return shown
    return None


# Rendering and errors


def _root(request: Request) -> str:
    """The address of the application, which a proxy or base_url may have prefixed."""
    return str(request.scope["root_path"])


def _home(request: Request) -> str:
    return _root(request).removesuffix(f"/{ROUTE}")


_STATIC = StaticFiles(directory=FOLDER / "static", packages=[("probclass_core.report", "static")])
_TEMPLATES = Jinja2Templates(
    env=jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ),
    context_processors=[lambda request: {"root": _root(request), "home": _home(request)}],
)
_TEMPLATES.env.filters |= {
    function.__name__: function
    for function in (
        as_text,
        divergence,
        number,
        percent,
        shorten,
        words,
        days_since,
        described_rows,
        hide_credentials,
        minute,
        runs.run_of,
        runs.task_address,
        words_of,
    )
}


def _page(request: Request, template: str, code: int = 200, **values: Any) -> Response:
    headers = {"Cache-Control": "private, no-store"}
    return _TEMPLATES.TemplateResponse(request, template, values, code, headers)


async def _add_headers(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await call_next(request)
    response.headers.update(HEADERS)
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    """Send a browser without a login to Airflow's login and back; else show the error."""
    assert isinstance(error, HTTPException)
    if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{_home(request)}/api/v2/auth/login?{urlencode({'next': here})}")
    lines = {401: "Log in to Airflow first.", 403: "Your Airflow user may not read this page."}
    line = lines.get(error.status_code, error.detail)
    return _page(request, "error.html", error.status_code, line=line)


async def _error(request: Request, error: Exception) -> Response:
    """An unreadable store, a damaged version, an estimator that is not installed, or an address."""
    status, line = next(ERRORS[kind] for kind in type(error).__mro__ if kind in ERRORS)
    return _page(request, "error.html", status, line=line or hide_credentials(str(error)))
