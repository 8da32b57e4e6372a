"""`hostler runs`: the ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, LimitOption, UrlOption
from hostler.cli.output import (
    FAILED,
    STATUS_OF_RUN,
    fail,
    note,
    out,
    when,
    write_fields,
    write_json,
    write_table,
)

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Runs: list, show, follow, cancel, export, retry, fork.", no_args_is_help=True)
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
MAX_JOURNAL_ENTRIES = 10_000
SHORT_CHARS = 100
CANCEL_SECONDS = 30.0
"""A runner has 5 s to clean up before it is ended."""


@app.command("list")
def list_runs(
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only these; may be given several times.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only of this agent.")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", "-c", help="Only of this one.")
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Only what the host gave up on and nobody did again.")
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """List runs, newest first."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        return await api.items(
            "/v1/runs",
            limit=limit,
            status=status or None,
            agent=agent,
            conversation_id=conversation,
            dead=dead or None,
        )

    found = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(found)
        return
    rows = (
        (
            run["run_id"],
            run["agent"],
            run["status"],
            run.get("status_code"),
            when(run["created_at"]),
            _took(run),
        )
        for run in found
    )
    write_table(("run", "agent", "status", "code", "created", "took"), rows, none="no runs yet")


@app.command("show")
def show_run(
    run_id: RunArgument,
    journal: Annotated[bool, typer.Option("--journal", help="With everything it did, in order.")] = False,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Show one run: how it stands, what it said, and with --journal all it did."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> tuple[dict[str, Any], list[Any]]:
        path = _path(run_id)
        run = await api.get(path)
        if not journal:
            return run, []
        return run, await api.items(f"{path}/journal", limit=MAX_JOURNAL_ENTRIES, cursor="after")

    run, entries = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json({**run, "journal": entries} if journal else run)
        return
    write_fields(
        (
            ("run", run["run_id"]),
            ("status", run["status"]),
            ("code", run.get("status_code")),
            ("agent", f"{run['agent']} (version {run['agent_version']})"),
            ("runner", run["runner_id"]),
            ("attempt", run["attempt"]),
            ("event", run.get("event_id")),
            ("retry of", run.get("retry_of")),
            ("forked from", run.get("forked_from")),
            ("conversation", run.get("conversation_id")),
            ("created", when(run["created_at"])),
            ("took", _took(run)),
            ("cost", run.get("cost")),
        )
    )
    text = (run.get("output") or {}).get("text")
    if text:
        out().print()
        out().print(text, markup=False)
    if journal:
        out().print()
        write_table(
            ("position", "sequence", "kind", "type", "data"),
            ((e["position"], e.get("sequence"), e["kind"], e["type"], _short(e["data"])) for e in entries),
            none="its journal is empty",
        )


@app.command("tail")
def tail_run(
    run_id: RunArgument,
    after: Annotated[int, typer.Option("--after", min=0, help="Begin after this sequence.")] = 0,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Follow a run's results to its end. Ctrl-C stops following; the run goes on.

    Exit status: that of the run, as for `hostler run`.
    """
    from hostler.cli.reach import with_api
    from hostler.cli.show import Show
    from hostler_protocol.errors import InvalidArgumentError
    from hostler_protocol.runs import TERMINAL_STATUSES

    async def ask(api: Api) -> str:
        run = await api.get(_path(run_id))
        if run["status"] not in TERMINAL_STATUSES and api.in_process:
            raise InvalidArgumentError(
                f"the run is {run['status']}, and no server runs that would go on with it: `hostler serve`"
            )
        show = Show(as_json=as_json)
        async for result in api.results(run_id, after):
            show.result(result)
        show.end()
        status: str = (await api.get(_path(run_id)))["status"]
        return status

    status = with_api(ask, url=url, key=key, data=data)
    raise typer.Exit(STATUS_OF_RUN.get(status, FAILED))


@app.command("cancel")
def cancel_run(
    run_id: RunArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in its journal.")] = "cancelled by hand",
    now: Annotated[
        bool, typer.Option("--now", help="At once: its runner gets no time to end by itself.")
    ] = False,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Cancel a run and its children; one that is over stays as it ended."""
    from hostler.cli.reach import with_api
    from hostler_protocol.runs import TERMINAL_STATUSES

    async def ask(api: Api) -> dict[str, Any]:
        asked: dict[str, Any] = await api.post(
            f"{_path(run_id)}/cancel", {"reason": reason, **({"grace": 0} if now else {})}
        )
        if asked["status"] in TERMINAL_STATUSES or api.in_process:
            return asked
        async with asyncio.timeout(CANCEL_SECONDS):
            async for _ in api.results(run_id):
                pass  # until the end
        ended: dict[str, Any] = await api.get(_path(run_id))
        return ended

    try:
        run = with_api(ask, url=url, key=key, data=data)
    except TimeoutError:
        fail(f"the run was asked to end, and has not within {CANCEL_SECONDS:.0f} s: see `runs show`")
    if as_json:
        write_json(run)
    else:
        note(f"the run is {run['status']}")


def _path(run_id: str) -> str:
    from hostler.cli.client import segment

    return f"/v1/runs/{segment(run_id)}"


def _took(run: dict[str, Any]) -> str:
    begun, ended = run.get("started_at"), run.get("finished_at")
    return "" if begun is None or ended is None else f"{ended - begun:.2f} s"


def _short(data: Any) -> str:
    import msgspec

    text = msgspec.json.encode(data).decode()
    return text if len(text) <= SHORT_CHARS else f"{text[: SHORT_CHARS - 1]}…"
