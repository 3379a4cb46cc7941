"""The report in a real browser: it works, stays alone, and says the same to those who do not see it."""

import os
import re
from itertools import pairwise
from pathlib import Path

import pytest

import made_up
from slackaug.report import page as reports

pytestmark = pytest.mark.browser
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PHONE, DESK = {"width": 400, "height": 800}, {"width": 1280, "height": 900}
OPEN_ALL = "document.querySelectorAll('details').forEach(details => { details.open = true; })"
RENEWED_MS = 3000 * reports.REFRESH_SECONDS  # a page that is going to renew itself has done so by then
both = pytest.mark.parametrize("name", ["run", "study"])


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A run with names that bite, a study, and both while they are going on."""
    root = tmp_path_factory.mktemp("reports")
    source = made_up.images(root / "data")
    made_up.evaluation(made_up.raced(made_up.run(root / "run", source), "learned"))
    made_up.study(root / "study", source=source)
    made_up.run(root / "running", source, n_done=3)
    (made_up.study(root / "running-study", n_search=2, n_rounds=3, source=source) / "study.json").unlink()
    names = ("run", "study", "running", "running-study")
    return {name: reports.write(root / name, is_running=name.startswith("running")) for name in names}


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    if not Path(CHROMIUM).exists():
        pytest.fail(f"no Chromium at {CHROMIUM}: apt-get install -y chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, pages):
    """Open a report; whatever it complains about or asks of others is found at the end."""
    complaints, contexts = [], []

    def visit(name="run", **options):
        contexts.append(chromium.new_context(viewport=options.pop("viewport", DESK), **options))
        page, own = contexts[-1].new_page(), pages[name].as_uri()

        def asked(request):
            if not request.url.startswith("data:") and request.url.partition("#")[0] != own:
                complaints.append(f"asks {request.url}")

        page.on("request", asked)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        for event in ("console", "dialog"):
            page.on(event, lambda found, event=event: complaints.append(f"{event}: {found}"))
        page.goto(own)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


@both
def test_it_loads_without_a_word_and_every_figure_has_words_and_numbers(visit, name):
    page = visit(name)
    assert page.locator("h1").count() == 1
    assert page.locator("figure").count() > 5
    assert page.evaluate("[...document.images].filter(image => !image.naturalWidth).length") == 0
    for svg in page.locator("figure svg").all():
        assert svg.get_attribute("role") == "img"
        words = [page.locator(f"[id='{i}']").text_content() for i in svg.get_attribute("aria-labelledby").split()]
        assert all(word.strip() for word in words)
    assert all(image.get_attribute("alt").strip() for image in page.locator("img").all())
    for figure in page.locator("figure:has(svg)").all():
        assert figure.locator("table tbody tr").count() > 0
        assert figure.locator("h3").text_content().strip()
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))")
    assert levels[:3] == [1, 2, 3 if name == "run" else 2]  # the folder's name, the answer, the final or how to use it
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_the_slider_moves_the_chart_by_keyboard(visit):
    page = visit()
    slider, seen = page.get_by_role("slider", name="Round"), page.locator(".frame:not([hidden])")
    assert seen.count() == 1
    last = seen.locator("tbody").inner_html()
    slider.focus()
    for key, name in (("Home", "the start"), ("ArrowRight", "round 1 of 10")):
        page.keyboard.press(key)
        assert seen.count() == 1
        assert seen.locator("tbody").inner_html() != last
        assert slider.get_attribute("aria-valuetext") == page.locator("#round-name").inner_text() == name
        assert seen.locator("caption").text_content() == name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_by_the_system_and_by_the_button(visit, scheme):
    page = visit(color_scheme=scheme)

    def is_as(scheme):
        colours = page.evaluate(
            "['body', 'figure', 'svg rect'].map(s => { const style = getComputedStyle(document.querySelector(s));"
            " return s === 'svg rect' ? style.fill : style.backgroundColor; })"
        )
        found = [sum(map(int, re.findall(r"\d+", colour)[:3])) / 3 for colour in colours]
        return max(found) < 60 if scheme == "dark" else min(found) > 200

    assert is_as(scheme)
    other, button = "light" if scheme == "dark" else "dark", page.get_by_role("button", name="Dark theme")
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == str(other == "dark").lower()
    assert is_as(other)


@pytest.mark.parametrize("name", ["run", "study", "running", "running-study"])
@pytest.mark.parametrize("opened", [False, True])
def test_a_phone_needs_no_horizontal_scroll_bar(visit, name, opened):
    page = visit(name, viewport=PHONE)
    if opened:
        page.evaluate(OPEN_ALL)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    sizes = page.evaluate(
        """[...document.querySelectorAll('figure svg text')].filter(text => text.getBoundingClientRect().height)
        .map(text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""
    )
    words = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.checkVisibility() && e.innerText?.trim())"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert len(sizes) > 100
    assert min(sizes + words) >= 11  # pixels


