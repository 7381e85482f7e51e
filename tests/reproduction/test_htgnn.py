"""The baseline: its size, its meaning beside plain loops, runs apart from each other, dropout."""

import math

import numpy as np
import pytest
import torch

from fotltn import DataError
from fotltn.grounding.labels import Labels
from fotltn.project.scene import LEARNED, Size, generate
from reproduction.paper.carped import CARPED35K, CARPED180K
from reproduction.paper.htgnn import (
    HTGNN,
    OWN,
    STATIC,
    parameter_count,
    targets,
)
from reproduction.paper.supervision import Supervision, cross_entropy, supervision

SMALL = Size(3, 4, 5)


def some_labels(size, seed, share=0.5):
    """Facts of all predicates about all agents, also those that are no edges."""
    g = torch.Generator().manual_seed(seed)
    index, truth = {}, {}
    for name in LEARNED:
        steps = 1 if name in STATIC else size.steps
        known = torch.rand(1, size.cars + size.pedestrians, steps, generator=g) < share
        index[name] = known.nonzero().T.contiguous()
        truth[name] = (torch.rand(index[name].shape[1], generator=g) < 0.5).double()
    return Labels(index, truth)


def facts_of(labels, size):
    """The facts of runs, as the loss takes them."""
    agents = size.cars + size.pedestrians
    shapes = {name: (agents, 1 if name in STATIC else size.steps) for name in LEARNED}
    return supervision(labels, shapes, "cpu", torch.float64)


def model(size=SMALL, seeds=(0,), *, close=0.4, **options):
    """A model in evaluation mode, with all parameters moved off their initial values."""
    given = [some_labels(size, seed) for seed in seeds]
    scene = generate(*size, seed=1, close=close)
    g = torch.Generator().manual_seed(7)
    options = {"width": 4, "dtype": torch.float64, "generator": g, **options}
    found = HTGNN(size, len(seeds), given, scene.close, **options).eval()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=g), alpha=0.3)
    return found


# --- size ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "count"), [(CARPED35K, 588_874), (CARPED180K, 1_337_674)])
def test_the_sizes_are_those_that_the_paper_implies(size, count):
    assert parameter_count(size) == count
    fot_ltn = sum(size[:2]) * size.steps * 32 + 6 * (32 * 16 + 16 + 16 * 16 + 16 + 16 + 1)
    assert round(count / fot_ltn, 2) == {CARPED35K: 1.81, CARPED180K: 1.39}[size]
    made = HTGNN(size, 1, [Labels({}, {})], np.zeros(size, dtype=np.bool_), dtype=torch.float32)
    assert sum(p.numel() for p in made.parameters()) == count


def test_the_count_follows_width_layers_and_runs():
    for width, layers, runs in [(2, 1, 1), (6, 3, 2)]:
        made = model(seeds=range(runs), width=width, layers=layers)
        assert all(p.shape[0] == runs for p in made.parameters())
        found = sum(p.numel() for p in made.parameters())
        assert found == runs * parameter_count(SMALL, width=width, layers=layers)


# --- meaning ---------------------------------------------------------------------------------


