"""What a client sends to create a run, and what of it becomes an event of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hostler.http.dialects.files import content_of, input_of
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.fold import MODES
from hostler.http.langgraph.messages import Said, read_messages, wrong
from hostler.storage.stores.events import StoredEvent
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.content import Content
from hostler_protocol.events import CallerTool, Delivery, EventEnvelope

DATA_KEY = "langgraph"
"""Where the ids of messages, `metadata` and the modes of a run are in its event's data."""
PARAMS_KEY = "params"
"""What is in an event's data under this key is `adapter.extra.params` of its run."""
OWN_CONFIG = ("thread_id", "run_id", "assistant_id", "graph_id", "checkpoint_id", "checkpoint_ns", "user_id")
"""Members of `config.configurable` that are the server's."""

_ABSENT = {
    "checkpoint": "a run begins at the end of its thread",
    "checkpoint_id": "a run begins at the end of its thread",
    "interrupt_before": "an agent has no nodes: its policy says what waits",
    "interrupt_after": "an agent has no nodes: its policy says what waits",
    "webhook": "webhooks are configured on the host",
    "after_seconds": "a run begins when it is created",
}
"""What is refused wherever it is asked for, and why."""


class Command(Lenient):
    """`Command` of LangGraph. Only `resume` is taken."""

    resume: Any = msgspec.UNSET
    update: Any = None
    goto: Any = None


class Config(Lenient):
    """`config`: `configurable` goes to the agent as parameters of its run."""

    configurable: dict[str, Any] | None = None


class Tool(Lenient):
    """A tool that the client carries out, plain or in OpenAI's form."""

    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    args_schema: dict[str, Any] | None = None
    function: Tool | None = None


class RunCreate(Lenient):
    """The body of a request that creates a run. `input.tools` are tools that the client carries out.

    Without `assistant_id` it is one of Agent Protocol, which alone has `agent_id`, `thread_id`, `messages`.
    """

    assistant_id: str | None = None
    agent_id: str | None = None
    thread_id: str | None = None
    input: Any = None
    messages: list[Any] | None = None
    command: Command | None = None
    metadata: dict[str, Any] | None = None
    config: Config | None = None
    context: dict[str, Any] | None = None
    stream_mode: str | list[str] | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    checkpoint: Any = None
    checkpoint_id: Any = None
    interrupt_before: Any = None
    interrupt_after: Any = None
    webhook: Any = None
    after_seconds: float | None = None


class OwnData(Lenient):
    """What is kept of the request that a run answers."""

    message_ids: list[str | None] = []
    metadata: dict[str, Any] = {}
    modes: list[str] = []


def own_data(event: StoredEvent | None) -> OwnData:
    """Return what was kept of a request; nothing of an event of another interface."""
    if event is None or event.envelope is None:
        return OwnData()
    try:
        return msgspec.convert(event.envelope.data.get(DATA_KEY, {}), OwnData)
    except msgspec.ValidationError:
        return OwnData()


def check(body: RunCreate) -> None:
    """Raise InvalidArgumentError for what this host does not have."""
    command = body.command
    if command is not None and (command.update is not None or command.goto):
        raise refused("command", "update and goto change a graph, and agents are none: resume is taken")
    refuse_absent(body)


def refuse_absent(body: Lenient | Strict) -> None:
    """Raise InvalidArgumentError if a request asks for what no run of this host has."""
    for name, why in _ABSENT.items():
        value = getattr(body, name, None)
        if value and not (name == "checkpoint" and _is_latest(value)):
            raise refused(name, why)


def _is_latest(checkpoint: Any) -> bool:
    """Whether a checkpoint names a thread and nothing of its past."""
    return isinstance(checkpoint, dict) and not checkpoint.get("checkpoint_id")


def modes_of(given: str | Sequence[str] | None, kept: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the modes of a stream, by default those of its run. InvalidArgumentError for an unknown one."""
    asked = [mode for mode in ([given] if isinstance(given, str) else given or []) if mode]
    for mode in asked:
        if mode not in MODES:
            raise refused("stream_mode", f"{mode[:40]!r} is no mode here", f"of {', '.join(MODES)}")
    return tuple(dict.fromkeys(asked or [mode for mode in kept if mode in MODES] or ["values"]))


def said_of(given: Any) -> list[Said]:
    """Return the messages of an input. InvalidArgumentError if it has none."""
    if isinstance(given, str | list):
        given = {"messages": given}
    if not isinstance(given, dict) or given.get("messages") in (None, "", []):
        raise wrong(
            "input", 'an object with messages, like {"messages": [{"role": "user", "content": "..."}]}'
        )
    return read_messages(given["messages"])


def envelope_of(
    body: RunCreate, agent: str, thread_id: str, new: Sequence[Said], modes: Sequence[str]
) -> EventEnvelope:
    """Return the event that a run answers: the new messages of the user, as one input."""
    contents = [element for one in new for element in one.contents]
    own: dict[str, Any] = {"message_ids": [one.id for one in new], "modes": list(modes)}
    if body.metadata:
        own["metadata"] = body.metadata
    data: dict[str, Any] = {DATA_KEY: own}
    if params := _params_of(body):
        data[PARAMS_KEY] = params
    return EventEnvelope(
        event_type="message.received",
        input=input_of(contents, _tools_of(body.input)),
        agent=agent,
        conversation_id=thread_id,
        delivery=Delivery(surface="langgraph"),
        data=data,
    )


def _params_of(body: RunCreate) -> dict[str, Any]:
    configured = (body.config.configurable if body.config is not None else None) or {}
    kept = {name: value for name, value in configured.items() if name not in OWN_CONFIG}
    rest = {}
    if isinstance(body.input, dict):
        rest = {name: value for name, value in body.input.items() if name not in ("messages", "tools")}
    return {**rest, **kept, **(body.context or {})}


def _tools_of(given: Any) -> list[CallerTool]:
    listed = given.get("tools") if isinstance(given, dict) else None
    if listed is None:
        return []
    try:
        tools = msgspec.convert(listed, list[Tool])
    except msgspec.ValidationError as error:
        raise wrong("input.tools", f"a list of tools with name, description, parameters ({error})") from None
    found = []
    for place, one in enumerate(tools):
        tool = one.function or one
        if not tool.name:
            raise wrong(f"input.tools[{place}].name", "a name")
        found.append(
            CallerTool(
                name=tool.name,
                description=tool.description or "",
                parameters=tool.parameters or tool.args_schema or {},
            )
        )
    return found


def said_in(event: StoredEvent | None) -> Content:
    """Return the input of an event as the content of a message."""
    if event is None or event.envelope is None:
        return ""
    given = event.envelope.input
    return content_of(given.contents) if given.contents else given.text or ""
