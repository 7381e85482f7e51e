"""The figures in the paper's Tables 1, 3 and 4.

Two properties are not stated in the text but follow from the figures:

- The standard deviations have the divisor n, not n - 1. The t-statistics of Table 4 follow from the
  means and deviations of Table 3 only if the deviations are multiplied by √(10/9).
- The tests are two-sided, and corrected over all 16 cells of both data sets together. Only this
  gives the adjusted p-values from the t-statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from reproduction.paper.carped import Count

#: The data sets, methods and fractions of the paper, in its order.
DATA = ("CarPed35K", "CarPed180K")
METHODS = ("FOT-LTN+BK", "FOT-LTN", "HTGNN")
FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)

#: The metrics of Table 3: the fields of a record, and their printed names.
METRICS: Mapping[str, str] = MappingProxyType({"pr_auc": "PR-AUC", "kb_sat": "KB-SAT"})

#: The number of runs behind each entry of Table 3.
REPETITIONS = 10

#: Below this adjusted p-value the paper calls a difference significant.
ALPHA = 0.05

#: The method that is tested, and the one it is tested against.
TESTED = ("FOT-LTN+BK", "HTGNN")

#: Section 5.3: up to this fraction, FOT-LTN+BK beats HTGNN significantly on both data sets.
BEATEN_UP_TO = 0.3

#: Up to this fraction, FOT-LTN+BK has the largest mean PR-AUC on both data sets.
LARGEST_UP_TO = 0.4

#: The number of parameters of HTGNN, as a multiple of FOT-LTN's.
PARAMETER_RATIO: Mapping[str, float] = MappingProxyType({"CarPed35K": 1.81, "CarPed180K": 1.39})


class Entry(NamedTuple):
    """An entry of Table 3: the mean over ten runs, and their standard deviation (divisor n)."""

    mean: float
    std: float


class Tested(NamedTuple):
    """An entry of Table 4: the t-statistic and the adjusted p-value, or an upper bound on it."""

    t: float
    p: float
    below: bool = False

    @property
    def significant(self) -> bool:
        """Whether the p-value is below 5 %."""
        return self.p < ALPHA


#: Table 1: the number of true facts and of all facts, by data set and predicate.
STATISTICS: Mapping[str, Mapping[str, Count]] = MappingProxyType(
    {
        "CarPed35K": {
            "Car": Count(50, 100),
            "Ped": Count(50, 100),
            "Run": Count(3_550, 5_000),
            "Stop": Count(1_450, 5_000),
            "Crossing": Count(687, 5_000),
            "OnSidewalk": Count(4_313, 5_000),
            "Close": Count(24_990, 1_000_000),
        },
        "CarPed180K": {
            "Car": Count(100, 200),
            "Ped": Count(100, 200),
            "Run": Count(8_085, 15_000),
            "Stop": Count(6_915, 15_000),
            "Crossing": Count(1_923, 15_000),
            "OnSidewalk": Count(13_077, 15_000),
            "Close": Count(149_132, 6_000_000),
        },
    }
)

# Means and deviations in thousandths, one pair per fraction.
_TABLE_3 = {
    ("pr_auc", "CarPed35K", "FOT-LTN+BK"):
        "727 10  726 12  736 10  754 11  772  9  795 10  819 10  838 11",
    ("pr_auc", "CarPed35K", "FOT-LTN"):
        "597 20  617 41  629 30  631 39  670 29  688 24  710 26  742 36",
    ("pr_auc", "CarPed35K", "HTGNN"):
        "616 25  660 16  702 27  730 25  765 26  793 31  807 34  828 22",
    ("pr_auc", "CarPed180K", "FOT-LTN+BK"):
        "719  7  713 15  715  9  729  8  744 10  766  9  797  7  820 12",
    ("pr_auc", "CarPed180K", "FOT-LTN"):
        "574 26  607 35  631 29  648 23  680 28  708 24  746 29  795 29",
    ("pr_auc", "CarPed180K", "HTGNN"):
        "603 21  634 39  679 33  723 32  758 36  786 23  802 20  831 16",
    ("kb_sat", "CarPed35K", "FOT-LTN+BK"):
        "943 10  916  9  903  9  891  6  884  4  878  3  873  4  868  3",
    ("kb_sat", "CarPed35K", "FOT-LTN"):
        "572 38  524 36  534 21  515 20  521 24  510 12  517 17  507 13",
    ("kb_sat", "CarPed35K", "HTGNN"):
        "568 37  565 25  558 26  558 19  551 28  547 25  535 28  524 19",
    ("kb_sat", "CarPed180K", "FOT-LTN+BK"):
        "939  8  918  7  904  4  892  4  888  3  882  3  878  2  873  2",
    ("kb_sat", "CarPed180K", "FOT-LTN"):
        "549 35  536 34  519 18  519 24  513 17  510 14  517 12  505 12",
    ("kb_sat", "CarPed180K", "HTGNN"):
        "572 53  576 41  559 31  561 28  558 36  548 38  542 34  529 28",
}  # fmt: skip

# t-statistics and adjusted p-values, one pair per fraction.
_TABLE_4 = {
    "CarPed35K":
        "12.38 <.001  9.71 <.001  3.55 .014  2.65 .047  .82 .529  .24 .811  1.03 .435  1.21 .398",
    "CarPed180K":
        "16.07 <.001  5.63 <.001  3.11 .028  .58 .614  -1.14 .407  -2.39 .069  -.73 .548  "
        "-1.72 .185",
}  # fmt: skip


def _entries(line: str) -> list[Entry]:
    numbers = [int(word) / 1000 for word in line.split()]
    return [Entry(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]


def _tested(line: str) -> list[Tested]:
    words = line.split()
    return [
        Tested(float(t), float(p.removeprefix("<")), p.startswith("<"))
        for t, p in zip(words[::2], words[1::2], strict=True)
    ]


#: Table 3: by metric, data set, method and fraction.
RESULTS: Mapping[tuple[str, str, str, float], Entry] = MappingProxyType(
    {
        (*key, fraction): entry
        for key, line in _TABLE_3.items()
        for fraction, entry in zip(FRACTIONS, _entries(line), strict=True)
    }
)

#: Table 4, FOT-LTN+BK against HTGNN: by data set and fraction.
TESTS: Mapping[tuple[str, float], Tested] = MappingProxyType(
    {
        (data, fraction): entry
        for data, line in _TABLE_4.items()
        for fraction, entry in zip(FRACTIONS, _tested(line), strict=True)
    }
)


def tolerance(method: str) -> float:
    """Return how far a mean may be from the published one and still count as reproduced."""
    return 0.03 if method == "FOT-LTN+BK" else 0.05
