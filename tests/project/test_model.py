"""Models: asked, saved, copied, loaded; damaged ones are refused."""

import hashlib
import json
import shutil
import sys

import pytest
import torch

from fotltn.errors import DataError, FotError
from fotltn.learn.store import read_folder, write_folder
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.method import without_axioms
from fotltn.project.model import Model, load_model, model_of
from fotltn.project.train import check_target, train_and_save
from fotltn.semantics.sparse import SparseTable
from tests.project.common import TOML, changed, project, same, trained

AXIOMS = ("A1", "A2", "A3", "A4")
LOCAL = changed(("train = 0.5", 'train = 0.5\nlocal = ["agent"]\nflip = 0.1'))
DOUBLE = changed(
    ("[training]", '[machine]\ndtype = "float64"\n[training]'),
    ('facts = "cross-entropy"', 'facts = "noise-aware"\nlearn_flips = true'),
    ('"smooth"', '"free"'),
)
BATCHES = changed(
    ("clip = 5", 'batches = {by = "traces", size = 1}'), ("patience = 0", "patience = 2")
)
PAPER = changed(
    ('facts = "cross-entropy"\naxioms = "log"\ntogether = "sum"\n', ""),
    ("validation = 0.2\n", ""),
    ("weight = [[0, 0.1], [4, 1]]", "p = [[0, 1], [5, 6]]"),
)
KINDS = {"all": TOML, "local": LOCAL, "double": DOUBLE, "batches": BATCHES, "paper": PAPER}


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory) -> tuple[Model, Model]:
    """A model as it was trained, and one that was saved, copied and loaded."""
    home = tmp_path_factory.mktemp("project")
    model = trained(home, KINDS[request.param])
    model.save(home / "model")
    other = tmp_path_factory.mktemp("copy") / "elsewhere"
    shutil.copytree(home / "model", other)
    shutil.rmtree(home)  # loading needs no file of the project
    return model, load_model(other)


def test_all_tables_are_the_same(pair):
    first, second = (model.tables for model in pair)
    assert set(first.predicates) == set(second.predicates)
    for name, table in first.predicates.items():
        other = second.predicates[name]
        if isinstance(table, SparseTable):
            assert isinstance(other, SparseTable)
            assert same(table.index, other.index)
            assert same(table.value, other.value)
        else:
            assert same(table, other), name
    assert all(same(t, second.functions[n]) for n, t in first.functions.items())
    assert first.sizes == second.sizes
    assert same(first.lengths, second.lengths)


@pytest.mark.parametrize("at", [0, 3, "all"])
@pytest.mark.parametrize(
    "formula",
    ["Stop(x)", "Waits(x) -> F Near(x, y)", "exists y. Near(x, y) & height(y) > 2", "G Stop(x)"],
)
@pytest.mark.parametrize("semantics", [None, "product", "crisp"])
def test_answers_are_the_same(pair, formula, at, semantics):
    first, second = (m.ask(formula, at=at, semantics=semantics) for m in pair)
    assert first.times == second.times
    filled = [torch.nan_to_num(a.tensor.to(torch.float64), nan=-1.0) for a in (first, second)]
    assert same(*filled)
    rows = [list(answer.rows()) for answer in (first, second)]
    assert [str(r) for r in rows[0]] == [str(r) for r in rows[1]]


@pytest.mark.parametrize("axiom", AXIOMS)
def test_violations_are_the_same(pair, axiom):
    first, second = (m.violations(axiom, top=5) for m in pair)
    assert first.as_dict() == second.as_dict()
    assert pair[0].counterexample(axiom) == pair[1].counterexample(axiom)


def test_metrics_audit_and_the_rest_are_the_same(pair):
    first, second = pair
    assert str(first.metrics().as_dict()) == str(second.metrics().as_dict())
    assert first.audit().as_dict() == second.audit().as_dict()
    assert first.worst(7) == second.worst(7)
    assert first.predictions().equals(second.predictions())
    assert first.history == second.history
    assert (first.reason, first.flips) == (second.reason, second.flips)
    assert first.config == second.config
    assert first.theory.signature.predicates == second.theory.signature.predicates
    for a, b in zip(first.theory.axioms, second.theory.axioms, strict=True):
        assert (a.name, a.weight, a.formula) == (b.name, b.weight, b.formula)


def test_a_model_that_is_loaded_can_be_saved_again(pair, tmp_path):
    first, second = pair
    first.save(tmp_path / "a")
    second.save(tmp_path / "b")
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


# --- what is recorded -------------------------------------------------------------------------


