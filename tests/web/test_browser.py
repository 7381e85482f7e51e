"""A real browser: the ways that people go, with a mouse, a keyboard, and a narrow screen."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fotltn.format import degree
from fotltn.web.sides import side_of_facts
from tests.browser import FOCUSED, Open, assert_easy, browser, opening, ready, settled, tab_to
from tests.pictures import scenes
from tests.web.conftest import TOKEN, Served, served

__all__ = ["browser"]

PAGES = [
    "/", "/axiom/A1", "/axiom/A3/cell?row=1&t=2&set=Stop(c1)@2=0", "/formula",
    "/formula?text=Stop(x)",
    "/formula?text=Stopp(x", "/predicates", "/predicate/Crossing", "/predicate/Crossing/row?row=5",
    "/compare", "/scene?t=2", "/nowhere",
]  # fmt: skip


@pytest.fixture
def visit(browser: Any, live_pair: Served) -> Iterator[Open]:
    """Open a page about two models."""
    yield from opening(browser, live_pair.url, TOKEN)


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


@pytest.mark.parametrize("half", [0, 1])  # as two tests, which two processes share
def test_pages_are_easy_to_reach_and_to_read(visit, half):
    page = visit()
    for path in PAGES[half::2]:
        page.goto(path)
        if page.locator("[data-panels]").count():
            ready(page)
        assert_easy(page)


def test_the_scheme_of_the_system_is_followed(visit):
    for scheme, colour in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)")):
        page = visit(scheme=scheme)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colour


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


def test_scripts_write_degrees_as_pages_do(visit):
    page = visit()
    values = [0, 1, 0.5, 1e-9, 0.0004, 0.0006, 0.99949, 0.9996, 1 / 254, 253 / 254, 0.8]
    for digits in (2, 3):
        told = page.evaluate("([v, digits]) => v.map((u) => degree(u, digits))", [values, digits])
        assert told == [degree(value, digits) for value in values]


def test_a_scene_plays_and_follows_its_slider(visit):
    page = visit("/scene?model=2&t=3")
    scene = page.request.get("/scene?model=2&format=json").json()
    clock, told = page.locator("#clock"), page.locator(".player output")
    assert told.inner_text() == "time 3"
    clock.focus()
    page.keyboard.press("ArrowRight")
    assert told.inner_text() == "time 4"
    cells = page.locator("[data-facts] tbody tr").first.locator("td").all_inner_texts()
    bytes_now = [values[0][4] for values in scene["predicates"].values()]
    assert [float(text.strip("<>")) for text in cells[:-1]] == pytest.approx(
        [byte / 254 for byte in bytes_now], abs=0.006
    )
    assert all(re.fullmatch(r"[<>]?[01]\.\d{3}", text) for text in cells[:-1])
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.locator(".player output", has_text=re.compile("time ([6-9]|1[0-5])")).wait_for()
    page.get_by_role("button", name="Pause").click()
    assert re.search(r"t=\d+", page.url)


def test_a_timeline_shows_a_predicate_and_leads_to_a_time(visit):
    page = visit("/scene?t=3")
    scene = page.request.get("/scene?format=json").json()
    line = page.locator(".timeline tbody svg").first
    violated = sum(map(bool, scene["violations"][0]))
    assert f"violations at {violated} time point" in line.get_attribute("aria-label")
    box = line.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 10.5 / 16, box["y"] + 5)
    assert page.locator(".player output").inner_text() == "time 10"
    assert "t=10" in page.url
    marks = page.locator(".timeline .now")
    assert {marks.nth(i).get_attribute("x") for i in range(marks.count())} == {"10"}
    assert marks.count() == len(scene["entities"])
    assert scene["predicate"] != "Stop"
    page.get_by_label("Predicate").select_option("Stop")
    page.locator("section:has(> #timeline)").get_by_role("button", name="Show").click()
    page.get_by_role("columnheader", name="Stop over time").wait_for()
    assert page.evaluate(FOCUSED) == "Timeline"
    assert page.locator(".player output").inner_text() == "time 10"  # which stays


def test_a_plane_moves_with_the_slider(browser, tmp_path):
    for running in served(scenes.plane(tmp_path)):
        for visit in opening(browser, running.url, TOKEN):
            page = visit("/scene?t=19")
            circles = page.locator("svg.plane circle")
            assert circles.count() == 5
            assert page.locator("svg.plane circle.wrong").count() == 3  # two cars, one person
            axes = page.locator("svg.plane .axes text").all_text_contents()
            assert axes[-2:] == ["x", "y"]
            assert {"−40", "0", "40"} <= set(axes)
            assert page.get_by_text("violates an axiom at this time point").is_visible()
            assert_easy(page)
            before = [circles.nth(i).get_attribute("cx") for i in range(5)]
            tab_to(page, "Time")
            for _ in range(3):
                page.keyboard.press("ArrowRight")
            after = [circles.nth(i).get_attribute("cx") for i in range(5)]
            moved = [one != other for one, other in zip(before, after, strict=True)]
            names = page.locator("svg.plane .dots text").all_text_contents()
            assert {name for name, far in zip(names, moved, strict=True) if far} == {"c1", "c2"}
            page.get_by_role("link", name="Brake").first.click()
            page.wait_for_url("**/axiom/Brake/cell?*")
            assert page.get_by_text("What would make it true").is_visible()


def test_many_pairs_and_a_search_by_name(browser, tmp_path):
    """Ten thousand entities, whose pairs are too many to list: violations first, any by name."""
    (tmp_path / "t.fot").write_text(
        "sort agent\npredicate Near(agent, agent), Stop(agent)\n"
        "axiom Mutual: forall x, y. G(Near(x, y) -> Near(y, x))\n"
    )
    pairs = [(f"a{i}", f"a{i + 1}", i % 2) for i in range(0, 60, 3)]
    rows = [f"Near,{x},{y},{t}" for x, y, t in pairs]
    rows += [f"Stop,a{i},,0" for i in range(10_000)]
    (tmp_path / "f.csv").write_text("\n".join(["predicate,arg1,arg2,time", *rows]) + "\n")
    for running in served(side_of_facts(tmp_path / "t.fot", [tmp_path / "f.csv"])):
        idle = [socket.create_connection((running.address.host, running.address.port), 10)
                for _ in range(300)]  # fmt: skip
        for visit in opening(browser, running.url, TOKEN):
            page = visit()  # while 300 connections without a token say nothing
            settled(page)
            page.get_by_role("link", name="Mutual", exact=True).click()
            ready(page)
            text = page.locator("main").inner_text()
            assert "20 of 200,000,000" in text
            assert "These are the first 20 with violations" in text
            tab_to(page, "Entity")
            page.keyboard.type("a33 a34")
            page.keyboard.press("Enter")
            page.wait_for_url("**find=a33*")
            ready(page)
            assert page.locator("tbody tr").count() == 1
            page.goto("/axiom/Mutual/cell?x=a4&y=a9999&t=1")
            assert "a9999" in page.get_by_role("heading", level=1).inner_text()
            assert page.locator("dl.facts dd").first.inner_text().startswith("1")
        for one in idle:
            one.close()


def test_rows_of_a_formula_are_sorted_searched_and_paged(browser, tmp_path):
    """Four hundred bindings, of which the first fifteen show at first."""
    (tmp_path / "t.fot").write_text("sort agent\npredicate Near(agent, agent)\n")
    names = [f"a{i:02}" for i in range(20)]
    pairs = [(x, y) for x in names for y in names if (x, y) != ("a07", "a19")]
    rows = [f"Near,{x},{y},{t}" for x, y in pairs for t in (0, 1)]
    (tmp_path / "f.csv").write_text("\n".join(["predicate,arg1,arg2,time", *rows]) + "\n")
    for running in served(side_of_facts(tmp_path / "t.fot", [tmp_path / "f.csv"])):
        for visit in opening(browser, running.url, TOKEN):
            page = visit("/formula")
            page.keyboard.type("Near(x, y)")
            page.get_by_text("1 to 15 of 400").wait_for()
            table = page.locator("section:has(> #rows) tbody")
            assert table.locator("tr").first.inner_text().startswith("x = a07, y = a19")
            page.get_by_role("link", name="Next").click()
            page.get_by_text("16 to 30 of 400").wait_for()
            assert page.evaluate(FOCUSED) == "Bindings, false ones first"
            tab_to(page, "Previous")
            page.get_by_label("Sort by").select_option("name")
            page.get_by_role("button", name="Show").click()
            page.get_by_role("heading", name="Bindings", exact=True).wait_for()
            assert table.locator("tr").first.inner_text().startswith("x = a00, y = a00")
            tab_to(page, "Entity")
            page.keyboard.type("a07 a19")
            page.keyboard.press("Enter")
            page.wait_for_url("**find=a07*")
            ready(page)
            assert table.locator("tr").count() == 2
            assert page.locator(".pager").count() == 0
            box = page.get_by_label("A formula")
            box.fill("!Near(x, y)")  # what was chosen stays
            page.locator("#result:not([data-again]) .formula", has_text="¬").wait_for()
            assert page.get_by_label("Entity").input_value() == "a07 a19"
            assert table.locator("tr").count() == 2
            page.get_by_label("Entity").fill("nobody")
            page.keyboard.press("Enter")
            page.get_by_text("No binding fits.").wait_for()
            assert_easy(page)


# --- with the keyboard alone ------------------------------------------------------------------


def test_what_if_with_the_keyboard(visit):
    page = visit("/axiom/A1/cell?row=1&t=2&model=2")
    label = page.locator("form.degree input[type=number]").first.get_attribute("aria-label")
    tab_to(page, label)
    page.keyboard.press("Control+A")
    page.keyboard.type("0.125")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Axioms then").wait_for()
    page.wait_for_selector("#others:not([data-pending])")
    tab_to(page, "Save as a file of facts")
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    assert "0.125" in Path(saved.value.path()).read_text("utf-8")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(FOCUSED) == "Undo all"
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "set=" not in url)


def test_compare_with_the_keyboard(visit):
    page = visit()
    tab_to(page, "Compare")
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare")
    tab_to(page, "A6")
    page.keyboard.press("Enter")
    ready(page)
    assert page.get_by_role("heading", level=1).inner_text() == "A6"
    tab_to(page, "Sort by")
    assert page.locator("select[name=sort]").input_value() == "difference"


def test_a_scene_with_the_keyboard(visit):
    page = visit("/scene")
    tab_to(page, "Play")
    page.keyboard.press("Enter")
    page.locator(".player output", has_text=re.compile("time [1-9]")).wait_for()
    assert page.evaluate(FOCUSED) == "Pause"
    page.keyboard.press("Enter")
    assert page.evaluate(FOCUSED) == "Play"
    tab_to(page, "Time")
    page.keyboard.press("Home")
    assert page.locator(".player output").inner_text() == "time 0"


def test_a_formula_is_stopped_with_the_keyboard(visit):
    page = visit("/formula")
    page.route("**/formula?*part=*", lambda _: None)  # nobody answers
    page.keyboard.type("F Stop(x)")  # the box has the focus
    page.get_by_role("button", name="Stop").wait_for()
    tab_to(page, "Stop")
    with page.expect_event("requestfailed"):
        page.keyboard.press("Enter")
    assert page.locator("#messages").inner_text() == "Stopped."


def test_what_is_typed_before_the_scripts_are_there_is_answered(visit):
    page = visit("/compare")
    held: list[Any] = []
    page.route("**/static/formula.js*", lambda route: held.append(route))
    with page.expect_request("**/static/formula.js*"):
        page.goto("/formula", wait_until="commit")
    page.get_by_label("A formula").fill("Stop(x)")
    held[0].continue_()
    page.get_by_role("heading", name="Bindings and time").wait_for()


def test_a_formula_without_an_answer_says_so(browser, live_pair):
    context = browser.new_context(base_url=live_pair.url)
    page = context.new_page()
    page.goto(f"/?token={TOKEN}")
    page.goto("/formula")
    page.route("**/formula?*part=*", lambda route: route.abort())
    page.get_by_label("A formula").fill("Stop(x)")
    page.get_by_text("There was no answer. Is the inspector still running?").wait_for()
    context.close()


def test_words_of_a_theory_are_completed(visit):
    page = visit("/formula")
    box = page.get_by_label("A formula")
    page.get_by_role("button", name="forall x.").click()
    box.press_sequentially("Cros", delay=5)
    page.get_by_role("button", name="Crossing(").wait_for()
    box.press("Tab")
    assert box.input_value() == "forall x. Crossing("
    assert box.evaluate("box => box === document.activeElement")
