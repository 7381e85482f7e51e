"""A watch where entities come and go: a point at which one is absent does not exist for it."""

import pytest

from fotltn.errors import DataError
from fotltn.monitor.watch import Watch
from fotltn.syntax.load import parse_theory

RECOVERS = """
sort p
predicate Sick(p), Here(p), Seen(p)
axiom Rec: G forall x where Here(x). (Sick(x) -> F[1,2] !Sick(x))
axiom Next: forall x. G(Sick(x) -> X !Sick(x))
"""
DIARY = [
    [("Here", "ann"), ("Sick", "ann"), ("Here", "bob"), ("Sick", "bob")],
    [("Here", "ann"), ("Sick", "ann"), ("Here", "bob")],
    [("Here", "bob"), ("Sick", "bob")],
    [("Here", "ann"), ("Sick", "ann"), ("Here", "bob")],
]


def test_an_absent_point_is_no_point():
    """Absent at step 2, ann does not recover there; the next point of a cell must be one, too."""
    watch = Watch(parse_theory(RECOVERS), presence=["Here"])
    events = [str(event) for step in DIARY for event in watch.step(step)]
    events += map(str, watch.finish("final"))
    assert [e for e in events if "violated" in e] == [
        "step 1: Next violated: x = ann, time 0",
        "step 2: Rec violated: x = ann, time 0",
        "step 3: Rec violated: x = ann, time 1",
    ]
    watch = Watch(parse_theory(RECOVERS), presence=["Here"])
    watch.step(DIARY[0])
    assert "F[1,2] !Sick" in str([*map(str, watch.open())])
    assert "Here" not in str([*map(str, watch.open())])


def test_several_predicates_of_presence_are_united():
    apart = [[("Seen" if f == ("Here", "ann") else f[0], f[1]) for f in step] for step in DIARY]
    rule = RECOVERS.replace("Here(x)", "(Here(x) | Seen(x))")
    counts = []
    for text, steps, names in ((RECOVERS, DIARY, ["Here"]), (rule, apart, ["Here", "Seen"])):
        watch = Watch(parse_theory(text), presence=names)
        for step in steps:
            watch.step(step)
        counts.append([(s.violations, s.last) for s in watch.standings().values()])
    assert counts[0] == counts[1]


def test_a_state_of_another_meaning_of_absence_is_refused():
    watch = Watch(parse_theory(RECOVERS), presence=["Here"])
    watch.step(DIARY[0])
    old = {k: v for k, v in watch.snapshot().items() if k != "meaning of absence"}
    with pytest.raises(DataError, match="no meaning of absence: where entities come and go"):
        Watch(parse_theory(RECOVERS), presence=["Here"]).restore(old)
