"""Functions on a theory with data, or on a model: values, cells, audit, rules, report, pages."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import torch
from torch import Tensor

from fotltn.analysis.truncation import End
from fotltn.analysis.view import View
from fotltn.arguments import AnyPath, names_of, public
from fotltn.data import AnyFacts, is_by_name, tables_of
from fotltn.errors import DataError, SemanticsError, missing
from fotltn.evaluation import (
    Evaluator,
    Time,
    defined,
    evaluate_core,
    over_traces,
    present,
    time_point,
)
from fotltn.logic.check import (
    CheckedAxiom,
    CheckedFormula,
    CheckedTheory,
    check,
    check_formula,
)
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import (
    CRISP,
    STABLE_PRODUCT,
    Semantics,
    check_threshold,
    semantics_of,
)
from fotltn.semantics.from_tensors import tables_of_tensors
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import AnyTheory
from fotltn.syntax.parse import AnyFormula, formula_of
from fotltn.syntax.theory import Axiom, Theory
from fotltn.threads import entries, entry

if TYPE_CHECKING:
    from fotltn.analysis.audit_data import Audit
    from fotltn.analysis.cells import Cells
    from fotltn.analysis.rules import Rule
    from fotltn.project.find import AnyModel
    from fotltn.web.serve import Address
    from fotltn.web.sides import Side


class OldOptions(TypedDict, total=False):
    """Arguments that `evaluate` keeps from version 0.1.0, which `fotltn.tables` has now."""

    lengths: Any
    functions: Any
    relations: Any
    constants: Any
    features: Any
    horizon: Any


@entry
@public
def evaluate(
    formula: AnyFormula,
    data: AnyFacts,
    *,
    theory: AnyTheory | None = None,
    semantics: str | Semantics = STABLE_PRODUCT,
    p: float | None = None,
    at: Time = 0,
    threshold: float | None = None,
    log: bool = False,
    budget: int = BUDGET,
    engine: bool = True,
    **old: Unpack[OldOptions],
) -> Tensor:
    """Evaluate a formula on data; the result is differentiable with respect to the tables.

    Args:
        formula: text, a formula, or an axiom of a theory. Free variables become axes of the result.
        data: tables, as `fotltn.read` and `fotltn.tables` return them. Or, for a formula on one
            trace without a theory, a tensor (or array, or nested list) of degrees for each
            predicate, of shape `(*arguments, time)`, or `(*arguments,)` if time does not matter.
            Or, with a theory, facts as `fotltn.read` takes them.
        theory: the declarations of the predicates, if the data are no tables.
        semantics: a `Semantics`, or its name.
        p: another exponent for its means.
        at: a time point, or "all" for an axis of time at the end.
        threshold: for the crisp semantics, the smallest degree that counts as true. Tables of a
            model need none, because the model has thresholds.
        log: return logarithms of degrees; under a log-space semantics, they do not underflow.
        budget: bytes that intermediate results may take.
        engine: False follows the equations step by step, on every combination of entities and
            time. The values are the same up to rounding.
        old: `lengths`, `functions`, `relations`, `constants`, `features` and `horizon`, which are
            now arguments of `fotltn.tables`.

    Returns:
        A tensor of shape `(trace, *variables, time)`. The free variables are in order of
        appearance, a single trace has no axis, and time has one with `at="all"` only. Points
        beyond the end of a trace, and those at which an entity is absent that the formula needs,
        are NaN, or False if crisp.

    Raises:
        LimitError: the formula does not fit the budget.

    >>> import fotltn as fot
    >>> fot.evaluate("F p", {"p": [0.2, 0.6, 0.4]}, semantics="godel")
    tensor(0.6000)
    """
    meaning = semantics_of(semantics, p)
    check_threshold(threshold, meaning)
    if log and meaning.boolean:
        raise SemanticsError("Boolean truth has no logarithm")
    checked, tables = _on(formula, data, theory, cast("Mapping[str, Any]", old))
    point = None if isinstance(at, str) and at == "all" else time_point(at, tables)
    value = evaluate_core(
        checked.formula, tables, meaning, at=point, threshold=threshold, log=log, budget=budget,
        engine=engine,
    )  # fmt: skip
    # Copy it: the value of an atom is its table, which the caller must not overwrite.
    when: Time = "all" if point is None else point
    result = present(value, checked.free, tables, at=when, batched=not tables.single)
    if (where := defined(checked.formula, tables, budget)) is None:
        return result.clone()
    counts = present(where, checked.free, tables, at=when, batched=not tables.single)
    return torch.where(counts, result, False if meaning.boolean else torch.nan)


def _on(
    formula: AnyFormula, data: AnyFacts, theory: AnyTheory | None, old: Mapping[str, Any]
) -> tuple[CheckedFormula, Tables]:
    """Check a formula against data; return it with the data as tables."""
    parsed = formula_of(formula)
    known = None if theory is None else check(theory)
    if old:
        warnings.warn(
            f"evaluate(…, {next(iter(old))}=…) is deprecated: build the data with "
            "fotltn.tables(theory, …)",
            DeprecationWarning,
            stacklevel=4,
        )
    if not is_by_name(data):
        if old:
            raise DataError(
                f"'{next(iter(old))}' cannot be combined with tables, which already have it"
            )
        tables = tables_of(data, known)
        return check_formula(parsed, tables.signature), tables
    signature = None if known is None else known.signature
    constants = () if signature else tuple(old.get("constants") or ())
    checked = check_formula(parsed, signature, constants=constants)
    return checked, tables_of_tensors(
        checked.signature, data, used=checked.formula, declared=known is not None, **old
    )


@entry
@public
def cells(
    formula: AnyFormula,
    data: AnyFacts,
    *,
    theory: AnyTheory | None = None,
    semantics: str | Semantics | None = None,
    p: float | None = None,
    threshold: float | None = None,
    end: End | None = None,
) -> Cells:
    r"""Evaluate a formula at every binding and time.

    Use it to find the worst cells of a formula, count its violations, explain a value or look for
    a repair.

    Args:
        formula: an axiom of a theory, a formula or its text, or the name of an axiom of the theory
            or of a model.
        data: tables; a model, or the path of its folder or project; degrees by predicate, as in
            `evaluate`; or, with a theory, facts as `fotltn.read` takes them.
        theory: the declarations of the predicates, if the data are facts, and the axioms.
        semantics: the semantics; by default, that of the model, or "stable-product".
        p: another exponent for the means of the semantics.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's, or 0.5.
        end: how to treat cells that fail only because their trace ends: "undecided", or "final" if
            they are violations; by default, as the model's project says, or "undecided".

    Raises:
        FotError: the formula does not fit the data.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 1.0, 0.0], Stop=[0.0, 1.0, 0.5])
    >>> worst = fot.cells(theory["Obey"], data).worst(1)[0]
    >>> worst.time, round(worst.value, 2)
    (1, 0.5)
    """
    view = _view(formula, data, theory).under(
        semantics=semantics, p=p, threshold=threshold, end=end
    )
    if isinstance(formula, str) and formula in {axiom.name for axiom in view.theory.axioms}:
        return view.cells(formula)
    signature = view.tables.signature
    checked = check_formula(formula, signature)
    if isinstance(formula, Axiom | CheckedAxiom):
        source = formula_of(formula)
        axiom = CheckedAxiom(formula.name, checked.formula, formula.weight, source, formula.hard)
        return view.cells(axiom)
    return view.cells(checked)


def _view(formula: AnyFormula, data: AnyFacts, theory: AnyTheory | None) -> View:
    """Return data as a view: of a model, of a theory with facts, or of tables alone."""
    if isinstance(data, View):
        return data
    if not isinstance(data, Tables | Mapping):
        from fotltn.project.find import is_kept, model_at

        if is_kept(data):
            return model_at(data).view()
    if theory is None:
        tables = data if isinstance(data, Tables) else _on(formula, data, None, {})[1]
        return View(tables)
    known = check(theory)
    return View(tables_of(data, known), theory=known)


@entries
class CompiledTheory:
    """The axioms of a theory, planned once for many evaluations.

    Args:
        theory: the axioms.
        data: the tables to plan for; later tables may have other degrees.
        semantics: the semantics of the axioms.
        budget: the bytes that intermediate results may use.
        backend: a backend of PyTorch's compiler, to fuse steps; None to run step by step.
    """

    def __init__(
        self,
        theory: CheckedTheory,
        data: Tables,
        semantics: Semantics,
        budget: int = BUDGET,
        backend: str | None = None,
    ) -> None:
        """Plan for the data."""
        self.semantics = semantics
        formulas = {axiom.name: axiom.formula for axiom in theory.axioms}
        self._evaluator = Evaluator(formulas, semantics, 0, budget, backend)
        self(data)

    def __call__(self, data: Tables) -> dict[str, Tensor]:
        """Return the degree of each axiom over all traces, with gradients to the tables."""
        degrees = over_traces(self._evaluator.by_trace(data), self.semantics)
        return dict(zip(self._evaluator.formulas, degrees, strict=True))

    @property
    def plan(self) -> str:
        """The plan as text: what is computed, by which route and why, and at what cost."""
        return self._evaluator.explain()


@entry
@public
def compile(
    theory: AnyTheory,
    data: AnyFacts,
    *,
    semantics: str | Semantics = STABLE_PRODUCT,
    p: float | None = None,
    budget: int = BUDGET,
    backend: str | None = None,
) -> CompiledTheory:
    r"""Plan the axioms of a theory for data, to evaluate them many times at low cost.

    Use it in your own training loop, where axioms are evaluated again and again on new degrees.

    Args:
        theory: the axioms: a theory, its file or its text.
        data: the tables to plan for, or facts as `fotltn.read` takes them.
        semantics: the semantics of the axioms.
        p: another exponent for the means of the semantics.
        budget: the bytes that intermediate results may use.
        backend: a backend of PyTorch's compiler, such as "inductor", to fuse steps; this needs a
            C++ compiler, and takes a minute. By default, plans run step by step.

    Raises:
        LimitError: an axiom does not fit the budget; the message names it.
        SemanticsError: a step of the plan cannot be fused.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Stop\naxiom A: F Stop")
    >>> step = fot.compile(theory, fot.tables(theory, Stop=[0.0, 1.0, 1.0]), semantics="godel")
    >>> step(fot.tables(theory, Stop=[0.0, 0.5, 0.25]))
    {'A': tensor(0.5000)}
    """
    meaning = semantics_of(semantics, p)
    known = check(theory)
    return CompiledTheory(known, tables_of(data, known), meaning, budget, backend)


@entry
@public
def audit(
    theory: AnyTheory | AnyModel,
    data: AnyFacts = None,
    *,
    learned: Collection[str] | str = (),
    semantics: str | Semantics | None = None,
    p: float | None = None,
    threshold: float | None = None,
    end: End | None = None,
) -> Audit:
    r"""Measure how far each axiom holds on data, and what that is worth as evidence.

    Use it before you trust a high value: an axiom may hold only because its antecedent is never
    true, or because predictions that know nothing satisfy it as well.

    Args:
        theory: the axioms: a theory, its file or its text. Or, without data, a model, or the path
            of its folder or project, which has its own data.
        data: the tables, or facts as `fotltn.read` takes them.
        learned: predicates that are predictions rather than facts.
        semantics: the semantics of the axioms.
        p: another exponent for the means of the semantics.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's, or 0.5.
        end: how to treat ends of traces, as in `cells`.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 1.0, 0.0], Stop=[0.0, 1.0, 0.5])
    >>> found = fot.audit(theory, data)
    >>> [(str(finding.kind), finding.axiom) for finding in found.warnings]
    [('vacuous', None)]
    """
    if not isinstance(theory, Theory | CheckedTheory):
        from fotltn.project.find import is_kept, model_at

        if is_kept(theory):
            if data is not None:
                raise DataError("a model has its own data", hint="fotltn.audit(model.apply(data))")
            return model_at(theory).audit(threshold=threshold, end=end)
    known = check(theory)
    if data is None:
        raise DataError("an audit needs data: fotltn.audit(theory, data)")
    view = View(tables_of(data, known), theory=known, learned=tuple(names_of(learned)))
    return view.under(semantics=semantics, p=p, threshold=threshold, end=end).audit()


@entry
@public
def rules(
    theory: AnyTheory,
    data: AnyFacts,
    *,
    traces: Sequence[int] | None = None,
    semantics: str | Semantics = CRISP,
    threshold: float | None = None,
    resamples: int = 2000,
    seed: int = 0,
    end: End = "undecided",
) -> tuple[Rule, ...]:
    r"""Count how well each axiom holds as a rule: support, confidence, base rate, lift.

    Use it to see whether data support your rules before you train with them.

    Args:
        theory: the rules: a theory, its file or its text.
        data: the tables, or facts as `fotltn.read` takes them.
        traces: the numbers of the traces to count; None for all.
        semantics: "crisp" counts cells; others sum degrees.
        threshold: the smallest degree that counts as true; by default, the model's, or 0.5.
        resamples: how often to resample traces for the intervals; 0 for no intervals.
        seed: the seed of the resampling.
        end: how to treat ends of traces, as in `cells`; an undecided cell does not count as
            support.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 1.0, 0.0], Stop=[0.0, 1.0, 0.5])
    >>> rule = fot.rules(theory, data, resamples=0)[0]
    >>> rule.overall.support, rule.overall.confidence.value
    (2.0, 1.0)
    """
    known = check(theory)
    view = View(tables_of(data, known), threshold=threshold, end=end, theory=known)
    return tuple(view.rules(traces=traces, semantics=semantics, resamples=resamples, seed=seed))


@entry
@public
def report(
    model: AnyModel,
    path: AnyPath = "report.html",
    *,
    threshold: float | None = None,
    force: bool = False,
) -> Path:
    r"""Write the report of a model as one HTML file, and return its path.

    Use it to send results to others: the file opens offline, without fotltn.

    Args:
        model: the model, or the path of its folder or project.
        path: the file.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's, or 0.5.
        force: also replace a file that is not a report.

    Raises:
        DataError: the file cannot be written, or packages for reports are missing.

    >>> import fotltn as fot
    >>> theory = "sort car\npredicate Near(car), Stop(car)\naxiom A: forall x. F Stop(x)"
    >>> facts = {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 3]}
    >>> model = fot.train(theory, facts=facts, learn=["Stop"], training={"epochs": 2})
    >>> fot.report(model, "crossing.html").name
    'crossing.html'
    """
    from fotltn.project.find import model_at
    from fotltn.reporting.html import check_packages, check_place, write_page

    path = Path(path)

    check_packages()
    check_place(path, force=force)
    from fotltn.reporting.model_report import model_content, model_page

    content = model_content(model_at(model), path.stem, threshold=threshold)
    return write_page(model_page(content), path, force=force)


@entry
@public
def inspect(
    model: AnyModel,
    *,
    port: int | None = None,
    threshold: float | None = None,
    end: End | None = None,
) -> None:
    r"""Serve pages to explore a model in a browser, until Ctrl-C.

    Args:
        model: the model, or the path of its folder or project.
        port: the port; by default, a free one.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's, or 0.5.
        end: how to treat ends of traces, as in `cells`.

    Raises:
        DataError: packages for the pages are missing, or the port is taken.

    >>> import fotltn as fot
    >>> theory = "sort car\npredicate Near(car), Stop(car)\naxiom A: forall x. F Stop(x)"
    >>> facts = {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 3]}
    >>> model = fot.train(theory, facts=facts, learn=["Stop"], training={"epochs": 2})
    >>> fot.inspect(model)  # doctest: +SKIP
    """
    from fotltn.project.find import model_at

    model = model_at(model)
    try:
        from fotltn.web.serve import new_token, serve
        from fotltn.web.sides import side_of
    except ImportError as error:
        raise missing("the inspector needs", str(error.name), "inspect") from None

    def say(_: object, address: Address) -> None:
        print(f"{address.url}\nStop with Ctrl-C.", flush=True)  # noqa: T201

    def read() -> list[Side]:
        return [side_of(model).under(threshold=threshold, end=end)]

    serve(read, port=port, token=new_token(), ready=say)
