"""What a project reads: wide tables, local sorts, test files, splits, flips, definitions."""

from dataclasses import replace

import pytest
import torch

from fotltn.errors import DataError
from fotltn.grounding import wide
from fotltn.grounding.frames import read_sources
from fotltn.networks.encoders import FeatureInputs, Joined
from fotltn.networks.predicates import Logits
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.find import audit_labels
from fotltn.project.model import load_model, model_of
from fotltn.project.world import InMemory, World, read_world
from tests.project.common import PLACES, RUNS, TIMES, WHO, changed, project, same


def world(folder, *changes) -> World:
    return read_world(read_config(project(folder, changed(*changes))))


def facts_of(found: World, labels) -> set[tuple[object, ...]]:
    """Labels by names: predicate, trace, entities, time, truth."""
    return {
        (name, found.facts.traces[trace], *(
            found.facts.name(s, trace, a) for s, a in zip(labels.sorts[name], args, strict=True)
        ), time, truth)
        for name, index in labels.index.items()
        for (trace, *args, time), truth in zip(
            index.T.tolist(), labels.truth[name].tolist(), strict=True
        )
    }  # fmt: skip


def test_wide_tables_and_long_ones_are_one_world(tmp_path):
    found = world(tmp_path)
    assert found.facts.traces == RUNS
    assert set(found.facts.entities["agent"]) == set(WHO)
    assert found.fixed.inputs["agent"].names == ("speed", "colour=red", "colour=blue")
    assert found.fixed.inputs["agent"].values.shape == (2, 3, TIMES, 3)
    assert found.fixed.inputs["place"].values.shape == (2, 2, 1, 1)
    assert set(found.fixed.predicates) == {"Car"}
    states = len(RUNS) * len(WHO) * TIMES
    assert {n: len(t) for n, t in found.stated.truth.items()} == {
        "Stop": states, "Slow": states, "Fast": states, "Near": states * len(PLACES),
    }  # fmt: skip


def test_a_share_of_the_facts_is_for_training(tmp_path):
    found = world(tmp_path)
    assert found.test is not None
    train, test = facts_of(found, found.labels), facts_of(found, found.test)
    assert train | test == facts_of(found, found.stated)
    assert not train & test
    assert len(train) == len(test)
    again = world(tmp_path)
    assert facts_of(again, again.labels) == train
    other = world(tmp_path, ("seed = 1", "seed = 2"))
    assert facts_of(other, other.labels) != train


def test_splits_by_traces(tmp_path):
    found = world(tmp_path, ("train = 0.5", 'train = 0.5\nby = "traces"'))
    assert found.test is not None
    train = {f[1] for f in facts_of(found, found.labels)}
    test = {f[1] for f in facts_of(found, found.test)}
    assert (len(train), len(test), train & test) == (1, 1, set())


def test_splits_by_entities(tmp_path):
    found = world(tmp_path, ("train = 0.5", 'train = 0.67\nby = "entities"\nsort = "agent"'))
    assert found.test is not None
    train = {f[2] for f in facts_of(found, found.labels)}
    test = {f[2] for f in facts_of(found, found.test)}
    assert (len(train), len(test), train & test) == (2, 1, set())


def test_flips_change_training_labels_only(tmp_path):
    whole = world(tmp_path, ("train = 0.5", "train = 0.5\nflip = 1.0"))
    plain = world(tmp_path)
    assert whole.test is not None
    assert plain.test is not None
    assert facts_of(whole, whole.test) == facts_of(plain, plain.test)
    assert facts_of(whole, whole.stated) == facts_of(plain, plain.stated)
    flipped = {(*f[:-1], 1 - float(str(f[-1]))) for f in facts_of(whole, whole.labels)}
    assert flipped == facts_of(plain, plain.labels)
    some = world(tmp_path, ("train = 0.5", "flip = 0.25"))
    assert some.test is None
    changed_facts = facts_of(some, some.labels) - facts_of(some, some.stated)
    assert 0.1 < len(changed_facts) / some.stated.total < 0.4


TESTED = "predicate,arg1,arg2,time,trace,truth\n"


def test_test_files_hold_what_is_for_testing(tmp_path):
    folder = project(tmp_path, changed(("train = 0.5", 'test = ["test.csv"]')))
    rows = [r for r in (folder / "facts.csv").read_text().splitlines() if r.startswith("Near,a1")]
    same = rows[0].rstrip(",")
    (folder / "test.csv").write_text(
        f"{TESTED}Near,a9,l1,0,r1,1\n{same}\nCrowded,l1,,,r1,1\nStop,a9,,1,r1,0\n"
    )
    with pytest.raises(DataError, match="no value"):  # a new agent has no features
        read_world(read_config(folder))
    (folder / "test.csv").write_text(f"{TESTED}{same}\nCrowded,l1,,,r1,1\nWaits,a1,,1,r1,0\n")
    found = read_world(read_config(folder))
    assert found.test is not None
    assert facts_of(found, found.test) == {
        ("Crowded", "r1", "l1", 0, 1.0), ("Waits", "r1", "a1", 1, 0.0),
    }  # fmt: skip
    assert facts_of(found, found.labels) == facts_of(found, found.stated) - facts_of(
        found, found.test
    )


