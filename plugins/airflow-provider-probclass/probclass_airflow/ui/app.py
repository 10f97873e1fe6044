"""The routes: each requires Airflow's login and permissions, and each only reads.

Permission to read assets is permission to read models; the report of a task requires permission to
read the XComs of its DAG. Content of stores and runs is not trusted: templates escape every value,
an address is looked up and never used as a path, and the content security policy allows no script
but one file of this package.
"""

from __future__ import annotations

import functools
from datetime import date
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
from starlette.exceptions import HTTPException as StarletteHTTPException

import probclass_core as pc
from probclass_airflow.links import ROUTE
from probclass_airflow.ui import formatting, plots
from probclass_airflow.ui.comparison import (
    column_drift,
    compared_metrics,
    compared_settings,
    drift_section,
    reference_of,
    season_of,
    version_named,
)
from probclass_airflow.ui.listing import Wanted, listing
from probclass_airflow.ui.model_card import model_card
from probclass_airflow.ui.rows import (
    EvaluationRow,
    LastRun,
    ModelRow,
    PartitionRow,
    VersionRow,
    days_since,
    evaluation_row,
    model_row,
    partition_rows,
    run_of,
    stops,
    store_rows,
    version_rows,
    worse_metrics,
)
from probclass_airflow.ui.runs import (
    FailedRun,
    failed_run,
    mapped_indices,
    task_address,
    task_report,
)
from probclass_airflow.ui.status import (
    Status,
    champion_status,
    comparison_status,
    drift_status,
    evaluations_status,
    home_status,
    partitions_status,
    problems,
    promotions_status,
    versions_status,
)
from probclass_airflow.ui.stores import (
    NotFound,
    ShownStore,
    configured_stores,
    find_store,
    load_model,
)
from probclass_airflow.ui.timeline import Axis, timeline, words_of
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.errors import NotSupportedError, PluginError, StoreError
from probclass_core.report import metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from probclass_core.store.model_records import ModelRecords
    from probclass_core.store.promotions import Promotion

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

Theme = Annotated[Literal["light", "dark"], Query()]


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


def last_runs(session: SessionDep, user: GetUserDep) -> LastRun:
    """The newest finished runs that failed, of DAGs whose runs the user may see."""

    def last_run(dag_id: str) -> FailedRun | None:
        entity, details = DagAccessEntity.RUN, DagDetails(id=dag_id)
        manager = get_auth_manager()
        may_see = manager.is_authorized_dag(
            method="GET", access_entity=entity, details=details, user=user
        )
        return failed_run(session, dag_id) if may_see else None

    return functools.cache(last_run)


Runs = Annotated[LastRun, Depends(last_runs)]


def wanted_rows(
    q: Annotated[str, Query(max_length=200)] = "",
    sort: Annotated[str, Query(max_length=40)] = "",
    page: Annotated[int, Query(ge=1, le=10**6)] = 1,
) -> Wanted:
    """What an address asks of a table."""
    return Wanted(q, sort, page)


Asked = Annotated[Wanted, Depends(wanted_rows)]


