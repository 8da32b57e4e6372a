"""`hostler runs export|steps|retry|fork`: recorded runs taken along, looked at, done again, gone on from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, UrlOption
from hostler.cli.output import FAILED, STATUS_OF_RUN, USAGE, fail, note, write_json, write_line, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
VersionOption = Annotated[
    int | None,
    typer.Option("--agent-version", metavar="N", min=1, help="The agent as it was in this version."),
]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Follow it to its end; the exit status is the run's.")
]
MAX_RETRIED = 10_000
SHOWN_CHARS = 90


def export(
    run_id: RunArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; else standard output.")
    ] = None,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Write a run as one JSON document: what `hostler replay` and tests work with."""
    text = _exported(run_id, url, key, data)
    if output is None:
        write_line(text.encode())
        return
    try:
        output.write_text(text + "\n", "utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")


def steps(
    run_id: RunArgument,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """List the steps of a run, as replay names them and fork counts them."""
    from hostler.domain.tapes import decode_tape, read_tape
    from hostler_protocol.errors import InvalidArgumentError

    text = _exported(run_id, url, key, data)
    try:
        tape = read_tape(decode_tape(text.encode()))
    except InvalidArgumentError as error:
        fail(error.message)
    rows: list[dict[str, Any]] = [
        {"step": call.step, "kind": "call", "type": call.method, "data": call.params} for call in tape.calls
    ]
    rows += [
        {"step": result.step, "kind": "result", "type": result.type, "data": result.data}
        for result in tape.results
    ]
    rows.sort(key=lambda row: row["step"])
    if as_json:
        write_json(rows)
        return
    write_table(
        ("step", "kind", "type", "data"),
        ((row["step"], row["kind"], row["type"], _short(row["data"])) for row in rows),
        none="it has no steps",
    )


def _exported(run_id: str, url: str | None, key: str | None, data: Path | None) -> str:
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> str:
        return await api.text(f"{_path(run_id)}/export")

    return with_api(ask, url=url, key=key, data=data)


def retry(
    run_ids: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Ids of ended runs.", show_default=False)
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="All that the host gave up on and nobody did again.")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="SPAN", help="With --dead: from so long ago on, like 7d.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="With --dead: only of this agent.")] = None,
    agent_version: VersionOption = None,
    wait: WaitOption = False,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Do ended runs again: new runs of the same events, by the agents as they are now.

    It needs a running server.
    """
    from hostler.cli.reach import with_api
    from hostler.cli.replay import seconds_of

    if bool(run_ids) == dead:
        fail("name the runs to do again, or say --dead", USAGE)
    if (since is not None or agent is not None) and not dead:
        fail("--since and --agent go with --dead", USAGE)
    if wait and (dead or len(run_ids or ()) != 1):
        fail("--wait goes with one run", USAGE)
    from_time = None if since is None else time.time() - seconds_of(since)

    async def ask(api: Api) -> list[dict[str, Any]]:
        wanted = list(run_ids or ())
        if dead:
            query: dict[str, Any] = {"agent": agent, "since": from_time, "dead": True}
            wanted = [run["run_id"] for run in await api.items("/v1/runs", limit=MAX_RETRIED, **query)]
        body = {} if agent_version is None else {"agent_version": agent_version}
        made = [await api.post(f"{_path(run_id)}/retry", body) for run_id in wanted]
        return [await _followed(api, made[0], as_json=as_json)] if wait else made

    made = with_api(ask, url=url, key=key, data=data, running=True)
    if wait:
        raise typer.Exit(STATUS_OF_RUN.get(made[0]["status"], FAILED))
    if as_json:
        write_json(made)
        return
    write_table(
        ("run", "again", "agent"),
        (
            (run["retry_of"], run["run_id"], f"{run['agent']} (version {run['agent_version']})")
            for run in made
        ),
        none="there is nothing to do again",
    )


def fork(
    run_id: RunArgument,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="STEP", min=0, help="The last step taken from it; without it, all."),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--input", metavar="TEXT", help="What it is given instead of its message.")
    ] = None,
    agent_version: VersionOption = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Calls that change something are carried out.")
    ] = False,
    wait: WaitOption = False,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Go on from a recorded run with a new one, from any step; without effects unless told.

    It needs a running server. `hostler runs steps RUN` lists the steps.
    """
    from hostler.cli.reach import with_api

    wanted = {"at": at, "input": text, "agent_version": agent_version}
    body = {name: value for name, value in wanted.items() if value is not None} | {"effects": effects}

    async def ask(api: Api) -> dict[str, Any]:
        made: dict[str, Any] = await api.post(f"{_path(run_id)}/fork", body)
        return await _followed(api, made, as_json=as_json) if wait else made

    made = with_api(ask, url=url, key=key, data=data, running=True)
    if wait:
        raise typer.Exit(STATUS_OF_RUN.get(made["status"], FAILED))
    if as_json:
        write_json(made)
    else:
        note(f"it goes on after step {made['forked_at']} of {run_id}")
        write_line(made["run_id"].encode())


async def _followed(api: Api, made: dict[str, Any], *, as_json: bool) -> dict[str, Any]:
    """Show what a run says until it is over; the run as it ended."""
    from hostler.cli.show import Show

    show = Show(as_json=as_json)
    try:
        async for result in api.results(made["run_id"]):
            show.result(result)
    finally:
        show.end()
    ended: dict[str, Any] = await api.get(_path(made["run_id"]))
    return ended


def _path(run_id: str) -> str:
    from hostler.cli.client import segment

    return f"/v1/runs/{segment(run_id)}"


def _short(value: Any) -> str:
    import msgspec

    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"
