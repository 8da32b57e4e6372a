"""`hostler schedules`: what sends events at planned times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entries import FieldsArgument, merged, parse_fields
from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.output import USAGE, fail
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_fields, write_items, write_record
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="Schedules: add, list, show, next, history, change, pause, resume, run, remove.",
    no_args_is_help=True,
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
EXAMPLE = "like text=Hello or timezone=Europe/Berlin"
SHOWN_NEXT = 3


@app.command("add")
@server_command
def add_schedule(
    server: Server,
    name: NameArgument,
    cron: Annotated[
        str | None,
        typer.Option(
            "--cron",
            help="Minute, hour, day of month, month, day of week, like '0 7 * * mon-fri'; seconds before "
            "them if wanted.",
        ),
    ] = None,
    every: Annotated[float | None, typer.Option("--every", metavar="SECONDS", help="An interval.")] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="One time, like 2026-12-01T09:30.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", help="The zone of these times, like Europe/Berlin: UTC.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="The agent that gets the events.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="The text of its input.")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", help="The conversation.")] = None,
    fields: FieldsArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Add a schedule. Further fields, such as misfire=all or jitter=60, are written as FIELD=VALUE."""
    named = {
        "cron": cron,
        "every": every,
        "at": at,
        "timezone": timezone,
        "agent": agent,
        "text": text,
        "conversation_id": conversation,
    }
    given = {field: value for field, value in named.items() if value is not None}
    body = {"name": name, **given, **merged({}, parse_fields(fields, EXAMPLE))}

    async def add(api: Api) -> Any:
        made = await api.post("/v1/schedules", body)
        made["next"] = (await api.get(route("schedules", name, "next"), count=SHOWN_NEXT))["items"]
        return made

    write_record(server.ask(add), _show, as_json=as_json)


