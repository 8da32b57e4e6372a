"""`hostler channels`: connections to accounts of chat platforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entry_commands import add_entry_commands
from hostler.cli.options import JsonOption
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import add_list_command, moment, write_done, write_fields, write_record

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Channels: add, list, show, change, remove, restart.", no_args_is_help=True)
ChannelArgument = Annotated[str, typer.Argument(metavar="NAME", help="The channel.")]

add_list_command(
    app,
    "/v1/channels",
    {
        "channel": "name",
        "of": "channel",
        "state": lambda one: one["health"] or ("not connected" if one["enabled"] else "disabled"),
        "account": lambda one: one["account_name"] or one["account"],
        "events": "received",
        "waiting": "waiting",
        "in doubt": "in_doubt",
        "failed": "failed",
        "reason": "reason",
    },
    help="List channels, how their connections stand, and what is not sent yet.",
    none="no channels yet: `hostler channels add NAME channel=plugin:AUTHOR/NAME/CHANNEL` adds one",
)
add_entry_commands(
    app,
    "channels",
    metavar="NAME",
    named="The channel.",
    show=None,
    add="Add a channel to the configuration and connect it; secrets are named, like config.token=env:TOKEN.",
    change="Change fields of a channel, like enabled=false. It is connected anew.",
    remove="Disconnect a channel and remove it. What waits to be sent through it is given up.",
)


@app.command("show")
@server_command
def show_channel(server: Server, name: ChannelArgument, as_json: JsonOption = False) -> None:
    """Show one channel, its account, and how its connection stands."""
    write_record(server.get(route("channels", name)), _show, as_json=as_json)


@app.command("restart")
@server_command
def restart_channel(server: Server, name: ChannelArgument, as_json: JsonOption = False) -> None:
    """Close a channel's connection and open it again, on whichever host it is."""

    async def restart(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post(route("channels", name, "restart"))
        return found

    write_done(server.ask(restart, running=True), f"{name} is being connected anew", as_json=as_json)


def _show(one: dict[str, Any]) -> None:
    write_fields(
        (
            ("channel", one["name"]),
            ("of", one["channel"]),
            ("agent", one["agent"] or "(those that match)"),
            ("state", one["health"] or ("not connected" if one["enabled"] else "disabled")),
            ("reason", one["reason"]),
            ("address", one["webhook"]),
            ("account", one["account"]),
            ("name", one["account_name"]),
            ("host", one["host_id"]),
            ("opened", moment(one["opened_at"])),
            ("last event", moment(one["last_event_at"])),
            ("events", f"{one['received']} let in, {one['ignored']} left out"),
            ("outbox", f"{one['waiting']} waiting, {one['in_doubt']} in doubt, {one['failed']} failed"),
        )
    )
