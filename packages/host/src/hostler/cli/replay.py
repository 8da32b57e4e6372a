"""`hostler replay`: recorded runs against a runner of now."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.options import DataOption, KeyOption, UrlOption
from hostler.cli.output import FAILED, USAGE, fail, report_errors

SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")
MAX_SET = 10_000
"""Runs of one set."""


def seconds_of(span: str) -> int:
    """A span of time like 90m, 24h or 7d."""
    found = _SPAN.fullmatch(span.strip())
    if found is None:
        fail(f"{span!r} is no span of time: write a number and one of s, m, h, d, w, like 7d", USAGE)
    return int(found[1]) * SECONDS_OF[found[2]]


def replay(
    recorded: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN", help="Ids of runs, exported files, or folders of such.", show_default=False
        ),
    ] = None,
    runner: Annotated[
        str | None,
        typer.Option(
            "--runner", metavar="TARGET", help="Another runner: a plugin folder[:runner], file.py:Class."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", metavar="FILE|K=V", help="Another configuration of the runner; K=V changes one value."
        ),
    ] = None,
    agent_version: Annotated[
        int | None,
        typer.Option("--agent-version", metavar="N", help="Runner and configuration of this version."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The ended runs of this agent, newest first.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="SPAN", help="Only from so long ago on, like 12h or 7d.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_SET, help="How many at most.")] = 100,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report for CI systems.")
    ] = None,
    live_after: Annotated[
        bool, typer.Option("--live-after", help="Go on with real calls from where the recording ends.")
    ] = False,
    effects: Annotated[
        bool, typer.Option("--effects", help="With --live-after: calls that change something, too.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1.0, help="How long one replay may take.")
    ] = 60.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One result a line as JSON, and nothing else.")
    ] = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Run a runner again against what a run recorded, without models, tools or network.

    Exit status: 0 all the same, 1 one diverged, 2 usage.
    """
    import asyncio

    from hostler.cli.replay_runs import Wanted, replay_all

    if effects and not live_after:
        fail("--effects goes with --live-after: without it nothing is carried out", USAGE)
    wanted = Wanted(
        recorded=tuple(recorded or ()),
        agent=agent,
        since_seconds=None if since is None else seconds_of(since),
        limit=limit,
        runner=runner,
        config=tuple(config or ()),
        agent_version=agent_version,
        live_after=live_after,
        effects=effects,
        seconds=seconds,
        junit=junit,
        as_json=as_json,
        data=data,
        url=url,
        key=key,
    )
    with report_errors():
        identical = asyncio.run(replay_all(wanted))
    raise typer.Exit(0 if identical else FAILED)
