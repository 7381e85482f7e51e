"""The screenshots of the documentation, of pages as a browser shows them.

`make pictures` writes them, with what the pages said, into docs. Without FOTLTN_PICTURES=write,
they are taken into a folder that goes, and compared with those of the documentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fotltn import __version__, load_model
from fotltn.reporting.model_report import brief_page, model_content, model_page
from fotltn.web.live import Followed
from fotltn.web.serve import live_server
from fotltn.web.sides import side_of
from reproduction.paper.reproduce import background
from reproduction.report.html import sweep_content, sweep_page
from reproduction.report.records import read
from tests.browser import Open, browser, opening, settled, too_wide
from tests.figures import DOCS, assert_same
from tests.pictures import scenes
from tests.pictures.recorded import MANIFEST, Manifest
from tests.web.conftest import TOKEN, Served, served, serving

__all__ = ["browser"]

pytestmark = [pytest.mark.slow, pytest.mark.pictures]

WRITE = os.environ.get("FOTLTN_PICTURES") == "write"


@pytest.fixture(scope="module", autouse=True)
def _single_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def _as_for_a_reader() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def manifest() -> Iterator[Manifest]:
    """What was taken; written with the pictures."""
    taken = Manifest()
    yield taken
    if WRITE:
        MANIFEST.write_text(taken.text(), "utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    """A model of the paper's scene that learned from half of the labels, for too short a time."""
    return scenes.crossing(folder / "crossing", 100, size=16, steps=60, share=0.5)


@pytest.fixture(scope="module")
def inspector(model: Path) -> Iterator[Served]:
    yield from served(side_of(model))


@pytest.fixture(scope="module")
def two_models(model: Path, folder: Path) -> Iterator[Served]:
    early = scenes.crossing(folder / "ten-epochs", 10, size=16, steps=60, share=0.5)
    yield from served(side_of(early), side_of(model))


@pytest.fixture(scope="module")
def plane(folder: Path) -> Iterator[Served]:
    yield from served(scenes.plane(folder))


@pytest.fixture(scope="module")
def robots(folder: Path) -> Iterator[Served]:
    yield from served(scenes.worlds(folder))


@pytest.fixture(scope="module")
def watch(folder: Path) -> Iterator[Served]:
    with scenes.watched(folder / "state") as state:
        followed = Followed(state)
        yield from serving(lambda address: live_server(followed, address))


class Camera:
    """Opens pages, takes pictures of them, and keeps what the pages said."""

    def __init__(self, browser: Any, manifest: Manifest, folder: Path) -> None:
        self.browser, self.manifest, self.folder = browser, manifest, folder
        self.open: list[Iterator[Open]] = []

    def at(self, server: Served, path: str = "/", **window: Any) -> Any:
        visits = opening(self.browser, server.url, TOKEN)
        self.open.append(visits)
        return settled(next(visits)(path, **{"width": 1000, **window}))

    def file(self, path: Path, **window: Any) -> Any:
        size = {"width": window.pop("width", 1000), "height": window.pop("height", 800)}
        page = self.browser.new_page(viewport=size, **window)
        page.goto(path.as_uri())
        return page

    def take(self, page: Any, name: str) -> str:
        """Take a picture of what a window shows; gives the text of the page."""
        assert too_wide(page) <= 0
        page.mouse.move(0, 0)
        text: str = page.locator("main").inner_text()
        self.manifest.add(name, text)
        path = (DOCS if WRITE else self.folder) / name
        path.parent.mkdir(exist_ok=True)
        page.screenshot(path=str(path))
        if not WRITE:
            assert_same(path, DOCS / name, "make pictures")
        return text


@pytest.fixture
def camera(browser: Any, manifest: Manifest, tmp_path: Path) -> Iterator[Camera]:
    made = Camera(browser, manifest, tmp_path)
    yield made
    for visits in made.open:
        next(visits, None)  # closes the pages, and looks at what the console said


