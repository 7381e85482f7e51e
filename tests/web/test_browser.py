"""A real browser: the ways that people go, with a mouse, a keyboard, and a narrow screen."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.web.conftest import TOKEN, Served

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

PAGES = [
    "/", "/axiom/A1", "/axiom/A3/cell?row=1&t=2&set=Stop(c1)@2=0", "/formula",
    "/formula?text=Stop(x)",
    "/formula?text=Stopp(x", "/predicates", "/predicate/Crossing", "/predicate/Crossing/row?row=5",
    "/compare", "/scene?t=2", "/nowhere",
]  # fmt: skip

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as tool:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        if path is None and not Path(tool.chromium.executable_path).exists():
            pytest.skip("there is no Chromium; install one, or run: playwright install chromium")
        found = tool.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser: Any, live_pair: Served) -> Iterator[Open]:
    """Open a page as somebody who has the address; whatever the console complains of fails."""
    complaints: list[str] = []
    contexts = []

    def go(path: str = "/", *, width: int = 1100, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, base_url=live_pair.url
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(f"/?token={TOKEN}")
        assert TOKEN not in page.url
        if path != "/":
            page.goto(path)
        return page

    yield go
    for context in contexts:
        context.close()
    assert [c for c in complaints if "404" not in c] == []


def ready(page: Any) -> Any:
    """A page whose heat map is drawn."""
    page.wait_for_selector(".heat[data-ready=true]")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
    return page


def test_from_the_theory_to_the_cause(visit):
    page = visit()
    page.wait_for_selector("table.axioms:not([data-pending])")
    page.get_by_role("link", name="A1", exact=True).click()
    ready(page)
    assert page.get_by_role("heading", level=1).inner_text() == "A1"
    assert painted(page) > 0
    first = page.locator("tbody tr").first
    lowest = first.locator("td").first.inner_text()
    first.get_by_role("link").click()
    page.wait_for_url("**/cell?*")
    assert page.locator(".facts dd").first.inner_text() == lowest
    rows = page.locator(".tree tbody tr")
    assert rows.count() >= 5
    assert rows.first.locator("td").nth(1).inner_text() == lowest
    assert page.locator("svg.line").count() >= 2
    assert page.get_by_role("heading", name="What would make it true").is_visible()


def painted(page: Any) -> int:
    """How many pixels of the heat map differ from its ground."""
    return int(
        page.evaluate(
            """() => {
              const map = document.querySelector(".heat").heat;
              const data = map.canvas.getContext("2d").getImageData(
                0, 0, map.canvas.width, map.canvas.height).data;
              let found = 0;
              for (let i = 0; i < data.length; i += 4) {
                const reddish = data[i] > data[i + 2] + 25;
                if (data[i + 3] > 0 && reddish) found += 1;
              }
              return found;
            }"""
        )
    )


def test_a_click_on_the_heat_map_opens_that_cell(visit):
    page = ready(visit("/axiom/A3"))
    box = page.locator(".heat-scroll").bounding_box()
    at = page.evaluate(
        """() => { const m = document.querySelector(".heat").heat;
            return [m.gutter + 2.5 * m.wide, m.head + 1.5 * m.tall]; }"""
    )
    page.mouse.move(box["x"] + at[0] + 1, box["y"] + at[1] + 1)
    said = page.get_by_role("status").inner_text()
    assert re.search(r"^trained: \w+, time 2: [01]\.\d\d$", said)
    page.mouse.click(box["x"] + at[0] + 1, box["y"] + at[1] + 1)
    page.wait_for_url("**/cell?*")
    assert re.search(r"/cell\?x=\w+&t=2$", page.url)  # a colleague can read the address
    heading = page.get_by_role("heading", level=1).inner_text()
    assert said.split(":")[1].split(",")[0].strip() in heading
    assert "at time 2" in heading


def test_a_wrong_and_a_right_formula(visit):
    page = visit("/formula")
    box = page.get_by_label("A formula")
    box.press_sequentially("forall x. G(Stopp(x) -> Run(x))", delay=5)
    page.get_by_text("did you mean 'Stop'?").wait_for()
    told = page.locator("pre.message").inner_text()
    assert "formula:1:13: error: unknown predicate 'Stopp'" in told
    assert "^^^^^^^^\n" in told
    assert page.locator(".formula-behind mark").inner_text() == "Stopp(x)"
    assert box.get_attribute("aria-invalid") == "true"
    box.fill("forall x. G(Stop(x) -> !Run(x))")
    ready(page)
    assert page.locator("pre.message").count() == 0
    assert page.locator(".formula-behind mark").count() == 0
    assert box.get_attribute("aria-invalid") == "false"
    shown = float(page.locator("#value").inner_text())
    answer = page.request.get(
        "/formula", params={"text": "forall x. G(Stop(x) -> !Run(x))", "format": "json"}
    )
    assert shown == pytest.approx(answer.json()["value"], abs=6e-4)
    assert "text=forall" in page.url  # the address can be kept
    box.fill("Stop(x)")
    page.get_by_text("Mean value").wait_for()


def test_two_models_side_by_side(visit):
    page = visit("/compare")
    text = page.locator("main").inner_text()
    assert "trained beside untrained" in text
    page.get_by_role("link", name="A6", exact=True).click()
    ready(page)
    assert page.evaluate("document.querySelector('.heat').heat.panels.map((p) => p.title)") == [
        "trained",
        "untrained",
    ]
    assert page.locator("select[name=sort]").input_value() == "difference"
    page.locator("tbody tr a").first.click()
    page.get_by_role("link", name="explain that").click()
    page.wait_for_url("**model=2*")
    assert page.locator("dl.facts").inner_text().count("untrained") >= 1


def test_with_the_keyboard_alone(visit):
    page = visit("/axiom/A3")
    ready(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator(".heat-scroll").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert ", time 3: " in page.get_by_role("status").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url("**t=3*")
    page.go_back()
    ready(page)
    page.locator(".heat-scroll").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # the region of the table, then its first link
    assert page.evaluate("document.activeElement.closest('tbody') !== null")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cell?*")


def test_a_hundred_thousand_bindings_scroll(visit):
    """Every place of a tall heat map can be reached, and only what is seen is fetched."""
    page = ready(visit("/axiom/A1"))
    asked = []
    page.on("request", lambda r: asked.append(r.url) if "format=bytes" in r.url else None)
    page.evaluate(
        """() => {
          const map = document.querySelector(".heat").heat;
          map.rows = 10_000_000;
          map.measure();
          map.top = 9_999_990;
        }"""
    )
    page.wait_for_timeout(200)
    top = page.evaluate("document.querySelector('.heat').heat.top")
    seen = page.evaluate("() => { const m = document.querySelector('.heat').heat;"
                         "return (m.view.height - m.head) / m.tall; }")  # fmt: skip
    assert top + seen == pytest.approx(10_000_000, abs=5)
    assert len(asked) <= 8
    starts = {int(re.search(r"from=(\d+)", url)[1]) for url in asked}  # type: ignore[index]
    assert starts
    assert all(start > 9_998_000 for start in starts)


def test_a_narrow_screen_does_not_scroll_sideways(visit):
    page = visit(width=360)
    for path in PAGES:
        page.goto(path)
        over = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert over <= 0, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_hard_to_reach_or_to_read(visit, scheme):
    """By the rules of axe; of the dark scheme those of contrast, on some pages."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(scheme=scheme)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")
    for path in PAGES if scheme == "light" else PAGES[1::3]:
        page.goto(path)
        if page.locator("[data-panels]").count():
            ready(page)
        rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else None
        found = axe.run(page, options=rules)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_what_if_a_fact_were_another(visit):
    page = visit("/axiom/A1/cell?row=1&t=2&model=2")
    before = page.locator("dl.facts dd").first.inner_text()
    box = page.locator("form.degree input[type=number]").first
    fact = box.get_attribute("aria-label")
    box.fill("0.125")
    box.press("Enter")
    page.get_by_role("heading", name="Axioms then").wait_for()
    assert "#what-if" in page.url
    assert page.get_by_label(fact, exact=True).input_value() == "0.125"
    page.wait_for_selector("#others:not([data-pending])")
    assert "…" not in page.locator("#others").inner_text()
    page.locator("tr", has=page.get_by_label(fact, exact=True)).get_by_role(
        "link", name="true"
    ).click()
    page.wait_for_url("**%3D1#what-if")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as a file of facts").click()
    assert saved.value.suggested_filename == "facts.csv"
    page.get_by_role("link", name="Undo all").click()
    page.wait_for_url(lambda url: "set=" not in url)
    assert page.locator("dl.facts dd").first.inner_text() == before


