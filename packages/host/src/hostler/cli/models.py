"""`hostler models`: models that agents can use."""

from __future__ import annotations

from typing import Annotated

import typer

from hostler.cli.entry_commands import add_entry_commands
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
add_entry_commands(
    app,
    "models",
    metavar="MODEL",
    named="The model's id.",
    key="id",
    show="Show one model as in a configuration file.",
    add="Add a model to the configuration, like `add main base_url=http://... api_key=env:NAME`.",
    change="Change a model. Active runs use the change from their next call.",
    remove="Remove a model from the configuration. Runs that call it get `not_found`.",
)


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
