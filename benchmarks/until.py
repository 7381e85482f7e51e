"""Compare until at every time point with stlcgpp.

    python -m benchmarks.until [--alone] [--json FILE]

With `--alone` the peer is left out.
The operators differ (p-means here, minimum and maximum there); only the growth of the cost matters.
"""

from __future__ import annotations

import argparse
import resource

import torch

from benchmarks.common import peak_bytes, report, seconds
from fotltn.kernels.until import until
from fotltn.logic.core import Window
from fotltn.semantics.config import STABLE_PRODUCT


def ours(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Run forward only, like the peer."""
    with torch.no_grad():
        return until(left, right, Window(), False, None, STABLE_PRODUCT)


def peer(horizon: int) -> object:
    """Return the same operator in stlcgpp, on one signal."""
    from stlcgpp.formula import GreaterThan, Predicate, Until

    signal = torch.rand(horizon, 2)
    left = GreaterThan(Predicate("a", lambda s: s[..., 0]), 0.5)
    right = GreaterThan(Predicate("b", lambda s: s[..., 1]), 0.5)
    formula = Until(left, right)
    return lambda: formula(signal)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--traces", type=int, default=1000)
    parser.add_argument("--alone", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    # The large case comes first, because the peer's memory would hide its own.
    left, right = (torch.rand(args.traces, 4096).requires_grad_() for _ in range(2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def step() -> None:
        found = until(left, right, Window(), False, None, STABLE_PRODUCT)
        torch.autograd.grad(found.sum(), [left, right])

    taken = seconds(step, repeat=1, at_least=0) if args.traces < 1000 else _once(step)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    large = {
        "what": f"T=4096, {args.traces} traces, forward and backward", "fotltn, ms": taken * 1e3,
        "MB": grown / 1e6,
    }  # fmt: skip
    rows = []
    for horizon in () if args.alone else (100, 300):
        left, right = torch.rand(2, 1, horizon)
        run, other = (lambda a=left, b=right: ours(a, b)), peer(horizon)
        mine, theirs = seconds(run), seconds(other, repeat=3)  # type: ignore[arg-type]
        held = peak_bytes(run), peak_bytes(other)  # type: ignore[arg-type]
        rows.append({
            "what": f"T={horizon}, one trace", "fotltn, ms": mine * 1e3,
            "stlcgpp, ms": theirs * 1e3, "times slower": theirs / mine, "MB": held[0] / 1e6,
            "stlcgpp, MB": held[1] / 1e6,
        })  # fmt: skip
    rows.append(large)
    report("until at every time point", rows, args.json)


def _once(step: object) -> float:
    import time

    begin = time.perf_counter()
    step()  # type: ignore[operator]
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
