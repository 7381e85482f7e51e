"""`fotltn plan`: how the engine will evaluate a theory, and what that will cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.options import At, Budget, Exponent, Json, SemanticsName
from fotltn.cli.output import as_bytes, emit_json, time_point, warn
from fotltn.errors import DataError, name_hint
from fotltn.format import duration, size
from fotltn.logic import core as c
from fotltn.logic.check import check as check_theory
from fotltn.logic.signature import Signature
from fotltn.plan.explain import as_dict
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.semantics.config import semantics_of
from fotltn.syntax.load import load_theory

if TYPE_CHECKING:
    from fotltn.plan.work import Kind
    from fotltn.project.build import Built


def plan(
    theory: Annotated[
        Path, typer.Argument(help="A theory file (.fot); or a project, to plan its training.")
    ],
    posterior: Annotated[
        bool,
        typer.Option("--posterior", help="For a project: plan as if its method were posterior."),
    ] = False,
    counts: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="<str>",
            help="The number of entities of a sort or tuples of a relation: agent=10000.",
        ),
    ] = None,
    horizon: Annotated[int, typer.Option("--horizon", help="Time points.", min=1)] = 100,
    traces: Annotated[
        int, typer.Option("--traces", help="The number of traces in a batch.", min=1)
    ] = 1,
    facts: Annotated[
        list[str] | None,
        typer.Option(
            "--facts",
            metavar="<str>",
            help="A predicate given as that many facts: Close=20000000.",
        ),
    ] = None,
    semantics: SemanticsName = "stable-product",
    p: Exponent = None,
    at: At = "0",
    budget: Budget = "4G",
    double: Annotated[
        bool, typer.Option("--double", help="Use numbers of 8 bytes, as eval does, instead of 4.")
    ] = False,
    timed: Annotated[
        bool,
        typer.Option(
            "--time", help="Also estimate the time, by a short measurement of this machine."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show how the engine would evaluate a theory, and at what cost.

    The plan lists the steps of each axiom: axes, route and reason, FLOPs, bytes, compared with
    dense evaluation. Two-valued logic follows rows of facts, without steps. Nothing is evaluated. A
    plan that cannot fit the budget is refused, with the bytes that it would need. For a project
    that learns by gradients, the plan says what a step costs, alone and with several processes. For
    a project that samples a posterior, it says what is drawn, lists the tracks with the states of
    their automata, says what ties tracks together and by which route, and what a sweep costs.
    """
    if posterior or theory.suffix == ".toml" or theory.is_dir():
        if counts or facts:
            raise DataError("a project's data say how much there is: leave out --size and --facts")
        _plan_project(theory, posterior=posterior, timed=timed, as_json=as_json)
        return
    meaning = semantics_of(semantics, p)
    checked = check_theory(load_theory(theory))
    sizes = _sizes(
        checked.signature, counts or [], facts or [], horizon, traces, 8 if double else 4
    )
    time = time_point(at, horizon)
    formulas = {a.name: a.formula for a in checked.axioms}
    room = as_bytes(budget)
    if meaning.boolean:
        text, shown, done = _by_rows(formulas, checked.signature, sizes, room)
    else:
        from fotltn.engine import planned
        from fotltn.plan.work import work

        made = planned(formulas, checked.signature, meaning, sizes, at=time, budget=room)
        text, shown, done = made.explain(), as_dict(made), work(made)
    seconds = _seconds(done, boolean=meaning.boolean) if timed else None
    if as_json:
        start = {"ok": True, "theory": str(theory), "semantics": meaning.name}
        emit_json({**start, **shown, "seconds": seconds})
        return
    print(text)
    if seconds is not None:
        words = {"values": "", "with_gradients": " with gradients"}
        each = [f"{duration(number)}{words[name]}" for name, number in seconds.items()]
        print(f"About {', '.join(each)}, on the processor of this machine")


def _seconds(done: Mapping[Kind, int], *, boolean: bool) -> dict[str, float]:
    """Measure how long work takes here: for values alone and, if there are any, with gradients."""
    from fotltn.plan.work import measured

    machine = measured()
    values = machine.time(done, gradients=False)
    if boolean:
        return {"values": values}
    return {"values": values, "with_gradients": machine.time(done, gradients=True)}


