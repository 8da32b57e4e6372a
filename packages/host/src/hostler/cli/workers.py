"""`hostler workers`: remote workers, which run plugins on other machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import add_list_command, moment, write_done, write_fields, write_record

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="Remote workers: list, show, drain, cordon, uncordon, remove. `hostler worker` starts one.",
    no_args_is_help=True,
)
WorkerArgument = Annotated[str, typer.Argument(metavar="ID", help="The worker.")]
SHOWN_HOURS = 24


def _state(one: dict[str, Any]) -> str:
    return str(one["state"]) if one["connected"] else "not connected"


add_list_command(
    app,
    "/v1/workers",
    {
        "worker": "worker_id",
        "state": _state,
        "labels": lambda one: ", ".join(one["labels"]),
        "runs": lambda one: f"{one['active']} of {one['slots']}",
        "host": "host_id",
        "version": "version",
        "reason": "reason",
    },
    help="List remote workers, their labels, and how many runs they have.",
    none="no workers yet: `hostler worker --connect URL --labels LABELS` on another machine starts one",
)


@app.command("show")
@server_command
def show_worker(server: Server, worker: WorkerArgument, as_json: JsonOption = False) -> None:
    """Show one worker, its machine, and what it did in the last hours."""
    write_record(server.get(route("workers", worker)), _show, as_json=as_json)


@app.command("drain")
@server_command
def drain_worker(server: Server, worker: WorkerArgument, as_json: JsonOption = False) -> None:
    """Give a worker no new runs, and end its process after its last one."""
    record = _change(server, worker, "drain")
    write_done(record, f"{worker} is draining: it has {record['active']} runs left", as_json=as_json)


@app.command("cordon")
@server_command
def cordon_worker(server: Server, worker: WorkerArgument, as_json: JsonOption = False) -> None:
    """Give a worker no new runs until it is uncordoned. It keeps those that it has."""
    write_done(_change(server, worker, "cordon"), f"{worker} gets no new runs", as_json=as_json)


@app.command("uncordon")
@server_command
def uncordon_worker(server: Server, worker: WorkerArgument, as_json: JsonOption = False) -> None:
    """Give a worker new runs again."""
    write_done(_change(server, worker, "uncordon"), f"{worker} gets new runs again", as_json=as_json)


@app.command("remove")
@server_command
def remove_worker(server: Server, worker: WorkerArgument, as_json: JsonOption = False) -> None:
    """Forget a worker. If it is connected, its process ends, and its runs are recovered elsewhere."""

    async def remove(api: Api) -> None:
        await api.delete(route("workers", worker))

    server.ask(remove, running=True)
    write_done({"worker_id": worker}, f"{worker} is removed: revoke its key to keep it away", as_json=as_json)


def _change(server: Server, worker: str, verb: str) -> dict[str, Any]:
    async def change(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post(route("workers", worker, verb))
        return found

    return server.ask(change, running=True)


def _show(one: dict[str, Any]) -> None:
    machine = one["machine"]
    write_fields(
        [
            ("worker", one["worker_id"]),
            ("state", _state(one)),
            ("reason", one["reason"]),
            ("labels", one["labels"]),
            ("runs", f"{one['active']} of {one['slots']}"),
            ("host", one["host_id"]),
            ("version", one["version"]),
            ("system", machine.get("system")),
            ("python", machine.get("python")),
            ("sandbox", machine.get("sandbox")),
            ("joined", moment(one["joined_at"])),
            ("last seen", moment(one["seen_at"])),
            *((f"{moment(hour['hour']):%b %d %H:00}", _did(hour)) for hour in one["hours"][:SHOWN_HOURS]),
        ]
    )


def _did(hour: dict[str, Any]) -> str:
    return (
        f"{hour['claimed']} runs: {hour['done']} done, {hour['failed']} failed, {hour['lost']} lost; "
        f"waited {hour['waited_seconds']:.1f} s, ran {hour['ran_seconds']:.1f} s"
    )
