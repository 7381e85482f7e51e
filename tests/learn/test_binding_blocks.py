"""Steps over few traces in blocks of bindings: the same bits for any number of processes."""

import time
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn import DataError
from fotltn.grounding.labels import Labels
from fotltn.learn.binding_blocks import BindingBlocks
from fotltn.learn.fit import fit
from fotltn.learn.objective import FACTS_ONLY, PAPER, RECIPE, Objective
from fotltn.learn.ranks import ALONE, Ranks
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import Schedule
from fotltn.learn.task import Task, Training
from fotltn.logic.check import check
from fotltn.networks.encoders import Embeddings, FeatureInputs, Joined
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Defined, Logits, Network, Predicate, Softmax, mlp
from fotltn.networks.rows import shares_bindings
from fotltn.networks.sequences import Encoded
from fotltn.semantics.config import GODEL, LOG_PRODUCT, LUKASIEWICZ, PRODUCT, STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.learn import tasks
from tests.learn.processes import alone, start, together
from tests.patience import PATIENCE

THEORY = """
sort agent, zone
static predicate Car(agent)
predicate Stop(agent), Run(agent), Left(agent), Right(agent), Meets(agent, agent)
predicate Close(agent, agent), In(agent, zone), Near(agent), Free(zone), Busy, Quiet(zone)
function speed(agent): real
relation pairs(agent, zone)
axiom Either: forall x. G(Car(x) -> Stop(x) | Run(x))
axiom Before: forall x. G(Near(x) -> WX Stop(x))
axiom Wait: forall x. Run(x) U Stop(x)
axiom Keep weight 2: forall x, y where Close(x, y). G(Stop(x) & Left(y) -> Meets(x, y))
axiom Apart: forall x, y where x != y. G(Meets(x, y) -> Meets(y, x))
axiom Some: exists x where Close(x, x). F(Stop(x))
axiom Deep: forall z. G(Free(z) -> !exists x. In(x, z) & Run(x))
axiom Listed: forall (x, z) in pairs. G(Run(x) -> Quiet(z))
axiom Always: G(Busy -> exists x. Run(x))
axiom Slow: forall x. G(speed(x) = 0.5 -> Stop(x))
"""
AGENTS, ZONES, HORIZON, BLOCKS, EPOCHS = 7, 2, 6, 4, 2


def crossing() -> torch.Tensor:
    """Facts that name entities of one half and of the other; nothing is about the last entity."""
    close = torch.zeros(1, AGENTS, AGENTS, HORIZON, dtype=torch.bool)
    close[0, :3, 3:6, ::2] = close[0, 3:6, :3, 1::2] = True
    return close


def scene(
    traces: int = 1, agents: int = AGENTS, *, close: torch.Tensor | None = None,
    recurrent: bool = False, text: str = THEORY, **training: Any,
) -> Task:  # fmt: skip
    """A task with networks of one and two arguments, groups, functions, tables and definitions."""
    rng = torch.Generator().manual_seed(4)
    options = {n: training.pop(n) for n in ("objective", "semantics", "p") if n in training}
    theory = check(parse_theory(text))
    if close is None:
        close = torch.rand(traces, agents, agents, HORIZON, generator=rng) < 0.3
    inside = torch.rand(1, agents, ZONES, HORIZON, generator=rng)
    lengths = torch.tensor([HORIZON - 2 * (n % 2) for n in range(traces)])
    pairs = torch.stack([torch.arange(agents) % agents, torch.arange(agents) % ZONES], 1)
    fixed = Tables(
        {"agent": agents, "zone": ZONES}, lengths, HORIZON,
        {"Close": sparse_table(close.nonzero().T, None, close.shape), "In": inside},
        relations={"pairs": pairs},
    )  # fmt: skip
    features = FeatureInputs(torch.randn(traces, agents, HORIZON, 2, generator=rng))
    vectors = Embeddings(traces, agents, HORIZON, 3, scale=0.5, generator=rng)
    seen: Any = Joined(features, vectors)
    if recurrent:
        there = torch.ones(traces, agents, HORIZON, dtype=torch.bool)
        seen = Encoded("agent", seen, mlp(5, (), 5, generator=rng), there)
    networks: dict[str, Predicate] = {
        "Car": Network(mlp(5, (4,), generator=rng), static=True),
        "Stop": Network(mlp(5, (4,), generator=rng)),
        "Run": Network(torch.nn.Sequential(mlp(5, (4,), 3, generator=rng), torch.nn.Dropout(0.3),
                                           mlp(3, (), generator=rng))),
        "Meets": Network(mlp(10, (4,), generator=rng)),
        "Free": Logits((traces, ZONES, HORIZON), scale=0.5, generator=rng),
        "Near": Defined(("x",), "exists y. Close(x, y) & Car(y)"),
        "Quiet": Defined(("z",), "!exists x. In(x, z) & Near(x)"),
        "Busy": Defined((), "exists x. Run(x) & F Stop(x)"),
    }  # fmt: skip
    group = Softmax(("Left", "Right"), mlp(5, (4,), 2, generator=rng))
    mask = torch.rand(traces, agents, HORIZON, generator=rng) < 0.9
    ground = Grounding(
        theory.signature, fixed, networks, inputs={"agent": seen}, groups=[group],
        functions={"speed": Network(mlp(5, (4,), generator=rng))}, present={"agent": mask},
    )  # fmt: skip
    index, truth = {}, {}
    sorts: dict[str, tuple[str, ...]] = {
        "Stop": ("agent",), "Left": ("agent",), "Near": ("agent",), "Meets": ("agent", "agent"),
    }  # fmt: skip
    for name, of in sorts.items():
        stated = torch.rand(traces, *[agents for _ in of], HORIZON, generator=rng) < 0.2
        index[name] = stated.nonzero().T
        truth[name] = (torch.rand(index[name].shape[1], generator=rng) < 0.5).double()
    training = {"blocks": BLOCKS, "epochs": EPOCHS, "rate": 0.05, **training}
    return Task(
        ground,
        Axioms(theory, options.get("semantics", STABLE_PRODUCT), options.get("p", {})),
        options.get("objective", PAPER),
        Labels(index, truth, sorts),
        Training(**training),
    )