def test_the_inspector(camera, inspector):
    page = camera.at(inspector, height=820)
    assert "A1" in camera.take(page, "inspect/axioms.png")
    page = camera.at(inspector, "/axiom/A1", height=900)
    assert "✗" in page.evaluate(MARKED)
    text = camera.take(page, "inspect/axiom.png")
    assert "Worst violation" in text


#: The marks of rows that a heat map draws.
MARKED = """() => document.querySelector(".heat").heat.panels[0].parts.get(0).labels
  .map((label) => label.wrong ? "✗" : "").join("")"""


def test_a_cell_and_what_if(camera, inspector):
    page = camera.at(inspector, "/axiom/A1", height=1050)
    page.locator("dd.link a").first.click()
    page.wait_for_url("**/cell?*")
    text = camera.take(settled(page), "inspect/cell.png")
    assert "What would make it true" in text
    page.get_by_role("link", name="Try it").click()
    page.get_by_role("heading", name="Axioms then").wait_for()
    settled(page)
    page.evaluate("document.getElementById('what-if').scrollIntoView({ behavior: 'instant' })")
    text = camera.take(page, "inspect/what-if.png")
    assert "Undo all" in text
    assert "Save as a file of facts" in text


def test_a_formula(camera, inspector):
    page = camera.at(inspector, "/formula", height=620)
    page.get_by_label("A formula").fill("forall x. G(Stopp(x) -> F Run(x))")
    page.get_by_text("did you mean 'Stop'?").wait_for()
    assert "unknown predicate 'Stopp'" in camera.take(page, "inspect/formula.png")


def test_predictions_in_the_dark(camera, inspector):
    page = camera.at(inspector, "/predicate/Crossing", height=760, scheme="dark")
    camera.take(page, "inspect/predicate.png")


def test_a_phone_in_the_dark(camera, inspector):
    page = camera.at(inspector, "/axiom/A1", width=390, height=840, scheme="dark")
    camera.take(page, "inspect/phone.png")


def test_two_models(camera, two_models):
    page = camera.at(two_models, "/compare", height=1000)
    assert "ten-epochs beside crossing" in camera.take(page, "inspect/compare.png")


def test_a_scene_on_a_plane(camera, plane):
    page = camera.at(plane, "/scene?t=20", height=1440)
    text = camera.take(page, "inspect/scene.png")
    assert page.locator("svg.plane circle").count() == 5
    assert "time 20" in text
    assert "Brake" in text  # a car goes on where it should stop


def test_worlds_and_doubts(camera, robots):
    assert "192 sampled worlds" in camera.take(
        camera.at(robots, "/worlds", height=900), "inspect/worlds.png"
    )
    camera.take(camera.at(robots, "/doubts", height=900), "inspect/doubts.png")


def test_a_watch(camera, watch):
    page = camera.at(watch, height=1120)
    page.get_by_text("90 steps, running").wait_for()
    page.locator("#alarms li").nth(3).wait_for()
    page.locator("#open tbody tr").nth(1).wait_for()
    camera.take(page, "inspect/watch.png")


def test_a_report(camera, folder):
    model = load_model(scenes.crossing(folder / "reported", 100))
    content = model_content(model, "crossing")
    full, brief = folder / "report.html", folder / "brief.html"
    full.write_text(model_page(content), "utf-8")
    brief.write_text(brief_page(content), "utf-8")
    camera.take(camera.file(full, height=1000), "report/summary.png")
    page = camera.file(full, height=760, color_scheme="dark")
    first = page.locator("details[open]:has(svg.plot image), section:has(> figure image)").first
    first.evaluate("one => one.scrollIntoView({ behavior: 'instant' })")
    camera.take(page, "report/axiom.png")
    camera.take(camera.file(brief, height=1280), "report/brief.png")


def test_a_report_of_many_runs(camera, folder):
    records = read(DOCS / "reproduction" / "records.parquet")
    known = background()
    name = "reproduction/records.parquet"
    path = folder / "sweep.html"
    path.write_text(sweep_page(sweep_content(records, name, version=__version__, **known)), "utf-8")
    camera.take(camera.file(path, height=1180), "reproduction/report.png")
