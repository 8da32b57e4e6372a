"""`hostler models`: what agents can be given."""

from __future__ import annotations

import typer

from hostler.cli.options import JsonOption
from hostler.cli.server import Server, server_command
from hostler.cli.tables import write_items

app = typer.Typer(help="Models: list.", no_args_is_help=True)


@app.command("list")
@server_command
def list_models(server: Server, as_json: JsonOption = False) -> None:
    """List the configured models."""
    write_items(
        server.all("/v1/models"),
        ("model", "type", "provider", "window", "operations"),
        lambda m: (
            m["model_id"],
            m["model_type"],
            m["provider"],
            m["context_window_tokens"],
            ", ".join(m["operations"]),
        ),
        as_json=as_json,
        none="no models yet: name them under `models:` in a configuration and `hostler apply` it",
    )
