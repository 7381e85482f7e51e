"""What is certain of states when it is known how many steps are left.

Backwards from the end: a state may end well after k steps if some letter leads to one that may
after k - 1. How all states may end is one level of such sets, and levels soon repeat.
"""

from __future__ import annotations

import numpy as np

from fotltn.monitor.domain import Array

#: The most steps before the end that are looked at.
MOST_LEFT = 4096


class Ahead:
    """How states that were tried in advance may end.

    Args:
        after: for each state and letter the number of the next state; -1 where that was not tried.
        end: whether a state is true if the trace ends there.
    """

    def __init__(self, after: Array, end: Array) -> None:
        """Begin at the end. Of what was not tried, everything may come: that is one more state."""
        count = len(after)
        self._after = np.vstack([after, np.full((1, after.shape[1]), -1)])
        self._levels = [(np.append(end, True), np.append(~end, True))]
        self._seen = {self._key(self._levels[0]): 0}
        self._repeats: tuple[int, int] | None = None  # from which level on, and how many there are
        self._unknown = count

    def level(self, left: int) -> int | None:
        """The number of the level for so many steps; None if there are too many to say."""
        while self._repeats is None and len(self._levels) <= min(left, MOST_LEFT):
            good, bad = (ends[self._after].any(1) for ends in self._levels[-1])
            good[self._unknown] = bad[self._unknown] = True
            key = self._key((good, bad))
            if key in self._seen:
                first = self._seen[key]
                self._repeats = first, len(self._levels) - first
                break
            self._seen[key] = len(self._levels)
            self._levels.append((good, bad))
        if left < len(self._levels):
            return left
        if self._repeats is None:
            return None
        first, count = self._repeats
        return first + (left - first) % count

    def certain(self, state: int, left: int) -> tuple[bool, bool]:
        """Whether a state ends true, and whether it ends false, whatever the steps left bring."""
        level = self.level(left)
        if level is None:
            return False, False
        good, bad = self._levels[level]
        return not bad[state], not good[state]

    @staticmethod
    def _key(level: tuple[Array, Array]) -> bytes:
        return np.packbits(np.concatenate(level)).tobytes()
