"""Sentences about the paper's claims, each computed from the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reproduction.paper import published
from reproduction.report.compare import (
    Domination,
    UpTo,
    beats_up_to,
    cells,
    compare,
    contests,
    data_sets,
    dominates,
    means,
    published_up_to,
)
from reproduction.report.records import Record
from reproduction.report.render import Table, number, percent, row


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, what the paper found, what these runs show, and whether they agree."""

    text: str
    paper: str
    here: str
    agrees: bool


def claims(records: Sequence[Record]) -> tuple[Claim, ...]:
    """Return the paper's claims that these runs can test."""
    a, _ = published.TESTED
    kb_sat = dominates(means(records, "kb_sat"), a)
    scarce = {k: m for k, m in means(records, "pr_auc").items() if k[2] <= published.LARGEST_UP_TO}
    largest = dominates(scarce, a)
    listed = _beaten(records)
    if largest.cells:
        until = percent(published.LARGEST_UP_TO)
        text = f"{a} has the largest mean PR-AUC at all fractions up to {until}"
        listed.append(Claim(text, "yes", _everywhere(largest), largest.everywhere))
    if kb_sat.cells:
        text = f"{a} has the largest mean KB-SAT everywhere"
        listed.append(Claim(text, "yes", _everywhere(kb_sat), kb_sat.everywhere))
    return (*listed, *_ratios(records))


def _beaten(records: Sequence[Record]) -> list[Claim]:
    """Test where FOT-LTN+BK beats HTGNN: the claim of section 5.3, and each row of Table 4."""
    a, b = published.TESTED
    contested = contests(records)
    scarce = [one for one in contested if one.fraction <= published.BEATEN_UP_TO]
    listed = []
    if scarce:
        won = sum(one.won for one in scarce)
        yes = won == len(scarce)
        text = (
            f"{a} beats {b} significantly at all fractions up to {percent(published.BEATEN_UP_TO)}"
        )
        here = f"{'yes' if yes else 'no'}, in {won} of {len(scarce)} cells"
        listed.append(Claim(text, "yes", here, yes))
    theirs = published_up_to()
    for data, ours in beats_up_to(contested).items():
        if paper := theirs.get(data):
            text = f"On {data}, {a} beats {b} significantly"
            tested = set(ours.tested)
            agrees = set(ours.won) == set(paper.won) & tested and not ours.lost
            listed.append(Claim(text, _up_to(paper, a, b), _up_to(ours, a, b), agrees))
    return listed


def _up_to(reach: UpTo, a: str, b: str) -> str:
    if reach.fraction is None:
        text = "not from the start"
    elif reach.won == reach.tested:
        text = f"at every fraction, up to {percent(reach.fraction)}"
    else:
        text = f"up to {percent(reach.fraction)}"
    later = [f for f in reach.won if reach.fraction is None or f > reach.fraction]
    if later:
        text += f"; {a} also wins at {_list(later)}"
    if reach.lost:
        text += f"; {b} wins at {_list(reach.lost)}"
    return text


def _everywhere(result: Domination) -> str:
    won = result.cells - len(result.beaten)
    return f"{'yes' if result.everywhere else 'no'}, in {won} of {result.cells} cells"


def _ratios(records: Sequence[Record]) -> list[Claim]:
    """Compare HTGNN's parameters with FOT-LTN's."""
    sizes = {(r.data, r.method): r.parameters for r in records if r.parameters}
    listed = []
    for data, paper in published.PARAMETER_RATIO.items():
        a, b = (sizes.get((data, method)) for method in published.TESTED)
        if a and b:
            text = f"HTGNN's parameters on {data}, as a multiple of FOT-LTN's"
            listed.append(Claim(text, f"{paper:.2f}", f"{b / a:.2f}", round(b / a, 2) == paper))
    return listed


def claims_table(records: Sequence[Record]) -> Table:
    """Return the claims as a table."""
    lines = tuple(
        row(one.text, one.paper, one.here, "yes" if one.agrees else "no") for one in claims(records)
    )
    return Table("Claims", ("Claim", "Paper", "Here", "Agrees"), (lines,) if lines else (), stubs=4)


def tolerance_table(records: Sequence[Record]) -> Table:
    """Count the cells of Table 3 that are close enough to the paper's, by method."""
    groups = []
    for metric, name in published.METRICS.items():
        lines = []
        for method in published.METHODS:
            chosen = [c for c in compare(records, metric) if c.method == method and c.paper]
            if not chosen:
                continue
            within = sum(c.within for c in chosen)
            furthest = max(chosen, key=lambda c: abs(c.difference))
            mean = sum(abs(c.difference) for c in chosen) / len(chosen)
            lines.append(
                row(
                    name,
                    method,
                    number(published.tolerance(method), 2),
                    f"{within} of {len(chosen)}",
                    number(mean),
                    f"{number(furthest.difference, sign=True)} "
                    f"({furthest.data}, {percent(furthest.fraction)})",
                )
            )
        groups.append(tuple(lines))
    head = ("Metric", "Method", "Tolerance", "Cells within", "Mean distance", "Furthest")
    return Table("Distance from the paper", head, tuple(g for g in groups if g), stubs=2)


def missed(records: Sequence[Record]) -> tuple[str, ...]:
    """Return a sentence for each method and data set with cells beyond the tolerance."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for metric, name in published.METRICS.items():
        for c in compare(records, metric):
            if not c.within:
                where = f"{percent(c.fraction)} ({number(c.difference, sign=True)})"
                places.setdefault((name, c.method, c.data), []).append(where)
    return tuple(
        f"{name} of {method} on {data}: {', '.join(cells)}."
        for (name, method, data), cells in places.items()
    )


def above_truth(records: Sequence[Record], truth: Mapping[str, float]) -> tuple[str, ...]:
    """Say where a method of the paper satisfies the axioms better than the truth does."""
    summaries = cells(records, "kb_sat")
    sentences = []
    for data in data_sets(records):
        for method in published.METHODS:
            where = sorted(
                f for (d, m, f), s in summaries.items()
                if (d, m) == (data, method) and data in truth and s.mean > truth[data]
            )  # fmt: skip
            if where:
                sentences.append(
                    f"On {data}, the mean KB-SAT of {method} is above the KB-SAT of the truth, "
                    f"{number(truth[data])}, at {_list(where)}."
                )
    return tuple(sentences)


def _list(shares: Sequence[float]) -> str:
    shown = [percent(share) for share in shares]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
