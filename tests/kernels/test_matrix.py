"""Sparse matrices times vectors, there and back, on a GPU too."""

import pytest
import torch

from fotltn.kernels import matrix as kernels

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
@pytest.mark.parametrize("short", [kernels.SHORT, 0])
@pytest.mark.parametrize("ones", [True, False])
def test_products_are_those_of_dense_matrices(device, short, ones, monkeypatch):
    monkeypatch.setattr(kernels, "SHORT", short)
    generator = torch.Generator().manual_seed(1)
    dense = (torch.rand(70, 50, generator=generator) < 0.1).float()
    if not ones:
        dense *= torch.rand(70, 50, generator=generator).float()
    places = torch.randperm(int((dense != 0).sum()), generator=generator)
    rows, columns = dense.nonzero().T[:, places]
    told = [t.to(device) for t in (rows, columns, dense[rows, columns])]
    facts = kernels.matrix(told[0], told[1], told[2], (70, 50))
    assert facts.by_row.short == (device == "cuda" and short > 0)
    x = torch.rand(50, generator=generator).float().to(device).requires_grad_()
    weights = torch.rand(70, generator=generator).float().to(device)
    product = kernels.multiply(facts, x)
    torch.testing.assert_close(product, dense.to(device) @ x)
    (slope,) = torch.autograd.grad((product * weights).sum(), x)
    torch.testing.assert_close(slope, weights @ dense.to(device))
