"""Tiny worlds by the thousand: what is sampled, and what enumeration of all worlds says."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.truncation import End, if_longer
from fotltn.errors import CheckError
from fotltn.grounding.labels import Labels
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory, check
from fotltn.logic.presence import relative, written_out
from fotltn.posterior.evidence import NoiseRates
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

#: What the prior is as long as nothing is learned.
STAYS = 0.9

SIGNATURE = """
sort a, b
predicate P(a), Q(a), Tie(a, b), V(b), D(b), E(a)
static predicate Fix(a)
predicate Near(a), Has(a, b)
static predicate K(a, b)
"""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A tiny theory with what is given, labels and rates."""

    theory: CheckedTheory
    tables: Tables
    labels: Labels
    learned: tuple[str, ...]
    rates: Mapping[str, NoiseRates]
    text: str
    end: End


def case(seed: int) -> Case:
    """A random one; the same for the same seed."""
    for attempt in itertools.count():
        with suppress(CheckError):  # a variable that occurs nowhere has no sort
            return _case(random.Random(1000 * seed + attempt), seed)
    raise AssertionError


def _case(choose: random.Random, seed: int) -> Case:
    learned = choose.choice(["P", "P Q", "P Fix", "P V", "Tie", "P Tie", "Q V"]).split()
    axioms: list[str] = []
    given = {"Near": "a", "Has": "ab", "K": "ab"}
    names = {n: {"Tie": "ab", "V": "b"}.get(n, "a") for n in learned} | given
    if choose.random() < 0.5:
        axioms.append(
            f"hard axiom DE: forall x. G(E(x) <-> {random_text(choose, names, ['x'], 2)})"
        )
        if any(f"{n}(" in axioms[-1] for n in learned):
            learned.append("E")
        else:
            axioms.pop()
    if choose.random() < 0.5:
        axioms.append(
            f"hard axiom DD: forall y. G(D(y) <-> {random_text(choose, names, ['y'], 2)})"
        )
        if any(f"{n}(" in axioms[-1] for n in learned):
            learned.append("D")
        else:
            axioms.pop()
    names |= {n: {"E": "a", "D": "b"}[n] for n in learned if n in ("E", "D")}
    for number in range(choose.randint(1, 3)):
        hard = choose.random() < 0.5
        axes = choose.choice([["x"], ["x", "y"], ["y"], ["x", "x2"], []])
        always = choose.random() < 0.8
        body = random_text(choose, names, axes, choose.randint(1, 3))
        inner = f"G({body})" if always else f"({body})"
        prefix = f"forall {', '.join(axes)}. " if axes else ""
        weight = "" if hard else f" weight {choose.choice([0.3, 1.0, 2.0])}"
        axioms.append(f"{'hard ' if hard else ''}axiom A{number}{weight}: {prefix}{inner}")
    return stated(choose, seed, axioms, learned)


def stated(
    choose: random.Random,
    seed: int,
    axioms: Sequence[str],
    learned: Sequence[str],
    declared: str = SIGNATURE,
) -> Case:
    """Some axioms over what is given at random, with random labels and rates."""
    text = declared + "\n".join(axioms) + "\n"
    theory = check(parse_theory(text))
    sizes = {"a": choose.choice([1, 2]), "b": choose.choice([1, 2])}
    lengths = [choose.choice([1, 2, 3, 4]) for _ in range(choose.choice([1, 1, 2]))]
    horizon = max(lengths)
    generator = torch.Generator().manual_seed(seed)
    predicates = {}
    signature = theory.signature
    for name in ("Near", "Has", "K"):
        decl = signature.predicates[name]
        shape = (len(lengths), *(sizes[s] for s in decl.sorts), 1 if decl.static else horizon)
        predicates[name] = (torch.rand(shape, generator=generator) < 0.6).double()
    tables = Tables(sizes, torch.tensor(lengths), horizon, predicates, signature=signature)
    index, truth = {}, {}
    for name in learned:
        decl = signature.predicates[name]
        cells = [
            (t, *args, time)
            for t, length in enumerate(lengths)
            for args in itertools.product(*(range(sizes[s]) for s in decl.sorts))
            for time in range(1 if decl.static else length)
            if choose.random() < 0.4
        ]
        index[name] = torch.tensor(cells, dtype=torch.int64).reshape(-1, len(decl.sorts) + 2).T
        truth[name] = torch.tensor([choose.choice([0.0, 1.0, 1.0, 0.7]) for _ in cells]).double()
    labels = Labels(index, truth, {n: signature.predicates[n].sorts for n in learned})
    rates = {n: NoiseRates(choose.choice([0.1, 0.3]), choose.choice([0.05, 0.2])) for n in learned}
    end: End = choose.choice(["undecided", "final"])
    return Case(theory, tables, labels, tuple(learned), rates, text, end)


