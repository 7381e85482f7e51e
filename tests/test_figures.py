"""Figures of the documentation: drawn again from their records they look the same."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth
from fotltn.reporting.plots import save
from tests.figures import DOCS, assert_current, assert_shown, drawing
from tests.pictures.recorded import MANIFEST, now

pytest.importorskip("matplotlib")

#: What draws each figure again; of screenshots, tests/pictures has the list.
FIGURES = {
    "performance/growth.png": "tests/test_figures.py",
    "plots/calibration.png": "tests/test_docs.py",
    "plots/over_time.png": "tests/test_docs.py",
    "plots/precision_recall.png": "tests/test_docs.py",
    "plots/training.png": "tests/test_docs.py",
    "recipe/results.png": "tests/reproduction/test_pages.py",
    "reproduction/results.png": "tests/reproduction/test_pages.py",
}

#: Screenshots of data that may not be passed on.
BY_HAND = {"caviar/mc1.png", "caviar/mws1.png"}


def test_the_figure_of_growth_is_that_of_its_record(tmp_path):
    record = json.loads((DOCS / "performance" / "growth.json").read_text("utf-8"))
    figure = growth.drawn(record)
    figure.canvas.draw()
    told = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert told == [["does not fit\nwith 1,000 entities"]] * 2  # why the dense line ends
    assert record["torch"] in figure.get_supxlabel()
    (legend,) = figure.legends
    assert not any(legend.get_window_extent().overlaps(a.get_window_extent()) for a in figure.axes)
    made, _ = save(figure, tmp_path / "growth")
    assert_current(drawing().contents(figure), made, "performance/growth.png")


def changed(line: str, times: float, places: slice = slice(None)) -> dict[str, Any]:
    """What the figure of growth shows if a line of its record, or a part of it, is multiplied."""
    record = json.loads((DOCS / "performance" / "growth.json").read_text("utf-8"))
    for row in record["rows"][places]:
        if line in row:
            row[line] *= times
    shown: dict[str, Any] = drawing().contents(growth.drawn(record))
    return shown


@pytest.mark.parametrize("line", ["ms", "MB", "dense, ms", "dense, MB"])
@pytest.mark.parametrize("places", [slice(None), slice(1, 2)], ids=["a line", "a point"])
def test_a_changed_record_is_noticed(line, places):
    recorded = json.loads((DOCS / "figures.json").read_text("utf-8"))["performance/growth.png"]
    assert_shown(changed(line, 1.0), recorded, "growth.png")
    with pytest.raises(AssertionError, match=r"growth\.png is stale; run: make figures"):
        assert_shown(changed(line, 2.0, places), recorded, "growth.png")


def test_a_changed_word_or_colour_is_noticed():
    recorded = json.loads((DOCS / "figures.json").read_text("utf-8"))["performance/growth.png"]
    words = {**recorded, "texts": [text.replace("entities", "cars") for text in recorded["texts"]]}
    (line, *rest), *others = recorded["axes"]
    colour = {**recorded, "axes": [[{**line, "colour": "#000000"}, *rest], *others]}
    for other in (words, colour):
        with pytest.raises(AssertionError, match="is stale"):
            assert_shown(other, recorded, "growth.png")


def test_a_picture_that_was_drawn_alone_is_noticed(tmp_path, monkeypatch):
    """Its file is not the one that was written with the record of what it shows."""
    recorded = json.loads((DOCS / "figures.json").read_text("utf-8"))["performance/growth.png"]
    shutil.copytree(DOCS / "performance", tmp_path / "performance")
    for file in ("figures.json", "draw_figures.py"):
        shutil.copy(DOCS / file, tmp_path)
    monkeypatch.setattr("tests.figures.DOCS", tmp_path)
    picture = tmp_path / "performance" / "growth.png"
    assert_current(recorded, picture, "performance/growth.png")
    picture.write_bytes((DOCS / "plots" / "training.png").read_bytes())
    with pytest.raises(AssertionError, match="is not the picture of docs"):
        assert_current(recorded, picture, "performance/growth.png")


def test_every_picture_is_made_by_a_program():
    pictures = json.loads((DOCS / "pictures.json").read_text("utf-8"))["pictures"]
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.png")}
    assert there == FIGURES.keys() | pictures.keys() | BY_HAND
    assert json.loads((DOCS / "figures.json").read_text("utf-8")).keys() == FIGURES.keys()


def test_every_picture_is_shown():
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "reproduction/README.md"]
    shown = {
        (page.parent / link).resolve().relative_to(DOCS).as_posix()
        for page in pages
        for link in re.findall(r"!\[[^\]]*\]\(([^)#]+\.png)\)", page.read_text("utf-8"))
    }
    assert shown == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.png")}


def test_pictures_show_pages_as_they_are():
    """A page that says something new needs a new picture; `make pictures` takes all of them."""
    recorded = json.loads(MANIFEST.read_text("utf-8"))["templates"]
    stale = [name for name, words in now().items() if recorded.get(name) != words]
    assert stale == [], f"pictures are older than {', '.join(stale)}; run: make pictures"


def test_the_text_about_a_picture_says_what_it_shows():
    text = (DOCS / "inspect.md").read_text("utf-8")
    about = text[text.index("\n3. ") : text.index("inspect/cell.png")]
    told = re.findall(r"`([\w()]+)`|time (\d+)", about)
    shown = "\n".join(json.loads(MANIFEST.read_text("utf-8"))["pictures"]["inspect/cell.png"])
    assert len(told) >= 4
    for name, time in told:
        assert re.search(rf"\b{re.escape(name or time)}(?!\w)", shown), name or time


def test_figures_have_one_style():
    """No program outside the theme chooses how figures look."""
    root = Path(__file__).resolve().parent.parent
    places = [
        f"{path.relative_to(root)}: {word}"
        for folder in ("fotltn", "reproduction", "benchmarks", "examples", "docs")
        for path in (root / folder).rglob("*.py")
        for word in ("pyplot", "rcParams", "tight_layout", "Figure(")
        if path.name != "theme.py" and word in path.read_text("utf-8")
    ]
    assert places == []
