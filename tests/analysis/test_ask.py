"""Queries against `evaluate`, and predictions written and read back."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
import torch

from fotltn import dsl, evaluate
from fotltn.analysis.predictions import predictions, write_table
from fotltn.analysis.view import View
from fotltn.errors import BuildError, CheckError, DataError
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.logic.check import check
from fotltn.semantics.config import CRISP, LOG_PRODUCT, STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax.load import parse_theory
from tests.analysis.scenes import violations
from tests.helpers import numbered

THEORY = check(
    parse_theory(
        """
        sort s
        static predicate Kind(s)
        predicate P(s)
        predicate Near(s, s)
        predicate rain
        axiom N1: forall x. G P(x)
        """
    )
)
SIGNATURE = THEORY.signature


def model(lengths=(4,), seed: int = 0) -> Tables:
    torch.default_generator.manual_seed(seed)
    batch, horizon = len(lengths), max(lengths)
    return Tables(
        {"s": 3},
        torch.tensor(lengths),
        horizon,
        {
            "Kind": torch.rand(batch, 3, 1, requires_grad=True),
            "P": torch.rand(batch, 3, horizon, requires_grad=True),
            "Near": torch.rand(batch, 3, 3, horizon),
            "rain": torch.rand(batch, horizon),
        },
        signature=SIGNATURE,
        names=numbered({"s": 3}),
    )


def tables(given: Tables, trace: int, length: int):
    return {
        n: t[trace, ..., :length] if n != "Kind" else t[trace].expand(3, length)  # type: ignore[index]
        for n, t in given.predicates.items()
    }


FORMULAS = (
    "P(x)",
    "Kind(x)",
    "F(P(x) & Near(x, y)) | Kind(y)",
    "forall x. G(P(x) -> WX rain)",
    "P(x) U Near(y, x)",
    "Near(y, x) & Near(x, y)",
)


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, LOG_PRODUCT, CRISP])
@pytest.mark.parametrize("text", FORMULAS)
def test_answers_are_those_of_evaluate(text, semantics):
    given = model((4, 2))
    threshold = 0.5 if semantics is CRISP else None
    whole = View(given, semantics).ask(text, at="all")
    assert whole.times == (0, 1, 2, 3)
    for trace, length in enumerate((4, 2)):
        expected = evaluate(
            text, tables(given, trace, length), semantics=semantics, at="all", threshold=threshold
        ).detach()
        torch.testing.assert_close(whole.tensor[trace, ..., :length], expected)
        point = View(given, semantics).ask(text, at=1)
        torch.testing.assert_close(point.tensor[trace, ..., 0], expected[..., 1])
    beyond = whole.tensor[1, ..., 2:]
    assert bool((~beyond if semantics is CRISP else beyond.isnan()).all())
    assert not whole.tensor.requires_grad


def test_rows_name_entities_traces_and_times():
    given = model((4, 2))
    given = replace(given, names=replace(given.names, traces=("monday", "tuesday")))
    answer = View(given, STABLE_PRODUCT).ask("Near(y, x)", at="all")
    assert [a.name for a in answer.axes] == ["y", "x"]
    rows = list(answer.rows())
    assert len(rows) == 9 * 4 + 9 * 2
    near = given.predicates["Near"]
    assert isinstance(near, torch.Tensor)
    assert rows[5] == {
        "y": "s0", "x": "s1", "trace": "monday", "time": 1, "value": near[0, 0, 1, 1].item(),
    }  # fmt: skip
    assert rows[-1] == {
        "y": "s2", "x": "s2", "trace": "tuesday", "time": 1, "value": near[1, 2, 2, 1].item(),
    }  # fmt: skip
    late = View(given, STABLE_PRODUCT).ask("rain", at=3)
    assert [(r["trace"], r["time"]) for r in late.rows()] == [("monday", 3)]  # tuesday has ended


def test_formulas_from_python_and_tables_of_facts():
    facts = sparse_table([[0, 0], [0, 2], [1, 1], [0, 3]], [0.5, 1.0], (1, 3, 3, 4))
    given = model()
    given = replace(given, predicates={**given.predicates, "Near": facts})
    x, y = dsl.variables("x y")
    (near,) = dsl.predicates("Near")
    answer = View(given, STABLE_PRODUCT).ask(near(x, y), at="all")
    torch.testing.assert_close(answer.tensor[0], facts.dense(torch.float64)[0])


def test_what_cannot_be_asked():
    given = model()
    with pytest.raises(CheckError, match="unknown predicate 'Q'"):
        View(given, STABLE_PRODUCT).ask("Q(x)")
    for at in (4, -1, True):
        with pytest.raises(DataError, match=r"does not exist: there are 0 to 3"):
            View(given, STABLE_PRODUCT).ask("P(x)", at=at)
    with pytest.raises(BuildError, match="expected a formula"):
        View(given, STABLE_PRODUCT).ask(3)  # type: ignore[arg-type]


# --- predictions -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("lengths", [(4,), (4, 2)])
def test_predictions_can_be_read_as_facts(tmp_path, lengths, suffix):
    given = model(lengths)
    table = predictions(given)
    file = tmp_path / f"predictions{suffix}"
    write_table(table, file)
    facts = read_facts([file], SIGNATURE)
    assert facts.lengths == lengths
    assert facts.warnings == ()
    back = tables_of_facts(facts, SIGNATURE)
    assert facts.entities == {"s": ("s0", "s1", "s2")}
    for predicate, degrees in given.predicates.items():
        assert isinstance(degrees, torch.Tensor)
        expected = degrees.detach().clone()
        if predicate != "Kind":
            inside = given.inside.reshape(len(lengths), *[1] * (expected.dim() - 2), -1)
            expected = torch.where(inside, expected, 0.0)
        torch.testing.assert_close(back.predicate(predicate), expected, rtol=0, atol=0)


def test_the_columns_are_those_of_facts():
    table = predictions(model(), ["P", "Near"])
    assert table.column_names == ["predicate", "arg1", "arg2", "time", "truth"]
    assert table.num_rows == 3 * 4 + 9 * 4
    first = table.slice(0, 1).to_pylist()[0]
    assert (first["predicate"], first["arg1"], first["arg2"], first["time"]) == ("P", "s0", None, 0)
    two = replace(model((4, 2)), names=Names(("a", "b")))
    named = predictions(two, ["Kind"])
    assert named.column("trace").to_pylist() == ["a"] * 3 + ["b"] * 3
    assert named.column("time").null_count == 6


def test_facts_stay_facts_and_constants_are_spread():
    given = model((4, 2))
    facts = sparse_table([[0, 0], [0, 2], [1, 1], [0, 3]], [0.5, 1.0], (1, 3, 3, 4))
    given = replace(given, predicates={"Near": facts, "P": torch.full((1, 3, 1), 0.25)})
    rows = predictions(given, ["Near"]).to_pylist()
    assert [(r["arg1"], r["time"], r["trace"], r["truth"]) for r in rows] == [
        ("s0", 0, "0", 0.5), ("s2", 3, "0", 1.0), ("s0", 0, "1", 0.5),
    ]  # fmt: skip
    steady = predictions(given, ["P"])
    assert steady.num_rows == 3 * 4 + 3 * 2
    assert set(steady.column("truth").to_pylist()) == {0.25}
    other = replace(facts, default=0.1)
    given = replace(given, predicates={"Near": other})
    assert predictions(given, ["Near"]).num_rows == 9 * 4 + 9 * 2


def test_entities_that_a_trace_lacks_are_left_out():
    given = model((4, 2))

    given = replace(given, names=Names(local={"s": (("s0", "s1", "s2"), ("s0", "s1"))}))
    rows = predictions(given, ["Near"]).to_pylist()
    assert len(rows) == 9 * 4 + 4 * 2
    assert {r["arg2"] for r in rows if r["trace"] == "1"} == {"s0", "s1"}
    answer = View(given, STABLE_PRODUCT).ask("Near(x, y)", at="all")
    assert len(list(answer.rows())) == 9 * 4 + 4 * 2
    found = violations(THEORY.axiom("N1"), given, STABLE_PRODUCT, top=100)
    assert {v.binding["x"] for v in found if v.trace == 1} == {"s0", "s1"}


def test_what_cannot_be_predicted():
    given = model()
    with pytest.raises(DataError, match="unknown predicate 'Nera'; did you mean 'Near'"):
        predictions(given, ["Nera"])
    with pytest.raises(DataError, match="no predicates"):
        predictions(given, [])
    moving = replace(given, predicates={"Kind": torch.rand(1, 3, 4)})
    with pytest.raises(DataError, match="'Kind' is declared static, but its table has 4"):
        predictions(moving, ["Kind"])


def test_a_file_is_complete_or_as_it_was(tmp_path, monkeypatch):
    file = tmp_path / "out.csv"
    table = predictions(model(), ["P"])
    write_table(table, file)
    before = file.read_bytes()
    assert csv.read_csv(file).num_rows == table.num_rows
    os.chmod(file, 0o640)

    def half(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", half)
    with pytest.raises(DataError, match=r"cannot write .*out\.csv: No space left on device"):
        write_table(table.slice(0, 1), file)
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["out.csv"]
    write_table(table.slice(0, 1), file)
    assert csv.read_csv(file).num_rows == 1
    assert file.stat().st_mode & 0o777 == 0o640


def test_files_that_cannot_be_written(tmp_path):
    table = pa.table({"predicate": ["P"]})
    with pytest.raises(DataError, match=r"must end in one of \.csv, \.tsv, \.parquet, \.pq"):
        write_table(table, tmp_path / "out.json")
    with pytest.raises(DataError, match=r"cannot write .*: No such file or directory"):
        write_table(table, tmp_path / "nowhere" / "out.parquet")
    write_table(table, tmp_path / "OUT.PQ")
    assert parquet.read_table(tmp_path / "OUT.PQ").to_pylist() == [{"predicate": "P"}]
