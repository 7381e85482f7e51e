"""Networks compute only where entities are present; and how features have changed."""

import pytest
import torch
from torch import nn

from fotltn import DataError
from fotltn.logic.check import check
from fotltn.networks.encoders import FeatureInputs, with_changes
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import part
from fotltn.networks.predicates import Network, Softmax, mlp
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

THEORY = """
sort car, ped
static predicate Tall(ped)
predicate Moves(ped), Stands(ped), Crosses(ped), Sees(car, ped), Stops(car)
"""
TRACES, CARS, PEDS, TIMES = 3, 1, 4, 6


def draw(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def there():
    return draw(TRACES, PEDS, TIMES, seed=7) < 0.5


def made(mask):
    signature = check(parse_theory(THEORY)).signature
    generator = torch.Generator().manual_seed(3)
    features = {"car": draw(TRACES, CARS, TIMES, 2, seed=1), "ped": draw(TRACES, PEDS, TIMES, 3)}

    def network(width, outputs=1):
        return mlp(width, (5,), outputs, generator=generator)

    return Grounding(
        signature,
        Tables(
            {"car": CARS, "ped": PEDS}, torch.tensor([TIMES, 4, 5]), TIMES, {}
        ),
        {
            "Tall": Network(network(3), static=True),
            "Crosses": Network(network(3)),
            "Sees": Network(network(5)),
            "Stops": Network(network(2)),
        },
        groups=[Softmax(("Moves", "Stands"), network(3, 2))],
        inputs={n: FeatureInputs(v) for n, v in features.items()},
        present=None if mask is None else {"ped": mask},
    ).double()  # fmt: skip


def test_where_entities_are_nothing_changes_and_elsewhere_nothing_holds():
    mask = there()
    some, every = made(mask)(), made(None)()
    for name in ("Crosses", "Moves", "Stands"):
        torch.testing.assert_close(some.predicate(name), every.predicate(name) * mask)
    torch.testing.assert_close(some.predicate("Sees"), every.predicate("Sees") * mask.unsqueeze(1))
    torch.testing.assert_close(
        some.predicate("Tall"), every.predicate("Tall") * mask.any(-1, keepdim=True)
    )
    torch.testing.assert_close(some.predicate("Stops"), every.predicate("Stops"))


def test_gradients_are_those_of_the_cells_that_count():
    mask = there()
    some, every = made(mask), made(None)
    (some().predicate("Sees") ** 2).sum().backward()
    ((every().predicate("Sees") * mask.unsqueeze(1)) ** 2).sum().backward()
    own, all_of_them = dict(some.named_parameters()), dict(every.named_parameters())
    compared = [n for n, p in own.items() if p.grad is not None]
    assert compared
    for name in compared:
        torch.testing.assert_close(own[name].grad, all_of_them[name].grad)


def test_parts_of_the_traces_have_their_part_of_presence():
    grounding = made(there())
    chosen = part(grounding.fixed, grounding.signature, traces=torch.tensor([2, 0]))
    cut = part(grounding.fixed, grounding.signature, entities={"ped": torch.tensor([3, 1])})
    whole = grounding()
    torch.testing.assert_close(
        grounding(chosen).predicate("Crosses"), whole.predicate("Crosses")[[2, 0]]
    )
    torch.testing.assert_close(
        grounding(cut).predicate("Sees"), whole.predicate("Sees")[:, :, [3, 1]]
    )


def test_changes_are_those_since_an_entity_was_last_seen():
    values, mask = draw(TRACES, PEDS, TIMES, 2), there()
    found = with_changes(values, mask, (1, 3))
    assert found.shape == (TRACES, PEDS, TIMES, 6)
    torch.testing.assert_close(found[..., :2], values)
    for trace, ped, time in mask.nonzero().tolist():
        seen = mask[trace, ped].nonzero().flatten().tolist()
        for place, back in enumerate((1, 3)):
            earlier = [t for t in seen if t <= max(time - back, seen[0])][-1]
            expected = values[trace, ped, time] - values[trace, ped, earlier]
            own = found[trace, ped, time, 2 + 2 * place : 4 + 2 * place]
            torch.testing.assert_close(own, expected)


@pytest.mark.parametrize(
    ("values", "steps", "message"),
    [(draw(1, 1, 4, 1), (0,), "at least 1 step"), (draw(1, 1, 1, 1), (2,), "same at all times")],
)
def test_changes_that_make_no_sense(values, steps, message):
    with pytest.raises(DataError, match=message):
        with_changes(values, torch.ones(values.shape[:3], dtype=torch.bool), steps)


def test_no_changes_are_no_features():
    values = draw(1, 2, 3, 4)
    assert with_changes(values, torch.ones(1, 2, 3, dtype=torch.bool), ()) is values


def test_features_are_scaled_anew_when_other_weights_are_loaded():
    one, other = FeatureInputs(draw(1, 3, 4, 2)), FeatureInputs(5 * draw(1, 3, 4, 2, seed=2))
    before = one()
    assert one() is before
    one.load_state_dict(other.state_dict())
    torch.testing.assert_close(one(), (one.values - other.mean) / other.spread)
    assert not torch.equal(one(), before)
    assert isinstance(one, nn.Module)
