"""Tables of all kinds, and time points of all kinds of whole numbers, for `evaluate`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fotltn
from fotltn import DataError
from fotltn.semantics.sparse import sparse_table

pytestmark = [
    pytest.mark.reliability,
    pytest.mark.filterwarnings("ignore:evaluate\\(…, :DeprecationWarning"),
]

CLOSE = torch.zeros(4, 5, dtype=torch.float64)
CLOSE[1, 2], CLOSE[3, 0] = 0.5, 0.7
STOP = torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
RULE = "forall x. G(Close(x) -> Stop(x))"


@pytest.mark.parametrize("options", [{}, {"engine": False}, {"semantics": "godel"}, {"p": 30}])
@pytest.mark.parametrize(
    "table",
    [
        CLOSE.to_sparse(),
        sparse_table([[1, 3], [2, 0]], CLOSE[CLOSE > 0], (4, 5)),
        sparse_table([[0, 0], [1, 3], [2, 0]], CLOSE[CLOSE > 0], (1, 4, 5)),
    ],
    ids=["a sparse tensor", "facts", "facts with a trace"],
)
def test_facts_are_tables(table, options):
    found = fotltn.evaluate(RULE, {"Close": table, "Stop": STOP}, **options)
    expected = fotltn.evaluate(RULE, {"Close": CLOSE, "Stop": STOP}, **options)
    torch.testing.assert_close(found, expected)


def test_facts_that_do_not_change_and_facts_of_several_traces():
    kind = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    expected = fotltn.evaluate("exists x. F(Car(x) & Stop(x))", {"Car": kind, "Stop": STOP})
    for table in (kind.to_sparse(), sparse_table([[0, 0], [1, 3], [0, 0]], None, (1, 4, 1))):
        found = fotltn.evaluate("exists x. F(Car(x) & Stop(x))", {"Car": table, "Stop": STOP})
        torch.testing.assert_close(found, expected)
    two = torch.stack([CLOSE, CLOSE.flip(0)])
    tables = {"Close": two, "Stop": torch.stack([STOP, STOP])}
    expected = fotltn.evaluate(RULE, tables, lengths=[5, 3])
    found = fotltn.evaluate(RULE, {**tables, "Close": two.to_sparse()}, lengths=[5, 3])
    torch.testing.assert_close(found, expected)
    truth = fotltn.evaluate(
        RULE, {"Close": CLOSE.to_sparse(), "Stop": STOP}, semantics="crisp", threshold=0.5
    )
    dense = {"Close": CLOSE, "Stop": STOP}
    assert truth == fotltn.evaluate(RULE, dense, semantics="crisp", threshold=0.5)


def test_a_sparse_tensor_has_gradients():
    table, dense = CLOSE.to_sparse().requires_grad_(), CLOSE.clone().requires_grad_()
    fotltn.evaluate("exists x. F Close(x)", {"Close": table}).backward()
    fotltn.evaluate("exists x. F Close(x)", {"Close": dense}).backward()
    assert table.grad is not None
    assert dense.grad is not None
    torch.testing.assert_close(table.grad.coalesce().values(), dense.grad[CLOSE > 0])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (CLOSE.to("meta"), "on the device 'meta', which holds no numbers"),
        (CLOSE.to_sparse().to("meta"), "on the device 'meta', which holds no numbers"),
        (
            lambda: CLOSE.to_sparse_csr(),
            r"of the kind torch.sparse_csr; give a dense tensor or, .*coo",
        ),
        (torch.rand(4, 5, 2).to_sparse(2), "has dense dimensions inside sparse ones"),
        ((3 * CLOSE).to_sparse(), r"the table of predicate 'Close': degrees must be from 0 to 1"),
        (sparse_table([[0], [0], [0], [0]], None, (1, 4, 1, 5)), "has shape .*; expected axes"),
    ],
)
def test_other_tensors_are_refused(table, message):
    table = table() if callable(table) else table
    with pytest.raises(DataError, match=message):
        fotltn.evaluate(RULE, {"Close": table, "Stop": STOP})


def test_functions_and_lengths_are_dense():
    with pytest.raises(DataError, match=r"function 'f' is a tensor of the kind torch\.sparse_coo"):
        fotltn.evaluate(
            "forall x. Stop(f(x))", {"Stop": STOP}, functions={"f": torch.ones(4).to_sparse()}
        )
    with pytest.raises(DataError, match="lengths must be whole numbers"):
        fotltn.evaluate("F a", {"a": STOP}, lengths=torch.ones(4, device="meta"))


@pytest.mark.parametrize("at", [np.int64(1), np.uint8(1), torch.tensor(1)])
def test_whole_numbers_of_other_libraries_are_time_points(at):
    given = {"a": [0.2, 0.6, 0.4]}
    assert fotltn.evaluate("F a", given, at=at) == fotltn.evaluate("F a", given, at=1)
    constants = {"c": at}
    found = fotltn.evaluate("F Stop(c)", {"Stop": STOP}, constants=constants)
    assert found == fotltn.evaluate("F Stop(c)", {"Stop": STOP}, constants={"c": 1})


@pytest.mark.parametrize("at", [np.bool_(True), True, 1.0, np.float64(1), None, "1", 3, -1])
def test_what_is_no_time_point(at):
    with pytest.raises(DataError, match=r"does not exist: there are 0 to 2|at: expected a whole"):
        fotltn.evaluate("F a", {"a": [0.2, 0.6, 0.4]}, at=at)


@pytest.mark.parametrize("engine", [True, False])
@pytest.mark.parametrize("formula", ["a & false", "a | true", "(a & false) | b", "X[9] a", "Y a"])
def test_what_does_not_matter_has_the_gradient_0(formula, engine):
    a, b = (torch.tensor([0.3, 0.6], requires_grad=True) for _ in "ab")
    fotltn.evaluate(formula, {"a": a, "b": b}, engine=engine).backward()
    assert a.grad is not None
    assert a.grad.tolist() == [0.0, 0.0]


def test_facts_that_do_not_matter_have_the_gradient_0():
    degrees = torch.tensor([0.5, 0.7], requires_grad=True)
    table = sparse_table([[1, 3], [2, 0]], degrees, (4, 5))
    fotltn.evaluate("forall x. F(Close(x) & false)", {"Close": table}).backward()
    assert degrees.grad is not None
    assert degrees.grad.tolist() == [0.0, 0.0]
