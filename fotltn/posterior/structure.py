"""The structure of sampling: defined and free predicates, and kinds of tracks."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from fotltn.analysis.truncation import End
from fotltn.errors import LimitError, listing
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.defined import Definition, definitions_in
from fotltn.logic.nnf import nnf
from fotltn.logic.parts import predicates_in
from fotltn.logic.presence import declared
from fotltn.posterior.above import conditions_above, free_beneath, only_now
from fotltn.posterior.clauses import (
    Clause,
    clauses,
    counted,
    inhabited,
    not_too_deep,
    without_presence,
)
from fotltn.posterior.kinds import KindCompiler
from fotltn.posterior.patterns import Bit, Slot
from fotltn.posterior.prior import TOGETHER, groups
from fotltn.posterior.rows import RowTruth, all_rows
from fotltn.posterior.track_kind import Below, Factor, TrackKind
from fotltn.semantics.tables import Tables
from fotltn.tree import postorder

#: The most bits of tracks that are joined into one.
_MOST_JOINED = 14


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure of sampling.

    Args:
        free: the predicates that are drawn.
        definitions: the defined predicates, each after those that it uses.
        clauses: the clauses of axioms that are not definitions.
        kinds: the kinds of tracks, in the order in which they move.
        shared: groups of predicates that several kinds move.
        tied: the hard axioms that tie tracks, although tracks are drawn one at a time or draws are
            only tested; chains may not get from one world to another.
        watched: the hard axioms that draws ignore, because no world breaks them.
    """

    free: tuple[str, ...]
    definitions: Mapping[str, Definition]
    clauses: tuple[Clause, ...]
    kinds: tuple[TrackKind, ...]
    shared: frozenset[tuple[str, ...]]
    tied: tuple[str, ...]
    watched: tuple[str, ...]


def structure(
    theory: CheckedTheory,
    tables: Tables,
    learned: Sequence[str],
    labelled: Collection[str],
    *,
    define: Mapping[str, Definition] | None = None,
    end: End = "undecided",
    watched: Collection[str] = (),
) -> Structure:
    """Find the structure of sampling for a theory.

    Args:
        theory: the theory.
        tables: the given facts.
        learned: the predicates that are not given.
        labelled: the learned predicates that have labels.
        define: definitions of predicates, in addition to those of hard axioms.
        end: how an axiom is read that the end of a trace cuts off.
        watched: hard axioms that follow from the rest, so that draws can ignore them.

    Raises:
        LimitError: tracks have too many states.
    """
    said = statements(theory, tables, learned, define=define, end=end)
    free, definitions = said.free, said.definitions
    seen = _Seen(RowTruth(tables, learned))
    followed = [clause for clause in said.clauses if clause.axiom not in watched]
    compiler = KindCompiler(tables, followed, definitions, labelled, seen, learned)
    kinds = tuple(_kinds(compiler, free, tables))
    joint, tied = _joint(compiler, kinds, free, tables)
    kinds = tuple(_with_above(compiler, (*kinds, *joint), tied, said, tables))
    times = Counter(
        name for kind in kinds for name in {names for names, _ in groups(kind, static=False)}
    )
    shared = frozenset(names for names, number in times.items() if number > 1)
    return replace(said, kinds=kinds, shared=shared, tied=tied, watched=tuple(watched))


def statements(
    theory: CheckedTheory,
    tables: Tables,
    learned: Sequence[str],
    *,
    define: Mapping[str, Definition] | None = None,
    end: End = "undecided",
) -> Structure:
    """The definitions and clauses of a theory, without kinds of tracks; see `structure`."""
    certain = replace(theory, axioms=tuple(a for a in theory.axioms if a.hard))
    presence = tables.presence
    known = declared(theory.signature, presence)
    told = dict(define or {})
    uses = {name: predicates_in(d.formula) for name, d in told.items()}
    stated = definitions_in(certain, [n for n in learned if n not in told], uses)
    definitions = {}
    for name, definition in _ordered({**told, **stated.by_name}).items():
        formula = inhabited(nnf(without_presence(definition.formula, presence)), tables)
        not_too_deep(formula, f"the definition of '{name}'")
        definitions[name] = replace(definition, formula=formula)
    said = tuple(
        clause
        for axiom in theory.axioms
        if axiom.name not in stated.axioms and (axiom.hard or axiom.weight > 0)
        for clause in (counted(one, tables) for one in clauses(axiom, end, known, presence))
        if not_too_deep(clause.body, f"'{axiom.name}'")
    )
    free = tuple(n for n in learned if n not in definitions)
    return Structure(free, definitions, said, (), frozenset(), (), ())


