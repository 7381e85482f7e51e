"""Facts as tables: the same truth as from tensors written by hand."""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from fotltn import SEMANTICS, DataError
from fotltn.evaluation import evaluate_core, present
from fotltn.grounding import dense
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import Facts, read_facts
from fotltn.logic.check import check_formula
from fotltn.logic.signature import Signature
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.parse import parse_formula
from tests.grounding.common import SIGNATURE, THEORY, read
from tests.helpers import value_of as evaluate

LENGTHS = {"one": 4, "two": 2, "three": 3}
FORMULAS = [
    "forall x: agent, y: agent. G(Car(x) & Close(x, y) -> WX Stop(x))",
    "exists x: agent. Stop(x) U Rain",
    "F[<=2] Stop(x)",
    "Close(x, y) | Y Stop(y)",
    "forall x: agent. Stop(owner(x)) S Car(x)",
    "forall (x, y) in pairs. F Close(x, y)",
    "exists x: agent where speed(x) > 1. O Stop(x)",
    "width(x) <= 0.5 & Stop(x)",
    "exists x: agent. at(x) = at(y) & WX Rain",
    "G Stop(ego)",
    'Close("a b", x)',
    "exists x: agent. owner(x) = x",
]


def generate(folder: Path, bits: bool = False) -> tuple[Facts, dict[str, Any]]:
    """Random facts on disk, read back, and the same as nested lists in the order of entities."""
    rng = random.Random(7)
    agents, places = ["a b", "ego", "c"], ["home", "work"]
    lines = ["predicate,arg1,arg2,time,truth,trace,value"]
    stated: dict[tuple[Any, ...], float | str] = {}

    def state(name: str, trace: str, args: tuple[str, ...], time: int | None, value: Any) -> None:
        stated[name, trace, args, time] = value
        first, second = (*args, "", "")[:2]
        function = name in SIGNATURE.functions
        cells = [name, first, second, "" if time is None else time, "" if function else value]
        lines.append(",".join(map(str, [*cells, trace, value if function else ""])))

    for trace, length in LENGTHS.items():
        for name, times in (("Car", [None]), ("Stop", range(length)), ("Close", range(length))):
            arity = len(SIGNATURE.predicates[name].sorts)
            for args in itertools.product(agents, repeat=arity):
                for time in times:
                    if rng.random() < 0.7:
                        degree = rng.choice([0, 1]) if bits else rng.random()
                        state(name, trace, args, time, degree)
        state("Rain", trace, (), length - 1, 1)
        for agent in agents:
            state("owner", trace, (agent,), None, rng.choice(agents))
            state("width", trace, (agent,), None, rng.random())
            for time in range(length):
                state("at", trace, (agent,), time, rng.choice(places))
                state("speed", trace, (agent,), time, rng.gauss(1, 1))
    pairs = [("a b", "c"), ("c", "c"), ("a b", "c")]
    lines += [f"pairs,{x},{y},,,," for x, y in pairs]
    (folder / "f.csv").write_text("\n".join(lines) + "\n")
    facts = read_facts([folder / "f.csv"], SIGNATURE)
    return facts, {"stated": stated, "pairs": pairs}


