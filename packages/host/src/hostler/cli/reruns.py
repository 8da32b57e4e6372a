"""`hostler runs export|steps|retry|fork`: export, inspect, repeat and continue recorded runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, seconds_of
from hostler.cli.output import FAILED, STATUS_OF_RUN, USAGE, fail, note, report_errors, write_line
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import short, write_items, write_record

if TYPE_CHECKING:
    from hostler.cli.client import Api

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
VersionOption = Annotated[
    int | None, typer.Option("--agent-version", metavar="N", min=1, help="Use this version of the agent.")
]
WaitOption = Annotated[bool, typer.Option("--wait", help="Follow it to its end, and exit with its status.")]
MAX_RETRIED = 10_000
SHOWN_CHARS = 90


@server_command
def export(
    server: Server,
    run_id: RunArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead.")
    ] = None,
) -> None:
    """Write a run as one JSON document, for `hostler replay` and tests."""
    text = _export_text(server, run_id)
    if output is None:
        write_line(text.encode())
        return
    try:
        output.write_text(text + "\n", "utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")


@server_command
def steps(server: Server, run_id: RunArgument, as_json: JsonOption = False) -> None:
    """List the steps of a run, with the numbers for replay and fork."""
    from hostler.domain.tapes import decode_tape, read_tape

    text = _export_text(server, run_id)
    with report_errors():
        tape = read_tape(decode_tape(text.encode()))
    rows: list[dict[str, Any]] = [
        {"step": call.step, "kind": "call", "type": call.method, "data": call.params} for call in tape.calls
    ]
    rows += [
        {"step": result.step, "kind": "result", "type": result.type, "data": result.data}
        for result in tape.results
    ]
    rows.sort(key=lambda row: row["step"])
    write_items(
        rows,
        {"step": "step", "kind": "kind", "type": "type", "data": lambda row: short(row["data"], SHOWN_CHARS)},
        as_json=as_json,
        none="the run has no steps",
    )


def _export_text(server: Server, run_id: str) -> str:
    return server.ask(lambda api: api.text(route("runs", run_id, "export")))


@server_command
def retry(
    server: Server,
    run_ids: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Ids of ended runs.", show_default=False)
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="All that the host gave up on and that were not retried.")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="SPAN", help="With --dead: only newer ones, like 7d.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="With --dead: only of this agent.")] = None,
    agent_version: VersionOption = None,
    wait: WaitOption = False,
    as_json: JsonOption = False,
) -> None:
    """Retry ended runs: start new runs of the same events with the current agents.

    Needs a running server.
    """
    if bool(run_ids) == dead:
        fail("name the runs to retry, or use --dead", USAGE)
    if (since is not None or agent is not None) and not dead:
        fail("--since and --agent need --dead", USAGE)
    if wait and (dead or len(run_ids or ()) != 1):
        fail("--wait needs exactly one run", USAGE)
    from_time = None if since is None else time.time() - seconds_of(since)

    async def ask(api: Api) -> list[dict[str, Any]]:
        ids = list(run_ids or ())
        if dead:
            query: dict[str, Any] = {"agent": agent, "since": from_time, "dead": True}
            ids = [run["run_id"] for run in await api.items("/v1/runs", limit=MAX_RETRIED, **query)]
        body = {} if agent_version is None else {"agent_version": agent_version}
        made = [await api.post(route("runs", run_id, "retry"), body) for run_id in ids]
        return [await follow_to_end(api, made[0], as_json=as_json)] if wait else made

    made = server.ask(ask, running=True)
    if wait:
        raise typer.Exit(STATUS_OF_RUN.get(made[0]["status"], FAILED))
    write_items(
        made,
        {
            "run": "retry_of",
            "again": "run_id",
            "agent": lambda run: f"{run['agent']} (version {run['agent_version']})",
        },
        as_json=as_json,
        none="nothing to retry",
        spare=("agent",),
    )


@server_command
def fork(
    server: Server,
    run_id: RunArgument,
    at: Annotated[
        int | None, typer.Option("--at", metavar="STEP", min=0, help="The last step to reuse; default: all.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("--input", metavar="TEXT", help="The input instead of the recorded message.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="K=V", help="Change a value of the configuration, like the prompt."),
    ] = None,
    agent_version: VersionOption = None,
    effects: Annotated[bool, typer.Option("--effects", help="Also carry out calls with effects.")] = False,
    wait: WaitOption = False,
    as_json: JsonOption = False,
) -> None:
    """Continue a recorded run as a new one, from any step; calls with effects are refused, unless --effects.

    Needs a running server. `hostler runs steps RUN` lists the steps.
    """
    from hostler.cli.run import parse_settings

    changed = parse_settings(config or [], "--config") or None
    fields = {"at": at, "input": text, "config": changed, "agent_version": agent_version}
    body = {name: value for name, value in fields.items() if value is not None} | {"effects": effects}

    async def ask(api: Api) -> dict[str, Any]:
        made: dict[str, Any] = await api.post(route("runs", run_id, "fork"), body)
        return await follow_to_end(api, made, as_json=as_json) if wait else made

    made = server.ask(ask, running=True)
    if wait:
        raise typer.Exit(STATUS_OF_RUN.get(made["status"], FAILED))
    write_record(made, _show_fork, as_json=as_json)


async def follow_to_end(api: Api, made: dict[str, Any], *, as_json: bool) -> dict[str, Any]:
    """Show the results of a run until its end, and return the ended run."""
    from hostler.cli.run_output import Show

    show = Show(as_json=as_json)
    try:
        async for result in api.results(made["run_id"]):
            show.result(result)
    finally:
        show.end()
    ended: dict[str, Any] = await api.get(route("runs", made["run_id"]))
    return ended


def _show_fork(made: dict[str, Any]) -> None:
    note(f"the fork continues after step {made['forked_at']} of run {made['forked_from']}")
    write_line(made["run_id"].encode())
