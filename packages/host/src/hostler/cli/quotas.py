"""`hostler quotas`: what is stored, and how much may be."""

from __future__ import annotations

from typing import Annotated

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import write_json
from hostler.cli.server import Server, server_command
from hostler.cli.tables import write_table

app = typer.Typer(help="Quotas: list what is stored, and the limits.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `list` a command of its own."""


@app.command("list")
@server_command
def list_quotas(
    server: Server,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Of this agent alone.")] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Of this run, too.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List what the workspace and its agents have stored, and how much they may.

    Limits are set with `quota` of an entry of `workspaces`, and of an agent's
    `resource_policy`.
    """
    items = server.get("/v1/quotas", agent=agent, run=run)["items"]
    if as_json:
        write_json(items)
        return
    rows = [
        (
            item["level"],
            item["name"],
            item["quantity"].replace("_", " "),
            f"{item['used']:,}",
            "none" if item["limit"] is None else f"{item['limit']:,}",
        )
        for item in items
        if item["used"] or item["level"] != "agent"
    ]
    write_table(("level", "name", "what", "used", "limit"), rows, none="nothing is stored")
