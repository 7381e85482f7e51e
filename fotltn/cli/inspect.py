"""`fotltn inspect`: local web pages to explore a model, two models, or a theory with facts."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.options import (
    ClockOption,
    Exponent,
    NewTables,
    Origin,
    OtherSemantics,
    Step,
    Threshold,
    Timezone,
    TraceEnd,
)
from fotltn.cli.output import as_bytes, emit_json, warn
from fotltn.errors import DataError, missing
from fotltn.semantics.config import check_share, named

if TYPE_CHECKING:
    from fotltn.grounding.clock import Clock
    from fotltn.web.serve import Address
    from fotltn.web.sides import Side
    from fotltn.web.state import WebState


def inspect(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL [OTHER] | THEORY FACTS | STATE",
            help="The folder of a model or project; two such folders; a theory file "
            "(.fot) and files of facts; or the folder of a running watch (watch "
            "--state).",
            show_default=False,
        ),
    ],
    data: NewTables = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="The port; by default, a free one."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on, as browsers will use it.")
    ] = "127.0.0.1",
    opened: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
    token: Annotated[
        str | None, typer.Option("--token", help="Your own token; by default, a random one.")
    ] = None,
    open_to_all: Annotated[
        bool,
        typer.Option(
            "--no-token", help="Require no token: anyone who can reach the port can read."
        ),
    ] = False,
    semantics: OtherSemantics = None,
    p: Exponent = None,
    threshold: Threshold = None,
    end: TraceEnd = None,
    horizon: Annotated[
        int | None,
        typer.Option("--horizon", min=1, help="With facts: the time points of every trace."),
    ] = None,
    step: Step = None,
    origin: Origin = None,
    timezone: Timezone = None,
    clock: ClockOption = None,
    budget: Annotated[
        str, typer.Option("--budget", help="The memory that a typed formula may use: 1G, 500M.")
    ] = "1G",
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Explore axioms, violations and predictions in a browser.

    Prints the address, with the token that pages require, and serves pages until Ctrl-C. The server
    is for this machine alone: it sends nothing anywhere, and evaluates nothing but formulas. Exit
    status: 130 when stopped, 1 if the input has errors, 2 for a wrong call.
    """
    check_share(threshold)
    meaning = None if semantics is None else named(semantics)
    room = as_bytes(budget)
    if open_to_all and token is not None:
        raise DataError("--token and --no-token exclude each other")
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{8,}", token):
        raise DataError("a token has 8 or more letters, digits, '-' and '_'")
    from fotltn.cli.terminal import Terminal

    try:
        from fotltn.web.live import is_state
        from fotltn.web.serve import new_token, open_browser, serve, serve_watch
    except ImportError as error:
        raise missing("the inspector needs", str(error.name), "inspect") from None

    from fotltn.grounding.clock import clock_of

    timing = clock_of(step, origin, timezone, clock)

    def read() -> list[Side]:
        console = Terminal(sys.stderr)
        with console.status(console.render_str(f"reading {', '.join(map(str, paths))}")):
            sides = _sides(paths, data or [], horizon, timing)
        return [side.under(semantics=meaning, p=p, threshold=threshold, end=end) for side in sides]

    def announce(names: str, address: Address) -> None:
        """Print the address of the pages immediately."""
        if as_json:
            content = {"url": address.url, "port": address.port, "token": address.token}
            emit_json({"ok": True, **content})
        else:
            print(f"{names}: {address.url}")
            print("Stop with Ctrl-C.")
        sys.stdout.flush()
        if opened:
            open_browser(address.url)

    def ready(state: WebState, address: Address) -> None:
        if not as_json:
            for side in state.sides:
                warn(side.view.warnings)
        announce(" and ".join(side.name for side in state.sides), address)

    secret = None if open_to_all else token or new_token()
    if len(paths) == 1 and is_state(paths[0]):
        name = str(paths[0])
        serve_watch(
            paths[0], host=host, port=port, token=secret, ready=lambda at: announce(name, at)
        )
        return
    serve(read, host=host, port=port, token=secret, budget=room, ready=ready)


def _sides(
    paths: list[Path], data: list[Path], horizon: int | None, clock: Clock | None
) -> list[Side]:
    from fotltn.web.sides import side_of, side_of_facts

    first, *rest = paths
    if first.suffix == ".fot":
        if data:
            raise DataError("--data needs a model; a theory takes files of facts")
        if not rest:
            raise DataError(f"a theory needs facts: fotltn inspect {first} facts.csv")
        return [side_of_facts(first, rest, horizon=horizon, clock=clock)]
    if len(rest) > 1:
        raise DataError(f"inspect shows one model or two, not {len(paths)}")
    if horizon is not None:
        raise DataError("--horizon is for facts; a model has its own")
    if clock is not None:
        raise DataError("--step is for facts; a model knows its own step")
    return [side_of(path, data) for path in paths]
