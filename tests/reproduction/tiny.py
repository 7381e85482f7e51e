"""A data set of a few agents, so that runs take milliseconds."""

from dataclasses import replace

import pytest
import torch

from fotltn.project.scene import Size
from reproduction.paper import protocol
from reproduction.paper.many import batch
from reproduction.paper.protocol import READING, Run

SIZE = Size(6, 5, 15)
CELLS = ((0.1, 0), (0.5, 1), (0.8, 0), (0.5, 2))


def some(data, method, cells=CELLS):
    return [Run(data, method, fraction, repetition) for fraction, repetition in cells]


def double(runs, setting=READING):
    return batch(runs, setting, "cpu", dtype=torch.float64)


def one_trace(work, tables, number):
    """The model of one run alone."""
    own = {n: t[number : number + 1] for n, t in tables.items()}
    return replace(work.tables(own), lengths=work.base.lengths[:1])


@pytest.fixture
def tiny(monkeypatch):
    """The name of the data set, which exists as long as a test runs."""
    monkeypatch.setitem(protocol.DATA, "Tiny", SIZE)
    return "Tiny"
