"""Labels of wards, and all that may happen in one, by trying everything."""

from itertools import product
from typing import Any

import numpy as np
import torch

from fotltn import check
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import split
from fotltn.syntax.load import load_theory
from reproduction.deliveries.world import noisy
from reproduction.paper.bayes import SMALLEST_RATE
from reproduction.ward.world import LEARNED, RATES, SORTS, Ward, facts
from reproduction.ward.world import THEORY as FILE

THEORY = check(load_theory(FILE))


def read(source, **options):
    return read_facts([source], THEORY.signature, **options)


def model_of(ward):
    return tables_of_facts(read(facts(ward), horizon=ward.size.steps), THEORY.signature)


def all_labels(ward):
    """Every fact of the learned predicates, true."""
    stated = read(facts(ward), horizon=ward.size.steps)
    return labels(stated, THEORY.signature, LEARNED)


def observed(ward, share, *, seed=0, rates=RATES):
    train, test = split(all_labels(ward), share, seed=seed)
    return noisy(train, seed, rates=rates), test


def no_labels():
    index = {n: torch.zeros(2 + len(SORTS[n]), 0, dtype=torch.int64) for n in LEARNED}
    return Labels(index, {name: torch.zeros(0, dtype=torch.float64) for name in LEARNED})


# A patient is (points well, nurse or None, points of care); a nurse is (points until her rest is
# over, points until she is ready). Of two points well and more than three, only that counts.


def _patient_moves(patient, first):
    """What a patient may do without a nurse who comes, and how probable it is."""
    well, nurse, care = patient
    if nurse is not None:
        if care < 2:
            return [((0, nurse, care + 1), 1.0)]
        if care == 5:
            return [((1, None, 0), 0.3), ((0, None, 0), 0.7)]
        moves = [((1, None, 0), 0.3), ((0, None, 0), 0.7 * 0.1)]
        return [*moves, ((0, nurse, care + 1), 0.7 * 0.9)]
    if well == 0:
        return [(patient, 1.0)]
    if well < 3:
        return [((well + 1, None, 0), 1.0)]
    falls = 0.2 if first else 0.05
    return [((0, None, 0), falls), ((3, None, 0), 1 - falls)]


def _nurse_moves(nurse, free):
    """What a nurse may do: the points that are left of a rest and of the pause, at this point."""
    rest, pause = max(nurse[0] - 1, 0), max(nurse[1] - 1, 0)
    if rest or pause or not free:
        return [((rest, pause), 1.0)]
    return [((k, k + 6), 0.02) for k in (3, 4, 5, 6)] + [((0, 0), 0.92)]


def every_course(rota):
    """All that may happen in one trace, and how probable it is; the rota is (nurse, patient, …)."""
    nurses, patients, steps = rota.shape
    courses = {((), ((3, None, 0),) * patients, ((0, 0),) * nurses): 1.0}
    for point in range(steps):
        further: dict[Any, float] = {}
        for (past, those, these), probability in courses.items():
            busy = {nurse for _, nurse, _ in those}
            moves = [_patient_moves(p, point == 0) for p in those]
            moves += [_nurse_moves(these[n], n not in busy) for n in range(nurses)]
            for chosen in product(*moves):
                states = [state for state, _ in chosen]
                weight = probability * float(np.prod([w for _, w in chosen]))
                calls = [
                    (n, p)
                    for n, p in product(range(nurses), range(patients))
                    if rota[n, p, point] and point and those[p][:2] == (0, None)
                    and n not in busy and states[patients + n][0] == 0
                ]  # fmt: skip
                for come in product((False, True), repeat=len(calls)):
                    after = list(states)
                    for (n, p), comes in zip(calls, come, strict=True):
                        if comes:
                            after[p] = (0, n, 1)
                    share = weight * float(np.prod([0.7 if comes else 0.3 for comes in come]))
                    now = tuple((p[0] == 0, p[1]) for p in after[:patients])
                    now += tuple(n[0] > 0 for n in after[patients:])
                    key = ((*past, now), tuple(after[:patients]), tuple(after[patients:]))
                    further[key] = further.get(key, 0.0) + share
        courses = further
    total: dict[Any, float] = {}
    for (past, *_), probability in courses.items():
        total[past] = total.get(past, 0.0) + probability
    return total


def as_ward(rota, course):
    nurses, patients, _ = rota.shape
    ill = [[now[p][0] for now in course] for p in range(patients)]
    tends = [[[now[p][1] == n for now in course] for p in range(patients)] for n in range(nurses)]
    rests = [[now[patients + n] for now in course] for n in range(nurses)]
    return Ward(rota[None], *(np.array(part)[None] for part in (ill, rests, tends)))


def log_likelihood(tables, given, rates):
    total = 0.0
    for name in LEARNED:
        index = tuple(given.index[name].numpy())
        true = tables[name][index[:-1] if name == "Recovers" else index]
        stated = given.truth[name].numpy() == 1
        missed, invented = (max(rate, SMALLEST_RATE) for rate in rates[name])
        right = np.where(stated, np.where(true, 1 - missed, invented), 0.0)
        right = np.where(stated, right, np.where(true, missed, 1 - invented))
        total += np.log(right).sum()
    return total


def by_trying_all(rota, given, rates):
    """The posterior means of one trace, from all that may happen."""
    courses = every_course(rota)
    log, tables = [], []
    for course, probability in courses.items():
        tables.append(as_ward(rota, course).tables())
        log.append(np.log(probability) + log_likelihood(tables[-1], given, rates))
    weight = np.exp(np.array(log) - max(log))
    weight /= weight.sum()
    return {
        name: np.tensordot(weight, np.array([one[name] for one in tables]), 1) for name in LEARNED
    }
