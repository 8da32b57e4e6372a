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
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import add_list_command
from hostler.cli.trials import try_out

app = typer.Typer(help="Models: add, list, show, test, change, remove.", no_args_is_help=True)
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


@app.command("test")
@server_command
def try_model(
    server: Server,
    model: ModelArgument,
    text: Annotated[str, typer.Argument(help="The question, the text to embed, or the query.")],
    documents: Annotated[
        list[str] | None, typer.Option("--document", "-d", help="What a rerank model orders; repeat it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Test a model: ask it once, by a run of its own, and show the answer as it is written.

    Exit status as of `hostler run`. Needs a running server.
    """
    try_out(
        server, route("models", model, "test"), {"input": text, "documents": documents or []}, as_json=as_json
    )


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
