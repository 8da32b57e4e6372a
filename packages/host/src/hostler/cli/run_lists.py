"""`hostler runs list|totals`: runs by filters, and sums over them."""

from __future__ import annotations

import time
from collections import Counter
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


def _query(**given: Any) -> dict[str, Any]:
    since = given.pop("since")
    from_time = None if since is None else time.time() - seconds_of(since)
    return {**{name: value or None for name, value in given.items()}, "since": from_time}


@server_command
def list_runs(
    server: Server,
    status: StatusOption = None,
    agent: AgentOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    min_cost: CostOption = None,
    tool: ToolOption = None,
    text: TextOption = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Only those that the host gave up on and that were not retried.")
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    query = _query(
        status=status,
        agent=agent,
        conversation_id=conversation,
        since=since,
        min_cost=min_cost,
        tool=tool,
        text=text,
        dead=dead,
    )
    found = server.items("/v1/runs", limit=limit, **query)
    chosen = any(value is not None for value in query.values())
    write_items(
        found,
        {
            "run": "run_id",
            "agent": "agent",
            "status": "status",
            "code": "status_code",
            "created": lambda run: moment(run["created_at"]),
            "took": took,
        },
        as_json=as_json,
        none="no matching runs" if chosen else "no runs yet: `hostler run AGENT TEXT` starts one",
        spare=("took", "code", "created"),
    )


@server_command
def totals(
    server: Server,
    status: StatusOption = None,
    agent: AgentOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    min_cost: CostOption = None,
    tool: ToolOption = None,
    text: TextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sum up runs: how many, by status, their tokens, cost and time."""
    query = _query(
        status=status,
        agent=agent,
        conversation_id=conversation,
        since=since,
        min_cost=min_cost,
        tool=tool,
        text=text,
    )

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
