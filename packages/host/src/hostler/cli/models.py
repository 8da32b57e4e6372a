"""`hostler models`: what agents can be given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, UrlOption
from hostler.cli.output import write_json, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Models: list.", no_args_is_help=True)


@app.command("list")
def list_models(
    as_json: JsonOption = False, data: DataOption = None, url: UrlOption = None, key: KeyOption = None
) -> None:
    """List the configured models."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        found: list[Any] = (await api.get("/v1/models"))["items"]
        return found

    found = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(found)
        return
    rows = (
        (
            m["model_id"],
            m["model_type"],
            m["provider"],
            m["context_window_tokens"],
            ", ".join(m["operations"]),
        )
        for m in found
    )
    write_table(
        ("model", "type", "provider", "window", "operations"),
        rows,
        none="no models yet: name them in a configuration and `hostler apply` it",
    )