#: The most conditions of a track that other tracks decide; each may be true or false anywhere.
_MOST_VARYING = 10


class _Seen:
    """Computes joint values of conditions: given facts decide some, the others may be anything."""

    def __init__(self, truth: RowTruth) -> None:
        self.truth = truth

    def __call__(self, formulas: Sequence[c.Formula], axes: tuple[c.Axis, ...]) -> tuple[int, ...]:
        rows = all_rows(self.truth.tables, axes)
        inside = self.truth.tables.inside[rows.trace]
        total = torch.zeros_like(inside, dtype=torch.int64)
        varying = [n for n, formula in enumerate(formulas) if self.truth.varies(formula)]
        if len(varying) > _MOST_VARYING:
            raise LimitError(f"a track has {len(varying)} conditions that other tracks decide")
        for number, formula in enumerate(formulas):
            if number not in varying:
                total += self.truth.truth(formula, rows, {})[0].to(torch.int64) << number
        words = torch.unique(total[inside]).tolist()
        for number in varying:
            words += [word | 1 << number for word in words]
        return tuple(sorted(words))


def _ordered(definitions: Mapping[str, Definition]) -> dict[str, Definition]:
    """Sort definitions, each after those that it uses."""
    result: dict[str, Definition] = {}
    rest = dict(definitions)
    while rest:
        ready = [n for n, d in rest.items() if not predicates_in(d.formula) & set(rest) - {n}]
        assert ready, "definitions do not go round in circles"
        for name in ready:
            result[name] = rest.pop(name)
    return result


def _kinds(compiler: KindCompiler, free: Sequence[str], tables: Tables) -> Iterator[TrackKind]:
    """Kinds that join a relation with its arguments, and a kind for each other tuple of sorts."""
    signature = compiler.tables.signature
    covered: set[str] = set()
    for name in free:
        sorts = signature.predicates[name].sorts
        if len(sorts) != 2 or signature.predicates[name].static:
            continue
        if not all(tables.sizes[sort] for sort in sorts):
            continue
        for position in (0, 1):
            kind = _joined(compiler, free, tables, name, position)
            if kind is not None:
                covered |= {bit.predicate for bit in kind.moving.bits[: kind.free]}
                yield kind
    by_sorts: dict[tuple[str, ...], list[str]] = {}
    for name in free:
        by_sorts.setdefault(signature.predicates[name].sorts, []).append(name)
    for sorts, names in by_sorts.items():
        if set(names) <= covered or not all(tables.sizes[sort] for sort in sorts):
            continue
        for part in _parts(compiler, names):
            if not set(part) <= covered:
                yield from _plain_kinds(compiler, sorts, part)


def _parts(compiler: KindCompiler, names: Sequence[str]) -> list[list[str]]:
    """Split predicates with the same arguments into those that move together.

    A few predicates all move together. More have no joint prior, and only predicates move together
    that axioms and definitions mention together.
    """
    if len(names) <= TOGETHER:
        return [[*names]]
    said = [predicates_in(clause.body) for clause in compiler.clauses]
    for name, definition in reversed([*compiler.definitions.items()]):
        for mentioned in [one for one in said if name in one]:
            mentioned |= predicates_in(definition.formula)
        said.append(predicates_in(definition.formula))
    parts: list[list[str]] = [[name] for name in names]
    for mentioned in said:
        joined = [part for part in parts if mentioned & {*part}]
        rest = [part for part in parts if part not in joined]
        parts = [*rest, [name for name in names if any(name in part for part in joined)]]
    return [part for part in parts if part]


def _plain_kinds(
    compiler: KindCompiler, sorts: tuple[str, ...], names: Sequence[str]
) -> list[TrackKind]:
    """The kind of tracks of some predicates; if it is too large, a kind for each predicate."""
    bits = [_plain(compiler, name) for name in names]
    try:
        return [compiler.kind(sorts, bits)]
    except LimitError as error:
        if len(names) == 1:
            message = f"cannot sample '{names[0]}': {error.diagnostics[0].message}"
            hint = 'use fewer or shorter axioms about it, or method = "gradient"'
            raise LimitError(message, hint=hint) from None
    return [one for name in names for one in _plain_kinds(compiler, sorts, [name])]


