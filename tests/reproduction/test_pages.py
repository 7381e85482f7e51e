"""The pages about the experiments are those of the records."""

import json
import shutil

import pytest

from reproduction import pages
from reproduction.paper.protocol import READING, Run
from reproduction.paper.reproduce import background
from reproduction.report.records import read

NAMES = ("reproduction", "recipe")


@pytest.fixture(scope="module", autouse=True)
def _known_once():
    """What is known of the data sets is computed once."""
    known = background()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "background", lambda: known)
        yield


def test_the_pages_are_those_of_the_records():
    assert pages.stale() == [], "run: python -m reproduction pages"


@pytest.mark.parametrize("name", NAMES)
def test_a_stale_page_is_noticed_and_written_anew(tmp_path, name):
    for one in NAMES:
        shutil.copytree(pages.DOCS / one, tmp_path / one)
        shutil.copy(pages.DOCS / f"{one}.md", tmp_path)
    page = tmp_path / f"{name}.md"
    right = page.read_text("utf-8")
    page.write_text(right.replace("0.", "1."), "utf-8")
    assert pages.stale(tmp_path) == [page.name]
    (tmp_path / name / "results.png").unlink()
    pages.write(tmp_path)
    assert page.read_text("utf-8") == right
    assert pages.stale(tmp_path) == []
    assert (tmp_path / name / "results.png").stat().st_size > 10_000


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
