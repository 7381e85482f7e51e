"""A signature with every kind of symbol, and facts as plain Python."""

from pathlib import Path
from typing import Any

from fotltn import check
from fotltn.grounding.facts import Facts, read_facts
from fotltn.syntax.load import parse_theory

THEORY = check(
    parse_theory(
        """
        sort agent
        sort place
        static predicate Car(agent)
        predicate Stop(agent)
        predicate Close(agent, agent)
        predicate Rain
        function owner(agent): agent
        function width(agent): real
        temporal function at(agent): place
        temporal function speed(agent): real
        relation pairs(agent, agent)
        constant ego: agent
        """,
        source="facts.fot",
    )
)
SIGNATURE = THEORY.signature


def write(folder: Path, text: str, name: str = "f.csv") -> Path:
    """A file of facts; a text without a header line gets the usual one."""
    if not text.startswith("predicate"):
        text = f"predicate,arg1,arg2,time,truth\n{text}"
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def read(folder: Path, text: str, **options: Any) -> Facts:
    return read_facts([write(folder, text)], SIGNATURE, **options)


def plain(facts: Facts) -> dict[str, Any]:
    """Facts by name: for each symbol its rows (trace, arguments, time, value), in order."""
    return {
        "traces": facts.traces,
        "entities": facts.entities,
        "lengths": facts.lengths,
        "warnings": [w.message for w in facts.warnings],
        "rows": {name: rows(facts, name) for name in facts.rows},
    }


def rows(facts: Facts, name: str) -> list[tuple[str, tuple[str, ...], int, float]]:
    part = facts.rows[name]
    symbol: Any = {**SIGNATURE.predicates, **SIGNATURE.functions, **SIGNATURE.relations}[name]
    return [
        (
            facts.traces[trace],
            tuple(facts.entities[s][i] for s, i in zip(symbol.sorts, args, strict=True)),
            int(time),
            float(value),
        )
        for trace, args, time, value in zip(
            part.trace, part.args, part.time, part.value, strict=True
        )
    ]