def _joint(
    compiler: KindCompiler, kinds: Sequence[TrackKind], free: Sequence[str], tables: Tables
) -> tuple[list[TrackKind], tuple[str, ...]]:
    """Join everything that hard axioms tie into one track for each trace, if it is small.

    Returns:
        The joint kinds, and the axioms that no joint kind obeys.
    """
    signature = compiler.tables.signature
    groups: list[tuple[set[tuple[str, ...]], list[str]]] = []  # tuples of sorts, and axioms
    for kind in kinds:
        for axiom, names in _ties(kind, compiler.definitions, free):
            sorts, axioms = {signature.predicates[name].sorts for name in names}, [axiom]
            for group in [g for g in groups if g[0] & sorts]:
                groups.remove(group)
                sorts, axioms = sorts | group[0], [*group[1], *axioms]
            groups.append((sorts, axioms))
    result: list[TrackKind] = []
    tied: list[str] = []
    known = _explained(kinds, {one for _, axioms in groups for one in axioms}, compiler, free)
    for sorts, axioms in groups:
        # Values that tracks above explain would cost a joint track as much as chance would.
        joined = None if {*axioms} <= known else _together(compiler, sorts, free, tables)
        if joined is None:
            tied += axioms
        else:  # axioms that only test its draws still tie tracks
            tested = {one.axiom for one in joined.factors if one.span is None}
            tied += [axiom for axiom in axioms if axiom in tested]
            result.append(joined)
    return result, tuple(dict.fromkeys(tied))


def _ties(
    kind: TrackKind, definitions: Mapping[str, Definition], free: Sequence[str]
) -> Iterator[tuple[str, set[str]]]:
    """The hard axioms that tie the tracks of a kind to others, with their free predicates."""
    said = [(f.axiom, predicates_in(f.formula)) for f in kind.factors if f.hard]
    heads: dict[str, set[str]] = {}  # a definition alone does not restrict tracks
    for definition in definitions.values():
        heads.setdefault(listing(definition.axioms or (definition.name,)), set()).add(
            definition.name
        )
    bits, loose = len(kind.moving.bits), {*free, *definitions}
    through: set[str] = set()  # defined bits that also depend on other tracks
    for axiom, part in kind.parts:
        read = [kind.conditions[n - bits] for n in part.columns if n >= bits]
        others = {name for formula in read for name in predicates_in(formula)}
        mine = {kind.moving.bits[n].predicate for n in part.columns if n < bits}
        if axiom not in kind.helping and (others & loose or mine & through):
            if axiom in heads:
                through |= heads[axiom]
            else:
                said.append((axiom, others | mine))
    for axiom, names in said:
        names |= {n for h in names & {*kind.helping} for n in predicates_in(kind.helping[h])}
        yield axiom, free_beneath(names, free, definitions)


def _explained(
    kinds: Sequence[TrackKind], axioms: Collection[str], compiler: KindCompiler,
    free: Sequence[str],
) -> set[str]:  # fmt: skip
    """The axioms by which tracks above explain tracks that nothing else ties."""
    every = conditions_above(kinds, axioms, free, compiler.definitions, compiler.tables.sizes)
    result: set[str] = set()
    for kind, above in zip(kinds, every, strict=True):
        if not kind.factors:
            learned = {*compiler.learned}
            varying = {n for n, f in enumerate(kind.conditions) if predicates_in(f) & learned}
            for axiom, part in kind.parts:
                read = {column - kind.shape.bits for column in part.columns} & varying
                result |= {axiom} if read and read <= {*above} else set()
    return result & {*axioms}


def _with_above(
    compiler: KindCompiler, kinds: Sequence[TrackKind], tied: Collection[str], said: Structure,
    tables: Tables,
) -> Iterator[TrackKind]:  # fmt: skip
    """The kinds, with priors that depend on tracks above; see `above.py`."""
    above = conditions_above(kinds, tied, said.free, said.definitions, tables.sizes)
    for kind, numbers in zip(kinds, above, strict=True):
        moved = {bit.predicate for bit in kind.moving.bits[: kind.free]}
        below = [
            factor
            for number, other in enumerate(kinds)
            for factor in _prior_below(number, other, above[number], moved, said)
        ]
        if below:
            yield replace(_listening(compiler, kind, below), above=numbers)
        else:
            yield replace(kind, above=numbers)


