"""The example of docs/ltntorch.md, written for LTNtorch and for FOT-LTN, in double precision."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ltntorch.md"


@pytest.fixture
def page(monkeypatch) -> dict[str, Any]:
    """The names that the page defines; LTNtorch's `.float()` means double precision here."""
    pytest.importorskip("ltn", reason="LTNtorch is not installed")
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    names: dict[str, Any] = {"__name__": "__main__"}
    text = PAGE.read_text("utf-8")
    for block in re.findall(r"^```python[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if "optimiser" in block:
            break
        exec(block, names)
    return names


def test_both_ways_have_the_same_values_and_gradients(page):
    parameters = [*page["smokes"].parameters(), *page["friends"].parameters()]
    draw = torch.Generator().manual_seed(1)
    for _ in range(20):
        with torch.no_grad():
            for parameter in parameters:
                parameter.normal_(generator=draw)
        theirs, ours = page["ltntorch_loss"](), page["fotltn_loss"]()
        assert ours.dtype == theirs.dtype == torch.float64
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
        slopes = [torch.autograd.grad(loss, parameters) for loss in (ours, theirs)]
        assert any(slope.abs().max() > 1e-3 for slope in slopes[0])
        torch.testing.assert_close(*slopes, rtol=0, atol=1e-6)


def test_both_ways_take_the_same_steps(page):
    parameters = [*page["smokes"].parameters(), *page["friends"].parameters()]
    start = [parameter.detach().clone() for parameter in parameters]
    ends = []
    for loss in (page["ltntorch_loss"], page["fotltn_loss"]):
        with torch.no_grad():
            for parameter, value in zip(parameters, start, strict=True):
                parameter.copy_(value)
        optimiser = torch.optim.SGD(parameters, lr=0.1)
        for _ in range(20):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
        ends.append([parameter.detach().clone() for parameter in parameters])
    torch.testing.assert_close(*ends, rtol=0, atol=1e-6)


def test_satagg_with_its_defaults_differs_by_no_more_than_its_epsilon(page):
    import ltn

    page["sat_agg"] = ltn.fuzzy_ops.SatAgg()
    difference = (page["ltntorch_loss"]() - page["fotltn_loss"]()).abs().item()
    assert 1e-7 < difference < ltn.fuzzy_ops.eps
