"""Sparse matrices times tables, there and back, on a GPU too, or in Triton's interpreter."""

import pytest
import torch

from fotltn.kernels import matrix as kernels
from fotltn.kernels.gpu import usable

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
@pytest.mark.parametrize("longest", ["short", "one is long", "long"])
@pytest.mark.parametrize("ones", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 70, 50), (1, 40, 9, 21), (3, 7, 20, 20), (2, 33, 1, 5)])
def test_products_are_those_of_dense_matrices(device, longest, ones, shape, monkeypatch):
    monkeypatch.setattr(kernels, "SHORT", 0 if longest == "long" else 32)
    monkeypatch.setattr(kernels, "SMALL", 0)
    generator = torch.Generator().manual_seed(1)
    dense = (torch.rand(shape, generator=generator) < 0.1).float()
    if longest == "one is long":
        dense[0, 0, 0] = 1
        monkeypatch.setattr(kernels, "SHORT", max(2, int(dense.sum(-2).max())))
    if not ones:
        dense *= torch.rand(shape, generator=generator).float()
    order = torch.randperm(int((dense != 0).sum()), generator=generator)
    index = dense.nonzero().T[:, order]
    value = dense[tuple(index)].to(device)
    trace, time, row, column = index.to(device)
    places = kernels.PlacesOfFacts(
        trace if shape[0] > 1 else None, time if shape[1] > 1 else None, row, column, shape
    )
    facts = kernels.matrix(places, value)
    fits = usable(value) and bool((dense != 0).sum(-1).max() <= kernels.SHORT)
    assert facts.by_row.short == fits
    x = torch.rand(shape[0], shape[3], shape[1], generator=generator).float().to(device)
    x.requires_grad_()
    weights = torch.rand(shape[0], shape[2], shape[1], generator=generator).float().to(device)
    product = kernels.multiply(facts, x)
    full = dense.to(device)
    torch.testing.assert_close(product, torch.einsum("btrc,bct->brt", full, x))
    (slope,) = torch.autograd.grad((product * weights).sum(), x)
    torch.testing.assert_close(slope, torch.einsum("btrc,brt->bct", full, weights))


def test_products_of_many_tables_at_once():
    shape = (2, 3, 4, 5)
    dense = (torch.rand(shape) < 0.3).double()
    trace, time, row, column = dense.nonzero().T
    facts = kernels.matrix(
        kernels.PlacesOfFacts(trace, time, row, column, shape), torch.ones_like(row).double()
    )
    x = torch.rand(6, 2, 5, 3).double()
    products = torch.vmap(lambda one: kernels.multiply(facts, one))(x)
    torch.testing.assert_close(products, torch.einsum("btrc,nbct->nbrt", dense, x))
