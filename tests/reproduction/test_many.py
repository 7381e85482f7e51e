"""Many runs as one: each as if it were alone, as the objective says, and as the library trains."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from fotltn import DataError
from fotltn.learn.fit import fit
from fotltn.learn.objective import FACTS_ONLY, PAPER, axiom_loss, fact_loss, losses, rooted
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import Schedule
from fotltn.learn.task import Task, Training
from fotltn.networks.encoders import Embeddings
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Network, mlp
from fotltn.project.scene import LEARNED
from fotltn.semantics.config import STABLE_PRODUCT, named
from reproduction.paper import many
from reproduction.paper.htgnn import HTGNN
from reproduction.paper.many import batch, records, train
from reproduction.paper.many_networks import ManyMLP
from reproduction.paper.protocol import READING, Setting, facts_of, world
from reproduction.paper.supervision import unsatisfied
from tests.reproduction.tiny import CELLS, double, one_trace, some, tiny

__all__ = ["tiny"]

OURS = ("FOT-LTN+BK", "FOT-LTN")


def close(found, expected, tolerance=1e-9):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


# --- the loss --------------------------------------------------------------------------------


def objective_of(method, p):
    return replace(PAPER if method == "FOT-LTN+BK" else FACTS_ONLY, p=Schedule(((0.0, p),)))


@pytest.mark.parametrize("method", OURS)
@pytest.mark.parametrize(
    "setting",
    [READING, replace(READING, p=2.0), Setting(semantics="ltn"), Setting(types="every step")],
    ids=["reading", "p=2", "ltn", "every step"],
)
def test_the_loss_and_its_gradients_are_those_of_the_objective(tiny, method, setting):
    work = double(some(tiny, method), setting)
    module = many._Ours(work)
    weights = list(module.parameters())
    found = module()
    objective = objective_of(method, setting.p)
    axioms = Axioms(world(tiny).theory, named(setting.semantics).with_p(setting.p))
    for number, run in enumerate(work.runs):
        tables = module.tables()
        model = one_trace(work, tables, number)
        facts = fact_loss(objective, facts_of(run, setting)[0], model, 0, 0.1)
        values = axioms.values(model, key=None)
        held = axiom_loss(objective, values, values.new_tensor(axioms.weights({}, 0)), 0)
        expected = losses(objective, facts, held, 0).total
        close(found[number], expected)
        ours = torch.autograd.grad(found[number], weights, retain_graph=True)
        theirs = torch.autograd.grad(expected, weights)
        for one, two in zip(ours, theirs, strict=True):
            close(one, two)
        assert all(not g[j].any() for g in ours for j in range(len(found)) if j != number)
        assert all(g[number].any() for g in ours)


def test_the_loss_of_the_paper_s_data_set_in_single_precision():
    work = batch(some("CarPed35K", "FOT-LTN+BK", [(0.1, 3)]), READING, "cpu")
    module = many._Ours(work)
    model = one_trace(work, module.tables(), 0)
    axioms = Axioms(work.world.theory, STABLE_PRODUCT)
    values = axioms.values(model)
    held = axiom_loss(PAPER, values, values.new_tensor(axioms.weights({}, 0)), 0)
    facts = fact_loss(PAPER, work.trains[0], model, 0, 0.1)
    close(module()[0], losses(PAPER, facts, held, 0).total, 1e-6)


def test_a_mean_error_has_no_slope_at_nothing_and_keeps_what_is_no_number():
    powers = torch.tensor([0.0, 0.0625, float("nan")], requires_grad=True)
    found = rooted(powers, 4.0)
    assert found[:2].tolist() == [0.0, 0.5]
    assert found[2].isnan()
    (slope,) = torch.autograd.grad(found[:2].sum(), powers)
    assert slope[0] == 0
    assert slope[1] == pytest.approx(0.25 * 0.0625**-0.75)


# --- apart from each other -------------------------------------------------------------------


def flat(found, prefix=""):
    """The numbers and names of a record by path, without what depends on the batch."""
    if not isinstance(found, dict):
        return {prefix: found}
    kept = {k: v for k, v in found.items() if k not in ("batch", "seconds")}
    return {p: v for k, item in kept.items() for p, v in flat(item, f"{prefix}.{k}").items()}


def assert_as_alone(setting, runs, tolerance=1e-9):
    """Train runs together, and each by itself."""
    whole = double(runs, setting)
    together = train(whole)
    written = records(whole, together, 4.0)
    for number, run in enumerate(runs):
        work = double([run], setting)
        alone = train(work)
        last = int(alone.epochs[0])
        assert int(together.epochs[number]) == last
        assert int(together.best[number]) == int(alone.best[0])
        close(together.losses[:last, number], alone.losses[:last, 0], tolerance)
        for name in LEARNED:
            close(together.tables[name][number], alone.tables[name][0], tolerance)
        (single,) = records(work, alone, 1.0)
        assert (written[number]["batch"], single["batch"]) == (len(runs), 1)
        assert written[number]["seconds"] == 4.0 / len(runs)
        ours, theirs = flat(written[number]), flat(single)
        assert ours == pytest.approx(theirs, abs=1e-9)
    return together


@pytest.mark.parametrize("method", OURS)
@pytest.mark.parametrize("keep_best", [True, False])
def test_runs_together_are_as_they_are_alone(tiny, method, keep_best):
    setting = replace(READING, epochs=10, keep_best=keep_best)
    together = assert_as_alone(setting, some(tiny, method))
    assert len(set(together.losses[0].tolist())) == len(CELLS)


@pytest.mark.parametrize("watch", [0.0, 0.2])
def test_runs_that_stop_at_different_epochs(tiny, watch):
    setting = replace(READING, epochs=60, patience=3, rate=0.3, watch=watch)
    together = assert_as_alone(setting, some(tiny, "FOT-LTN"), 1e-6)
    assert watch or len(set(together.epochs.tolist())) > 1
    assert together.epochs.max() < 60


def test_htgnn_without_dropout_together_and_alone(tiny, monkeypatch):
    monkeypatch.setattr(many, "HTGNN", partial(HTGNN, dropout=0.0))
    setting = replace(READING, epochs=6, rate=0.02, patience=4)
    assert_as_alone(setting, some(tiny, "HTGNN"), 1e-7)


def test_htgnn_begins_by_the_seed_of_each_run(tiny):
    runs = some(tiny, "HTGNN")
    together = many._Peer(double(runs)).eval().tables()
    for number, run in enumerate(runs):
        alone = many._Peer(double([run])).eval().tables()
        for name in LEARNED:
            close(together[name][number], alone[name][0])
    firsts = {float(t.detach()) for t in together["Run"][:, 0, 0]}
    assert len(firsts) == len(runs)


def test_single_precision_follows_for_a_while(tiny):
    runs, setting = some(tiny, "FOT-LTN+BK"), replace(READING, epochs=8)
    together = train(batch(runs, setting, "cpu"))
    assert together.losses.dtype == torch.float32
    for number, run in enumerate(runs):
        alone = train(batch([run], setting, "cpu"))
        close(together.losses[:, number], alone.losses[:, 0], 1e-4)
        for name in LEARNED:
            close(together.tables[name][number], alone.tables[name][0], 1e-3)


@pytest.mark.parametrize("method", ["FOT-LTN", "HTGNN"])
def test_training_is_repeatable_and_leaves_the_common_generator_alone(tiny, method):
    work = double(some(tiny, method), replace(READING, epochs=4))
    torch.manual_seed(1)
    first = train(work)
    drawn = torch.rand(())
    torch.manual_seed(1)
    assert torch.rand(()) == drawn
    torch.manual_seed(77)
    again = train(work)
    assert torch.equal(first.losses, again.losses)
    assert all(torch.equal(first.tables[n], again.tables[n]) for n in LEARNED)


# --- which epoch counts ----------------------------------------------------------------------


def stops(losses, patience, epochs):
    """The best and the last epoch, by hand."""
    best, at = float("inf"), 0
    for epoch, loss in enumerate(losses, 1):
        if loss < best:
            best, at = loss, epoch
        if epoch - at >= patience or epoch == epochs:
            return at, epoch
    raise AssertionError("training ended before its time")


def test_each_run_stops_by_its_own_patience_and_keeps_its_best_epoch(tiny):
    setting = replace(READING, epochs=50, patience=3, rate=0.3)
    work = double(some(tiny, "FOT-LTN"), setting)
    found = train(work)
    expected = [stops(found.losses[:, i].tolist(), 3, 50) for i in range(len(CELLS))]
    assert [(int(b), int(e)) for b, e in zip(found.best, found.epochs, strict=True)] == expected
    assert len({last for _, last in expected}) > 1
    kept = unsatisfied(found.tables, work.facts, setting.p)
    for number, (best, _) in enumerate(expected):
        close(kept[number], found.losses[best - 1, number])


def test_a_run_that_stopped_does_not_change(tiny):
    setting = replace(READING, patience=3, rate=0.3)
    runs = some(tiny, "FOT-LTN")
    long = train(double(runs, replace(setting, epochs=60)))
    first = int(long.epochs.min())
    assert first < int(long.epochs.max())
    short = train(double(runs, replace(setting, epochs=first)))
    number = int(long.epochs.argmin())
    for name in LEARNED:
        assert torch.equal(short.tables[name][number], long.tables[name][number])
    for keep_best in (True, False):
        chosen = replace(setting, epochs=60, keep_best=keep_best)
        together, alone = (
            train(double(runs, chosen)),
            train(double(runs[number : number + 1], chosen)),
        )
        close(together.tables["Run"][number], alone.tables["Run"][0], 1e-6)


def test_the_last_weights_are_those_after_the_last_step(tiny):
    work = double(some(tiny, "FOT-LTN+BK"), replace(READING, epochs=3, keep_best=False))
    module = many._Ours(work)
    optimiser = torch.optim.Adam(module.parameters(), lr=READING.rate)
    for _ in range(3):
        optimiser.zero_grad()
        module().sum().backward()
        optimiser.step()
    found = train(work).tables
    for name, table in module.tables().items():
        close(found[name], table.detach())


def test_predictions_of_htgnn_are_without_dropout(tiny):
    """After one epoch the best weights are the initial ones."""
    work = double(some(tiny, "HTGNN"), replace(READING, epochs=1))
    found = train(work).tables
    module = many._Peer(work)
    plain, dropped = module.eval().tables(), module.train().tables()
    for name in LEARNED:
        close(found[name], plain[name].detach())
    assert not torch.allclose(found["Run"], dropped["Run"])


def test_facts_that_are_watched_are_not_learned_from(tiny):
    runs = some(tiny, "HTGNN")
    whole, part = double(runs), double(runs, replace(READING, watch=0.25))
    assert part.watched is not None
    for number, labels in enumerate(part.trains):
        watched = sum(int((part.watched.run[n] == number).sum()) for n in LEARNED)
        assert labels.total + watched == whole.trains[number].total
        assert (
            watched == int(part.watched.counts[number]) == round(0.25 * whole.trains[number].total)
        )
    for name in LEARNED:
        learned = set(part.facts.cells[name].tolist())
        assert not learned & set(part.watched.cells[name].tolist())
    edges = many._Peer(part).net.get_buffer("own_Crossing")
    cars, steps = world(tiny).scene.size.cars, world(tiny).scene.size.steps
    learned = {
        c
        for c, y in zip(
            part.facts.cells["Crossing"].tolist(),
            part.facts.truth["Crossing"].tolist(),
            strict=True,
        )
        if y > 0.5
    }
    agents = sum(world(tiny).scene.size[:2])
    drawn = {
        (run * agents + cars + agent) * steps + time
        for run, time, agent in edges.nonzero().tolist()
    }
    assert drawn == learned


def test_epochs_are_reported_and_training_ends_when_all_have_stopped(tiny):
    told: list[tuple[int, int]] = []
    setting = replace(READING, epochs=500, patience=2, rate=0.5)
    found = train(double(some(tiny, "FOT-LTN"), setting), lambda *now: told.append(now))
    assert [epoch for epoch, _ in told] == list(range(10, 10 * len(told) + 1, 10))
    assert told[-1][1] == 0
    assert all(left > 0 for _, left in told[:-1])
    assert len(found.losses) == told[-1][0]


def test_a_loss_that_is_no_number_is_an_error(tiny):
    runs = some(tiny, "FOT-LTN")
    with pytest.raises(
        DataError, match=r"FOT-LTN on Tiny \(10%, repetition 0\) is not a number in"
    ):
        train(batch(runs, replace(READING, scale=1e38, epochs=2), "cpu"))


def test_only_runs_of_one_kind_are_trained_together(tiny):
    mixed = [*some(tiny, "FOT-LTN"), *some(tiny, "HTGNN")]
    for runs, count in ((mixed, 2), ([], 0)):
        with pytest.raises(DataError, match=f"share data set and method, not have {count}"):
            batch(runs, READING, "cpu")


# --- as the library trains -------------------------------------------------------------------


def as_a_user(work):
    """The grounding of one run by the library's own networks, with the same initial weights."""
    module = many._Ours(work)
    signature = work.world.theory.signature
    theirs = dict(module.grounding.networks.items())
    networks: dict[str, Network] = {}
    for name in LEARNED:
        own = mlp(32)
        layers = [layer for layer in own if isinstance(layer, torch.nn.Linear)]
        drawn = theirs[name].module
        assert isinstance(drawn, ManyMLP)
        with torch.no_grad():
            for layer, weight, bias in zip(layers, drawn.weights, drawn.biases, strict=True):
                layer.weight.copy_(weight[0].T)
                layer.bias.copy_(bias[0, 0])
        networks[name] = Network(own, static=signature.predicates[name].static)
    agents, steps = work.base.sizes["agent"], work.base.horizon
    seen = Embeddings(1, agents, steps, 32)
    seen.load_state_dict(module.grounding.inputs["agent"].state_dict())
    return Grounding(signature, work.base, networks, inputs={"agent": seen})


