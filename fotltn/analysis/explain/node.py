"""A part of a formula with its value at one cell, and the parts below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from fotltn.analysis.explain.site import Fact
from fotltn.analysis.record import Record
from fotltn.syntax.notebook import bar, text

_LIST = '<ul style="list-style:none;padding-left:1.2em;margin:0">'


@dataclass(frozen=True, slots=True)
class ValueNode(Record):
    """A part of a formula with its value at a binding and time.

    Args:
        kind: what it is: `atom`, `and`, `forall`, `until` and so on.
        text: as it is written.
        ground: of an atom, equality or comparison, with names in place of variables.
        role: what it is to the part above: `if` and `then` of an implication, a `part` of `&` and
            `|`, an `instance` of a quantifier, a `point` in time, the `witness` of an until or a
            point `before` it, or `of` for the only part of its kind.
        binding: the names that an instance gives to variables.
        time: when it is read; None where time does not matter.
        value: its degree.
        truth: its truth in two-valued logic.
        children: its parts; of instances and points, those that matter most.
        count: how many instances or points there are.
        rest: how many of them are not among the children.
        note: what else there is to say.
        fact: of an atom, which fact it is.
    """

    kind: str
    text: str
    ground: str | None
    role: str
    binding: dict[str, str]
    time: int | None
    value: float
    truth: bool
    children: tuple[ValueNode, ...] = ()
    count: int = 0
    rest: int = 0
    note: str = ""
    fact: Fact | None = None

    def levels(self) -> Iterator[tuple[ValueNode, int]]:
        """The node and all nodes below it in the order in which they are read, with their depth."""
        stack = [(self, 0)]
        while stack:
            node, level = stack.pop()
            yield node, level
            stack.extend((child, level + 1) for child in reversed(node.children))

    @property
    def label(self) -> str:
        """The part in words: what it is to the part above, its text with names, and its time."""
        role = self.role if self.role in ("if", "then", "witness", "before") else ""
        names = ", ".join(f"{v} = {name}" for v, name in self.binding.items())
        dated = self.ground is not None or self.role in ("point", "witness", "before")
        when = f"at {self.time}" if dated and self.time is not None else ""
        parts = (role, f"{names}:" if names else "", self.ground or self.text, when)
        return " ".join(part for part in parts if part)

    @property
    def remark(self) -> str:
        """What is not shown below the node, and its note."""
        rest = f"{self.rest:,} more of {self.count:,}" if self.rest else ""
        return "; ".join(part for part in (rest, self.note) if part)

    def _repr_html_(self) -> str:
        out: list[str] = []
        stack: list[ValueNode | str] = [self]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                out.append(item)
                continue
            remark = f" <em>({text(item.remark)})</em>" if item.remark else ""
            truth = "true" if item.truth else "false"
            out.append(f"<li>{bar(item.value)} {truth} <code>{text(item.label)}</code>{remark}")
            if item.children:
                out.append(_LIST)
                stack += ["</ul></li>", *reversed(item.children)]
            else:
                out.append("</li>")
        return f"{_LIST}{''.join(out)}</ul>"

    def as_dict(self) -> dict[str, object]:
        """The tree for machines."""
        made: dict[int, dict[str, object]] = {}
        for node, _ in reversed(list(self.levels())):
            made[id(node)] = {
                field.name: [made[id(child)] for child in node.children]
                if field.name == "children"
                else getattr(node, field.name)
                for field in fields(node)
                if field.name != "fact"
            }
        return made[id(self)]
