"""`hostler events`: those that came in, which agent takes one, and sending one again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.output import FAILED, USAGE, fail
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import Columns, moment, write_fields, write_items, write_record, write_table
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="Events: list, show, send again, and explain which agent takes one.", no_args_is_help=True
)
OutcomeOption = Annotated[
    str | None, typer.Option("--outcome", help="Only with this outcome, like unrouted, started or failed.")
]
TypeOption = Annotated[list[str] | None, typer.Option("--type", help="Only of this type; repeatable.")]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", "-c", help="Only of this conversation.")
]
AGAIN = ("started", "steered", "queued", "deferred")
"""Outcomes of events that an agent gets."""
MAX_FILE_BYTES = 2**21
"""An event has less; a larger file is none."""


@app.command("list")
@server_command
def list_events(
    server: Server,
    outcome: OutcomeOption = None,
    event_type: TypeOption = None,
    conversation: ConversationOption = None,
    requester: Annotated[
        str | None, typer.Option("--from", metavar="WHO", help="Only from it, as hook:NAME or channel:NAME.")
    ] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List the events that came in, newest first, with what became of each and why."""
    write_items(
        server.items(
            "/v1/events", limit=limit, requester=requester, **_query(outcome, event_type, conversation)
        ),
        {
            "event": "event_id",
            "type": "event_type",
            "outcome": "outcome",
            "agent": lambda one: one["routing"].get("agent"),
            "run": "run_id",
            "came": lambda one: moment(one["created_at"]),
            "text": lambda one: one["input_summary"][:60],
            "because": lambda one: one["routing"].get("reason"),
        },
        as_json=as_json,
        none="no such events: what channels, hooks, schedules and clients send appears here",
        spare=("came", "run", "text"),
    )


@app.command("show")
@server_command
def show_event(
    server: Server,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Its id, as in `hostler events list`.")],
    as_json: JsonOption = False,
) -> None:
    """Show one event, with its content and what became of it."""
    write_record(server.get(route("events", event)), _show_event, as_json=as_json)


@app.command("replay")
@server_command
def replay_events(
    server: Server,
    events: Annotated[
        list[str] | None, typer.Argument(metavar="[EVENT]...", help="Ids, as in `hostler events list`.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Who gets them; by default as events of now find an agent.")
    ] = None,
    outcome: OutcomeOption = None,
    event_type: TypeOption = None,
    conversation: ConversationOption = None,
    limit: LimitOption = 100,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which would be sent again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Send stored events again, as new events that name the old ones: those of these ids, or all that match.

    The oldest goes first. Exit status 1 if one of them reaches no agent. A server has to run.
    """
    query = _query(outcome, event_type, conversation)
    if bool(events) == any(query.values()):
        fail("name events by their ids, or by --outcome, --type or --conversation", USAGE)

    async def replay(api: Api) -> list[dict[str, Any]]:
        ids = list(events or ())
        if not ids:
            ids = [one["event_id"] for one in await api.items("/v1/events", limit=limit, **query)][::-1]
        done = []
        for event_id in ids:
            old = await api.get(route("events", event_id))
            row = {"replay_of": event_id, "event_type": old["event_type"], "text": old["input_summary"]}
            if not dry_run:
                sent = await api.post(route("events", event_id, "replay"), {"agent": agent})
                made = await api.get(route("events", sent["event_id"]))
                row |= {name: made[name] for name in ("event_id", "outcome", "run_id", "routing")}
            done.append(row)
        return done

    done = server.ask(replay, running=not dry_run)
    columns: Columns = {"event": "replay_of", "type": "event_type", "text": lambda one: one["text"][:60]}
    if not dry_run:
        columns = {
            "event": "replay_of",
            "again as": "event_id",
            "outcome": "outcome",
            "agent": lambda one: one["routing"].get("agent"),
            "run": "run_id",
            "because": lambda one: one["routing"].get("reason"),
        }
    write_items(done, columns, as_json=as_json, none="no such events", spare=("run", "text"))
    if not dry_run and any(one["outcome"] not in AGAIN for one in done):
        raise typer.Exit(FAILED)


def _query(outcome: str | None, event_type: list[str] | None, conversation: str | None) -> dict[str, Any]:
    return {"outcome": outcome, "event_type": event_type or None, "conversation_id": conversation}


@app.command("explain")
@server_command
def explain(
    server: Server,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The event as JSON, as `POST /v1/events` takes it; - reads stdin."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Say which agent would take an event, and of each other agent why it would not. Nothing is stored."""
    event = _read(file)
    found: dict[str, Any] = server.ask(lambda api: api.post("/v1/events/explain", event))
    write_record(found, _show, as_json=as_json)


def _read(file: Path) -> Any:
    import msgspec

    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
            data = source.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}", USAGE)
    if len(data) > MAX_FILE_BYTES:
        fail(f"{file} is no event: it has more than {MAX_FILE_BYTES:,} bytes", USAGE)
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        fail(f"{file} is not JSON: {error}", USAGE)
    if not isinstance(event, dict):
        fail(f'{file} is no event: expected an object, like {{"event_type": ..., "input": ...}}', USAGE)
    return event


def _show(found: dict[str, Any]) -> None:
    write_fields((("agent", found["agent"] or "none"), ("because", found["text"])))
    out().print()
    rows = [
        (agent["agent"], "yes" if agent["takes"] else "no", agent["text"], agent["priority"])
        for agent in found["agents"]
    ]
    write_table(("agent", "takes it", "because", "priority"), rows, none="there are no agents")


def _show_event(found: dict[str, Any]) -> None:
    routing, envelope = found["routing"], found["envelope"]
    write_fields(
        (
            ("event", found["event_id"]),
            ("type", found["event_type"]),
            ("source", found["source"]),
            ("came", moment(found["created_at"])),
            ("sent by", found["requester"]),
            ("conversation", found["conversation_id"]),
            ("thread", found["thread_id"]),
            ("actor", found["actor_name"] or found["actor_id"]),
            ("replay of", ((envelope or {}).get("metadata") or {}).get("replay_of")),
            ("outcome", found["outcome"]),
            ("agent", routing.get("agent")),
            ("run", found["run_id"]),
            ("because", routing.get("reason")),
            ("text", found["input_summary"]),
        )
    )
    if envelope is None:
        out().print("its content was deleted")
        return
    import yaml

    shown = {name: envelope[name] for name in ("data", "metadata", "delivery") if envelope.get(name)}
    if shown:
        out().print()
        out().print(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).rstrip(), markup=False)
