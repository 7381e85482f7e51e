"""Tables of facts against a slow reader that goes row by row: facts, order of names, errors."""

import csv
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from fotltn.errors import DataError
from fotltn.grounding.facts import read_facts
from fotltn.grounding.wide import Wide, read_wide
from tests.grounding.common import SIGNATURE

COLUMNS = ("predicate", "arg1", "arg2", "time", "truth", "trace", "value")
ARITY = {"Car": 1, "Stop": 1, "Close": 2, "Rain": 0, "speed": 1, "at": 1, "pairs": 2}
STATIC = ("Car", "pairs")


def random_rows(draw, count, names=6, steps=5, traces=0):
    """Rows as lists of cells, as they stand in a file: with spaces, in any order, repeated."""

    def cell(text):
        return draw.choice(["", "", "", " ", "  "]) + text + draw.choice(["", "", "", " "])

    rows: list[list[str]] = []
    for _ in range(count):
        if rows and draw.random() < 0.1:
            rows.append(draw.choice(rows))
            continue
        predicate = draw.choice(list(ARITY))
        args = [f"n{draw.randrange(names)}" for _ in range(ARITY[predicate])]
        time = "" if predicate in STATIC else str(draw.randrange(steps)) + draw.choice(["", ".0"])
        truth, value = "", ""
        if predicate in ("speed", "at"):
            value = f"{draw.randrange(4)}.5" if predicate == "speed" else f"p{draw.randrange(3)}"
        elif predicate != "pairs":
            truth = draw.choice(["", "1", "0", "0.25", "true", "False", "1e0"])
        trace = f"t{draw.randrange(traces)}" if traces and predicate != "pairs" else ""
        cells = [predicate, *[*args, "", ""][:2], time, truth, trace, value]
        rows.append([cell(c) for c in cells])
    return rows


class SlowFacts:
    """What rows state, found one after the other."""

    def __init__(self, rows, last=False):
        self.names: dict[str, dict[str, int]] = {"agent": {}, "place": {}}
        self.traces: dict[str, int] = {}
        self.facts: dict[str, Any] = {}
        cells = [[c.strip() for c in row] for row in rows]
        for predicate in dict.fromkeys(row[0] for row in cells if row[0]):
            mine = [row for row in cells if row[0] == predicate]
            for place in range(ARITY[predicate]):
                for row in mine:
                    self.number("agent", row[1 + place])
            if predicate == "at":
                for row in mine:
                    self.number("place", row[6])
            for row in mine:
                if row[5]:
                    self.traces.setdefault(row[5], len(self.traces))
        self.traces = self.traces or {"": 0}
        for row in cells:
            if not row[0]:
                continue
            every = row[0] in STATIC and not row[5] and row[0] != "pairs"
            for trace in range(len(self.traces)) if every else [self.traces.get(row[5], 0)]:
                self.state(row, trace, last)
        self.number("agent", "ego")

    def number(self, sort, name):
        return self.names[sort].setdefault(name, len(self.names[sort]))

    def state(self, row, trace, last):
        predicate, *args = row[: 1 + ARITY[row[0]]]
        time = int(float(row[3])) if row[3] else -1
        key = (trace, *(self.number("agent", a) for a in args), time)
        if predicate == "at":
            value = float(self.number("place", row[6]))
        else:
            text = (row[6] if predicate == "speed" else row[4]).lower()
            value = float({"": "1", "true": "1", "false": "0"}.get(text, text))
        stated = self.facts.setdefault(predicate, [] if predicate == "pairs" else {})
        if predicate == "pairs":
            stated.append((key, value))
        elif last or key not in stated:
            stated[key] = value

    def rows(self, predicate):
        stated = self.facts[predicate]
        return stated if predicate == "pairs" else list(stated.items())


def same(facts, slow):
    assert facts.traces == tuple(slow.traces)
    assert {s: list(n) for s, n in facts.entities.items()} == {
        s: list(n) for s, n in slow.names.items()
    }
    assert list(facts.rows) == list(slow.facts)
    for predicate, rows in facts.rows.items():
        columns = zip(
            rows.trace.tolist(), rows.args.tolist(), rows.time.tolist(), rows.value.tolist(),
            strict=True,
        )  # fmt: skip
        read = [((trace, *args, time), value) for trace, args, time, value in columns]
        assert read == slow.rows(predicate), predicate


