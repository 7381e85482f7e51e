"""Projects with method = "posterior": settings, what is refused, and models of sampled worlds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fotltn
from fotltn.errors import DataError, FotError, InterruptedTrainingError
from fotltn.learn.objective import fact_loss
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.posterior import SamplingProgress
from fotltn.project.build import build
from fotltn.project.callbacks import Callback
from fotltn.project.config import Config, config_of, read_config
from fotltn.project.model import Model, load_model
from fotltn.project.sampled import sample_project, sampler_for
from fotltn.project.toml import parse_toml
from fotltn.project.train import train, train_and_save, without_axioms
from fotltn.project.written import show_config

THEORY = """\
sort robot
predicate Faulty(robot), Slow(robot), Alarm, Near(robot), Idle(robot)
static predicate Worn(robot)
hard axiom Loud: G(Alarm <-> exists r. Faulty(r) & Near(r))
hard axiom Wear: forall r. Worn(r) <-> F Faulty(r)
hard axiom Stays: forall r. G(Faulty(r) -> WX (Faulty(r) | Slow(r)))
axiom Signs weight 2: forall r. G(Faulty(r) -> Slow(r))
"""

TOML = """\
method = "posterior"

[theory]
file = "theory.fot"

[data]
facts = ["facts.csv"]
train = 0.8

[predicates]
Faulty = "auto"
Slow = "logits"
Alarm = "auto"
Worn = "auto"
Idle = {variables = ["r"], formula = "!Slow(r)"}

[posterior]
worlds = 6
burn_in = 6
sweeps = 9
stored = 3

