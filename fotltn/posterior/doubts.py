"""Labels that are probably wrong, and the evidence against them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from fotltn.analysis.record import Record
from fotltn.errors import DataError, name_hint
from fotltn.format import degree
from fotltn.grounding.labels import Labels
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.ground import atom_text, told
from fotltn.posterior.objections import Objections, objections
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.structure import Structure
from fotltn.syntax.notebook import bar, table

#: A label is certain if it is wrong with a smaller probability than this.
_CERTAIN = 1e-9


@dataclass(frozen=True, slots=True)
class Doubt(Record):
    """A label, and the probability that it is wrong.

    Args:
        text: the labelled fact.
        predicate: its predicate.
        trace: the number of its trace.
        arguments: the numbers of its entities.
        time: its time; None if it is static.
        says: the truth that the label states.
        wrong: the probability that the label is wrong, given all labels and axioms.
        others: the same probability without the label itself; None for a certain label, which no
            sampled world contradicts.
    """

    text: str
    predicate: str
    trace: int
    arguments: tuple[int, ...]
    time: int | None
    says: bool
    wrong: float
    others: float | None

    KEYS = ("fact=text", "predicate", "trace", "time", "says", "wrong", "others")

    def __str__(self) -> str:
        """The label in words."""
        return told(self.text, self.time, self.says)


class Doubts(Sequence[Doubt]):
    """All labels, the most doubtful first.

    Use it to find labels to check. Labels with the same probability are sorted by their probability
    without the label itself.

    Attributes:
        wrong: the probability that each label is wrong, in that order.
        others: the same probability without the label itself; NaN for certain labels.
    """

    def __init__(self, posterior: Posterior, labels: Labels, said: Structure | None) -> None:
        """Weigh every label; see `doubts`."""
        self._posterior, self._labels, self._said = posterior, labels, said
        self._names = [n for n, truth in labels.truth.items() if truth.numel()]
        self._starts: list[int] = [0]
        self._by_name: dict[str, Tensor] = {}
        evidence = LabelEvidence(labels, dict(posterior.rates))
        others = [torch.zeros(0).double()]
        for name in self._names:
            self._starts.append(self._starts[-1] + labels.truth[name].numel())
            marginal = posterior.marginals[name].cpu()
            true = marginal[tuple(labels.index[name].cpu())]
            says = labels.truth[name].cpu() >= 0.5
            wrong = torch.where(says, 1 - true, true).clamp(0, 1)
            self._by_name[name] = wrong
            others.append(_without(evidence, name, says, wrong))
        every = torch.cat([torch.zeros(0).double(), *self._by_name.values()])
        left = torch.cat(others)
        last = torch.argsort(left.nan_to_num(-1.0), descending=True, stable=True)
        self._order = last[torch.argsort(every[last], descending=True, stable=True)]
        self.wrong, self.others = every[self._order], left[self._order]

    def __len__(self) -> int:
        return self._order.numel()

    @overload
    def __getitem__(self, place: int) -> Doubt: ...
    @overload
    def __getitem__(self, place: slice) -> list[Doubt]: ...
    def __getitem__(self, place: int | slice) -> Doubt | list[Doubt]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"there are {len(self)} labels, and none is {place}")
        number = int(self._order[place])
        which = next(n for n, stop in enumerate(self._starts[1:]) if number < stop)
        name, at = self._names[which], number - self._starts[which]
        trace, *arguments, time = self._labels.index[name][:, at].tolist()
        tables = self._posterior.tables
        decl = tables.signature.predicates[name]
        others = float(self.others[place])
        return Doubt(
            atom_text(tables, name, trace, arguments), name, trace, tuple(arguments),
            None if decl.static else time, bool(self._labels.truth[name][at] >= 0.5),
            float(self.wrong[place]), None if math.isnan(others) else others,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Doubt]:
        return (self[place] for place in range(len(self)))

    @property
    def predicates(self) -> list[str]:
        """The predicates that have labels."""
        return list(self._names)

    def places(self, predicate: str | None = None) -> Tensor:
        """The places of all labels in this order, or of the labels of a predicate."""
        if predicate is None:
            return torch.arange(len(self))
        which = self._names.index(predicate)
        first, stop = self._starts[which : which + 2]
        return ((self._order >= first) & (self._order < stop)).nonzero().squeeze(-1)

    def of(self, predicate: str) -> Tensor:
        """The probabilities that labels of a predicate are wrong, in the order of the labels.

        Raises:
            DataError: the predicate has no labels.
        """
        if predicate not in self._by_name:
            raise DataError(f"'{predicate}' has no labels; {name_hint(predicate, self._by_name)}")
        return self._by_name[predicate]

    def flagged(self, threshold: float = 0.5) -> list[Doubt]:
        """The labels whose probability of being wrong is above the threshold."""
        return self[: int((self.wrong > threshold).sum())]

    def expected(self) -> float:
        """The expected number of wrong labels."""
        return float(self.wrong.sum())

    def against(self, doubt: Doubt, *, worlds: int = 8) -> Objections:
        """The evidence against a label: axioms, other labels, and labels before and after."""
        return self.all_against([doubt], worlds=worlds)[0]

    def all_against(self, some: Sequence[Doubt], *, worlds: int = 8) -> list[Objections]:
        """The evidence against each of some labels, from sampled worlds that contradict it.

        Args:
            some: the labels.
            worlds: the most worlds to look at, the most probable first.

        Raises:
            DataError: the clauses of the theory are not known.
        """
        if self._said is None:
            raise DataError(
                "the evidence against labels follows from the theory; pass it as `said`"
            )
        if worlds < 1:
            raise DataError(f"at least 1 world is looked at, not {worlds}")
        cells = [(d.predicate, (d.trace, *d.arguments, d.time or 0), d.says) for d in some]
        return objections(self._posterior, self._said, self._labels, cells, worlds)

    def rows(self, top: int = 20) -> list[dict[str, object]]:
        """The most doubtful labels with the evidence against them, for a table or JSON.

        Raises:
            DataError: the number is negative.
        """
        if top < 0:
            raise DataError(f"the number of labels is at least 0, not {top}")
        some = self[:top]
        return [
            {**doubt.as_dict(), "against": against.as_dict()}
            for doubt, against in zip(some, self.all_against(some), strict=True)
        ]

    def _repr_html_(self) -> str:
        some = self[:10]
        heads = ["wrong", "by others", "label", "trace", "against"]
        rows = [
            (bar(d.wrong), degree(d.others), str(d), d.trace, "; ".join(against.words))
            for d, against in zip(some, self.all_against(some), strict=True)
        ]
        words = f"{len(self):,} labels; {self.expected():,.1f} are expected to be wrong"
        return table(heads, rows, left=["wrong", "label", "against"], caption=words)


def _without(evidence: LabelEvidence, name: str, says: Tensor, wrong: Tensor) -> Tensor:
    """The probability that each label is wrong without that label; NaN for certain labels.

    A label multiplies the odds of its fact by a known number. Division by that number leaves the
    label out exactly.
    """
    speaks = evidence.by_label(name).cpu()
    ratio = torch.where(says, speaks, -speaks).exp()  # P(label if right) / P(label if wrong)
    odds = wrong * ratio
    left = odds / (odds + (1 - wrong)).clamp_min(1e-300)
    return torch.where(ratio > 1 / _CERTAIN, math.nan, left)


def doubts(posterior: Posterior, labels: Labels, *, said: Structure | None = None) -> Doubts:
    """Every label with the probability that it is wrong, the most doubtful first.

    Args:
        posterior: a posterior, sampled with these labels.
        labels: the labels.
        said: the definitions and clauses of the theory (`statements`); by default, those of the
            posterior.

    Raises:
        DataError: a label lies outside the sampled worlds.
    """
    for name, index in labels.index.items():
        if not index.shape[1]:
            continue
        if name not in posterior.marginals:
            hint = name_hint(name, posterior.marginals)
            raise DataError(f"no world contains '{name}'; {hint}")
        shape = posterior.marginals[name].shape
        limits = torch.tensor(shape).unsqueeze(-1)
        where = index.cpu()
        if where.shape[0] != len(shape) or bool(((where < 0) | (where >= limits)).any()):
            raise DataError(f"a label of '{name}' lies outside the sampled worlds")
    return Doubts(posterior, labels, said or posterior.structure)
