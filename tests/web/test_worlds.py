"""The pages of sampled worlds and doubtful labels, compared with what the library says."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import torch

from fotltn.project.config import read_config
from fotltn.project.train import train
from fotltn.web.sides import Side, side_of
from tests.browser import Open, assert_easy, browser, opening, ready
from tests.project.robots import project
from tests.web.conftest import TOKEN, Served, client_of, served
from tests.web.test_pages import HTML, get, text_of

__all__ = ["browser"]


@pytest.fixture(scope="module")
def robots(tmp_path_factory: pytest.TempPathFactory) -> Side:
    """A model whose degrees are shares of sampled worlds."""
    torch.set_default_dtype(torch.float32)
    folder = project(tmp_path_factory.mktemp("robots") / "robots")
    train(read_config(folder)).save(folder / "model")
    return side_of(folder)


@pytest.fixture(scope="module")
def live_worlds(robots: Side) -> Iterator[Served]:
    yield from served(robots)


@pytest.fixture
def asked(live_worlds: Served) -> Iterator[httpx.Client]:
    with client_of(live_worlds) as client:
        yield client


def test_worlds_are_listed_by_how_probable_they_are(asked, robots):
    posterior = robots.model.posterior
    content = get(asked, "/worlds", count="100")
    assert content["worlds"] == content["total"] == posterior.count
    below = [row["below_best"] for row in content["rows"]]
    assert below == sorted(below)
    assert below[0] == pytest.approx(posterior.best_density - float(posterior.density.max()))
    assert below[0] >= 0
    assert content["best"]["Faulty"] == int(posterior.best["Faulty"].sum())
    for row in content["rows"]:
        assert row["true"]["Faulty"] == int(posterior.worlds["Faulty"][row["world"]].sum())
    page = text_of(asked.get("/worlds", headers=HTML).text)
    assert f"{posterior.count} sampled worlds" in page
    assert "Signs" in page  # the soft axiom


def test_a_world_stands_beside_probabilities(asked, robots):
    posterior = robots.model.posterior
    row = get(asked, "/predicate/Faulty/row", x="r1", t="2")
    best, *sampled = row["worlds"]
    assert best == {"world": "best", "values": posterior.best["Faulty"][0, 1].float().tolist()}
    for one in sampled:
        truth = posterior.worlds["Faulty"][one["world"], 0, 1].float().tolist()
        assert one["values"] == truth
    body = asked.get("/predicate/Faulty", params={
        "format": "bytes", "show": "world", "world": "3", "sort": "name"}).content  # fmt: skip
    wanted = posterior.worlds["Faulty"][3, 0].to(torch.uint8) * 254
    assert body.endswith(bytes(wanted.numpy()))
    page = asked.get("/predicate/Faulty", params={"world": "3"}, headers=HTML).text
    assert "world 3" in page
    assert "previous world" in text_of(page)
    page = asked.get("/predicate/Faulty", params={"world": "best"}, headers=HTML).text
    assert "the most probable world" in page
    assert "previous world" not in text_of(page)


def test_labels_are_doubted(asked, robots):
    doubts = robots.model.doubts()
    content = get(asked, "/doubts", count="100")
    assert content["labels"] == len(doubts)
    assert content["expected_wrong"] == pytest.approx(doubts.expected())
    assert [row["label"] for row in content["rows"]] == [str(one) for one in doubts[:100]]
    assert [row["wrong"] for row in content["rows"]] == [one.wrong for one in doubts[:100]]
    for row, objections in zip(content["rows"], doubts.all_against(doubts[:100]), strict=True):
        assert [one["text"] for one in row["axioms"]] == list(map(str, objections.axioms))
        assert [*(one["text"] for one in row["axioms"]), *row["words"]] == objections.words
        addresses = [row["address"], *(one["address"] for one in row["axioms"])]
        for address in filter(None, addresses):
            assert asked.get(address).status_code == 200, address
    only = get(asked, "/doubts", predicate="Alarm", count="100")
    assert {row["predicate"] for row in only["rows"]} == {"Alarm"}
    assert len(only["rows"]) == len(doubts.of("Alarm")) == only["total"]


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/doubts?predicate=Near", 404, "there is no labelled predicate 'Near'"),
        ("/predicate/Faulty?world=99999", 400, "'world' must be a whole number from 0 to"),
        ("/predicate/Near?world=0", 404, "sampled worlds do not contain 'Near'"),
        ("/predicate/Faulty?show=world&format=bytes", 400, "which world to show"),
    ],
)
def test_what_there_is_not_is_told(asked, path, status, told):
    answer = asked.get(path)
    assert answer.status_code == status
    assert told in answer.json()["diagnostics"][0]["message"]


def test_facts_have_no_worlds(client):
    for path in ("/worlds", "/doubts"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "has no sampled worlds" in answer.json()["diagnostics"][0]["message"]
    assert "Doubts" not in client.get("/", headers=HTML).text


# --- in a browser -----------------------------------------------------------------------------

PAGES = (
    "/worlds",
    "/doubts",
    "/predicate/Faulty?world=1",
    "/predicate/Faulty?world=best",
    "/predicate/Faulty/row?x=r1&t=2",
)


@pytest.fixture
def visit(browser: Any, live_worlds: Served) -> Iterator[Open]:
    yield from opening(browser, live_worlds.url, TOKEN)


def test_from_a_doubt_to_a_world_with_the_keyboard(visit):
    page = visit()
    page.get_by_role("link", name="Doubts").press("Enter")
    page.get_by_role("heading", name="Doubtful labels").wait_for()
    page.locator("tbody th a", has_text="Faulty").first.press("Enter")
    page.wait_for_url("**/row?*")
    page.locator(".lines a").first.press("Enter")
    page.wait_for_url("**world=*")
    ready(page)
    titles = page.evaluate("document.querySelector('.heat').heat.panels.map((p) => p.title)")
    assert titles[-1] == "the most probable world"


def test_pages_of_worlds_are_easy_to_reach_and_to_read(visit):
    page = visit()
    for path in PAGES:
        page.goto(path)
        if page.locator("[data-panels]").count():
            ready(page)
        assert_easy(page)
