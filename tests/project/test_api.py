"""Learning from Python, in about ten lines."""

import dataclasses
import subprocess
import sys
from typing import Any

import pyarrow.csv as csv
import pytest
import torch
from torch import nn

import fotltn
from fotltn.learn.store import read_folder
from fotltn.project.scene import THEORY as FILE
from fotltn.project.scene import generate
from tests.project.common import THEORY, project, same, write

FEW = {"epochs": 5}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A folder with a theory and facts, as a user has them."""
    folder = tmp_path_factory.mktemp("scene")
    (folder / "theory.fot").write_text(FILE.read_text("utf-8"))
    write(generate(4, 4, 12, seed=1, close=0.4), folder)
    return folder


def test_the_ten_lines(scene, tmp_path, monkeypatch):
    monkeypatch.chdir(scene)
    model = fotltn.train(
        "theory.fot", facts=["facts.csv"], learn=["Stop", "Crossing"], train=0.5, training=FEW
    )
    found = model.metrics()
    assert found is not None
    assert 0 < found.mean["pr_auc"].value <= 1
    assert model.ask("Stop(x)", at=3).tensor.shape == (1, 8, 1)
    worst = model.violations("A1", top=5)
    assert 0 < len(worst) <= 5
    assert set(worst[0].binding) == {"x", "y"}
    model.save(tmp_path / "model")
    again = fotltn.load_model(tmp_path / "model")
    assert isinstance(again, fotltn.Model)
    assert again.violations("A1", top=5) == worst
    assert again.config == model.config
    assert model.grounding.open == ("Stop", "Crossing")
    assert len(model.history) == 5


def test_tables_in_memory_are_as_good_as_files(scene, tmp_path):
    frame = csv.read_csv(scene / "facts.csv")
    first = fotltn.train(
        scene / "theory.fot", facts=scene / "facts.csv", learn="Stop", training=FEW
    )
    text = (scene / "theory.fot").read_text()
    for theory, facts in (
        (text, frame),
        (fotltn.parse(text), [frame.slice(0, 50), frame.slice(50)]),
        (str(scene / "theory.fot"), frame.to_pydict()),
    ):
        model = fotltn.train(theory, facts=facts, learn=["Stop"], training=FEW)
        assert same(model.ask("Stop(x)").tensor, first.ask("Stop(x)").tensor)
        model.save(tmp_path / "model")
        loaded = fotltn.load_model(tmp_path / "model")
        assert same(loaded.ask("Stop(x)").tensor, first.ask("Stop(x)").tensor)


def test_definitions_and_settings(scene):
    model = fotltn.train(
        scene / "theory.fot",
        facts=[scene / "facts.csv"],
        learn=["Stop"],
        define={"Run(x)": "Car(x) & !Stop(x)", " OnSidewalk( x ) ": "Ped(x) & !Crossing(x)"},
        predicates={"Crossing": {"kind": "logits", "scale": 0.5}},
        exclusive=[["Car", "Ped"]],
        data={"by": "entities", "flip": 0.2},
        train=0.5,
        semantics="stable-product",
        p=3,
        inputs={"agent": {"embedding": 4, "time": "static"}},
        objective={"preset": "paper", "axiom_weights": {"A1": 2}},
        training={**FEW, "rate": 0.01},
        machine={"dtype": "float64"},
        seed=7,
    )
    run, stop, car, ped = (model.ask(f"{n}(x)").tensor for n in ("Run", "Stop", "Car", "Ped"))
    assert torch.allclose(run, car * (1 - stop), atol=1e-3)
    assert torch.allclose(car + ped, torch.ones_like(car))
    config = model.config
    assert (config.semantics, config.p, config.dtype) == ("stable-product", 3.0, "float64")
    assert (config.training.seed, config.data.seed, config.data.flip) == (7, 7, 0.2)
    assert config.objective.axiom_weights["A1"].at(0) == 2
    assert config.inputs["agent"].embedding == 4


@pytest.mark.reliability
def test_a_checked_theory_is_a_theory(scene):
    theory = fotltn.load(scene / "theory.fot")
    models = [
        fotltn.train(one, facts=scene / "facts.csv", learn="Stop", training=FEW)
        for one in (theory, fotltn.check(theory))
    ]
    first, second = (model.grounding.state_dict() for model in models)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.reliability
def test_an_error_about_a_theory_is_short(scene):
    with pytest.raises(fotltn.DataError) as caught:
        fotltn.train(["x" * 1000] * 1000, facts=scene / "facts.csv")  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


def test_test_facts_and_wide_tables_in_memory(scene):
    frame = csv.read_csv(scene / "facts.csv")
    split = frame.num_rows - 60
    tested = [r["predicate"] != "Close" for r in frame.to_pylist()]
    learned = frame.filter(tested)
    model = fotltn.train(
        scene / "theory.fot",
        facts=[frame.filter([not t for t in tested]), learned.slice(40)],
        test=learned.slice(0, 40),
        wide=[
            fotltn.Wide(
                {"who": [f"{k}{i + 1}" for k in "cp" for i in range(4)], "size": [*range(8)]},
                "agent", "who", features=["size"],
            )
        ],
        learn=["Stop", "Crossing", "Run", "OnSidewalk", "Car", "Ped"],
        training=FEW,
    )  # fmt: skip
    assert split > 0
    assert model.world.test is not None
    assert model.world.test.total == 40
    assert model.world.fixed.inputs["agent"].names == ("size",)


def test_a_project_by_its_folder_or_file(tmp_path):
    folder = project(tmp_path)
    seen: list[int] = []
    with pytest.warns(DeprecationWarning, match="pass the function in callbacks"):
        first = fotltn.train(folder, on_epoch=lambda e: seen.append(e.number))
    second = fotltn.train(str(folder / "project.toml"), checkpoints=tmp_path / "c")
    assert seen == [1, 2, 3, 4, 5, 6]
    assert same(first.ask("Stop(x)").tensor, second.ask("Stop(x)").tensor)


def test_what_is_stored_numbers_the_tables_in_memory(scene, tmp_path):
    frame = csv.read_csv(scene / "facts.csv")
    model = fotltn.train(
        (scene / "theory.fot").read_text(), facts=frame, learn=["Stop"], training=FEW
    )
    model.save(tmp_path / "model")
    documents = read_folder(tmp_path / "model", kind="model").documents
    assert 'file = "theory.fot"' in str(documents["project.toml"])
    assert 'facts = ["facts 1"]' in str(documents["project.toml"])


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "an unknown predicate": ({"learn": ["Stpo"]}, "unknown predicate 'Stpo'"),
    "a name that is none": ({"learn": [3]}, "learn[0]: expected text, not 3"),
    "no facts": ({"facts": []}, "there are no facts to learn from"),
    "facts of numbers": ({"facts": 3}, "expected tables of facts, not 3"),
    "a table of numbers": ({"facts": [3]}, "cannot read facts from a value of type 'int'"),
    "a head": ({"define": {"Run(x": "Stop(x)"}}, "expected a head such as 'Run(x)', not 'Run(x'"),
    "a formula": ({"define": {"Run(x)": "Stop(x"}}, "expected"),
    "an unknown setting": ({"training": {"epoch": 3}}, "unknown key 'training.epoch'"),
    "a setting of the wrong kind": ({"training": {"epochs": "3"}}, "expected a whole number"),
    "settings that are none": (
        {"training": 3},
        "training: expected a mapping with names as keys or None, not 3",
    ),
    "a value that TOML lacks": (
        {"training": {"epochs": {1}}},
        "training.epochs: a value of type 'set' cannot",
    ),
    "a share": ({"train": 2}, "data.train: expected a number from 0 to 1, not 2"),
    "p of a semantics that has none": ({"semantics": "product", "p": 2}, "theory.p: the semantics"),
    "a semantics": ({"semantics": "prodct"}, "did you mean 'product'?"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(scene, case):
    change, message = WRONG[case]
    given: dict[str, Any] = {
        "facts": [scene / "facts.csv"],
        "learn": ["Stop"],
        "training": FEW,
    } | change
    with pytest.raises(fotltn.FotError) as found:
        fotltn.train(scene / "theory.fot", **given)
    assert message in str(found.value)


def test_errors_of_settings_name_these_and_no_file(scene):
    with pytest.raises(fotltn.DataError) as error:
        fotltn.train(scene / "theory.fot", facts=scene / "facts.csv", training={"rate": "much"})
    assert str(error.value) == "error: training.rate: expected a number, not 'much'"


class Constant(nn.Module):
    """One logit for all that is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.zeros(1))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        return self.level.expand(*seen.shape[:-1], 1)


