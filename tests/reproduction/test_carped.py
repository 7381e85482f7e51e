"""The paper's data sets beside its Table 1."""

import numpy as np
import pytest

from fotltn.project.scene import LEARNED, generate
from reproduction.paper.carped import Count, statistics
from reproduction.paper.protocol import DATA
from reproduction.paper.published import STATISTICS


@pytest.mark.parametrize(("data", "scenes"), [("CarPed35K", 60), ("CarPed180K", 30)])
def test_the_published_figures_are_a_likely_draw(data, scenes):
    """Totals are the same; each published count lies within 3 standard deviations of ours."""
    counts = [statistics(generate(*DATA[data], seed=seed)) for seed in range(scenes)]
    for name, published in STATISTICS[data].items():
        assert {c[name].total for c in counts} == {published.total}, name
        positive = np.array([c[name].positive for c in counts])
        if name in ("Car", "Ped"):
            assert (positive == published.positive).all()
        else:
            distance = abs(published.positive - positive.mean()) / positive.std()
            assert distance < 3, (name, distance)


def test_statistics_of_a_small_scene():
    scene = generate(2, 3, 10, seed=4, close=0.5)
    found = statistics(scene)
    assert list(found) == [*LEARNED, "Close"]
    assert found["Car"] == (2, 5)
    assert found["Ped"] == (3, 5)
    assert found["Stop"] == (int(scene.stop.sum()), 20)
    assert found["Crossing"] == (int(scene.crossing.sum()), 30)
    assert found["Close"] == (2 * int(scene.close.sum()), 250)
    assert Count(1, 4).share == 0.25
