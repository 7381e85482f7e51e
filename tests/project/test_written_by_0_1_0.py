"""Projects and models that version 0.1.0 wrote still load, answer and train as they did.

`tests/fixtures/v0_1_0` has three projects with the models that 0.1.0 trained, and what its
commands said of these: a recipe with definitions, networks as in the paper, and clips with
features, presence and entities of their own.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path

import pyarrow.csv
import pytest
from safetensors.torch import load_file

import fotltn
from fotltn.project.config import read_config
from fotltn.project.train import train
from fotltn.semantics.config import PMean

ROOT = Path(__file__).parent.parent / "fixtures" / "v0_1_0"
PROJECTS = ("clips", "paper", "recipe")
READ_ANEW = "clips"  # the one whose entities come and go
AS_READ = ("paper", "recipe")
QUERIES = {"clips": "F Smiles(x)", "paper": "F Crossing(x)", "recipe": "F Crossing(x)"}


def written(project: str, name: str):
    return json.loads((ROOT / project / name).read_text())


def facts(table) -> dict[tuple[object, ...], float]:
    names = [n for n in table.column_names if n != "truth"]
    columns = [[str(v or "") for v in table.column(n).to_pylist()] for n in names]
    degrees = table.column("truth").to_pylist()
    return dict(zip(zip(*columns, strict=True), degrees, strict=True))


@pytest.mark.parametrize("project", PROJECTS)
def test_a_model_gives_the_predictions_it_gave(project):
    model = fotltn.load_model(ROOT / project / "model")
    before = facts(pyarrow.csv.read_csv(ROOT / project / "predictions.csv"))
    now = facts(model.predictions())
    # Where entities are not present, nothing is predicted; 0.1.0 wrote a 0 there.
    assert now.keys() <= before.keys()
    assert all(now.get(f, 0.0) == pytest.approx(degree, abs=1e-6) for f, degree in before.items())


@pytest.mark.parametrize("project", PROJECTS)
def test_a_model_gives_the_answers_and_scores_it_gave(project):
    model = fotltn.load_model(ROOT / project / "model")
    before = [row["value"] for row in written(project, "query.json")["results"]]
    now = [row["value"] for row in model.ask(QUERIES[project]).rows()]
    if project != READ_ANEW:
        assert now == pytest.approx(before, abs=1e-6)
    metrics = model.metrics()
    assert metrics is not None
    old = written(project, "evaluate.json")["metrics"]["predicates"]
    for name, scores in metrics.as_dict()["predicates"].items():  # type: ignore[attr-defined]
        # What is defined follows from the others now; 0.1.0 took its degree from 0.5 on.
        decided = ("accuracy",) if scores["threshold"] is not None else ()
        for metric in ("pr_auc", "roc_auc", "brier", *decided):
            expected = old[name][metric]["value"]
            assert scores[metric]["value"] == (expected and pytest.approx(expected, abs=1e-6))


def test_where_entities_come_and_go_formulas_are_read_anew():
    """The mean of `F Smiles(x)` is over the points at which x is present, and it is said."""
    model = fotltn.load_model(ROOT / READ_ANEW / "model")
    said = [w.message for w in model.facts.warnings]
    assert [m for m in said if "formulas and axioms are read anew" in m]
    mean = model.semantics.eventually
    assert isinstance(mean, PMean)
    p = mean.p
    seen = defaultdict(list)
    for row in model.predictions(["Smiles"]).to_pylist():
        seen[row["trace"], row["arg1"]].append(row["truth"] ** p)
    for row in model.ask("F Smiles(x)").rows():
        powers = seen[row["trace"], row["x"]]
        assert row["value"] == pytest.approx((sum(powers) / len(powers)) ** (1 / p), abs=1e-6)
    assert not any(
        "read anew" in w.message
        for project in AS_READ
        for w in fotltn.load_model(ROOT / project / "model").facts.warnings
    )


@pytest.mark.parametrize("project", AS_READ)
def test_axioms_have_the_values_they_had(project):
    model = fotltn.load_model(ROOT / project / "model")
    now = {axiom.name: axiom for axiom in model.audit().axioms}
    for old in written(project, "audit.json")["axioms"]:
        axiom = now[old["axiom"]]
        for field in ("value", "all_false", "all_half"):
            assert getattr(axiom, field) == pytest.approx(old[field], abs=1e-6)
        # Facts without a label are unknown now; 0.1.0 took them as false.
        if axiom.labels is not None:
            assert axiom.labels >= old["labels"] - 1e-6
        if axiom.on_labels is not None and not axiom.on_labels.unlabelled:
            assert axiom.labels == pytest.approx(old["labels"], abs=1e-6)


@pytest.mark.parametrize("project", AS_READ)
def test_a_project_trains_to_the_weights_it_had(project, tmp_path):
    folder = tmp_path / project
    shutil.copytree(ROOT / project, folder, ignore=shutil.ignore_patterns("model"))
    if read_config(folder).unnamed:
        file = folder / "project.toml"
        file.write_text(f'preset = "paper"\n{file.read_text("utf-8")}', "utf-8")
    model = train(read_config(folder))
    before = load_file(ROOT / project / "model" / "weights.safetensors")
    weights = {n.removeprefix("weights/"): t for n, t in before.items() if n.startswith("weights/")}
    now = model.grounding.state_dict()
    assert now.keys() == weights.keys()
    for name, tensor in weights.items():
        assert (now[name] - tensor).abs().max() <= 1e-5, name
