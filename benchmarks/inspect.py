"""Measure the inspector in a browser: the first content, and what people do most.

    python -m benchmarks.inspect [--json FILE]

It serves a model of CarPed180K, trained for a few epochs, and a scene with 100,489 pairs of agents,
as `fotltn inspect` does, and drives Chromium. The browser itself times the first visit, from its
start to the first content. Opening is timed from the click to the frame in which the page is
complete, including the heat map; typing from the key to the value or message on the page; scrolling
from the wheel to the frame with all visible rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.common import report
from fotltn.cli.new import make
from fotltn.project.config import read_config
from fotltn.project.train import train

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

FORMULAS = (
    "forall x. G(Stop(x) -> F Run(x))",
    "forall x. G(Crossing(x) -> !Stop(x))",
    "forall x, y. G(Close(x, y) & Crossing(y) -> WX Stop(x))",
    "Stop(x) & Y Run(x)",
    "exists y. Ped(y) & Crossing(y) & Close(x, y)",
    "forall x. G(Stopp(x) -> Run(x))",
    "forall x. G(Stop(x) -> Run(x)",
    "Run(x) U Stop(x)",
    "G(exists x. Stop(x))",
)

#: Runs in the page: clicks a link, and resolves when the next page is complete.
OPEN = """([selector, number]) => new Promise((done) => {
  const old = document.querySelector(".page");
  const began = performance.now();
  const look = () => {
    const now = document.querySelector(".page");
    const whole = !now.querySelector("[data-panels]") || now.querySelector("[data-ready=true]");
    if (now === old || !whole) requestAnimationFrame(look);
    else requestAnimationFrame(() => done(performance.now() - began));
  };
  document.querySelectorAll(selector)[number].click();
  requestAnimationFrame(look);
})"""

#: Runs in the page: types a text at once, and resolves when the page has answered.
TYPE = """(text) => new Promise((done) => {
  const box = document.querySelector("textarea");
  const old = document.getElementById("found");
  const began = performance.now();
  const look = new MutationObserver(() => {
    const now = document.getElementById("found");
    if (now === old || !now.querySelector("#value, .message, .facts")) return;
    look.disconnect();
    requestAnimationFrame(() => done(performance.now() - began));
  });
  look.observe(document.querySelector("main"), { childList: true, subtree: true });
  box.value = text;
  box.dispatchEvent(new InputEvent("input", { bubbles: true }));
})"""

#: Runs in the page: scrolls to a share of the height, and resolves when all rows are shown.
SCROLL = """(share) => new Promise((done) => {
  const frame = document.querySelector(".heat");
  const scroller = frame.heat.scroller;
  const began = performance.now();
  frame.dataset.ready = "false";
  scroller.scrollTop = share * (scroller.scrollHeight - scroller.clientHeight);
  const look = () => (frame.dataset.ready === "true"
    ? done(performance.now() - began) : requestAnimationFrame(look));
  requestAnimationFrame(look);
})"""


@contextmanager
def serving(*paths: Path) -> Iterator[tuple[str, int]]:
    """Serve files, and yield the address of the inspector and the number of its process."""
    call = [sys.executable, "-m", "fotltn", "inspect", *map(str, paths), "--no-open", "--json"]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the inspector did not start")
            text += line
        yield str(json.loads(text)["url"]), process.pid
    finally:
        process.terminate()
        process.wait(20)


def painted(page: Page) -> float:
    """Return the milliseconds from the start of a navigation to the first content."""
    found: float = page.evaluate(
        """() => new Promise((done) => {
          const seen = performance.getEntriesByName("first-contentful-paint")[0];
          if (seen) done(seen.startTime);
          new PerformanceObserver((list) => {
            const entry = list.getEntriesByName("first-contentful-paint")[0];
            if (entry) done(entry.startTime);
          }).observe({ type: "paint", buffered: true });
        })"""
    )
    return found


def mapped(page: Page) -> float:
    """Return the milliseconds from the start of a navigation to its heat map."""
    page.wait_for_selector(".heat[data-ready=true]")
    found: float = page.evaluate("performance.getEntriesByName('heat map')[0].startTime")
    return found


def settled(page: Page) -> None:
    """Wait until everything that is computed in advance is ready."""
    page.wait_for_selector("table.axioms:not([data-pending])", timeout=120_000)


def first_content(browser: Any, url: str, times: int) -> list[float]:
    found = []
    for _ in range(times):
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        found.append(painted(page))
        context.close()
    return found


def interactions(page: Page, base: str, times: int) -> dict[str, list[float]]:
    """Repeat what people do, and return the times in milliseconds."""
    draw = random.Random(0)
    found: dict[str, list[float]] = {
        "open an axiom": [], "open a cell": [], "type a formula": [], "scroll a heat map": [],
    }  # fmt: skip
    for _ in range(times):
        page.goto(f"{base}/")
        axiom = draw.randrange(page.locator("a.axiom-name").count())
        found["open an axiom"].append(page.evaluate(OPEN, ["a.axiom-name", axiom]))
        cell = draw.randrange(page.locator("tbody a").count())
        found["open a cell"].append(page.evaluate(OPEN, ["tbody a", cell]))
    page.goto(f"{base}/formula")
    for number in range(times):
        text = FORMULAS[number % len(FORMULAS)]
        renamed = re.sub(r"\b([xy])\b", rf"\g<1>{number}", text)  # so that no cached result fits
        found["type a formula"].append(page.evaluate(TYPE, renamed))
        page.wait_for_timeout(500)
    found["scroll a heat map"] = scrolled(page, f"{base}/axiom/A1", times)
    return found


def scrolled(page: Page, address: str, times: int) -> list[float]:
    draw = random.Random(1)
    page.goto(address)
    mapped(page)
    return [page.evaluate(SCROLL, draw.random()) for _ in range(times)]


def row(what: str, milliseconds: list[float], aim: float) -> dict[str, Any]:
    middle, high, most = np.percentile(milliseconds, [50, 95, 100])
    return {
        "what": what, "times": len(milliseconds), "median ms": float(middle),
        "95th percentile ms": float(high), "most ms": float(most), "aim ms": aim,
    }  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()
    rows, load = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tool:
        scene, wide = Path(folder) / "scene", Path(folder) / "wide"
        make(scene, 100, 100, 150, 0)
        config = scene / "project.toml"
        config.write_text(config.read_text().replace("epochs = 300", f"epochs = {args.epochs}"))
        train(read_config(scene)).save(Path(folder) / "carped180k")
        make(wide, 159, 158, 150, 0)
        browser = tool.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        with serving(Path(folder) / "carped180k") as (url, _):
            rows.append(row("first content, just started", first_content(browser, url, 1), 1000))
            page = browser.new_page()
            page.goto(url)
            settled(page)
            rows.append(row("first content", first_content(browser, url, 10), 1000))
            for what, found in interactions(page, url.split("/?")[0], args.times).items():
                rows.append(row(what, found, 100))
        with serving(wide / "theory.fot", wide / "facts.csv") as (url, _):
            page = browser.new_page()
            page.goto(url)
            settled(page)
            found = scrolled(page, f"{url.split('/?')[0]}/axiom/A1", args.times)
            rows.append(row("scroll 100,489 bindings", found, 100))
        browser.close()
    remarks = {"cores": os.cpu_count(), "load by others at the start": round(load, 1)}
    report("the inspector on CarPed180K, in Chromium", rows, args.json, **remarks)


if __name__ == "__main__":
    main()
