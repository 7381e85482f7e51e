"""Tapes: the same numbers as without them, to the bit, and refusals of what they cannot hold."""

import math

import pytest
import torch
from torch import nn

from fotltn.learn import calls
from fotltn.learn import fit as training
from fotltn.learn import tape as tapes
from fotltn.learn.captured import predictable
from fotltn.learn.objective import PAPER, RECIPE
from fotltn.learn.schedule import Schedule
from fotltn.learn.tape import OtherwiseError, Tape, UnrecordableError
from fotltn.networks.predicates import Network, mlp
from tests.learn import tasks

X = torch.linspace(-1.0, 2.0, 12, dtype=torch.float32).reshape(3, 4)
FIXED = torch.linspace(0.5, 3.0, 12, dtype=torch.float32).reshape(3, 4)
PLACES = torch.tensor([2, 0, 2, 1])


def slope(function):
    """A function with its derivative."""

    def both(x):
        inner = x.detach().requires_grad_()
        value = function(inner)
        return value.detach(), *torch.autograd.grad(value.sum(), inner)

    return both


def written(x):
    total = torch.zeros_like(x)
    total += x * 2
    before = total + 1
    total[:, 1:] *= FIXED[:, 1:]
    ones = torch.ones_like(FIXED[:, 0]).scatter_reduce_(0, PLACES, x[0], "prod")
    return before, total, ones.clone().mul_(FIXED[:, 0])


def twice(x):
    a, b = x * FIXED, x * FIXED
    b_too = b.T.contiguous()
    return a + b, (b_too * 1).T - a.pow(1), x.pow(1) * 2, x.reshape(-1)


def constant(x):
    given = FIXED.exp().cumsum(0)
    given[0] = 0
    return x * given, given * 2, torch.full_like(x, 3.0) - x


def turned(x):
    """As PyTorch's recurrent layers do: a result is turned around in place."""
    y = torch.mm(x, FIXED.T)[:, :2].contiguous().sigmoid()
    before = y * 2
    y.transpose_(0, 1)
    return y + 1, before, y.exp() @ before


def parts(x):
    most, where = x.max(dim=1)
    left, right = x.split([1, 3], dim=1)
    rest = torch.stack([most, x.sum(1), x.mean(1), x.amin(1)])
    return rest.flip(0), where, left * right, 2 - x, x / 3, x.unbind()[1].sum()


def sparse(x):
    degrees = torch.tensor([1.0, 2.0, 3.0]).to(x)
    facts = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 3]), PLACES[1:], degrees, (2, 3), check_invariants=False
    )
    return torch.mv(facts, x[:, 0]), facts @ x


def spread(x):
    """Everything along a dimension is the same, as where a mean is differentiated."""
    row = (x.sum(1, keepdim=True) / 3).expand(3, 4)
    each = row / 4 - x[0, 0].expand(3, 4)
    return each * x, each.sum(), (row * 2).exp(), (x[:1].expand(3, 4) * 0.5).T @ x


def multiples(x):
    """Products of multiples, and sums with negatives, with zeros of both signs."""
    signed = x * torch.tensor([0.0, -0.0, 1.0, -3.0]).to(x)
    both, tiny = signed * 2.0, x * 1e-30
    return (
        x * (signed * 2.0), -(x * (signed * 0.3)), x + -signed, -signed + x,
        (tiny * 2.0) * (x * 1e-12), both * x, both, (x * 3.0) * (x[:1] * 0.1),
    )  # fmt: skip


def alike(x):
    """The same constants in other memory."""
    ones = torch.ones(3).to(x)
    there = [ones.scatter_reduce(0, PLACES.clone(), x[i] * 1.5, "prod") for i in (0, 0)]
    zeros = torch.tensor([0.0, -0.0]), torch.tensor([-0.0, 0.0])
    large = torch.zeros(20), torch.zeros(20).neg()
    return *there, *(x[:2, 0] * z for z in zeros), *(x.sum() * z for z in large)


def joined(x):
    return torch.cat([x[:, 1:], FIXED[:, :1]], dim=-1), torch.cat([x, x.T.reshape(3, 4)])


FUNCTIONS = {
    "spread": spread,
    "multiples": multiples,
    "alike": alike,
    "joined": joined,
    "written": written,
    "twice": twice,
    "constant": constant,
    "parts": parts,
    "turned": turned,
    "sparse": sparse,
    "squares": slope(lambda x: x.square().square().sqrt() * x.sigmoid()),
    "indexed": slope(lambda x: x[:, PLACES % 4].index_add(0, PLACES[:3] % 3, x) ** 3),
    "sliced": slope(lambda x: x[1:, ::2] * x[:2, 1:3] + x[0, 0]),
    "clamped": slope(lambda x: torch.where(x > 0, x.clamp(min=0.1).log(), x.cumsum(1))),
}