def test_what_takes_long_can_be_stopped(visit):
    page = visit("/formula")
    held = []
    page.route("**/formula?*part=*", lambda route: held.append(route))  # and nobody answers
    page.get_by_label("A formula").fill("F Stop(x)")
    button = page.get_by_role("button", name="Stop")
    button.wait_for()
    with page.expect_event("requestfailed"):
        button.click()
    assert page.locator("#messages").inner_text() == "Stopped."
    assert not button.is_visible()
    assert held


def test_a_scene_plays_and_follows_its_slider(visit):
    page = visit("/scene?model=2&t=3")
    scene = page.request.get("/scene?model=2&format=json").json()
    clock, told = page.locator("#clock"), page.locator(".player output")
    assert told.inner_text() == "time 3"
    clock.focus()
    page.keyboard.press("ArrowRight")
    assert told.inner_text() == "time 4"
    cells = page.locator("tbody tr").first.locator("td").all_inner_texts()
    bytes_now = [values[0][4] for values in scene["predicates"].values()]
    assert [float(text) for text in cells[:-1]] == pytest.approx(
        [byte / 254 for byte in bytes_now], abs=0.011
    )
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.locator(".player output", has_text=re.compile("time ([6-9]|1[0-5])")).wait_for()
    page.get_by_role("button", name="Pause").click()
    assert re.search(r"t=\d+", page.url)


def test_words_of_a_theory_are_completed(visit):
    page = visit("/formula")
    box = page.get_by_label("A formula")
    page.get_by_role("button", name="forall x.").click()
    box.press_sequentially("Cros", delay=5)
    page.get_by_role("button", name="Crossing(").wait_for()
    box.press("Tab")
    assert box.input_value() == "forall x. Crossing("
    assert box.evaluate("box => box === document.activeElement")