def application() -> FastAPI:
    """The application that Airflow mounts."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    may_read = [Depends(requires_access_asset("GET"))]
    entities = (DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM)
    may_read_run = [*may_read, *(Depends(requires_access_dag("GET", e)) for e in entities)]
    model = "/stores/{key}/{name}"
    version = f"{model}/{{version}}"
    routes: list[tuple[str, Callable[..., Any], list[Any]]] = [
        ("/", stores_page, may_read),
        (model, timeline_page, may_read),
        # No version and no alias is named "-".
        (f"{model}/-/versions", versions_page, may_read),
        (f"{model}/-/evaluations", evaluations_page, may_read),
        (f"{model}/-/partitions", partitions_page, may_read),
        (f"{model}/-/promotions", promotions_page, may_read),
        (f"{model}/-/drift", drift_page, may_read),
        (f"{model}/-/compare", compare_page, may_read),
        (version, card_page, may_read),
        (f"{version}/column.svg", column_plot, may_read),
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


def stores_page(request: Request, stores: Stores, asked: Asked, last_run: Runs) -> Response:
    """All stores and their models."""
    found = [store_rows(shown, last_run) for shown in stores]
    keys: dict[str, Callable[[ModelRow], Any]] = {
        "name": lambda row: row.name,
        "attention": lambda row: (-len(problems(row)), row.name),
        "loss": lambda row: None if row.evaluation is None else row.evaluation.number("log_loss"),
        "labels": lambda row: None if row.labeled is None else row.labeled.record.created,
        "scored": lambda row: None if row.scored is None else row.scored.name,
        "warnings": lambda row: len(problems(row)),
    }
    tables = [
        (one, listing(one.models, asked, lambda row: row.name, keys, "attention")) for one in found
    ]
    rows = [row for one in found for row in one.models]
    status = home_status(rows, sum(len(one.problems) for one in found))
    return _page(request, "stores.html", stores=tables, status=status)


def timeline_page(
    request: Request,
    shown: Shown,
    name: str,
    last_run: Runs,
    axis: Axis | None = None,
    since: str = "",
    until: str = "",
) -> Response:
    """What a model did over time."""
    records = shown.records(name)
    first, last = _date(since), _date(until)
    drawn = timeline(records, axis, first, last)
    row = model_row(records, last_run)
    return _model_page(
        request, "timeline.html", shown, records, champion_status(row), drawn=drawn, row=row
    )


def versions_page(request: Request, shown: Shown, name: str, asked: Asked) -> Response:
    """The versions of a model."""
    records = shown.records(name)
    keys: dict[str, Callable[[VersionRow], Any]] = {
        "saved": lambda row: row.version.created,
        "rows": lambda row: row.rows,
        "loss": lambda row: row.evaluation and row.evaluation.number("log_loss"),
        "accuracy": lambda row: row.evaluation and row.evaluation.number("accuracy"),
    }
    table = listing(
        version_rows(records),
        asked,
        lambda row: " ".join([row.version.id, row.version.created, row.trained_on, *row.aliases]),
        keys,
        "-saved",
    )
    return _model_page(
        request, "versions.html", shown, records, versions_status(records), table=table
    )


def evaluations_page(request: Request, shown: Shown, name: str, asked: Asked) -> Response:
    """The evaluations of a model."""
    records = shown.records(name)
    keys: dict[str, Callable[[EvaluationRow], Any]] = {
        "recorded": lambda row: row.record.created,
        "on": lambda row: row.on,
        "rows": lambda row: row.number("rows"),
        "loss": lambda row: row.number("log_loss"),
        "accuracy": lambda row: row.number("accuracy"),
    }
    table = listing(
        [evaluation_row(record) for record in records.evaluations],
        asked,
        lambda row: " ".join([row.on, row.record.version, row.record.created, *row.worse]),
        keys,
        "-recorded",
    )
    status = evaluations_status(records)
    return _model_page(request, "evaluations.html", shown, records, status, table=table)


def partitions_page(
    request: Request, shown: Shown, name: str, asked: Asked, every: bool = False
) -> Response:
    """The partitions that were scored with a model."""
    records = shown.records(name)
    rows = partition_rows(records.scorings)
    keys: dict[str, Callable[[PartitionRow], Any]] = {
        "partition": lambda row: row.name,
        "scored": lambda row: row.record.created,
        "rows": lambda row: row.rows,
        "model": lambda row: row.record.version,
        "warnings": lambda row: len(row.warnings),
    }
    table = listing(
        rows if every else [row for row in rows if row.is_current],
        asked,
        _partition_text,
        keys,
        "-partition",
        **({"every": "1"} if every else {}),
    )
    stopped = stops(records.scorings)[::-1]
    status = partitions_status(rows, stopped)
    return _model_page(
        request,
        "partitions.html",
        shown,
        records,
        status,
        table=table,
        every=every,
        stopped=stopped,
    )


def _partition_text(row: PartitionRow) -> str:
    run = row.run or {}
    commit = [row.values.get("commit_id"), row.values.get("input_version")]
    warned = [warning.sentence for warning in row.warnings]
    parts = [row.name, row.record.sink, row.record.version, row.record.created]
    return " ".join(map(str, [*parts, *commit, *run.values(), *row.why, *warned]))


def promotions_page(request: Request, shown: Shown, name: str, asked: Asked) -> Response:
    """The ledger of promotions of a model."""
    records = shown.records(name)
    keys: dict[str, Callable[[Promotion], Any]] = {
        "time": lambda entry: entry.time,
        "alias": lambda entry: entry.alias,
        "action": lambda entry: entry.action,
    }
    table = listing(
        records.promotions,
        asked,
        lambda entry: " ".join(
            map(str, [entry.alias, words_of(entry), entry.action, entry.id, entry.by, entry.reason])
        ),
        keys,
        "-time",
    )
    status = promotions_status(records)
    return _model_page(request, "promotions.html", shown, records, status, table=table)


def _with_versions(shown: Shown, name: str) -> ModelRecords:
    """The records of a model.

    Raises:
        NotFound: if no version of it can be read.
    """
    records = shown.records(name)
    if not records.versions:
        raise NotFound(f"No version of {name!r} can be read.")
    return records


def drift_page(
    request: Request, shown: Shown, name: str, version: str = "", against: str = ""
) -> Response:
    """What changed in the parameters of a version, and in the rows that were scored."""
    records = _with_versions(shown, name)
    chosen = version_named(records, version) if version else records.versions[-1]
    reference, role = reference_of(records, chosen)
    if against:
        reference, role = against, "the version chosen"
    other = version_named(records, reference) if reference else None
    sections = [drift_section(shown, chosen, other, role)]
    season = season_of(records, chosen)
    if season is not None and (other is None or season.id != other.id):
        sections.append(drift_section(shown, chosen, season, "the same season a year before"))
    partitions, columns = column_drift(partition_rows(records.scorings))
    return _model_page(
        request,
        "drift.html",
        shown,
        records,
        drift_status(columns),
        chosen=chosen,
        other=other,
        sections=sections,
        partitions=partitions,
        columns=columns,
    )


def compare_page(
    request: Request, shown: Shown, name: str, left: str = "", right: str = ""
) -> Response:
    """Two versions side by side."""
    records = _with_versions(shown, name)
    second = version_named(records, right) if right else records.versions[-1]
    first_id = left or reference_of(records, second)[0] or second.id
    first = version_named(records, first_id)
    pairs = compared_metrics(records, first, second)
    return _model_page(
        request,
        "compare.html",
        shown,
        records,
        comparison_status(pairs, first, second),
        left=first,
        right=second,
        settings=compared_settings(shown, first, second),
        pairs=pairs,
        drift=drift_section(shown, second, None if first == second else first, ""),
    )


def card_page(
    request: Request,
    shown: Shown,
    name: str,
    version: str,
    against: str | None = None,
    page: Annotated[int, Query(ge=1)] = 1,
) -> Response:
    """The card of one version, named by its content id or by an alias."""
    key = shown.key
    aliases = shown.records(name).aliases
    if version in aliases:
        return RedirectResponse(f"{_root(request)}/stores/{key}/{name}/{aliases[version].id}")
    card = model_card(shown, name, version, _root(request), against, page)
    return _page(request, "card.html", card=card, shown=shown, name=name, page=page)


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
    if map_index < 0:
        indices = mapped_indices(session, dag_id, run_id, task_id)
        if indices:
            task = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id}
            return _page(request, "mapped.html", task=task, indices=indices)
    report = task_report(session, dag_id, run_id, task_id, map_index)
    reference = report.report.get("model")
    name, _, version = reference.partition("@") if isinstance(reference, str) else ("", "", "")
    return _page(
        request,
        "run.html",
        report=report,
        metrics=metrics(report.report),
        worse=worse_metrics(report.report),
        name=name,
        version=version,
        shown=_store_of(stores, name, version) if version else None,
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


def column_plot(
    shown: Shown, name: str, version: str, column: str, theme: Theme = "light"
) -> Response:
    """One column of a model in each class."""
    ref = shown.version(name, version).ref
    if column not in load_model(shown.uri, ref).features.names:
        raise NotFound("The model has no such column.")
    return _svg(plots.effect(shown.uri, ref, column, theme))


def reliability_plot(
    shown: Shown, name: str, version: str, record: str, theme: Theme = "light"
) -> Response:
    """The reliability diagram of a recorded evaluation."""
    known = [one.id for one in shown.records(name).evaluations if one.version == version]
    if record not in known:
        raise NotFound("There is no such evaluation.")
    recorded = shown.store.evaluation(shown.version(name, version), record)
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
            shown.version(name, version)
        except (NotFound, StoreError):
            continue
        return shown
    return None


def _date(text: str) -> date | None:
    """A date of a form; None if the field is empty or has another text."""
    try:
        return date.fromisoformat(text)
    except ValueError:
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
_TEMPLATES.env.filters |= {name: getattr(formatting, name) for name in formatting.__all__}
_TEMPLATES.env.filters |= {"days_since": days_since, "run_of": run_of, "words_of": words_of}
_TEMPLATES.env.filters |= {"task_address": task_address, "problems": problems}


def _model_page(
    request: Request,
    template: str,
    shown: ShownStore,
    records: ModelRecords,
    status: Status,
    **values: Any,
) -> Response:
    values |= {"shown": shown, "name": records.model, "records": records, "status": status}
    return _page(request, template, **values)


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
    status = 501 if isinstance(error, (NotSupportedError, PluginError)) else 422
    return _page(request, "error.html", status, line=formatting.hide_credentials(str(error)))