def same_bits(a, b):
    return torch.equal(a, b) and torch.equal(a.signbit(), b.signbit())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tape_gives_the_same_bits(name, monkeypatch):
    monkeypatch.setattr(calls, "_LARGE", 4)
    function, x = FUNCTIONS[name], X.clone()
    tape = Tape(lambda: function(x), [x])
    for scale in (1.0, 0.7, 1.3):
        x.copy_(X * scale + scale - 1)
        wanted = function(x)
        for _ in range(2):
            results = tape()
            assert len(results) == len(wanted)
            assert all(same_bits(a, b) for a, b in zip(results, wanted, strict=True))


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x: x * (FIXED * x * 2.0), 2),
        (lambda x: x + -(x * FIXED), 2),
        (lambda x: -(x * (x * FIXED * 2.0)), 2),
        (lambda x: x.pow(1) * FIXED, 1),
        (lambda x: x * FIXED.clone() + x * FIXED.clone(), 2),
        (lambda x: x.sum().expand(3, 4) / 4 * 2 * x, 4),
    ],
    ids=["multiple", "difference", "negative", "by one", "equal constants", "expanded"],
)
def test_operations_are_joined(function, count):
    x = X.clone()
    tape = Tape(lambda: (function(x),), [x])
    assert len(tape.played) == count
    assert same_bits(tape()[0], function(x))


def test_what_is_the_same_along_a_dimension_is_computed_once():
    x = X.clone()
    tape = Tape(lambda: (x.sum().expand(3, 4) / 4 * x,), [x])
    assert [told["out"].numel() for _, _, told in tape.played] == [1, 1, 12]


def test_what_is_always_the_same_or_unused_is_left_out():
    x = X.clone()

    def function():
        FIXED.exp().sum() + x.sum()  # nobody reads it
        return (x * FIXED.exp() + x * FIXED.exp(),)

    assert len(Tape(function, [x]).played) == 2  # a product, and a sum


def test_memory_is_taken_again():
    x = X.clone()

    def function():
        y = x
        for _ in range(50):
            y = (y * 2).flip(0)
        return (y,)

    tape = Tape(function, [x])
    memories = {t.untyped_storage().data_ptr() for _, told, _ in tape.played for t in told
                if isinstance(t, torch.Tensor)}  # fmt: skip
    assert len(memories) <= 4
    assert torch.equal(tape()[0], function()[0])


def test_a_decision_that_changes_is_noticed():
    x = X.clone()
    tape = Tape(lambda: (x * 2 if x.sum() > 0 else x * 3,), [x])
    assert torch.equal(tape()[0], x * 2)
    x.neg_()
    with pytest.raises(OtherwiseError):
        tape()


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x * torch.rand(4), "random"),
        (lambda x: FIXED.mul_(1) * x, "existing memory"),
        (lambda x: x.to_sparse_csr() @ FIXED.T, "sparse"),
    ],
)
def test_what_a_tape_cannot_hold_is_refused(function, why):
    x = X.clone()
    with pytest.raises(UnrecordableError, match=why):
        Tape(lambda: (function(x),), [x])


def test_large_steps_are_not_recorded(monkeypatch):
    monkeypatch.setattr(tapes, "ROOM", 90)
    with pytest.raises(UnrecordableError, match="large"):
        Tape(lambda: (X * 2 * 3,), [X])


# --- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "more"),
    [
        (PAPER, {}),
        (RECIPE, {"validation": 0.3}),
        (PAPER, {"clip": 0.1, "patience": 3}),
        (PAPER.__class__(p=Schedule(((0.0, 2.0), (5.0, 4.0)))), {}),
    ],
    ids=["paper", "recipe", "clipped", "scheduled"],
)
def test_recorded_steps_train_to_the_same_bits(objective, more, monkeypatch):
    outcomes = []
    for before in (3, math.inf):
        monkeypatch.setattr(training, "EPOCHS_BEFORE", before)
        run = training._Fit(tasks.task(objective=objective, epochs=14, **more))
        epochs = [run.epoch() for _ in range(14)]
        assert (run.recorded is not None and run.recorded.trusted) == (before == 3)
        outcomes.append((tasks.weights(run.task), epochs))
    (ours, epochs), (theirs, wanted) = outcomes
    assert epochs == wanted
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())


class Counting(nn.Module):
    """Does something else from its tenth call on, which PyTorch does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = mlp(tasks.WIDTH, (6,)), 0

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        logits: torch.Tensor = self.inner(seen)
        return logits * (1 if self.calls < 10 else 2)


def test_modules_that_may_do_something_else_are_not_recorded():
    for module in (Counting(), nn.Sequential(nn.Dropout(0.5), mlp(tasks.WIDTH, (6,)))):
        run = training._Fit(tasks.task(ground=tasks.grounding(stop=Network(module))))
        for _ in range(8):
            run.epoch()
        assert run.recorded is None
    assert predictable(nn.Linear(2, 2))
    assert not predictable(nn.BatchNorm1d(2))
    seen = nn.Linear(2, 2)
    seen.register_forward_hook(lambda *_: None)
    assert not predictable(seen)


def test_a_tape_that_gives_something_else_is_given_up():
    run = training._Fit(tasks.task())
    for _ in range(3):
        run.epoch()
    assert run.recorded is not None
    wrong = [run.recorded.seen, *run.recorded.grads]

    @torch.inference_mode()
    def spoil() -> None:
        for tensor in wrong:
            tensor.fill_(math.nan)

    run.recorded.play = spoil
    for _ in range(8):
        run.epoch()  # with the gradients of the step itself: a loss of NaN would be an error
    assert run.recorded is None


def test_a_step_that_becomes_another_is_recorded_again():
    run = training._Fit(tasks.task(epochs=20))
    for _ in range(6):
        run.epoch()
    first = run.recorded
    assert first is not None
    assert first.trusted

    def otherwise():
        raise OtherwiseError

    first.play = otherwise
    for _ in range(8):
        run.epoch()
    assert run.recorded is not None
    assert run.recorded is not first
