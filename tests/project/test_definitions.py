"""Predicates whose kind is left open: what axioms define is computed so, and leaves the loss."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import fotltn
from fotltn.cli.main import app
from fotltn.errors import DataError
from fotltn.logic.check import check
from fotltn.logic.defined import definitions_in
from fotltn.networks.definitions import definitions
from fotltn.networks.predicates import Defined
from fotltn.project.config import Config, config_of
from fotltn.project.definitions import held, settled
from fotltn.project.toml import parse_toml
from fotltn.syntax import theory as th
from fotltn.syntax.load import parse_theory
from tests.logic.test_defined import random_axioms
from tests.semantics import worlds

THEORY = """
sort robot
predicate Faulty(robot), Busy(robot), Late(robot)
static predicate Worn(robot)
axiom Short: forall r. G(Faulty(r) -> WX !Faulty(r))
hard axiom Often: forall r. Worn(r) <-> F Faulty(r)
hard axiom There: forall r. G(Late(r) -> Busy(r) & O Faulty(r))
hard axiom Back: forall q. G(Busy(q) & O Faulty(q) -> Late(q))
"""
FACTS = "predicate,arg1,time,truth\n" + "".join(
    f"{p},{r},{t},{int((p == 'Faulty' and t == 2) or (p == 'Busy' and r == 'a'))}\n"
    for p in ("Faulty", "Busy")
    for r in "ab"
    for t in range(5)
) + "Worn,a,,1\nWorn,b,,1\n"  # fmt: skip
TOML = """\
[theory]
file = "theory.fot"
[data]
facts = ["facts.csv"]
[predicates]
Faulty = "logits"
Worn = {}
Late = "auto"
[objective]
preset = "recipe"
axiom_weights = { Often = 2.0, Short = 0.5 }
axiom_p = { There = 3.0 }
[training]
epochs = 3
"""


def project(folder, toml=TOML, theory=THEORY):
    folder.mkdir(exist_ok=True)
    (folder / "theory.fot").write_text(theory)
    (folder / "facts.csv").write_text(FACTS)
    (folder / "project.toml").write_text(toml)
    return folder


def settings(tmp_path, predicates: str, theory: str = THEORY) -> Config:
    toml = f'[theory]\nfile = "theory.fot"\n[predicates]\n{predicates}\n'
    return settled(
        config_of(parse_toml(toml, "project.toml"), tmp_path), check(parse_theory(theory))
    )


def test_what_axioms_define_is_computed_and_leaves_the_loss(tmp_path):
    model = fotltn.train(str(project(tmp_path / "p")))
    worn, late = model.config.predicates["Worn"], model.config.predicates["Late"]
    assert (worn.kind, worn.variables, worn.formula) == ("formula", ("r",), "F Faulty(r)")
    assert (worn.axioms, worn.semantics) == (("Often",), "product")
    assert (late.formula, late.axioms) == ("Busy(r) & O Faulty(r)", ("There", "Back"))
    assert [*model.history[0].values] == ["Short"]
    assert [a.name for a in model.satisfaction().axioms] == ["Short", "Often", "There", "Back"]
    model.save(tmp_path / "model")
    again = fotltn.load_model(tmp_path / "model")
    assert again.config.predicates == model.config.predicates
    for name in ("Worn", "Late", "Faulty"):
        assert torch.equal(again.tables.predicate(name), model.tables.predicate(name))


def test_the_same_by_hand_trains_to_the_same_weights(tmp_path):
    by_hand = """
