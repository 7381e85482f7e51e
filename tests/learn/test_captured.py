"""Steps recorded on a GPU: the same training, and none where steps are not alike."""

import math

import pytest
import torch
from torch import nn

from fotltn.learn import fit as training
from fotltn.learn.objective import PAPER, RECIPE
from fotltn.learn.schedule import Schedule
from fotltn.networks.predicates import Network, mlp
from tests.learn import tasks

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def on_gpu(**settings):
    """A task of the scene, with all of it on the GPU."""
    ground = tasks.grounding(stop=settings.pop("stop", None))
    ground.fixed = ground.fixed.to(torch.device("cuda"))
    known = tasks.labels()
    known = type(known)(
        {n: t.cuda() for n, t in known.index.items()},
        {n: t.cuda() for n, t in known.truth.items()},
        known.sorts,
    )
    return tasks.task(ground=ground.to("cuda"), known=known, epochs=12, **settings)


@gpu
@pytest.mark.parametrize("objective", [PAPER, RECIPE], ids=["paper", "recipe"])
def test_recorded_steps_train_as_others_do(objective, monkeypatch):
    outcomes = []
    for before in (3, math.inf):
        monkeypatch.setattr(training, "EPOCHS_BEFORE", before)
        run = training._Fit(on_gpu(objective=objective))
        epochs = [run.epoch() for _ in range(12)]
        assert (run.recorded is not None) == (before == 3)
        outcomes.append((tasks.weights(run.task), [e.loss for e in epochs], epochs[-1].values))
    (ours, losses, values), (theirs, wanted, others) = outcomes
    assert losses == pytest.approx(wanted, rel=1e-6)
    assert values == pytest.approx(others, rel=1e-6)
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name], rtol=1e-5, atol=1e-6)


@gpu
def test_steps_that_change_or_draw_are_not_recorded():
    changing = PAPER.__class__(p=Schedule(((0.0, 1.0), (100.0, 4.0))))
    drawing = Network(nn.Sequential(nn.Dropout(0.5), mlp(tasks.WIDTH, (6,))))
    for settings in ({"objective": changing}, {"stop": drawing}):
        run = training._Fit(on_gpu(**settings))
        for _ in range(12):
            run.epoch()
        assert run.recorded is None


@gpu
def test_what_cannot_be_recorded_runs_as_it_is():
    class Waiting(nn.Module):
        """Waits for a number, which a graph cannot hold."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp(tasks.WIDTH, (6,))

        def forward(self, seen: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.inner(seen)
            return found if float(found.detach().sum()) > -math.inf else -found

    run = training._Fit(on_gpu(stop=Network(Waiting())))
    for _ in range(12):
        epoch = run.epoch()
    assert run.recorded is None
    assert math.isfinite(epoch.loss)
