"""The card of a model: it says what the model is, the same every time, and is never read back."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from torch import nn

import fotltn
from fotltn.learn.store import read_folder, write_folder
from fotltn.project.model import KIND, Model
from tests.project.common import changed, trained
from tests.project.test_classifier import frame, make

OLD = Path(__file__).parent.parent / "fixtures" / "v0_1_0"


def card(model: Model, folder: Path) -> str:
    model.save(folder)
    return (folder / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return trained(tmp_path_factory.mktemp("project"))


def test_a_card_says_what_the_model_is(model, tmp_path):
    text = card(model, tmp_path / "model")
    metrics = model.metrics()
    assert metrics is not None
    assert text.startswith("# Model of Stop, Slow, Fast, Near, Waits, Crowded\n")
    for line in (
        "- `Near(agent, place)`, by a network with hidden layers of 4 units",
        "- `Stop(agent)`, by a network that chooses one of `Stop`, `Slow`, `Fast`",
        "- `Waits(agent)`, by its definition `Waits(x) := Y Stop(x) & exists y. Near(x, y)`",
        "- `static Crowded(place)`, by a logit for each fact",
        "- 2 traces of 5 time points",
        "- 3 entities of sort `agent`",
        "- 6 epochs, of which 3 was the best; it ended because all epochs are done",
        "- 'Crowded' has one logit for each fact of its own data",
        "fotltn predict MODEL -o predictions.csv",
    ):
        assert f"\n{line}\n" in text, line
    assert "3 features (`speed`, `colour=red`, `colour=blue`)" in text
    best = model.history[model.best_epoch - 1]
    for axiom in model.theory.axioms:
        assert f"- `{axiom.name}` {best.values[axiom.name]:.3f}: `" in text
    for name, row in metrics.predicates.items():
        assert f"| `{name}` | {row.facts} | {row.positive} | {row.pr_auc.value:.3f} |" in text
    labels = model.world.labels
    assert f"- {labels.total} labelled facts to learn from: " in text
    assert "Metrics of `Stop`, `Slow`, `Fast` rest on fewer than 30 facts" in text


def test_the_same_model_has_the_same_card(model, tmp_path):
    first = card(model, tmp_path / "a")
    assert card(model, tmp_path / "b" / "elsewhere") == first
    assert card(fotltn.load_model(tmp_path / "a"), tmp_path / "c") == first
    assert not re.search(r"20\d\d-|/tmp|/home", first)


def test_nothing_is_read_from_a_card(model, tmp_path):
    card(model, tmp_path / "model")
    tensors, documents = read_folder(tmp_path / "model", kind=KIND)
    for text in ("", "# Another\n\n- `Stop` 1.000\n", None):
        rest = {name: d for name, d in documents.items() if name != "README.md"}
        others = rest if text is None else {**rest, "README.md": text}
        write_folder(tmp_path / "other", tensors, others, kind=KIND)
        loaded = fotltn.load_model(tmp_path / "other")
        assert loaded.tables.predicate("Stop").equal(model.tables.predicate("Stop"))


def test_the_manifest_has_the_card_and_an_edited_one_is_refused(model, tmp_path):
    text = card(model, tmp_path / "model")
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert manifest["files"]["README.md"]["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    (tmp_path / "model" / "README.md").write_text(text + "more", "utf-8")
    with pytest.raises(fotltn.DataError, match=r"README\.md"):
        fotltn.load_model(tmp_path / "model")


@pytest.mark.parametrize("project", ["clips", "paper", "recipe"])
def test_models_without_a_card_load_and_have_one_when_saved(project, tmp_path):
    assert not (OLD / project / "model" / "README.md").exists()
    text = card(fotltn.load_model(OLD / project / "model"), tmp_path / "model")
    assert "## Axioms" in text
    fotltn.load_model(tmp_path / "model")


def test_a_model_that_travels_says_how(tmp_path):
    classifier = make(training={"epochs": 2}, inputs={"pump": {"changes": [1], "encoder": "gru"}})
    text = card(classifier.fit(frame()).model_, tmp_path / "model")
    assert "The model answers for other entities, traces and lengths" in text
    assert "fotltn predict MODEL --data NEW -o predictions.csv" in text
    assert "changed over 1 step; all of it through an encoder over time (`gru`)" in text
    assert "No facts were held back for testing" in text
    assert "wide 1" not in text
    moved = card(classifier.model_.apply({"wide 1": frame(days=2)}), tmp_path / "moved")
    assert "- 0 labelled facts to learn from\n" in moved
    assert "or was applied to these data after training" in moved


def test_learning_from_facts_alone_and_noise(tmp_path):
    toml = changed(
        ('axioms = "log"', 'axioms = "none"'), ("train = 0.5", "train = 0.5\nflip = 0.1")
    )
    text = card(trained(tmp_path / "p", toml), tmp_path / "model")
    assert "Training has not used them:" in text
    assert "- `A1`: `forall x. G(Stop(x) -> !Fast(x))`" in text
    assert "A share of 0.1 of the labels to learn from was flipped on purpose." in text
    bare = "sort s\npredicate A(s)"
    facts = {"predicate": ["A"], "arg1": ["a"], "time": [0]}
    model = fotltn.train(bare, facts=facts, learn=["A"], training={"epochs": 1})
    assert "There are none: the model has learned from facts alone." in card(
        model, tmp_path / "bare"
    )


def test_modules_of_your_own_are_named(tmp_path):
    theory = "sort s\npredicate A(s)\naxiom Q: forall x. G A(x)"
    rows = {"who": ["a", "b"], "t": [0, 0], "x": [0.5, 1.0], "a": [1, 0]}
    wide = fotltn.Wide(rows, "s", "who", "t", predicates={"a": "A"}, features=["x"])
    model = fotltn.train(
        theory, wide=wide, predicates={"A": nn.Linear(1, 1)}, training={"epochs": 1}
    )
    text = card(model, tmp_path / "model")
    assert "- `A(s)`, by the module `Linear`" in text
    assert 'fotltn.load_model("MODEL", modules={…})' in text


def test_names_from_data_cannot_break_out(tmp_path):
    feature = "x`\n# Title\n<script>\x1b[2J"
    rows = {"who": ["a", "b"], "t": [0, 0], feature: [0.5, 1.0], "a": [1, 0]}
    wide = fotltn.Wide(rows, "s", "who", "t", predicates={"a": "A"}, features=[feature])
    model = fotltn.train("sort s\npredicate A(s)", wide=wide, learn=["A"], training={"epochs": 1})
    text = card(model, tmp_path / "model")
    assert "(`x' # Title <script>\\u001b[2J`)" in text
    assert "\n# Title" not in text
