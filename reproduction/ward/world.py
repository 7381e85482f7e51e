"""Generate wards in which nurses tend patients, from a seed.

A ward has a learned relation, and axioms that tie it to the behaviour of nurses and patients. It
has several traces, and labels that are wrong both ways. Its axioms are in `ward.fot`.

The rota is given: for every two time points, it assigns each nurse a different patient.

These events are to be learned, one time point after another:

- A patient is ill at the first time point with probability 0.2. A patient who has been well for
  three time points, or since the start, falls ill with probability 0.05.
- A nurse who tended nobody at the previous time point, and is ready, begins to rest with
  probability 0.08. A rest lasts 3 to 6 time points, and she is ready again at the seventh time
  point after it. At the first time point all nurses are ready.
- A nurse who tended nobody at the previous time point, and does not rest, begins to tend her
  patient on the rota with probability 0.7, if that patient was ill at the previous time point and
  nobody tended them. At the first time point nobody is tended.
- After two time points or more with a nurse, a patient recovers with probability 0.3. A patient who
  does not recover is left, still ill, with probability 0.1, and after five time points for certain.

The lengths of rests and the rota are uniform. The end of the trace cuts off whatever is under way.
Everything else follows from the axioms D1 to D5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fotltn.errors import DataError, LimitError
from fotltn.project.scene import Flags
from reproduction.deliveries.world import Rates, some, table_of, write_facts
from reproduction.paper.carped import Count

#: The axioms, and the declarations that they need.
THEORY = Path(__file__).with_name("ward.fot")

#: The learned predicates.
LEARNED = ("Ill", "Rests", "Tends", "Cared", "Busy", "Unseen", "Soon", "Recovers")

#: The given predicate; facts state where it is true.
GIVEN = ("Rota",)

#: The sorts of the arguments of each predicate.
SORTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Ill": ("patient",),
        "Rests": ("nurse",),
        "Tends": ("nurse", "patient"),
        "Cared": ("patient",),
        "Busy": ("nurse",),
        "Unseen": ("patient",),
        "Soon": ("patient",),
        "Recovers": ("patient",),
        "Rota": ("nurse", "patient"),
    }
)

ILL_AT_FIRST = 0.2
FALLS_ILL = 0.05
WELL = 3
COMES = 0.7
RECOVERS = 0.3
LEAVES = 0.1
CARE = range(2, 6)
RESTS = 0.08
REST = range(3, 7)
PAUSE = 6
SLOT = 2

#: How many time points Soon looks ahead.
WINDOW = 3

#: The largest number of cells of Tends in one ward.
MAX_CELLS = 2**24


class Size(NamedTuple):
    """The size of a ward; `generate(*size, seed=0)` makes one."""

    nurses: int
    patients: int
    steps: int
    traces: int


#: The default size.
WARD = Size(4, 10, 40, 4)

#: The noise of labels.
RATES: Mapping[str, Rates] = MappingProxyType(
    {
        "Ill": Rates(0.2, 0.03),
        "Rests": Rates(0.2, 0.02),
        "Tends": Rates(0.3, 0.005),
        "Cared": Rates(0.2, 0.02),
        "Busy": Rates(0.15, 0.02),
        "Unseen": Rates(0.2, 0.02),
        "Soon": Rates(0.25, 0.02),
        "Recovers": Rates(0.1, 0.05),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Ward:
    """The events of a ward, as read-only arrays.

    Args:
        rota: the given rota, shape (trace, nurse, patient, time).
        ill: which patients are ill, shape (trace, patient, time).
        rests: which nurses rest, shape (trace, nurse, time).
        tends: who tends whom, in the shape of the rota.
    """

    rota: Flags
    ill: Flags
    rests: Flags
    tends: Flags

    @property
    def size(self) -> Size:
        """The size of the ward."""
        traces, nurses, patients, steps = self.rota.shape
        return Size(nurses, patients, steps, traces)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The names of the entities by sort, in the order of the tables."""
        return {
            "nurse": tuple(f"n{i + 1}" for i in range(self.size.nurses)),
            "patient": tuple(f"p{i + 1}" for i in range(self.size.patients)),
        }

    def tables(self) -> dict[str, Flags]:
        """Return what is true, shape (trace, *entities, time), or without time if static."""
        cared = some(self.tends, 1)
        recovers = self.ill[..., :-1] & ~self.ill[..., 1:]
        return {
            "Ill": self.ill,
            "Rests": self.rests,
            "Tends": self.tends,
            "Cared": cared,
            "Busy": some(self.tends, 2),
            "Unseen": _unseen(self.ill, cared),
            "Soon": _soon(cared),
            "Recovers": some(recovers, -1),
            "Rota": self.rota,
        }


def _unseen(ill: Flags, cared: Flags) -> Flags:
    """Return where patients are ill and nobody has come since they fell ill."""
    unseen = np.zeros_like(ill)
    seen = np.zeros_like(ill[..., 0])
    for point in range(ill.shape[-1]):
        seen = ill[..., point] & (seen | cared[..., point])
        unseen[..., point] = ill[..., point] & ~seen
    return unseen


def _soon(cared: Flags) -> Flags:
    """Return where nobody tends a patient, but somebody does within three time points."""
    soon = np.zeros_like(cared)
    for ahead in range(1, min(WINDOW + 1, cared.shape[-1])):
        soon[..., :-ahead] |= cared[..., ahead:]
    return soon & ~cared


