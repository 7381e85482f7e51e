"""Steps into a roster: what is true goes to its bits, and who was heard of is remembered."""

from __future__ import annotations

from collections.abc import Sequence

from fotltn.logic.signature import Signature
from fotltn.monitor.intake import Intake
from fotltn.monitor.roster import Key, Roster

#: Where the bits of a fact are.
Entry = tuple[dict[Key, int], Key]


class Entries(Intake[Entry]):
    """Enters steps into a roster as bits."""

    def __init__(self, signature: Signature, roster: Roster) -> None:
        """Nobody is there but constants."""
        super().__init__(signature, roster)
        self.constants: dict[str, set[str]] = {}
        self.heard: dict[str, dict[str, int]] = {}  # the last step at which something was true

    def entry(self, name: str, args: Key) -> Entry:
        """The bits of a predicate, and whose they are."""
        return self.roster.facts[name], args

    def note(
        self, plain: Sequence[Entry], graded: Sequence[Entry], degrees: Sequence[float]
    ) -> None:
        """Note what is true at the next step of the batch."""
        roster = self.roster
        bit = 1 << roster.count
        if bit == 1:
            for rows, args in plain:
                rows[args] = 1
        else:
            for rows, args in plain:
                rows[args] = rows.get(args, 0) | bit
        if graded:
            threshold = roster.threshold
            for (rows, args), degree in zip(graded, degrees, strict=True):
                if degree >= threshold:
                    rows[args] = rows.get(args, 0) | bit
        roster.count += 1

    def agree(self, old: float, new: float) -> bool:
        """Whether a static fact is as true as before."""
        return (old >= self.roster.threshold) == (new >= self.roster.threshold)

    # --- who is forgotten ----------------------------------------------------------------------

    def hear(self) -> None:
        """Note of whom something was true in a batch."""
        roster, heard = self.roster, self.heard
        for sort, names in roster.came.items():
            known = heard.setdefault(sort, {})
            if len(known) < len(names):
                known |= {name: step for name, step in names.items() if name not in known}
        for predicate in roster.changing:
            sorts = self.signature.predicates[predicate].sorts
            for args, bits in roster.facts[predicate].items():
                step = roster.start + bits.bit_length() - 1
                for sort, name in zip(sorts, args, strict=True):
                    heard[sort][name] = max(step, heard[sort][name])

    def gone(self, since: int) -> dict[str, set[str]]:
        """Those of whom nothing was true since a step, by sort."""
        gone: dict[str, set[str]] = {}
        for sort, known in self.heard.items():
            for name, step in known.items():
                if step >= since:
                    continue
                if name not in self.constants[sort] and sort not in self.closed:
                    gone.setdefault(sort, set()).add(name)
            for name in gone.get(sort, ()):
                del known[name]
        if gone:
            self.known.clear()
        return gone
