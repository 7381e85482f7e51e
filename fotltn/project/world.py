"""What a project is about: its theory, names, facts and features, read from what it names."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import assert_never, cast

import torch
from torch import Tensor, nn

from fotltn.errors import (
    Diagnostic,
    ParseError,
    Severity,
    listing,
    name_hint,
)
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.frames import Source
from fotltn.grounding.groups import of_traces, read_groups
from fotltn.grounding.labels import Labels, joined, labels
from fotltn.grounding.split import flip, split
from fotltn.grounding.training_share import cells_of_traces, training_cells, without_unseen_words
from fotltn.grounding.wide import Wide, read_wide
from fotltn.learn.objective import unsure
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory, check
from fotltn.logic.signature import Signature
from fotltn.networks.encoders import Centring
from fotltn.networks.grounding import Grounding
from fotltn.project.config import Config
from fotltn.project.data_config import WideConfig, argument
from fotltn.project.definitions import never_stated
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, present_mask, table_shape
from fotltn.syntax import formula as f
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.theory import Theory
from fotltn.tree import postorder

_DENSE = 2**24  # cells of a table that is laid out, however few facts it has


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """What a project is about: its theory, its facts, and tables of what is given.

    Args:
        source: the theory as it is written, with what it includes.
        theory: the theory, checked.
        facts: names of traces and entities, and all facts.
        fixed: tables of the predicates that are not computed, on the machine that computes; its
            inputs are the features of each sort.
        stated: all facts of computed predicates, as they are stated.
        labels: those for training, with the noise that was asked for.
        test: those for testing; None if there are none.
        watched: those to watch while training; None if there are none of their own.
        parts: the traces for "train", "validation" and "test", if a table says which these are.
        counted: for sorts of which rows are held back, the cells (trace, entity, time) that are
            for training; what is computed from features is computed from them alone.
        centring: for sorts whose features are centred by more than is in memory, how.
    """

    source: Theory
    theory: CheckedTheory
    facts: Facts
    fixed: Tables
    stated: Labels
    labels: Labels
    test: Labels | None
    watched: Labels | None = None
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    counted: Mapping[str, Tensor] = field(default_factory=dict)
    centring: Mapping[str, Centring] = field(default_factory=dict)


#: A predicate that Python computes: a network, or a function of given tables and features.
PythonPredicate = nn.Module | Callable[[Tables, Mapping[str, Tensor]], Tensor | SparseTable]


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """What comes with a project without being in its files.

    Args:
        theory: in place of the file that the project names.
        tables: data, in place of files, by the names that the project has for them.
        modules: predicates, functions and encoders that Python computes.
        labelled: whether wide tables must have the columns of what is computed.
    """

    theory: Theory | None = None
    tables: Mapping[str, Source] = field(default_factory=dict)
    modules: Mapping[str, PythonPredicate] = field(default_factory=dict)
    labelled: bool = True


NOTHING = InMemory()


def read_world(config: Config, more: InMemory = NOTHING) -> World:
    """Read theory and data.

    Raises:
        FotError: a file is missing or wrong, or parts do not fit together.
    """
    source, theory = read_theory(config, more)
    signature, data = theory.signature, config.data

    def table(name: str) -> Source:
        return more.tables[name] if name in more.tables else config.table(name)

    optional = () if more.labelled else computed(config, signature)
    tables = [wide_table(w, table(w.file), optional) for w in data.wide]
    long = [*map(table, data.facts)]
    if not long and not tables:
        if data.prepared is not None:
            text = "of prepared data there is one block in memory at a time, and this needs all"
            hint = 'name the tables, too: facts = ["facts.csv"]; or train, and ask the model'
            raise config.error(("data", "prepared"), text, hint)
        raise config.error(("data",), "there are no facts to learn from", 'facts = ["facts.csv"]')
    tested = [*map(table, data.test)]
    facts, features = read_wide(
        tables, signature, facts=[*long, *tested], horizon=data.horizon, local=data.local,
        on_conflict=data.on_conflict, clock=data.clock, beyond=data.beyond,
        dtype=getattr(torch, config.dtype), tests=len(tested),
    )  # fmt: skip
    return world_of(config, source, theory, facts, features, parts_of(config, facts.traces))


def read_theory(config: Config, more: InMemory = NOTHING) -> tuple[Theory, CheckedTheory]:
    """The theory of a project, as it is written and checked, which has all that the project names.

    Raises:
        FotError: a file is missing or wrong, or the project speaks of something else.
    """
    source = more.theory
    if source is None:
        source = load_theory(config.theory_path(), root=next(iter(config.roots), None))
    theory = checked(source, config)
    _check_names(config, theory.signature)
    return source, theory


def world_of(
    config: Config,
    source: Theory,
    theory: CheckedTheory,
    facts: Facts,
    features: Mapping[str, Features],
    parts: Mapping[str, tuple[int, ...]],
    *,
    seed: int = 0,
    warned: bool = False,
) -> World:
    """What a project is about, by what was read.

    Args:
        config: the project.
        source: its theory.
        theory: the same, checked.
        facts: all facts.
        features: of each sort that has some.
        parts: the traces for each part, if a table says which these are.
        seed: is added to that of draws.
        warned: of what is odd in the project it was said before.

    Raises:
        DataError: parts do not fit together.
    """
    signature, data = theory.signature, config.data
    made = computed(config, signature)
    dtype, device = getattr(torch, config.dtype), device_of(config)
    _check_values(config, facts)
    every = labels(facts, signature, [n for n in made if n in facts.rows], dtype=dtype)
    told = {n: unsure(every.truth[n]) for n in config.objective.evidence if n in every.truth}
    evidence = every.take(told)
    sure = {n: ~told[n] if n in told else t >= 0 for n, t in every.truth.items()}
    tests = {n: torch.from_numpy(mask) for n, mask in facts.tested.items()}
    held = {n: tests.get(n, torch.zeros_like(mask))[mask] for n, mask in sure.items()}
    every = every.take(sure)
    train, watched, test = every, None, None
    if data.test:
        train, test = every.take({n: ~mask for n, mask in held.items()}), every.take(held)
    elif parts:
        of_part = {part: of_traces(every, traces) for part, traces in parts.items()}
        train, watched, test = of_part["train"], of_part.get("validation"), of_part.get("test")
    if data.train < 1.0:
        train, rest = split(train, data.train, by=data.by, seed=data.seed + seed, sort=data.sort)
        test = test if parts else rest
    drawn = None if parts or data.train == 1.0 else (train, test)
    if data.flip:
        train, _ = flip(train, data.flip, data.seed + seed)
    if evidence.total:  # what detectors say is known of all traces, and is never a test
        train = joined(train, evidence)
    if not warned:
        from_facts = [n for n in signature.predicates if n not in made]
        odd = (
            *config.strays(),
            *unguarded(theory, facts),
            *never_stated(theory, from_facts, facts.rows),
        )
        facts = replace(facts, warnings=(*facts.warnings, *odd))
    facts = replace(facts, tested={})
    # Tables are made of what is not computed alone.
    others = replace(
        signature,
        predicates={n: d for n, d in signature.predicates.items() if n not in made},
        functions={n: d for n, d in signature.functions.items() if n not in config.functions},
    )
    fixed = tables_of_facts(facts, others, dtype=dtype, sparse=True)
    counted: dict[str, Tensor] = {}
    if parts:
        counted = cells_of_traces(fixed, parts["train"])
    elif drawn is not None and drawn[1] is not None:
        counted = training_cells(fixed, drawn[0], drawn[1], data.by, data.sort)
    columns = {(w.sort, c): w for w in data.wide for c in w.features}
    features = without_unseen_words(
        dict(features), counted, fixed.present,
        named={key for key, w in columns.items() if key[1] in w.categories},
        zero={key for key, w in columns.items() if w.unknown_categories == "zero"},
    )  # fmt: skip
    fixed = replace(fixed, signature=signature, inputs=features)
    return World(
        source, theory, facts, fixed.to(device), to_device(every, device),
        to_device(train, device), None if test is None else to_device(test, device),
        None if watched is None else to_device(watched, device), parts, counted,
    )  # fmt: skip


def checked(source: Theory, config: Config) -> CheckedTheory:
    """The theory of a project, which also uses what networks and formulas compute, and these use.

    Raises:
        CheckError: something in it does not fit.
    """
    grouped = (n for g in config.groups for n in g.predicates)
    used = {*config.predicates, *config.functions, *grouped}
    for formula in (p.formula for p in config.predicates.values() if p.formula):
        with suppress(ParseError):  # which is reported where the definition is made
            used |= _names_in(parse_formula(formula))
    return check(source, used=used)


def _names_in(formula: f.Formula) -> set[str]:
    """The names of predicates, functions, relations and entities."""
    names: set[str] = set()
    for node in postorder(formula):
        match cast("f.AnySyntax", node):
            case f.Atom(name) | f.Apply(name) | f.Const(name) | f.Var(name):
                names.add(name)
            case f.Forall(binders) | f.Exists(binders):
                names |= {b.relation for b in binders if isinstance(b, f.Paired)}
            case (
                f.Number() | f.Truth() | f.Edge() | f.Equal() | f.Compare() | f.Not() | f.And()
                | f.Or() | f.Implies() | f.Iff() | f.Unary() | f.Binary()
            ):  # fmt: skip
                pass
            case never:
                assert_never(never)
    return names


def parts_of(config: Config, traces: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The traces to learn from, to watch and to test on, if a table says which these are."""
    split = config.data.split
    if split is None:
        return {}
    file = config.table(split.file)
    return read_groups(
        file, trace=split.trace, column=split.column, words=split.words, traces=traces
    )