@pytest.mark.parametrize("method", OURS)
def test_the_library_trains_the_same(tiny, method):
    setting = replace(READING, epochs=40, patience=3, rate=0.03)
    work = double(some(tiny, method, [(0.5, 0)]), setting)
    found = train(work)
    grounding = as_a_user(work)
    axioms = Axioms(work.world.theory, STABLE_PRODUCT)
    training = Training(epochs=40, patience=3, rate=0.03)
    outcome = fit(Task(grounding, axioms, objective_of(method, 4.0), work.trains[0], training))
    assert len(outcome.history) == int(found.epochs[0])
    assert outcome.best_epoch == int(found.best[0])
    assert [e.loss for e in outcome.history] == pytest.approx(
        found.losses[: len(outcome.history), 0].tolist(), rel=1e-7
    )
    with torch.no_grad():
        tables = grounding().predicates
    for name in LEARNED:
        close(found.tables[name], tables[name], 1e-6)


def test_the_library_trains_the_same_on_the_paper_s_data():
    """In single precision, as the reproduction does."""
    work = batch(some("CarPed35K", "FOT-LTN+BK", [(0.4, 1)]), replace(READING, epochs=3), "cpu")
    found = train(work)
    torch.set_default_dtype(torch.float32)
    grounding = as_a_user(work)
    axioms = Axioms(work.world.theory, STABLE_PRODUCT)
    outcome = fit(Task(grounding, axioms, PAPER, work.trains[0], Training(epochs=3)))
    assert [e.loss for e in outcome.history] == pytest.approx(found.losses[:, 0].tolist(), rel=1e-5)
    assert found.parameters == 324_902