def _prior_below(
    number: int, kind: TrackKind, above: Sequence[int], moved: Collection[str], said: Structure
) -> Iterator[Factor]:
    """Yield the prior of a kind as a factor of tracks above, if it reads what they move."""
    read = tuple(
        n for n in above
        if free_beneath(predicates_in(kind.conditions[n]), said.free, said.definitions) & {*moved}
    )  # fmt: skip
    if read:
        formulas = tuple(kind.conditions[n] for n in read)
        told = Below(number, read, formulas, only_now(kind, read))
        names = dict.fromkeys(bit.predicate for bit in kind.moving.bits[: kind.free])
        yield Factor(f"prior of {', '.join(names)}", kind.axes, formulas[0], 1.0, None, None, told)


def _listening(compiler: KindCompiler, kind: TrackKind, below: Sequence[Factor]) -> TrackKind:
    """A kind whose draws count the priors of tracks below."""
    free = kind.moving.bits[: kind.free]
    try:
        return compiler.kind(kind.moving.sorts, free, below)
    except LimitError:  # with the windows of these priors; so they only test draws
        later = [replace(one, below=replace(one.below, now=False)) for one in below if one.below]
        return compiler.kind(kind.moving.sorts, free, later)


def _together(
    compiler: KindCompiler, sorts: Collection[tuple[str, ...]], free: Sequence[str], tables: Tables
) -> TrackKind | None:
    """Join the free predicates of some sorts into one track for each trace; None if too large.

    Entities that come and go are not joined: each has a track that begins when it arrives.
    """
    if {sort for several in sorts for sort in several} & {*tables.present}:
        return None
    bits: list[Bit] = []
    for name in free:
        decl = compiler.tables.signature.predicates[name]
        if decl.sorts in sorts:  # predicates with the same arguments share a prior
            for numbers in itertools.product(*(range(tables.sizes[s]) for s in decl.sorts)):
                slots = tuple(Slot(None, number) for number in numbers)
                bits.append(Bit(name, slots, decl.sorts, decl.static))
    if not bits or len(bits) > _MOST_JOINED:
        return None
    try:
        return compiler.kind((), bits)
    except LimitError:
        return None


def _plain(compiler: KindCompiler, name: str) -> Bit:
    decl = compiler.tables.signature.predicates[name]
    return Bit(name, tuple(Slot(n) for n in range(len(decl.sorts))), decl.sorts, decl.static)


def _joined(
    compiler: KindCompiler, free: Sequence[str], tables: Tables, name: str, position: int
) -> TrackKind | None:
    """Join the tracks of one argument with the relation to each entity of the other sort."""
    signature = compiler.tables.signature
    sorts = signature.predicates[name].sorts
    stays, goes = sorts[position], sorts[1 - position]
    relations = [
        n for n in free
        if signature.predicates[n].sorts == sorts and not signature.predicates[n].static
    ]  # fmt: skip
    alone = [n for n in free if signature.predicates[n].sorts == (stays,)]
    if name != relations[0] or not _tied(compiler.clauses, relations, alone, position):
        return None
    if goes in tables.present:  # bits of the others would begin and end within a track
        return None
    size = tables.sizes[goes]
    if len(alone) + size * len(relations) > _MOST_JOINED:
        return None
    bits = [_plain(compiler, n) for n in alone]
    for number in range(size):
        for relation in relations:
            slots = [Slot(None, number), Slot(None, number)]
            slots[position] = Slot(0)
            bits.append(Bit(relation, tuple(slots), sorts, static=False))
    try:
        return compiler.kind((stays,), bits)
    except LimitError:
        return None


def _tied(
    said: Sequence[Clause], relations: Sequence[str], alone: Sequence[str], position: int
) -> bool:
    """Whether a hard clause ties a relation to another atom of the argument at a position."""
    for clause in said:
        if clause.weight is not None:
            continue
        seen: dict[c.Term, set[c.Core]] = {}
        for node in postorder(clause.body):
            if isinstance(node, c.Atom):
                if node.predicate in relations:
                    seen.setdefault(node.args[position], set()).add(node)
                elif node.predicate in alone:
                    seen.setdefault(node.args[0], set()).add(node)
        for atoms in seen.values():
            names = {a.predicate for a in atoms if isinstance(a, c.Atom)}
            if len(atoms) > 1 and names & set(relations):
                return True
    return False
