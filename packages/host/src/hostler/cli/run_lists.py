"""`hostler runs list|totals`: runs by filters, and sums over them."""

from __future__ import annotations

import functools
import inspect
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, LimitOption, seconds_of
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_fields, write_items, write_record

if TYPE_CHECKING:
    from hostler.cli.client import Api

StatusOption = Annotated[
    list[str] | None, typer.Option("--status", help="Only with this status; repeatable.")
]
AgentOption = Annotated[str | None, typer.Option("--agent", help="Only of this agent.")]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", "-c", help="Only of this conversation.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="SPAN", help="Only newer ones, like 12h or 7d.")
]
CostOption = Annotated[float | None, typer.Option("--min-cost", min=0, help="Only those that cost so much.")]
ToolOption = Annotated[str | None, typer.Option("--tool", help="Only those that used this tool.")]
TextOption = Annotated[
    str | None, typer.Option("--text", help="Only those in which this was asked or answered.")
]


def _query(
    status: StatusOption = None,
    agent: AgentOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    min_cost: CostOption = None,
    tool: ToolOption = None,
    text: TextOption = None,
) -> dict[str, Any]:
    """Return the parameters of a list of runs: those of the options that were given."""
    return {
        "status": status or None,
        "agent": agent or None,
        "conversation_id": conversation or None,
        "since": None if since is None else time.time() - seconds_of(since),
        "min_cost": min_cost,  # 0: those whose cost is known
        "tool": tool or None,
        "text": text or None,
    }


def _status(run: dict[str, Any]) -> str:
    """Return the status of a run, or what it waits for."""
    if run["waiting"]:
        return "waits for people"
    return f"waits for {run['waits_for']}" if run["waits_for"] else str(run["status"])


def _filtered(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that takes a `query`: add the options of `_query`, which makes it of them."""
    filters = inspect.signature(_query, eval_str=True).parameters

    @functools.wraps(command)
    def called(server: Server, **given: Any) -> None:
        query = _query(**{name: given.pop(name) for name in filters})
        command(server, query, **given)

    own = inspect.signature(command, eval_str=True)
    kept = list(own.parameters.values())
    place = list(own.parameters).index("query")
    named = [*kept[:place], *filters.values(), *kept[place + 1 :]]
    called.__signature__ = own.replace(parameters=named)  # type: ignore[attr-defined]
    return called


@server_command
@_filtered
def list_runs(
    server: Server,
    query: dict[str, Any],
    dead: Annotated[
        bool, typer.Option("--dead", help="Only those that the host gave up on and that were not retried.")
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    query = {**query, "dead": dead or None}
    found = server.items("/v1/runs", limit=limit, **query)
    chosen = any(value is not None for value in query.values())
    write_items(
        found,
        {
            "run": "run_id",
            "agent": "agent",
            "status": _status,
            "code": "status_code",
            "created": lambda run: moment(run["created_at"]),
            "took": took,
        },
        as_json=as_json,
        none="no matching runs" if chosen else "no runs yet: `hostler run AGENT TEXT` starts one",
        spare=("took", "code", "created"),
    )


@server_command
@_filtered
def totals(server: Server, query: dict[str, Any], as_json: JsonOption = False) -> None:
    """Sum up runs: how many, by status, their tokens, cost and time."""

    async def ask(api: Api) -> dict[str, Any]:
        whole: dict[str, Any] = {"runs": 0, "by_status": Counter(), "timed": 0, "seconds": 0.0}
        whole |= dict.fromkeys(("input_tokens", "output_tokens", "cost"))
        more: str | None = None
        while True:
            part = await api.get("/v1/runs/totals", cursor=more, **query)
            whole["by_status"].update(part["by_status"])
            for name in ("runs", "timed", "seconds", "input_tokens", "output_tokens", "cost"):
                if part[name] is not None:
                    whole[name] = (whole[name] or 0) + part[name]
            more = part["next_cursor"]
            if more is None:
                return {**whole, "by_status": dict(whole["by_status"])}

    write_record(server.ask(ask), _show_totals, as_json=as_json)


def _show_totals(found: dict[str, Any]) -> None:
    write_fields(
        (
            ("runs", str(found["runs"])),
            *sorted(found["by_status"].items()),
            ("input tokens", found["input_tokens"]),
            ("output tokens", found["output_tokens"]),
            ("cost", found["cost"]),
            ("mean time", f"{found['seconds'] / found['timed']:.2f} s" if found["timed"] else None),
        )
    )


def took(run: dict[str, Any]) -> str:
    """Return how long a run took; empty while it goes on."""
    begun, ended = run.get("started_at"), run.get("finished_at")
    return "" if begun is None or ended is None else f"{ended - begun:.2f} s"
