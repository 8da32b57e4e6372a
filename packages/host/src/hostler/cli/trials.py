"""`hostler models test` and `hostler tools test`: one run for one model or one tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from hostler.cli.client import Api
    from hostler.cli.server import Server


def try_out(server: Server, path: str, body: dict[str, Any], *, as_json: bool) -> None:
    """Begin the test at a path of a running server, show how it goes, and exit with the status of its run."""
    from hostler.cli.run_once import follow_run

    async def ask(api: Api) -> int:
        async def begin() -> str:
            return str((await api.post(path, body))["run_id"])

        return await follow_run(api, begin, as_json=as_json)

    raise typer.Exit(server.ask(ask, running=True))
