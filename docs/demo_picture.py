"""Draw `docs/demo.svg`: the first screen of what `make demo` prints, as a picture.

    python docs/demo_picture.py [--epochs N]

It trains as the demo does, about a minute, so that it is not part of `docs/generate.py`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

DOCS = Path(__file__).resolve().parent
WIDTH = 100
TASK = 5  # lines that say what is learned from what
FONTS = "DejaVu Sans Mono, Menlo, Consolas, monospace"


def main() -> None:
    """Run the demo with the arguments of this program, and keep what it prints."""
    sys.path.insert(0, str(DOCS.parent / "examples" / "crossing"))
    import demo

    for later in ("show_axioms", "show_violations"):  # below the first screen
        setattr(demo, later, lambda *_: None)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        demo.console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        demo.main()
    picture = demo.console.export_svg(title="make demo", theme=MONOKAI, unique_id="demo")
    (DOCS / "demo.svg").write_text(moving(local(picture)), "utf-8")


def local(picture: str) -> str:
    """The picture with fonts that are there, not fetched from elsewhere."""
    picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    picture = re.sub(r"font-family: [^;]*;", f"font-family: {FONTS};", picture)
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def moving(picture: str) -> str:
    """The picture with lines that come one after the other, for those who like things to move.

    The task is there from the start, so that the picture never is an empty frame.
    """
    numbers = sorted({int(n) for n in re.findall(r'clip-path="url\(#demo-line-(\d+)\)"', picture)})
    moved = "\n".join(
        f'[clip-path="url(#demo-line-{number})"] '
        f"{{ animation: demo-come 0.3s {0.25 * place:.2f}s both; }}"
        for place, number in enumerate(n for n in numbers if n >= TASK)
    )
    style = f"""@keyframes demo-come {{ from {{ opacity: 0; }} }}
@media (prefers-reduced-motion: no-preference) {{
{moved}
}}
"""
    return picture.replace("</style>", f"{style}</style>", 1)


if __name__ == "__main__":
    main()
