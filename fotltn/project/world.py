"""The world of a project: its theory, names, facts and features."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import assert_never, cast

import torch
from torch import Tensor, nn

from fotltn.analysis.truncation import never_fails
from fotltn.errors import DataError, Diagnostic, ParseError, listing, name_hint, warning
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.frames import Source
from fotltn.grounding.gaps import odd_times
from fotltn.grounding.groups import of_traces, read_groups
from fotltn.grounding.labels import Labels, joined, labels
from fotltn.grounding.split import flip, split
from fotltn.grounding.training_share import cells_of_traces, training_cells, without_unseen_words
from fotltn.grounding.wide import Wide, read_wide
from fotltn.learn.objective import unsure
from fotltn.logic.check import CheckedTheory, check
from fotltn.logic.defined import definitions_in
from fotltn.logic.signature import Signature
from fotltn.networks.encoders import Centring
from fotltn.networks.grounding import Grounding
from fotltn.project.config import Config
from fotltn.project.data_config import DataConfig, WideConfig, argument
from fotltn.project.definitions import never_stated
from fotltn.semantics.presence import present_mask
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, table_shape
from fotltn.syntax import formula as f
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.theory import Theory
from fotltn.tree import postorder

_DENSE = 2**24  # a table of at most this many cells is dense, however few facts it has


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The theory of a project, its facts, and the tables of given predicates.

    Args:
        source: the theory as written, with the files that it includes.
        theory: the theory, checked.
        facts: the names of traces and entities, and all facts.
        fixed: tables of the predicates that are not computed, on the device; its inputs are the
            features of each sort.
        stated: all facts of computed predicates, as stated.
        labels: the labels for training, with noise if the settings ask for it.
        test: the labels for testing; None if there are none.
        watched: the labels for validation; None if no separate ones exist.
        parts: the traces for "train", "validation" and "test", if a table assigns them.
        counted: for sorts with held-back rows, the cells (trace, entity, time) for training;
            statistics of features use only these.
        centring: how to centre features, for sorts with data that are not in memory.
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

    def unseen(self, *, evidence: bool = False) -> World:
        """Return the world for networks that have not seen it; labels are tests, or evidence."""
        nothing = Labels({}, {}, {}, frozenset(self.facts.local))
        test = self.stated if self.stated.total and not evidence else None
        labels = self.stated if evidence else nothing
        return replace(self, labels=labels, test=test, watched=None, parts={})


#: A predicate that Python computes: a network, or a function of given tables and features.
PythonPredicate = nn.Module | Callable[[Tables, Mapping[str, Tensor]], Tensor | SparseTable]


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """The parts of a project that are not in its files.

    Args:
        theory: the theory, instead of the file that the project names.
        tables: the data, instead of files, by their names in the project.
        modules: predicates, functions and encoders that Python computes.
        labelled: whether wide tables must have the columns of computed predicates.
    """

    theory: Theory | None = None
    tables: Mapping[str, Source] = field(default_factory=dict)
    modules: Mapping[str, PythonPredicate] = field(default_factory=dict)
    labelled: bool = True


NOTHING = InMemory()


def read_world(config: Config, more: InMemory = NOTHING) -> World:
    """Read the theory and the data of a project.

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
            text = "prepared data are in memory one block at a time, but this needs all of them"
            hint = 'name the tables as well: facts = ["facts.csv"]; or train, and ask the model'
            raise config.error(("data", "prepared"), text, hint)
        raise config.error(("data",), "there are no facts to learn from", 'facts = ["facts.csv"]')
    tested = [*map(table, data.test)]
    with _without_content(config):
        facts, features = read_wide(
            tables, signature, facts=[*long, *tested], horizon=data.horizon, local=data.local,
            on_conflict=data.on_conflict, clock=data.timing, beyond=data.beyond,
            dtype=getattr(torch, config.dtype), tests=len(tested),
        )  # fmt: skip
        parts = parts_of(config, facts.traces)
    return world_of(config, source, theory, facts, features, parts)


@contextmanager
def _without_content(config: Config) -> Iterator[None]:
    """Errors do not quote a table that is a link to a file outside the project."""
    try:
        yield
    except DataError as error:
        for path in config.outside():
            if path.is_symlink() and str(path) in str(error):
                raise DataError(
                    f"cannot read {path}: it is a link to a file outside the project, which has "
                    "an error; the error would quote the file",
                    hint="copy the table into the project",
                ) from None
        raise


def read_theory(config: Config, more: InMemory = NOTHING) -> tuple[Theory, CheckedTheory]:
    """Read the theory of a project, as written and checked, with all names that the project uses.

    Raises:
        FotError: a file is missing or wrong, or the project uses an unknown name.
    """
    source = more.theory
    if source is None:
        source = load_theory(config.theory_path(), root=next(iter(config.roots), None))
    theory = checked(source, config)
    _check_names(config, theory.signature)
    return source, theory


