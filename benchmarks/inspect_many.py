"""Measure the inspector's pages with 10,000 entities and a million facts.

    OMP_NUM_THREADS=1 python -m benchmarks.inspect_many [--json FILE] [--times N]

It writes a theory of five axioms, two of them over all pairs (10,000² bindings and 100 time
points), with a million facts, serves them as `fotltn inspect` does, and requests pages as a browser
would, one after another: the first page, pages of axioms, and cells with a changed fact. Each cell
and change is asked for only once. A page that is not complete is requested again until it is, at
once, where a browser would wait for half a second, and times are those until then; `incomplete` is
the share of pages whose first answer was not. `server` is the processor time of the server, which
other programs on the machine change less than the wall time. With `OMP_NUM_THREADS=1` the server's
arithmetic has one core.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import tempfile
import time
from collections.abc import Callable
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, build_opener

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

from benchmarks.common import report
from benchmarks.inspect import row, serving

THEORY = """\
sort agent
static predicate Car(agent)
predicate Stop(agent), Run(agent), Near(agent, agent)
axiom Brake: forall x, y. G(Car(x) & Near(x, y) -> WX Stop(x))
axiom Either: forall x. G(Stop(x) -> !Run(x))
axiom Moves: forall x. G(Car(x) -> F[0,20] Run(x))
axiom Mutual: forall x, y. G(Near(x, y) -> Near(y, x))
axiom Some: forall x. G(Stop(x) -> exists y. Near(x, y))
"""

ENTITIES, TIMES = 10_000, 100


def facts(entities: int, times: int, share: float) -> pa.Table:
    """Draw facts with random degrees: `share` of a million facts that change over time."""
    draw = np.random.default_rng(0)
    names = np.array([f"a{i}" for i in range(entities)])

    def stated(predicate: str, number: int, arguments: int) -> pa.Table:
        sizes = [entities] * arguments + [times]
        keys = np.unique(np.stack([draw.integers(0, size, number) for size in sizes]), axis=1)
        count = keys.shape[1]
        second = pa.array(names[keys[1]]) if arguments == 2 else pa.nulls(count, pa.string())
        return pa.table(
            {"predicate": [predicate] * count, "arg1": names[keys[0]], "arg2": second,
             "time": keys[-1], "truth": draw.random(count).round(2)}
        )  # fmt: skip

    cars = pa.table(
        {"predicate": ["Car"] * entities, "arg1": names, "arg2": pa.nulls(entities, pa.string()),
         "time": pa.nulls(entities, pa.int64()), "truth": (np.arange(entities) % 2).astype(float)}
    )  # fmt: skip
    many = {"Stop": (400_000, 1), "Run": (500_000, 1), "Near": (300_000, 2)}
    parts = [stated(name, int(share * count), n) for name, (count, n) in many.items()]
    return pa.concat_tables([cars, *parts])


class Visitor:
    """A browser that keeps its cookie and only reads."""

    def __init__(self, url: str, process: int) -> None:
        """Log in with the token of an address, which a process serves."""
        self.base = url.split("/?")[0]
        self.clock = (~process << 3) | 2  # that of the processor time of a process, on Linux
        self.opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self.get(url.removeprefix(self.base))

    def get(self, path: str) -> str:
        """Return a page."""
        with self.opener.open(f"{self.base}{path}", timeout=600) as answer:
            return str(answer.read().decode())

    def measured(self, what: str, paths: list[str], aim: float) -> dict[str, Any]:
        """Return a row of the milliseconds until each page is complete."""
        taken, server, incomplete = [], [], 0
        for path in paths:
            start, used = time.perf_counter(), time.clock_gettime(self.clock)
            answers = 1
            while "data-pending" in self.get(path):
                answers += 1
            taken.append(1000 * (time.perf_counter() - start))
            server.append(1000 * (time.clock_gettime(self.clock) - used))
            incomplete += answers > 1
        middle, high = np.percentile(server, [50, 95])
        return {
            **row(what, taken, aim), "server median ms": float(middle),
            "server 95th percentile ms": float(high), "incomplete": incomplete / len(paths),
        }  # fmt: skip


def links(page: str, fits: Callable[[str], bool]) -> list[str]:
    """Return the addresses on a page that fit."""
    return [a for a in map(unescape, re.findall(r'href="([^"]+)"', page)) if fits(a)]


def measure(visitor: Visitor, times: int) -> list[dict[str, Any]]:
    """Measure the first page, axioms, cells, and cells with a changed fact."""
    start = time.perf_counter()
    while "data-pending" in visitor.get("/"):
        time.sleep(0.2)
    settled = 1000 * (time.perf_counter() - start)
    draw = random.Random(0)
    names = re.findall(r"^axiom (\w+):", THEORY, re.M)
    pages = {name: visitor.get(f"/axiom/{name}?format=html") for name in names}
    cells = [a for page in pages.values() for a in links(page, lambda a: "/cell?" in a)]
    draw.shuffle(cells)
    cells = list(dict.fromkeys(cells))[:times]
    tries = []
    for cell in cells:
        offered = links(visitor.get(cell), lambda a: "set=" in a and "/cell?" in a)
        if offered:
            tries.append(draw.choice(offered).split("#")[0])
    axioms = [f"/axiom/{draw.choice(names)}" for _ in cells]
    return [
        row("all axioms computed, from the start", [settled], 60_000),
        visitor.measured("first page", ["/"] * times, 2000),
        visitor.measured("page of an axiom", axioms, 1000),
        visitor.measured("cell with a changed fact", tries, 200),
    ]  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--share", type=float, default=1.0, help="share of the entities and facts")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        theory, file = Path(folder) / "theory.fot", Path(folder) / "facts.csv"
        theory.write_text(THEORY)
        table = facts(int(args.share * ENTITIES), TIMES, args.share)
        csv.write_csv(table, file)
        with serving(theory, file) as (url, process):
            rows = measure(Visitor(url, process), args.times)
    remarks = {"facts": len(table), "cores": os.cpu_count(), "load at the start": round(load, 1)}
    report("the inspector on 10,000 entities and a million facts", rows, args.json, **remarks)


if __name__ == "__main__":
    main()
