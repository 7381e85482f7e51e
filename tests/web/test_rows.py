"""Which rows of a heat map a page shows."""

import torch

from fotltn.web.visit import chosen
from tests.analysis.test_prediction_rows import shown


def test_rows_are_found_by_name_in_the_traces_that_have_it():
    found, _ = shown("Sees(x, y)")
    every = torch.arange(found.rows)
    assert chosen(every, found, None, "bob").tolist() == [1, 2, 3]
    assert chosen(every, found, 1, "bob").tolist() == []
    assert chosen(every, found, 1, None).tolist() == [4, 5, 6, 7]
    assert chosen(every, found, None, "C").tolist() == [4, 5, 6]
    with_all, _ = shown("Stop(x)", local=())
    assert chosen(torch.arange(8), with_all, None, "ann").tolist() == [0, 4]
