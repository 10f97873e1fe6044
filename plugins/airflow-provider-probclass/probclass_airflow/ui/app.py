"""The routes: each behind Airflow's login and permissions, each read-only.

Who may read assets may read models; a task's report asks for the permission to read that DAG's
XComs. Nothing a store or a run holds is trusted: templates escape every value, an address names a
model by what is looked up and never by a path, and the content policy lets nothing run but one
script of ours.
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
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

import probclass_core as pc
from probclass_airflow.links import ROUTE
from probclass_airflow.ui import pictures, shown
from probclass_airflow.ui.card import card, metrics
from probclass_airflow.ui.overview import MOST_VERSIONS, store_rows, trend, version_row
from probclass_airflow.ui.runs import task_report
from probclass_airflow.ui.shelves import NotThere, Shelf, loaded, shelf, shelves

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HERE = Path(__file__).parent
STATIC = {
    "style.css": "text/css",
    "theme.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
FOR_EVER = "private, max-age=31536000, immutable"
"""What a content id names never changes."""

Theme = Annotated[str, Query(pattern="^(light|dark)$")]
SVG = "image/svg+xml"


def application() -> FastAPI:
    """The application that Airflow mounts."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    may_read = [Depends(requires_access_asset("GET"))]
    entities = (DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM)
    may_read_run = [*may_read, *(Depends(requires_access_dag("GET", each)) for each in entities)]
    pages: list[tuple[str, Callable[..., Response], list[Any]]] = [
        ("/", stores_page, may_read),
        ("/stores/{key}/{name}", model_page, may_read),
        ("/stores/{key}/{name}/{version}", card_page, may_read),
        ("/stores/{key}/{name}/{version}/column.svg", column_picture, may_read),
        ("/stores/{key}/{name}/{version}/plane.svg", plane_picture, may_read),
        ("/stores/{key}/{name}/{version}/reliability/{record}.svg", reliability_picture, may_read),
        ("/run", run_page, may_read_run),
        ("/static/{name}", static_file, may_read),
        ("/{path:path}", no_page, may_read),
    ]
    for path, handler, dependencies in pages:
        app.add_api_route(
            path, handler, methods=["GET"], dependencies=dependencies, response_model=None
        )
    app.middleware("http")(_with_headers)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _misaddressed)
    app.add_exception_handler(NotThere, _not_there)
    app.add_exception_handler(pc.ProbClassError, _broken)
    return app


# Pages


def stores_page(request: Request) -> Response:
    """All stores and their models."""
    return _page(request, "stores.html", stores=[store_rows(each) for each in shelves()])


def model_page(request: Request, key: str, name: str) -> Response:
    """The versions of one model, the newest first."""
    own = shelf(key)
    versions, aliases = own.versions(name), own.aliases(name)
    rows = [version_row(own, each, aliases) for each in versions[-MOST_VERSIONS:]]
    return _page(
        request,
        "model.html",
        shelf=own,
        name=name,
        rows=rows[::-1],
        more=len(versions) - len(rows),
        trend=trend(rows),
    )


def card_page(
    request: Request, key: str, name: str, version: str, against: str | None = None
) -> Response:
    """The card of one version, named by its content id or by an alias."""
    own = shelf(key)
    aliases = own.aliases(name) if own.versions(name) else {}
    if version in aliases:
        return RedirectResponse(f"{_root(request)}/stores/{key}/{name}/{aliases[version].id}")
    found = card(own, name, version, against)
    return _page(request, "card.html", card=found, shelf=own, name=name)


def run_page(
    request: Request,
    session: SessionDep,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int = -1,
) -> Response:
    """What one task reported."""
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
        holder=_holder(name, version) if version else None,
    )


def no_page(request: Request, path: str) -> Response:
    """Any other address."""
    raise NotThere("There is no such page.")


def static_file(name: str) -> Response:
    """The stylesheet, the script, the icons."""
    if name not in STATIC:
        raise NotThere("There is no such file.")
    content = (HERE / "static" / name).read_bytes()
    return Response(
        content, media_type=STATIC[name], headers={"Cache-Control": "private, no-cache"}
    )


# Pictures


def column_picture(
    key: str, name: str, version: str, column: str, theme: Theme = "light"
) -> Response:
    """One column of a model, class by class."""
    own, ref = _version(key, name, version, column)
    return _picture(pictures.densities(own, ref, column, theme == "dark"))


def plane_picture(
    key: str, name: str, version: str, x: str, y: str, theme: Theme = "light"
) -> Response:
    """Two columns of a model, class by class."""
    own, ref = _version(key, name, version, x, y)
    return _picture(pictures.contours(own, ref, x, y, theme == "dark"))


def reliability_picture(
    key: str, name: str, version: str, record: str, theme: Theme = "light"
) -> Response:
    """A recorded evaluation: predicted probability and what came true."""
    own = shelf(key)
    for each in own.store.evaluations(own.version(name, version)):
        if each.id == record:
            return _picture(
                pictures.reliability(pc.Evaluation.from_dict(each.result), theme == "dark")
            )
    raise NotThere("There is no such evaluation.")


def _version(key: str, name: str, version: str, *columns: str) -> tuple[Shelf, str]:
    own = shelf(key)
    ref = own.version(name, version).ref
    known = loaded(own.uri, ref).features.names
    for column in columns:
        if column not in known:
            raise NotThere("The model has no such column.")
    return own, ref


def _picture(svg: str) -> Response:
    return Response(svg, media_type=SVG, headers={"Cache-Control": FOR_EVER})


def _holder(name: str, version: str) -> Shelf | None:
    """The first store that has a version; a report says which version, not in which store."""
    for each in shelves():
        try:
            each.version(name, version)
        except (NotThere, pc.StoreError):
            continue
        return each
    return None


# What every answer has


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {
    name: getattr(shown, name)
    for name in ("bits", "brief", "minute", "number", "origin", "plain", "share", "words")
}


def _page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page; its addresses begin with the root, which a proxy or base_url may have put deeper."""
    root = _root(request)
    home = root.removesuffix(f"/{ROUTE}")
    text = _TEMPLATES.get_template(template).render(root=root, home=home, **values)
    return HTMLResponse(text, status_code=status, headers={"Cache-Control": "private, no-store"})


def _root(request: Request) -> str:
    return str(request.scope["root_path"])


async def _with_headers(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await call_next(request)
    response.headers.update(HEADERS)
    return response


async def _refused(request: Request, error: Exception) -> Response:
    """A browser without login goes to Airflow's login and comes back; all else is told."""
    assert isinstance(error, StarletteHTTPException)
    if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
        home = _root(request).removesuffix(f"/{ROUTE}")
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{home}/api/v2/auth/login?{urlencode({'next': here})}")
    lines = {401: "Log in to Airflow first.", 403: "You may not read this in Airflow."}
    line = lines.get(error.status_code, str(error.detail))
    return _page(request, "error.html", error.status_code, line=line)


async def _misaddressed(request: Request, error: Exception) -> Response:
    return _page(request, "error.html", 422, line="This address is not complete, or not right.")


async def _not_there(request: Request, error: Exception) -> Response:
    return _page(request, "error.html", 404, line=str(error))


async def _broken(request: Request, error: Exception) -> Response:
    """A store that cannot be read, a damaged version, an estimator that is not installed."""
    status = 501 if isinstance(error, (pc.NotSupportedError, pc.PluginError)) else 500
    return _page(request, "error.html", status, line=shown.place(str(error)))
