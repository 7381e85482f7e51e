"""Real clips as new files: the predictions are those that the project gives, in any process."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import fotltn
from fotltn.project.config import read_config
from fotltn.project.method import without_axioms

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples" / "jaad"
#: A folder with the tables of all clips, if there is one.
ALL_CLIPS = os.environ.get("FOTLTN_JAAD")
CLIP = {"car_steps_10hz.csv.gz": "clip", "ped_steps_10hz.csv.gz": "clip", "videos.csv": "video"}


class Walker(nn.Module):
    """A GRU over what is seen of each pedestrian."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(27, 8, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, seen: Tensor, present: Tensor) -> Tensor:
        rows = (seen * present.unsqueeze(-1)).flatten(0, 1)
        output: Tensor = self.head(self.gru(rows)[0])
        return output.reshape(*seen.shape[:-1], 1)


def opened(path: Path, mode: str):
    return gzip.open(path, mode + "t") if path.suffix == ".gz" else path.open(mode)


def test_clips(data: Path, folder: Path) -> set[str]:
    """Write the tables of the clips for testing alone."""
    with opened(data / "videos.csv", "r") as file:
        clips = {r["video"] for r in csv.DictReader(file) if r["split"] == "test"}
    folder.mkdir()
    for name, column in CLIP.items():
        with opened(data / name, "r") as file, opened(folder / name, "w") as out:
            reader = csv.DictReader(file)
            writer = csv.DictWriter(out, reader.fieldnames or [])
            writer.writeheader()
            writer.writerows(row for row in reader if row[column] in clips)
    return clips


test_clips.__test__ = False  # type: ignore[attr-defined]


def by_fact(rows: list[dict[str, object]], clips: set[str]) -> dict[tuple[object, ...], float]:
    return {
        tuple(v for k, v in row.items() if k != "truth"): float(str(row["truth"]))
        for row in rows
        if row["trace"] in clips
    }


@pytest.mark.parametrize("own", [False, True], ids=["networks", "a module of one's own"])
def test_clips_for_testing_as_new_files(tmp_path, own):
    data = Path(ALL_CLIPS) if ALL_CLIPS else PROJECT / "data"
    text = (PROJECT / "project.toml").read_text()
    text = text.replace("epochs = 300", "epochs = 3").replace(
        'folder = "data"', f'folder = "{data}"'
    )
    (tmp_path / "project.toml").write_text(text)
    (tmp_path / "jaad.fot").write_text((PROJECT / "jaad.fot").read_text())
    torch.manual_seed(0)
    model = fotltn.train(tmp_path, predicates={"Crossing": Walker()} if own else None)
    assert model.warnings == ()
    model.save(tmp_path / "model")
    clips = test_clips(data, tmp_path / "new")
    code = (
        "import json, sys, fotltn\n"
        "from tests.project.test_jaad_apply import Walker\n"
        "modules = {'Crossing': Walker} if sys.argv[3] == 'True' else None\n"
        "model = fotltn.load_model(sys.argv[1], modules=modules).apply(sys.argv[2])\n"
        "print(json.dumps(model.predictions().to_pylist()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model"), str(tmp_path / "new"), str(own)],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    inside = by_fact(model.predictions().to_pylist(), clips)
    outside = by_fact(json.loads(done.stdout), clips)
    assert inside.keys() == outside.keys()
    assert {fact[0] for fact in inside} == {"Stop", "Run", "Crossing", "OnSidewalk"}
    assert outside == pytest.approx(inside, abs=1e-6)
    assert all((inside[f] >= 0.5) == (outside[f] >= 0.5) for f in inside)


def test_a_project_that_learns_trust_trains_without_axioms_too():
    config = without_axioms(read_config(PROJECT))
    assert config.objective.axioms == "none"
    assert config.objective.trust is None
