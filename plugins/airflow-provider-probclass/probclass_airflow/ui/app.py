"""The routes: each requires Airflow's login and permissions, and each only reads.

Permission to read assets is permission to read models; the report of a task requires permission to
read the XComs of its DAG. Content of stores and runs is not trusted: templates escape every value,
an address is looked up and never used as a path, and the content security policy allows no script
but one file of this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import jinja2
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import requires_access_asset, requires_access_dag
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from starlette.exceptions import HTTPException as StarletteHTTPException

import probclass_core as pc
from probclass_airflow.links import ROUTE
from probclass_airflow.ui import formatting, plots
from probclass_airflow.ui.model_card import metrics, model_card
from probclass_airflow.ui.overview import MOST_VERSIONS, store_rows, trend, version_row
from probclass_airflow.ui.runs import task_report
from probclass_airflow.ui.stores import NotFound, ShownStore, find_store, load_model, shown_stores

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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

Theme = Annotated[str, Query(pattern="^(light|dark)$")]


def application() -> FastAPI:
    """The application that Airflow mounts."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    may_read = [Depends(requires_access_asset("GET"))]
    entities = (DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM)
    may_read_run = [*may_read, *(Depends(requires_access_dag("GET", e)) for e in entities)]
    version = "/stores/{key}/{name}/{version}"
    routes: list[tuple[str, Callable[..., Any], list[Any]]] = [
        ("/", stores_page, may_read),
        ("/stores/{key}/{name}", model_page, may_read),
        (version, card_page, may_read),
        (f"{version}/column.svg", column_plot, may_read),
        (f"{version}/plane.svg", plane_plot, may_read),
        (f"{version}/reliability/{{record}}.svg", reliability_plot, may_read),
        ("/run", run_page, may_read_run),
        ("/static/{name}", static_file, may_read),
        ("/{path:path}", unknown_page, may_read),
    ]
    for path, handler, dependencies in routes:
        app.add_api_route(
            path, handler, methods=["GET"], dependencies=dependencies, response_model=None
        )
    app.middleware("http")(_add_headers)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_address)
    app.add_exception_handler(NotFound, _not_found)
    app.add_exception_handler(pc.ProbClassError, _library_error)
    return app


# Pages


def stores_page(request: Request) -> Response:
    """All stores and their models."""
    return _page(request, "stores.html", stores=[store_rows(shown) for shown in shown_stores()])


def model_page(request: Request, key: str, name: str) -> Response:
    """The versions of one model, newest first."""
    shown = find_store(key)
    versions, aliases = shown.versions(name), shown.aliases(name)
    rows = [version_row(shown, version, aliases) for version in versions[-MOST_VERSIONS:]]
    return _page(
        request,
        "model.html",
        shown=shown,
        name=name,
        rows=rows[::-1],
        more=len(versions) - len(rows),
        trend=trend(rows),
    )


def card_page(
    request: Request, key: str, name: str, version: str, against: str | None = None
) -> Response:
    """The card of one version, named by its content id or by an alias."""
    shown = find_store(key)
    aliases = shown.aliases(name) if shown.versions(name) else {}
    if version in aliases:
        return RedirectResponse(f"{_root(request)}/stores/{key}/{name}/{aliases[version].id}")
    card = model_card(shown, name, version, against)
    return _page(request, "card.html", card=card, shown=shown, name=name)


def run_page(
    request: Request,
    session: SessionDep,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int = -1,
) -> Response:
    """The report of one task."""
    report = task_report(session, dag_id, run_id, task_id, map_index)
    reference = report.report.get("model")
    name, _, version = reference.partition("@") if isinstance(reference, str) else ("", "", "")
    return _page(
        request,
        "run.html",
        report=report,
        metrics=metrics(report.report),
        name=name,
        version=version,
        shown=_store_of(name, version) if version else None,
    )


def unknown_page(request: Request, path: str) -> Response:
    """Any other address."""
    raise NotFound(NOT_FOUND)


async def static_file(request: Request, name: str) -> Response:
    """The stylesheet, the script, the icons."""
    response = await _STATIC.get_response(name, request.scope)
    response.headers["Cache-Control"] = "private, no-cache"
    return response


# Plots


def column_plot(key: str, name: str, version: str, column: str, theme: Theme = "light") -> Response:
    """One column of a model in each class."""
    shown, ref = _version_with_columns(key, name, version, column)
    return _svg(plots.densities(shown, ref, column, theme == "dark"))


def plane_plot(
    key: str, name: str, version: str, x: str, y: str, theme: Theme = "light"
) -> Response:
    """Two columns of a model in each class."""
    shown, ref = _version_with_columns(key, name, version, x, y)
    return _svg(plots.contours(shown, ref, x, y, theme == "dark"))


def reliability_plot(
    key: str, name: str, version: str, record: str, theme: Theme = "light"
) -> Response:
    """The reliability diagram of a recorded evaluation."""
    shown = find_store(key)
    for recorded in shown.store.evaluations(shown.version(name, version)):
        if recorded.id == record:
            evaluation = pc.Evaluation.from_dict(recorded.result)
            return _svg(plots.reliability(evaluation, theme == "dark"))
    raise NotFound("There is no such evaluation.")


def _version_with_columns(
    key: str, name: str, version: str, *columns: str
) -> tuple[ShownStore, str]:
    shown = find_store(key)
    ref = shown.version(name, version).ref
    if not set(columns) <= set(load_model(shown.uri, ref).features.names):
        raise NotFound("The model has no such column.")
    return shown, ref


def _svg(text: str) -> Response:
    """A plot; it never changes, because its address has a content id."""
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(text, media_type="image/svg+xml", headers=headers)


def _store_of(name: str, version: str) -> ShownStore | None:
    """The first store with a version; a task's report does not name its store."""
    for shown in shown_stores():
        try:
            shown.version(name, version)
        except (NotFound, pc.StoreError):
            continue
        return shown
    return None


# Rendering and errors


def _root(request: Request) -> str:
    """The address of the application, which a proxy or base_url may have prefixed."""
    return str(request.scope["root_path"])


def _home(request: Request) -> str:
    return _root(request).removesuffix(f"/{ROUTE}")


_STATIC = StaticFiles(directory=FOLDER / "static")
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
_TEMPLATES.env.filters |= {name: getattr(formatting, name) for name in formatting.__all__}


def _page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    headers = {"Cache-Control": "private, no-store"}
    return _TEMPLATES.TemplateResponse(request, template, values, status, headers)


async def _add_headers(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await call_next(request)
    response.headers.update(HEADERS)
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    """Send a browser without a login to Airflow's login and back; else show the error."""
    assert isinstance(error, StarletteHTTPException)
    if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{_home(request)}/api/v2/auth/login?{urlencode({'next': here})}")
    lines = {
        401: "Log in to Airflow first.",
        403: "Your Airflow user may not read this page.",
        404: NOT_FOUND,
    }
    line = lines.get(error.status_code, str(error.detail))
    return _page(request, "error.html", error.status_code, line=line)


async def _invalid_address(request: Request, error: Exception) -> Response:
    return _page(request, "error.html", 422, line="This address is incomplete or invalid.")


async def _not_found(request: Request, error: Exception) -> Response:
    return _page(request, "error.html", 404, line=str(error))


async def _library_error(request: Request, error: Exception) -> Response:
    """An unreadable store, a damaged version, or an estimator that is not installed."""
    status = 501 if isinstance(error, (pc.NotSupportedError, pc.PluginError)) else 500
    return _page(request, "error.html", status, line=formatting.hide_credentials(str(error)))