def computed(config: Config, signature: Signature) -> tuple[str, ...]:
    """The predicates that networks or formulas compute, so that facts about them are labels."""
    named = {n for n, p in config.predicates.items() if p.kind != "facts"}
    named |= {n for group in config.groups for n in group.predicates}
    return tuple(n for n in signature.predicates if n in named)


def wide_table(wide: WideConfig, source: Source, optional: Collection[str] = ()) -> Wide:
    """A wide table that a project describes."""
    arguments = {column: [*map(argument, names)] for column, names in wide.arguments.items()}
    measures = {name: measured.measure() for name, measured in wide.measures.items()}
    return Wide(
        source, wide.sort, argument(wide.entity), wide.time, wide.trace,
        wide.predicates, arguments, wide.features, wide.categories, wide.presence,
        measures, optional, wide.missing, wide.unknown_categories,
    )  # fmt: skip


def _check_names(config: Config, signature: Signature) -> None:
    groups = [(f"exclusive[{i}]", n) for i, g in enumerate(config.groups, 1) for n in g.predicates]
    rates = {"missed": config.objective.missed, "invented": config.objective.invented}
    rated = [("objective", k, n) for k, r in rates.items() if isinstance(r, Mapping) for n in r]
    for kind, paths, known in (
        ("predicate", [("predicates", n) for n in config.predicates], signature.predicates),
        ("predicate", groups, signature.predicates),
        ("function", [("functions", n) for n in config.functions], signature.functions),
        ("sort", [("inputs", n) for n in config.inputs], signature.sorts),
        ("predicate", [("objective", n) for n in config.objective.evidence], signature.predicates),
        ("predicate", rated, signature.predicates),
    ):
        for path in paths:
            if path[-1] not in known:
                hint = name_hint(path[-1], known, "the theory declares")
                message = f"the project speaks of the unknown {kind} '{path[-1]}'"
                raise config.error(path, message, hint)


