"""A data set of a few agents, so that runs take milliseconds."""

import pytest

from fotltn.experiments import protocol
from fotltn.experiments.carped import Size

SIZE = Size(6, 5, 15)


@pytest.fixture
def tiny(monkeypatch):
    """The name of the data set, which exists as long as a test runs."""
    monkeypatch.setitem(protocol.DATA, "Tiny", SIZE)
    return "Tiny"
