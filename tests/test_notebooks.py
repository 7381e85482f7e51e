"""The notebooks: files that Jupyter opens, kept without outputs, and run from top to bottom."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

nbformat: Any = pytest.importorskip("nbformat", reason="the extra 'dev' is not installed")
nbclient: Any = pytest.importorskip("nbclient", reason="the extra 'dev' is not installed")
pytest.importorskip("ipykernel", reason="the extra 'dev' is not installed")

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

#: What readers are told that they will see, by notebook.
SEEN = {
    "tour": [
        "did you mean 'Stop'?",
        "tensor(0.6776)",
        "tensor(False)",
        "[[[0, 0, 1, 0, 0, 0],\n         [0, 0, 0, 0, 1, 0]]]",
    ],
    "own-data": [
        "tensor(True)",
        "[[[0, 0, 0, 1, 1, 0],\n         [0, 0, 0, 0, 0, 1]]]",
        "PosixPath('pumps.html')",
    ],
    "clips": ["12 clips of 20 to 70 steps", "A1     318   0.642   2.57", "(12, 0.833, 0.526)"],
}


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code(notebook: Any) -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")


def executed(path: Path, folder: Path) -> Any:
    """The notebook with its outputs, run in a folder that lies in a checkout as its own does."""
    (folder / "examples").symlink_to(ROOT / "examples")
    work = folder / "docs" / "notebooks"
    work.mkdir(parents=True)
    notebook = read(Path(shutil.copy(path, work)))
    client = nbclient.NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3")
    client.km = client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    client.execute(cwd=str(work), env=os.environ | {"PYTHONPATH": search})
    return notebook


def outputs(notebook: Any) -> tuple[str, int]:
    """All that is printed or shown as text, and how many outputs are tables or formulas."""
    texts, rich = [], 0
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            texts.append(output.get("text") or data.get("text/plain", ""))
            rich += "text/html" in data or "text/latex" in data
    return "\n".join(texts), rich


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_has_no_outputs(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.nbformat == 4
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    assert notebook.cells[0].source.startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_uses_public_names_alone(path):
    source = code(read(path))
    assert "import fotltn as fot" in source
    assert "from fotltn" not in source
    assert "import fotltn." not in source


@pytest.mark.parametrize(
    "name", ["tour", "own-data", pytest.param("clips", marks=pytest.mark.slow)]
)
def test_a_notebook_shows_what_it_says(name, tmp_path):
    shown, rich = outputs(executed(ROOT / "docs" / "notebooks" / f"{name}.ipynb", tmp_path))
    assert not [text for text in SEEN[name] if text not in shown]
    assert rich >= 4


def test_every_notebook_is_run():
    assert {path.stem for path in NOTEBOOKS} == set(SEEN)


def test_a_notebook_that_fails_is_noticed(tmp_path):
    path = tmp_path / "wrong.ipynb"
    cell = nbformat.v4.new_code_cell("1 / 0")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        executed(path, tmp_path)
