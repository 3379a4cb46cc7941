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


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A run with names that bite, a study, and a run that is going on."""
    root = tmp_path_factory.mktemp("reports")
    source = made_up.images(root / "data")
    made_up.evaluation(made_up.run(root / "run", source))
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
        context = chromium.new_context(viewport=options.pop("viewport", DESK), **options)
        contexts.append(context)
        page = context.new_page()
        own = pages[name].as_uri()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: is_outside(request.url, own) and complaints.append(f"asks {request.url}"))
        page.goto(own)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


def is_outside(url, own):
    return not url.startswith("data:") and url.partition("#")[0] != own


both = pytest.mark.parametrize("name", ["run", "study"])


@both
def test_it_loads_without_a_word_and_asks_nobody(visit, name):
    page = visit(name)
    assert page.locator("h1").count() == 1
    assert page.locator("figure").count() > 5
    broken = page.evaluate("[...document.images].filter(image => !image.naturalWidth).length")
    assert broken == 0


def test_the_slider_moves_the_chart_by_keyboard(visit):
    page = visit()
    slider = page.get_by_role("slider", name="Round")
    seen = page.locator(".frame:not([hidden])")
    assert seen.count() == 1
    last = seen.locator("svg").first.inner_html()
    slider.focus()
    page.keyboard.press("Home")
    assert seen.count() == 1
    assert seen.locator("svg").first.inner_html() != last
    assert slider.get_attribute("aria-valuetext") == "the start"
    assert page.locator("#round-name").inner_text() == "the start"
    page.keyboard.press("ArrowRight")
    assert page.locator("#round-name").inner_text() == "round 1 of 10"
    assert seen.locator("h3").first.inner_text() == "How often, round 1 of 10"


def test_dark_by_the_system_and_by_the_button(visit):
    def lightness(page):
        colours = page.evaluate(
            "['body', 'figure', 'svg rect'].map(s => { const style = getComputedStyle(document.querySelector(s));"
            " return s === 'svg rect' ? style.fill : style.backgroundColor; })"
        )
        return [sum(map(int, re.findall(r"\d+", colour)[:3])) / 3 for colour in colours]

    light, dark = visit(color_scheme="light"), visit(color_scheme="dark")
    assert min(lightness(light)) > 200
    assert max(lightness(dark)) < 60
    for page, is_dark in ((light, True), (dark, False)):
        button = page.get_by_role("button", name="Dark theme")
        button.focus()
        page.keyboard.press("Enter")
        assert button.get_attribute("aria-pressed") == str(is_dark).lower()
        assert max(lightness(page)) < 60 if is_dark else min(lightness(page)) > 200


@pytest.mark.parametrize("name", ["run", "study", "running", "running-study"])
@pytest.mark.parametrize("opened", [False, True])
def test_a_phone_needs_no_horizontal_scroll_bar(visit, name, opened):
    page = visit(name, viewport=PHONE)
    if opened:
        page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    sizes = page.evaluate(
        """[...document.querySelectorAll('figure svg text')].filter(text => text.getBoundingClientRect().height)
        .map(text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""
    )
    assert len(sizes) > 100
    assert min(sizes) >= 11  # pixels
    words = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.checkVisibility() && e.innerText?.trim())"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(words) >= 11


@both
def test_every_figure_has_words_and_numbers(visit, name):
    page = visit(name)
    for svg in page.locator("figure svg").all():
        assert svg.get_attribute("role") == "img"
        words = [page.locator(f"[id='{i}']").text_content() for i in svg.get_attribute("aria-labelledby").split()]
        assert all(word.strip() for word in words)
    for image in page.locator("img").all():
        assert image.get_attribute("alt").strip()
    for figure in page.locator("figure:has(svg)").all():
        assert figure.locator("table tbody tr").count() > 0
        assert figure.locator("h3").text_content().strip()
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@both
def test_axe_finds_nothing(visit, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = visit(name, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []


@pytest.mark.parametrize("text", [*made_up.HOSTILE, made_up.LONG])
def test_whatever_a_name_is_it_is_shown_as_text(visit, text):
    page = visit()
    shown = page.evaluate("document.body.innerText")
    assert shown.count(text) > 1
    assert page.locator("script").count() == 1
    assert page.locator("img[onerror], img[src=x]").count() == 0


def test_right_to_left_names_do_not_turn_their_neighbours_around(visit):
    page = visit()
    cell = page.locator("tbody th", has_text=made_up.HOSTILE[2]).first
    assert cell.locator("bdi").count() == 1
    row = cell.locator("xpath=..").locator("td").first
    assert row.inner_text() == "91.35 ± 0.30 %"


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


def test_a_running_search_renews_its_page_and_forgets_nothing(visit, pages):
    page = visit("running", reduced_motion="reduce")
    assert "round 3 of 10 is done" in page.locator(".notice").inner_text()
    content = page.locator("meta[http-equiv=refresh]").get_attribute("content")
    assert content == str(reports.REFRESH_SECONDS)
    page.locator("#positions > summary").click()
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Dark theme").press("Enter")
    page.evaluate("scrollTo({top: 700, behavior: 'instant'})")
    page.wait_for_event("load", timeout=3000 * reports.REFRESH_SECONDS)
    assert page.locator("#positions").get_attribute("open") is not None
    assert page.locator("#round-name").inner_text() == "round 1 of 10"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("scrollY") == pytest.approx(700, abs=2)


def test_a_running_study_renews_its_page(visit):
    page = visit("running-study")
    assert "The study is going on: 2 of 2 searches are done" in page.locator(".notice").inner_text()
    page.locator("#side-table > summary").click()
    page.wait_for_event("load", timeout=3000 * reports.REFRESH_SECONDS)
    assert page.locator("#side-table").get_attribute("open") is not None


def test_the_refreshing_can_be_stopped(visit):
    page = visit("running")
    page.evaluate("window.isOld = true")
    page.get_by_role("button", name="Stop refreshing").click()
    page.wait_for_timeout(1000 * reports.REFRESH_SECONDS + 1500)
    assert page.evaluate("window.isOld") is True


def test_it_says_all_without_a_script(visit):
    page = visit(java_script_enabled=False)
    assert page.locator(".frame:not([hidden])").count() == 1
    assert page.locator(".frame:not([hidden]) svg").first.is_visible()


def test_it_prints_on_white(visit):
    page = visit(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 33, 41)"
    for drawn in (".whisker", ".dot"):  # by their background, which browsers do not print unasked
        assert page.evaluate(f"getComputedStyle(document.querySelector('{drawn}')).printColorAdjust") == "exact"
    assert not page.get_by_text("As a table").first.is_visible()
    assert not page.locator("#settings").is_visible()  # nor is a heading without anything under it
    assert page.locator("#use").is_visible()
    assert len(page.pdf()) > 10_000


@both
def test_what_is_opened_is_printed(visit, name):
    page = visit(name)
    page.locator("#settings ~ details summary").first.click()
    page.emulate_media(media="print")
    assert page.locator("#settings").is_visible()
    assert page.locator("#settings ~ details pre").first.is_visible()


def test_a_phone_shows_the_numbers_that_matter(visit):
    page = visit("study", viewport=PHONE)
    for row in page.locator("#stability ~ .scroll tbody tr").all():
        box = row.locator("td").bounding_box()
        assert box["x"] + box["width"] <= PHONE["width"]
    headers = page.locator("#results ~ figure thead th").all_inner_texts()
    assert headers[1:3] == ["accuracy, 95 % interval", "to uniform, points"]