def coming_and_going(one: Case, seed: int) -> Case:
    """The same, with entities of a sort that come, stay a while, and leave; or never come."""
    choose = random.Random(seed)
    tables = one.tables
    mask = torch.zeros(tables.batch, tables.sizes["a"], tables.horizon, dtype=torch.bool)
    for trace, length in enumerate(tables.lengths.tolist()):
        for entity in range(tables.sizes["a"]):
            first, last = sorted(choose.choices(range(length + 1), k=2))
            mask[trace, entity, first:last] = True
    index, truth = dict(one.labels.index), dict(one.labels.truth)
    for name, cells in index.items():
        if "a" in one.theory.signature.predicates[name].sorts:  # who is not there has no labels
            seen = mask.any(-1) if one.theory.signature.predicates[name].static else None
            there = mask[tuple(cells[[0, 1, -1]])] if seen is None else seen[tuple(cells[:2])]
            index[name], truth[name] = cells[:, there], truth[name][there]
    labels = replace(one.labels, index=index, truth=truth)
    return replace(one, tables=replace(tables, present={"a": mask}), labels=labels)


def random_text(
    choose: random.Random, names: Mapping[str, str], bound: list[str], depth: int
) -> str:
    if depth == 0 or choose.random() < 0.1:
        return _atom(choose, names, bound)
    inner = depth - 1
    kind = choose.randrange(12)
    a = random_text(choose, names, bound, inner)
    if kind < 2:
        return f"!({a})"
    b = random_text(choose, names, bound, inner)
    if kind < 6:
        return f"({a}) {choose.choice(['&', '|', '->', '<->'])} ({b})"
    if kind < 8:
        operator = choose.choice(
            ["X", "WX", "F", "G", "Y", "WY", "O", "H", "F[<=1]", "G[1,2]", "O[<=2]", "H[1,1]"]
        )
        return f"{operator} ({a})"
    if kind < 10:
        operator = choose.choice(["U", "R", "S", "U[0,2]", "S[<=1]", "W"])
        return f"({a}) {operator} ({b})"
    fresh = choose.choice(["x", "y"]) + str(len(bound) + 3)
    body = random_text(choose, names, [*bound, fresh], inner)
    return f"({choose.choice(['exists', 'forall'])} {fresh}. {body})"


def _atom(choose: random.Random, names: Mapping[str, str], bound: list[str]) -> str:
    usable = []
    for name, sorts in names.items():
        options = [[v for v in bound if v[0] == {"a": "x", "b": "y"}[s]] for s in sorts]
        if all(options):
            usable += [f"{name}({', '.join(one)})" for one in itertools.product(*options)]
    return choose.choice(usable) if usable else choose.choice(["first", "last", "true"])


