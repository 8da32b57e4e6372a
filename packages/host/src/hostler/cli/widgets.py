"""`hostler widgets`: chats for web pages."""

from __future__ import annotations

from typing import Annotated

import typer

from hostler.cli.entry_commands import add_entry_commands
from hostler.cli.tables import add_list_command

app = typer.Typer(help="Widgets, chats for web pages: add, list, show, change, remove.", no_args_is_help=True)
WidgetArgument = Annotated[str, typer.Argument(metavar="WIDGET", help="The widget's name.")]


add_list_command(
    app,
    "/v1/widgets",
    {
        "widget": "name",
        "agent": "agent",
        "workspace": "workspace_id",
        "origins": "origins",
        "script": "script",
        "requests": "requests",
        "problems": "problems",
    },
    help="List the widgets, with their visitors and messages since the host started.",
    none="no widgets yet: `hostler widgets add NAME agent=AGENT origins=...` adds one",
)
add_entry_commands(
    app,
    "widgets",
    metavar="WIDGET",
    named="The widget's name.",
    show="Show one widget as in a configuration file.",
    add="Add a widget, like `add help agent=guide 'origins=[\"https://www.example.com\"]'`.",
    change='Change fields of a widget, like `change help greeting="How can I help?"`.',
    remove="Remove a widget: its script is not there any more, and the tokens of its visitors end.",
)