class Loops:
    """What one run computes without dropout, node by node and edge by edge."""

    def __init__(self, made, labels, close):
        self.w = {name: value[0].numpy() for name, value in made.state_dict().items()}
        self.size, self.labels, self.close = made.size, labels, close

    def linear(self, name, x):
        return x @ self.w[f"{name}.weight"] + self.w.get(f"{name}.bias", np.zeros((1, 1)))[0]

    def neighbours(self, relation, kind, node, time):
        """The nodes with edges to a node: their type and number."""
        cars, pedestrians, _ = self.size
        if relation == "close":
            if kind == 0:
                return [(1, j) for j in range(pedestrians) if self.close[node, j, time]]
            return [(0, i) for i in range(cars) if self.close[i, node, time]]
        agent = node + (cars if kind else 0)
        at = 0 if relation in STATIC else time
        cells = self.labels.index[relation].T.tolist()
        facts = zip(cells, self.labels.truth[relation].tolist(), strict=True)
        return [(kind, node) for cell, truth in facts if cell == [0, agent, at] and truth == 1]

    def message(self, name, relation, kind, node, time, state):
        """What graph attention gives a node."""
        weight = self.w[f"{name}.weight"]
        own = weight.T @ state[kind, node, time]
        others = [
            weight.T @ state[k, n, time] for k, n in self.neighbours(relation, kind, node, time)
        ]
        scores = []
        for other in others:
            score = other @ self.w[f"{name}.source"][:, 0] + own @ self.w[f"{name}.target"][:, 0]
            scores.append(math.exp(score if score > 0 else 0.2 * score))
        found = np.zeros_like(own)
        for score, other in zip(scores, others, strict=True):
            found += score / sum(scores) * other
        return found

    def layer(self, name, state):
        counts, after = self.size[:2], {}
        for kind, count in enumerate(counts):
            relations = {"close": f"{name}.close.{kind}"}
            relations |= {p: f"{name}.loops.{p}" for p in OWN[kind]}
            merged = {}
            for t in range(self.size.steps):
                messages, scores = {}, {}
                for relation, place in relations.items():
                    score = 0.0
                    for n in range(count):
                        h = self.message(place, relation, kind, n, t, state)
                        messages[relation, n] = h
                        hidden = np.tanh(
                            h @ self.w[f"{name}.relations.weight"][t]
                            + self.w[f"{name}.relations.bias"][t, 0]
                        )
                        score += hidden @ self.w[f"{name}.relations.vector"][t, :, 0] / count
                    scores[relation] = math.exp(score)
                for n in range(count):
                    merged[n, t] = sum(
                        scores[r] / sum(scores.values()) * messages[r, n] for r in relations
                    )
            for n in range(count):
                for t in range(self.size.steps):
                    place = f"{name}.nodes.{kind}"
                    seen = self.over_time(place, [merged[n, s] for s in range(self.size.steps)], t)
                    gate = 1 / (1 + math.exp(-self.w[f"{place}.gate"].item()))
                    mixed = gate * seen + (1 - gate) * self.linear(
                        f"{place}.residual", state[kind, n, t]
                    )
                    spread = math.sqrt(mixed.var() + 1e-5)
                    after[kind, n, t] = (mixed - mixed.mean()) / spread * self.w[f"{place}.gain"][
                        0, 0
                    ] + self.w[f"{place}.bias"][0, 0]
        return after

    def over_time(self, place, series, t):
        width = len(series[0])
        placed = []
        for s, x in enumerate(series):
            position = np.zeros(width)
            for i in range(0, width, 2):
                angle = s / 100_000 ** (i / width)
                position[i : i + 2] = math.sin(angle), math.cos(angle)
            placed.append(self.linear(f"{place}.project", x) + position)
        query = self.linear(f"{place}.query", placed[t])
        scores = [math.exp(query @ self.linear(f"{place}.key", x)) for x in placed]
        found = np.zeros(width)
        for score, x in zip(scores, placed, strict=True):
            found += score / sum(scores) * self.linear(f"{place}.value", x)
        return np.maximum(self.linear(f"{place}.output", found), 0)

    def logits(self, layers):
        state = {
            (kind, n, t): self.linear(f"adapt.{kind}", self.w[f"inputs.{kind}"][t, n])
            for kind, count in enumerate(self.size[:2])
            for n in range(count)
            for t in range(self.size.steps)
        }
        for i in range(layers):
            state = self.layer(f"layers.{i}", state)
        nodes = [(kind, n) for kind, count in enumerate(self.size[:2]) for n in range(count)]
        found = {}
        for name in LEARNED:
            steps = 1 if name in STATIC else self.size.steps
            table = np.zeros((len(nodes), steps))
            for i, (kind, n) in enumerate(nodes):
                for t in range(steps):
                    hidden = self.linear(f"heads.{name}.hidden", state[kind, n, t])
                    table[i, t] = self.linear(f"heads.{name}.output", np.maximum(hidden, 0))[0]
            found[name] = table
        return found