[training]
seed = 3
"""


def facts(robots: int = 3, times: int = 6) -> str:
    draw = random.Random(4)
    rows = ["predicate,arg1,time,truth"]
    for name in ("Faulty", "Slow", "Near", "Idle"):
        for robot in range(robots):
            for time in range(times):
                truth = draw.random() < 0.4
                if name == "Near" or draw.random() < 0.5:
                    rows.append(f"{name},r{robot},{time},{int(truth)}")
    rows += [f"Alarm,,{time},{int(time > 3)}" for time in range(0, times, 2)]
    return "\n".join([*rows, "Worn,r0,,1"]) + "\n"


def project(folder: Path, toml: str = TOML, theory: str = THEORY, table: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "project.toml").write_text(toml, "utf-8")
    (folder / "theory.fot").write_text(theory, "utf-8")
    (folder / "facts.csv").write_text(table or facts(), "utf-8")
    return folder


def other(*pairs: tuple[str, str]) -> str:
    text = TOML
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return train(read_config(project(tmp_path_factory.mktemp("posterior"))))


def read(text: str) -> Config:
    return config_of(parse_toml(text, "project.toml"), Path())


# --- settings -----------------------------------------------------------------------------------


def test_the_method_is_gradient_where_nothing_is_said():
    config = read('[theory]\nfile = "t.fot"')
    assert (config.method, config.posterior.worlds) == ("gradient", 32)


def test_settings_come_back_from_what_is_written():
    text = other(("[training]", '[objective]\nmissed = "learned"\n[training]'))
    config = read(text)
    assert config == read(show_config(config))
    assert (config.posterior.sweeps, config.posterior.learn) == (9, True)
    assert config.objective.missed == "learned"


RATES = '[objective]\npreset = "recipe"\nmissed = { Slow = 0.2, Faulty = "learned" }\n[training]'


def test_rates_are_given_by_predicate(tmp_path):
    built = build(read_config(project(tmp_path, other(("[training]", RATES)))))
    evidence = sampler_for(built).evidence
    assert evidence.rates["Slow"] == NoiseRates(0.2, 0.1)
    assert evidence.rates["Alarm"] == NoiseRates(0.1, 0.1)
    assert evidence.learned == {"Faulty"}


def test_rates_are_learned_where_nothing_is_said_of_noise(tmp_path):
    built = build(read_config(project(tmp_path)))
    assert sampler_for(built).evidence.learned == {"Faulty", "Slow", "Alarm", "Worn", "Idle"}


def test_gradients_know_rates_by_predicate(tmp_path):
    """The loss is as with the rates of each predicate for all, on its own labels."""
    gradient = other(
        ('method = "posterior"\n', ""),
        ("[training]", RATES.replace(', Faulty = "learned"', "")),
    )
    task = build(read_config(project(tmp_path, gradient))).task
    with torch.no_grad():
        tables, labels = task.grounding(), task.labels
    total = 0.0
    for name in labels.truth:
        rate = {"Slow": 0.2}.get(name)
        alone = replace(task.objective, missed=rate)
        loss = fact_loss(alone, labels.only([name]), tables, 0, 0.1)
        total += float(loss) * len(labels.truth[name]) / labels.total
    assert float(fact_loss(task.objective, labels, tables, 0, 0.1)) == pytest.approx(total)


REFUSED = {
    "a network": (
        other(('Slow = "logits"', 'Slow = "network"')),
        "'Slow' is computed by a network, and a posterior samples worlds without networks",
        'kind = "auto", which samples it, or method = "gradient"',
    ),
    "exclusive": (
        other(("[posterior]", '[[exclusive]]\npredicates = ["Near", "Idle"]\n[posterior]')),
        "a posterior has no network that chooses one of Near, Idle",
        "say in hard axioms that they exclude each other, as hard axiom Apart: forall x. "
        'G !(Near(x) & Idle(x)); or method = "gradient"',
    ),
    "inputs": (
        other(("[posterior]", "[inputs.robot]\nembedding = 3\n[posterior]")),
        "a posterior has no networks that could see 'robot'",
        'leave out [inputs.robot], or method = "gradient"',
    ),
    "a predicate that does not exist": (
        other(("[training]", "[objective]\nmissed = { Slw = 0.2 }\n[training]")),
        "the project speaks of the unknown predicate 'Slw'",
        "did you mean 'Slow'?",
    ),
    "one rate learned": (
        other(("[training]", '[objective]\nmissed = "learned"\ninvented = 0.1\n[training]')),
        "of 'Faulty', one rate is learned, and the other is given",
        "both are learned, or both are given",
    ),
    "rates that turn labels round": (
        other(("[training]", "[objective]\nmissed = 0.6\ninvented = 0.5\n[training]")),
        "the rates of 'Faulty' add to 1.1: its labels would say the opposite of what is true",
        None,
    ),
    "a method in a section": (
        '[theory]\nfile = "theory.fot"\nmethod = "posterior"\n',
        "theory.method: the method is no part of a section",
        "write it above [theory], and above all other sections",
    ),
    "no method": (
        other(('"posterior"', '"posterio"')),
        "method: unknown value 'posterio'",
        "did you mean 'posterior'?",
    ),
    "no worlds": (
        other(("worlds = 6", "worlds = 0")),
        "posterior.worlds: expected a whole number from 1 to 1.04858e+06, not 0",
        None,
    ),
    "a word that is no rate": (
        other(("[training]", '[objective]\nmissed = "learnt"\n[training]')),
        """objective.missed: expected a number from 0 to 1, or "learned", not 'learnt'""",
        None,
    ),
    "rates that gradients do not learn": (
        other(
            ('method = "posterior"\n', ""),
            ("[training]", '[objective]\nmissed = { Slow = "learned" }\n[training]'),
        ),
        "objective.missed: only a posterior learns a rate for each predicate",
        'method = "posterior" above all sections; or learn_flips = true, for one rate',
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_with_what_would_work(tmp_path, what):
    text, message, hint = REFUSED[what]
    with pytest.raises(FotError) as caught:
        sampler_for(build(read_config(project(tmp_path, text))))
    first = caught.value.diagnostics[0]
    assert (first.message, first.hint) == (message, hint)
    assert first.span is not None or hint is None


def test_features_are_refused(tmp_path):
    table = "who,t,speed\nr0,0,1.5\n"
    (tmp_path / "wide.csv").write_text(table, "utf-8")
    wide = (
        '[[data.wide]]\nfile = "wide.csv"\nsort = "robot"\nentity = "who"\ntime = "t"\n'
        'features = ["speed"]\n\n[predicates]'
    )
    with pytest.raises(DataError) as caught:
        build(read_config(project(tmp_path, other(("[predicates]", wide)))))
    first = caught.value.diagnostics[0]
    assert first.message == "a posterior has no networks that could see the features of 'wide.csv'"
    assert "[data.wide.measures]" in (first.hint or "")


# --- models -------------------------------------------------------------------------------------


def test_degrees_are_shares_of_worlds_that_obey(model):
    posterior = model.posterior
    assert posterior is not None
    assert posterior.count == 18
    assert model.reason == "all 15 sweeps are done"
    for name in ("Faulty", "Slow", "Alarm", "Worn", "Idle"):
        table = model.tables.predicate(name)
        assert torch.allclose(table.double(), posterior.marginals[name], atol=1e-6)
    assert torch.allclose(
        model.tables.predicate("Idle"), 1 - model.tables.predicate("Slow"), atol=1e-6
    )
    for number in range(posterior.count):
        world = posterior.world(number)
        for axiom in model.theory.axioms:
            if axiom.hard:
                value = fotltn.evaluate(axiom.source, world, semantics="crisp")
                assert bool(value), axiom.name


def test_definitions_are_those_of_hard_axioms(model):
    kinds = {name: how.kind for name, how in model.config.predicates.items()}
    assert kinds == {
        "Faulty": "auto", "Slow": "logits", "Alarm": "formula", "Worn": "formula",
        "Idle": "formula",
    }  # fmt: skip
    assert model.config.predicates["Worn"].axioms == ("Wear",)


def test_a_model_comes_back_from_its_folder(model, tmp_path):
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    one, two = model.posterior, again.posterior
    assert one is not None
    assert two is not None
    for name in one.learned:
        assert two.worlds[name].equal(one.worlds[name])
        assert again.tables.predicate(name).equal(model.tables.predicate(name))
    assert (two.rates, two.violations, two.mixing) == (one.rates, one.violations, one.mixing)
    assert two.density.equal(one.density)
    assert again.config == model.config
    again.save(tmp_path / "again")
    for file in sorted((tmp_path / "model").iterdir()):
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_everything_that_models_do_works_on_shares(model):
    assert model.metrics() is not None
    assert model.audit().axiom("Signs").value > 0
    assert model.violations("Signs").axiom == "Signs"
    assert len(model.worst(3)) == 3
    assert model.predictions().num_rows == 3 * 6 * 3 + 6 + 3
    decided = model.decided()
    assert decided.predicate("Idle").equal(1 - decided.predicate("Slow"))
    assert model.fixed == ("Near",)
    assert "18 sampled worlds" in model._repr_html_()
    assert model.why("Signs", {"r": "r0"}, time=1) is not None


def test_a_seed_reproduces_and_another_differs(tmp_path, model):
    config = read_config(project(tmp_path))
    again = train(config)
    third = train(replace(config, training=replace(config.training, seed=4)))
    assert again.tables.predicate("Faulty").equal(model.tables.predicate("Faulty"))
    assert not third.tables.predicate("Faulty").equal(model.tables.predicate("Faulty"))


def test_without_axioms_nothing_is_obeyed(tmp_path):
    posterior = train(without_axioms(read_config(project(tmp_path)))).posterior
    assert posterior is not None
    assert posterior.structure is not None
    assert posterior.structure.clauses == ()
    assert posterior.violations == {}


def test_weights_of_axioms_are_those_of_the_project(tmp_path):
    toml = other(("[training]", "[objective]\naxiom_weights = { Signs = 7.5 }\n[training]"))
    clauses = sampler_for(build(read_config(project(tmp_path, toml)))).structure.clauses
    assert {c.axiom: c.weight for c in clauses} == {"Stays": None, "Signs": 7.5}


def test_new_data_are_refused_with_what_to_do(model):
    with pytest.raises(DataError) as caught:
        model.apply({"facts.csv": {"predicate": ["Near"], "arg1": ["r9"], "time": [0]}})
    assert str(caught.value) == (
        "error: the model can answer for its own data only: worlds were sampled for these traces "
        "and entities\n"
        "      = sample worlds for the new data: fotltn train PROJECT --data NEW"
    )


def assert_refused(model: Model, folder: Path, reason: str, **changes: Any) -> None:
    """What is written with other worlds is refused when it is read."""
    assert model.posterior is not None
    posterior = replace(model.posterior, **changes)
    replace(model, posterior=posterior).save(folder)
    with pytest.raises(DataError) as caught:
        load_model(folder)
    assert str(caught.value) == f"error: the model '{folder}' does not fit together: {reason}"


def test_what_does_not_fit_is_refused(model, tmp_path):
    posterior, folder = model.posterior, tmp_path / "model"
    assert_refused(model, folder, "it has no chains", chains=7)
    fewer = {"Slow": NoiseRates(0.1, 0.1)}
    assert_refused(model, folder, "its rates are another thing", rates=fewer)
    assert_refused(model, folder, "violations", violations={"Signs": True})
    worlds = {n: t for n, t in posterior.worlds.items() if n != "Slow"}
    assert_refused(model, folder, "its worlds are of other predicates", worlds=worlds)
    worlds = {**posterior.worlds, "Slow": posterior.worlds["Slow"][..., :-1]}
    assert_refused(model, folder, "324 truth values are not 34 bytes", worlds=worlds)
    reason = "its worlds are not said to be more or less likely"
    assert_refused(model, folder, reason, density=posterior.density / 0)


# --- asking -------------------------------------------------------------------------------------


def test_answers_are_probabilities_with_intervals(model):
    answer = model.ask("Slow(r)", at="all")
    share = model.posterior.worlds["Slow"].double().mean(0)
    assert torch.allclose(answer.tensor, share)
    assert answer.worlds == (18,)
    rows = list(answer.rows())
    assert len(rows) == 18
    for row in rows:
        assert row["low"] <= row["value"] <= row["high"]
        assert set(row) == {"r", "trace", "time", "value", "low", "high"}
    assert "95 %" in model.ask("F Alarm")._repr_html_()
    assert "95 %" not in model.ask("Alarm", at="all")._repr_html_()


def test_of_a_whole_formula_worlds_are_counted(model):
    """Whether anybody is ever faulty is no product of degrees."""
    answer = model.ask("exists r. F Faulty(r)")
    share = model.posterior.worlds["Faulty"].flatten(1).any(1).double().mean()
    assert float(answer.tensor) == pytest.approx(float(share))
    assert float(model.ask("forall r. Worn(r) <-> F Faulty(r)").tensor) == 1.0


def test_a_semantics_takes_shares_for_degrees(model):
    answer = model.ask("Slow(r)", at=2, semantics="product")
    assert answer.low is None
    assert answer.tensor.equal(model.tables.predicate("Slow")[..., 2:3])


def test_conditions_choose_worlds(model):
    worlds = model.posterior.worlds
    share = worlds["Slow"].double().mean(0)[0]
    robot, time = (((share - 0.5).abs() == (share - 0.5).abs().min()).nonzero())[0].tolist()
    where = worlds["Slow"][:, 0, robot, time]
    assert 0 < int(where.sum()) < 18
    condition = f'F[{time},{time}] Slow("r{robot}")'
    answer = model.ask("Slow(r)", at="all", condition=condition)
    assert answer.worlds == (int(where.sum()),)
    assert torch.allclose(answer.tensor, worlds["Slow"][where].double().mean(0))
    assert float(answer.tensor[0, robot, time]) == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"condition": "exists r. Worn(r) & G !Faulty(r)"},
            "error: none of the 18 sampled worlds obeys the condition; state it as a fact, and "
            "sample again",
        ),
        (
            {"condition": "F Alarm", "semantics": "product"},
            "error: a condition chooses among sampled worlds, not among degrees\n"
            "      = leave out the semantics",
        ),
        (
            {"at": 17},
            "error: the time point 17 does not exist: there are 0 to 5",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(model, options, message):
    with pytest.raises(DataError) as caught:
        model.ask("F Alarm", **options)
    assert str(caught.value) == message


def test_without_worlds_there_are_no_conditions():
    trained = fotltn.train(
        "sort s\npredicate A(s)", learn=["A"], training={"epochs": 1},
        facts={"predicate": ["A"], "arg1": ["a"], "time": [0]},
    )  # fmt: skip
    with pytest.raises(DataError) as caught:
        trained.ask("A(x)", condition="exists x. A(x)")
    assert str(caught.value) == (
        "error: a condition chooses among sampled worlds, and this model has none\n"
        '      = train the project with method = "posterior"'
    )


# --- evidence and presence ----------------------------------------------------------------------

SEEN = """\
predicate,arg1,time,truth
Present,a,0,1
Present,a,1,1
Present,a,2,1
Present,b,1,1
On,a,0,0.9
On,a,2,1
On,b,1,0
"""


def test_detectors_and_absence_become_odds():
    model = fotltn.train(
        "sort s\npredicate On(s), Present(s)",
        wide=fotltn.Wide(
            {"who": ["a", "a", "a", "b"], "t": [0, 1, 2, 1], "on": [0.9, None, 1, 0]},
            sort="s", entity="who", time="t", predicates={"on": "On"}, presence="Present",
        ),
        learn=["On"], method="posterior", objective={"evidence": ["On"]},
        posterior={"worlds": 200, "sweeps": 5, "burn_in": 5, "learn": False},
    )  # fmt: skip
    table = model.tables.predicate("On")
    assert bool(model.tables.present["s"][0, 1].equal(torch.tensor([False, True, False])))
    assert float(table[0, 1, 0]) == float(table[0, 1, 2]) == 0.0
    assert float(table[0, 0, 0]) > 0.8


# --- interruptions ------------------------------------------------------------------------------


class Stops(Callback):
    """Counts sweeps."""

    def __init__(self) -> None:
        self.sweeps: list[int] = []

    def sweep(self, progress: SamplingProgress) -> None:
        self.sweeps.append(progress.sweep)

    def asked(self, last: int) -> Callable[[], bool]:
        return lambda: self.sweeps[-1] == last


@pytest.mark.parametrize("stops", [(2,), (7, 11), (14,)])
def test_an_interrupted_run_goes_on_to_the_same_model(tmp_path, model, stops):
    config, told = read_config(project(tmp_path / "p")), Stops()
    for stop in stops:
        with pytest.raises(InterruptedTrainingError) as caught:
            train(config, checkpoints=tmp_path / "state", callbacks=[told], stop=told.asked(stop))
        assert str(caught.value) == (
            f"error: training was stopped after sweep {stop} of 15\n"
            "      = the same command goes on from there"
        )
    trained = train(config, checkpoints=tmp_path / "state", callbacks=[told])
    assert told.sweeps == list(range(1, 16))
    trained.save(tmp_path / "one")
    model.save(tmp_path / "two")
    for file in sorted((tmp_path / "one").iterdir()):
        assert (tmp_path / "two" / file.name).read_bytes() == file.read_bytes()


def stopped(config: Config, folder: Path) -> None:
    with pytest.raises(InterruptedTrainingError):
        train(config, checkpoints=folder, stop=lambda: True)


def test_other_settings_do_not_go_on(tmp_path):
    config = read_config(project(tmp_path / "p"))
    stopped(config, tmp_path / "state")
    more = replace(config, posterior=replace(config.posterior, sweeps=20))
    with pytest.raises(DataError, match=r"to go on, put back posterior.sweeps: 9 there, 20 here"):
        train(more, checkpoints=tmp_path / "state")


def test_one_method_does_not_go_on_with_the_state_of_the_other(tmp_path):
    config = read_config(project(tmp_path / "p"))
    gradient = replace(config, method="gradient", training=replace(config.training, epochs=3))
    stopped(config, tmp_path / "sampled")
    stopped(gradient, tmp_path / "trained")
    with pytest.raises(DataError, match="put back method: posterior there, nothing here"):
        train(gradient, checkpoints=tmp_path / "sampled")
    with pytest.raises(DataError, match="put back method: nothing there, posterior here"):
        train(config, checkpoints=tmp_path / "trained")


def test_a_damaged_checkpoint_is_left_out(tmp_path, model):
    config, told = read_config(project(tmp_path / "p")), Stops()
    for stop in (3, 12):
        with pytest.raises(InterruptedTrainingError):
            train(config, checkpoints=tmp_path / "state", callbacks=[told], stop=told.asked(stop))
    latest = sorted((tmp_path / "state").glob("step-*"))[-1]
    (latest / "weights.safetensors").write_bytes(b"nothing")
    outcome = sample_project(build(config), checkpoints=tmp_path / "state")
    assert len(outcome.warnings) == 1
    assert outcome.posterior is not None
    assert model.posterior is not None
    assert outcome.posterior.density.equal(model.posterior.density)


def test_a_model_is_saved_and_checkpoints_are_gone(tmp_path):
    folder = project(tmp_path)
    train_and_save(read_config(folder), folder / "model")
    assert {f.name for f in folder.iterdir()} == {
        "project.toml", "theory.fot", "facts.csv", "model",
    }  # fmt: skip
    document = json.loads((folder / "model" / "posterior.json").read_text("utf-8"))
    assert document["chains"] == 6