def _check_values(config: Config, facts: Facts) -> None:
    """Refuse values of functions that are computed: a loss is of facts, and of axioms."""
    for name in config.functions:
        if name in facts.rows:
            raise config.error(
                ("functions", name),
                f"the function '{name}' is computed, but the data state values of it",
                "state them as a function of another name, and say in an axiom where both are "
                f"equal: forall x where Known(x). G({name}(x) = measured(x))",
            )


# --- what is odd ----------------------------------------------------------------------------


def unguarded(theory: CheckedTheory, facts: Facts) -> tuple[Diagnostic, ...]:
    """A warning for each local sort whose empty places count in axioms.

    A trace with fewer entities than another has empty places, where every given fact is false. A
    quantifier counts them, unless it has a guard that speaks of its variable.
    """
    warnings = []
    for sort, names in facts.local.items():
        counts = set(map(len, names))
        axioms = [a.name for a in theory.axioms if any(_open(a.formula, sort))]
        if len(counts) < 2 or not axioms:
            continue
        text = (
            f"{listing(axioms, 20)}: a quantifier over '{sort}' also counts empty places, since "
            f"traces have {min(counts)} to {max(counts)} of these"
        )
        hint = "add a guard that is true of those that exist: forall x where Present(x). …"
        warnings.append(Diagnostic(text, hint=hint, severity=Severity.WARNING))
    return tuple(warnings)