def test_static_facts_without_a_trace_stay_with_their_file(tmp_path):
    (tmp_path / "t.fot").write_text(
        "sort a\nstatic predicate P(a)\npredicate Q(a)\naxiom A: forall x. G(P(x) -> Q(x))\n"
    )
    (tmp_path / "train.csv").write_text("predicate,arg1,time,trace\nP,e1,,\nQ,e1,0,r1\nQ,e1,0,r0\n")
    (tmp_path / "test.csv").write_text("predicate,arg1,time,trace\nP,e2,,\nQ,e1,0,r2\nQ,e2,0,r3\n")
    (tmp_path / "project.toml").write_text(
        '[theory]\nfile = "t.fot"\n[data]\nfacts = ["train.csv"]\ntest = ["test.csv"]\n'
        '[predicates]\nP = "logits"\nQ = "logits"\n'
    )
    found = read_world(read_config(tmp_path))
    assert found.test is not None
    every = ("r1", "r0", "r2", "r3")
    assert facts_of(found, found.labels) == {
        *(("P", r, "e1", 0, 1.0) for r in every), ("Q", "r1", "e1", 0, 1.0),
        ("Q", "r0", "e1", 0, 1.0),
    }  # fmt: skip
    assert facts_of(found, found.test) == {
        *(("P", r, "e2", 0, 1.0) for r in every), ("Q", "r2", "e1", 0, 1.0),
        ("Q", "r3", "e2", 0, 1.0),
    }  # fmt: skip


def test_each_source_is_read_once(tmp_path, monkeypatch):
    folder = project(tmp_path, changed(("train = 0.5", 'test = ["test.csv"]')))
    (folder / "test.csv").write_text(f"{TESTED}Crowded,l1,,,r1,1\n")
    seen: list[str] = []
    read = read_sources

    def counted(sources):
        for place, table in read(sources):
            seen.append(place.name)
            yield place, table

    monkeypatch.setattr(wide, "read_sources", counted)
    assert read_world(read_config(folder)).test is not None
    assert len(seen) == len(set(seen)) > 2


def test_what_both_state_is_for_training_even_if_it_is_settled(tmp_path):
    folder = project(
        tmp_path, changed(("train = 0.5", 'test = ["test.csv"]\non_conflict = "last"'))
    )
    (folder / "test.csv").write_text(f"{TESTED}Waits,a1,,0,r1,1\nWaits,a1,,1,r1,1\n")
    for truth in (0, 1):
        facts = (folder / "facts.csv").read_text().splitlines()
        both = [*(r for r in facts if not r.startswith("Waits,a1,,0")), f"Waits,a1,,0,r1,{truth},"]
        (folder / "facts.csv").write_text("\n".join(both) + "\n")
        found = read_world(read_config(folder))
        assert found.test is not None
        assert facts_of(found, found.test) == {("Waits", "r1", "a1", 1, 1.0)}
        assert ("Waits", "r1", "a1", 0, 1.0) in facts_of(found, found.labels)


def test_local_sorts(tmp_path):
    found = world(tmp_path, ("train = 0.5", 'local = ["agent"]'))
    assert found.facts.local == {"agent": (WHO, WHO)}
    assert "agent" not in found.facts.entities


def test_facts_in_memory_come_on_top(tmp_path):
    config = read_config(project(tmp_path))
    config = replace(config, data=replace(config.data, facts=(*config.data.facts, "more")))
    more = InMemory(tables={"more": {"predicate": ["Crowded"], "arg1": ["l1"], "truth": [1]}})
    found = read_world(config, more)
    assert ("Crowded", "r2", "l1", 0, 1.0) in facts_of(found, found.stated)


# --- networks ---------------------------------------------------------------------------------


def test_networks_as_the_file_says(tmp_path):
    grounding = build(read_config(project(tmp_path))).task.grounding
    shapes = {n: tuple(p.shape) for n, p in grounding.named_parameters()}
    assert shapes["groups.0.module.0.weight"] == (5, 3 + 3)  # features and an embedding
    assert shapes["groups.0.module.2.weight"] == (3, 5)
    assert shapes["networks.Near.module.0.weight"] == (4, 6 + 3)
    crowded = grounding.networks["Crowded"]
    assert isinstance(crowded, Logits)
    assert crowded.values.shape == (2, 2, 1)
    place = grounding.inputs["place"]
    assert isinstance(place, Joined)
    features = place.parts[0]
    assert isinstance(features, FeatureInputs)
    assert [tuple(p.shape) for p in features.parameters()] == [(1, 1, 1)]
    tables = grounding().predicates
    total = sum(tables[n] for n in ("Stop", "Slow", "Fast"))
    assert torch.allclose(total, torch.ones_like(total))
    assert tables["Waits"].shape == (2, 3, TIMES)


