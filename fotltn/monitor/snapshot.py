"""Turn a watch into plain data and back: entities, memory, open cells."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from fotltn.monitor.axiom_watch import AxiomWatch
from fotltn.monitor.conditions import Conditions, PastCondition
from fotltn.monitor.intake import Intake
from fotltn.monitor.obligations import Function, Promise
from fotltn.monitor.open_cells import LeafWatch, OpenCells
from fotltn.monitor.roster import Roster

#: The version of the data; it also increases when formulas are split in another way.
VERSION = 2


def packed(
    roster: Roster, entries: Intake, conditions: Conditions, axioms: Mapping[str, AxiomWatch]
) -> dict[str, Any]:
    """Return the state of a watch between two steps."""
    return {
        "begun": entries.begun,
        "closed": sorted(entries.closed),
        "default": roster.default,
        "came": roster.came,
        "heard": entries.heard,
        "static": {n: [*facts] for n, facts in roster.facts.items() if n not in roster.changing},
        "relations": {name: [*tuples] for name, tuples in roster.relations.items()},
        "fixed": {name: [*table.items()] for name, table in roster.fixed.items()},
        "past": [
            [list(map(hex, one.others)), [[k, *map(hex, m)] for k, m in one.memory.items()]]
            for one in conditions.known.values()
            if isinstance(one, PastCondition)
        ],
        "axioms": {
            name: {
                "violations": axiom.violations,
                "last": axiom.last,
                "recent": [*axiom.recent],
                "told": [*axiom.told],
                "open": [
                    [_cells(leaf, *cells) for cells in leaf.open.items()] for leaf in axiom.all
                ],
            }
            for name, axiom in axioms.items()
        },
    }


def unpack(
    data: Mapping[str, Any],
    roster: Roster,
    entries: Intake,
    conditions: Conditions,
    axioms: Mapping[str, AxiomWatch],
) -> None:
    """Restore the state of another watch into the parts of a new one."""
    entries.begun, entries.closed, entries.heard = data["begun"], set(data["closed"]), data["heard"]
    roster.default, roster.came = data["default"], data["came"]
    for name, facts in data["static"].items():
        for args in facts:
            roster.facts[name][tuple(args)] = -1
            roster.static[name][tuple(args)] = 1.0
    for name, tuples in data["relations"].items():
        roster.relations[name] = {tuple(one): None for one in tuples}
    for name, table in data["fixed"].items():
        roster.fixed[name] = {tuple(args): value for args, value in table}
    past = [one for one in conditions.known.values() if isinstance(one, PastCondition)]
    for one, (others, memory) in zip(past, data["past"], strict=True):
        one.others = _memory(others)
        one.memory = {_key(key): _memory(bits) for key, *bits in memory}
    for name, saved in data["axioms"].items():
        axiom = axioms[name]
        axiom.violations, axiom.last = saved["violations"], saved["last"]
        axiom.recent = deque((step, count) for step, count in saved["recent"])
        axiom.told = {(_key(key), time) for key, time in saved["told"]}
        for leaf, cells in zip(axiom.all, saved["open"], strict=True):
            for key, asof, quiet, waiting in cells:
                known = ((_function(terms), times) for terms, times in waiting)
                leaf.adopt(_key(key), asof, quiet, known)


def _cells(leaf: LeafWatch, key: Any, cells: OpenCells) -> list[Any]:
    waiting = [
        [sorted(sorted(map(list, term)) for term in leaf.function(row)), times]
        for row, times in cells.waiting.items()
    ]
    return [key, cells.asof, cells.quiet, waiting]


def _key(key: Any) -> tuple[Any, ...]:
    return tuple(tuple(place) if isinstance(place, list) else place for place in key)


def _memory(bits: list[str]) -> tuple[int, int, int]:
    first, second, third = (int(one, 16) for one in bits)
    return first, second, third


def _function(terms: list[list[list[int]]]) -> Function:
    return frozenset(frozenset(Promise(*promise) for promise in term) for term in terms)
