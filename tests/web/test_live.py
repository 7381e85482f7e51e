"""The page of a running watch, in a real browser and by its JSON."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fotltn.errors import DataError
from fotltn.monitor.journal import NOW, Journal
from fotltn.monitor.watch import Watch
from fotltn.syntax.load import parse_theory
from fotltn.web.live import Followed
from fotltn.web.serve import live_server
from tests.browser import FOCUSED, assert_easy, browser, objections, opening, tab_to
from tests.web.conftest import TOKEN, Served, client_of, serving

__all__ = ["browser"]

THEORY = """
sort ped
predicate Crossing(ped), Looking(ped), Safe(ped)
axiom Looks: forall y. G(Crossing(y) -> Looking(y))
axiom Ends: forall y. G(Crossing(y) -> F[<=3] Safe(y))
"""


class Running:
    """A watch that writes into a folder."""

    def __init__(self, folder: Path) -> None:
        self.watch, self.journal = Watch(parse_theory(THEORY)), Journal(folder)

    def go_on(self, *steps: list[Any]) -> None:
        self.journal.write(self.watch.steps(steps))
        self.journal.tell(self.watch, at_once=True)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    run = Running(tmp_path / "state")
    with run.journal:
        yield run


@pytest.fixture
def page_server(running: Running) -> Iterator[Served]:
    running.go_on([("Looking", "ann")])
    followed = Followed(running.journal.folder)
    yield from serving(lambda address: live_server(followed, address))


def test_a_watch_that_writes_no_more_is_not_said_to_go_on(running):
    running.go_on([("Looking", "ann")])
    followed, path = Followed(running.journal.folder), running.journal.folder / NOW
    assert followed.content()["quiet"] is None
    os.utime(path, times=(time.time() - 7384,) * 2)
    assert followed.content()["quiet"] == "2 h 3 min"


def test_what_is_new_is_there_at_the_next_look(running, page_server):
    with client_of(page_server) as client:
        before = client.get("/").json()
        assert (before["steps"], before["alarms"], before["open_in_all"]) == (1, [], 0)
        running.go_on([("Crossing", "<b>bo</b>")], [])
        after = client.get("/").json()
        assert [e["axiom"] for e in after["alarms"]] == ["Looks"]
        assert after["timeline"] == {"Looks": [0, 1, 0]}
        (cell,) = after["open"]
        assert (cell["axiom"], cell["needs"], cell["due"]) == (
            "Ends", "F[<=3] Safe(<b>bo</b>)", 4,
        )  # fmt: skip
        running.go_on([], [])
        ended = client.get("/").json()
        assert [(e["axiom"], e["step"]) for e in ended["alarms"]] == [("Ends", 4), ("Looks", 1)]
        assert ended["open"] == []
        assert client.get("/axiom/Looks").status_code == 404


def test_nobody_without_the_token(page_server):
    with client_of(page_server) as client:
        assert client.get("/", headers={"authorization": ""}).status_code == 401


def test_a_timeline_has_few_bars_however_long_it_is(running):
    running.go_on(*[[("Crossing", "bo")] if t % 10 == 0 else [] for t in range(1000)])
    content = Followed(running.journal.folder).content()
    assert content["width"] == 32
    assert len(content["timeline"]["Looks"]) == 32
    assert sum(content["timeline"]["Looks"]) == 100
    assert len(content["alarms"]) == 100


def test_a_line_that_is_not_yet_written_to_its_end_waits(running):
    running.go_on([("Crossing", "bo")])
    followed = Followed(running.journal.folder)
    path = running.journal.folder / "events.jsonl"
    line = json.dumps({"event": "violation", "axiom": "Looks", "step": 0, "number": 1})
    with path.open("a") as file:
        file.write(line[:10])
    followed.read()
    assert len(followed.alarms) == 1
    with path.open("a") as file:
        file.write(line[10:] + "\n")
    followed.read()
    assert len(followed.alarms) == 2


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(DataError, match="is not the folder of a watch"):
        Followed(tmp_path)


@pytest.fixture
def page(browser: Any, page_server: Served) -> Iterator[Any]:
    """The page as somebody opens it who has the address."""
    for visit in opening(browser, page_server.url, TOKEN):
        yield visit()


def test_a_browser_follows(running, page):
    page.get_by_text("1 step, running").wait_for()
    assert page.get_by_text("None so far.").is_visible()
    # Without a reload, what happens shows.
    running.go_on([("Crossing", "<b>bo</b>")], [])
    page.locator("#alarms li").wait_for()
    assert "Looks at step 1: y = <b>bo</b>" in page.locator("#alarms li").inner_text()
    assert "Looking(<b>bo</b>) at 1 false" in page.locator("#alarms li").inner_text()
    due = page.locator("#open tbody tr").inner_text().split("\t")
    assert [text.strip() for text in due] == [
        "Ends", "y = <b>bo</b>", "1", "F[<=3] Safe(<b>bo</b>)", "4",
    ]  # fmt: skip
    assert page.locator("#axioms svg rect").count() == 1
    running.go_on([], [])
    page.locator("#alarms li").nth(1).wait_for()
    assert page.locator("#open tbody tr").count() == 0
    running.journal.write(running.watch.finish())
    running.journal.tell(running.watch, at_once=True)
    page.get_by_text("5 steps, has ended").wait_for()
    assert page.locator("#alarms li").count() == 2


def test_the_page_is_easy_to_reach_and_to_read(running, page):
    page.get_by_text("1 step, running").wait_for()
    assert_easy(page)  # while nothing is there
    running.go_on(*[[("Crossing", f"somebody {n}")] for n in range(40)])
    page.locator("#alarms li").nth(40).wait_for()
    page.locator("#open tbody tr").first.wait_for()
    assert_easy(page)
    page.set_viewport_size({"width": 360, "height": 700})
    assert objections(page) == ""  # what scrolls there can be reached


def test_the_page_with_the_keyboard_alone(running, page):
    running.go_on(*[[("Crossing", f"somebody {n}")] for n in range(40)])
    page.locator("#alarms li").nth(40).wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Skip to content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Axioms and their violations"  # past what is above
    tab_to(page, "Alarms, the newest first")
    page.keyboard.press("End")
    scrolled = "document.querySelector('.alarms').scrollTop > 100"
    while not page.evaluate(scrolled):  # the page's rules let no other function wait for it
        page.wait_for_timeout(50)
    running.go_on([("Crossing", "one more")])
    page.get_by_text("y = one more").first.wait_for()
    assert page.evaluate(FOCUSED) == "Alarms, the newest first"  # what is new takes no focus
    tab_to(page, "Open obligations and their deadlines")
    tab_to(page, "as JSON")
    page.keyboard.press("Enter")
    page.wait_for_url("**format=json")
