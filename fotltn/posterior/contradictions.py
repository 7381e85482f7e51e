"""Find out why no world obeys the hard axioms: which axioms and facts contradict each other.

The search takes axioms binding by binding. It begins with the bindings that a sampled world breaks,
and looks for a change of that world that obeys them. If the change breaks other bindings, the
search adds these. In the end, either a world obeys all axioms, or the added bindings contradict
each other; the search then reduces them to the necessary ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.axes import binding
from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.circuit import FALSE, TRUE, Circuit
from fotltn.analysis.explain.site import FactPlace, Site
from fotltn.errors import Diagnostic, LimitError, listing
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes, predicates_in
from fotltn.logic.text import text_of
from fotltn.posterior.clauses import Clause
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.ground import atom_text, clause_cells, defined, definition_clauses
from fotltn.posterior.impossible import (
    AxiomAtOdds,
    Contradiction,
    FactAtOdds,
    NoWorldError,
    irreducible,
)
from fotltn.posterior.rows import RowTruth, all_rows, at_index
from fotltn.posterior.sampler import Sampler
from fotltn.posterior.solver import Solver
from fotltn.posterior.structure import Structure
from fotltn.semantics.tables import Tables
from fotltn.tree import fold, rebuilt

#: The most bindings that are added at a time, and in all.
_AT_ONCE, _MOST_CELLS = 64, 2_000

#: The most conflicts of one search, and the most facts that it searches.
_EFFORT, _MOST_FACTS = 20_000, 1 << 22


class GroundFact(NamedTuple):
    """A fact of a trace: a predicate, or a formula of given facts, and its place in the table."""

    trace: int
    predicate: str
    place: int


class BoundClause(NamedTuple):
    """A clause, by its number, at a binding and a time point."""

    clause: int
    cell: Cell

    @property
    def order(self) -> tuple[object, ...]:
        """A key that sorts by axiom, then by time."""
        return self.clause, self.cell.trace, self.cell.time, self.cell.numbers


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """The end of a search: a contradiction, or a world; neither if it gave up.

    Args:
        contradiction: axioms and facts that contradict each other.
        world: a world that obeys all axioms: truth values with axes (trace, arguments …, time).
    """

    contradiction: Contradiction | None = None
    world: Mapping[str, Tensor] | None = None


def certain(evidence: LabelEvidence, name: str) -> Tensor:
    """Which labels of a predicate are certain."""
    truth = evidence.labels.truth[name]
    missed, invented = evidence.rates[name]
    if name in evidence.learned:
        return torch.zeros_like(truth, dtype=torch.bool)
    return ((truth == 1) & (invented == 0)) | ((truth == 0) & (missed == 0))


def search(
    plan: Structure, tables: Tables, evidence: LabelEvidence, world: Mapping[str, Tensor]
) -> SearchEnd:
    """Look for a world that obeys all hard axioms and certain labels, or for why there is none.

    Args:
        plan: the free predicates, the definitions and the clauses.
        tables: the given facts.
        evidence: the labels, some of which are certain.
        world: a world to begin with: truth values of all learned predicates, with axes (trace,
            arguments …, time). The search is faster if it breaks little. With too many facts, the
            search gives up.
    """
    if sum(table.numel() for table in world.values()) > _MOST_FACTS:
        return SearchEnd()
    try:
        return _Contradictions(plan, tables, evidence, world).run()
    except LimitError:
        return SearchEnd()


def explained(
    error: NoWorldError, said: Structure, tables: Tables, evidence: LabelEvidence
) -> NoWorldError:
    """Return an error with the place of the contradiction; the same error if none is found."""
    world = {}
    for name in (*said.free, *said.definitions):
        decl = tables.signature.predicates[name]
        sizes = (tables.sizes[sort] for sort in decl.sorts)
        shape = (tables.batch, *sizes, 1 if decl.static else tables.horizon)
        world[name] = torch.zeros(shape, dtype=torch.bool)
    ended = search(said, tables.to(torch.device("cpu")), evidence, world)
    return error if ended.contradiction is None else NoWorldError.because(ended.contradiction)


def refuse(sampler: Sampler, moment: Literal["first", "burnt in", "last"]) -> None:
    """Raise an error if no world can obey the hard axioms.

    Args:
        sampler: the worlds. If each of them breaks a hard axiom, a contradiction is searched for.
        moment: after the first sweep, only axioms of single tracks count, because ties between
            tracks are still weak. After the last sweep, one world that breaks an axiom is an error.

    Raises:
        NoWorldError: there is a contradiction; after the last sweep, also if a world breaks a hard
            axiom.
    """
    plan, evidence = sampler.structure, sampler.evidence
    broken = sampler.broken()
    names = set(sampler.tables)
    if moment == "first":
        alone = [k for k in plan.kinds if not any(map(sampler.row_truth.varies, k.conditions))]
        names = {name for kind in alone for name in kind.moving.names}
        axioms = {axiom for kind in alone for axiom, _ in kind.parts}
        axioms -= {factor.axiom for kind in plan.kinds for factor in kind.factors}
        about = {one.axiom for one in plan.clauses if sampler.row_truth.varies(one.body)}
        broken = {n: count for n, count in broken.items() if n in axioms or n not in about}
    device = sampler.known.lengths.device
    wrong = torch.zeros(sampler.sampling.worlds, dtype=torch.int64, device=device)
    for name, truth in evidence.labels.truth.items():
        sure = certain(evidence, name)
        if bool(sure.any()) and name in names:
            index = evidence.labels.index[name][:, sure].to(device)
            says = truth[sure].to(device) == 1
            wrong += (at_index(sampler.tables[name], *index) != says).sum(1)
    total = sum(broken.values(), wrong)
    best = int(total.argmin())
    exists = ""
    if int(total[best]):
        world = {name: sampler.tables[name][best].cpu() for name in sampler.snapshot()}
        ended = search(plan, sampler.known.to(torch.device("cpu")), evidence, world)
        if ended.contradiction is not None:
            raise NoWorldError.because(ended.contradiction)
        exists = "" if ended.world is None else "there are worlds that do not; "
    disobeyed = [name for name, count in broken.items() if bool(count.any())]
    if moment == "last" and disobeyed:
        number = int(torch.stack([broken[name] > 0 for name in disobeyed]).any(0).sum())
        raise NoWorldError(
            Diagnostic(
                f"{number} of {len(total)} sampled worlds break {listing(disobeyed)}",
                hint=f"{exists}sample with a longer burn-in, or make one of these axioms soft",
            )
        )


class _Contradictions:
    def __init__(
        self, plan: Structure, tables: Tables, evidence: LabelEvidence, world: Mapping[str, Tensor]
    ) -> None:
        self.plan, self.tables = plan, tables
        self.learned = [*plan.free, *plan.definitions]
        self.row_truth = RowTruth(tables, self.learned)
        self.world = {name: world[name].clone().unsqueeze(0) for name in self.learned}
        stated = definition_clauses(plan, tables)
        said = [one for one in plan.clauses if one.weight is None]
        self.clauses = [*said, *stated.values()]
        self.definitions = {name: len(said) + n for n, name in enumerate(stated)}
        self.open = [self.row_truth.instances(one.axes, one.body) for one in said]
        self.sure: dict[GroundFact, bool] = {}
        for name, truth in evidence.labels.truth.items():
            if truth.numel():
                index = evidence.labels.index[name][:, certain(evidence, name)].tolist()
                shape = tuple(world[name].shape[1:])
                for (trace, *rest), value in zip(
                    zip(*index, strict=True), truth[certain(evidence, name)].tolist(), strict=True
                ):
                    place = int(np.ravel_multi_index(rest, shape))
                    self.sure[GroundFact(trace, name, place)] = value == 1
        self.solver = Solver()
        self.facts: dict[GroundFact, int] = {}
        self.selectors: dict[BoundClause, int] = {}
        self.truths: dict[GroundFact, bool] = {}  # of given facts
        self.conditions: dict[str, c.Formula] = {}
        self.values: dict[str, Tensor] = {}
        self.cells: dict[int, Cells] = {}

    def run(self) -> SearchEnd:
        self._follow({})
        while True:
            fresh = list(self._wanted())
            if not fresh:
                return SearchEnd(world={n: t[0] for n, t in self.world.items()})
            if len(self.selectors) + len(fresh) > _MOST_CELLS:
                return SearchEnd()
            for one in fresh:
                self._add(one)
            possible = self.solver.solve(self._assumptions(), _EFFORT)
            if possible is None:
                return SearchEnd()
            if not possible:
                return SearchEnd(self._reduced())
            self._follow({fact: self._modelled(at) for fact, at in self.facts.items()})

    # --- the world ---

    def _follow(self, model: Mapping[GroundFact, bool]) -> None:
        """Take over free facts from certain labels and the model; compute defined ones."""
        for facts in (self.sure, model):
            for fact, value in facts.items():
                if fact.predicate in self.plan.free:
                    self.world[fact.predicate][0, fact.trace].view(-1)[fact.place] = value
        for name, definition in self.plan.definitions.items():
            self.world[name] = defined(definition, self.row_truth, self.world)

    def _wanted(self) -> Iterator[BoundClause]:
        """The bindings of axioms and definitions that the world breaks."""
        count = 0
        for number, rows in enumerate(self.open):
            clause = self.clauses[number]
            truth = self.row_truth.truth(clause.body, rows, self.world)
            truth = truth.expand(1, len(rows), self.tables.horizon)[0]
            broken = (~truth & self.tables.inside[rows.trace]).nonzero().tolist()
            for row, time in broken:
                numbers = tuple(int(rows.places[a][row]) for a in clause.axes)
                one = BoundClause(number, Cell(int(rows.trace[row]), numbers, time))
                if one not in self.selectors:
                    count += 1
                    yield one
                if count >= _AT_ONCE:
                    return
        modelled = {fact: self._modelled(at) for fact, at in self.facts.items()}
        for fact, value in {**self.sure, **modelled}.items():
            if fact.predicate not in self.definitions or self._is(fact) == value:
                continue
            shape = tuple(self.world[fact.predicate].shape[2:])
            *entities, time = map(int, np.unravel_index(fact.place, shape))
            number = self.definitions[fact.predicate]
            one = BoundClause(number, Cell(fact.trace, tuple(entities), time))
            if one not in self.selectors:
                count += 1
                yield one
            if count >= _AT_ONCE:
                return

    def _is(self, fact: GroundFact) -> bool:
        return bool(self.world[fact.predicate][0, fact.trace].reshape(-1)[fact.place])

    # --- clauses of literals ---

    def _add(self, one: BoundClause) -> None:
        """Add a binding to the search."""
        if one.clause not in self.cells:
            self.cells[one.clause] = self._over_conditions(self.clauses[one.clause])
        gates = Circuit(Site(self.cells[one.clause], one.cell))
        selector = self.solver.variable(True)
        self.selectors[one] = selector
        literals: dict[int, int] = {}
        for number, gate in enumerate(gates.gates):
            if number in (FALSE, TRUE):
                continue
            if gate.fact >= 0:
                at = self._fact(gates.facts[gate.fact], gates.truths[gate.fact], one.cell.trace)
                literals[number] = at if gate.sign else at ^ 1
                continue
            literals[number] = mine = self.solver.variable(False)
            inputs = [literals[i] for i in gate.inputs]
            if gate.all:
                for literal in inputs:
                    self.solver.add([mine ^ 1, literal])
            else:
                self.solver.add([mine ^ 1, *inputs])
        if gates.root != TRUE:
            root = [] if gates.root == FALSE else [literals[gates.root]]
            self.solver.add([selector ^ 1, *root])

    def _fact(self, fact: FactPlace, truth: bool, trace: int) -> int:
        key = GroundFact(trace, fact.predicate, fact.place)
        if key not in self.facts:
            if key.predicate in self.world:
                truth = self._is(key)
            else:
                self.truths[key] = truth
            self.facts[key] = self.solver.variable(truth)
        return self.facts[key]

    def _assumptions(self) -> list[int]:
        """Labels, bindings and given facts as literals; the last are left out first."""
        labels = [at ^ (not self.sure[f]) for f, at in self.facts.items() if f in self.sure]
        stated = [at ^ (not self.truths[f]) for f, at in self.facts.items() if f in self.truths]
        return [*labels, *self.selectors.values(), *stated]

    def _modelled(self, literal: int) -> bool:
        number = literal >> 1
        return number < len(self.solver.model) and self.solver.model[number]

    # --- given facts ---

    def _over_conditions(self, clause: Clause) -> Cells:
        """The cells of a clause, with quantified formulas of given facts replaced by atoms."""
        learned = set(self.learned)

        def visit(node: c.Core, below: list[c.Core]) -> c.Core:
            if isinstance(node, c.Quantifier) and not predicates_in(node) & learned:
                return self._condition(node) if predicates_in(node) else node
            return rebuilt(node, below)

        body = fold(clause.body, visit)
        assert isinstance(body, c.Formula)
        kind = self.tables.dtype
        some = {n: t[0].to(kind) for n, t in self.world.items()}
        tables = {**self.tables.predicates, **some, **self.values}
        return clause_cells(clause, body, replace(self.tables, predicates=tables))

    def _condition(self, node: c.Quantifier) -> c.Atom:
        """The atom that replaces a formula of given facts."""
        name = next((n for n, known in self.conditions.items() if known == node), None)
        axes = sorted(free_axes(node), key=lambda axis: axis.name)
        if name is None:
            name = f"·{len(self.conditions)}"
            rows = all_rows(self.tables, axes)
            truth = self.row_truth.truth(node, rows, {})
            truth = truth.expand(1, len(rows), self.tables.horizon)
            sizes = [self.tables.full_size(axis) for axis in axes]
            shape = (self.tables.batch, *sizes, self.tables.horizon)
            self.conditions[name] = node
            self.values[name] = truth.reshape(shape).to(self.tables.dtype)
        return c.Atom(name, tuple(c.Variable(axis, axis.sort or "") for axis in axes))

    # --- the contradiction ---

    def _reduced(self) -> Contradiction:
        """Reduce the assumptions that failed to a contradiction."""
        order = {literal: place for place, literal in enumerate(self._assumptions())}
        core = sorted(self.solver.core, key=order.__getitem__)
        needed = set(irreducible(core, lambda some: self.solver.solve(some, _EFFORT) is False))
        names = self.tables.names
        axioms = [
            AxiomAtOdds(
                self.clauses[one.clause].axiom,
                binding(
                    self.clauses[one.clause].axes, one.cell.numbers, one.cell.trace, self.tables
                ),
                names.trace(one.cell.trace),
                one.cell.time,
            )
            for one, literal in sorted(self.selectors.items(), key=lambda item: item[0].order)
            if literal in needed
        ]
        facts = {fact: at for fact, at in self.facts.items() if {at, at ^ 1} & needed}
        labels, facts_given = (
            tuple(sorted((self._told(f, known[f]) for f in facts if f in known), key=_order))
            for known in (self.sure, self.truths)
        )
        return Contradiction(tuple(axioms), labels, facts_given, self.tables.batch > 1)

    def _told(self, fact: GroundFact, truth: bool) -> FactAtOdds:
        trace = self.tables.names.trace(fact.trace)
        if fact.predicate in self.conditions:
            formula = self.conditions[fact.predicate]
            axes = sorted(free_axes(formula), key=lambda axis: axis.name)
            shape = tuple(self.values[fact.predicate].shape[1:])
            *numbers, time = map(int, np.unravel_index(fact.place, shape))
            bound = binding(axes, numbers, fact.trace, self.tables)
            return FactAtOdds(f"({text_of(formula)})", None, trace, time, truth, bound)
        known = fact.predicate in self.world
        table = self.world[fact.predicate][0] if known else self.tables.table(fact.predicate)
        shape = tuple(table.shape[1:])
        *numbers, time = map(int, np.unravel_index(fact.place, shape))
        text = atom_text(self.tables, fact.predicate, fact.trace, numbers)
        when = time if shape[-1] > 1 else None
        return FactAtOdds(text, fact.predicate if known else None, trace, when, truth)


def _order(fact: FactAtOdds) -> tuple[object, ...]:
    return -1 if fact.time is None else fact.time, fact.text
