"""Work that is asked to stop ends at its next step."""

import pytest
import torch

import fotltn
from fotltn.stop import StoppedError, doing, followed, may_go_on, stoppable


def test_long_work_is_stopped_between_steps():
    theory = fotltn.parse("sort agent\npredicate Stop(agent)\naxiom A: forall x. G(Stop(x))")
    data = fotltn.tables(theory, Stop=(torch.rand(3, 4) > 0.5).double())
    cells = fotltn.cells(theory["A"], data)
    for work in (
        lambda: fotltn.evaluate("forall x. G Stop(x)", data),
        lambda: fotltn.evaluate("forall x. G Stop(x)", data, semantics="crisp"),
        cells.over_time,
        lambda: cells.worst(3),
    ):
        with stoppable(lambda: True), pytest.raises(StoppedError):
            work()
        with stoppable(lambda: False):
            work()
    may_go_on()  # nobody asks outside


def test_long_work_says_what_it_is_about():
    theory = fotltn.parse("predicate Near, Stop\naxiom A: G(Near -> Stop)\naxiom B: F Stop")
    data = fotltn.tables(theory, Near=[1.0, 0.0], Stop=[1.0, 0.0])
    told: list[str] = []
    with followed(told.append):
        fotltn.cells(theory["A"], data).worst(3)
        fotltn.evaluate(theory["B"], data, semantics="crisp")
        fotltn.audit(theory, data)
    assert told[0] == "A"
    assert {"A", "B"} <= set(told[2:])
    doing("nothing")  # nobody follows


def test_it_stops_in_the_middle():
    steps = []

    def asked() -> bool:
        steps.append(1)
        return len(steps) > 3

    with stoppable(asked):
        for _ in range(3):
            may_go_on()
        with pytest.raises(StoppedError):
            may_go_on()
