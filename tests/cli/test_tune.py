"""`fotltn tune`, as people call it."""

import importlib.util
import json

import pytest

from fotltn.project.tune import TUNED
from tests.cli.test_shards import project

needs_optuna = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="needs the package optuna"
)
SEARCH = ("training.rate=0.001..0.1:log", "inputs.pump.embedding=1,2,3")


@needs_optuna
@pytest.mark.slow
def test_jobs_and_what_the_project_says(tmp_path, call):
    folder = project(tmp_path / "p")
    file = folder / "project.toml"
    file.write_text(f"{file.read_text('utf-8')}\n[tune]\nsearch = {json.dumps(SEARCH)}\n", "utf-8")
    status, out, _ = call("tune", folder, "--trials", "3", "--jobs", "2", "--json")
    told = json.loads(out)
    assert (status, told["ok"], len(told["trials"])) == (0, True, 3)
    assert set(told["best"]["settings"]) == {"training.rate", "inputs.pump.embedding"}
    status, out, err = call("tune", folder, "--trials", "4", "--jobs", "2")
    assert (status, "trial 4 of 4" in err, "tuned.toml" in out) == (0, True, True)
    status, out, err = call("train", folder / TUNED)
    assert (status, (folder / "model-tuned").is_dir()) == (0, True), err


@pytest.mark.skipif(importlib.util.find_spec("optuna") is not None, reason="needs no optuna")
def test_what_is_missing_is_named(tmp_path, call):
    status, _, err = call("tune", project(tmp_path / "p"), "--search", SEARCH[0])
    assert (status, "pip install optuna" in err) == (1, True)
