"""All crossings that a pedestrian may have, by trying every choice of the process."""

from collections import defaultdict
from itertools import product

import numpy as np


def every_set(steps):
    """The sets of points as rows of 0 and 1, and how probable each is."""
    longest = max(1, steps // 5 - 1)
    single = [
        tuple(int(s <= t < s + d) for t in range(steps))
        for s, d in product(range(steps), range(1, longest + 1))
    ]
    found: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for first in single:
        found[first] += 0.5 / len(single)
        for second in single:
            found[tuple(map(max, first, second))] += 0.5 / len(single) ** 2
    return np.array(list(found)), np.array(list(found.values()))