def test_modules_and_functions_of_ones_own(tmp_path):
    theory = """
    sort s
    predicate A(s), B(s), C(s)
    axiom Q: forall x. G(A(x) <-> B(x))
    """
    facts = {"predicate": ["A", "A", "C"], "arg1": ["a", "b", "a"], "time": [0, 1, 0]}
    module = Constant()

    def negated(given, features):
        assert features == {}
        return 1 - given.predicate("C")

    model = fotltn.train(
        theory, facts=facts, predicates={"A": module, "B": negated}, inputs={"s": {"embedding": 1}},
        training={"epochs": 40, "rate": 0.1},
    )  # fmt: skip
    assert module.level.item() > 0  # trained as it is
    degrees = torch.sigmoid(module.level.detach())
    assert same(model.ask("A(x)", at="all").tensor, degrees.expand(1, 2, 2))
    assert model.tables.predicate("B").tolist() == [[[0.0, 1.0], [1.0, 1.0]]]
    assert model.grounding.open == ("A",)
    assert model.truth.predicate("B").tolist() == [[[0.0, 1.0], [1.0, 1.0]]]
    assert model.audit().axiom("Q").on_labels is not None
    model.save(tmp_path / "model")
    with pytest.raises(fotltn.DataError, match="'A' is computed by the Python object 'Constant'"):
        fotltn.load_model(tmp_path / "model")
    loaded = fotltn.load_model(tmp_path / "model", modules={"A": Constant, "B": negated})
    assert same(loaded.tables.predicate("A"), model.tables.predicate("A"))
    assert same(loaded.tables.predicate("B"), model.tables.predicate("B"))
    with pytest.raises(fotltn.DataError, match=r"predicates\.D: the project mentions the unknown"):
        fotltn.train(theory, facts=facts, predicates={"D": module})


