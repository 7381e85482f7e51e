"""Decide which violations become alarms, so that there are not too many."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fotltn.monitor.events import CellEvent

_MINUTE = 60.0


@dataclass(slots=True)
class Levels:
    """Lets alarms through, and counts what it holds back.

    Args:
        hard_only: only violations of hard axioms are alarms.
        at_most: the most alarms in a minute, of all axioms together.
        quiet: seconds after an alarm in which its axiom raises no other.
    """

    hard_only: bool = False
    at_most: int | None = None
    quiet: float = 0.0
    held_back: int = 0
    _recent: deque[float] = field(default_factory=deque)
    _last: dict[str, float] = field(default_factory=dict)

    def lets(self, event: CellEvent, now: float) -> bool:
        """Whether an event is an alarm, at a time in seconds."""
        if event.kind != "violation":
            return not self.hard_only or event.hard
        while self._recent and self._recent[0] <= now - _MINUTE:
            self._recent.popleft()
        loud = not self.hard_only or event.hard
        loud = loud and (self.at_most is None or len(self._recent) < self.at_most)
        if self.quiet and event.axiom in self._last:
            loud = loud and now - self._last[event.axiom] >= self.quiet
        if not loud:
            self.held_back += 1
            return False
        self._recent.append(now)
        self._last[event.axiom] = now
        return True