# --- the process -----------------------------------------------------------------------------


def generate(
    nurses: int = WARD.nurses,
    patients: int = WARD.patients,
    steps: int = WARD.steps,
    traces: int = WARD.traces,
    *,
    seed: int,
) -> Ward:
    """Generate a ward; the same arguments give the same ward.

    Args:
        nurses: the number of nurses.
        patients: the number of patients, at least as many as nurses.
        steps: the number of time points.
        traces: the number of independent traces.
        seed: the seed of the ward's own generator, a whole number of at least 0.

    >>> ward = generate(1, 1, 12, 1, seed=5)
    >>> ward.ill[0, 0].astype(int).tolist(), ward.tends[0, 0, 0].astype(int).tolist()
    ([0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1])
    """
    for name, number, least in (
        ("nurses", nurses, 1),
        ("patients", patients, nurses),
        ("steps", steps, 1),
        ("traces", traces, 1),
    ):
        if number < least:
            raise DataError(f"a ward needs at least {least} of '{name}', not {number}")
    if seed < 0:
        raise DataError(f"a seed must be a whole number of at least 0, not {seed}")
    cells = nurses * patients * steps * traces
    if cells > MAX_CELLS:
        raise LimitError(
            f"{nurses:,} nurses, {patients:,} patients, {steps:,} time points and {traces:,} "
            f"traces need {cells:,} cells; at most {MAX_CELLS:,} are possible"
        )
    generator = np.random.default_rng(seed)
    size = Size(nurses, patients, steps, traces)
    parts = [_trace(size, generator) for _ in range(traces)]
    arrays = [np.stack(part) for part in zip(*parts, strict=True)]
    for array in arrays:
        array.setflags(write=False)
    return Ward(*arrays)


def _trace(size: Size, generator: np.random.Generator) -> tuple[Flags, Flags, Flags, Flags]:
    """Draw the rota, who is ill, who rests and who tends whom, shape (*entities, time)."""
    nurses, patients, steps, _ = size
    rota = np.zeros((nurses, patients, steps), dtype=np.bool_)
    for start in range(0, steps, SLOT):
        turn = generator.permutation(patients)[:nurses]
        rota[np.arange(nurses), turn, start : start + SLOT] = True
    ill = np.zeros((patients, steps), dtype=np.bool_)
    rests = np.zeros((nurses, steps), dtype=np.bool_)
    tends = np.zeros_like(rota)
    well = np.full(patients, WELL)  # for how many time points
    care = np.zeros(patients, dtype=np.int64)  # for how many time points
    nurse_of = np.full(patients, -1)
    rested = np.zeros(nurses, dtype=np.int64)  # time points until the end of a rest
    ready = np.zeros(nurses, dtype=np.int64)  # time points until the next rest may begin
    for point in range(steps):
        before = ill[:, point - 1] if point else np.zeros(patients, dtype=np.bool_)
        waiting = before & (nurse_of < 0)
        free = ~np.isin(np.arange(nurses), nurse_of)
        draw = generator.random((4, max(nurses, patients)))
        for p in range(patients):
            if nurse_of[p] >= 0:
                recovers = care[p] >= CARE.start and draw[0, p] < RECOVERS
                leaves = care[p] >= CARE.start and draw[1, p] < LEAVES
                if recovers or leaves or care[p] == CARE.stop - 1:
                    nurse_of[p] = -1
                well[p] = 1 if recovers else 0
                care[p] += 1
            elif not waiting[p]:
                chance = FALLS_ILL if point else ILL_AT_FIRST
                falls = well[p] >= WELL and draw[0, p] < chance
                well[p] = 0 if falls else well[p] + 1
        for n in range(nurses):
            if rested[n] == 0 and ready[n] == 0 and free[n] and draw[2, n] < RESTS:
                rested[n] = generator.integers(REST.start, REST.stop)
                ready[n] = rested[n] + PAUSE
            rests[n, point] = rested[n] > 0
            for called in np.flatnonzero(rota[n, :, point] & waiting):
                if free[n] and not rests[n, point] and draw[3, n] < COMES:
                    nurse_of[called], care[called] = n, 1
            rested[n], ready[n] = max(rested[n] - 1, 0), max(ready[n] - 1, 0)
        ill[:, point] = well == 0
        cared = np.flatnonzero(nurse_of >= 0)
        tends[nurse_of[cared], cared, point] = True
    return rota, ill, rests, tends


# --- facts -----------------------------------------------------------------------------------


def statistics(ward: Ward) -> dict[str, Count]:
    """Count the true facts and all facts of each predicate."""
    return {name: Count(int(t.sum()), t.size) for name, t in ward.tables().items()}


def facts(ward: Ward) -> pa.Table:
    """Return all facts, one per row: learned predicates true and false, the rota where true."""
    return table_of(ward.tables(), SORTS, GIVEN, ward.names, traces=True)


def write(ward: Ward, folder: Path | str, *, name: str = "facts.csv") -> Path:
    """Write all facts as a table, as a user would have it, and return its path.

    Args:
        ward: the ward.
        folder: the folder to write to; it is created if it does not exist.
        name: the name of the file, which ends in `.csv` or `.parquet`.

    Raises:
        DataError: the name has another ending, or the file cannot be written.
    """
    return write_facts(facts(ward), folder, name)
