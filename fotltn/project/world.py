"""What a project is about: its theory, names, facts and features, read from what it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from fotltn.errors import ParseError, did_you_mean, listing
from fotltn.grounding.dense import interpretation
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.frames import Source
from fotltn.grounding.groups import of_traces, read_groups
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import flip, split
from fotltn.grounding.wide import Wide, read_wide
from fotltn.logic.check import CheckedTheory, check
from fotltn.logic.signature import Signature
from fotltn.project.config import Config, WideConfig
from fotltn.project.data import argument
from fotltn.project.padding import unguarded
from fotltn.semantics.interpretation import Tables
from fotltn.syntax import formula as f
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.theory import Theory
from fotltn.tree import postorder


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """What a project is about: its theory, its facts, and tables of what is given.

    Args:
        source: the theory as it is written, with what it includes.
        theory: the theory, checked.
        facts: names of traces and entities, and all facts.
        features: by sort.
        given: tables of the predicates that are not computed, on the machine that computes.
        stated: all facts of computed predicates, as they are stated.
        labels: those for training, with the noise that was asked for.
        test: those for testing; None if there are none.
        watched: those to watch while training; None if there are none of their own.
        parts: the traces for "train", "validation" and "test", if a table says which these are.
    """

    source: Theory
    theory: CheckedTheory
    facts: Facts
    features: Mapping[str, Features]
    given: Tables
    stated: Labels
    labels: Labels
    test: Labels | None
    watched: Labels | None = None
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


#: A predicate that Python computes: a network, or a function of given tables and features.
Own = nn.Module | Callable[[Tables, Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """What comes with a project without being in its files.

    Args:
        theory: in place of the file that the project names.
        facts: data frames with further facts.
        wide: further wide tables.
        test: data frames with facts for testing.
        modules: predicates that modules or functions compute.
    """

    theory: Theory | None = None
    facts: tuple[Source, ...] = ()
    wide: tuple[Wide, ...] = ()
    test: tuple[Source, ...] = ()
    modules: Mapping[str, Own] = field(default_factory=dict)


NOTHING = InMemory()


def read_world(config: Config, more: InMemory = NOTHING) -> World:
    """Read theory and data.

    Raises:
        FotError: a file is missing or wrong, or parts do not fit together.
    """
    source = more.theory
    if source is None:
        source = load_theory(config.theory_path(), root=next(iter(config.roots), None))
    theory = checked(source, config)
    signature = theory.signature
    _check_names(config, signature)
    data = config.data
    dtype, device = getattr(torch, config.dtype), device_of(config)
    tables = [*(_wide(config, w) for w in data.wide), *more.wide]
    long: list[Source] = [*(config.table(f) for f in data.facts), *more.facts]
    if not long and not tables:
        raise config.error(("data",), "there are no facts to learn from", 'facts = ["facts.csv"]')
    tested: list[Source] = [*(config.table(f) for f in data.test), *more.test]
    facts, features = read_wide(
        tables, signature, facts=[*long, *tested], horizon=data.horizon, local=data.local,
        on_conflict=data.on_conflict, dtype=dtype,
    )  # fmt: skip
    known = [n for n in computed(config, signature) if n in facts.rows]
    every = labels(facts, signature, known, dtype=dtype)
    parts = _parts(config, facts)
    train, watched, test = every, None, None
    if tested:
        train, test = _by_files(config, every, facts, (tables, long, tested), signature)
    elif parts:
        train = of_traces(every, parts["train"])
        watched = of_traces(every, parts["validation"]) if "validation" in parts else None
        test = of_traces(every, parts["test"]) if "test" in parts else None
    if data.train < 1.0:
        train, rest = split(train, data.train, by=data.by, seed=data.seed, sort=data.sort)  # type: ignore[arg-type]
        test = test if parts else rest
    if data.flip:
        train, _ = flip(train, data.flip, data.seed)
    facts = replace(facts, warnings=(*facts.warnings, *config.strays(), *unguarded(theory, facts)))
    truth = interpretation(facts, signature, dtype=dtype, sparse=True)
    made = set(computed(config, signature))
    given = replace(truth, predicates={n: t for n, t in truth.predicates.items() if n not in made})
    return World(
        source, theory, facts, features, given.to(device), to_device(every, device),
        to_device(train, device), None if test is None else to_device(test, device),
        None if watched is None else to_device(watched, device), parts,
    )  # fmt: skip


def checked(source: Theory, config: Config) -> CheckedTheory:
    """The theory of a project, which also uses what networks and formulas compute, and these use.

    Raises:
        CheckError: something in it does not fit.
    """
    used = {*config.predicates, *(n for g in config.groups for n in g.predicates)}
    for formula in (p.formula for p in config.predicates.values() if p.formula):
        with suppress(ParseError):  # which is reported where the definition is made
            used |= _names_in(parse_formula(formula))
    return check(source, used=used)


def _names_in(formula: f.Formula) -> set[str]:
    """The names of predicates, functions, relations and entities."""
    names: set[str] = set()
    for node in postorder(formula):
        match node:
            case f.Atom(name) | f.Apply(name) | f.Const(name) | f.Var(name):
                names.add(name)
            case f.Forall(binders) | f.Exists(binders):
                names |= {b.relation for b in binders if isinstance(b, f.Paired)}
    return names


def _parts(config: Config, facts: Facts) -> dict[str, tuple[int, ...]]:
    """The traces to learn from, to watch and to test on, if a table says which these are."""
    given = config.data.split
    if given is None:
        return {}
    file = config.table(given.file)
    return read_groups(
        file, trace=given.trace, column=given.column, words=given.words, traces=facts.traces
    )


def computed(config: Config, signature: Signature) -> tuple[str, ...]:
    """The predicates that networks or formulas compute, so that facts about them are labels."""
    named = {n for n, p in config.predicates.items() if p.kind != "facts"}
    named |= {n for group in config.groups for n in group.predicates}
    return tuple(n for n in signature.predicates if n in named)


def _wide(config: Config, given: WideConfig) -> Wide:
    arguments = {c: [argument(a) for a in names] for c, names in given.arguments.items()}
    measures = {name: measured.measure() for name, measured in given.measures.items()}
    return Wide(
        config.table(given.file), given.sort, argument(given.entity), given.time, given.trace,
        given.predicates, arguments, given.features, given.categories, given.presence, measures,
    )  # fmt: skip


def _check_names(config: Config, signature: Signature) -> None:
    groups = [(f"exclusive[{i}]", n) for i, g in enumerate(config.groups, 1) for n in g.predicates]
    for kind, paths, known in (
        ("predicate", [("predicates", n) for n in config.predicates], signature.predicates),
        ("predicate", groups, signature.predicates),
        ("sort", [("inputs", n) for n in config.inputs], signature.sorts),
    ):
        for path in paths:
            if path[-1] not in known:
                hint = did_you_mean(path[-1], known) or f"the theory declares {listing(known)}"
                message = f"the project speaks of the unknown {kind} '{path[-1]}'"
                raise config.error(path, message, hint)


# --- facts for testing ------------------------------------------------------------------------


def _by_files(
    config: Config,
    every: Labels,
    facts: Facts,
    files: tuple[list[Wide], list[Source], list[Source]],
    signature: Signature,
) -> tuple[Labels, Labels]:
    """Facts to train on and to test on, by the files that state them.

    What is stated in both is for training. A static fact without a trace may be about traces that
    only the other files have; it stays with the file that states it.
    """
    tables, long, tested = files
    data = config.data

    def keys(sources: list[Source], wide: list[Wide]) -> dict[str, set[tuple[object, ...]]]:
        own, _ = read_wide(
            wide, signature, facts=sources, horizon=data.horizon, local=data.local,
            on_conflict=data.on_conflict,
        )  # fmt: skip
        found = labels(own, signature, [n for n in every.index if n in own.rows])
        return {n: set(_named(index, every.sorts[n], own)) for n, index in found.index.items()}

    training, testing = keys(long, tables), keys(tested, [])
    masks = {}
    for name, index in every.index.items():
        first, second = training.get(name, set()), testing.get(name, set())
        anywhere = {key[1:] for key in first}
        masks[name] = torch.tensor(
            [
                key in first or (key not in second and key[1:] in anywhere)
                for key in _named(index, every.sorts[name], facts)
            ],
            dtype=torch.bool,
        )
    return every.take(masks), every.take({n: ~m for n, m in masks.items()})


def _named(index: Tensor, sorts: Sequence[str], names: Facts) -> list[tuple[object, ...]]:
    """Facts by names, which are the same whatever else is read: trace, arguments, time."""
    return [
        (names.traces[trace], *map(names.name, sorts, [trace] * len(sorts), args), time)
        for trace, *args, time in index.T.tolist()
    ]


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


def to_device(given: Labels, device: torch.device) -> Labels:
    """Labels on a device."""
    return replace(
        given,
        index={n: t.to(device) for n, t in given.index.items()},
        truth={n: t.to(device) for n, t in given.truth.items()},
    )
