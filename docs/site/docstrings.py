"""Docstrings as the reference shows them: what follows the first `>>>` is a section of examples."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Our docstrings end with their example, under no title; griffe wants one, and an indent."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give an example its title."""
        if obj.docstring is not None:
            before, mark, example = obj.docstring.value.partition("\n\n>>> ")
            if mark:
                lines = re.sub(r"^(?=.)", "    ", f">>> {example}", flags=re.MULTILINE)
                obj.docstring.value = f"{before}\n\nExamples:\n{lines}"
