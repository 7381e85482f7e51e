"""Text features: categories that are named, and those that are taken from the data."""

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from fotltn import DataError
from tests.grounding.test_wide import read, wide


@pytest.mark.parametrize("seed", range(6))
def test_categories_of_the_data(seed, tmp_path):
    """Over all tables of a feature, in the order of the alphabet; against one row after another."""
    rng = random.Random(seed)
    words = rng.sample(["N", "SE", "north west", "9E", "x1", "é"], rng.randint(1, 6))
    parts = [
        [(f"e{k}{i}", rng.choice(words), rng.uniform(-1, 1)) for i in range(9)] for k in range(3)
    ]
    known = sorted({word for part in parts for _, word, _ in part})
    tables = []
    for k, part in enumerate(parts):
        columns = dict(zip(("who", "side", "v"), map(list, zip(*part, strict=True)), strict=True))
        table = pa.table(columns)
        csv.write_csv(table, tmp_path / f"{k}.csv")
        coded = table.set_column(1, "side", table["side"].dictionary_encode())
        source: Any = [tmp_path / f"{k}.csv", coded, columns][(k + seed) % 3]
        tables.append(wide(source, time=None, features=["side", "v"]))
    facts, features = read(*tables)
    seen = features["agent"]
    assert seen.names == (*(f"side={word}" for word in known), "v")
    assert seen.categories == {"side": tuple(known)}
    for who, word, v in (row for part in parts for row in part):
        number = facts.entities["agent"].index(who)
        assert seen.values[0, number, 0].tolist() == [*(float(w == word) for w in known), v]


def test_empty_cells_and_empty_tables():
    first = wide({"who": ["a"], "side": pa.nulls(1)}, time=None, features=["side"], missing="mean")
    then = wide(
        {"who": ["b", "c"], "side": ["x", None]}, time=None, features=["side"], missing="mean"
    )
    for tables in ([first, then], [then, first]):
        facts, features = read(*tables)
        seen = features["agent"]
        assert seen.names == ("side=x", "side missing")
        b = seen.values[0, facts.entities["agent"].index("b"), 0]
        assert (b.tolist(), int(seen.values.isnan().sum())) == ([1.0, 0.0], 2)


def test_what_is_a_number_stays_one():
    table = {
        "who": ["a", "b"],
        "yes": ["True", "false"],
        "flag": [True, False],
        "price": pa.array([Decimal("1.50"), Decimal("-2.25")]),
        "text": ["1e3", " -7 "],
    }
    _, features = read(wide(table, time=None, features=["yes", "flag", "price", "text"]))
    assert features["agent"].names == ("yes", "flag", "price", "text")
    assert features["agent"].values[0, :, 0].tolist() == [[1, 1, 1.5, 1000], [0, 0, -2.25, -7]]


def test_decimals_are_degrees_and_results():
    table = {"who": ["a"], "t": pa.array([Decimal("1")]), "s": pa.array([Decimal("0.5")])}
    facts, _ = read(wide(table, predicates={"s": "Stop"}))
    assert (facts.rows["Stop"].value.tolist(), facts.rows["Stop"].time.tolist()) == ([0.5], [1])


def test_unknown_categories():
    table = {"who": ["a", "b"], "side": ["x", "?"]}
    options: dict[str, Any] = {
        "time": None,
        "features": ["side"],
        "categories": {"side": ["x", "y"]},
    }
    _, features = read(wide(table, unknown_categories="zero", **options))
    assert features["agent"].values[0, :, 0].tolist() == [[1, 0], [0, 0]]
    with pytest.raises(DataError) as raised:
        read(wide(table, **options))
    assert str(raised.value) == (
        "error: row 2 of the data frame, column 'side': the feature is '?'; "
        "expected one of 'x', 'y'"
        '\n      = add it to the categories, or set all of them to 0: unknown_categories = "zero"'
    )