def test_initial_weights_follow_the_seed_alone(tmp_path):
    def weights(*changes: tuple[str, str]) -> list[torch.Tensor]:
        found = build(read_config(project(tmp_path, changed(*changes))))
        return list(found.task.grounding.parameters())

    first = weights()
    torch.manual_seed(99)
    torch.set_default_dtype(torch.float32)
    second = weights()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert any(
        not torch.equal(a, b) for a, b in zip(first, weights(("seed = 3", "seed = 4")), strict=True)
    )


def test_double_precision_is_so_throughout(tmp_path):
    folder = project(tmp_path, changed(("[training]", '[machine]\ndtype = "float64"\n[training]')))
    torch.set_default_dtype(torch.float32)
    built = build(read_config(folder))
    assert {p.dtype for p in built.task.grounding.parameters()} == {torch.float64}
    tables = model_of(built).tables.predicates
    assert {t.dtype for t in tables.values() if isinstance(t, torch.Tensor)} == {torch.float64}
    kernel = next(b for n, b in built.task.grounding.named_buffers() if n.endswith("kernel"))
    assert kernel.dtype == torch.float64
    assert float((kernel.sum(1) - 1).abs().max()) < 1e-15


# --- definitions and labels -------------------------------------------------------------------


def test_a_definition_without_facts_is_what_its_formula_says_of_the_labels(tmp_path):
    model = model_of(build(read_config(project(tmp_path))))
    truth = model.truth.predicates
    stop, near = truth["Stop"], truth["Near"]
    assert isinstance(stop, torch.Tensor)
    assert isinstance(near, torch.Tensor)
    before = torch.cat([torch.zeros_like(stop[..., :1]), stop[..., :-1]], dim=-1)
    wanted = torch.minimum(before, near.amax(2))
    assert same(truth["Waits"], wanted)
    assert bool(wanted.any())


def test_a_definition_of_given_predicates_needs_no_labels(tmp_path):
    text = changed(
        ('"Y Stop(x) & exists y. Near(x, y)"', '"Car(x)"'), ('semantics = "godel"}', "}")
    ).replace(", }", "}")
    built = build(read_config(project(tmp_path, text)))
    assert "Waits" not in built.task.labels.index
    assert "Waits" not in built.task.grounding.open


def test_labels_of_what_is_computed_from_given_data_are_refused(tmp_path):
    text = changed(('"Y Stop(x) & exists y. Near(x, y)"', '"Car(x)"'))
    folder = project(tmp_path, text)
    with (folder / "facts.csv").open("a") as file:
        file.write("Waits,a1,,0,r1,1,\n")
    with pytest.raises(DataError, match="labels for 'Waits', which is not learned"):
        build(read_config(folder))


def test_the_audit_of_a_project_is_that_of_its_labels(tmp_path):
    found = audit_labels(project(tmp_path))
    assert [a.name for a in found.axioms] == ["A1", "A2", "A3", "A4"]
    # No fact states a place that is crowded or not, so that labels say nothing of A3.
    assert {a.name for a in found.axioms if a.labels is None} == {"A3"}
    assert all(a.labels in (None, a.value) for a in found.axioms)
    assert found.axiom("A1").value == 1.0  # the states exclude each other
    assert found.axiom("A1").all_false == 1.0
    assert found.axiom("A3").evidence.support == 0  # no place is stated to be crowded


@pytest.mark.reliability
def test_what_the_project_uses_is_used(tmp_path):
    """Definitions, what they speak of, and what is learned; what nobody speaks of is not."""
    folder = project(
        tmp_path,
        changed(("Y Stop(x) & exists y. Near(x, y)", "exists y. height(y) > 1 & Sees(x, y)")),
    )
    theory = folder / "theory.fot"
    text = theory.read_text().replace("Near(x, y) & Crowded(y)", "Near(x, y)")
    text = text.replace("Waits(x) -> Stop(x)", "Stop(x) -> Stop(x)")
    theory.write_text(f"{text}predicate Sees(agent, place), Odd(agent)\n")
    warned = [w.message for w in read_world(read_config(folder)).theory.warnings]
    assert warned == ["the predicate 'Odd' is declared but not used"]
    model_of(build(read_config(folder))).save(tmp_path / "model")
    assert [w.message for w in load_model(tmp_path / "model").theory.warnings] == warned