def as_csv(rows, file, draw):
    with file.open("w", newline="") as out:
        writer = csv.writer(out, quoting=draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        writer.writerows([COLUMNS, *rows])
    return file


def as_table(rows):
    columns = zip(*rows, strict=True)
    return pa.table({n: list(c) for n, c in zip(COLUMNS, columns, strict=True)})


def as_parquet(rows, file, draw):
    parquet.write_table(
        as_table(rows), file, row_group_size=draw.choice([3, 7, 1000]),
        use_dictionary=draw.choice([True, False, ["arg1"]]),
    )  # fmt: skip
    return file


def as_numbered(rows, draw):
    """Columns by number, each batch with words of its own, in any order and some of them unused."""
    batches = []
    for start in range(0, len(rows), 9):
        columns = {}
        for name, cells in zip(COLUMNS, zip(*rows[start : start + 9], strict=True), strict=True):
            words = [*{*cells, "unused"}]
            draw.shuffle(words)
            codes = pa.array([words.index(c) for c in cells], pa.int32())
            columns[name] = pa.DictionaryArray.from_arrays(codes, words)
        batches.append(pa.RecordBatch.from_pydict(columns))
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("seed", range(60))
def test_the_same_facts_as_row_by_row(seed, tmp_path):
    draw = random.Random(seed)
    rows = random_rows(draw, draw.choice([1, 5, 40, 200]), traces=draw.choice([0, 0, 1, 3]))
    if draw.random() < 0.3:
        rows.insert(draw.randrange(len(rows)), [""] * len(COLUMNS))
    last = draw.random() < 0.5
    slow = SlowFacts(rows, last)
    sources = [
        as_csv(rows, tmp_path / "f.csv", draw),
        as_parquet(rows, tmp_path / "f.parquet", draw),
        as_table(rows),
        as_numbered(rows, draw),
    ]
    for source in sources:
        facts = read_facts([source], SIGNATURE, on_conflict="last" if last else "first")
        same(facts, slow)


def test_many_batches_of_a_file(tmp_path):
    draw = random.Random(1)
    rows = random_rows(draw, 90_000, names=300, steps=400)
    file = as_csv(rows, tmp_path / "f.csv", draw)
    assert file.stat().st_size > 2 * 2**20  # that many bytes are read at a time
    same(read_facts([file], SIGNATURE, on_conflict="first"), SlowFacts(rows))


def test_an_error_in_a_late_batch_has_its_line(tmp_path):
    draw = random.Random(2)
    rows = random_rows(draw, 90_000)
    rows[70_000] = ["Stop", "n1", "", "x", "1", "", ""]
    rows[80_000] = ["Halt", "n1", "", "1", "1", "", ""]
    with pytest.raises(DataError) as error:
        read_facts([as_csv(rows, tmp_path / "f.csv", draw)], SIGNATURE, on_conflict="first")
    told = [d.message for d in error.value.diagnostics]
    assert told == [
        f"{tmp_path}/f.csv:70002: 'Stop' has the time 'x'; expected a whole number of at least 0",
        f"{tmp_path}/f.csv:80002: unknown predicate 'Halt'",
    ]


@pytest.mark.parametrize("seed", range(30))
def test_wide_tables_as_long_ones(seed, tmp_path):
    """Each row of a wide table as one row a fact; words are repeated, or numbers all differ."""
    draw = random.Random(seed)
    count = draw.choice([3, 30, 300])
    times = draw.sample(range(2 * count), count)
    cells = {
        "who": [f"n{draw.randrange(5)}" for _ in range(count)],
        "when": [str(t) for t in times],
        "stop": [draw.choice(["1", "0", "true", " 0.5", ""]) for _ in range(count)],
        "speed": [repr(draw.random()) for _ in range(count)],
    }
    long = [
        *(
            ["Stop", w, "", t, s, "", ""]
            for w, t, s in zip(cells["who"], cells["when"], cells["stop"], strict=True)
            if s
        ),
        *(
            ["speed", w, "", t, "", "", v]
            for w, t, v in zip(cells["who"], cells["when"], cells["speed"], strict=True)
        ),
    ]
    file = tmp_path / "w.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([list(cells), *zip(*cells.values(), strict=True)])
    for source in (file, pa.table(cells)):
        wide = Wide(source, "agent", "who", "when", predicates={"stop": "Stop", "speed": "speed"})
        facts, _ = read_wide([wide], SIGNATURE)
        slow = SlowFacts(long)
        names = list(dict.fromkeys([*cells["who"], "ego"]))
        assert facts.entities["agent"] == tuple(names)
        for predicate, rows in facts.rows.items():
            read = {
                (names[a], t): v
                for (a,), t, v in zip(rows.args, rows.time, rows.value, strict=True)
            }
            order = list(slow.names["agent"])
            assert read == {(order[a], t): v for (_, a, t), v in slow.rows(predicate)}