def _plan_project(path: Path, *, posterior: bool, timed: bool, as_json: bool) -> None:
    """Print what a project costs: a step of training, or the sampling of its worlds."""
    from dataclasses import replace

    from fotltn.project.build import build, build_from_disk
    from fotltn.project.config import read_config
    from fotltn.project.step_plan import step_plan

    config = read_config(path)
    if posterior:
        config = replace(config, method="posterior")
    built = build(config) if config.data.prepared is None else build_from_disk(config)
    if built.config.method == "posterior":
        _plan_sampling(path, built, timed=timed, as_json=as_json)
        return
    made = step_plan(built, timed=timed)
    if as_json:
        emit_json({"ok": True, "project": str(path), "method": "gradient", **made.as_dict()})
        return
    warn(built.world.facts.warnings)
    print(", ".join(filter(None, ["learns by gradients", built.chosen])))
    for line in made.explain():
        print(line)


def _plan_sampling(path: Path, built: Built, *, timed: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from fotltn.posterior.plan import explain, plan_of, seconds_of
    from fotltn.posterior.run import sampler_of
    from fotltn.project.problem import problem_of
    from fotltn.project.sensing import network_plan

    sampler = sampler_of(problem_of(built))
    made, networks = plan_of(sampler), network_plan(built)
    seconds = seconds_of(sampler) if timed else None
    if as_json:
        seen = None if networks is None else asdict(networks)
        plan = {**made.as_dict(), "networks": seen}
        emit_json({"ok": True, "project": str(path), **plan, "seconds": seconds})
        return
    warn(built.world.facts.warnings)
    if built.chosen:
        print(f"samples worlds, {built.chosen}")
    for line in explain(made):
        print(line)
    if networks is not None:
        print(networks)
    if seconds is not None:
        without = "" if networks is None else ", without networks"
        print(f"About {duration(seconds)}, on this machine{without}")


def _by_rows(
    formulas: dict[str, c.Formula], signature: Signature, sizes: Sizes, budget: int
) -> tuple[str, dict[str, object], Counter[Kind]]:
    """Return the cost of two-valued logic for each axiom: as text, as data, and as work."""
    from fotltn.plan.rows import row_cost

    static = [name for name, decl in signature.predicates.items() if decl.static]
    costs = {name: row_cost(formula, sizes, static=static) for name, formula in formulas.items()}
    most = max((cost.peak for cost in costs.values()), default=0)
    lines = [f"{name}: by rows of facts, about {size(cost.peak)}" for name, cost in costs.items()]
    last = (
        "Two-valued logic follows the facts. If these are spread at random, it "
        f"needs about {size(most)} "
        f"of intermediate results (budget {size(budget)})"
    )
    roots = [{"name": name, "step": None, "peak_bytes": cost.peak} for name, cost in costs.items()]
    shown = {"roots": roots, "steps": [], "peak_bytes": most, "budget_bytes": budget}
    done = sum((cost.work for cost in costs.values()), Counter["Kind"]())
    return "\n".join([*lines, "", last]), shown, done


def _sizes(
    signature: Signature, size: list[str], facts: list[str], horizon: int, traces: int, width: int
) -> Sizes:
    sizes = _numbers("--size", size, [*signature.sorts, *signature.relations])
    missing = [s for s in signature.sorts if s not in sizes]
    if missing:
        raise DataError(
            f"--size {missing[0]}=… is needed, because nothing else says how many there are"
        )
    counted = _numbers("--facts", facts, signature.predicates)
    sparse = {
        name: Sparse(number, temporal=not signature.predicates[name].static, crisp=True)
        for name, number in counted.items()
    }
    relations = {name: sizes.get(name, 0) for name in signature.relations}
    return Sizes(sizes, horizon, traces, relations, sparse, width=width)


def _numbers(option: str, items: list[str], names: Collection[str]) -> dict[str, int]:
    numbers = {}
    for item in items:
        name, _, number = item.partition("=")
        if name not in names:
            hint = name_hint(name, names)
            raise DataError(f"{option} {item}: '{name}' is not declared; {hint}")
        if not re.fullmatch(r"(?=.{1,24}$)[0-9]+(_[0-9]+)*", number):
            raise DataError(f"{option} takes NAME=NUMBER, not '{item[:40]}'")
        numbers[name] = int(number)
    return numbers