CASES: dict[str, dict[str, Any]] = {
    "paper": {"validation": 0.2},
    "recipe": {"objective": replace(RECIPE, learn_flips=True), "clip": 0.1},
    "prior": {"objective": replace(RECIPE, prior=0.1, trust=2.0)},
    "three traces": {"traces": 3},
    "two entities": {"agents": 2, "blocks": 5},
    "facts that cross": {"close": crossing()},
    "no facts": {"close": torch.zeros(1, AGENTS, AGENTS, HORIZON)},
    "more blocks than anything": {"blocks": 40},
    "two blocks": {"blocks": 2},
    "an encoder": {"recurrent": True},
    "facts alone": {"objective": FACTS_ONLY},
    "product": {"semantics": PRODUCT},
    "godel": {"semantics": GODEL},
    "lukasiewicz": {"semantics": LUKASIEWICZ},
    "log": {"objective": Objective(axioms="log", facts="cross-entropy", together="sum"),
            "semantics": LOG_PRODUCT},
    "degrees of logs": {"semantics": LOG_PRODUCT},
    "exponents": {"p": {"Wait": Schedule(((0.0, 2.0), (2.0, 4.0))),
                        "Deep": Schedule(((0.0, 3.0),))}},
    "a large exponent": {"semantics": STABLE_PRODUCT.with_p(80)},
}  # fmt: skip


def trained(ranks: Ranks, names: tuple[str, ...], dtype=torch.float64) -> dict[str, Any]:  # noqa: ARG001
    """The losses, gradients of the last step and weights of each case."""
    outcomes = {}
    for name in names:
        made = scene(**CASES[name])
        made.grounding.to(dtype)
        outcome = fit(made)
        slopes = {n: p.grad for n, p in made.grounding.named_parameters() if p.grad is not None}
        outcomes[name] = (outcome, slopes, tasks.weights(made))
    return outcomes


def without_draws(made: Task) -> Task:
    for module in made.grounding.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return made


# --- one process ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_blocks_come_to_what_all_at_once_does(name):
    """The gradients of a step, and the losses of two."""
    for epochs in (1, 2):
        options = {**CASES[name], "epochs": epochs}
        blocked, plain = without_draws(scene(**options)), without_draws(scene(**options))
        plain = replace(plain, training=replace(plain.training, blocks=None))
        first, second = fit(blocked), fit(plain)
        for one, other in zip(first.history, second.history, strict=True):
            assert one.loss == pytest.approx(other.loss, rel=1e-12)
            assert one.watched == pytest.approx(other.watched, rel=1e-12)
            assert one.values == pytest.approx(other.values, rel=1e-12, abs=1e-12)
        if epochs == 1:
            others = dict(plain.grounding.named_parameters())
            for key, weight in blocked.grounding.named_parameters():
                theirs = others[key].grad
                assert (weight.grad is None) == (theirs is None), key
                if theirs is not None:
                    torch.testing.assert_close(weight.grad, theirs, rtol=0, atol=1e-12)


