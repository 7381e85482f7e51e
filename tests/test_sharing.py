"""Work over traces that several processes share; here, threads stand for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn import DataError, LimitError
from fotltn.analysis.view import View
from fotltn.evaluation import evaluate_all
from fotltn.networks.rows import everywhere
from fotltn.semantics.by_trace import joined_tables, of_traces
from fotltn.semantics.config import CRISP, GODEL, STABLE_PRODUCT
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.sharing import BLOCKS, Sharing, by_blocks, is_first, shared_by
from tests import threads
from tests.learn import tasks
from tests.threads import Tell

TRACES = 5
LENGTHS = [8, 3, 8, 1, 6]


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What each of so many threads returns, or the error that it ends with."""

    def one(number: int, tell: Tell) -> Any:
        with shared_by(Sharing(number, count, tell)):
            return work(number)

    return threads.together(count, one)


@pytest.fixture(scope="module")
def ground():
    return tasks.grounding(TRACES, lengths=LENGTHS).double().eval()


def asked(ground) -> dict[str, Any]:
    """What commands ask of tables: all of them, values, counts and an audit."""
    theory = tasks.theory()
    with torch.no_grad():
        tables = everywhere(ground)
        formulas = {a.name: a.formula for a in theory.axioms}
        values = evaluate_all(formulas, tables, STABLE_PRODUCT)
        whole = {n: t for n, t in tables.predicates.items() if isinstance(t, torch.Tensor)}
        view = View(tables, STABLE_PRODUCT, 0.5, theory=theory, learned=ground.open)
        return {
            "tables": whole,
            "values": {n: v.tensor.expand(TRACES, tables.horizon) for n, v in values.items()},
            "rules": list(view.rules(semantics=CRISP)),
            "degrees": list(view.rules(semantics=GODEL)),
            "audit": replace(view, threshold=None).audit(),
        }


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name in ("tables", "values"):
        assert tasks.same(first[name], second[name]), name
    assert [first[n] for n in ("rules", "degrees")] == [second[n] for n in ("rules", "degrees")]
    assert first["audit"].as_dict() == second["audit"].as_dict()


@pytest.fixture
def by_traces(monkeypatch):
    """There are as many traces as blocks, or more, so that processes share traces."""
    for name in ("sharing", "networks.rows"):
        monkeypatch.setattr(f"fotltn.{name}.BLOCKS", 4)


@pytest.mark.usefixtures("by_traces")
def test_what_is_shared_has_the_same_bits_for_any_number_of_processes(ground):
    """With uneven shares, and more processes than traces."""
    (expected,) = together(1, lambda _: asked(ground))
    for count in (2, 3, 4, 7):
        for result in together(count, lambda _: asked(ground)):
            assert_same(expected, result)


@pytest.mark.usefixtures("by_traces")
def test_what_is_shared_is_what_one_process_computes_at_once(ground):
    (blocks,), plain = together(1, lambda _: asked(ground)), asked(ground)
    for kind in ("tables", "values"):
        for name, tensor in plain[kind].items():
            torch.testing.assert_close(blocks[kind][name], tensor, rtol=1e-12, atol=0)
    assert blocks["rules"] == plain["rules"]
    first, second = (made["audit"].axioms for made in (blocks, plain))
    assert [a.on_model for a in first] == [a.on_model for a in second]
    assert [a.value for a in first] == pytest.approx([a.value for a in second], rel=1e-12)


@pytest.mark.parametrize("total", [2, 5, 16, 40])
def test_each_trace_is_in_one_block_and_blocks_do_not_depend_on_processes(total):
    seen = [together(count, lambda _: by_blocks("x", total, list)) for count in (1, 2, 5, 20)]
    blocks = seen[0][0]
    assert all(blocks == one for every in seen for one in every)
    assert [n for block in blocks for n in block] == list(range(total))
    assert len(blocks) == min(total, BLOCKS)


def test_alone_or_with_one_trace_nothing_is_shared():
    assert by_blocks("x", 5, list) is None
    assert together(2, lambda _: by_blocks("x", 1, list)) == [None, None]
    assert together(1, lambda _: by_blocks("x", 4, lambda _: by_blocks("y", 3, list))) == [
        [None] * 4
    ]


def test_an_error_in_a_block_is_one_of_all_which_they_can_go_on_from():
    def work(_: int) -> list[int] | None:
        def odd(traces: range) -> int:
            if 3 in traces:
                raise LimitError("trace 3 is too large")
            return len(traces)

        with pytest.raises(LimitError, match="trace 3"):
            by_blocks("x", 6, odd)
        return by_blocks("x", 6, len)

    assert together(3, work) == [[1] * 6] * 3


def test_a_process_that_leaves_with_an_error_takes_the_others_along():
    def work(number: int) -> list[int] | None:
        if number == 1:
            raise DataError("no such file")
        return by_blocks("x", 6, len)

    assert [str(error) for error in together(3, work)] == ["error: no such file"] * 3
    late = together(2, lambda number: number and by_blocks("x", 6, len))
    assert all("the processes do not have the same data" in str(error) for error in late)


def test_processes_with_other_data_are_told():
    results = together(2, lambda number: by_blocks("counts", 4 + number, len))
    for error in results:
        assert isinstance(error, DataError)
        assert "process 0: counts of 4 traces; process 1: counts of 5 traces" in str(error)


def test_the_first_process_alone_writes():
    assert is_first()
    assert together(3, lambda _: is_first()) == [True, False, False]


def test_what_has_gradients_is_not_shared(ground):
    formulas = {a.name: a.formula for a in tasks.theory().axioms}

    def work(_: int) -> bool:
        values = evaluate_all(formulas, ground(), STABLE_PRODUCT, at=0)
        return all(v.tensor.requires_grad for v in values.values())

    assert together(2, work) == [True, True]


def test_facts_of_some_traces_are_joined_again():
    tables = tasks.given(TRACES, lengths=LENGTHS)
    parts = [of_traces(tables, range(*pair)) for pair in ((0, 2), (2, 5))]
    assert [part.lengths.tolist() for part in parts] == [[8, 3], [8, 1, 6]]
    assert parts[1].names.trace(0) == "2"
    blocks = [of_traces(tables, range(n, n + 1)).table("Close") for n in range(TRACES)]
    again, close = joined_tables(blocks, TRACES), tables.table("Close")
    assert isinstance(again, SparseTable)
    assert isinstance(close, SparseTable)
    assert torch.equal(again.dense(torch.float64), close.dense(torch.float64))
    static = sparse_table([[0], [2], [0]], None, (1, 3, 1))
    shared_table = of_traces(
        type(tables)({"agent": 3}, torch.tensor([1, 1]), 1, {"P": static}), range(1, 2)
    )
    assert shared_table.table("P") is static
