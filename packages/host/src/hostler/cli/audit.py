"""`hostler audit verify`: whether anything in the event log or the audit log was changed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from hostler.cli.options import DatabaseOption, DataOption, JsonOption, NoKeyOption, NoUrlOption
from hostler.cli.output import FAILED, out, show_error, write_json

if TYPE_CHECKING:
    from hostler.cli.facts import Facts
    from hostler.ports import Database
    from hostler.stores.chain import Chain

app = typer.Typer(help="The audit log and the hash chains.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command("verify")
def verify(
    ctx: typer.Context,
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: NoUrlOption = None,
    key: NoKeyOption = None,
) -> None:
    """Check every hash chain from its first row to its head. Exit status 1 where one is broken.

    It works beside a running server. Note the heads elsewhere: whoever can rewrite a whole chain cannot
    rewrite what you noted.
    """
    from hostler.cli.facts import opened_facts, with_facts

    async def work(facts: Facts) -> list[dict[str, Any]]:
        async with opened_facts(facts) as opened:
            return await verify_all(opened)

    del key
    found = with_facts(ctx, data, database, url, work)
    broken = [chain for chain in found if chain["broken"] is not None]
    if as_json:
        write_json(found)
    else:
        from rich.text import Text

        for chain in found:
            name = f"{chain['chain']} of workspace {chain['workspace']}"
            if chain["broken"] is not None:
                show_error(f"{name}: {chain['broken']}")
                continue
            text = f"{chain['checked']:,} rows, {chain['deleted']:,} of them emptied by deletion"
            out().print(Text.assemble(("✓ ", "green"), f"{name}: {text}"), soft_wrap=True)
            out().print(Text(f"  head {chain['seq']} {chain['head']}", style="dim"), soft_wrap=True)
        if not found:
            out().print("no facts yet: nothing to verify")
    raise typer.Exit(FAILED if broken else 0)


async def verify_all(database: Database) -> list[dict[str, Any]]:
    """Verify the chains of all workspaces; one record each."""
    from hostler.stores import chain

    kinds: tuple[Chain, ...] = ("events", "audit")
    found: list[dict[str, Any]] = []
    for kind in kinds:
        after = ""
        while names := await database.read(partial(chain.workspaces, chain=kind, after=after)):
            found += [await _verify_one(database, name, kind) for name in names]
            after = names[-1]
    return found


async def _verify_one(database: Database, workspace: str, kind: Chain) -> dict[str, Any]:
    from hostler.stores import chain

    checked = deleted = 0
    link: chain.Link | None = None
    while True:
        step = await database.read(partial(chain.verify, workspace_id=workspace, chain=kind, after=link))
        checked, deleted, link = checked + step.checked, deleted + step.deleted, step.link
        if step.done:
            break
    broken = step.broken
    place = "" if broken is None or broken.seq is None else f"row {broken.seq}: "
    return {
        "workspace": workspace,
        "chain": kind,
        "checked": checked,
        "deleted": deleted,
        "seq": link.seq,
        "head": link.digest,
        "broken": None if broken is None else f"{place}{broken.reason}",
    }
