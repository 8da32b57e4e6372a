"""`hostler runs tail --conversation ID | --all`: many runs as they go on, in one order."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

from hostler.cli.output import note, write_line
from hostler.cli.routes import route
from hostler.cli.terminal_text import harmless
from hostler_protocol.content import text_of
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.results import InteractionRequested, MessageCompleted, RunFailed, decode_data

if TYPE_CHECKING:
    from hostler.cli.client import Api, StreamEvent

SHORT_ID = 8
SHOWN = (
    *("event.received", "run.status", "pause.status", "pause.call", "conversation.deleted"),
    *("steering.queued", "steering.requeued", "steering.dropped"),
    *("message.completed", "interaction.requested", "run.failed"),
)
"""What people read; --json has everything."""


async def tail(
    api: Api,
    conversation: str | None,
    agent: str | None,
    *,
    cursor: str | None,
    from_start: bool,
    as_json: bool,
) -> None:
    """Follow until interrupted. InvalidArgumentError where no server is running."""
    if api.in_process:
        raise InvalidArgumentError("no server is running, so that nothing happens: start `hostler serve`")
    path = "/v1/stream" if conversation is None else route("conversations", conversation, "stream")
    wanted: dict[str, Any] = {"agent": agent, "from": "start" if from_start else None}
    if not as_json:
        wanted["type"] = list(SHOWN)
    events = api.follow(path, cursor, on_lost=_lost, **wanted)
    async for event in events:
        if as_json:
            head = msgspec.json.encode({"cursor": event.cursor, "type": event.type})
            write_line(head[:-1] + b',"data":' + event.data + b"}")
        elif line := line_of(event):
            sys.stdout.write(f"{harmless(line) if sys.stdout.isatty() else line}\n")
            sys.stdout.flush()


def _lost(cursor: str | None, why: str) -> None:
    note(f"{why}; it is tried again")


def line_of(event: StreamEvent) -> str | None:
    """Return what a person reads of an event, or None."""
    data: dict[str, Any] = msgspec.json.decode(event.data)
    match event.type:
        case "event.received":
            sender = data["requester"] or data["source"]
            return _line(data, data["agent"], f"{sender}: {_said(data['envelope'])}")
        case "run.status":
            return _line(data, data["agent"], f"{data['status']}{_why(data)}")
        case "pause.status" | "pause.call":
            change = data.get("decision") or data["status"]
            return _line(data, None, f"pause {data['pause_id'][:SHORT_ID]}: {change}")
        case "conversation.deleted":
            return f"{_at(data)}  a conversation was deleted: {data['conversation']}"
        case steering if steering.startswith("steering."):
            return _line(data, None, f"message {data['event_id']}: {steering.removeprefix('steering.')}")
    return _result(event, data)


def _result(event: StreamEvent, data: dict[str, Any]) -> str | None:
    try:
        result = decode_data(event.type, msgspec.Raw(msgspec.json.encode(data["data"])))
    except InvalidArgumentError:
        return None  # a type that this version does not know
    match result:
        case MessageCompleted(message=message):
            return f"  {_run(data)}  {text_of(message.content)}"
        case InteractionRequested() as asked:
            return f"  {_run(data)}  asks: {asked.tool_name or asked.kind}"
        case RunFailed(error=error):
            return f"  {_run(data)}  {error}"
    return None


def _line(data: dict[str, Any], agent: str | None, text: str) -> str:
    words = [_at(data), data.get("conversation_id") or "-", agent]
    if "run_id" in data:
        words.append(_run(data))
    return "  ".join(word for word in [*words, text] if word)


def _at(data: dict[str, Any]) -> str:
    return time.strftime("%H:%M:%S", time.localtime(data["at"]))


def _run(data: dict[str, Any]) -> str:
    return f"run {data['run_id'][:SHORT_ID]}"


def _why(data: dict[str, Any]) -> str:
    return "" if data["status_code"] is None else f" ({data['status_code']})"


def _said(envelope: dict[str, Any] | None) -> str:
    if envelope is None:
        return "(deleted)"
    sent = msgspec.convert(envelope, EventEnvelope)
    return text_of(sent.input.contents) if sent.input.contents else sent.input.text or sent.event_type
