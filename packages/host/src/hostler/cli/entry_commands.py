"""The commands of one kind of configuration entry: show, add, change and remove one."""

from __future__ import annotations

from typing import Any

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


def add_entry_commands(
    app: typer.Typer,
    field: str,
    *,
    metavar: str,
    named: str,
    show: str | None,
    add: str,
    change: str,
    remove: str,
    key: str = "name",
) -> None:
    """Add the commands of the entries `field`, each with its help.

    `metavar` and `named`: the argument, and what it is; `key`: the field of an entry that has it. `show`:
    None for a kind that has a command of its own for that.
    """
    argument: Any = typer.Argument(metavar=metavar, help=named)

    if show is not None:

        @app.command("show", help=show)
        @server_command
        def show_one(server: Server, name: str = argument, as_json: JsonOption = False) -> None:
            show_entry(server, field, name, as_json=as_json)

    @app.command("add", help=add)
    @server_command
    def add_one(
        server: Server, name: str = argument, fields: FieldsArgument = None, as_json: JsonOption = False
    ) -> None:
        add_entry(server, field, {key: name, **parse_fields(fields)}, as_json=as_json)

    @app.command("change", help=change)
    @server_command
    def change_one(
        server: Server, name: str = argument, fields: FieldsArgument = None, as_json: JsonOption = False
    ) -> None:
        change_entry(server, field, name, parse_fields(fields), as_json=as_json)

    @app.command("remove", help=remove)
    @server_command
    def remove_one(server: Server, name: str = argument, as_json: JsonOption = False) -> None:
        remove_entry(server, field, name, as_json=as_json)
