"""`hostler budgets`: what runs, agents, conversations, persons and workspaces have used, and adding to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.budget_show import OF, amounts, limits
from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.output import USAGE, fail
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import (
    Columns,
    moment,
    write_done,
    write_fields,
    write_items,
    write_record,
    write_table,
)
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Budgets: list, show, add to them.", no_args_is_help=True)
BudgetArgument = Annotated[
    str, typer.Argument(metavar="BUDGET", help="The id, as in `hostler budgets list`.")
]
WorkspaceOption = Annotated[
    str | None, typer.Option("--workspace", metavar="NAME", help="Of another workspace, as its operator.")
]
COLUMNS: Columns = {
    "budget": "id",
    "of": lambda budget: OF[budget["span"]],
    "agent": "agent",
    "for": lambda budget: budget["conversation_id"] or budget["person"],
    "used": lambda budget: amounts(budget, "used"),
    "reserved": lambda budget: amounts(budget, "reserved"),
    "limit": limits,
}
"""The columns of a table of budgets."""


@app.command("list")
@server_command
def list_budgets(
    server: Server,
    span: Annotated[str | None, typer.Option("--span", help="Like run, day, person, workspace_day.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", "-c", metavar="ID")] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Those that this run's calls are charged to.")
    ] = None,
    workspace: WorkspaceOption = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List budgets, those used last first."""
    if run is not None:
        if span or agent or conversation or workspace:
            fail("--run lists all budgets of one run: leave out the other filters", USAGE)
        found = server.get(route("runs", run, "budgets"))["items"]
    else:
        filters = {"span": span, "agent": agent, "conversation_id": conversation, "workspace_id": workspace}
        found = server.items("/v1/budgets", limit=limit, **filters)
    write_items(found, COLUMNS, as_json=as_json, none="no budgets were used yet", spare=("reserved", "for"))


@app.command("show")
@server_command
def show_budget(
    server: Server, budget: BudgetArgument, workspace: WorkspaceOption = None, as_json: JsonOption = False
) -> None:
    """Show one budget, and who added to it."""

    async def look(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.get(route("budgets", budget), workspace_id=workspace)
        return found

    write_record(server.ask(look), _show, as_json=as_json)


@app.command("top-up")
@server_command
def top_up(
    server: Server,
    budget: BudgetArgument,
    cost: Annotated[
        float | None, typer.Option("--cost", help="Money, in the currency of the prices.")
    ] = None,
    tokens: Annotated[int | None, typer.Option("--tokens")] = None,
    calls: Annotated[int | None, typer.Option("--calls", help="Host API calls.")] = None,
    tool_calls: Annotated[int | None, typer.Option("--tool-calls")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Time of work.")] = None,
    comment: Annotated[str | None, typer.Option("--comment", "-m", help="Why, for the audit log.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add to a budget. Runs that wait for it go on."""
    given = {"cost": cost, "tokens": tokens, "calls": calls, "tool_calls": tool_calls, "seconds": seconds}
    body = {name: value for name, value in {**given, "comment": comment}.items() if value is not None}
    if not body.keys() - {"comment"}:
        fail("say what to add, for example --cost 1.5", USAGE)

    async def add(api: Api) -> dict[str, Any]:
        path = route("budgets", budget, "top-up")
        found: dict[str, Any] = await api.post(path, body, workspace_id=workspace)
        return found

    record = server.ask(add)
    write_done(record, f"added; the limit is now {limits(record)}", as_json=as_json)


def _show(budget: dict[str, Any]) -> None:
    write_fields(
        (
            ("budget", budget["id"]),
            ("of", OF[budget["span"]]),
            ("day", budget["day"]),
            ("agent", budget["agent"]),
            ("run", budget["run_id"]),
            ("conversation", budget["conversation_id"]),
            ("person", budget["person"]),
            ("used", amounts(budget, "used")),
            ("reserved", amounts(budget, "reserved")),
            ("limit", limits(budget)),
            ("added", amounts(budget, "added")),
        )
    )
    if budget["top_ups"]:
        out().print()
        rows = [
            (moment(one["created_at"]), one["subject"], amounts(one, "added"), one["comment"])
            for one in budget["top_ups"]
        ]
        write_table(("when", "who", "added", "why"), rows, none="")
