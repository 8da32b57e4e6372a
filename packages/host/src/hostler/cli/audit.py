"""`hostler audit`: list the facts of the audit log; check that neither it nor the event log was changed."""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.options import DatabaseOption, DataOption, JsonOption, LimitOption, NoKeyOption, NoUrlOption
from hostler.cli.output import FAILED, show_error, write_json
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_items
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.database import StorageLocation
    from hostler.storage.stores.verification import ChainReport

app = typer.Typer(help="The audit log: list, verify.", no_args_is_help=True)


@app.command("list")
@server_command
def list_facts(
    server: Server,
    actor: Annotated[str | None, typer.Option(metavar="SUBJECT", help="Only what this one did.")] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Only this action; `key` for all of keys.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="ID", help="Only what was done to this.")] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Only what the host refused.")] = False,
    days: Annotated[float | None, typer.Option(min=0, help="Only of so many last days.")] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List who did what, newest first: decisions, changes, sign-ins, uses of secrets, refusals, deletions."""
    filters = {
        "actor": actor,
        "action": action,
        "target": target,
        "outcome": "refused" if refused else None,
        "since": None if days is None else time.time() - days * 86_400,
    }
    chosen = any(value is not None for value in filters.values())
    write_items(
        server.items("/v1/audit", limit=limit, **filters),
        {
            "at": lambda fact: moment(fact["at"]),
            "who": lambda fact: fact["actor_name"] or fact["actor"],
            "did": "action",
            "what": "target",
            "subject": lambda fact: fact["actor"] if fact["actor_name"] else None,
        },
        as_json=as_json,
        none="nothing in the audit log matches" if chosen else "nothing is in the audit log yet",
        spare=("subject",),
    )


@app.command("verify")
def verify(
    ctx: typer.Context,
    anchor: Annotated[
        list[Path] | None,
        typer.Option(
            "--anchor", metavar="FILE", help="Anchors from elsewhere, or the output of `audit verify --json`."
        ),
    ] = None,
    anchor_key: Annotated[
        str | None,
        typer.Option(
            "--anchor-key",
            metavar="REFERENCE",
            help="env:NAME or file:PATH of the key that signed them, if it is not the configured one.",
        ),
    ] = None,
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: NoUrlOption = None,
    key: NoKeyOption = None,
) -> None:
    """Check every hash chain from its first row to its head. Exit status 1 if one is broken.

    A server may run meanwhile. The chains are also compared with the heads
    that the server saved in the data directory, and with the anchors in the
    file that `audit_anchors` names. Anyone who can write there can remove
    those: keep anchors, or the output of --json, elsewhere, and pass them
    as --anchor.
    """
    from hostler.cli.database import open_storage, with_storage
    from hostler.host.anchor_files import AnchorFiles, stored_settings
    from hostler.host.audit_heads import read_own
    from hostler.storage.stores.verification import verify_all

    async def work(location: StorageLocation) -> list[ChainReport]:
        own = read_own(location.data_dir)  # before the chains: a server may save further heads meanwhile
        async with open_storage(location, content=True) as opened:
            files = AnchorFiles(await opened.read(stored_settings), anchor or [], anchor_key)
            return await verify_all(opened, chain(own, files.read()))

    del key
    found = with_storage(ctx, data, database, url, work)
    broken = [one for one in found if one.broken is not None]
    if as_json:
        write_json(found)
    else:
        _show(found)
    raise typer.Exit(FAILED if broken else 0)


def _show(found: list[ChainReport]) -> None:
    from rich.text import Text

    for one in found:
        name = f"{one.chain} of workspace {one.workspace}"
        if one.broken is not None:
            show_error(f"{name}: {one.broken}")
            continue
        text = f"{one.checked:,} rows, {one.deleted:,} of them emptied by deletion"
        out().print(Text.assemble(("✓ ", "green"), f"{name}: {text}"), soft_wrap=True)
        out().print(Text(f"  head {one.seq} {one.head}", style="dim"), soft_wrap=True)
    if not found:
        out().print("the database is empty: nothing to verify")