def by_hand(facts: Facts, known: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `evaluate`, filled cell by cell."""
    horizon = max(facts.lengths)

    def table(name: str, symbol: Any, default: Any) -> torch.Tensor:
        entities = [facts.entities[s] for s in symbol.sorts]
        result = getattr(symbol, "result", "real")
        cells = []
        for trace, args, time in itertools.product(
            facts.traces, itertools.product(*entities), [None] if symbol.static else range(horizon)
        ):
            value = known["stated"].get((name, trace, args, time), default)
            cells.append(facts.entities[result].index(value) if isinstance(value, str) else value)
        shape = [len(facts.traces), *map(len, entities), *([] if symbol.static else [horizon])]
        return torch.tensor(cells).reshape(shape).to(torch.float64 if result == "real" else None)

    number = facts.entities["agent"].index
    return {
        "predicates": {n: table(n, d, 0.0) for n, d in SIGNATURE.predicates.items()},
        "functions": {
            n: table(n, d, 0.0 if d.result == "real" else facts.entities[d.result][0])
            for n, d in SIGNATURE.functions.items()
        },
        "relations": {"pairs": [[number(x), number(y)] for x, y in known["pairs"]]},
        "constants": {"ego": number("ego"), "a b": number("a b")},
        "lengths": facts.lengths,
    }


@pytest.mark.parametrize("name", SEMANTICS)
@pytest.mark.parametrize("text", FORMULAS)
def test_facts_mean_what_tensors_mean(tmp_path, text, name):
    facts, known = generate(tmp_path, SEMANTICS[name].boolean)
    assert dict(zip(facts.traces, facts.lengths, strict=True)) == LENGTHS
    checked = check_formula(parse_formula(text), SIGNATURE)
    model = tables_of_facts(facts, SIGNATURE)
    value = evaluate_core(checked.formula, model, SEMANTICS[name])
    found = present(value, checked.free, model, at="all", batched=True)
    wanted = evaluate(text, theory=THEORY, semantics=name, at="all", **by_hand(facts, known))
    assert found.shape[0] == 3
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


def test_what_no_fact_states_is_false(tmp_path):
    facts = read(tmp_path, "Stop,a,,1,0.5\nCar,b,,,\n", horizon=3)
    signature = facts_only("Car", "Stop", "Rain", "Close")
    model = tables_of_facts(facts, signature)
    assert facts.entities["agent"] == ("a", "b", "ego")
    assert cells(model, "Stop").tolist() == [[[0, 0.5, 0], [0, 0, 0], [0, 0, 0]]]
    assert cells(model, "Car").tolist() == [[[0], [1], [0]]]
    assert cells(model, "Rain").tolist() == [[0, 0, 0]]
    assert cells(model, "Close").shape == (1, 3, 3, 3)
    assert not cells(model, "Close").any()
    assert model.constants["agent"] == {"a": 0, "b": 1, "ego": 2}
    assert (model.horizon, model.lengths.tolist()) == (3, [3])


def facts_only(*names: str) -> Signature:
    """The signature with just some predicates, and no functions."""
    kept = {n: d for n, d in SIGNATURE.predicates.items() if n in names}
    return Signature(SIGNATURE.sorts, kept, {}, SIGNATURE.constants, SIGNATURE.relations)


def cells(model: Tables, name: str) -> torch.Tensor:
    found = model.predicates[name]
    assert isinstance(found, torch.Tensor)
    return found


def functions_only(*names: str) -> Signature:
    kept = {n: d for n, d in SIGNATURE.functions.items() if n in names}
    return Signature(SIGNATURE.sorts, {}, kept)


def test_a_sort_without_entities(tmp_path):
    facts = read(tmp_path, "predicate\n")
    model = tables_of_facts(facts, facts_only("Stop"))
    assert (model.sizes["agent"], model.sizes["place"]) == (1, 0)
    empty = Facts(("",), {"agent": (), "place": ()}, {}, (1,))
    model = tables_of_facts(empty, facts_only("Stop"))
    assert cells(model, "Stop").shape == (1, 0, 1)
    assert model.relations["pairs"].shape == (0, 2)
    assert tables_of_facts(empty, functions_only("owner")).functions["owner"].shape == (1, 0, 1)


def test_relations_keep_duplicates_and_order(tmp_path):
    facts = read(tmp_path, "pairs,b,a,,\npairs,a,b,,\npairs,b,a,,\n")
    model = tables_of_facts(facts, facts_only())
    number = model.constants["agent"]
    a, b = number["a"], number["b"]
    assert model.relations["pairs"].tolist() == [[b, a], [a, b], [b, a]]


def test_types_of_tables(tmp_path):
    text = "predicate,arg1,value\nCar,ego,\nowner,ego,ego\nwidth,ego,0.1\n"
    facts = read(tmp_path, text)
    for dtype in (torch.float32, torch.float64):
        functions = tables_of_facts(facts, functions_only("owner", "width"), dtype=dtype).functions
        assert (functions["owner"].dtype, functions["width"].dtype) == (torch.int64, dtype)
        car = cells(tables_of_facts(facts, facts_only("Car"), dtype=dtype), "Car")
        assert car.dtype == dtype


HOLES = {
    "owner": ("owner,a,,,b\nowner,ego,,,b\n", "the function 'owner' has no value for (b)"),
    "width": ("width,a,,,1\n", "the function 'width' has no value for (ego)"),
    "at": (
        "at,ego,0,,home\nat,ego,2,,home\n",
        "the function 'at' has no value for (ego) at time 1",
    ),
    "speed": (
        "speed,ego,0,t,1\nspeed,ego,0,u,1\nspeed,ego,2,u,1\n",
        "the function 'speed' has no value for (ego) at time 1 in trace 'u'",
    ),
}


@pytest.mark.parametrize("name", HOLES)
def test_functions_are_total(tmp_path, name):
    rows, wanted = HOLES[name]
    facts = read(tmp_path, f"predicate,arg1,time,trace,value\n{rows}")
    with pytest.raises(DataError) as found:
        tables_of_facts(facts, functions_only(name))
    assert str(found.value) == f"error: {wanted}"


def test_functions_need_no_value_beyond_the_end_of_a_trace(tmp_path):
    rows = "speed,ego,0,short,1\nspeed,ego,0,long,2\nspeed,ego,1,long,3\n"
    facts = read(tmp_path, f"predicate,arg1,time,trace,value\n{rows}")
    table = tables_of_facts(facts, functions_only("speed")).functions["speed"]
    assert table[0, 0, :1].tolist() == [1]
    assert table[1, 0].tolist() == [2, 3]
    assert table.isfinite().all()


def test_tables_that_are_too_large_are_refused(tmp_path, monkeypatch):
    facts = read(tmp_path, "Close,a,b,3,\n")  # 3 agents with ego, 4 points: 36 cells
    monkeypatch.setattr(dense, "MAX_CELLS", 36)
    assert cells(tables_of_facts(facts, facts_only("Close")), "Close").numel() == 36
    monkeypatch.setattr(dense, "MAX_CELLS", 35)
    with pytest.raises(DataError) as found:
        tables_of_facts(facts, facts_only("Close"))
    wanted = "a dense table of 'Close' would have 36 cells (1 × 3 × 3 × 4); at most 35 are possible"
    assert str(found.value) == f"error: {wanted}"


def test_a_huge_table_is_refused_before_it_is_made(tmp_path):
    facts = read(tmp_path, "Close,a,b,99999999,\n")
    with pytest.raises(DataError, match="'Close' would have 900,000,000 cells"):
        tables_of_facts(facts, facts_only("Close"))


def test_functions_that_are_too_large_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(dense, "MAX_CELLS", 1)
    facts = read(tmp_path, "predicate,arg1,value\nowner,a,a\n")
    with pytest.raises(DataError, match="'owner' would have 2 cells"):
        tables_of_facts(facts, functions_only("owner"))


@pytest.mark.parametrize("horizon", [10**12, 10**24])
def test_a_huge_horizon_is_refused(tmp_path, horizon):
    """Static tables have no time, but values of formulas do."""
    facts = read(tmp_path, "Car,a,,,\n", horizon=horizon)
    with pytest.raises(DataError):
        tables_of_facts(facts, facts_only("Car"))


def test_few_facts_of_a_large_table_stay_facts(tmp_path, monkeypatch):
    monkeypatch.setattr(dense, "SPARSE_CELLS", 20)
    rows = "Close,a,b,1,0.5\nClose,b,a,2,\nStop,a,,0,\n"
    facts = read(tmp_path, rows, horizon=4)
    signature = facts_only("Close", "Stop", "Near")
    whole = tables_of_facts(facts, signature)
    found = tables_of_facts(facts, signature, sparse=True)
    table = found.predicates["Close"]
    assert isinstance(table, SparseTable)
    assert (table.facts, table.shape) == (2, (1, 3, 3, 4))
    torch.testing.assert_close(found.predicate("Close"), cells(whole, "Close"))
    assert isinstance(found.predicates["Stop"], torch.Tensor), "small"
    assert isinstance(whole.predicates["Close"], torch.Tensor)
    none = tables_of_facts(
        read(tmp_path, "Stop,a,,0,\nStop,b,,0,\n", horizon=9), signature, sparse=True
    )
    assert isinstance(none.predicates["Close"], SparseTable)
    assert none.predicates["Close"].facts == 0
