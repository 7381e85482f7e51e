"""What the flip of any single fact would change: by one backward pass where facts occur once.

With `a & b` as a·b, `a | b` as a + b − a·b, and ∀, ∃, G and F as folds of these, a formula is a
polynomial in its facts, which is 0 or 1 in every world. A fact that occurs once in the grounding of
a formula has degree 1 there. So the slope in that fact is what a flip changes, exactly, and one
backward pass of the engine gives the slopes in all facts. A fact that occurs several times has
powers, in which x·x would have to be x; there the formula is evaluated as it is, and flipped.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

import torch
from torch import Tensor

from fotltn.evaluation import Evaluator, present
from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in
from fotltn.posterior.clauses import is_node, written_in
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.problem import repeated
from fotltn.posterior.rows import atoms_of
from fotltn.posterior.structure import Structure
from fotltn.semantics.config import CRISP, PRODUCT
from fotltn.semantics.tables import Tables, Value
from fotltn.tree import transform

#: Truth values that are looked at at once, where facts are flipped one after the other.
_AT_ONCE = 1 << 23


class Effects(NamedTuple):
    """What flips change, by predicate, with the axes of its table: (world, trace, …, time).

    Args:
        gain: the logarithm of how likely worlds are, by labels, networks and soft axioms.
        broken: at how many bindings and points hard axioms are broken.
    """

    gain: dict[str, Tensor]
    broken: dict[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Saying:
    """A formula whose truth is worth something at each of its cells.

    Args:
        axiom: the axiom that says so, or the predicate whose labels it is about.
        hard: whether it is a hard axiom.
        axes: its variables.
        formula: over what is free and what is given.
        worth: what its truth is worth at a cell, with axes (trace, variables …, time), or at any;
            of a soft axiom, times its weight.
        several: the predicates whose facts may occur several times in a grounding.
    """

    axiom: str
    hard: bool
    axes: tuple[c.Axis, ...]
    formula: c.Formula
    worth: Tensor | float
    several: frozenset[str]


class FlipEffects:
    """Finds what flips of some predicates change, in many worlds at once.

    Attributes:
        names: these predicates.
        sayings: what is said of them.
    """

    def __init__(
        self, structure: Structure, tables: Tables, evidence: LabelEvidence, names: Collection[str]
    ) -> None:
        """Write out what is defined, and find out which facts occur once.

        Args:
            structure: what is said of worlds.
            tables: what is given.
            evidence: labels, and what networks say.
            names: the free predicates whose facts are flipped.
        """
        self.structure, self.tables, self.evidence = structure, tables, evidence
        self.names = tuple(names)
        self.sayings = [*self._of_clauses(), *self._of_labels()]
        self._groups: dict[tuple[bool, frozenset[str]], list[Saying]] = {}
        for saying in self.sayings:
            if predicates_in(saying.formula) & {*self.names} - saying.several:
                self._groups.setdefault((saying.hard, saying.several), []).append(saying)
        self._degrees = {
            key: Evaluator({str(n): one.formula for n, one in enumerate(group)}, PRODUCT, None)
            for key, group in self._groups.items()
        }
        self._laid: dict[int, Tables] = {}

    def _of_clauses(self) -> Iterator[Saying]:
        for clause in self.structure.clauses:
            hard = clause.weight is None
            worth = 1.0 if hard else float(clause.cells)
            yield from self._saying(clause.axiom, hard, clause.axes, clause.body, worth)

    def _of_labels(self) -> Iterator[Saying]:
        """Labels of what is defined: evidence of what its formula says."""
        for name, definition in self.structure.definitions.items():
            odds = self.evidence.odds(name, self._shape(name), self.tables.lengths.device)
            if self.tables.signature.predicates[name].static:  # it is what is true at first
                odds = torch.nn.functional.pad(odds, (0, self.tables.horizon - 1))
            if bool(odds.any()):
                yield from self._saying(name, False, definition.axes, definition.formula, odds)

    def _shape(self, name: str) -> tuple[int, ...]:
        decl = self.tables.signature.predicates[name]
        sizes = (self.tables.sizes[sort] for sort in decl.sorts)
        return (self.tables.batch, *sizes, 1 if decl.static else self.tables.horizon)

    def _saying(
        self, axiom: str, hard: bool, axes: tuple[c.Axis, ...], body: c.Formula,
        worth: Tensor | float,
    ) -> Iterator[Saying]:  # fmt: skip
        declared = self.tables.signature.predicates
        formula = body
        for name, definition in reversed([*self.structure.definitions.items()]):
            formula = written_in(formula, {name: definition}, lambda n: declared[n].static)
        used = predicates_in(formula) & {*self.names}
        if used:
            several = {n for n in used if not occurs_once(formula, n, static=declared[n].static)}
            formula = transform(formula, _folded)
            yield Saying(axiom, hard, axes, formula, worth, frozenset(several))

    def __call__(self, worlds: Mapping[str, Tensor], weights: Mapping[str, float]) -> Effects:
        """What flips change.

        Args:
            worlds: truth values of all that is free, with axes (world, trace, arguments …, time).
            weights: those of soft axioms.
        """
        free = {name: worlds[name] for name in self.structure.free}
        gain, broken = (self._by_slopes(free, weights, hard=hard) for hard in (False, True))
        for saying in self.sayings:
            for name in saying.several:
                changed = self._by_flips(saying, name, free)
                if saying.hard:
                    broken[name] += changed
                else:
                    gain[name] += weights.get(saying.axiom, 1.0) * changed
        for name in self.names:
            odds = self.evidence.odds(name, free[name].shape[1:], free[name].device)
            gain[name] += torch.where(free[name], -odds, odds)
        return Effects(gain, {name: -changed for name, changed in broken.items()})

    def _with(self, learned: Mapping[str, Tensor], number: int) -> Tables:
        """What is given, as often as there are worlds, with tables (world and trace, …)."""
        if number not in self._laid:
            exact = {
                n: t.double() if isinstance(t, Tensor) else replace(t, value=t.value.double())
                for n, t in self.tables.predicates.items()
            }
            read = replace(self.tables, predicates=exact, features={}, inputs={}, present={})
            self._laid[number] = repeated(read, number)
        every = self._laid[number]
        return replace(every, predicates={**every.predicates, **learned})

    def _worths(self, saying: Saying, value: Value, every: Tables) -> Tensor:
        """What the truth of a saying is worth, with axes (world, trace, variables …, time)."""
        truth = present(value, saying.axes, every, at="all", batched=True)
        inside = every.inside.reshape(every.batch, *[1] * len(saying.axes), every.horizon)
        truth = torch.where(inside, truth.double(), 0.0)
        apart: Tensor = truth.unflatten(0, (-1, self.tables.batch))
        return apart * saying.worth

    # --- facts that occur once ---

    def _by_slopes(
        self, free: Mapping[str, Tensor], weights: Mapping[str, float], *, hard: bool
    ) -> dict[str, Tensor]:
        """What flips change of what is hard, or not, by one pass back from all that is said."""
        number = len(next(iter(free.values())))
        learned = {n: t.flatten(0, 1).double() for n, t in free.items()}
        leaves = [learned[n].requires_grad_() for n in self.names]
        total = torch.zeros((), dtype=torch.float64, device=self.tables.lengths.device)
        for (of_hard, several), group in self._groups.items():
            if of_hard is not hard:
                continue
            fixed = {n: t.detach() if n in several else t for n, t in learned.items()}
            every = self._with(fixed, number)
            values = self._degrees[hard, several](every)
            for saying, value in zip(group, values.values(), strict=True):
                weight = 1.0 if hard else weights.get(saying.axiom, 1.0)
                total = total + weight * self._worths(saying, value, every).sum()
        slopes = [torch.zeros_like(leaf) for leaf in leaves]
        if total.requires_grad:
            passed = torch.autograd.grad(total, leaves, allow_unused=True)
            slopes = [z if s is None else s for s, z in zip(passed, slopes, strict=True)]
        return {
            name: torch.where(free[name], -1.0, 1.0) * slope.unflatten(0, (number, -1))
            for name, slope in zip(self.names, slopes, strict=True)
        }

    # --- facts that occur several times ---

    def _by_flips(self, saying: Saying, name: str, free: Mapping[str, Tensor]) -> Tensor:
        """What flips change of one saying, which is evaluated with each.

        Facts of tuples that no cell has together are flipped at once.
        """
        table = free[name]
        alone = arguments(saying, name)
        sizes = table.shape[2:-1] if alone is None else ()
        flips = math.prod(sizes) * table.shape[-1]
        before = self._summed(saying, free, alone)
        cells = math.prod(self.tables.full_size(axis) for axis in saying.axes)
        cells *= self.tables.horizon * table.shape[0] * table.shape[1]
        at_once = max(1, _AT_ONCE // max(1, cells))
        parts = []
        for start in range(0, flips, at_once):
            some = torch.arange(start, min(start + at_once, flips), device=table.device)
            turned = torch.zeros(len(some), flips, dtype=torch.bool, device=table.device)
            turned[torch.arange(len(some)), some] = True
            turned = turned.unflatten(1, (1, *sizes, table.shape[-1]))
            if alone is not None:
                turned = turned.reshape(len(some), 1, *[1] * (table.dim() - 3), -1)
            every = {n: t.unsqueeze(1).expand(-1, len(some), *t.shape[1:]) for n, t in free.items()}
            every[name] = every[name] ^ turned
            flat = {n: t.flatten(0, 1) for n, t in every.items()}
            after = self._summed(saying, flat, alone).unflatten(0, (-1, len(some)))
            parts.append(after - before.unsqueeze(1))
        changed = torch.cat(parts, 1)  # world, flip, trace, arguments that flip at once …
        if alone is not None:
            return changed.movedim(1, -1)
        by_place: Tensor = changed.movedim(1, 2).unflatten(2, (*sizes, table.shape[-1]))
        return by_place

    def _summed(
        self, saying: Saying, free: Mapping[str, Tensor], alone: tuple[c.Axis, ...] | None
    ) -> Tensor:
        """What the truth of a saying is worth, with axes (world, trace, some variables …)."""
        learned = {n: t.flatten(0, 1).double() for n, t in free.items()}
        every = self._with(learned, len(next(iter(free.values()))))
        (value,) = Evaluator({"": saying.formula}, CRISP, None)(every, None).values()
        worth = self._worths(saying, value, every).sum(-1)
        if alone is None:
            return worth.flatten(2).sum(-1) if saying.axes else worth
        others = [2 + n for n, axis in enumerate(saying.axes) if axis not in alone]
        worth = worth.sum(others, keepdim=False) if others else worth
        left = [axis for axis in saying.axes if axis in alone]
        return worth.permute(0, 1, *(2 + left.index(axis) for axis in alone))


def _folded(node: c.Core) -> c.Core:
    """F and G in place of the untils that say the same."""
    if isinstance(node, c.Until) and node.left == c.Truth(not node.dual):
        return c.Aggregate(node.dual, node.right, node.window, node.past)
    return node


def occurs_once(formula: c.Formula, name: str, *, static: bool) -> bool:
    """Whether each fact of a predicate occurs once at most in a formula's grounding at a cell.

    Args:
        formula: in normal form.
        name: the predicate.
        static: whether its facts hold at all times.
    """
    waiting: list[tuple[c.Formula, frozenset[c.Axis], bool]] = [(formula, frozenset(), False)]
    atoms = 0
    while waiting:
        node, bound, timed = waiting.pop()
        if name not in predicates_in(node):
            continue
        match is_node(node):
            case c.Atom(_, args):
                atoms += 1
                told = {a.axis for a in args if isinstance(a, c.Variable) and a.column is None}
                if atoms > 1 or not bound <= told or (static and timed):
                    return False
            case c.Not(arg) | c.Shift(arg):
                waiting.append((arg, bound, timed))
            case c.And(left, right) | c.Or(left, right):
                waiting += [(left, bound, timed), (right, bound, timed)]
            case c.Quantifier(_, axes, _, body):
                waiting.append((body, bound | {*axes}, timed))
            case c.Until(_, left, right):
                if timed or name in predicates_in(left):
                    return False
                waiting.append((right, bound, True))
            case c.Truth() | c.Edge() | c.Equal() | c.Compare() | c.Implies() | c.Aggregate():
                raise AssertionError(node)
            case never:
                assert_never(never)
    return True


def arguments(saying: Saying, name: str) -> tuple[c.Axis, ...] | None:
    """The variables that all atoms of a predicate have as arguments, each once; None if none do.

    Then a cell has facts of one tuple of entities alone.
    """
    tuples = {atom.args for atom in atoms_of(saying.formula, frozenset([name]))}
    if len(tuples) != 1:
        return None
    (args,) = tuples
    axes = tuple(a.axis for a in args if isinstance(a, c.Variable) and a.column is None)
    free = len(axes) == len(args) == len({*axes}) and {*axes} <= {*saying.axes}
    return axes if free else None