def test_a_network_that_draws_is_the_same_again():
    first, second = (fit(scene()) for _ in range(2))
    assert first == second
    assert first != fit(scene(blocks=BLOCKS + 1))


def test_a_network_that_keeps_numbers_of_its_own_is_refused():
    ground = tasks.grounding(stop=tasks.dropout())
    with pytest.raises(DataError, match=r"norm\.\w+' changes with what a network sees"):
        fit(tasks.task(ground=ground, blocks=2, epochs=1))


@pytest.mark.parametrize(
    ("options", "bindings"),
    [
        ({"traces": 1}, True),
        ({"traces": 3}, True),
        ({"traces": 1, "recurrent": True}, True),
        ({"traces": 3, "recurrent": True}, False),  # each process would compute the encoder
        ({"traces": 4}, False),
    ],
)
def test_which_steps_have_blocks_of_bindings(options, bindings):
    assert shares_bindings(scene(**options).grounding, BLOCKS) == bindings


def test_a_block_computes_its_rows_of_networks_alone():
    """So that work and memory are shared."""
    made = scene(blocks=3)
    seen = []
    stop = made.grounding.networks["Stop"]
    stop.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0][0].shape[1]))
    modules = torch.nn.ModuleDict({"grounding": made.grounding})
    blocks = BindingBlocks(made, modules, lambda: 0.0, replace(ALONE, number=1, count=3), {})
    assert [*blocks._mine] == [1]
    with pytest.raises(ValueError, match="process group"):  # there is no group to tell the rows to
        blocks.forth_and_back(made.labels, 0.0, None, 1)
    assert seen == [2]


# --- several ----------------------------------------------------------------------------------


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, (outcome, slopes, weights) in first.items():
        assert second[name][0] == outcome, name
        assert tasks.same(second[name][1], slopes), name
        assert tasks.same(second[name][2], weights), name


FEW = ("paper", "two entities", "facts that cross")


def test_several_processes_come_to_the_same_bits_as_one(tmp_path):
    """Three processes have four blocks: shares are uneven. Two entities leave some with nothing."""
    expected = alone(trained, FEW)
    for outcome in together(3, tmp_path, trained, FEW):
        assert not isinstance(outcome, str), outcome
        assert_same(expected, outcome)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_number_of_processes_comes_to_the_same_bits(tmp_path, count):
    expected = alone(trained, tuple(CASES))
    for outcome in together(count, tmp_path, trained, tuple(CASES)):
        assert not isinstance(outcome, str), outcome
        assert_same(expected, outcome)


def test_single_precision_agrees(tmp_path):
    expected = alone(trained, FEW, torch.float32)
    exact = alone(trained, FEW)
    for outcome in together(2, tmp_path, trained, FEW, torch.float32):
        assert_same(expected, outcome)
    for name, (one, _, _) in expected.items():
        assert one.history[0].loss == pytest.approx(exact[name][0].history[0].loss, abs=1e-6)


LONG = 40


def resumed(ranks: Ranks, folder):
    made = scene(**{**CASES["recipe"], "epochs": LONG, "patience": None})
    (folder.parent / f"met-{ranks.number}").touch()
    fit(made, checkpoints=folder, every=1)
    return tasks.weights(made)


@pytest.mark.slow
def test_a_process_is_killed_and_others_go_on_with_another_number(tmp_path):
    (tmp_path / "alone").mkdir()
    expected = alone(resumed, tmp_path / "alone" / "checkpoints")
    folder = tmp_path / "killed"
    started = start(3, tmp_path / "meet", resumed, folder)
    while not [*folder.glob("step-*")] and all(process.is_alive() for process, _ in started):
        time.sleep(0.01)
    started[1][0].kill()
    for process, _ in started:
        process.join(PATIENCE)
        assert process.exitcode is not None, "a process waits for one that was killed"
    (newest,) = [path.name for path in sorted(folder.glob("step-*"))[-1:]]
    assert not newest.endswith(str(LONG))
    for weights in together(2, tmp_path / "meet", resumed, folder):
        assert not isinstance(weights, str), weights
        assert tasks.same(weights, expected)
