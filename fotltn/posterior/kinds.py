"""Kinds of tracks: bits that move together, their automata, and their ties to other tracks.

A track is everything learned about one tuple of arguments, over all time points. Axioms and
definitions about a single track become automata; other axioms become factors between tracks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from fotltn.errors import Diagnostic, LimitError, listing
from fotltn.logic import core as c
from fotltn.logic.defined import Definition
from fotltn.logic.nnf import FALSE, nnf
from fotltn.logic.parts import free_axes
from fotltn.logic.quantifiers import pulled_out, pushed_in
from fotltn.monitor.compile import letter
from fotltn.posterior.automata import MinimalAutomaton, machine, over_letters
from fotltn.posterior.clauses import (
    Clause,
    atom_of,
    counted,
    number_of,
    numbered,
    replaced_in,
    settled,
    spelled_out,
    stated,
    with_place,
    written_in,
)
from fotltn.posterior.impossible import NoWorldError, irreducible
from fotltn.posterior.patterns import Bit, Moving, Sight, Slot, reach
from fotltn.posterior.points import sees_a_point
from fotltn.posterior.product import Part, Shape, laws_of, product
from fotltn.posterior.rows import atoms_of
from fotltn.posterior.track_kind import Factor, TrackKind
from fotltn.semantics.tables import Tables
from fotltn.tree import children, postorder, transform

#: The most patterns of a window.
MOST_PATTERNS = 256

#: The most entities that replace a quantifier, if that is not necessary.
_MOST_NAMED = 4


@dataclass(slots=True)
class KindCompiler:
    """Makes kinds of tracks.

    Args:
        tables: the given facts.
        clauses: the clauses of axioms that are not definitions.
        definitions: the definitions, each after those that it uses.
        labelled: the predicates that have labels.
        seen: computes the joint values, as bits, that conditions over some axes can have.
        learned: the predicates that are not given.
    """

    tables: Tables
    clauses: Sequence[Clause]
    definitions: Mapping[str, Definition]
    labelled: Collection[str]
    seen: Callable[[Sequence[c.Formula], tuple[c.Axis, ...]], tuple[int, ...]]
    learned: Collection[str]
    _machines: dict[tuple[c.Formula, int], MinimalAutomaton] = field(default_factory=dict)

    def kind(
        self, sorts: tuple[str, ...], free: Sequence[Bit], below: Sequence[Factor] = ()
    ) -> TrackKind:
        """Make the kind of tracks with some free bits, and with the priors of tracks below.

        Raises:
            LimitError: there are too many states.
        """
        compilation = _Compilation(self, sorts, free, below)
        try:
            return compilation.run()
        except LimitError:
            if not compilation.rewritten:
                raise
        return _Compilation(self, sorts, free, below, rewrite=False).run()

    def machine(self, name: str, formula: c.Formula, letters: int) -> MinimalAutomaton:
        """Return the automaton of a formula of an axiom; it is made once."""
        key = (formula, letters)
        if key not in self._machines:
            self._machines[key] = machine(name, formula, letters)
        return self._machines[key]

    def is_static(self, name: str) -> bool:
        """Whether a predicate is static."""
        return self.tables.signature.predicates[name].static


class _Compilation:
    def __init__(
        self, theory: KindCompiler, sorts: tuple[str, ...], free: Sequence[Bit],
        below: Sequence[Factor], *, rewrite: bool = True,
    ) -> None:  # fmt: skip
        self.theory, self.sorts, self.below = theory, sorts, below
        names = dict.fromkeys(bit.predicate for bit in free)
        self.name = f"{'x'.join(sorts)}({','.join(names)})"
        self.rewrite, self.rewritten = rewrite, False
        self.axes = tuple(c.Axis(f"·{n}", sort) for n, sort in enumerate(sorts))
        self.free = len(free)
        self.moving = Moving(free, sorts)
        self.helping: dict[str, c.Formula] = {}
        self.soft: dict[int, dict[str, float]] = {}
        self.pointwise: list[tuple[str, c.Formula, float]] = []
        self.conditions: dict[c.Formula, int] = {}
        self.local: list[tuple[str, c.Formula]] = []
        self.factors: list[Factor] = []

    def run(self) -> TrackKind:
        expanded = self._definitions()
        for clause in self.theory.clauses:
            body = self._written(clause.body, expanded)
            if self.moving.inside(body):
                for axes, part in self._grounded(clause.axes, body):
                    if self.moving.inside(part):
                        part_of = replace(clause, axes=axes, body=part)
                        self._clause(counted(part_of, self.theory.tables))
        self.factors = [self._within_window(factor) for factor in self.factors]
        self.factors += [self._told_below(factor, expanded) for factor in self.below]
        bits = len(self.moving.bits)
        parts = [(name, self._part(name, formula, bits)) for name, formula in self.local]
        return self._product(parts)

    # --- definitions ---

    def _definitions(self) -> dict[str, Definition]:
        """Add bits for definitions within one track; return the definitions to write out."""
        expanded: dict[str, Definition] = {}
        for name, definition in self.theory.definitions.items():
            static = self.theory.is_static(name)
            formula = self._written(nnf(definition.formula), expanded)
            if not self.moving.inside(formula):
                continue
            definition = replace(definition, formula=formula)
            if self._as_bit(definition, static):
                continue
            expanded[name] = definition
            if name in self.theory.labelled:
                atom = atom_of(name, definition.axes)
                for axes, said in self._grounded(definition.axes, c.And(atom, formula)):
                    assert isinstance(said, c.And)
                    assert isinstance(said.left, c.Atom)
                    self.factors.append(Factor(name, axes, said.right, None, said.left, None))
        return expanded

    def _written(self, formula: c.Formula, expanded: Mapping[str, Definition]) -> c.Formula:
        """Write definitions out, and replace names of entities by numbers."""
        plain = written_in(formula, expanded, self.theory.is_static)
        return numbered(plain, self.moving.names, self.theory.tables)

    def _as_bit(self, definition: Definition, static: bool) -> bool:
        terms = self._terms(definition.formula)
        if terms is None or set(terms) != set(definition.axes):
            return False
        where = {axis: place for place, axis in enumerate(terms)}
        slots = tuple(Slot(where[axis]) for axis in definition.axes)
        bit = Bit(definition.name, slots, self._sorts(slots), static)
        trial = Moving((*self.moving.bits, bit), self.sorts)
        clause = stated(definition, static)
        before, self.moving = self.moving, trial
        local = self._localised(clause.axes, clause.body)
        if local is None:
            self.moving = before
            return False
        self.local.append((listing(definition.axioms or (definition.name,)), local))
        return True

    # --- clauses ---

    def _clause(self, clause: Clause) -> None:
        local = self._localised(clause.axes, clause.body)
        terms = self._terms(clause.body)
        if local is not None and clause.cost is not None:
            if terms is not None and set(terms) == set(clause.axes):
                if sees_a_point(local, self.moving, self.free, self.theory.learned):
                    self.pointwise.append((clause.axiom, local, clause.cost))
                    return
                bit = self._helped(local)
                costs = self.soft.setdefault(bit, {})
                costs[clause.axiom] = costs.get(clause.axiom, 0.0) + clause.cost
                return
            local = None
        if local is not None:
            self.local.append((clause.axiom, local))
            return
        self.factors.append(Factor(clause.axiom, clause.axes, clause.body, clause.cost, None, None))

    def _grounded(
        self, axes: tuple[c.Axis, ...], body: c.Formula
    ) -> list[tuple[tuple[c.Axis, ...], c.Formula]]:
        """Put entities into a clause where the arguments of bits are entities."""
        fixed = {
            (bit.predicate, place)
            for bit in self.moving.bits
            for place, slot in enumerate(bit.slots)
            if slot.position is None
        }
        if not fixed:
            return [(axes, body)]

        tables = self.theory.tables
        wanted = {
            term.axis
            for node in postorder(body)
            if isinstance(node, c.Atom)
            for place, term in enumerate(node.args)
            if (node.predicate, place) in fixed and isinstance(term, c.Variable)
        }

        def named(axis: c.Axis, inner: c.Formula) -> bool:
            """Whether entities must, or can, replace the variable of an axis."""
            return axis in wanted or self._can_name(axis, inner)

        body = spelled_out(body, named, tables)
        results = [(axes, body)]
        for axis in axes:
            if axis in wanted:
                results = [
                    (tuple(a for a in names if a != axis), with_place(part, axis, place, tables))
                    for names, part in results
                    for place in range(tables.full_size(axis))
                ]
        return [(names, settled(part)) for names, part in results]

    def _terms(self, body: c.Formula) -> tuple[c.Axis, ...] | None:
        """The variables of the track, if a formula is about a single track; otherwise None."""
        tuples = set()
        for node in postorder(body):
            if isinstance(node, c.Atom) and node.predicate in self.moving.names:
                hit = self.moving.bit(node)
                if hit is None:
                    return None
                if not all(isinstance(t, c.Variable) and t.column is None for t in hit[1]):
                    return None
                tuples.add(tuple(t.axis for t in hit[1] if isinstance(t, c.Variable)))
        if len(tuples) != 1:
            return None
        (axes,) = tuples
        return axes if len(set(axes)) == len(axes) else None

    def _localised(self, axes: tuple[c.Axis, ...], body: c.Formula) -> c.Formula | None:
        """A clause about a single track, over the axes of the kind; None if it is about more."""
        terms = self._terms(body)
        if terms is None or not set(terms) <= set(axes) | free_axes(body):
            return None
        others = tuple(a for a in axes if a not in terms)
        inner = transform(pushed_in(others, body, self._is_bit), self._inwards)
        if self._quantified(inner):
            inner = settled(spelled_out(inner, self._can_name, self.theory.tables))
        if self._quantified(inner) or not free_axes(inner) <= set(terms):
            return None
        return self._renamed(inner, terms)

    def _quantified(self, formula: c.Formula) -> bool:
        """Whether bits stand beneath a quantifier."""
        nodes = postorder(formula)
        return any(isinstance(node, c.Quantifier) and self.moving.inside(node) for node in nodes)

    def _can_name(self, axis: c.Axis, inner: c.Formula) -> bool:
        """Whether the entities of an axis are few, and one track has every bit of a trace."""
        few = not self.sorts and self.theory.tables.full_size(axis) <= _MOST_NAMED
        return few and self.moving.inside(inner)

    def _is_bit(self, node: c.Core) -> bool:
        return isinstance(node, c.Atom) and node.predicate in self.moving.names

    def _inwards(self, node: c.Core) -> c.Core:
        if not isinstance(node, c.Quantifier) or not self.moving.inside(node):
            return node
        if node.universal:
            return pushed_in(node.axes, node.body, self._is_bit)
        return nnf(c.Not(pushed_in(node.axes, nnf(c.Not(node.body)), self._is_bit)))

    def _renamed(self, formula: c.Formula, terms: tuple[c.Axis, ...]) -> c.Formula:
        new = dict(zip(terms, self.axes, strict=True))

        def rule(node: c.Core) -> c.Core:
            if isinstance(node, c.Variable) and node.axis in new:
                return c.Variable(new[node.axis], node.sort, node.column)
            return node

        return transform(formula, rule)

    def _helped(self, formula: c.Formula) -> int:
        """The bit that has the truth of a formula about one track, over the axes of the kind."""
        for name, known in self.helping.items():
            if known == formula:
                return next(n for n, b in enumerate(self.moving.bits) if b.predicate == name)
        name = f"{self.name}·{len(self.helping)}"
        slots = tuple(Slot(n) for n in range(len(self.axes)))
        self.helping[name] = formula
        bit = Bit(name, slots, self.sorts, static=False)
        self.moving = Moving((*self.moving.bits, bit), self.sorts)
        atom = atom_of(name, self.axes)
        says = nnf(c.And(c.Implies(atom, formula), c.Implies(formula, atom)))
        self.local.append((name, says))
        return len(self.moving.bits) - 1

    def _sorts(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        return tuple(self.sorts[slot.position or 0] for slot in slots)

    # --- factors ---

    def _within_window(self, factor: Factor) -> Factor:
        """Find a form of a factor that a window holds, if there is one.

        `O exists x. P(x)` has none if it sees too many time points; `exists x. O P(x)` has one.
        """
        before = self.moving, {**self.helping}, [*self.local]
        plain = self._with_span(self._lifted(factor))
        if plain.span is not None or not self.rewrite:
            return plain
        after = self.moving, self.helping, self.local
        self.moving, self.helping, self.local = before  # without helping bits of the plain form
        atoms = atoms_of(factor.formula, self.moving.names)
        axes = {term.axis for atom in atoms for term in atom.args if isinstance(term, c.Variable)}
        outwards = replace(factor, formula=pulled_out(factor.formula, axes))
        rewritten = self._with_span(self._lifted(outwards))
        if rewritten.span is None:
            self.moving, self.helping, self.local = after
            return plain
        self.rewritten = True
        return rewritten

    def _told_below(self, factor: Factor, expanded: Mapping[str, Definition]) -> Factor:
        """The prior of tracks below, in forms of its formulas that a window holds, if possible."""
        below = factor.below
        assert below is not None
        written = [self._written(formula, expanded) for formula in below.formulas]
        if below.now:
            alone = (replace(factor, formula=formula, below=None) for formula in written)
            written = [self._within_window(one).formula for one in alone]
        told = replace(below, formulas=tuple(written))
        both = replace(factor, formula=reduce(c.And, written), below=told)
        return self._with_span(both) if below.now else both

    def _lifted(self, factor: Factor) -> Factor:
        """Replace temporal formulas about one track in a factor by helping bits."""
        replaced: dict[c.Core, c.Formula] = {}
        stack: list[c.Core] = [factor.formula]
        while stack:
            node = stack.pop()
            if not isinstance(node, c.Formula) or not self.moving.inside(node):
                continue
            if isinstance(node, c.Shift | c.Until):
                terms = self._terms(node)
                if terms is not None and free_axes(node) <= set(terms):
                    local = self._localised(terms, node)
                    if local is not None:
                        bit = self._helped(local)
                        replaced[node] = atom_of(self.moving.bits[bit].predicate, terms)
                        continue
            stack.extend(children(node))  # type: ignore[arg-type]
        if not replaced:
            return factor
        return replace(factor, formula=replaced_in(factor.formula, replaced))

    def _with_span(self, factor: Factor) -> Factor:
        used = self._used(factor.formula)
        changing = [b for b in used if not self.moving.bits[b].static]
        most, patterns = 0, 1 << sum(bit.static for bit in self.moving.bits)
        while patterns << len(changing) <= MOST_PATTERNS and most < 64:
            patterns <<= max(1, len(changing))
            most += 1
        span = reach(factor.formula, self.moving, most) if self._readable(factor) else None
        if span is not None and span.high < 0 and any(self.moving.bits[b].static for b in used):
            span = Sight(span.low, 0)  # static bits count where the window is before the start, too
            span = span if -span.low < most else None
        return replace(factor, span=span)

    def _readable(self, factor: Factor) -> bool:
        """Whether all atoms of tracks have only plain variables or entities as arguments."""
        return all(
            self.moving.bit(node) is not None
            and all(
                (isinstance(t, c.Variable) and t.column is None)
                or (isinstance(t, c.Constant) and number_of(t) is not None)
                for t in node.args
            )
            for node in atoms_of(factor.formula, self.moving.names)
        )

    def _used(self, formula: c.Formula) -> list[int]:
        hits = (self.moving.bit(atom) for atom in atoms_of(formula, self.moving.names))
        return sorted({hit[0] for hit in hits if hit is not None})

    # --- automata ---

    def _part(self, name: str, formula: c.Formula, bits: int) -> Part:
        columns: dict[int, int] = {}

        def read(column: int) -> c.Formula:
            return letter(columns.setdefault(column, len(columns)))

        def condition(part: c.Formula) -> c.Formula:
            opposite = nnf(c.Not(part))
            if opposite in self.conditions:
                return c.Not(read(bits + self.conditions[opposite]))
            return read(bits + self.conditions.setdefault(part, len(self.conditions)))

        over = over_letters(formula, self.moving, read, condition)
        always = c.Until(True, FALSE, over, c.Window(), past=False)
        return Part(self.theory.machine(name, always, len(columns)), tuple(columns))

    def _product(self, parts: list[tuple[str, Part]]) -> TrackKind:
        static = tuple(n for n, bit in enumerate(self.moving.bits) if bit.static)
        windows: list[tuple[tuple[int, ...], int]] = []
        places: list[tuple[int, tuple[int, ...]] | None] = []
        for factor in self.factors:
            if factor.span is None:
                places.append(None)
                continue
            used = self._used(factor.formula)
            changing = tuple(b for b in used if b not in static)
            length = max(0, factor.span.high - factor.span.low)
            names = [bits for bits, _ in windows]
            if changing in names:
                place = names.index(changing)
                windows[place] = (changing, max(length, windows[place][1]))
            else:
                place = len(windows)
                windows.append((changing, length))
            places.append((place, changing))
        remembered = tuple(n for n in range(self.free) if not self.moving.bits[n].static)
        seen = self.theory.seen([*self.conditions], self.axes)
        bits, machines = len(self.moving.bits), [part for _, part in parts]
        laws = laws_of(machines, self.free, bits)
        shape = Shape(bits, static, remembered, tuple(windows), seen, laws)
        automaton = product(machines, shape)
        if not automaton.states or (automaton.starts < 0).all():
            raise self._contradiction(parts, shape)
        return TrackKind(
            self.moving, self.axes, self.free, self.helping, self.soft, tuple(self.pointwise),
            tuple(self.conditions), tuple(parts), automaton, shape, tuple(self.factors),
            tuple(places),
        )  # fmt: skip

    def _contradiction(self, parts: list[tuple[str, Part]], shape: Shape) -> NoWorldError:
        """The error with a smallest set of axioms that no trace obeys together."""

        def contradict(some: list[tuple[str, Part]]) -> bool:
            try:
                automaton = product([part for _, part in some], replace(shape, laws=()))
            except LimitError:
                return False
            return not automaton.states or bool((automaton.starts < 0).all())

        said = [axiom for axiom, _ in irreducible(parts, contradict) if axiom not in self.helping]
        names = ", ".join(dict.fromkeys(said))
        hint = "make this axiom soft" if len(set(said)) == 1 else "make one of these axioms soft"
        return NoWorldError(Diagnostic(f"with the given facts, no trace obeys {names}", hint=hint))
