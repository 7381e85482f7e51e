"""Facts without a label: bounds on a formula over all ways to label them.

A fact of a learned predicate that has no label may be true or false. Each formula has two bounds
over all ways to label these facts, and they are formulas again. A cell is unlabelled if such facts
could make it true, and could make it false.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from fotltn.decisions import rounded
from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Decisions, Tables
from fotltn.tree import Node, children, postorder, rebuilt

_MAYBE = " (or unlabelled)"  # no predicate's name has a blank


class LabelBounds(NamedTuple):
    """Whether a formula is true for all ways to label facts, and for some way."""

    low: c.Formula
    high: c.Formula

    @property
    def between(self) -> c.Formula:
        """Whether facts without a label could make the formula true, and could make it false."""
        return c.And(self.high, c.Not(self.low))


def opened(tables: Tables) -> Tables:
    """The tables, with one more for each predicate that has facts without a label.

    In the predicate's own table these facts are false, in the other one they are true. `labelled`
    makes formulas of both. A predicate that is defined by such predicates has two tables as well.
    """
    if not tables.possible:
        return tables

    def made() -> Tables:
        how = tables.decisions or Decisions()
        predicates: dict[str, Tensor | SparseTable] = dict(tables.predicates)
        predicates |= {name + _MAYBE: table for name, table in tables.possible.items()}
        limits = {n + _MAYBE: how.thresholds[n] for n in tables.possible if n in how.thresholds}
        definitions, both = {}, set(tables.possible)
        for name, checked in how.definitions.items():
            low, high = labelled(checked.formula, both)
            definitions[name] = replace(checked, formula=low)
            if low != high:
                definitions[name + _MAYBE] = replace(checked, formula=high)
                predicates[name + _MAYBE] = predicates[name]
                both.add(name)
        decisions = replace(how, thresholds={**how.thresholds, **limits}, definitions=definitions)
        every = replace(tables, predicates=predicates, possible={}, decisions=decisions)
        if both > set(tables.possible):  # defined predicates are true or false
            truth = rounded(every).predicates
            every = replace(
                every,
                predicates={n: truth[n] if n in definitions else t for n, t in predicates.items()},
            )
        return every

    return tables.derived("opened", made)


def without_label(formula: c.Formula, tables: Tables) -> frozenset[str]:
    """Return the predicates of a formula that have facts without a label, in tables of `opened`."""
    return frozenset(n for n in predicates_in(formula) if n + _MAYBE in tables.predicates)


def tables_of(formula: c.Formula, tables: Tables) -> frozenset[str]:
    """The names of all tables that a formula and its bounds use."""
    maybe = {n + _MAYBE for n in without_label(formula, tables)}
    return frozenset({*predicates_in(formula), *maybe})


def labelled(formula: c.Formula, predicates: Collection[str]) -> LabelBounds:
    """Return formulas: true for all ways to label facts, and true for some way.

    Args:
        formula: a formula over the tables of `opened`; the bounds are over these, too.
        predicates: the predicates that have facts without a label.
    """
    bounds: dict[Node, LabelBounds] = {}
    for node in postorder(formula):
        if not isinstance(node, c.Formula):
            continue
        if isinstance(node, c.Atom) and node.predicate in predicates:
            bounds[node] = LabelBounds(node, replace(node, predicate=node.predicate + _MAYBE))
            continue
        lows, highs = [], []
        for number, child in enumerate(children(node)):
            bound = bounds.get(child)
            low, high = (child, child) if bound is None else bound
            turned = _turned(node, number)
            lows.append(high if turned else low)
            highs.append(low if turned else high)
        bounds[node] = LabelBounds(rebuilt(node, lows), rebuilt(node, highs))
    return bounds[formula]


def _turned(node: c.Formula, number: int) -> bool:
    """Return whether a formula falls if its operand with this number rises."""
    if isinstance(node, c.Quantifier):
        return node.universal and children(node)[number] is node.guard
    return isinstance(node, c.Not) or (isinstance(node, c.Implies) and number == 0)
