"""`hostler runs`: list, show, follow and cancel runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli import reruns, run_lists
from hostler.cli.budget_show import OF, amounts, limits
from hostler.cli.options import JsonOption
from hostler.cli.output import FAILED, STATUS_OF_RUN, USAGE, fail
from hostler.cli.routes import route
from hostler.cli.run_lists import took
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, short, write_done, write_fields, write_record, write_table
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Runs: list, sum up, show, follow, cancel, export, retry, fork.", no_args_is_help=True)
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
MAX_JOURNAL_ENTRIES = 10_000
SHORT_CHARS = 100
CANCEL_SECONDS = 30.0
"""How long to wait for the end; a runner has 5 s to clean up before it is killed."""


@app.command("show")
@server_command
def show_run(
    server: Server,
    run_id: RunArgument,
    journal: Annotated[bool, typer.Option("--journal", help="With all entries of its journal.")] = False,
    dialect: Annotated[
        str | None,
        typer.Option("--as", metavar="DIALECT", help="As a client of this interface reads it, like ai-sdk."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show one run: its state, its output and, with --journal, everything it did.

    With --as it is shown as a client of a standard interface reads it; a wrong name is answered with all
    names.
    """
    if dialect is not None:
        from hostler.cli.run_as import show_as

        show_as(server, run_id, dialect)
        return

    async def look(api: Api) -> dict[str, Any]:
        run: dict[str, Any] = await api.get(route("runs", run_id))
        run["budgets"] = (await api.get(route("runs", run_id, "budgets")))["items"]
        if journal:
            path = route("runs", run_id, "journal")
            run["journal"] = await api.items(path, limit=MAX_JOURNAL_ENTRIES, cursor="after")
        return run

    write_record(server.ask(look), _show, as_json=as_json)


@app.command("tail")
@server_command
def tail_run(
    server: Server,
    run_id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="The run's id.")] = None,
    after: Annotated[int, typer.Option("--after", min=0, help="Start after this sequence number.")] = 0,
    conversation: Annotated[
        str | None, typer.Option("--conversation", "-c", help="Follow all runs of this conversation.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Follow all runs of the workspace.")] = False,
    agent: Annotated[str | None, typer.Option("--agent", help="Of these, only runs of this agent.")] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Of these, also what was before, as far as it is kept.")
    ] = False,
    cursor: Annotated[
        str | None, typer.Option("--cursor", help="Of these, only what follows this cursor of --json.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a run's results to its end, or with --conversation or --all many runs, for ever.

    Ctrl-C stops following; runs continue. The exit status is that of the run, as for `hostler run`.
    """
    if (run_id is not None) + (conversation is not None) + everything != 1:
        fail("name a run, or follow many: --conversation ID or --all", USAGE)
    if run_id is None:
        from hostler.cli.timeline_tail import tail

        server.ask(
            lambda api: tail(api, conversation, agent, cursor=cursor, from_start=from_start, as_json=as_json)
        )
        return
    if agent or from_start or cursor:
        fail("--agent, --from-start and --cursor go with --conversation or --all", USAGE)
    followed = run_id
    from hostler.cli.run_output import Show
    from hostler_protocol.errors import InvalidArgumentError
    from hostler_protocol.runs import TERMINAL_STATUSES

    async def ask(api: Api) -> str:
        run = await api.get(route("runs", followed))
        if run["status"] not in TERMINAL_STATUSES and api.in_process:
            raise InvalidArgumentError(
                f"the run is {run['status']}, and no server is running to continue it: start `hostler serve`"
            )
        show = Show(as_json=as_json)
        async for result in api.results(followed, after):
            show.result(result)
        show.end()
        status: str = (await api.get(route("runs", followed)))["status"]
        return status

    status = server.ask(ask)
    raise typer.Exit(STATUS_OF_RUN.get(status, FAILED))


@app.command("cancel")
@server_command
def cancel_run(
    server: Server,
    run_id: RunArgument,
    reason: Annotated[str, typer.Option("--reason", help="Saved in its journal.")] = "cancelled by hand",
    now: Annotated[bool, typer.Option("--now", help="Give its runner no time to clean up.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel a run and its children. An ended run does not change."""
    from hostler_protocol.runs import TERMINAL_STATUSES

    async def ask(api: Api) -> dict[str, Any]:
        body = {"reason": reason, **({"grace": 0} if now else {})}
        run: dict[str, Any] = await api.post(route("runs", run_id, "cancel"), body)
        if run["status"] in TERMINAL_STATUSES or api.in_process:
            return run
        async with asyncio.timeout(CANCEL_SECONDS):
            async for _ in api.results(run_id):
                pass  # until the end
        ended: dict[str, Any] = await api.get(route("runs", run_id))
        return ended

    try:
        run = server.ask(ask)
    except TimeoutError:
        fail(f"the run has not ended within {CANCEL_SECONDS:.0f} s: see `hostler runs show {run_id}`")
    write_done(run, f"the run is {run['status']}", as_json=as_json)


def _show(run: dict[str, Any]) -> None:
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
            ("cancelled by", _cancelled_by(run)),
            ("created", moment(run["created_at"])),
            ("took", took(run)),
            ("cost", run.get("cost")),
            *(("budget", _budget(budget)) for budget in run["budgets"]),
        )
    )
    text = (run.get("output") or {}).get("text")
    if text:
        out().print()
        out().print(text, markup=False)
    if "journal" in run:
        out().print()
        rows = (
            (e["position"], e.get("sequence"), e["kind"], e["type"], short(e["data"], SHORT_CHARS))
            for e in run["journal"]
        )
        write_table(
            ("position", "sequence", "kind", "type", "data"),
            rows,
            none="the journal is empty",
            spare=("sequence",),
        )


def _budget(budget: dict[str, Any]) -> str:
    """Return what was used of a budget, in one line."""
    used, reserved = amounts(budget, "used") or "nothing", amounts(budget, "reserved")
    more = f" and {reserved} reserved" if reserved else ""
    return f"{used}{more} of {limits(budget)} ({OF[budget['span']]})"


def _cancelled_by(run: dict[str, Any]) -> str | None:
    """Return who cancelled the run, when and why; None if it was not cancelled."""
    if run.get("cancel_requested_at") is None:
        return None
    by = run.get("cancel_requested_by") or "unknown"
    return f"{by}, {moment(run['cancel_requested_at'])}: {run.get('cancel_reason') or 'no reason given'}"


for name, command in (
    ("list", run_lists.list_runs),
    ("totals", run_lists.totals),
    ("export", reruns.export),
    ("steps", reruns.steps),
    ("retry", reruns.retry),
    ("fork", reruns.fork),
):
    app.command(name)(command)
