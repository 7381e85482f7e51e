"""The benchmark of what users run: its calls work, and LTNtorch's side says the same axioms."""

import pytest
import torch

from benchmarks import by_hand, users
from benchmarks.reading import HERE, spent


def test_rows_have_ratios_to_now():
    row = users._row("score", {"now": [3.0, 2.0, 2.5], "before": [9.0, 5.0, 4.0]})
    assert row == {
        "what": "score", "now, cold s": 3.0, "now, warm s": 2.0, "before, cold s": 9.0,
        "before, warm s": 4.0, "before / now": 2.0,
    }  # fmt: skip


def test_each_side_has_its_calls(tmp_path):
    ours, peer = users.calls(tmp_path, "now"), users.calls(tmp_path, users.PEER)
    assert ours.keys() == users.calls(tmp_path, "before").keys()
    assert list(ours)[1:5] == ["score", "first answer", "rules", "read CSV"]
    assert len(peer) == 1
    assert peer.keys() < ours.keys()


def test_ltntorch_says_the_same_axioms(tmp_path):
    """But for the projections, which it applies once to a mean and we to each of two."""
    pytest.importorskip("ltn", reason="LTNtorch is not installed")
    from benchmarks import ltntorch_loop as loop

    spent(HERE, ["-m", "fotltn", "new", str(tmp_path / "scene"), *users.SMALL])
    entities, steps, close, labels = loop.read(tmp_path / "scene" / "facts.csv")
    assert (entities, steps) == (60, 60)
    assert {name: len(facts) > 0 for name, facts in labels.items()} == dict.fromkeys(
        loop.LEARNED, True
    )
    draw = torch.Generator().manual_seed(0)
    degrees = {
        name: torch.rand(entities, 1 if name in loop.STATIC else steps, generator=draw)
        for name in loop.LEARNED
    }
    values = torch.stack(by_hand.axioms(degrees, close))
    wanted = 1 - (1 - values).pow(loop.P).mean().pow(1 / loop.P)
    assert float(loop.satisfaction(degrees, close)) == pytest.approx(float(wanted), abs=2e-3)