def test_the_settings_that_were_used_are_recorded(tmp_path):
    config = without_axioms(read_config(project(tmp_path)))
    model = train_and_save(config, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.config.objective.axioms == "none"
    assert loaded.config.training.epochs == 6
    assert loaded.config.training.options == {"weight_decay": 0.01, "betas": [0.9, 0.99]}
    past = json.loads((tmp_path / "model" / "training.json").read_text())
    assert past["reason"] == "all epochs are done"
    assert past["best_epoch"] == model.best_epoch
    assert [e["number"] for e in past["history"]] == [1, 2, 3, 4, 5, 6]
    metrics = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert set(metrics["predicates"]) == {"Stop", "Slow", "Fast", "Near"}


def test_usual_settings_are_written_out(tmp_path):
    text = TOML.replace("[inputs.agent]\nembedding = 3\n", "").replace('time = "smooth"\n', "")
    model = trained(tmp_path, text.replace("reach = 1.5\n", ""))
    model.save(tmp_path / "model")
    shown = (tmp_path / "model" / "project.toml").read_text()
    assert "[inputs.agent]\nembedding = 0\n" in shown  # there are features


def test_without_features_networks_see_vectors(tmp_path):
    text = changed(("embedding = 3\n", "features = false\n"))
    model = trained(tmp_path, text)
    assert model.config.inputs["agent"].embedding == 32


def test_early_stopping_is_told(tmp_path):
    text = changed(("patience = 0", "patience = 1"), ("rate = 0.02", "rate = 9.0"))
    model = trained(tmp_path, text)
    assert model.reason == "no improvement for 1 epochs"
    assert len(model.history) < 6


# --- ranking ----------------------------------------------------------------------------------


def test_the_worst_of_all_axioms_by_their_share_of_all_error(tmp_path):
    model = trained(tmp_path)
    every = model.worst(10_000)
    assert sum(r.share for r in every) == pytest.approx(1, abs=1e-4)
    ranks = [(r.cell.violated, r.share) for r in every]
    assert ranks == sorted(ranks, reverse=True)
    assert {violated for violated, _ in ranks} == {True, False}
    assert model.worst(3) == every[:3]
    weights = {"A1": 0.5, "A2": 2.0, "A3": 1.0, "A4": 1.0}
    errors = {n: weights[n] * (1 - model.violations(n).value) ** 2 for n in AXIOMS}
    for name in AXIOMS:
        own = sum(r.share for r in every if r.axiom == name)
        assert own == pytest.approx(errors[name] / sum(errors.values()), abs=1e-4)


# --- what is refused --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    trained(folder).save(folder / "model")
    return folder / "model"


FILES = (
    "README.md", "domain.json", "manifest.json", "metrics.json", "project.toml", "theory.fot",
    "training.json", "weights.safetensors",
)  # fmt: skip


@pytest.fixture
def copy(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "model")
    return tmp_path / "model"


def test_the_files_of_a_model(saved):
    assert tuple(sorted(f.name for f in saved.iterdir())) == FILES


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["cut", "changed", "emptied", "removed", "longer"])
def test_damage_is_refused(copy, name, how):
    file = copy / name
    data = file.read_bytes()
    middle = len(data) // 2
    match how:
        case "cut":
            file.write_bytes(data[:-1])
        case "changed":
            file.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        case "emptied":
            file.write_bytes(b"")
        case "removed":
            file.unlink()
        case "longer":
            file.write_bytes(data + b"\n")
    with pytest.raises(DataError, match="cannot read"):
        load_model(copy)


