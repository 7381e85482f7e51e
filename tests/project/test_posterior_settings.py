"""Projects with method = "posterior": settings, what is refused, and rates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fotltn.errors import FotError
from fotltn.learn.objective import fact_loss
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.run import sampler_of
from fotltn.project.build import build
from fotltn.project.config import Config, config_of, read_config
from fotltn.project.problem import problem_of
from fotltn.project.toml import parse_toml
from fotltn.project.written import show_config
from tests.project.robots import THEORY, other, project


def read(text: str) -> Config:
    return config_of(parse_toml(text, "project.toml"), Path())


# --- settings -----------------------------------------------------------------------------------


def test_the_method_is_open_where_nothing_is_said():
    config = read('[theory]\nfile = "t.fot"')
    assert (config.method, config.posterior.worlds) == ("auto", 32)


def test_settings_come_back_from_what_is_written():
    text = other(("[training]", '[objective]\nmissed = "learned"\n[training]'))
    config = read(text)
    assert config == read(show_config(config))
    assert (config.posterior.sweeps, config.posterior.learn) == (9, False)
    assert config.objective.missed == "learned"


RATES = '[objective]\npreset = "recipe"\nmissed = { Slow = 0.2, Faulty = "learned" }\n[training]'


def test_rates_are_given_by_predicate(tmp_path):
    built = build(read_config(project(tmp_path, other(("[training]", RATES)))))
    evidence = sampler_of(problem_of(built)).evidence
    assert evidence.rates["Slow"] == NoiseRates(0.2, 0.1)
    assert evidence.rates["Alarm"] == NoiseRates(0.1, 0.1)
    assert evidence.learned == {"Faulty"}


def test_rates_are_learned_where_nothing_is_said_of_noise(tmp_path):
    built = build(read_config(project(tmp_path)))
    assert sampler_of(problem_of(built)).evidence.learned == {
        "Faulty",
        "Slow",
        "Alarm",
        "Worn",
        "Idle",
    }


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
    "a network that sees nothing": (
        other(('Slow = "logits"', 'Slow = "network"')),
        "'Slow' is computed by a network, but 'robot' has no features to see",
        'kind = "auto", which samples it without a network, or method = "gradient"',
    ),
    "an exponent that is a word": (
        other(("learn = false", 'learn = false\nexponent = "none"')),
        """posterior.exponent: expected a number from 0 to 2, or "learned", not 'none'""",
        None,
    ),
    "exclusive": (
        other(("[posterior]", '[[exclusive]]\npredicates = ["Near", "Idle"]\n[posterior]')),
        "a posterior has no network that chooses one of Near, Idle",
        "state in a hard axiom that they exclude each other, such as hard axiom Apart: forall x. "
        'G !(Near(x) & Idle(x)); or method = "gradient"',
    ),
    "a predicate that does not exist": (
        other(("[training]", "[objective]\nmissed = { Slw = 0.2 }\n[training]")),
        "the project mentions the unknown predicate 'Slw'",
        "did you mean 'Slow'?",
    ),
    "one rate learned": (
        other(("[training]", '[objective]\nmissed = "learned"\ninvented = 0.1\n[training]')),
        "'Faulty' has one rate that is learned and one that is given",
        "learn both, or give both",
    ),
    "rates that turn labels round": (
        other(("[training]", "[objective]\nmissed = 0.6\ninvented = 0.5\n[training]")),
        "the rates of 'Faulty' add to 1.1: its labels would say the opposite of what is true",
        None,
    ),
    "a method in a section": (
        '[theory]\nfile = "theory.fot"\nmethod = "posterior"\n',
        "theory.method: method cannot be inside a section",
        "write it above [theory] and all other sections",
    ),
    "no method": (
        other(('"posterior"', '"posterio"')),
        "method: unknown value 'posterio'",
        "did you mean 'posterior'?",
    ),
    "no worlds": (
        other(("worlds = 6", "worlds = 0")),
        "posterior.worlds: expected a whole number from 2 to 1,048,576, not 0",
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
        'set method = "posterior" above all sections; or learn_flips = true for one rate',
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_with_what_would_work(tmp_path, what):
    text, message, hint = REFUSED[what]
    with pytest.raises(FotError) as caught:
        sampler_of(problem_of(build(read_config(project(tmp_path, text)))))
    first = caught.value.diagnostics[0]
    assert (first.message, first.hint) == (message, hint)
    assert first.span is not None or hint is None


# --- axioms that exclude no world ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("axiom", "toml", "warned"),
    [
        ("hard axiom Once: forall r. F Slow(r)", other(), True),
        ("hard axiom Once: forall r. F[<=2] Slow(r)", other(), False),
        ("hard axiom Once: forall r. F Slow(r)", other(("[data]", 'end = "final"\n[data]')), False),
        ("hard axiom Once: forall r. F Slow(r)", other(('"posterior"', '"gradient"')), False),
        ("hard axiom Once: forall r. F Slow(r)", other(('"posterior"', '"auto"')), True),
        ("hard axiom Once: forall r. !(G Slow(r))", other(), True),
        ("hard axiom Once: exists r where Slow(r) & !Slow(r). F Slow(r)", other(), False),
    ],
)
def test_an_axiom_that_the_end_of_a_trace_leaves_open_is_told(tmp_path, axiom, toml, warned):
    built = build(read_config(project(tmp_path, toml, THEORY + axiom)))
    told = [str(one.message) for one in built.world.facts.warnings if "'Once'" in one.message]
    assert len(told) == warned
    assert all("says nothing about worlds" in text for text in told)
