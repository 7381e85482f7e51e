"""Print plans as text."""

from __future__ import annotations

from fotltn.algebra import expr as e
from fotltn.algebra.show import brief, scope
from fotltn.format import about, size
from fotltn.plan.plan import Plan, Step, needed

_WIDTH = 72


def explain(plan: Plan) -> str:
    """List the steps of each root, shared ones where they first occur, then a summary."""
    names = {step.node: f"r{i}" for i, step in enumerate(plan.steps)}
    by_node = {step.node: step for step in plan.steps}
    shown: set[e.Expr] = set()
    lines: list[str] = []
    for name, root in plan.roots:
        lines.append(f"{name}")
        parts = needed([root], by_node)
        for step in plan.steps:
            if step.node in parts and step.node not in shown:
                shown.add(step.node)
                lines += _lines(step, names)
        if name in plan.dense:
            flops, held = plan.dense[name]
            mine = [by_node[n] for n in parts]
            lines.append(
                f"  = {names.get(root, '')}: {about(sum(s.flops for s in mine))} FLOPs, "
                f"{size(sum(s.bytes for s in mine))}; "
                f"dense: {about(flops)} FLOPs, {size(held)}"
            )
        lines.append("")
    return "\n".join([*lines, summary(plan)])


def summary(plan: Plan) -> str:
    """Summarise the plan in one line."""
    flops = sum(s.flops for s in plan.steps)
    text = (
        f"{len(plan.steps)} steps, {about(flops)} FLOPs, at most {size(plan.peak)} of intermediate "
        f"results (budget {size(plan.budget)})"
    )
    if plan.dense:
        dense_flops = sum(f for f, _ in plan.dense.values())
        dense_bytes = sum(b for _, b in plan.dense.values())
        text += f"; dense: {about(dense_flops)} FLOPs, {size(dense_bytes)}"
    return text


def _lines(step: Step, names: dict[e.Expr, str]) -> list[str]:
    text = _short(brief(step.node, names))
    costs = f"{about(step.flops)} FLOPs, {size(step.bytes)}"
    lines = [f"  {names[step.node]:>4} {step.route:<11} [{scope(step.node)}] {text}  ({costs})"]
    if step.why:
        lines.append(f"       {'':<11} {step.why}")
    return lines


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def as_dict(plan: Plan) -> dict[str, object]:
    """Return the plan as a dictionary, for JSON."""
    names = {step.node: f"r{i}" for i, step in enumerate(plan.steps)}
    steps = [
        {
            "name": names[s.node],
            "route": str(s.route),
            "axes": scope(s.node).split(),
            "expression": brief(s.node, names),
            "why": s.why or None,
            "inputs": [names[i] for i in s.inputs if i in names],
            "flops": s.flops,
            "bytes": s.bytes,
            "chunks": s.chunks,
        }
        for s in plan.steps
    ]
    roots = [
        {
            "name": name,
            "step": names[root],
            "dense_flops": plan.dense.get(name, (None, None))[0],
            "dense_bytes": plan.dense.get(name, (None, None))[1],
        }
        for name, root in plan.roots
    ]
    return {"roots": roots, "steps": steps, "peak_bytes": plan.peak, "budget_bytes": plan.budget}
