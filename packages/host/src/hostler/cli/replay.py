"""`hostler replay`: repeat recorded runs with the current runner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.options import DataOption, KeyOption, UrlOption, seconds_of
from hostler.cli.output import FAILED, USAGE, fail, report_errors

MAX_SET = 10_000
"""The most runs of one command."""


def replay(
    recorded: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN", help="Ids of runs, exported files, or folders of these.", show_default=False
        ),
    ] = None,
    runner: Annotated[
        str | None,
        typer.Option(
            "--runner", metavar="TARGET", help="Another runner: a plugin folder[:runner] or file.py:Class."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="FILE|K=V", help="Another configuration; K=V changes one value."),
    ] = None,
    agent_version: Annotated[
        int | None,
        typer.Option("--agent-version", metavar="N", help="Use runner and configuration of this version."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Replay the ended runs of this agent, newest first.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="SPAN", help="Only newer runs, like 12h or 7d.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_SET, help="How many at most.")] = 100,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report for CI systems.")
    ] = None,
    live_after: Annotated[
        bool, typer.Option("--live-after", help="Continue with real calls where the runner diverges.")
    ] = False,
    effects: Annotated[
        bool, typer.Option("--effects", help="With --live-after: also make calls with effects.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1.0, help="The most for one replay.")
    ] = 60.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per replay, and nothing else.")
    ] = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Repeat recorded runs without models, tools or network, and report where a runner now differs.

    Exit status: 0 all identical, 1 a run diverged or failed, 2 usage.
    """
    import asyncio

    from hostler.cli.replay_runs import ReplayOptions, replay_all

    if effects and not live_after:
        fail("--effects needs --live-after: without it, no calls are made", USAGE)
    options = ReplayOptions(
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
        identical = asyncio.run(replay_all(options))
    raise typer.Exit(0 if identical else FAILED)