def test_other_versions_are_refused(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(DataError, match="it has version 99 of the format"):
        load_model(copy)


def test_other_kinds_are_refused(tmp_path):
    write_folder(tmp_path / "x", {}, {}, kind="checkpoint")
    with pytest.raises(DataError, match="it is a 'checkpoint', not a 'model'"):
        load_model(tmp_path / "x")


#: Changes of a model by somebody who also writes the right digests.
FORGED = {
    "no settings": lambda _, d: d.pop("project.toml"),
    "no theory": lambda _, d: d.pop("theory.fot"),
    "no domain": lambda _, d: d.pop("domain.json"),
    "a layout of later": lambda _, d: d["domain.json"].update(layout=2),
    "a domain that is a list": lambda _, d: d.update({"domain.json": []}),
    "history that is a number": lambda _, d: d.update({"training.json": {"history": 3}}),
    "epochs of other parts": lambda _, d: d["training.json"].update(history=[{"code": "print()"}]),
    "no lengths": lambda _, d: d["domain.json"].update(lengths=[]),
    "lengths of text": lambda _, d: d["domain.json"].update(lengths=["x"]),
    "huge lengths": lambda _, d: d["domain.json"].update(lengths=[10**15, 1]),
    "entities of numbers": lambda _, d: d["domain.json"].update(entities=3),
    "fewer entities": lambda _, d: d["domain.json"]["entities"].update(agent=["a1"]),
    "no weights": lambda t, _: [t.pop(n) for n in list(t) if n.startswith("weights/")],
    "weights of another shape": lambda t, _: t.update({
        "weights/networks.Near.module.0.weight": torch.zeros(2, 2)
    }),
    "no features": lambda t, _: t.pop("features/agent"),
    "settings that are not TOML": lambda _, d: d.update({"project.toml": "[["}),
    "a theory of prose": lambda _, d: d.update({"theory.fot": "import os"}),
    "a table of a dimension too many": lambda t, _: t.update({
        "given/Car/table": t["given/Car/table"].unsqueeze(0)
    }),
    "a table of a dimension too few": lambda t, _: t.update({
        "given/Car/table": t["given/Car/table"][0]
    }),
    "a table of other degrees": lambda t, _: t["given/Car/table"].fill_(7),
    "a table of no numbers": lambda t, _: t["given/Car/table"].fill_(float("nan")),
    "a table of whole numbers": lambda t, _: t.update({
        "given/Car/table": t["given/Car/table"].long()
    }),
    "a function of no numbers": lambda t, _: t["functions/height"].fill_(float("inf")),
    "features of no numbers": lambda t, _: t["features/agent"].fill_(float("nan")),
    "features of other names": lambda _, d: d["domain.json"]["features"].update(agent=["speed"]),
    "labels outside the table": lambda t, _: t["stated/Near/index"].fill_(99),
    "labels without a truth": lambda t, _: t.update({"test/Near/truth": torch.zeros(3)}),
    "names in lists": lambda _, d: d["domain.json"].update(traces=[["r1"], ["r2"]]),
    "entities in lists": lambda _, d: d["domain.json"]["entities"].update(agent=[["a1"], "a2"]),
    "names that are not distinct": lambda _, d: d["domain.json"].update(traces=["r1", "r1"]),
    "a length of truth": lambda _, d: d["domain.json"].update(lengths=[True, 5]),
    "a table of facts of another shape": lambda _, d: d["domain.json"].update(
        tables={"Car": [[2, [3], 1], 0.0]}
    ),
    "an epoch of text": lambda _, d: d["training.json"]["history"][0].update(loss="low"),
    "trust in lists": lambda _, d: d["training.json"].update(trust={"A1": [1]}),
    "layers as wide as memory": lambda _, d: d.update({
        "project.toml": d["project.toml"].replace("hidden = [5]", "hidden = [2000000000]")
    }),
    "another theory": lambda _, d: d.update({"theory.fot": "sort agent\npredicate Car(agent)\n"}),
}  # fmt: skip


@pytest.mark.reliability
@pytest.mark.parametrize("case", FORGED)
def test_parts_that_do_not_fit_are_refused(copy, tmp_path, case):
    tensors, documents = read_folder(copy, kind="model")
    FORGED[case](tensors, documents)
    write_folder(tmp_path / "forged", tensors, documents, kind="model")
    with pytest.raises(FotError) as found:
        load_model(tmp_path / "forged")
    (first, *_) = found.value.diagnostics
    assert first.span is not None or "do not fit together: " in first.message


def test_loading_executes_nothing(copy, monkeypatch):
    """Neither pickles nor any module that was not there before."""
    load_model(copy)
    before = set(sys.modules)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("executed")

    for module, name in (("pickle", "loads"), ("pickle", "load"), ("torch", "load")):
        monkeypatch.setattr(sys.modules[module], name, refuse)
    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr("builtins." + name, refuse)
    load_model(copy)
    assert set(sys.modules) == before


def test_a_device_that_is_not_there_is_replaced_by_the_cpu(copy, tmp_path):
    tensors, documents = read_folder(copy, kind="model")
    text = documents["project.toml"]
    assert isinstance(text, str)
    documents["project.toml"] = text.replace('device = "cpu"', 'device = "cuda:77"')
    write_folder(tmp_path / "far", tensors, documents, kind="model")
    assert load_model(tmp_path / "far").config.device == "cpu"
    with pytest.raises(DataError, match="'cuda:77' cannot be used"):
        load_model(tmp_path / "far", device="cuda:77")


# --- where a model goes -----------------------------------------------------------------------


def digest(folder) -> dict[str, str]:
    return {
        str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in sorted(folder.rglob("*"))
        if f.is_file()
    }


def test_a_folder_of_other_things_is_never_overwritten(tmp_path, saved):
    config = read_config(project(tmp_path / "p"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    shutil.copytree(saved, tmp_path / "more")
    (tmp_path / "more" / "notes.txt").write_text("mine")
    write_folder(tmp_path / "kind", {}, {}, kind="checkpoint")
    before = digest(tmp_path)
    for name in ("mine", "file", "kind", "file/below", "p"):
        with pytest.raises(DataError, match="cannot write"):
            train_and_save(config, tmp_path / name)
    with pytest.raises(DataError, match=r"it would remove 'notes\.txt'"):
        load_model(saved).save(tmp_path / "more")
    assert digest(tmp_path) == before


def test_the_place_is_checked_before_training(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("")
    monkeypatch.setattr("fotltn.project.train.build", lambda *_: pytest.fail("it was built"))
    with pytest.raises(DataError, match=r"other files \('x'\)"):
        train_and_save(read_config(project(tmp_path / "p")), tmp_path / "mine")
    check_target(tmp_path / "new" / "deep")
    check_target(tmp_path / "empty")


def test_a_model_replaces_an_older_one(tmp_path):
    folder = project(tmp_path)
    train_and_save(read_config(folder), folder / "model")
    first = digest(folder / "model")
    (folder / "project.toml").write_text(changed(("seed = 3", "seed = 4")))
    train_and_save(read_config(folder), folder / "model")
    assert digest(folder / "model") != first
    assert load_model(folder / "model").config.training.seed == 4
    assert sorted(f.name for f in folder.iterdir()) == [
        "agents.csv", "facts.csv", "model", "places.csv", "project.toml", "theory.fot",
    ]  # fmt: skip


def test_training_twice_gives_the_same_bits(tmp_path):
    trained(tmp_path / "a").save(tmp_path / "m1")
    torch.rand(3)
    trained(tmp_path / "b").save(tmp_path / "m2")
    assert digest(tmp_path / "m1") == digest(tmp_path / "m2")


def test_before_training_there_is_a_model_too(tmp_path):
    model = model_of(build(read_config(project(tmp_path))))
    assert model.history == ()
    assert 0 < model.ask("Stop(x)").tensor.min() < 1


# --- facts of files ---------------------------------------------------------------------------


def test_metrics_of_given_facts(saved):
    model = load_model(saved)
    rows = {"predicate": ["Stop", "Stop"], "arg1": ["a1", "a2"], "time": [1, 2], "truth": [1, 0]}
    rows["trace"] = ["r2", "r2"]
    found = model.metrics([rows])
    assert found is not None
    one = found.predicates["Stop"]
    assert (one.facts, one.positive) == (2, 1)
    degrees = model.ask("Stop(x)", at="all").tensor
    score = [float(degrees[1, 0, 1]), float(degrees[1, 1, 2])]
    assert one.brier.value == pytest.approx(((score[0] - 1) ** 2 + score[1] ** 2) / 2)


WRONG_FACTS: dict[str, tuple[dict[str, object], str]] = {
    "an entity": ({"arg1": "a7"}, "Stop(a7) at 1: the model has no 'a7' of sort 'agent'"),
    "a trace": (
        {"trace": "r7"},
        "Stop(a1) at 1: the model has no trace 'r7'; it has 'r1', 'r2'",
    ),
    "no trace": ({"trace": None}, "Stop(a1) at 1 names no trace; the model has 'r1', 'r2'"),
    "a time": ({"time": 5}, "Stop(a1) at 5 is after the end of the model's trace, which is at 4"),
    "a given predicate": (
        {"predicate": "Car", "time": None},
        "no facts about what the model learns",
    ),
}


@pytest.mark.parametrize("case", WRONG_FACTS)
def test_facts_of_what_the_model_does_not_know(saved, case):
    change, message = WRONG_FACTS[case]
    row = {"predicate": "Stop", "arg1": "a1", "time": 1, "trace": "r1", "truth": 1} | change
    with pytest.raises(DataError) as found:
        load_model(saved).metrics([{k: [v] for k, v in row.items()}])
    assert message in str(found.value)


def test_static_facts_are_about_every_trace(saved):
    found = load_model(saved).metrics([{"predicate": ["Crowded"], "arg1": ["l2"], "truth": [1]}])
    assert found is not None
    assert found.predicates["Crowded"].facts == 2
