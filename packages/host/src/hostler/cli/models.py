"""`hostler models`: models that agents can use."""

from __future__ import annotations

from typing import Annotated

import typer

from hostler.cli.entries import (
    FieldsArgument,
    add_entry,
    change_entry,
    parse_fields,
    remove_entry,
    show_entry,
)
from hostler.cli.options import JsonOption
from hostler.cli.server import Server, server_command
from hostler.cli.tables import add_list_command

app = typer.Typer(help="Models: add, list, show, change, remove.", no_args_is_help=True)
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model's id.")]


add_list_command(
    app,
    "/v1/models",
    {
        "model": "model_id",
        "type": "model_type",
        "provider": "provider",
        "window": "context_window_tokens",
        "operations": "operations",
        "problem": "problem",
    },
    help="List the configured models.",
    none="no models yet: `hostler models add ID` adds one, `hostler apply FILE` many",
)


@app.command("show")
@server_command
def show_model(server: Server, model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show one model as in a configuration file."""
    show_entry(server, "models", model, as_json=as_json)


@app.command("add")
@server_command
def add_model(
    server: Server, model: ModelArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Add a model to the configuration, like `add main base_url=http://... api_key=env:NAME`."""
    add_entry(server, "models", {"id": model, **parse_fields(fields)}, as_json=as_json)


@app.command("change")
@server_command
def change_model(
    server: Server, model: ModelArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Change a model. Active runs use the change from their next call."""
    change_entry(server, "models", model, parse_fields(fields), as_json=as_json)


@app.command("remove")
@server_command
def remove_model(server: Server, model: ModelArgument, as_json: JsonOption = False) -> None:
    """Remove a model from the configuration. Runs that call it get `not_found`."""
    remove_entry(server, "models", model, as_json=as_json)
