"""Limit the number of alarms that a watch reports."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fotltn.monitor.events import CellEvent

_MINUTE = 60.0


@dataclass(slots=True)
class Levels:
    """Lets alarms through, and counts the violations that it holds back.

    Args:
        hard_only: let only violations of hard axioms through.
        at_most: the most alarms in a minute, for all axioms together.
        quiet: the number of seconds after an alarm in which its axiom raises no other.
        held_back: the number of violations that were held back.
    """

    hard_only: bool = False
    at_most: int | None = None
    quiet: float = 0.0
    held_back: int = 0
    _recent: deque[float] = field(default_factory=deque)
    _last: dict[str, float] = field(default_factory=dict)

    def lets(self, event: CellEvent, now: float) -> bool:
        """Return whether to report an event, at a time in seconds."""
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