BAD: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "many": (
        [f"w{i}" for i in range(101)],
        {},
        "the data frame, column 'side': 101 different words; at most 100 can be categories\n"
        "      = list its categories, or leave the feature out",
    ),
    "mixed": (
        ["x", "1"],
        {},
        "row 1 of the data frame, column 'side': the feature is 'x'; expected a finite number",
    ),
    "infinite": (
        ["inf"],
        {},
        "row 1 of the data frame, column 'side': the feature is 'inf'; expected a finite number",
    ),
    "thousands": (
        ["1,234", "2,345"],
        {},
        "row 1 of the data frame, column 'side': the feature is '1,234'; expected a finite number\n"
        "error: row 2 of the data frame, column 'side': the feature is '2,345'; "
        "expected a finite number",
    ),
    "dates": (
        ["2013-01-01"],
        {},
        "row 1 of the data frame, column 'side': the feature is '2013-01-01'; "
        "expected a finite number",
    ),
    "kind": (
        ["x"],
        {"unknown_categories": "one"},
        "unknown_categories: expected one of 'error', 'zero', not 'one'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_categories(case):
    cells, options, wanted = BAD[case]
    table = {"who": [f"e{i}" for i in range(len(cells))], "side": cells}
    with pytest.raises(DataError) as raised:
        read(wide(table, time=None, features=["side"], **options))
    assert str(raised.value) == f"error: {wanted}"


def test_words_in_one_table_and_numbers_in_another():
    tables = [
        wide({"who": [who], "v": [cell]}, time=None, features=["v"])
        for who, cell in (("a", "x"), ("b", 1))
    ]
    for order, other in ((tables, "words"), (tables[::-1], "numbers")):
        with pytest.raises(DataError, match=f"another table has the feature 'v' with {other}"):
            read(*order)


# --- rows that repeat -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["error", "mean", "first", "last", "majority"])
@pytest.mark.parametrize("seed", range(5))
def test_repeated_rows(how, seed):
    """Rows that agree count once, whatever is said of contradictions; the others as it says."""
    rng = random.Random(seed)
    rows = [(rng.choice("ab"), rng.choice([1.0, 2.0, 4.0]), rng.choice("xyz")) for _ in range(9)]
    rows += [("a", 1.0, "x"), ("b", 1.0, "x")]
    agreeing = {who: row for row in rows for who in row[0]}
    again = [agreeing["a"], agreeing["b"], agreeing["a"]]

    def features(rows: list[tuple[str, float, str]], columns: list[str]) -> Any:
        who, v, side = map(list, zip(*rows, strict=True))
        table = wide({"who": who, "v": v, "side": side}, time=None, features=columns)
        facts, seen = read(table, on_conflict=how)
        order = [facts.entities["agent"].index(name) for name in "ab"]
        return seen["agent"].values[0, order, 0].tolist(), [w.message for w in facts.warnings]

    said = ["features of 'agent': 1 repeated value"]
    assert features(again, ["v"]) == ([[agreeing["a"][1]], [agreeing["b"][1]]], said)
    told = {who: [(v, side) for name, v, side in rows if name == who] for who in "ab"}
    clash = any(len({v for v, _ in cells}) > 1 for cells in told.values())
    if how == "error" and clash:
        with pytest.raises(DataError, match="here, but"):
            features(rows, ["v"])
        return
    for who, got in zip("ab", features(rows, ["v"])[0], strict=True):
        values = [v for v, _ in told[who]]
        most = Counter(values).most_common()
        wanted = {
            "first": values[0], "last": values[-1], "mean": sum(values) / len(values),
            "majority": next(v for v in values if Counter(values)[v] == most[0][1]),
        }  # fmt: skip
        assert got == [pytest.approx(wanted[how])]
    if how == "mean":
        with pytest.raises(DataError, match="only numbers have a mean"):
            features(rows, ["side"])
    else:
        sides = sorted({side for _, _, side in rows})
        for who, got in zip("ab", features(rows, ["side"])[0], strict=True):
            words = [side for _, side in told[who]]
            most_words = Counter(words).most_common()
            word = {
                "first": words[0], "last": words[-1],
                "majority": next(w for w in words if Counter(words)[w] == most_words[0][1]),
            }[how]  # fmt: skip
            assert got == [float(word == side) for side in sides]
