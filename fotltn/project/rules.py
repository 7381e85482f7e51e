"""The rules of a project, or of a theory with facts, counted on data alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fotltn.analysis.rules import Rule, rules
from fotltn.analysis.truncation import End
from fotltn.data import stated
from fotltn.decisions import DecisionRule, rule_of
from fotltn.errors import DataError, Diagnostic, listing, name_hint
from fotltn.grounding.clock import Clock
from fotltn.grounding.frames import Source
from fotltn.logic.check import CheckedAxiom, CheckedTheory, check, check_formula
from fotltn.logic.signature import Signature
from fotltn.plan.build import BUDGET
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.model import Model, model_of
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula


@dataclass(frozen=True, slots=True, eq=False)
class StatedTheory:
    """A theory with what is stated: what rules are counted on.

    Args:
        theory: the rules.
        tables: what is stated of all predicates; what is not stated is false.
        parts: the traces for "train", "validation" and "test", if the project says which.
        fact_warnings: what is odd in the facts.
        end: whether cells that fail only since their trace ends are undecided, or false.
        rule: how what a model predicts was decided, if that is what is stated.
    """

    theory: CheckedTheory
    tables: Tables
    parts: Mapping[str, tuple[int, ...]]
    fact_warnings: tuple[Diagnostic, ...]
    end: End = "undecided"
    rule: DecisionRule | None = None

    def rules(
        self,
        formulas: Sequence[str] = (),
        *,
        part: str | None = None,
        semantics: Semantics = CRISP,
        threshold: float | None = None,
        resamples: int = 2000,
        seed: int = 0,
        budget: int = BUDGET,
        end: End | None = None,
    ) -> Iterator[Rule]:
        """Count the axioms, or formulas in their place, one after the other.

        Args:
            formulas: closed ones over the symbols of the theory.
            part: of the traces, by name; None for all.
            semantics: as of `fotltn.analysis.rules.rules`, like the other arguments.
            threshold: the degree from which on a fact is true; without, what the tables'
                decisions say.
            resamples: how often traces are drawn anew, for the intervals.
            seed: of these draws.
            budget: bytes that intermediate results may take.
            end: of traces, other than the project's.

        Raises:
            FotError: a formula is wrong, or there is no such part.
        """
        signature = self.theory.signature
        axioms = [_rule(text, signature) for text in formulas] or list(self.theory.axioms)
        traces = self._traces(part)
        return (
            rules(
                [axiom], self.tables, traces=traces, semantics=semantics, threshold=threshold,
                resamples=resamples, seed=seed, budget=budget, end=end or self.end,
            )[0]
            for axiom in axioms
        )  # fmt: skip

    def _traces(self, part: str | None) -> tuple[int, ...] | None:
        if part is None:
            return None
        if part not in self.parts:
            hint = name_hint(part, self.parts)
            if not self.parts:
                hint = "the project has no [data.split]"
            raise DataError(f"there is no part '{part}' of the traces; {hint}")
        if not self.parts[part]:
            raise DataError(f"no trace is for '{part}'")
        return self.parts[part]


def load_project(
    project: Path | str, *, data: Path | str | None = None, theory: Path | str | None = None
) -> StatedTheory:
    r"""The theory of a project, and its facts as tables, those kept for testing included.

    Args:
        project: its folder, or its file.
        data: a folder with its tables, in place of its own.
        theory: a file with rules, in place of its own.

    Raises:
        FotError: something of the project is wrong.

    >>> import pathlib, fotltn as fot
    >>> folder = pathlib.Path("cars")
    >>> folder.mkdir()
    >>> theory = fot.parse("sort car\npredicate Stop(car)\naxiom A: forall x. F Stop(x)")
    >>> fot.save(theory, folder / "cars.fot")
    >>> _ = (folder / "facts.csv").write_text("predicate,arg1,time\nStop,ego,2\n")
    >>> settings = 'theory.file = "cars.fot"\ndata.facts = ["facts.csv"]'
    >>> _ = (folder / "project.toml").write_text(settings)
    >>> project = fot.load_project(folder)
    >>> project.tables.names.entities, [axiom.name for axiom in project.theory.axioms]
    ({'car': ('ego',)}, ['A'])
    """
    folder = None if data is None else Path(data)
    config = replace(read_config(Path(project), data=folder), dtype="float64")
    if theory is not None:
        file = Path(theory)
        config = replace(config, theory=str(file.absolute()), roots=(file.parent, *config.roots))
    if config.functions:
        raise DataError(
            Diagnostic(
                f"rules are counted on data alone, but the project learns the function "
                f"{listing(config.functions)}",
                hint=f"count them on what the model predicts: fotltn rules {config.model_path()}",
            )
        )
    built = build(config)
    world = built.world
    warnings = world.facts.warnings
    return StatedTheory(world.theory, model_of(built).truth, world.parts, warnings, config.end)


def of_model(model: Model, *, threshold: float | None = None) -> StatedTheory:
    """The rules of a model on what it predicts to be true."""
    tables = model.decided(threshold=threshold)
    rule = rule_of(model.tables, threshold)
    return StatedTheory(model.theory, tables, {}, (), model.config.end, rule)


def of_facts(
    theory: Path,
    facts: Iterable[Source],
    *,
    horizon: int | None = None,
    presence: Sequence[str] = (),
    clock: Clock | None = None,
) -> StatedTheory:
    """The rules of a theory on tables of facts.

    Args:
        theory: its file.
        facts: the tables.
        horizon: the number of time points of every trace.
        presence: predicates of one entity that say where it is present.
        clock: what times are; without it, whole numbers from 0.

    Raises:
        FotError: a file is missing or wrong, or a predicate is none that says so.
    """
    checked = check(load_theory(theory))
    read, tables = stated(checked, facts, horizon=horizon, presence=presence, clock=clock)
    return StatedTheory(checked, tables, {}, read.warnings)


def _rule(text: str, signature: Signature) -> CheckedAxiom:
    source = parse_formula(text, source="--formula")
    checked = check_formula(source, signature)
    if checked.free:
        names = listing([axis.name for axis in checked.free])
        raise DataError(f"a rule has no free variables, but '{text}' has {names}; bind them")
    return CheckedAxiom(text, checked.formula, 1.0, source)
