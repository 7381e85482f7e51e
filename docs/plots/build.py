"""Draw the pictures of docs/plots.md by running its examples.

python docs/plots/build.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Run the examples in this folder, which is where they write."""
    text = (HERE.parent / "plots.md").read_text("utf-8")
    os.chdir(HERE)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(block, names)


if __name__ == "__main__":
    main()