class Exact:
    """All worlds of a case, and how likely they are.

    Attributes:
        marginals: the exact probability of each atom; None if no world obeys the hard axioms.
        worlds: how many do.
        broken: for each soft axiom how many cells of each world break it.
        likelihood: the logarithm of how likely labels are in each world.
        prior: that of how likely a world is by hard axioms and by how values follow each other.
    """

    def __init__(
        self,
        one: Case,
        free: Sequence[str],
        definitions: Mapping[str, c.Formula],
        together: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """Enumerate.

        Args:
            one: the case.
            free: what is free.
            definitions: formulas by predicate, over the head's variables.
            together: the predicates whose values follow each other as one; else those of the same
                arguments.
        """
        tables, signature = one.tables, one.theory.signature
        cells: list[tuple[str, tuple[int, ...]]] = []
        for name in free:
            decl = signature.predicates[name]
            for t, length in enumerate(tables.lengths.tolist()):
                for args in itertools.product(*(range(tables.sizes[s]) for s in decl.sorts)):
                    times = 1 if decl.static else length
                    cells += [(name, (t, *args, time)) for time in range(times)]
        self.atoms = len(cells)
        if self.atoms > 14:
            return
        count = 1 << len(cells)
        bits = (np.arange(count)[:, None] >> np.arange(len(cells)) & 1).astype(np.float64)
        batch = tables.batch
        worlds: dict[str, Tensor] = {}
        for name in free:
            decl = signature.predicates[name]
            sizes = (tables.sizes[s] for s in decl.sorts)
            times = 1 if decl.static else tables.horizon
            worlds[name] = torch.zeros(count, batch, *sizes, times, dtype=torch.float64)
        for column, (name, cell) in enumerate(cells):
            worlds[name].movedim(0, -1)[cell] = torch.from_numpy(bits[:, column])

        def spread(table: Tensor) -> Tensor:
            return table.expand(count, *table.shape).reshape(count * batch, *table.shape[1:])

        def laid() -> Tables:
            flat = {n: t.reshape(count * batch, *t.shape[2:]) for n, t in worlds.items()}
            fixed = {n: spread(t) for n, t in tables.predicates.items()}  # type: ignore[arg-type]
            return replace(
                tables, lengths=tables.lengths.repeat(count), predicates={**fixed, **flat},
                functions={n: spread(t) for n, t in tables.functions.items()},
                present={n: spread(t) for n, t in tables.present.items()},
            )  # fmt: skip

        for name, formula in definitions.items():
            decl = signature.predicates[name]
            defined = written_out(relative(formula, laid().presence).value)
            axes, truth = crisp.evaluate(defined, laid())
            value = truth.double()
            if len(axes) < len(decl.sorts):  # a formula without the head's variable
                value = value.unsqueeze(1).expand(-1, tables.sizes[decl.sorts[0]], -1)
            if decl.static:
                value = value[..., :1]
            worlds[name] = value.reshape(count, batch, *value.shape[1:])
        everything = laid()
        obeyed = torch.zeros(count, dtype=torch.float64)
        self.broken: dict[str, Tensor] = {}
        log = torch.zeros(count, dtype=torch.float64)
        for axiom in one.theory.axioms:
            worth = self._axiom(axiom.formula, axiom.hard, 1.0, one.end, everything, count)
            if axiom.hard:
                obeyed += worth
            else:
                self.broken[axiom.name] = -worth
                log += axiom.weight * worth
        self.likelihood = torch.zeros(count, dtype=torch.float64)
        for name in one.learned:
            missed, invented = one.rates[name]
            degree = one.labels.truth[name]
            value = worlds[name][(slice(None), *one.labels.index[name])]
            true = degree * (1 - missed) + (1 - degree) * missed
            false = degree * invented + (1 - degree) * (1 - invented)
            self.likelihood += (value * true.log() + (1 - value) * false.log()).sum(1)
        self.prior = obeyed + self._prior(one, free, worlds, together)
        log += self.likelihood + self.prior
        if not torch.isfinite(log.max()):
            self.marginals: dict[str, Tensor] | None = None
            self.worlds = 0
            return
        weight = (log - log.max()).exp()
        weight /= weight.sum()
        self.worlds = int((weight > 0).sum())
        self.feasible = torch.isfinite(log)
        self.bits, self.cells, self.weight = bits, cells, weight
        self.marginals = {
            n: (t * weight.reshape(-1, *[1] * (t.dim() - 1))).sum(0) for n, t in worlds.items()
        }

    def _axiom(
        self,
        formula: c.Formula,
        hard: bool,
        weight: float,
        end: End,
        tables: Tables,
        count: int,
        needs: tuple[c.Formula, ...] = (),
    ) -> Tensor:
        """What an axiom is worth in each world: cells at which its body is false, one by one."""
        axes: list[c.Axis] = []
        always = False
        body = formula
        while True:
            if isinstance(body, c.Quantifier) and body.universal and body.guard is None:
                axes += body.axes
                body = body.body
            elif (
                isinstance(body, c.Aggregate)
                and body.universal
                and not body.past
                and (body.window == c.Window())
            ):
                always, body = True, body.arg
            else:
                break
        if isinstance(body, c.And) and hard:
            parts = [body.left, body.right]
            total = torch.zeros(count, dtype=torch.float64)
            for part in parts:
                inner = c.Aggregate(True, part, c.Window(), past=False) if always else part
                if axes:
                    inner = c.Quantifier(True, tuple(axes), None, inner)
                more = (*needs, relative(body, tables.presence).defined)
                total += self._axiom(inner, hard, weight, end, tables, count, more)
            return total
        asked = if_longer(body) if end == "undecided" else body
        said = written_out(relative(asked, tables.presence).value)
        for need in (*needs, relative(body, tables.presence).defined):
            said = c.Implies(need, said)
        value = crisp.evaluate(said, tables)
        sizes = [tables.full_size(a) for a in axes if a not in value.axes]
        times = int(np.prod(sizes)) if sizes else 1
        inside = tables.inside if always else tables.edge(past=True)
        shape = (inside.shape[0], *[1] * (value.tensor.dim() - 2), inside.shape[1])
        broken = (~value.tensor & inside.reshape(shape)).flatten(1).sum(1).double() * times
        broken = broken.reshape(count, -1).sum(1)
        if hard:
            return torch.where(broken > 0, -torch.inf, 0.0).double()
        return -weight * broken

    def _prior(
        self,
        one: Case,
        free: Sequence[str],
        worlds: Mapping[str, Tensor],
        together: Sequence[Sequence[str]] | None,
    ) -> Tensor:
        """Values of a tuple of arguments stay with 0.9, or change to any other."""
        signature = one.theory.signature
        by_sorts: dict[tuple[str, ...], list[str]] = {}
        for name in free:
            if not signature.predicates[name].static:
                by_sorts.setdefault(signature.predicates[name].sorts, []).append(name)
        groups = [*by_sorts.values()] if together is None else together
        total = torch.zeros(next(iter(worlds.values())).shape[0], dtype=torch.float64)
        for names in groups:
            size = 1 << len(names)
            word = sum(worlds[n].long() << place for place, n in enumerate(names))
            assert isinstance(word, Tensor)
            same = word[..., 1:] == word[..., :-1]
            steps = torch.where(same, np.log(STAYS), np.log((1 - STAYS) / (size - 1))).double()
            inside = one.tables.inside[:, 1:]
            inside = inside.reshape(inside.shape[0], *[1] * (word.dim() - 3), inside.shape[1])
            there = _presence(one, names[0])
            if there is not None:
                inside = there[..., 1:] & there[..., :-1]
            total += (steps * inside).flatten(1).sum(1)
        for name in free:  # who is not there has no true facts
            there = _presence(one, name)
            if there is not None:
                total[(worlds[name].bool() & ~there).flatten(1).any(1)] = -torch.inf
        return total


def _presence(one: Case, name: str) -> Tensor | None:
    """Where the entities of sort `a` among the arguments are, with the axes of the table."""
    decl, there = one.theory.signature.predicates[name], one.tables.present.get("a")
    if there is None or "a" not in decl.sorts:
        return None
    there = there.any(-1, keepdim=True) if decl.static else there
    return there.unsqueeze(2) if decl.sorts == ("a", "b") else there