@app.command("list")
@server_command
def list_schedules(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List the schedules, when each fires next, and why the last firing reached no agent."""
    write_items(
        server.items("/v1/schedules", limit=limit),
        {
            "schedule": "name",
            "status": "status",
            "fires": lambda one: _times(one["spec"]),
            "agent": lambda one: (one["spec"] or {}).get("agent"),
            "next": lambda one: moment(one["next_at"]),
            "last": lambda one: moment(one["last_planned"]),
            "problem": "error",
        },
        as_json=as_json,
        none="no schedules: `hostler schedules add NAME --cron '0 7 * * *' --agent AGENT` makes one",
        spare=("last", "agent"),
    )


@app.command("show")
@server_command
def show_schedule(server: Server, name: NameArgument, as_json: JsonOption = False) -> None:
    """Show a schedule and its next firings."""

    async def look(api: Api) -> Any:
        found = await api.get(route("schedules", name))
        found["next"] = (await api.get(route("schedules", name, "next"), count=SHOWN_NEXT))["items"]
        return found

    write_record(server.ask(look), _show, as_json=as_json)


@app.command("next")
@server_command
def list_next(
    server: Server,
    name: NameArgument,
    count: Annotated[int, typer.Option("--count", min=1, max=100, help="How many.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """List the next firings of a schedule, in its zone and in UTC."""

    async def look(api: Api) -> Any:
        spec = (await api.get(route("schedules", name)))["spec"] or {}
        items = (await api.get(route("schedules", name, "next"), count=count))["items"]
        return [{**item, "local": _local(item["planned_at"], spec.get("timezone", "UTC"))} for item in items]

    write_items(
        server.ask(look),
        {"planned": "local", "due": lambda one: moment(one["due_at"])},
        as_json=as_json,
        none=f"{name} does not fire again: it is paused, or has ended",
    )


@app.command("history")
@server_command
def list_history(
    server: Server, name: NameArgument, limit: LimitOption = 20, as_json: JsonOption = False
) -> None:
    """List the latest firings of a schedule and what came of them."""
    write_items(
        server.items(route("schedules", name, "firings"), limit=limit),
        {
            "planned": lambda one: moment(one["planned_at"]),
            "late": lambda one: f"{one['late']:.1f} s",
            "outcome": "outcome",
            "run": "run_id",
            "left out": lambda one: one["left_out"] or None,
            "asked by": "asked_by",
            "reason": "reason",
        },
        as_json=as_json,
        none=f"{name} has not fired yet",
        spare=("asked by", "left out", "late"),
    )


@app.command("change")
@server_command
def change_schedule(
    server: Server, name: NameArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Change fields of a schedule. A change of its times counts from now."""
    wanted = parse_fields(fields, EXAMPLE)
    if not wanted:
        fail(f"name the fields to change as FIELD=VALUE, {EXAMPLE}", USAGE)

    async def change(api: Api) -> Any:
        spec = (await api.get(route("schedules", name)))["spec"] or {"name": name}
        kept = {field: value for field, value in spec.items() if value is not None}
        made = await api.put(route("schedules", name), merged(kept, wanted))
        made["next"] = (await api.get(route("schedules", name, "next"), count=SHOWN_NEXT))["items"]
        return made

    write_record(server.ask(change), _show, as_json=as_json)


@app.command("pause")
@server_command
def pause_schedule(server: Server, name: NameArgument, as_json: JsonOption = False) -> None:
    """Pause a schedule. What is planned meanwhile does not happen."""
    paused = server.ask(lambda api: api.post(route("schedules", name, "pause")))
    write_done(paused, f"{name} is paused; `hostler schedules resume {name}` ends that", as_json=as_json)


@app.command("resume")
@server_command
def resume_schedule(
    server: Server,
    name: NameArgument,
    from_now: Annotated[
        bool,
        typer.Option(
            "--from-now", help="Also one that has fired for times still to come, since the clock was wrong."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Let a paused schedule fire again, from now on."""
    resumed = server.ask(lambda api: api.post(route("schedules", name, "resume"), from_now=from_now))
    next_at = moment(resumed["next_at"])
    when = "it has ended" if next_at is None else f"it fires next at {next_at:%Y-%m-%d %H:%M:%S %Z}"
    write_done(resumed, f"{name} is no longer paused: {when}", as_json=as_json)


@app.command("run")
@server_command
def run_schedule(server: Server, name: NameArgument, as_json: JsonOption = False) -> None:
    """Fire a schedule now, beside its planned times. A server has to run."""
    accepted = server.ask(lambda api: api.post(route("schedules", name, "run")), running=True)
    run = accepted["run"]
    outcome = f"event {accepted['event_id']}: {accepted['outcome']}"
    write_done(accepted, outcome if run is None else f"{outcome}, run {run['run_id']}", as_json=as_json)


@app.command("remove")
@server_command
def remove_schedule(server: Server, name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove a schedule. Its events and their runs stay."""
    server.ask(lambda api: api.delete(route("schedules", name)))
    write_done({"name": name, "removed": True}, f"schedule {name} is removed", as_json=as_json)


def _times(spec: dict[str, Any] | None) -> str | None:
    """Return what a schedule fires by, for people."""
    if spec is None:
        return None
    if spec["cron"] is not None:
        return f"{spec['cron']} {spec['timezone']}"
    return (
        f"every {spec['every']:g} s" if spec["every"] is not None else f"at {spec['at']} {spec['timezone']}"
    )


def _local(seconds: float, zone: str) -> str:
    from hostler.domain.firing_times import zone_of

    found = datetime.fromtimestamp(seconds, UTC).astimezone(zone_of(zone))
    return f"{found:%a %Y-%m-%d %H:%M:%S} {found.tzname()}"


def _show(record: dict[str, Any]) -> None:
    import yaml

    spec = record["spec"]
    zone = "UTC" if spec is None else spec["timezone"]
    write_fields(
        (
            ("schedule", record["name"]),
            ("status", record["status"]),
            ("next", ", ".join(_local(one["planned_at"], zone) for one in record["next"]) or None),
            ("last planned", moment(record["last_planned"])),
            ("firings", record["firings"]),
            ("problem", record["error"]),
            ("made by", record["made_by"]),
            ("paused by", record["paused_by"]),
            ("made in run", record["run_id"]),
        )
    )
    if spec is not None:
        out().print()
        entry = {field: value for field, value in spec.items() if value not in (None, {})}
        text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)
        out().print(text.rstrip(), markup=False, soft_wrap=True)