Worn = { variables = ["r"], formula = "F Faulty(r)", semantics = "product", axioms = ["Often"] }
Late = { variables = ["r"], formula = "Busy(r) & O Faulty(r)", semantics = "product", axioms = ["There", "Back"] }
"""  # noqa: E501
    one = fotltn.train(str(project(tmp_path / "a")))
    written = TOML.replace('Worn = {}\nLate = "auto"\n', by_hand.lstrip())
    other = fotltn.train(str(project(tmp_path / "b", written)))
    assert one.config.predicates == other.config.predicates
    for name, tensor in one.grounding.state_dict().items():
        assert torch.equal(tensor, other.grounding.state_dict()[name])


@pytest.mark.parametrize("kind", ['"network"', '{ kind = "logits" }', "{ hidden = [4] }"])
def test_a_kind_that_is_written_stays(tmp_path, kind):
    config = settings(tmp_path, f'Faulty = "logits"\nWorn = {kind}')
    assert config.predicates["Worn"].kind in ("network", "logits")
    assert held(config, check(parse_theory(THEORY))) == ()


def test_soft_axioms_define_nothing(tmp_path):
    soft = THEORY.replace("hard ", "")
    config = settings(tmp_path, 'Faulty = "logits"\nWorn = {}\nLate = "auto"', soft)
    assert [how.kind for how in config.predicates.values()] == ["logits", "network", "network"]
    assert held(config, check(parse_theory(soft))) == ()
    model = fotltn.train(str(project(tmp_path / "p", theory=soft)))
    assert [*model.history[0].values] == ["Short", "Often", "There", "Back"]


def test_what_no_axiom_defines_is_a_network(tmp_path):
    config = settings(tmp_path, "Faulty = {}\nBusy = {}")
    assert [how.kind for how in config.predicates.values()] == ["network", "network"]


def test_what_data_alone_define_is_learned(tmp_path):
    """Labels of it would have nothing to change; but others may be defined by it."""
    theory = THEORY.replace("O Faulty(r)", "O Busy(r)").replace("O Faulty(q)", "O Busy(q)")
    theory += "hard axiom Far: forall r. G(Faulty(r) <-> X Late(r))\n"
    config = settings(tmp_path, "Late = {}\nFaulty = {}", theory)
    assert config.predicates["Late"].kind == "network"
    assert config.predicates["Faulty"].axioms == ("Far",)


def test_definitions_that_are_written_are_no_part_of_a_circle(tmp_path):
    config = settings(tmp_path, 'Worn = {}\nFaulty = { variables = ["r"], formula = "Worn(r)" }')
    assert config.predicates["Worn"].kind == "network"


def test_axioms_that_a_definition_names_exist(tmp_path):
    toml = TOML.replace(
        "Worn = {}", 'Worn = { variables = ["r"], formula = "F Faulty(r)", axioms = ["Oftn"] }'
    )
    with pytest.raises(DataError, match=r"no axiom 'Oftn'") as error:
        fotltn.train(str(project(tmp_path / "p", toml)))
    assert error.value.diagnostics[0].span is not None
    assert "did you mean 'Often'?" in str(error.value)


def test_training_says_what_is_defined(tmp_path):
    folder = project(tmp_path / "p")
    result = CliRunner().invoke(app, ["train", str(folder)])
    assert result.exit_code == 0, result.output
    assert "Worn(r) is computed as F Faulty(r), as 'Often' says" in result.output
    assert "Late(r) is computed as Busy(r) & O Faulty(r), as 'There', 'Back' say" in result.output
    result = CliRunner().invoke(app, ["train", str(folder), "--json"])
    assert json.loads(result.stdout)["definitions"]["Worn"] == {
        "formula": "F Faulty(r)", "axioms": ["Often"],
    }  # fmt: skip


def test_what_nobody_states_or_computes_is_said(tmp_path):
    """Hard axioms say what Late is, but it is given by facts, of which there are none."""
    without = TOML.replace('Late = "auto"\n', "")
    folder = project(tmp_path / "p", without)
    result = CliRunner().invoke(app, ["train", str(folder)])
    assert result.exit_code == 0, result.output
    assert (
        "no fact states 'Late', so it is false everywhere, but 'There', 'Back' say what it is"
    ) in result.output
    formula = 'Late = { variables = ["r"], formula = "Busy(r) & O Faulty(r)" }'
    assert f"to compute it, write {formula} in [predicates]" in result.output
    computed = TOML.replace('Late = "auto"', formula)
    for name, toml, theory in (("q", computed, THEORY), ("r", TOML, THEORY),
                               ("s", without, THEORY.replace("hard ", ""))):  # fmt: skip
        folder = project(tmp_path / name, toml, theory)
        assert "no fact states" not in CliRunner().invoke(app, ["train", str(folder)]).output


def test_definitions_as_text_are_the_same(tmp_path):
    """What is written into a model's file is read back as the formula that the axioms say."""
    compared = 0
    for seed in range(300):
        rng = random.Random(seed)
        sizes = {"a": 2, "b": 2}
        axioms = [th.Axiom(f"A{n}", a, hard=True) for n, a in enumerate(random_axioms(rng, sizes))]
        theory = check(replace(worlds.THEORY.source, axioms=tuple(axioms)))
        names = [*worlds.PREDICATES]
        lines = "\n".join(f"{name} = {{}}" for name in names)
        toml = f'[theory]\nfile = "theory.fot"\n[predicates]\n{lines}\n'
        config = settled(config_of(parse_toml(toml, "project.toml"), tmp_path), theory)
        by_name = definitions_in(theory, names).by_name
        for name, how in config.predicates.items():
            if how.kind == "formula":
                made = Defined(how.variables, how.formula)
                checked = definitions({name: made}, theory.signature)[name]
                assert checked.formula == by_name[name].formula
                assert checked.free == by_name[name].axes
                compared += 1
    assert compared > 80