def _open(formula: c.Formula, sort: str) -> Iterator[c.Axis]:
    """The axes of a sort that no guard speaks of."""
    for node in postorder(formula):
        if not isinstance(node, c.Quantifier):
            continue
        guard = () if node.guard is None else postorder(node.guard)
        seen = {n.axis for n in guard if isinstance(n, c.Variable)}
        yield from (axis for axis in node.axes if axis.sort == sort and axis not in seen)


# --- what is stated ----------------------------------------------------------------------------


def stated_tables(world: World, grounding: Grounding, dtype: torch.dtype) -> Tables:
    """Tables of what the facts state; what they do not state is false, or possible.

    A predicate that is defined by a formula, and of which no fact is stated, is what its formula
    says of the others. What functions in Python make of the data is as it is for networks, and
    functions that are computed have the values that they have now.
    """
    index, truth, fixed = world.stated.index, world.stated.truth, grounding.fixed
    device = fixed.lengths.device
    tables: dict[str, Tensor | SparseTable] = {}
    possible: dict[str, Tensor | SparseTable] = {}
    for name in (*grounding.learned, *(n for n in grounding.definitions if n in index)):
        declared = world.theory.signature.predicates[name]
        shape = table_shape(fixed, declared)
        places = index.get(name, torch.zeros(len(shape), 0, dtype=torch.int64, device=device))
        degrees = truth.get(name, torch.zeros(0, dtype=dtype, device=device)).to(dtype)
        if math.prod(shape) > max(_DENSE, 8 * len(degrees)):
            tables[name] = SparseTable(places, degrees, shape)
            possible[name] = SparseTable(places, degrees, shape, 1.0)  # of absent entities, too
            continue
        table = torch.zeros(shape, dtype=dtype, device=device)
        table[tuple(places)] = degrees
        maybe = present_mask(fixed, declared, fixed.present).to(dtype)
        maybe[tuple(places)] = degrees
        tables[name] = table
        if not torch.equal(maybe, table):
            possible[name] = maybe
    with torch.no_grad():
        stated = replace(
            fixed,
            predicates={**tables, **fixed.predicates},
            functions={**fixed.functions, **grounding.function_values()},
        )
        return replace(grounding.completed(stated), possible=possible)


# --- devices ----------------------------------------------------------------------------------


def device_of(config: Config) -> torch.device:
    """The machine that computes.

    Raises:
        DataError: there is no such machine here.
    """
    try:
        device = torch.device(config.device)
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        first = str(error).splitlines()[0][:200]
        if first.startswith("Expected one of"):  # followed by all devices that PyTorch knows of
            first = "there is no device of that name"
        message = f"the device '{config.device}' cannot be used: {first}"
        raise config.error(("machine", "device"), message) from None
    return device


@contextmanager
def in_precision(config: Config) -> Iterator[None]:
    """PyTorch's own precision as a project's, so that the same numbers are drawn everywhere."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, config.dtype))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def to_device(labels: Labels, device: torch.device) -> Labels:
    """Labels on a device."""
    return replace(
        labels,
        index={n: t.to(device) for n, t in labels.index.items()},
        truth={n: t.to(device) for n, t in labels.truth.items()},
    )
