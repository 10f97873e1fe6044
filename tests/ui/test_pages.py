"""The pages of models in a local Airflow, served below a path, seen with Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sites import BASE, Site

import probclass_core as pc
from probclass_core.store.records import ModelVersion

pytestmark = pytest.mark.services

MISSING = (
    "Array.from(document.images).filter(i => i.offsetParent && !i.naturalWidth).map(i => i.src)"
)
"""Script that lists the visible images that are not loaded."""


@pytest.fixture
def page(login: BrowserContext) -> Iterator[Page]:
    """A page on which any console error, such as of the content security policy, fails the test."""
    page = login.new_page()
    errors: list[str] = []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    yield page
    page.close()
    assert errors == []


def show_all(page: Page) -> None:
    """Open every folded section and load every image, also those outside the window."""
    page.evaluate(
        "document.querySelectorAll('details').forEach(section => { section.open = true })"
    )
    page.evaluate("document.querySelectorAll('img').forEach(image => { image.loading = 'eager' })")
    page.wait_for_load_state("networkidle")
    assert page.evaluate(MISSING) == []


def run_address(site: Site, task_id: str, map_index: int = -1) -> str:
    query = {"dag_id": "air", "run_id": site.run_id, "task_id": task_id, "map_index": map_index}
    return f"/probclass/run?{urlencode(query)}"


def newest(site: Site, name: str) -> ModelVersion:
    return pc.ModelStore(site.store).versions(name)[-1]


def test_the_menu_leads_to_a_card_and_to_the_run_that_trained_it(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/")
    page.get_by_role("link", name="Models").click()
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="air", exact=True).click()
    expect(frame.locator("h1")).to_have_text("air")
    expect(frame.locator("svg.timeline .band")).to_have_count(1)
    frame.get_by_role("link", name="Versions", exact=True).click()
    rows = frame.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("month < 2014-01")
    rows.first.get_by_role("link").first.click()
    expect(frame.locator("h1")).to_contain_text(newest(site, "air").id[:12])
    expect(frame.locator("h1")).to_contain_text("champion")  # promoted by the run
    expect(frame.get_by_text("Log loss", exact=True).first).to_be_visible()
    expect(frame.locator("#evaluation .problem")).to_contain_text(
        "worse than its class prior alone: log loss"
    )
    frame.get_by_role("link", name="Changes since").click()
    expect(frame.locator("#drift table").last.locator("tbody tr")).to_have_count(4)
    page.go_back()
    frame.get_by_role("link", name="train of air").click()
    expect(frame.locator("h1")).to_contain_text("train")
    expect(frame.locator("h1")).to_contain_text("success")
    assert "/plugin/probclass/" in page.url  # Airflow's own address follows the frame
    page.reload()
    expect(page.frame_locator("iframe").locator("h1")).to_contain_text("train")


def test_a_scored_partition_leads_to_the_log_of_its_mapped_task(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/plugin/probclass{BASE}/probclass/stores/{site.key}/air/-/partitions")
    frame = page.frame_locator("iframe")
    rows = frame.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("month=2014-02")
    rows.first.get_by_role("link", name="score [1]").click()
    expect(frame.locator("h1")).to_contain_text("[1]")
    expect(frame.locator("main")).to_contain_text("month=2014-02")
    frame.get_by_role("link", name="Log of the task").click()  # leaves the frame
    expect(page).to_have_url(
        f"{site.url}/dags/air/runs/{quote(site.run_id, safe='')}/tasks/score/mapped/1"
    )
    expect(
        page.get_by_role("link", name="Run report").or_(page.get_by_text("Logs")).first
    ).to_be_visible()
    page.goto(site.url + run_address(site, "score"))
    expect(page.locator(".indices a")).to_have_text(["0", "1"])


def test_the_link_of_a_finished_task_leads_to_its_report_and_its_model(
    page: Page, site: Site
) -> None:
    page.goto(f"{site.url}/dags/air/runs/{site.run_id}/tasks/evaluate/details")
    page.get_by_role("link", name="Run report").click()
    frame = page.frame_locator("iframe")
    expect(frame.locator("h1")).to_contain_text("evaluate")
    recorded = pc.ModelStore(site.store).evaluations(newest(site, "air"))[0]
    expect(frame.locator("dl").first).to_contain_text(f"{recorded.result['log_loss']:.3f}"[:4])
    frame.locator("dl").nth(1).get_by_role("link").click()
    expect(page.frame_locator("iframe").locator("h1")).to_contain_text(newest(site, "air").id[:12])


@pytest.mark.parametrize(
    ("task_id", "map_index", "text"),
    [
        ("train", -1, "spec digest"),
        ("score", 1, "month=2014-02"),
        ("promote", -1, "Promoted"),
    ],
)
def test_every_task_has_a_report(
    page: Page, site: Site, task_id: str, map_index: int, text: str
) -> None:
    path = f"/api/v2/dags/air/dagRuns/{site.run_id}/taskInstances/{task_id}/links"
    links = site.get(f"{path}?map_index={map_index}").json()["extra_links"]
    assert links.keys() == {"Run report"}
    assert links["Run report"] == f"{site.url}/plugin/probclass{BASE}" + run_address(
        site, task_id, map_index
    )
    page.goto(site.url + run_address(site, task_id, map_index))
    expect(page.locator("main")).to_contain_text(text)
    page.get_by_role("link", name="air", exact=False).first.click()


def test_a_card_has_light_and_dark_plots(page: Page, site: Site) -> None:
    version = newest(site, "air")
    page.goto(f"{site.url}/probclass/stores/{site.key}/air/{version.id}")
    show_all(page)
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.evaluate("localStorage.setItem('theme', 'dark')")  # as Airflow's switch does
    page.reload()
    show_all(page)
    assert page.evaluate(background) == "rgb(22, 24, 29)"
    shown = page.eval_on_selector_all(
        "img", "images => images.filter(image => image.offsetParent).map(image => image.src)"
    )
    assert len(shown) == 5  # an evaluation, effects of four columns
    assert all(address.endswith("theme=dark") for address in shown)
    page.evaluate("localStorage.removeItem('theme')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 800)])
def test_the_first_screen_of_a_card_says_what_an_engineer_on_call_needs(
    page: Page, site: Site, scheme: str, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    version = newest(site, "air")
    framed = f"{site.url}/plugin/probclass{BASE}/probclass"
    page.goto(f"{framed}/stores/{site.key}/air/{version.id}")
    frame = page.frame_locator("iframe")
    for place, text in (
        ("h1", version.id[:12]),
        ("h1", "champion"),
        (".lede", "is worse than the class prior alone by log loss"),  # the problem
        (".lede", "probclass rollback air"),  # what to do
        (".tiles", "In force since"),
        (".tiles", "prior alone"),
        (".tiles", "Gain on the champion before"),
        (".tiles", "Scored last"),
        (".tiles", "Training rows"),
        (".contents", "Changes since"),
    ):
        part = frame.locator(place).first
        expect(part).to_contain_text(text)
        box = part.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < height, f"{place} is at {box}"
        assert part.evaluate("part => part.scrollWidth <= part.ownerDocument.body.clientWidth")


def test_all_marks_of_the_timeline_are_drawn(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/probclass/stores/{site.key}/air")
    marks = page.locator("svg.timeline rect")
    kinds = {str(mark.get_attribute("class")).split()[0] for mark in marks.all()}
    assert kinds == {"band", "dot", "shade"}
    for mark in marks.all():
        box = mark.bounding_box()
        assert box is not None
        assert box["width"] * box["height"] > 3.0, mark.get_attribute("class")


def test_hostile_names_are_shown_as_text(page: Page, site: Site) -> None:
    version = newest(site, "hostile")
    page.goto(f"{site.url}/probclass/stores/{site.key}/hostile/{version.id}")
    show_all(page)
    assert page.title() == f"hostile {version.id[:8]}"
    assert page.locator("script").count() == 1
    assert page.locator("img[src=x], [onerror], main script").count() == 0
    text = page.inner_text("main")
    assert "<script>document.title='owned'</script>" in text
    assert "../../../etc/passwd" in text
    assert "{{ 7 * 7 }}" in text
    assert "secret" not in text
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"{site.url}/probclass/stores/{site.key}/hostile")
    assert page.title() == "hostile"


@pytest.mark.parametrize("address", ["column.svg?column={0} y", "column.svg?column={0} x"])
def test_a_plot_of_hostile_names_contains_only_shapes(site: Site, address: str) -> None:
    version = newest(site, "hostile")
    query = address.format("%3Cscript%3Edocument.title=%27owned%27%3C/script%3E").replace(
        " ", "%20"
    )
    response = site.get(f"/probclass/stores/{site.key}/hostile/{version.id}/{query}")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("image/svg+xml")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert not re.search(r"<(script|foreignObject|image|a)\b|\son\w+=", response.text)


VIEWS = ("versions", "evaluations", "partitions", "promotions", "drift", "compare")
PAGES = [
    "/probclass/",
    "/probclass/stores/{key}/air",
    *(f"/probclass/stores/{{key}}/air/-/{view}" for view in VIEWS),
    "/probclass/stores/{key}/air/{version}",
    "/probclass/stores/{key}/air/{version}/column.svg?column=temperature",
    "/probclass/stores/{key}/air/{version}/reliability/{version}.svg",
    "/probclass/run?dag_id=air&run_id=x&task_id=train",
    "/probclass/static/style.css",
    "/probclass/no/such/page",
]


def test_every_address_requires_a_login_and_a_role(site: Site) -> None:
    version = newest(site, "air").id
    for path in (address.format(key=site.key, version=version) for address in PAGES):
        anonymous = site.get(path, token="")
        assert anonymous.status_code == 401, path
        assert "Log in to Airflow first." in anonymous.text, path
        browser = site.get(path, token="", Accept="text/html")
        assert browser.status_code == 307, path
        login = f"{BASE}/api/v2/auth/login?next=%2Fteam%2F"
        assert browser.headers["location"].startswith(login), path
        assert site.get(path, token=site.token_without_role).status_code == 403, path
        assert site.get(path, token="no token").status_code == 403, path


def test_a_task_that_does_not_exist_is_an_error_page(site: Site) -> None:
    response = site.get("/probclass/run?dag_id=air&run_id=x&task_id=train")
    assert response.status_code == 404
    assert "There is no task" in response.text
