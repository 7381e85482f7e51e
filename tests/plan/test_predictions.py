"""What a plan says of memory, against what is measured over the set of `benchmarks.plan`."""

import pytest
import torch

from benchmarks.common import peak_bytes
from benchmarks.plan import cases, predicted
from fotltn.format import duration
from fotltn.kernels.until import extent, until
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes
from fotltn.plan.rows import row_cost
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.plan.work import EFFORT, Kind, Machine, Unit, measured
from fotltn.semantics.config import GODEL, STABLE_PRODUCT


@pytest.fixture(autouse=True)
def one_thread():
    """The profiler sees the memory of one thread only."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_bytes_are_within_a_factor_of_two():
    ratios: dict[str, float] = {}
    odd: dict[str, float] = {}
    for case in cases(0.4):
        said = predicted(case)
        ratio = max(one.peak for one in said) / max(peak_bytes(one.run) for one in said)
        (ratios if 0.5 <= ratio <= 2 else odd)[str(case)] = ratio
        assert all(number >= 0 for one in said for number in one.work.values())
    assert not odd
    assert len(ratios) == 30


def test_a_machine_takes_longer_for_more_work_and_for_gradients():
    assert EFFORT.keys() == set(Kind)
    machine = Machine(dict.fromkeys(Unit, 1.0))
    assert machine.time({Kind.STEP: 2, Kind.CELL: 4}, gradients=False) == 2 * 10 + 4 * 2.5
    with_gradients = machine.time({Kind.STEP: 2, Kind.CELL: 4}, gradients=True)
    assert with_gradients > machine.time({Kind.STEP: 2, Kind.CELL: 4}, gradients=False)


def test_a_machine_is_measured_by_a_clock():
    ticks = iter(range(10_000))
    machine = measured(lambda: float(next(ticks)))
    assert machine.seconds == {
        Unit.CALL: 1 / 100, Unit.NUMBER: 2**-18, Unit.LOOKUP: 2**-18, Unit.FRESH: 2**-26,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.34, "2.3 s"), (0.5, "0.5 s"), (0.0123, "12 ms"), (4.2e-6, "4.2 µs"), (3e-9, "3 ns")],
)
def test_durations_have_few_digits(seconds, text):
    assert duration(seconds) == text


def test_rows_follow_facts_and_not_pairs():
    x, y = (c.Axis(name, "agent") for name in "xy")
    close = c.Atom("Close", (c.Variable(x, "agent"), c.Variable(y, "agent")))
    formula = c.Quantifier(True, (x, y), None, c.Implies(close, c.Shift(close, 1, False, False)))
    assert not free_axes(formula)
    many, few = (
        row_cost(formula, Sizes({"agent": size}, 50, sparse={"Close": Sparse(1000)})).peak
        for size in (10_000, 1_000)
    )
    assert few <= many < 1.2 * few < 2_000_000


def test_a_block_of_pairs_has_the_witnesses_of_all_its_points():
    """With a window of a few points, too, the matrix of a block is no larger than a block."""
    lead, horizon, window = 80, 500, c.Window(0, 2)
    needs = extent(lead, horizon, window, GODEL)
    assert needs.numbers <= 8 * 2**18
    left, right = torch.rand(2, lead, horizon).unbind()

    def run():
        return until(left, right, window, False, None, GODEL)

    assert peak_bytes(run) < 2 * 4 * needs.numbers
    walked = extent(lead, horizon, window, STABLE_PRODUCT)
    assert walked.pairs <= 3 * lead * horizon * 600
