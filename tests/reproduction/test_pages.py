"""The pages about the experiments are those of the records."""

import json
import shutil

import pytest

from fotltn.reporting.plots import save
from reproduction import pages
from reproduction.paper.protocol import READING, Run
from reproduction.paper.reproduce import background
from reproduction.report.records import read
from tests.figures import assert_current, drawing

NAMES = ("reproduction", "reproduction-tables")
DRAWN = ("reproduction", "recipe")  # those with a figure, and a folder with records


@pytest.fixture(scope="module", autouse=True)
def _known_once():
    """What is known of the data sets is computed once."""
    known = background()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "background", lambda: known)
        yield


def test_the_pages_are_those_of_the_records():
    assert pages.stale() == [], "run: python -m reproduction pages"


@pytest.fixture
def docs(tmp_path):
    """A copy of the pages, and of what they are made of."""
    for name in DRAWN:
        shutil.copytree(pages.DOCS / name, tmp_path / name)
    for name in NAMES:
        shutil.copy(pages.DOCS / f"{name}.md", tmp_path)
    return tmp_path


def spoil(page):
    page.write_text(page.read_text("utf-8").replace("0.", "1."), "utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_stale_page_is_noticed(docs, name):
    spoil(docs / f"{name}.md")
    assert pages.stale(docs) == [f"{name}.md"]


def test_stale_pages_are_written_anew(docs):
    for name in NAMES:
        spoil(docs / f"{name}.md")
    for name in DRAWN:
        (docs / name / "results.png").unlink()
    pages.write(docs)
    for name in NAMES:
        right = (pages.DOCS / f"{name}.md").read_text("utf-8")
        assert (docs / f"{name}.md").read_text("utf-8") == right
    for name in DRAWN:
        assert (docs / name / "results.png").stat().st_size > 10_000


def test_the_record_is_the_whole_grid():
    found = read(pages.DOCS / "reproduction" / "records.parquet")
    assert len(found) == 640
    assert len({one.key for one in found}) == 640
    runs = [one for one in found if one.method != "Bayes limit"]
    for one in runs:
        assert one.seed == Run(one.data, one.method, one.fraction, one.repetition).seed
        assert one.setting == {**one.setting, "types": READING.types, "scale": READING.scale}
    sizes = {(one.data, one.method): one.parameters for one in runs}
    assert sizes["CarPed35K", "HTGNN"] == 588_874
    assert sizes["CarPed180K", "HTGNN"] == 1_337_674
    assert sizes["CarPed35K", "FOT-LTN"] == sizes["CarPed35K", "FOT-LTN+BK"] == 324_902


def test_the_readings_table_takes_what_the_search_writes(tmp_path):
    folder = pages.DOCS / "reproduction"
    rows = json.loads((folder / "readings.json").read_text("utf-8"))
    assert pages.readings(folder).count("\n") == len(rows) + 1
    (tmp_path / "readings.json").write_text(json.dumps(rows[:1]), "utf-8")
    assert pages.readings(folder).startswith(pages.readings(tmp_path))


@pytest.mark.parametrize("name", DRAWN)
def test_figures_are_those_of_the_records(name, tmp_path):
    """Drawn again they look the same, and their legends cover no data."""
    made = pages.figures()[pages.DOCS / name / "results"]
    made.canvas.draw()
    (legend,) = made.legends
    box = legend.get_window_extent()
    assert not any(box.overlaps(axis.get_window_extent()) for axis in made.axes)
    assert "fotltn 0.1.0" in made.get_supxlabel()  # which made the runs
    again, _ = save(made, tmp_path / "results")
    assert_current(drawing().contents(made), again, f"{name}/results.png")
