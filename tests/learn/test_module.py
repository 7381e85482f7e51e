"""Axioms as a loss in a loop of one's own: the values of evaluation, planned once."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.func import grad, vmap

import fotltn
from fotltn import AxiomLoss, DataError
from fotltn.engine import Program
from fotltn.learn.module import SHAPES
from fotltn.learn.objective import Objective, axiom_loss
from fotltn.learn.satisfaction import Axioms
from fotltn.logic.check import CheckedTheory, check
from fotltn.project.scene import THEORY as FILE
from fotltn.semantics.config import SEMANTICS, named
from fotltn.semantics.sparse import sparse_table
from fotltn.syntax.load import load_theory

SCENE = check(load_theory(FILE))
SMALL = fotltn.parse("""
sort agent
static predicate Car(agent)
predicate Near(agent), Stop(agent)
axiom Obey weight 2: forall x. G(Near(x) & Car(x) -> WX Stop(x))
axiom Reason: forall x. G(Stop(x) -> Near(x) | Y Near(x))
""")
SMOOTH = [name for name, s in SEMANTICS.items() if not s.boolean]


def tables(theory, seed=0, traces=3, entities=4, horizon=6, dtype=torch.float64):
    """Degrees for every predicate, with axes (trace, arguments …, time)."""
    draw = torch.Generator().manual_seed(seed)
    made = {}
    for name, decl in check_once(theory).signature.predicates.items():
        shape = [traces, *[entities] * len(decl.sorts), *([] if decl.static else [horizon])]
        made[name] = torch.rand(shape, generator=draw, dtype=dtype).requires_grad_()
    return made


def check_once(theory):
    return theory if isinstance(theory, CheckedTheory) else check(theory)


def close(found, expected, atol=1e-9):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=atol)


@pytest.fixture
def plans(monkeypatch):
    """How often formulas were planned."""
    made: list[Program] = []
    plain = Program.plan

    def counted(self, *args, **options):
        made.append(self)
        return plain(self, *args, **options)

    monkeypatch.setattr(Program, "plan", counted)
    return made


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [None, [6, 2, 5]])
@pytest.mark.parametrize("semantics", SMOOTH)
def test_values_and_gradients_are_those_of_evaluate(semantics, lengths):
    loss = AxiomLoss(SCENE, semantics=semantics)
    for seed in range(2):
        brought = tables(SCENE, seed)
        result = loss(brought, lengths=lengths)
        data = fotltn.tables(SCENE, brought, lengths=lengths or [6, 6, 6])
        for axiom in SCENE.axioms:
            expected = fotltn.evaluate(axiom.source, data, semantics=semantics)
            degrees = result.by_trace[axiom.name]
            close(degrees, expected)
            inputs = list(brought.values())
            weights = torch.rand(3)
            slopes = [
                torch.autograd.grad(value @ weights, inputs, retain_graph=True, allow_unused=True)
                for value in (degrees, expected)
            ]
            for one, other in zip(*slopes, strict=True):
                zero = torch.zeros(())
                close(*(zero if s is None else s.sum() for s in (one, other)))
                if one is not None and other is not None:
                    close(one, other)
        together = fotltn.compile(SCENE, data, semantics=semantics)(data)
        assert result.values.keys() == together.keys()
        close(list(result.values.values()), list(together.values()))


@pytest.mark.parametrize("by", ["satisfaction", "log"])
@pytest.mark.parametrize("semantics", ["stable-product", "log-product", "godel"])
def test_the_loss_is_that_of_training(semantics, by):
    brought = tables(SMALL, 1)
    trust = 2.0 if by == "log" else None
    loss = AxiomLoss(
        SMALL, semantics=semantics, by=by, mean_p=3, weights={"Reason": 0.5}, trust=trust
    )
    data = fotltn.tables(SMALL, brought, lengths=[6, 6, 6])
    values = torch.stack([fotltn.evaluate(a, data, semantics=semantics) for a in SMALL.axioms])
    objective = loss.objective
    expected = axiom_loss(objective, values, torch.tensor([2.0, 0.5]), 0)
    found = loss(brought).loss
    close(found, expected)
    inputs = list(brought.values())
    close(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs))
    axioms = Axioms(check(SMALL), named(semantics))
    close(found, axioms.loss(objective, data)[0])


def test_weights_of_the_theory_and_the_exponent_of_the_paper_are_the_defaults():
    loss = AxiomLoss(SMALL)
    assert loss.axioms.weights(loss.objective.axiom_weights, 0) == (2, 1)
    assert (loss.objective.p, loss.objective.axioms) == (Objective().p, Objective().axioms)


def test_exponents_of_the_semantics_and_of_one_axiom():
    brought = tables(SMALL)
    data = fotltn.tables(SMALL, brought, lengths=[6, 6, 6])
    result = AxiomLoss(SMALL, p=2, axiom_p={"Obey": 7})(brought)
    close(result.by_trace["Obey"], fotltn.evaluate(SMALL["Obey"], data, p=7))
    close(result.by_trace["Reason"], fotltn.evaluate(SMALL["Reason"], data, p=2))


def test_second_derivatives():
    loss, brought = AxiomLoss(SMALL), tables(SMALL, traces=1, entities=2, horizon=3)
    names = list(brought)

    def of(*degrees):
        return loss(dict(zip(names, degrees, strict=True))).loss

    assert torch.autograd.gradcheck(of, tuple(brought.values()))
    assert torch.autograd.gradgradcheck(of, tuple(brought.values()))


def test_function_transforms():
    loss, brought = AxiomLoss(SMALL), tables(SMALL)
    expected = torch.autograd.grad(loss(brought).loss, list(brought.values()))
    plain = {n: t.detach() for n, t in brought.items()}
    slopes = grad(lambda t: loss(t).loss)(plain)
    close(list(slopes.values()), list(expected))
    many = {n: torch.rand(5, *t.shape) for n, t in plain.items()}
    fresh = AxiomLoss(SMALL)  # which is planned inside of the transform
    found = vmap(lambda t: fresh(t).loss)(many)
    close(found, torch.stack([loss({n: t[i] for n, t in many.items()}).loss for i in range(5)]))
    close(fresh(brought).loss, loss(brought).loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_is_that_of_the_tables(dtype):
    data = fotltn.tables(SMALL, Near=torch.rand(4, 6), Car=torch.rand(4))
    result = AxiomLoss(SMALL, data)(Stop=torch.rand(4, 6, dtype=dtype))
    assert result.loss.dtype == result.degrees.dtype == dtype


def test_mixed_precision_takes_the_widest_and_at_least_single():
    wide, narrow = torch.rand(3, 4, 6), torch.rand(3, 4, 6, dtype=torch.float32)
    loss = AxiomLoss(SMALL)
    assert loss(Near=narrow, Stop=wide, Car=torch.ones(4)).loss.dtype == torch.float64
    assert loss(Near=wide, Stop=narrow, Car=torch.ones(4)).loss.dtype == torch.float64
    half = loss(Near=narrow.half(), Stop=narrow.half(), Car=torch.ones(4, dtype=torch.bool))
    assert half.loss.dtype == torch.float32


def test_autocast_changes_no_value():
    theory = fotltn.parse(
        "sort s\npredicate P(s, s), Q(s)\naxiom A: forall x, y. G(P(x, y) & Q(y))"
    )
    brought = tables(theory, dtype=torch.float32)
    loss = AxiomLoss(theory)
    plain = loss(brought).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(brought).loss.equal(plain)


# --- axes, data and facts -------------------------------------------------------------------------


def test_a_table_without_traces_holds_for_all():
    brought = tables(SMALL)
    near = brought["Near"][0].detach()
    loss = AxiomLoss(SMALL)
    every = loss({**brought, "Near": near}).degrees
    close(every, loss({**brought, "Near": near.expand(3, 4, 6)}).degrees)
    one = loss({name: table[0] for name, table in brought.items()})
    assert one.degrees.shape == (2, 1)
    assert one.values["Obey"].shape == ()


def test_what_lies_beyond_the_end_of_a_trace_does_not_matter():
    brought = {n: t.detach() for n, t in tables(SMALL).items()}
    dirty = {n: t.clone() for n, t in brought.items()}
    for name in ("Near", "Stop"):
        dirty[name][1, :, 2:] = torch.nan
        dirty[name].requires_grad_()
    loss = AxiomLoss(SMALL)
    result = loss(dirty, lengths=torch.tensor([6, 2, 5]))
    close(result.degrees, loss(brought, lengths=[6, 2, 5]).degrees)
    result.loss.backward()
    assert dirty["Stop"].grad is not None
    assert dirty["Stop"].grad.isfinite().all()


@pytest.mark.parametrize("sparse", [False, True])
def test_data_are_handed_over_once(sparse):
    where = (torch.rand(4, 4, 6) < 0.3).double()
    given_facts = fotltn.tables(SCENE, Close=where.to_sparse() if sparse else where)
    brought = {n: t for n, t in tables(SCENE).items() if n != "Close"}
    found = AxiomLoss(SCENE, given_facts)(brought)
    close(found.degrees, AxiomLoss(SCENE)({**brought, "Close": where}).degrees)


def test_data_of_several_traces_say_how_long_these_are():
    columns = {
        "predicate": ["Near", "Near", "Car", "Stop"], "arg1": ["a", "b", "b", "a"],
        "time": [5, 2, 0, 1], "trace": ["one", "two", "one", "two"],
    }  # fmt: skip
    theory = fotltn.parse("""
    sort agent
    predicate Car(agent), Near(agent), Stop(agent)
    axiom Obey: forall x. G(Near(x) & Car(x) -> WX Stop(x))
    """)
    data = fotltn.read(theory, columns)
    stop = torch.rand(2, 2, 6, requires_grad=True)
    loss = AxiomLoss(theory, data)
    plain = {n: data.predicate(n) for n in ("Car", "Near")}
    expected = AxiomLoss(theory)({**plain, "Stop": stop}, lengths=[6, 3])
    close(loss(Stop=stop).degrees, expected.degrees)
    with pytest.raises(DataError, match="the data already state the lengths of traces"):
        loss(Stop=stop, lengths=[6, 3])
    with pytest.raises(
        DataError, match="traces of predicate 'Stop': 3, of the data: 2; they must be equal"
    ):
        loss(Stop=torch.rand(3, 2, 6))


def test_facts_at_the_same_places_are_planned_once(plans):
    index = (torch.rand(1, 4, 4, 6) < 0.3).nonzero().T
    brought = {n: t for n, t in tables(SCENE, traces=1).items() if n != "Close"}
    loss = AxiomLoss(SCENE)
    for number in range(3):
        degrees = torch.rand(index.shape[1], requires_grad=True)
        facts: object = sparse_table(index, degrees, (1, 4, 4, 6))
        if number < 2:
            places = index.clone()
            facts = torch.sparse_coo_tensor(
                places, degrees, (1, 4, 4, 6), is_coalesced=True, check_invariants=True
            )
        found = loss({**brought, "Close": facts}).loss
        table = torch.zeros(1, 4, 4, 6).index_put(tuple(index), degrees)
        expected = AxiomLoss(SCENE)({**brought, "Close": table}).loss
        close(found, expected)
        slopes = [torch.autograd.grad(value, degrees)[0] for value in (found, expected)]
        close(*slopes)
    assert len(plans) == 1 + 3  # those of the dense tables beside
    moved = torch.sparse_coo_tensor(index[:, 1:], degrees[1:], (1, 4, 4, 6), check_invariants=True)
    table = moved.to_dense()
    close(
        loss({**brought, "Close": moved}).loss, AxiomLoss(SCENE)({**brought, "Close": table}).loss
    )
    assert len(plans) == 4 + 2


def test_functions_and_relations():
    theory = fotltn.parse("""
    sort s
    predicate P(s), Q(s, s)
    function next(s): s
    relation pairs(s, s)
    axiom A: forall (x, y) in pairs. G(Q(x, y) -> F P(next(x)))
    """)
    pairs, after = torch.tensor([[0, 1], [2, 0]]), torch.tensor([1, 2, 0])
    p, q = torch.rand(2, 3, 4), torch.rand(2, 3, 3, 4)
    data = fotltn.tables(theory, P=p, Q=q, next=after.expand(2, 3), pairs=pairs, lengths=[4, 4])
    expected = fotltn.evaluate(theory["A"], data)
    fixed = fotltn.tables(theory, next=after, pairs=pairs, horizon=4, P=p[0])
    close(AxiomLoss(theory, fixed)(P=p, Q=q).by_trace["A"], expected)
    rest = fotltn.tables(theory, pairs=pairs, P=p[0])
    loss = AxiomLoss(theory, rest)
    close(loss({"P": p, "Q": q, "next": after}).by_trace["A"], expected)
    with pytest.raises(DataError, match="'pairs' is a relation; pass relations with"):
        loss(P=p, Q=q, next=after, pairs=pairs)
    with pytest.raises(DataError, match="names entity 4; entities are 0 to 2"):
        AxiomLoss(theory, rest)(P=p, Q=q, next=after + 2)


# --- what a call does not do again ----------------------------------------------------------------


def test_a_call_plans_nothing_anew(plans):
    loss = AxiomLoss(SCENE)
    for seed in range(4):
        loss(tables(SCENE, seed)).loss.backward()
    assert len(plans) == 1
    for seed in range(4):  # another batch, to and fro
        loss(tables(SCENE, seed, traces=2 + seed % 2))
    assert len(plans) == 2
    for lengths in ([6, 2, 5], [1, 1, 1], [6, 6, 6], [3, 6, 6]):
        loss(tables(SCENE), lengths=lengths)
    assert len(plans) == 3


def test_tables_that_are_made_anew_need_no_other_plan(plans):
    """The same for `fotltn.compile`, whose tables have other lengths each time."""
    step = None
    for seed in range(3):
        data = fotltn.tables(SCENE, tables(SCENE, seed), lengths=[6, 6, 6])
        step = step or fotltn.compile(SCENE, data)
        together = step(data)
        close(together["A1"], fotltn.compile(SCENE, data)(data)["A1"])
    assert len(plans) == 1 + 3
    assert step is not None
    short = fotltn.tables(SCENE, tables(SCENE), lengths=[6, 2, 5])
    close(step(short)["A1"], fotltn.compile(SCENE, short)(short)["A1"])
    assert len(plans) == 1 + 3 + 2


def test_two_shapes_have_the_values_of_each():
    loss = AxiomLoss(SMALL)
    for traces, horizon in ((2, 5), (3, 7), (2, 5)):
        brought = tables(SMALL, traces=traces, horizon=horizon)
        data = fotltn.tables(SMALL, brought, lengths=[horizon] * traces)
        close(loss(brought).by_trace["Obey"], fotltn.evaluate(SMALL["Obey"], data))


def test_shapes_that_were_not_used_for_long_are_forgotten(plans):
    loss = AxiomLoss(SMALL)
    for traces in [*range(1, SHAPES + 2), SHAPES + 1]:
        loss(tables(SMALL, traces=traces))
    assert len(plans) == SHAPES + 1
    loss(tables(SMALL, traces=1))
    assert len(plans) == SHAPES + 2


def test_a_graph_does_not_outlive_its_step():
    import weakref

    loss = AxiomLoss(SMALL)
    stop = nn.Parameter(torch.rand(4, 6))
    others = {"Near": torch.rand(4, 6), "Car": torch.ones(4)}
    degrees = torch.sigmoid(stop)
    gone = weakref.ref(degrees)
    loss(others, Stop=degrees).loss.backward()
    del degrees
    assert gone() is None


def test_inference_first_and_training_after():
    """As programs do that validate before they train."""
    where = (torch.rand(4, 4, 6) < 0.3).double()
    loss = AxiomLoss(SCENE, fotltn.tables(SCENE, Close=where.to_sparse()))
    brought = {n: t for n, t in tables(SCENE).items() if n != "Close"}
    with torch.inference_mode():
        seen = loss({n: t.sigmoid() for n, t in brought.items()}).loss
    result = loss({n: t.sigmoid() for n, t in brought.items()})
    result.loss.backward()
    close(result.loss.detach(), seen.clone())


@pytest.mark.filterwarnings(r"ignore:The \.grad attribute:UserWarning")
def test_inside_a_function_that_is_compiled():
    loss, brought = AxiomLoss(SMALL), tables(SMALL)
    step = torch.compile(lambda t: 2 * loss(t).loss, backend="eager")
    close(step(brought), 2 * loss(brought).loss)


# --- as a module ----------------------------------------------------------------------------------


def test_it_is_a_module_without_state():
    loss = AxiomLoss(SMALL, fotltn.tables(SMALL, Near=torch.rand(4, 6), Car=torch.ones(4)))
    network = nn.ModuleDict({"net": nn.Linear(2, 1), "axioms": loss})
    assert not list(loss.parameters())
    assert set(network.state_dict()) == {"net.weight", "net.bias"}
    network.load_state_dict(network.state_dict())
    assert repr(loss) == "AxiomLoss(Obey, Reason; stable-product)"
    assert network.to(torch.float32)["axioms"] is loss


def test_copies_have_the_same_values():
    loss = AxiomLoss(SMALL, fotltn.tables(SMALL, Near=torch.rand(4, 6), Car=torch.ones(4)), p=2)
    stop = torch.rand(3, 4, 6)
    value = loss(Stop=stop).loss
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss)), again):
        assert twin(Stop=stop).loss.equal(value)


def test_moving_the_module_moves_the_data():
    loss = AxiomLoss(SMALL, fotltn.tables(SMALL, Near=torch.rand(4, 6), Car=torch.ones(4)))
    loss(Stop=torch.rand(4, 6))
    loss.to("cpu").double()
    assert loss.data.lengths.device.type == "cpu"
    with pytest.raises(DataError, match="the device 'meta', which holds no numbers"):
        loss(Stop=torch.rand(4, 6, device="meta"))
    with pytest.raises(
        DataError, match="the table of 'Stop' is on cpu, but that of 'Near' is on meta"
    ):
        loss(Stop=torch.rand(4, 6), Near=torch.rand(4, 6, device="meta"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu():
    where = (torch.rand(4, 4, 6) < 0.3).double()
    loss = AxiomLoss(SCENE, fotltn.tables(SCENE, Close=where.to_sparse()))
    brought = {n: t for n, t in tables(SCENE).items() if n != "Close"}
    expected = loss(brought).loss
    for place in (loss, copy.deepcopy(loss).to("cuda")):
        found = place({n: t.cuda() for n, t in brought.items()}).loss
        close(found.cpu(), expected)
    assert place.data.lengths.is_cuda


ABSENT = """
sort p
predicate Sick(p), Here(p)
axiom Well: forall x. G !Sick(x)
axiom Soon: forall x. G(Here(x) -> F[<=1] !Sick(x))
"""


def test_a_loss_counts_only_where_entities_are_present():
    """A degree at an absent point has no weight and no slope; axioms equal those of `evaluate`."""
    theory = fotltn.parse(ABSENT)
    here = torch.tensor([[True, True, False, True], [False, True, True, False]])
    data = fotltn.tables(theory, Here=here.double(), present={"p": here})
    sick = (0.1 + 0.8 * torch.rand(1, 2, 4, dtype=torch.float64)).requires_grad_()
    result = AxiomLoss(theory, data=data)({"Sick": sick})
    result.loss.backward()
    assert sick.grad is not None
    assert (sick.grad[0] != 0).equal(here)
    means = [sick.detach()[0, i][here[i]].pow(4).mean() for i in range(2)]
    expected = 1 - float(torch.stack(means).mean()) ** 0.25
    assert float(result.values["Well"].detach()) == pytest.approx(expected)
