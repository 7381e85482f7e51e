"""A model in the loop: it turns features into facts, step by step, and a watch judges them.

Networks see an entity as they would in the whole trace. For this, each entity has a memory: the
last values for changes, the state of a recurrent network, as many steps as convolutions reach, and
for a transformer everything since the entity arrived.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never

import torch
from torch import Tensor

from fotltn.arguments import names_of, public
from fotltn.errors import DataError, listing, name_hint
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory, check
from fotltn.monitor.steps import TraceStep, is_number, wrong
from fotltn.monitor.watch import Watch
from fotltn.networks.encoders import Embeddings, FeatureInputs, Joined
from fotltn.networks.grounding import Grounding
from fotltn.networks.sequences import Encoded, TimeEncoder, takes_presence
from fotltn.project.apply import own_data_only
from fotltn.project.config import InputConfig
from fotltn.project.find import AnyModel, model_at
from fotltn.threads import entries
from fotltn.tree import postorder

if TYPE_CHECKING:
    from fotltn.monitor.events import CellEvent
    from fotltn.project.model import Model
    from fotltn.syntax.load import AnyTheory

_TRIED = 5  # traces on which custom networks are tried


@dataclass(slots=True)
class EntityMemory:
    """The memory of an entity.

    Args:
        step: the step at which the entity was last seen.
        values: its features at the last steps, oldest first; while it was away, the last known
            ones.
        rows: the inputs that an encoder without a state has seen, with axes (step, width).
        state: the state of a recurrent network, with axes (layer, width).
    """

    step: int
    values: list[Tensor] = field(default_factory=list)
    rows: Tensor | None = None
    state: Tensor | None = None


class LiveSort:
    """The inputs of networks about the entities of a sort, step by step."""

    def __init__(self, sort: str, model: Model) -> None:
        """Use the parts of a model's inputs.

        Raises:
            DataError: the inputs cannot be computed step by step.
        """
        how: InputConfig = model.config.inputs[sort]
        inputs = model.grounding.inputs_by_sort[sort]
        self.sort, self.changes, self.unknown = sort, how.changes, how.unknown
        self.encoder: TimeEncoder | None = None
        if isinstance(inputs, Encoded):
            if not isinstance(inputs.encoder, TimeEncoder):
                raise _refused(
                    f"nothing says whether the encoder of '{sort}' looks ahead",
                    "use one of the built-in encoders, with causal = true",
                )
            if not inputs.encoder.causal:
                raise _refused(
                    f"the encoder of '{sort}' looks ahead (inputs.{sort}.encoder.causal = "
                    "false), at steps that have not come yet",
                    "set causal = true, and train again",
                )
            self.encoder = inputs.encoder
        if how.neighbours:
            raise _refused(
                f"networks see the neighbours of each '{sort}' (inputs.{sort}.neighbours)"
            )
        parts = [p for p in inputs.modules() if isinstance(p, FeatureInputs | Embeddings | Joined)]
        features = [p for p in parts if isinstance(p, FeatureInputs)]
        if not features:
            raise _refused(
                f"networks see no features of '{sort}', so no step would change their output"
            )
        self.features = features[0]
        self.vectors = next((p for p in parts if isinstance(p, Embeddings)), None)
        self.names = model.world.fixed.inputs[sort].names
        self.still = self.features.values.shape[2] == 1 < model.world.fixed.horizon
        self.learned = {name: number for number, name in enumerate(how.learnable)}
        wide = [w for w in model.config.data.wide if w.sort == sort]
        self.optional = {n for w in wide for n, fill in w.missing.items() if fill == "mean"}
        self.known = {n: i for i, n in enumerate(model.facts.entities.get(sort, ()))}
        declared = model.theory.signature.predicates
        names = (n for w in wide for n in w.presence if not declared[n].static)
        there = list(dict.fromkeys(names))
        if len(there) > 1:
            raise _refused(f"{listing(there)} together say where each '{sort}' is present")
        self.presence = there[0] if there else None

    # --- what is stated ------------------------------------------------------------------------

    def stated(self, step: TraceStep) -> dict[str, Tensor]:
        """Return the features of entities that a step states.

        Raises:
            DataError: they are not the features that the model was trained on.
        """
        rows = (step.features or {}).get(self.sort, {})
        path = ("features", self.sort)
        if not isinstance(rows, Mapping):
            raise wrong(step, f"the features of '{self.sort}' must be an object, by entity", path)
        stated = {}
        for name, row in rows.items():
            if not isinstance(row, Mapping):
                raise wrong(
                    step, f"the features of '{name}' must be an object, by name", (*path, name)
                )
            for feature, value in row.items():
                if feature not in self.names:
                    hint = name_hint(feature, self.names, "the model sees")
                    raise wrong(step, f"unknown feature '{feature}'", (*path, name, feature), hint)
                if not is_number(value) and (value is not None or feature not in self.optional):
                    raise wrong(step, f"'{feature}' must be a number", (*path, name, feature))
            if lacking := [f for f in self.names if f not in row]:
                hint = f"the model sees {listing(self.names, 20)}"
                raise wrong(step, f"'{name}' has no '{lacking[0]}'", (*path, name), hint)
            numbers = [math.nan if row[f] is None else float(row[f]) for f in self.names]
            stated[name] = torch.tensor(numbers, dtype=self.features.mean.dtype)
        return stated

    # --- what is seen --------------------------------------------------------------------------

    def seen(
        self, stated: Mapping[str, Tensor], memory: Mapping[str, EntityMemory], step: int
    ) -> tuple[Tensor, dict[str, EntityMemory]]:
        """Return the inputs, with axes (trace, entity, time, width), and the memory."""
        after = {name: self._remembered(memory.get(name), v, step) for name, v in stated.items()}
        rows = [[v[-1], *(v[-1] - v[max(0, len(v) - 1 - k)] for k in self.changes)]
                for v in (after[name].values for name in stated)]  # fmt: skip
        values = torch.stack([torch.cat(row) for row in rows])
        values = (values - self.features.mean) / self.features.spread
        values = values.masked_fill(values.isnan(), 0.0)
        if self.features.learned is not None:
            for place, name in enumerate(stated):
                if name in self.learned:
                    values[place] = self.features.learned[self.learned[name], 0]
        if self.vectors is not None:
            values = torch.cat([values, self._vectors(list(stated))], dim=-1)
        if self.encoder is not None:
            values = self._encoded(values, list(stated), memory, after, step)
        return values.reshape(1, len(stated), 1, -1), after

    def _remembered(self, old: EntityMemory | None, values: Tensor, step: int) -> EntityMemory:
        """Return the memory of an entity, with its present features added."""
        past: list[Tensor] = []
        if old is not None:
            reach = max(self.changes, default=0)
            past = [*old.values, *[old.values[-1]] * min(step - old.step - 1, reach)]
            past = past[-reach:] if reach else []
        return EntityMemory(step, [*past, values])

    def _vectors(self, names: Sequence[str]) -> Tensor:
        """Return the learned vectors of entities."""
        assert self.vectors is not None
        table = self.vectors()[0, :, 0]
        strange = [n for n in names if n not in self.known]
        if strange and self.unknown != "mean":
            raise DataError(f"the model has no vector for {listing(strange)} of '{self.sort}'")
        mean = table.mean(0)
        return torch.stack([table[self.known[n]] if n in self.known else mean for n in names])

    def _encoded(
        self,
        values: Tensor,
        names: list[str],
        memory: Mapping[str, EntityMemory],
        after: Mapping[str, EntityMemory],
        step: int,
    ) -> Tensor:
        """Return the encoder's output; it sees nothing while entities are away."""
        assert self.encoder is not None
        if self.encoder.pieces is not None:
            values = self.encoder.pieces(values)
        rows = torch.cat([values, values.new_ones(len(names), 1)], dim=-1)
        news = []
        for place, name in enumerate(names):
            gap = step - memory[name].step - 1 if name in memory else 0
            news.append(torch.cat([rows.new_zeros(gap, rows.shape[1]), rows[place : place + 1]]))
        core: Any = self.encoder.core
        outputs = []
        match self.encoder.kind:
            case "gru":
                for name, new in zip(names, news, strict=True):
                    state = memory[name].state if name in memory else None
                    output, after[name].state = core.ahead(new, state)
                    outputs.append(output[-1])
                return torch.stack(outputs)
            case "convolution" | "transformer":
                reach = None
                if self.encoder.kind == "convolution":
                    reach = 1 + core.before * len(core.layers)
                for name, new in zip(names, news, strict=True):
                    past = memory[name].rows if name in memory else None
                    every = new if past is None else torch.cat([past, new])
                    every = every if reach is None else every[-reach:]
                    after[name].rows = every
                    valid = torch.ones(1, len(every), dtype=torch.bool)
                    outputs.append(core(every.unsqueeze(0), valid)[0, -1])
                return torch.stack(outputs)
            case never:
                assert_never(never)