def _unnamed_clock(data: DataConfig, facts: Facts) -> Iterator[Diagnostic]:
    """Warn that traces share a clock because the settings, as those of 0.2.0, do not name one."""
    if data.timing is not None and data.clock is None and len(facts.traces) > 1:
        yield warning(
            "the settings name no clock, so all traces share one, as in version 0.2.0",
            hint='say so with clock = "shared" in [data]; or let each trace begin at its own step '
            '0 with clock = "own"',
        )


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
    """Build the world of a project from the data that were read.

    Args:
        config: the project.
        source: its theory.
        theory: the checked theory.
        facts: all facts.
        features: the features, by sort.
        parts: the traces for each part, if a table assigns them.
        seed: a number that is added to the seed of draws.
        warned: whether warnings about the project were already given.

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
    if evidence.total:  # detectors' outputs are known for all traces, and are never test facts
        train = joined(train, evidence)
    if not warned:
        from_facts = [n for n in signature.predicates if n not in made]
        odd = (
            *config.strays(),
            *never_stated(theory, from_facts, facts.rows),
            *odd_times(facts),
            *_unnamed_clock(data, facts),
        )
        facts = replace(facts, warnings=(*facts.warnings, *odd))
    facts = replace(facts, tested={})
    # Only symbols that are not computed get tables.
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
        source, theory, facts, fixed.to(device), every.to(device), train.to(device),
        None if test is None else test.to(device),
        None if watched is None else watched.to(device), parts, counted,
    )  # fmt: skip


def checked(source: Theory, config: Config) -> CheckedTheory:
    """Check a theory; what networks, definitions and presence use also counts as used.

    Raises:
        CheckError: something in it does not fit.
    """
    grouped = (n for g in config.groups for n in g.predicates)
    there = (n for wide in config.data.wide for n in wide.presence)
    used = {*config.predicates, *config.functions, *grouped, *there}
    for formula in (p.formula for p in config.predicates.values() if p.formula):
        with suppress(ParseError):  # reported later, when the definition is built
            used |= _names_in(parse_formula(formula))
    return check(source, used=used)


def _names_in(formula: f.Formula) -> set[str]:
    """Return the names of predicates, functions, relations and entities."""
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
    """Return the traces for training, validation and testing, if a table assigns them."""
    split = config.data.split
    if split is None:
        return {}
    file = config.table(split.file)
    return read_groups(
        file, trace=split.trace, column=split.column, words=split.words, traces=traces
    )


def computed(config: Config, signature: Signature) -> tuple[str, ...]:
    """Return the predicates that networks or formulas compute; facts about them are labels."""
    named = {n for n, p in config.predicates.items() if p.kind != "facts"}
    named |= {n for group in config.groups for n in group.predicates}
    return tuple(n for n in signature.predicates if n in named)


def wide_table(wide: WideConfig, source: Source, optional: Collection[str] = ()) -> Wide:
    """Return a wide table as a project describes it."""
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
                message = f"the project mentions the unknown {kind} '{path[-1]}'"
                raise config.error(path, message, hint)


def _check_values(config: Config, facts: Facts) -> None:
    """Raise an error for values of computed functions, because the loss has no term for them."""
    for name in config.functions:
        if name in facts.rows:
            raise config.error(
                ("functions", name),
                f"the function '{name}' is computed, but the data state values of it",
                "state them as another function, and add an axiom that says where both "
                f"are equal: forall x where Known(x). G({name}(x) = measured(x))",
            )


# --- what is odd ----------------------------------------------------------------------------


def without_say(config: Config, theory: CheckedTheory) -> Iterator[Diagnostic]:
    """Yield a warning for axioms that exclude no world, because traces end before they fail."""
    if config.method != "posterior" or config.end == "final":
        return
    defined = definitions_in(theory, [*config.predicates]).by_name.values()
    both = {name for one in defined for name in one.axioms}  # both directions say what holds
    if names := [x.name for x in theory.axioms if x.name not in both and never_fails(x.formula)]:
        verb = "says" if len(names) == 1 else "say"
        yield warning(
            f"{listing(names, 20)} {verb} nothing about worlds: what has not come by the end of a "
            "trace may still come",
            hint='set a limit, such as F[<=5], or write end = "final" in [theory] if nothing comes '
            "after the end",
        )


# --- what is stated ----------------------------------------------------------------------------


def stated_tables(world: World, grounding: Grounding, dtype: torch.dtype) -> Tables:
    """Return tables of the stated facts; others are false, and of learned predicates possible.

    A defined predicate without stated facts is computed by its formula. Python functions of the
    data are computed as for networks, and computed functions have their present values.
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
    """Return the device to compute on.

    Raises:
        DataError: there is no such device here.
    """
    try:
        device = torch.device(config.device)
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        first = str(error).splitlines()[0][:200]
        if first.startswith("Expected one of"):  # followed by all devices that PyTorch knows
            first = "there is no device of that name"
        message = f"the device '{config.device}' cannot be used: {first}"
        raise config.error(("machine", "device"), message) from None
    return device


@contextmanager
def in_precision(config: Config) -> Iterator[None]:
    """Use a project's precision as PyTorch's default, so the same numbers are drawn everywhere."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, config.dtype))
    try:
        yield
    finally:
        torch.set_default_dtype(before)
