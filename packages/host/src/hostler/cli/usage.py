"""`hostler usage`: runs, tokens, cost, failures and latency of a period."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import note, write_json
from hostler.cli.server import Server, server_command
from hostler.cli.tables import write_table


class By(StrEnum):
    """What the figures are grouped by."""

    agent = "agent"
    person = "person"
    model = "model"
    workspace = "workspace"


@server_command
def usage(
    server: Server,
    by: Annotated[By, typer.Option(help="What the figures are grouped by.")] = By.agent,
    days: Annotated[float, typer.Option(min=0.01, max=700, help="The last days that are counted.")] = 30,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Of this agent alone.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Sum up runs, tokens, cost, failures and latency, by agent, person, model or workspace.

    With --json also over time, as `GET /v1/usage/series` has it. Tokens are
    input and output. Seconds are those within which half of the runs, and
    95 % of them, were done.
    """
    since = time.time() - days * 86_400
    found = server.get("/v1/usage/series", by=by.value, since=since, agent=agent, most=50)
    if as_json:
        write_json(found)
        return
    rows = [_row(_name(group, by), group["total"]) for group in found["groups"]]
    if len(rows) > 1:
        rows.append(_row("total", found["total"]))
    columns = (by.value, "runs", "calls", "failed", "tokens", "cost", "50 % within", "95 % within")
    write_table(columns, rows, none=f"nothing ran in the last {days:g} days")
    if not found["complete"]:
        note("there is more than is counted at once: only the newest is; name fewer --days")


def _name(group: dict[str, Any], by: By) -> str:
    if group["name"] is None:
        return "all others"
    return group["title"] or group["name"] or ("nobody" if by is By.person else "-")


def _row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    tokens = [figures[key] for key in ("input_tokens", "output_tokens")]
    known = [count for count in tokens if count is not None]
    return (
        name,
        f"{figures['runs']:,}",
        "" if figures["calls"] is None else f"{figures['calls']:,}",
        f"{figures['failed']:,}",
        f"{sum(known):,}" if known else "",
        "" if figures["cost"] is None else f"{figures['cost']:.6g}",
        *("" if figures[key] is None else f"{figures[key]:.3g} s" for key in ("p50", "p95")),
    )