@entries
class ModelWatch(Watch):
    r"""Watches the predictions of a model on a trace that arrives step by step.

    Steps have features, by sort, entity and name: `{"features": {"pump": {"north": {"pressure":
    5.1}}}, "facts": […]}`. The model computes learned predicates from the features, with the same
    result as when it is applied to the whole trace.

    >>> import fotltn as fot
    >>> theory = "sort pump\npredicate Failed(pump)\naxiom Fine: forall x. G !Failed(x)"
    >>> rows = {"pump": ["a", "a"], "t": [0, 1], "pressure": [5.0, 1.0], "failed": [0, 1]}
    >>> table = fot.Wide(
    ...     rows, "pump", "pump", "t", predicates={"failed": "Failed"}, features=["pressure"]
    ... )
    >>> model = fot.train(
    ...     theory, wide=table, learn=["Failed"], inputs={"pump": {"embedding": 0}},
    ...     training={"epochs": 60, "rate": 0.05}, objective={"axioms": "none"},
    ... )
    >>> watch = fot.ModelWatch(model)
    >>> [event.axiom for event in watch.step({"features": {"pump": {"a": {"pressure": 1.0}}}})]
    ['Fine']
    """

    @public
    def __init__(
        self,
        model: AnyModel,
        theory: AnyTheory | None = None,
        *,
        presence: Sequence[str] | str = (),
        **options: Any,
    ) -> None:
        """Begin before the first step.

        Args:
            model: the model that predicts learned predicates, or the path of its folder or project.
                Its thresholds decide what is true.
            theory: the axioms to watch: a theory, its file or its text; by default, those
                of the model.
            presence: predicates of presence, besides those of the model.
            options: the options of `fotltn.Watch`.

        Raises:
            DataError: the model needs more than the steps so far, for example for an encoder that
                looks ahead, or the theory does not mention its predicates.
        """
        model = model_at(model)
        checked = model.theory if theory is None else check(theory)
        self.sorts = _live_sorts(model, checked)
        there = [s.presence for s in self.sorts.values() if s.presence is not None]
        super().__init__(
            checked, presence=[*dict.fromkeys([*there, *names_of(presence)])], **options
        )
        self.grounding: Grounding = model.grounding.eval()
        self.learned = [n for n in model.grounding.learned if n in checked.signature.predicates]
        self.thresholds = {n: model.thresholds.get(n, 0.5) for n in self.learned}
        self.memory: dict[str, dict[str, EntityMemory]] = {sort: {} for sort in self.sorts}
        weights = hashlib.sha256()
        for tensor in model.grounding.state_dict().values():
            weights.update(tensor.cpu().numpy().tobytes())
        self._kind["model"] = weights.hexdigest()[:16]

    def _again(self, _text: str) -> bool:
        return False  # predictions of the model are not in the text

    def _take(self, step: TraceStep) -> Iterator[CellEvent]:
        facts, after = self._sensed(step)
        yield from super()._take(replace(step, facts=facts, features=None))
        for sort, memory in after.items():
            self.memory[sort].update(memory)

    def _sensed(self, step: TraceStep) -> tuple[list[Any], dict[str, dict[str, EntityMemory]]]:
        """Return the facts of a step with the model's predictions, and the new memory."""
        features = step.features or {}
        for sort in features:
            if sort not in self.sorts:
                hint = name_hint(sort, list(self.sorts), "the model sees")
                raise wrong(step, f"features of the sort '{sort}'", ("features", sort), hint)
        for place, fact in enumerate(step.facts):
            if fact and fact[0] in self.learned:
                text = f"'{fact[0]}' is predicted by the model, so steps must not state it"
                raise wrong(step, text, ("facts", place))
        now = self.count + self._waiting
        names: dict[str, list[str]] = {}
        seen: dict[str, Tensor] = {}
        after: dict[str, dict[str, EntityMemory]] = {}
        facts = list(step.facts)
        for sort, live in self.sorts.items():
            stated = self._present(live, step, live.stated(step), now)
            names[sort] = list(stated)
            with torch.no_grad():
                if stated:
                    seen[sort], after[sort] = live.seen(stated, self.memory[sort], now)
            if live.presence is not None:
                known = {tuple(fact) for fact in facts}
                more = [(live.presence, name) for name in stated]
                facts += [fact for fact in more if fact not in known]
        with torch.no_grad():
            tables = self.grounding.at_a_point(seen, self.learned)
        for name, table in tables.items():
            sorts = self.signature.predicates[name].sorts
            for place in (table[0, ..., 0] >= self.thresholds[name]).nonzero().tolist():
                who = (names[s][i] for s, i in zip(sorts, place, strict=True))
                facts.append((name, *who))
        return facts, after

    def _present(
        self, live: LiveSort, step: TraceStep, stated: dict[str, Tensor], now: int
    ) -> dict[str, Tensor]:
        """Return the entities of a sort that are present at a step, with their features."""
        memory = self.memory[live.sort]
        if live.still:
            stated = {n: m.values[-1] for n, m in memory.items()} | stated
        if live.presence is not None:
            if live.still:
                here = {f[1] for f in step.facts if f[0] == live.presence and len(f) == 2}
                return {name: v for name, v in stated.items() if name in here}
            return stated
        if now and (late := [name for name in stated if name not in memory]):
            raise wrong(
                step, f"'{late[0]}' of sort '{live.sort}' was not present at the first step",
                ("features", live.sort),
                "the model was trained with all entities present at all times; for entities that "
                "come and go, name a predicate of presence in its project",
            )  # fmt: skip
        if away := [name for name in memory if name not in stated]:
            raise wrong(
                step, f"there are no features of '{away[0]}' of sort '{live.sort}'", ("features",)
            )
        return stated

    def _forgotten(self, since: int) -> list[CellEvent]:
        events = super()._forgotten(since)
        for sort, memory in self.memory.items():
            came = self.roster.came[sort]
            self.memory[sort] = {name: one for name, one in memory.items() if name in came}
        return events

    def snapshot(self) -> dict[str, Any]:
        """Return everything that is known after the last step, with the model's memory."""
        memory = {
            sort: {name: _plain(one) for name, one in by_name.items()}
            for sort, by_name in self.memory.items()
        }
        return {**super().snapshot(), "memory": memory}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from the snapshot of another watch of this model."""
        super().restore(snapshot)
        for sort, by_name in snapshot["memory"].items():
            dtype = self.sorts[sort].features.mean.dtype
            self.memory[sort] = {
                name: EntityMemory(
                    one["step"],
                    [_number_row(v, dtype) for v in one["values"]],
                    None if one["rows"] is None else torch.tensor(one["rows"], dtype=dtype),
                    None if one["state"] is None else torch.tensor(one["state"], dtype=dtype),
                )
                for name, one in by_name.items()
            }


def _plain(one: EntityMemory) -> dict[str, Any]:
    values = [[None if math.isnan(u) else u for u in row.tolist()] for row in one.values]
    rows, state = (None if t is None else t.tolist() for t in (one.rows, one.state))
    return {"step": one.step, "values": values, "rows": rows, "state": state}


def _number_row(row: list[float | None], dtype: torch.dtype) -> Tensor:
    return torch.tensor([math.nan if u is None else u for u in row], dtype=dtype)


# --- what is refused ---------------------------------------------------------------------------


def _refused(reason: str, hint: str | None = None) -> DataError:
    return DataError(f"the model cannot be asked step by step: {reason}", hint=hint)


def _live_sorts(model: Model, theory: CheckedTheory) -> dict[str, LiveSort]:
    """Return the sorts that networks see; raise an error if a model needs later steps."""
    grounding, known = model.grounding, theory.signature.predicates
    if model.posterior is not None or grounding.sensors is not None:
        raise _refused("its worlds are sampled over all times at once", 'method = "gradient"')
    if reason := own_data_only(model.config, model.world):
        raise _refused(reason)
    atoms = (n for n in postorder(*(a.formula for a in theory.axioms)) if isinstance(n, c.Atom))
    used = dict.fromkeys(atom.predicate for atom in atoms)
    functions = {
        n.function for n in postorder(*(a.formula for a in theory.axioms)) if isinstance(n, c.Apply)
    }
    if computed := functions & set(model.config.functions):
        raise _refused(f"networks compute the function '{min(computed)}'")
    for name in used:
        if name in grounding.definitions:
            raise _refused(
                f"'{name}' is defined by a formula", "write the formula in the axioms instead"
            )
        if name in grounding.rules:
            raise _refused(f"'{name}' is a function in Python, which sees all times at once")
    sorts: dict[str, None] = {}
    for name in grounding.learned:
        mine = grounding.signature.predicates[name]
        if name not in known:
            continue
        if (known[name].sorts, known[name].static) != (mine.sorts, mine.static):
            raise DataError(f"'{name}' of the theory differs from that of the model: {mine.sorts}")
        if mine.static:
            raise _refused(f"'{name}' is static, and learned")
        sorts |= dict.fromkeys(mine.sorts)
    if not sorts:
        hint = f"the model has learned {listing(grounding.learned)}"
        raise DataError("the theory has no predicate that the model predicts", hint=hint)
    seen = {sort: LiveSort(sort, model) for sort in sorts}
    for name in grounding.learned:
        if name in known and grounding.looks_over_time(name):
            _see_that_it_is_of_a_point(model, name)
    return seen


def _see_that_it_is_of_a_point(model: Model, name: str) -> None:
    """Raise an error for a custom network whose degrees depend on other entities or times.

    Such a network sees all cells at once, so only a trial shows whether it relates them.
    """
    grounding, fixed = model.grounding, model.world.fixed
    sorts = grounding.signature.predicates[name].sorts
    if takes_presence(grounding.module(name)):
        raise _refused(f"the network of '{name}' asks who is present, at all times")
    table = model.tables.predicate(name)
    with torch.no_grad():
        vectors = {sort: grounding.inputs_by_sort[sort]() for sort in sorts}
    for trace in range(min(fixed.batch, _TRIED)):
        last = int(fixed.lengths[trace]) - 1
        for time in {0, last // 3, last // 2, last}:
            some: dict[str, Tensor] = {}
            for sort, every in vectors.items():
                there = fixed.present.get(sort)
                numbers = torch.arange(every.shape[1])
                numbers = numbers if there is None else numbers[there[trace, :, time].cpu()]
                some[sort] = numbers[[0, -1]] if len(numbers) > 1 else numbers
            if not all(map(len, some.values())):
                continue
            seen = {
                s: v[min(trace, len(v) - 1)][some[s], min(time, v.shape[2] - 1)][None, :, None]
                for s, v in vectors.items()
            }
            with torch.no_grad():
                alone = grounding.at_a_point(seen, [name])[name][0, ..., 0]
            among = table[min(trace, len(table) - 1), ..., min(time, table.shape[-1] - 1)]
            for place, sort in enumerate(sorts):
                among = among.index_select(place, some[sort])
            if not torch.allclose(alone, among, atol=1e-4):
                raise _refused(
                    f"the network of '{name}' looks at other entities or times, which changes its "
                    f"degrees by {float((alone - among).abs().max()):.2g}",
                    "an encoder with causal = true looks back in time",
                )
