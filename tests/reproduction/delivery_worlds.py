"""Labels of worlds of deliveries, and all that robots and parcels may do, by trying everything."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from fotltn import check
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import split
from fotltn.syntax.load import load_theory
from reproduction.deliveries.world import LEARNED, RATES, World, facts, noisy
from reproduction.deliveries.world import THEORY as FILE
from reproduction.paper.bayes import SMALLEST_RATE

THEORY = check(load_theory(FILE))


def read(source, **options):
    return read_facts([source], THEORY.signature, **options)


def model_of(world):
    return tables_of_facts(read(facts(world)), THEORY.signature)


def all_labels(world):
    """Every fact of the learned predicates, true."""
    return labels(read(facts(world)), THEORY.signature, LEARNED)


def observed(world, share, *, seed=0, rates=RATES):
    train, test = split(all_labels(world), share, seed=seed)
    return noisy(train, seed, rates=rates), test


def no_labels():
    index = {name: torch.zeros(3, 0, dtype=torch.int64) for name in LEARNED}
    return Labels(index, {name: torch.zeros(0, dtype=torch.float64) for name in LEARNED})


def every_fault(steps):
    """All sets of faulty points of a robot, and how probable each is."""
    found: dict[tuple[int, ...], float] = {}

    def go(points, ready, probability):
        wait = 1.0
        for start in range(ready, steps):
            for length in range(3, 10):
                end = min(start + length, steps)
                more = points + tuple(range(start, end))
                go(more, end + 4, probability * wait * 0.08 / 7)
            wait *= 0.92
        found[points] = found.get(points, 0.0) + probability * wait

    go((), 0, 1.0)
    quiet = found.pop(())
    sets = [(), *found]
    prior = [0.5, *(0.5 * p / (1 - quiet) for p in found.values())]
    rows = np.array([[t in points for t in range(steps)] for points in sets])
    assert sum(prior) == pytest.approx(1)
    return rows, np.array(prior)


def every_track(given, parcel):
    """All tracks of a parcel: when it waits, when it moves, and how probable that is."""
    steps = given.size.steps
    there = given.at[given.carrier[parcel]]
    loads, unloads = 0.4 * there[given.origin[parcel]], 0.5 * there[given.target[parcel]]
    time, found = np.arange(steps), []
    for begun in range(steps):
        stays = 1.0
        for loaded in range(begun + 1, steps + 1):
            now = 1.0 if loaded == steps else loads[loaded]
            moving = 1.0
            for gone in range(loaded + 1, max(steps, loaded) + 1) if loaded < steps else [steps]:
                ends = 1.0 if gone == steps else unloads[gone]
                probability = stays * now * moving * ends / steps
                if probability:
                    waits, moves = (time >= begun) & (time < loaded), (time >= loaded)
                    found.append((waits, moves & (time < gone), probability))
                moving *= 1 - ends
            stays *= 1 - now
    waits, moves, prior = (np.array(column) for column in zip(*found, strict=True))
    assert prior.sum() == pytest.approx(1)
    return waits, moves, prior


def log_likelihood(tables, given, rates, names):
    """Of the labels of some predicates."""
    total = 0.0
    for name in names:
        _, entity, time = given.index[name].numpy()
        true = tables[name][entity] if name == "Worn" else tables[name][entity, time]
        stated = given.truth[name].numpy() == 1
        missed, invented = (max(rate, SMALLEST_RATE) for rate in rates[name])
        right = np.where(true, np.where(stated, 1 - missed, missed), np.nan)
        right = np.where(true, right, np.where(stated, invented, 1 - invented))
        total += np.log(right).sum()
    return total


def by_trying_all(world, labels, rates):
    """The posterior means of two robots and two parcels, from all that they may do."""
    given, steps = world.known, world.size.steps
    faults, fault_prior = every_fault(steps)
    tracks = [every_track(given, p) for p in range(2)]
    none = np.zeros((2, steps), dtype=bool)
    robots, parcels, both = (
        ("Worn", "Faulty", "Alarm"),
        ("Waits", "Moves", "Busy", "Due"),
        "Delayed",
    )
    count, (first, second) = len(faults), (len(track[2]) for track in tracks)
    log = np.zeros((count, count, first, second))
    of_robots, of_parcels = {}, {}
    for i, j in product(range(count), repeat=2):
        tables = World(given, faults[[i, j]], none, none).tables()
        log[i, j] += np.log(fault_prior[[i, j]]).sum()
        log[i, j] += log_likelihood(tables, labels, rates, robots)
        of_robots[i, j] = {name: tables[name] for name in robots}
    for a, b in product(range(first), range(second)):
        waits, moves = (np.stack([tracks[0][k][a], tracks[1][k][b]]) for k in range(2))
        tables = World(given, none, waits, moves).tables()
        log[:, :, a, b] += np.log(tracks[0][2][a]) + np.log(tracks[1][2][b])
        log[:, :, a, b] += log_likelihood(tables, labels, rates, parcels)
        of_parcels[a, b] = {name: tables[name] for name in parcels}
    delayed = []
    for p, (waits, moves, _) in enumerate(tracks):
        on = np.stack([faults[:, t - 3 if t > 3 else 0 : t + 1].any(1) for t in range(steps)], 1)
        cells = on[:, None] & (waits | moves)[None]
        mine = labels.index[both][1] == p
        part = Labels({both: labels.index[both][:, mine] * torch.tensor([[1], [0], [1]])},
                      {both: labels.truth[both][mine]})  # fmt: skip
        own = np.array(
            [[log_likelihood({both: c[None]}, part, rates, [both]) for c in row] for row in cells]
        )
        shape = [1, 1, 1, 1]
        shape[given.carrier[p]], shape[2 + p] = own.shape
        log = log + own.reshape(shape)
        delayed.append(cells)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    means: dict[str, Any] = dict.fromkeys(LEARNED, 0.0)
    for (i, j), share in np.ndenumerate(weight.sum((2, 3))):
        for name in robots:
            means[name] = means[name] + share * of_robots[i, j][name]
    for (a, b), share in np.ndenumerate(weight.sum((0, 1))):
        for name in parcels:
            means[name] = means[name] + share * of_parcels[a, b][name]
    letters = "ijab"
    means[both] = np.stack([
        np.einsum(f"ijab,{letters[given.carrier[p]]}{letters[2 + p]}t->t", weight, cells)
        for p, cells in enumerate(delayed)
    ])  # fmt: skip
    means["Worn"] = np.asarray(means["Worn"])[:, None]
    return means