@pytest.mark.parametrize("close", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("size", [Size(1, 1, 1), Size(3, 2, 4)])
def test_plain_loops_say_the_same(size, close):
    made = model(size, seeds=[3], close=close)
    scene = generate(*size, seed=1, close=close)
    expected = Loops(made, some_labels(size, 3), scene.close).logits(2)
    with torch.no_grad():
        found = made()
    assert list(found) == list(LEARNED)
    for name, table in expected.items():
        np.testing.assert_allclose(found[name][0].numpy(), table, rtol=1e-9, atol=1e-9)


def test_the_loops_see_edges_of_every_kind():
    size = Size(3, 2, 4)
    loops = Loops(model(size), some_labels(size, 3), generate(*size, seed=1, close=0.4).close)
    for kind, count in enumerate(size[:2]):
        for relation in ("close", *OWN[kind]):
            degrees = {
                len(loops.neighbours(relation, kind, n, t)) for n in range(count) for t in range(4)
            }
            assert 0 in degrees
            assert max(degrees) == (2 if relation == "close" else 1)


def reached(close, car, layers):
    """The cars and pedestrians that a change at a car comes to, through Close at any time."""
    ever = close.any(-1)
    cars, pedestrians = {car}, set[int]()
    for _ in range(layers - 1):
        cars, pedestrians = (
            cars | {i for i in range(len(ever)) if any(ever[i, j] for j in pedestrians)},
            pedestrians | {j for j in range(ever.shape[1]) if any(ever[i, j] for i in cars)},
        )
    return cars, pedestrians


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_an_edge_matters_only_where_messages_go(layers):
    size = Size(4, 4, 3)
    close = np.zeros(size, dtype=np.bool_)
    close[0, 1, 2] = close[2, 1, 0] = close[3, 3, 1] = True
    fact = torch.tensor([[0], [0], [1]])
    without = Labels({"Stop": fact}, {"Stop": torch.tensor([0.0])})
    given = Labels({"Stop": fact}, {"Stop": torch.tensor([1.0])})
    made = HTGNN(size, 2, [without, given], close, layers=layers, width=8, dtype=torch.float64)
    made.eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter[1] = parameter[0]
            if name.endswith("relations.vector"):
                # Weights of relations depend on all nodes; here, they are all the same.
                parameter.zero_()
        found = made()
    cars, pedestrians = reached(close, 0, layers)
    agents = cars | {size.cars + j for j in pedestrians}
    assert agents == [{0}, {0, 5}, {0, 2, 5}][layers - 1]
    for table in found.values():
        changed = (table[0] != table[1]).any(-1)
        assert set(changed.nonzero().flatten().tolist()) == agents


def test_weights_of_relations_depend_on_all_nodes_of_a_type():
    size = Size(3, 2, 3)
    fact = torch.tensor([[0], [0], [1]])
    labels = [Labels({"Stop": fact}, {"Stop": torch.tensor([truth])}) for truth in (0.0, 1.0)]
    close = np.zeros(size, dtype=np.bool_)
    close[1, 0] = True  # a car with other messages, whose weights change
    made = HTGNN(size, 2, labels, close, layers=1, width=8, dtype=torch.float64).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter[1] = parameter[0]
        table = made()["Run"]
    changed = (table[0] - table[1]).abs().amax(-1) > 1e-9
    assert changed.tolist() == [True, True, False, False, False]


def test_facts_about_agents_of_the_other_type_are_no_edges():
    wrong = {"Car": [3], "Run": [5], "Ped": [0], "Crossing": [2]}
    index = {n: torch.tensor([[0], agent, [0]]) for n, agent in wrong.items()}
    labels = Labels(index, {n: torch.ones(1) for n in wrong})
    close = generate(*SMALL, seed=1).close
    made = HTGNN(SMALL, 2, [labels, Labels({}, {})], close, width=4).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter[1] = parameter[0]
        assert all(torch.equal(table[0], table[1]) for table in made().values())


@pytest.mark.parametrize(("edge", "time"), [(4, 1), (0, 3)])
def test_attention_over_time_looks_both_ways(edge, time):
    labels = Labels({"Run": torch.tensor([[0], [1], [edge]])}, {"Run": torch.ones(1)})
    close = np.zeros(SMALL, dtype=np.bool_)
    g = torch.Generator().manual_seed(0)
    made = HTGNN(SMALL, 1, [labels], close, layers=1, generator=g).eval()
    made()["Stop"][0, 1, time].backward()
    cars, pedestrians = (x.grad[0].abs().sum(-1) > 0 for x in made.inputs)
    # Its own state there through the residual, and the one that its edge carries.
    assert cars.nonzero().tolist() == sorted([[edge, 1], [time, 1]])
    assert not pedestrians.any()


# --- runs ------------------------------------------------------------------------------------


def test_many_runs_are_as_many_models():
    seeds = (0, 4, 8)
    together = model(seeds=seeds)
    loss = cross_entropy(together(), facts_of([some_labels(SMALL, s) for s in seeds], SMALL))
    loss.sum().backward()
    for run, seed in enumerate(seeds):
        alone = model(seeds=[seed])
        alone.load_state_dict({n: v[run : run + 1] for n, v in together.state_dict().items()})
        for name, table in alone().items():
            torch.testing.assert_close(together()[name][run], table[0])
        own = cross_entropy(alone(), facts_of([some_labels(SMALL, seed)], SMALL))
        torch.testing.assert_close(loss[run : run + 1], own)
        own.sum().backward()
        for (name, one), all_of_them in zip(
            alone.named_parameters(), together.parameters(), strict=True
        ):
            if ".loops." in name and not name.endswith("weight"):
                assert one.grad is None  # attention over one edge is 1
                continue
            assert one.grad is not None, name
            torch.testing.assert_close(all_of_them.grad[run], one.grad[0], msg=name)
            assert one.grad.abs().sum() > 0, name


def test_the_same_seed_gives_the_same_model():
    def made(seed):
        return model(generator=torch.Generator().manual_seed(seed))()["Stop"]

    assert torch.equal(made(3), made(3))
    assert not torch.equal(made(3), made(4))


def test_runs_start_from_different_parameters():
    made = HTGNN(SMALL, 2, [Labels({}, {})] * 2, np.ones(SMALL, dtype=np.bool_), width=4)
    same = {name for name, p in made.named_parameters() if torch.equal(p[0], p[1])}
    assert same == {
        f"layers.{i}.nodes.{k}.{part}" for i in (0, 1) for k in (0, 1)
        for part in ("gate", "gain", "bias")
    }  # fmt: skip


# --- dropout and learning --------------------------------------------------------------------


def test_dropout_is_for_training_only():
    made = model()
    calm = made()["Run"]
    assert torch.equal(calm, made()["Run"])
    made.train()
    first = made()["Run"]
    assert not torch.equal(first, made()["Run"])
    torch.manual_seed(0)
    again = made()["Run"]
    torch.manual_seed(0)
    assert torch.equal(again, made()["Run"])
    assert torch.equal(calm, model(dropout=0.0).train()()["Run"])


def test_it_learns_the_facts_that_it_is_given():
    scene = generate(4, 4, 10, seed=2, close=0.2)
    labels = []
    for seed in range(2):
        found = some_labels(scene.size, seed)
        truth = {
            name: torch.from_numpy(scene.tables()[name].reshape(8, -1)[tuple(cells[1:].numpy())])
            for name, cells in found.index.items()
        }
        labels.append(Labels(found.index, {n: t.double() for n, t in truth.items()}))
    facts = facts_of(labels, scene.size)
    made = HTGNN(
        scene.size, 2, labels, scene.close, width=8, generator=torch.Generator().manual_seed(0)
    )
    optimiser = torch.optim.Adam(made.parameters(), lr=0.005, weight_decay=5e-4)
    start = cross_entropy(made(), facts).detach()
    for _ in range(60):
        optimiser.zero_grad()
        cross_entropy(made(), facts).sum().backward()
        optimiser.step()
    with torch.no_grad():
        assert (cross_entropy(made.eval()(), facts) < 0.3 * start).all()


def test_cross_entropy_is_the_mean_over_facts():
    logits = {"Run": torch.tensor([[[1.0, -2.0]], [[0.5, 3.0]]])}
    cells, truth = torch.tensor([0, 1, 2]), torch.tensor([1.0, 1.0, 0.0])
    runs, counts = torch.tensor([0, 0, 1]), torch.tensor([2.0, 1.0])
    facts = Supervision({"Run": cells}, {"Run": truth}, {"Run": runs}, counts)
    found = cross_entropy(logits, facts)
    wrong = math.log1p(math.exp(-1.0)), math.log1p(math.exp(2.0)), math.log1p(math.exp(0.5))
    assert found.tolist() == pytest.approx([(wrong[0] + wrong[1]) / 2, wrong[2]])


def test_targets_hold_each_fact_in_its_run():
    given = [some_labels(SMALL, seed) for seed in (0, 1)]
    found = targets(given, SMALL, dtype=torch.float64)
    for name in LEARNED:
        assert found[name].truth.shape == (2, 7, 1 if name in STATIC else 5)
        for run, labels in enumerate(given):
            _, agent, time = labels.index[name]
            assert torch.equal(found[name].truth[run, agent, time], labels.truth[name])
            assert int(found[name].known[run].sum()) == len(agent)
            assert not found[name].truth[run][~found[name].known[run]].any()


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": 2}, "there are 2 runs, but 1 sets of labels"),
        ({"width": 5}, "the width must be even"),
        ({"layers": 0}, "whole numbers of at least 1"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"scale": math.nan}, "the scale of inputs at least 0"),
        ({"close": torch.ones(5, 3, 4, dtype=torch.bool)}, r"shape \(3, 4, 5\).*\(5, 3, 4\)"),
        (
            {"close": torch.ones(SMALL, dtype=torch.float64)},
            "not torch.float64 of shape",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    options = {"runs": 1, "close": torch.ones(SMALL, dtype=torch.bool)} | change
    with pytest.raises(DataError, match=message):
        HTGNN(SMALL, labels=[Labels({}, {})], **options)


@pytest.mark.parametrize(
    ("name", "cell"),
    [("Run", (0, 7, 0)), ("Run", (0, 0, 5)), ("Car", (0, 0, 1)), ("Stop", (1, 0, 0)),
     ("Stop", (0, -1, 0)), ("Ped", (0, 1))],
)  # fmt: skip
def test_facts_outside_the_scene_are_refused(name, cell):
    labels = Labels({name: torch.tensor(cell)[:, None]}, {name: torch.ones(1)})
    with pytest.raises(
        DataError, match=rf"facts of '{name}' must have cells \(trace, agent, time\)"
    ):
        targets([labels], SMALL)