@pytest.mark.parametrize("scheme", ["light", "dark"])
@both
def test_axe_finds_nothing(visit, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = visit(name, color_scheme=scheme)
    page.evaluate(OPEN_ALL)
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []


def test_whatever_a_name_is_it_is_shown_as_text(visit):
    page = visit()
    shown = page.evaluate("document.body.innerText")
    assert all(shown.count(text) > 1 for text in (*made_up.HOSTILE, made_up.LONG))
    assert page.locator("script").count() == 1
    assert page.locator("img[onerror], img[src=x]").count() == 0
    cell = page.locator("tbody th", has_text=made_up.HOSTILE[2]).first  # from right to left, unlike its neighbours
    assert cell.locator("bdi").count() == 1
    assert cell.locator("xpath=..").locator("td").first.inner_text() == "91.35 % (91.04 to 91.65)"


def test_all_controls_are_reached_by_the_keyboard(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    names = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        names.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"round", "SUMMARY", "DIV"} <= names


def test_a_running_search_renews_its_page_and_forgets_nothing(visit):
    page = visit("running", reduced_motion="reduce")
    assert "round 3 of 10 is done" in page.locator(".notice").inner_text()
    content = page.locator("meta[http-equiv=refresh]").get_attribute("content")
    assert content == str(reports.REFRESH_SECONDS)
    page.locator("#pies > summary").click()
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Dark theme").press("Enter")
    page.evaluate("scrollTo({top: 700, behavior: 'instant'})")
    page.wait_for_event("load", timeout=RENEWED_MS)
    assert page.locator("#pies").get_attribute("open") is not None
    assert page.locator("#round-name").inner_text() == "round 1 of 10"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("scrollY") == pytest.approx(700, abs=2)


def test_a_running_study_renews_its_page_and_this_can_be_stopped(visit):
    page = visit("running-study")
    assert "The study is running: 2 of 2 searches are done" in page.locator(".notice").inner_text()
    page.locator("#side-table > summary").click()
    page.wait_for_event("load", timeout=RENEWED_MS)
    assert page.locator("#side-table").get_attribute("open") is not None
    page.evaluate("window.isOld = true")
    page.get_by_role("button", name="Stop refreshing").click()
    page.wait_for_timeout(1000 * reports.REFRESH_SECONDS + 1500)
    assert page.evaluate("window.isOld") is True


def test_it_says_all_without_a_script(visit):
    page = visit(java_script_enabled=False)
    assert page.locator(".frame:not([hidden])").count() == 1
    assert page.locator(".frame:not([hidden]) tbody tr").last.is_visible()
    page.locator("#pies > summary").click()  # one click away, as is what only researchers ask for
    assert page.locator("#pie").is_visible()
    assert not page.locator("#entropy").is_visible()
    page.locator("#numbers > summary").click()
    assert page.locator("#entropy").is_visible()


@both
def test_it_prints_on_white_and_what_is_opened(visit, name):
    page, setting = visit(name, color_scheme="dark"), "#settings ~ details"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 33, 41)"
    for drawn in (
        ".whisker",
        ".dot",
        *([".bar i"] if name == "run" else []),
    ):  # by their background, which browsers do not print unasked
        assert page.evaluate(f"getComputedStyle(document.querySelector('{drawn}')).printColorAdjust") == "exact"
    assert not page.get_by_text("As a table").first.is_visible()
    assert (
        not page.locator("#settings, #researchers").filter(visible=True).count()
    )  # nor is a heading without anything under it
    assert page.locator("#use").is_visible()
    whole = page.locator("figure, tr, .mark, .frame").evaluate_all(
        "all => all.map(e => getComputedStyle(e).breakInside)"
    )
    assert set(whole) == {"avoid"}  # no chart is cut by the end of a page
    assert len(page.pdf()) > 10_000
    page.emulate_media(media="screen")
    page.locator(f"{setting} summary").first.click()
    page.emulate_media(media="print")
    assert page.locator("#settings").is_visible()
    assert page.locator(f"{setting} pre").first.is_visible()


def test_the_table_of_an_evaluation_fits_a_phone(visit):
    page = visit(viewport=PHONE)
    table = page.locator("figure:has(#accuracies-title) .scroll")
    width, needed = table.evaluate("box => [box.clientWidth, box.scrollWidth]")
    assert (needed, table.locator("td").last.is_visible()) == (width, True)
    assert table.locator("tbody td").evaluate_all("cells => Math.min(...cells.map(cell => cell.clientWidth))") > 30


def test_a_phone_shows_the_numbers_that_matter(visit):
    page = visit("study", viewport=PHONE)
    for row in page.locator("#stability ~ .scroll tbody tr").all():
        box = row.locator("td").bounding_box()
        assert box["x"] + box["width"] <= PHONE["width"]
    headers = page.locator("figure:has(#accuracies-title) thead th").all_inner_texts()
    assert headers[1:3] == ["accuracy, 95 % interval", "to uniform, points"]


def test_a_phone_cuts_no_command_and_no_header_and_aligns_percentages(visit):
    page = visit(viewport=PHONE)
    for command in page.locator("#use ~ .usage pre").all():  # moved sideways, not cut at a hyphen
        assert (command.evaluate("e => getComputedStyle(e).overflowX"), command.get_attribute("tabindex")) == (
            "auto",
            "0",
        )
        n_lines = command.inner_text().count("\n") + 1
        line = command.evaluate("e => parseFloat(getComputedStyle(e).lineHeight)")
        assert command.locator("code").bounding_box()["height"] <= (n_lines + 0.5) * line
    seen = page.locator(".frame:not([hidden])")
    assert seen.locator("thead th").first.bounding_box()["height"] < 40  # one line
    ends = seen.locator("td:nth-child(2) .bar").evaluate_all(
        "bars => bars.map(bar => { const text = document.createRange(); text.selectNode(bar.lastChild);"
        " return text.getBoundingClientRect().right; })"
    )
    assert max(ends) - min(ends) < 1
