"""Models of sampled worlds: what they hold and answer, and runs that are interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fotltn
from fotltn.errors import DataError, InterruptedTrainingError
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.posterior import BrokenCells
from fotltn.posterior.run import SamplingProgress, SamplingRun, sampler_of
from fotltn.project import sampled
from fotltn.project.build import build
from fotltn.project.callbacks import Callback
from fotltn.project.config import Config, read_config
from fotltn.project.method import without_axioms
from fotltn.project.model import Model, load_model
from fotltn.project.problem import problem_of
from fotltn.project.sampled import pack_posterior, sample_project, unpack_posterior
from fotltn.project.train import train, train_and_save
from fotltn.reporting.model_report import model_content, model_page
from fotltn.web.sides import side_of
from tests.project.robots import TOML, facts, other, project


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return train(read_config(project(tmp_path_factory.mktemp("posterior"))))


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


@pytest.mark.parametrize(("thresholds", "back"), [("half", 0), ("f1", 8)])
def test_labels_are_held_back_only_to_choose_thresholds(tmp_path, thresholds, back):
    more = f'validation = 0.25\nthresholds = "{thresholds}"\n'
    built = build(read_config(project(tmp_path / "p", TOML + more)))
    every = sum(len(truth) for truth in built.task.labels.truth.values())
    used = sum(len(truth) for truth in problem_of(built).labels.truth.values())
    assert every - used == back


def test_high_learned_rates_of_wrong_labels_are_told(model):
    rates = {"Slow": NoiseRates(0.48, 0.1), "Faulty": NoiseRates(0.45, 0.45)}
    posterior = replace(model.posterior, rates={**model.posterior.rates, **rates})
    (told,) = sampled._high_rates(posterior, ["Slow"])
    assert told.startswith("labels of Slow count for little: it was learned that 48 % of its true")
    assert [*sampled._high_rates(model.posterior, [])] == []


def test_pages_tell_of_worlds_and_of_chains_that_do_not_agree(model):
    """The report has worlds where networks have epochs; both pages warn."""
    assert model.posterior is not None
    mixing = replace(model.posterior.mixing, r_hat={"Faulty": 3.0})
    apart = replace(model, posterior=replace(model.posterior, mixing=mixing))
    page = model_page(model_content(apart, "m"))
    assert "<dt>Worlds</dt><dd>18</dd>" in page
    assert "Epoch kept" not in page
    assert "Chains do not agree on Faulty (R-hat 3.000)" in page
    messages = [one.message for one in side_of(apart).warnings]
    assert any("chains do not agree on Faulty" in text for text in messages)
    agreed = replace(model.posterior, mixing=replace(mixing, r_hat={"Faulty": 1.0}, copied=0))
    fine = replace(model, posterior=agreed)
    assert "do not agree" not in model_page(model_content(fine, "m"))
    assert not [one for one in side_of(fine).warnings if "agree" in one.message]


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
    clauses = sampler_of(problem_of(build(read_config(project(tmp_path, toml))))).structure.clauses
    assert {c.axiom: c.weight for c in clauses} == {"Stays": None, "Signs": 7.5}


def test_a_model_of_an_earlier_version_does_not_travel(model, tmp_path):
    folder = tmp_path / "model"
    replace(model, posterior=replace(model.posterior, carried=None)).save(folder)
    with pytest.raises(DataError) as caught:
        load_model(folder).apply({"predicate": ["Near"], "arg1": ["r9"], "time": [0]})
    assert str(caught.value) == (
        "error: the model lacks what it needs to sample worlds of other data\n"
        "      = train it again with this version"
    )


def test_a_model_without_a_best_world_has_its_best_sample(model):
    tensors, document = pack_posterior(model.posterior)
    del document["best_density"]
    restored = unpack_posterior(tensors, document, model.grounding)
    number = int(model.posterior.density.argmax())
    assert restored.best_density == float(model.posterior.density[number])
    for name, table in restored.best.items():
        assert torch.equal(table, model.posterior.worlds[name][number])


def assert_refused(model: Model, folder: Path, reason: str, **changes: Any) -> None:
    """What is written with other worlds is refused when it is read."""
    assert model.posterior is not None
    posterior = replace(model.posterior, **changes)
    replace(model, posterior=posterior).save(folder)
    with pytest.raises(DataError) as caught:
        load_model(folder)
    assert (
        str(caught.value)
        == f"error: the parts of the model '{folder}' do not fit together: {reason}"
    )


def test_what_does_not_fit_is_refused(model, tmp_path):
    posterior, folder = model.posterior, tmp_path / "model"
    assert_refused(model, folder, "the number of its chains is wrong", chains=7)
    none = {n: t[:0] for n, t in posterior.worlds.items()}
    nothing = posterior.density[:0]
    assert_refused(model, folder, "the number of its chains is wrong", density=nothing, worlds=none)
    odd = {**posterior.rates, "Slow": NoiseRates(0.1, -3.0)}
    assert_refused(model, folder, "a rate of 'Slow' is not in [0, 1)", rates=odd)
    fewer = {"Slow": NoiseRates(0.1, 0.1)}
    assert_refused(model, folder, "its rates are wrong", rates=fewer)
    assert_refused(model, folder, "violations", violations={"Signs": BrokenCells(True, 1, 2)})
    worlds = {n: t for n, t in posterior.worlds.items() if n != "Slow"}
    assert_refused(model, folder, "its worlds are of other predicates", worlds=worlds)
    worlds = {**posterior.worlds, "Slow": posterior.worlds["Slow"][..., :-1]}
    assert_refused(model, folder, "324 truth values are not 34 bytes", worlds=worlds)
    best = {n: t for n, t in posterior.best.items() if n != "Slow"}
    assert_refused(model, folder, "its most probable world is of other predicates", best=best)
    best = {**posterior.best, "Slow": posterior.best["Slow"][..., :-1]}
    assert_refused(model, folder, "18 truth values are not 2 bytes", best=best)
    reason = "the density of its best world is wrong"
    assert_refused(model, folder, reason, best_density=7)
    reason = "the densities of its worlds are wrong"
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
            "error: a condition selects among sampled worlds, not among degrees\n"
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
        "error: a condition selects among sampled worlds, and this model has none\n"
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
            "      = run the same command to continue, or with --finish to keep what there is"
        )
    trained = train(config, checkpoints=tmp_path / "state", callbacks=[told])
    assert told.sweeps == list(range(1, 16))
    trained.save(tmp_path / "one")
    model.save(tmp_path / "two")
    for file in sorted((tmp_path / "one").iterdir()):
        assert (tmp_path / "two" / file.name).read_bytes() == file.read_bytes()


def test_an_interrupted_run_can_be_finished(tmp_path):
    """It has the worlds of the sweeps that are done, as if no more had been asked for."""
    config, told = read_config(project(tmp_path / "p")), Stops()
    state = tmp_path / "state"
    for stop, reason in ((7, "1 of the sweeps that count are done, and 8 are needed"), (14, None)):
        with pytest.raises(InterruptedTrainingError, match="--finish to keep what there is"):
            train(config, checkpoints=state, callbacks=[told], stop=told.asked(stop))
        if reason is not None:
            with pytest.raises(DataError, match=f"there is nothing to finish yet: {reason}"):
                train(config, checkpoints=state, finish=True)
    ended = train(config, checkpoints=state, callbacks=[told], finish=True)
    assert told.sweeps == list(range(1, 15))
    assert ended.reason == "ended early after 14 of 15 sweeps"
    fewer = replace(config, posterior=replace(config.posterior, sweeps=8))
    expected = train(fewer).posterior
    assert ended.posterior is not None
    assert expected is not None
    assert ended.posterior.sweeps == expected.sweeps == 8
    for name, marginal in expected.marginals.items():
        assert ended.posterior.marginals[name].equal(marginal)
    assert 0 < ended.posterior.count <= expected.count


def test_a_run_that_stored_no_world_yet_can_be_finished(tmp_path):
    config, told = read_config(project(tmp_path / "p")), Stops()
    config = replace(config, posterior=replace(config.posterior, sweeps=40, stored=1, enough=0))
    state = tmp_path / "state"
    with pytest.raises(InterruptedTrainingError):
        train(config, checkpoints=state, callbacks=[told], stop=told.asked(16))
    ended = train(config, checkpoints=state, finish=True).posterior
    assert ended is not None
    assert ended.count == config.posterior.worlds
    assert torch.isfinite(ended.density).all()


def test_weights_are_learned_and_travel(tmp_path):
    """They are the same after an interruption, in the folder, and for other data."""
    config, told = read_config(project(tmp_path / "p")), Stops()
    config = replace(config, posterior=replace(config.posterior, burn_in=20, weights="learned"))
    before = train(config)
    assert before.posterior is not None
    (learned,) = before.posterior.weights.values()
    assert 0 <= learned != 2.0
    with pytest.raises(InterruptedTrainingError):
        train(config, checkpoints=tmp_path / "state", callbacks=[told], stop=told.asked(17))
    after = train(config, checkpoints=tmp_path / "state", callbacks=[told])
    before.save(tmp_path / "one")
    after.save(tmp_path / "two")
    for file in sorted((tmp_path / "one").iterdir()):
        assert (tmp_path / "two" / file.name).read_bytes() == file.read_bytes()
    again = load_model(tmp_path / "one")
    assert again.posterior is not None
    assert again.posterior.weights == {"Signs": learned}
    assert f"weights of soft axioms, as learned: `Signs` {learned:.3f}" in (
        tmp_path / "one" / "README.md"
    ).read_text("utf-8")
    moved = again.apply(project(tmp_path / "new", table=facts(2, 4)))
    assert moved.posterior is not None
    assert moved.posterior.structure is not None
    (clause,) = [one for one in moved.posterior.structure.clauses if one.axiom == "Signs"]
    assert clause.weight == learned
    assert_refused(
        before, tmp_path / "three", "a weight is below 0",
        carried=replace(before.posterior.carried, weights={"Signs": -1.0}),  # type: ignore[type-var]
    )  # fmt: skip


def stopped(config: Config, folder: Path) -> None:
    with pytest.raises(InterruptedTrainingError):
        train(config, checkpoints=folder, stop=lambda: True)


def test_other_settings_do_not_go_on(tmp_path):
    config = read_config(project(tmp_path / "p"))
    stopped(config, tmp_path / "state")
    more = replace(config, posterior=replace(config.posterior, sweeps=20))
    with pytest.raises(DataError, match=r"to resume, restore posterior.sweeps: 9 there, 20 here"):
        train(more, checkpoints=tmp_path / "state")


def test_one_method_does_not_go_on_with_the_state_of_the_other(tmp_path):
    config = read_config(project(tmp_path / "p"))
    gradient = replace(config, method="gradient", training=replace(config.training, epochs=3))
    stopped(config, tmp_path / "sampled")
    stopped(gradient, tmp_path / "trained")
    with pytest.raises(DataError, match="restore method: posterior there, nothing here"):
        train(gradient, checkpoints=tmp_path / "sampled")
    with pytest.raises(DataError, match="restore method: nothing there, posterior here"):
        train(config, checkpoints=tmp_path / "trained")


def test_a_damaged_checkpoint_is_left_out(tmp_path, model):
    config, told = read_config(project(tmp_path / "p")), Stops()
    for stop in (3, 12):
        with pytest.raises(InterruptedTrainingError):
            train(config, checkpoints=tmp_path / "state", callbacks=[told], stop=told.asked(stop))
    latest = sorted((tmp_path / "state").glob("step-*"))[-1]
    (latest / "weights.safetensors").write_bytes(b"nothing")
    outcome = sample_project(build(config), checkpoints=tmp_path / "state")
    assert len([text for text in outcome.warnings if text.startswith("cannot read")]) == 1
    assert outcome.posterior is not None
    assert model.posterior is not None
    assert outcome.posterior.density.equal(model.posterior.density)


def test_a_run_that_came_to_no_world_does_not_stand_in_the_way(tmp_path, monkeypatch):
    def result(_: SamplingRun) -> None:
        raise NoWorldError("worlds break an axiom; a longer burn-in may help")

    folder = project(tmp_path)
    config = read_config(folder)
    with monkeypatch.context() as patch:
        patch.setattr(SamplingRun, "result", result)
        with pytest.raises(NoWorldError):
            train_and_save(config, folder / "model")
    longer = replace(config, posterior=replace(config.posterior, burn_in=7))
    assert train_and_save(longer, folder / "model").posterior is not None


def test_a_model_is_saved_and_checkpoints_are_gone(tmp_path):
    folder = project(tmp_path)
    train_and_save(read_config(folder), folder / "model")
    assert {f.name for f in folder.iterdir()} == {
        "project.toml", "theory.fot", "facts.csv", "model",
    }  # fmt: skip
    document = json.loads((folder / "model" / "posterior.json").read_text("utf-8"))
    assert document["chains"] == 6