def test_a_project_says_everything_itself(tmp_path):
    with pytest.raises(fotltn.DataError, match="so its file holds all settings"):
        fotltn.train(project(tmp_path), learn=["Stop"])
    with pytest.raises(fotltn.DataError, match="expected a theory, its file or its text"):
        fotltn.train(3)  # type: ignore[arg-type]
    with pytest.raises(fotltn.DataError, match="no project"):
        fotltn.train(tmp_path / "no.toml")
    with pytest.raises(fotltn.ParseError):
        fotltn.train(THEORY + "axiom", facts={"predicate": ["Car"]})


def test_the_package_loads_without_what_learns():
    code = "import fotltn, sys; print('torch' in sys.modules, 'train' in dir(fotltn))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_training_loads_nothing_of_what_looks_at_models():
    code = "import sys, fotltn.project.api; print([m for m in sys.modules if m.startswith(%r)])"
    aside = ("fotltn.analysis.explain", "fotltn.reporting", "fotltn.web", "sklearn", "scipy")
    done = subprocess.run(
        [sys.executable, "-c", code % (aside,)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# --- learning from data -------------------------------------------------------------------------


def test_data_that_were_read_are_learned_from_as_their_files_are(scene, tmp_path):
    theory, file = fotltn.load(scene / "theory.fot"), scene / "facts.csv"
    of_file = fotltn.train(theory, facts=file, learn=["Stop", "Crossing"], train=0.5, training=FEW)
    data = fotltn.read(theory, file)
    model = fotltn.train(theory, data, learn=["Stop", "Crossing"], train=0.5, training=FEW)
    assert same(model.ask("Stop(x)").tensor, of_file.ask("Stop(x)").tensor)
    assert (of_file.world.test, model.world.test) != (None, None)
    model.save(tmp_path / "model")
    loaded = fotltn.load_model(tmp_path / "model")
    assert same(loaded.ask("Stop(x)").tensor, model.ask("Stop(x)").tensor)


def test_data_know_their_wide_tables_and_how_they_were_read():
    theory = fotltn.parse("sort pump\npredicate In(pump), Failed(pump)\naxiom A: forall x. F In(x)")
    rows = {"who": ["a", "a", "b"], "hour": [0, 1, 0], "failed": [0, 1, None],
            "level": [3.0, 1.0, 2.0], "of": ["m", "m", "n"]}  # fmt: skip
    table = fotltn.Wide(
        rows, "pump", "who", "hour", "of", {"failed": "Failed"}, features=["level"], presence="In"
    )
    data = fotltn.read(theory, wide=table, horizon=4, local=["pump"])
    model = fotltn.train(theory, data, learn=["Failed"], training=FEW)
    assert model.world.labels.total == 2  # what is empty is unknown, not false
    assert (model.tables.horizon, model.config.data.local) == (4, ("pump",))
    assert model.facts.local == {"pump": (("a",), ("b",))}
    other = dict(rows, who=["c", "c", "d"], failed=[None, None, 1])
    new = fotltn.read(theory, wide=dataclasses.replace(table, source=other), local=["pump"])
    moved = model.apply(new)
    assert moved.facts.local == {"pump": (("c",), ("d",))}
    assert moved.tables.horizon == 2
    with pytest.raises(fotltn.DataError, match="pass wide tables to fotltn"):
        fotltn.train(theory, data, wide=table, learn=["Failed"])


def test_tensors_are_learned_from_cell_by_cell():
    theory = fotltn.parse("""
    sort car
    predicate Near(car), Stop(car)
    temporal function speed(car): real
    axiom A: forall x. G(Near(x) & speed(x) > 1 -> Stop(x))
    """)
    near, stop = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]), torch.tensor([[0.0, 1, 0]] * 2)
    speed = torch.tensor([[2.0, 0.0, 3.0], [1.0, 4.0, 0.0]])
    data = fotltn.tables(theory, Near=near, Stop=stop, speed=speed, entities={"car": ["a", "b"]})
    model = fotltn.train(theory, data, learn=["Stop"], training=FEW, machine={"dtype": "float64"})
    assert model.facts.entities == {"car": ("a", "b")}
    assert torch.equal(model.tables.predicate("Near")[0].float(), near)
    assert torch.equal(model.tables.function("speed")[0].float(), speed)
    assert model.world.labels.total == 6
    assert torch.equal(model.truth.predicate("Stop")[0].float(), stop)
    several = fotltn.tables(
        theory, Near=near[None].repeat(2, 1, 1), Stop=stop[None].repeat(2, 1, 1),
        speed=speed[None].repeat(2, 1, 1), lengths=[3, 2],
    )  # fmt: skip
    short = fotltn.train(theory, several, learn=["Stop"], training=FEW)
    assert short.tables.lengths.tolist() == [3, 2]
    assert short.facts.entities == {"car": ("car#0", "car#1")}


def test_what_facts_do_not_say_is_not_lost_in_silence():
    theory = fotltn.parse("sort car\npredicate Here(car), Stop(car)\naxiom A: forall x. F Stop(x)")
    rows = {"predicate": ["Here", "Stop"], "arg1": ["a", "a"], "time": [0, 1]}
    for data in (
        fotltn.read(theory, rows, presence="Here"),
        fotltn.tables(theory, Stop=[[0.0, 1.0]], present={"car": [[True, False]]}),
        fotltn.tables(theory, Stop=[[0.0, 1.0]], features={"car": [[0.5]]}),
        fotltn.tables(theory, Stop=[[0.0, 1.0]], constants={"car": 0}),
    ):
        with pytest.raises(fotltn.DataError, match="cannot train on tables with"):
            fotltn.train(theory, data, learn=["Stop"])


def test_an_unknown_setting_has_a_hint():
    with pytest.raises(TypeError, match="argument 'trainig'; did you mean 'training'"):
        fotltn.train("predicate a\n", learn=["a"], trainig={})  # type: ignore[call-arg]
