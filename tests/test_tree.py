"""Nodes and their traversals: structural equality, hashes, order, sharing."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from fotltn.tree import Node, children, depth, events, fold, parts, postorder, transform


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Leaf(Node):
    value: object
    span: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Twin(Node):
    value: object
    span: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pair(Node):
    left: Node
    right: Node | None
    rest: tuple[object, ...] = ()


def a() -> Leaf:
    return Leaf("a")


def test_equality_is_structural():
    assert a() == a()
    assert a() is not a()
    assert hash(a()) == hash(a())
    assert Pair(a(), Leaf(1), (a(), "x")) == Pair(a(), Leaf(1), (a(), "x"))
    assert len({a(), a(), Leaf("b")}) == 2


DIFFERENT = [
    (Leaf("a"), Leaf("b")),
    (Leaf("a"), Twin("a")),
    (Leaf(1), Leaf(1.0)),
    (Leaf(True), Leaf(1)),
    (Leaf(0.0), Leaf(False)),
    (Leaf(None), Leaf("None")),
    (Pair(a(), Leaf("b")), Pair(Leaf("b"), a())),
    (Pair(a(), None), Pair(a(), a())),
    (Pair(a(), None, (a(),)), Pair(a(), None, (a(), a()))),
    (Pair(a(), None, (a(),)), Pair(a(), None, (Leaf("b"),))),
    (Pair(a(), None, ("x",)), Pair(a(), None, ("y",))),
    (Pair(a(), None, ()), Pair(a(), None, (None,))),
    (Pair(Leaf(()), None), Pair(Leaf(((),)), None)),
]


@pytest.mark.parametrize(("one", "two"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_differs_in_kind_or_value_is_not_equal(one, two):
    assert one != two
    assert two != one


def test_equality_does_not_rely_on_hashes():
    """Equal hashes are a first test only."""
    one = Leaf("a")
    for two in (Leaf("b"), Twin("a")):
        object.__setattr__(two, "_hash", hash(one))
        assert one != two
        assert Pair(one, None) != Pair(two, None)


def test_nodes_and_other_values_are_not_equal():
    assert Leaf("a") != "a"
    assert Leaf("a") != ("a",)
    assert (Leaf("a") == object()) is False


def test_remarks_take_no_part():
    assert Leaf("a", span="here") == Leaf("a", span="there")
    assert hash(Leaf("a", span="here")) == hash(Leaf("a"))
    assert parts(Leaf("a", span="here")) == ("a",)


def test_nodes_are_frozen_and_copies_are_the_node():
    node = Pair(a(), a())
    with pytest.raises(FrozenInstanceError):
        node.left = a()  # type: ignore[misc]
    assert copy.copy(node) is node
    assert copy.deepcopy([node])[0] is node


def test_children_come_in_order_and_tuples_are_opened():
    first, second, third = Leaf(1), Leaf(2), Leaf(3)
    assert children(Pair(first, second, ("x", third, None))) == (first, second, third)
    assert children(Pair(first, None)) == (first,)
    assert children(first) == ()


def test_postorder_gives_children_first_and_equal_nodes_once():
    tree = Pair(Pair(a(), Leaf("b")), Pair(a(), Leaf("b")), (Leaf("c"), a()))
    assert list(postorder(tree)) == [a(), Leaf("b"), Pair(a(), Leaf("b")), Leaf("c"), tree]
    assert list(postorder(a(), Leaf("b"), a())) == [a(), Leaf("b")]
    assert list(postorder()) == []


def test_fold_hands_in_the_results_of_all_children():
    seen = []

    def visit(node: Node, below: list[int]) -> int:
        seen.append(node)
        return 1 + sum(below)

    assert fold(Pair(Pair(a(), a()), a(), (a(),)), visit) == 1 + 3 + 1 + 1
    assert seen.count(a()) == 1


def test_events_walk_as_a_tree():
    inner = Pair(a(), a())
    assert list(events(inner)) == [
        (True, inner), (True, a()), (False, a()), (True, a()), (False, a()), (False, inner),
    ]  # fmt: skip


def test_depth_counts_the_longest_path():
    assert depth(a()) == 1
    assert depth(Pair(a(), Pair(Pair(a(), None), None))) == 4


def test_transform_rebuilds_from_the_leaves_up():
    seen: list[Node] = []

    def rule(node: Node) -> Node:
        seen.append(node)
        return Leaf("b") if node == a() else node

    kept = Pair(Leaf("c"), None)
    tree = Pair(Pair(a(), kept), a(), ("x", a()))
    found = transform(tree, rule)
    assert found == Pair(Pair(Leaf("b"), kept), Leaf("b"), ("x", Leaf("b")))
    assert found.left.right is kept  # type: ignore[attr-defined]
    assert seen[-1] == found, "a rule sees rebuilt children"
    assert seen.count(a()) == 1
    assert transform(tree, lambda node: node) == tree


def test_fifty_thousand_levels():
    one: Node = a()
    two: Node = a()
    for _ in range(50_000):
        one, two = Pair(one, None), Pair(two, None)
    assert one == two
    assert depth(one) == 50_001
    assert sum(entering for entering, _ in events(one)) == 50_001
    assert one != Pair(two, None)


def test_shared_nodes_are_compared_once():
    one: Node = a()
    two: Node = a()
    for _ in range(100):
        one, two = Pair(one, one), Pair(two, two)
    assert one == two
    assert depth(one) == 101
    assert len(list(postorder(one))) == 101
