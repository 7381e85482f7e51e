"""Many runs as one: each as if it were alone, as the objective says, and as the library trains."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from fotltn import DataError
from fotltn.experiments import many
from fotltn.experiments.carped import LEARNED
from fotltn.experiments.htgnn import HTGNN
from fotltn.experiments.many import COUNTING, Trained, batch, records, run_many, train
from fotltn.experiments.protocol import READING, Run, Setting, facts_of, world
from fotltn.experiments.supervision import mean_error, unsatisfied
from fotltn.learn.audit import audit
from fotltn.learn.audit_crisp import count_cells
from fotltn.learn.fit import fit
from fotltn.learn.metrics import kb_sat
from fotltn.learn.objective import FACTS_ONLY, PAPER, axiom_loss, fact_loss, losses
from fotltn.learn.prefix import prefix
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import Schedule
from fotltn.learn.sweep import axiom_values, two_valued
from fotltn.learn.task import Task, Training
from fotltn.networks.grounding import Grounding
from fotltn.networks.inputs import Embeddings
from fotltn.networks.predicates import Network, mlp
from fotltn.report.records import read, record, write
from fotltn.semantics.config import STABLE_PRODUCT, named
from tests.experiments.tiny import tiny

__all__ = ["tiny"]

OURS = ("FOT-LTN+BK", "FOT-LTN")
CELLS = ((0.1, 0), (0.5, 1), (0.8, 0), (0.5, 2))


def some(data, method, cells=CELLS):
    return [Run(data, method, fraction, repetition) for fraction, repetition in cells]


def double(runs, setting=READING):
    return batch(runs, setting, "cpu", dtype=torch.float64)


def one_trace(work, tables, number):
    """The model of one run alone."""
    own = {n: t[number : number + 1] for n, t in tables.items()}
    return replace(work.model(own), lengths=work.base.lengths[:1])


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
        held = axiom_loss(objective, values, axioms.weights({}, 0).to(values), 0)
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
    held = axiom_loss(PAPER, values, axioms.weights({}, 0).to(values), 0)
    facts = fact_loss(PAPER, work.trains[0], model, 0, 0.1)
    close(module()[0], losses(PAPER, facts, held, 0).total, 1e-6)


def test_a_mean_error_has_no_slope_at_nothing_and_keeps_what_is_no_number():
    powers = torch.tensor([0.0, 0.0625, float("nan")], requires_grad=True)
    found = mean_error(powers, 4.0)
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
    setting = replace(READING, epochs=25, keep_best=keep_best)
    together = assert_as_alone(setting, some(tiny, method))
    assert len(set(together.losses[0].tolist())) == len(CELLS)


@pytest.mark.parametrize("watch", [0.0, 0.2])
def test_runs_that_stop_at_different_epochs(tiny, watch):
    setting = replace(READING, epochs=60, patience=3, rate=0.3, watch=watch)
    together = assert_as_alone(setting, some(tiny, "FOT-LTN"), 1e-6)
    assert len(set(together.epochs.tolist())) > 1
    assert together.epochs.max() < 60


def test_htgnn_without_dropout_together_and_alone(tiny, monkeypatch):
    monkeypatch.setattr(many, "HTGNN", partial(HTGNN, dropout=0.0))
    setting = replace(READING, epochs=12, rate=0.02, patience=4)
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
    runs, setting = some(tiny, "FOT-LTN+BK"), replace(READING, epochs=15)
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
    setting = replace(READING, epochs=50, patience=2, rate=0.5)
    work = double(some(tiny, "FOT-LTN"), setting)
    found = train(work)
    expected = [stops(found.losses[:, i].tolist(), 2, 50) for i in range(len(CELLS))]
    assert [(int(b), int(e)) for b, e in zip(found.best, found.epochs, strict=True)] == expected
    assert len({last for _, last in expected}) > 1
    kept = unsatisfied(found.tables, work.facts, setting.p)
    for number, (best, _) in enumerate(expected):
        close(kept[number], found.losses[best - 1, number])


def test_a_run_that_stopped_does_not_change(tiny):
    setting = replace(READING, patience=2, rate=0.5)
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
    with pytest.raises(DataError, match=r"FOT-LTN on Tiny \(10%, repetition 0\) is no number in"):
        train(batch(runs, replace(READING, rate=1e38, epochs=9), "cpu"))


def test_only_runs_of_one_kind_are_trained_together(tiny):
    mixed = [*some(tiny, "FOT-LTN"), *some(tiny, "HTGNN")]
    for runs, count in ((mixed, 2), ([], 0)):
        with pytest.raises(DataError, match=f"one data set and method, not {count}"):
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
        drawn: many.ManyMLP = theirs[name].module  # type: ignore[assignment]
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
    work = batch(some("CarPed35K", "FOT-LTN+BK", [(0.4, 1)]), replace(READING, epochs=6), "cpu")
    found = train(work)
    torch.set_default_dtype(torch.float32)
    grounding = as_a_user(work)
    axioms = Axioms(work.world.theory, STABLE_PRODUCT)
    outcome = fit(Task(grounding, axioms, PAPER, work.trains[0], Training(epochs=6)))
    assert [e.loss for e in outcome.history] == pytest.approx(found.losses[:, 0].tolist(), rel=1e-5)
    assert found.parameters == 324_902


# --- records ---------------------------------------------------------------------------------


def random_tables(work, seed):
    generator = torch.Generator().manual_seed(seed)
    agents, steps = work.base.sizes["agent"], work.base.horizon
    return {
        name: torch.rand(
            len(work.runs), agents, 1 if name in ("Car", "Ped") else steps, generator=generator
        )
        for name in LEARNED
    }


def made_up(tables, count):
    numbers = torch.ones(count, dtype=torch.long)
    return Trained(tables, numbers, numbers, torch.zeros(1, count), 5)


def test_violations_are_those_that_an_audit_counts(tiny):
    work = double(some(tiny, "FOT-LTN"))
    tables = random_tables(work, 3)
    tables["Car"][0] = 0.0  # no antecedent is true
    tables["Ped"][1] = 0.5  # just true
    written = records(work, made_up(tables, len(CELLS)), 1.0)
    theory = work.world.theory
    for number, found in enumerate(written):
        crisp = two_valued(one_trace(work, tables, number), 0.5)
        for axiom in theory.axioms:
            counted = count_cells(prefix(axiom.formula), theory.signature, crisp)
            rate = counted.violations / counted.cells
            assert found["violations"][axiom.name] == pytest.approx(rate, abs=1e-12), axiom.name
        whole = audit(
            theory, one_trace(work, tables, number), STABLE_PRODUCT, learned=LEARNED,
            dtype=torch.float64,
        )  # fmt: skip
        assert found["axioms"] == pytest.approx({a.name: a.value for a in whole.axioms})
        assert found["violation_rate"] == pytest.approx(np.mean(list(found["violations"].values())))
    assert any(0 < rate < 1 for rate in written[2]["violations"].values())


def test_violations_counted_by_hand(tiny):
    work = double(some(tiny, "FOT-LTN", [(0.5, 0)]))
    tables = random_tables(work, 8)
    (found,) = records(work, made_up(tables, 1), 1.0)
    is_true = {n: (t[0] >= 0.5).numpy() for n, t in tables.items()}
    near = world(tiny).scene.tables()["Close"]
    car, ped = is_true["Car"][:, 0], is_true["Ped"][:, 0]
    agents, _, steps = near.shape
    wrong = later = 0
    for x in range(agents):
        for y in range(agents):
            for t in range(steps):
                if car[x] and ped[y] and is_true["Crossing"][y, t] and near[x, y, t]:
                    wrong += t + 1 < steps and not is_true["Stop"][x, t + 1]
                    later += bool(is_true["Stop"][x, t]) and not is_true["Run"][x, t:].any()
    assert found["violations"]["A1"] == pytest.approx(wrong / near.size, abs=1e-12)
    assert found["violations"]["A2"] == pytest.approx(later / near.size, abs=1e-12)
    assert wrong > 0
    starts = (car & ~is_true["Run"][:, 0]).mean()
    assert found["violations"]["A4"] == pytest.approx(starts, abs=1e-12)
    assert found["violations"]["A5"] == 0
    assert COUNTING.name == "counting"


def test_satisfaction_and_scores_of_a_record(tiny):
    work = double(some(tiny, "FOT-LTN"))
    tables = random_tables(work, 4)
    formulas = {a.name: a.formula for a in work.world.theory.axioms}
    from sklearn.metrics import average_precision_score  # type: ignore[import-untyped]

    for number, found in enumerate(records(work, made_up(tables, len(CELLS)), 2.0)):
        model = one_trace(work, tables, number)
        values = axiom_values(
            formulas, work.world.theory.signature, model, STABLE_PRODUCT, dtype=torch.float64
        )
        assert found["axioms"] == pytest.approx({n: float(v) for n, v in values.items()})
        assert found["kb_sat"] == pytest.approx(kb_sat(list(found["axioms"].values())).value)
        test = facts_of(work.runs[number], READING)[1]
        expected = {}
        for name in LEARNED:
            _, agent, time = test.index[name].numpy()
            scores = tables[name][number].numpy()[agent, time]
            expected[name] = average_precision_score(test.truth[name].numpy(), scores)
        assert found["pr_auc_by"] == pytest.approx(expected)
        assert found["pr_auc"] == pytest.approx(np.mean(list(expected.values())))
        assert found["seconds"] == 0.5
        shares = [float(truth.double().mean()) for truth in test.truth.values()]
        assert found["chance"] == pytest.approx(np.mean(shares))


@pytest.mark.parametrize("method", [*OURS, "HTGNN"])
def test_records_are_those_that_reports_read(tiny, method, tmp_path):
    found = run_many(some(tiny, method), replace(READING, epochs=2))
    assert [(r["fraction"], r["repetition"]) for r in found] == list(CELLS)
    kept = [record(values) for values in found]
    assert not any(one.extra for one in kept)
    assert all(one.setting["epochs"] == 2 and one.setting["types"] == "all" for one in kept)
    assert {(one.epochs, one.batch, one.device) for one in kept} == {(2, 4, "cpu")}
    assert all(one.seconds > 0 for one in kept)
    for name in ("r.jsonl", "r.parquet"):
        assert read(write(kept, tmp_path / name)) == tuple(kept)


def test_a_predicate_whose_test_facts_are_all_alike_has_no_score(tiny, tmp_path):
    (found,) = run_many([Run(tiny, "FOT-LTN", 0.99, 0)], Setting(epochs=1))
    test = facts_of(Run(tiny, "FOT-LTN", 0.99, 0), Setting())[1]
    alike = {n for n, t in test.truth.items() if len(t.unique()) < 2}
    assert alike
    assert set(found["pr_auc_by"]) == set(LEARNED) - alike
    assert read(write([record(found)], tmp_path / "r.jsonl"))
