"""A run as events of AG-UI 1.0, such that its client's verification accepts each reading.

A run of AG-UI is an answer: from a request to where the run waits or ends. What is open then is closed, and a
message that goes on later is opened again, with the same id, as the protocol allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.run_events import (
    ActionWanted,
    Asked,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageStarted,
    ReasoningAdded,
    ReasoningEnded,
    RunEvent,
    StateChanged,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.http.ag_ui import wire
from hostler.http.ag_ui.dialect import error_of
from hostler.http.ag_ui.interrupts import interrupt_of
from hostler.http.dialects.answers import answer_id, call_id_of
from hostler.http.dialects.files import shown_file
from hostler.http.dialects.fold import Answer, Ending, Fold, Waiting
from hostler.http.dialects.requests import ALL_REQUESTS
from hostler.http.problems import Problem
from hostler_protocol.content import Usage

STATE_SCOPE = "conversation"
"""The scope of the agent's state that AG-UI's state shows."""
HIDDEN_KEYS = "external."
"""Keys of state that begin so are notes of the host and of services, not for clients."""
FILE_ACTIVITY = "hostler.file"
ACTION_EVENT = "hostler.action"
_INCOMPLETE = {"hostler": {"incomplete": True}}
_UNRETURNED = {"hostler": {"returned": False}}


@dataclass(slots=True)
class Facts:
    """What an answer is folded with besides results.

    `run_id`: the client's id of the run. `current`: the client speaks 1.0, so that it knows all outcomes.
    `sent`: the state that the client sent. `stored`: the agent's state when the run began, read once it has.
    `messages`: those of the thread so far, where the client has to be told.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    current: bool = True
    sent: dict[str, Any] = field(default_factory=dict)
    stored: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] | None = None
    mark: str = ""
    """Before the number of each frame in its id: of which kind of reading it is."""


class AgUiFold(Fold):
    """Writes one answer as server-sent events of AG-UI."""

    ends_at = ALL_REQUESTS

    def __init__(self, answer: Answer, facts: Facts) -> None:
        self._answer = answer
        self._facts = facts
        self._number = 0
        self._state: dict[str, Any] | None = None
        self._changed: dict[str, Any] = {}
        """State that was written in earlier answers of the run."""
        self._thinking: str | None = None
        """The id of the span of reasoning that is under way."""
        self._spans = 0
        self._open: dict[int, str] = {}
        """Open messages: key -> id."""
        self._unreturned: dict[str, str] = {}
        """Calls without a result in this answer: key -> name."""
        self._by_client: set[str] = set()
        """Calls that the client carries out, by key, of earlier answers."""

    # -- the frames ---------------------------------------------------------------------------------------

    def begin(self) -> list[bytes]:
        """Open the run, with the messages of its thread where the client is told them."""
        facts = self._facts
        started = wire.RunStarted(
            thread_id=facts.thread_id,
            run_id=facts.run_id,
            protocol_version=wire.PROTOCOL_VERSION,
            parent_run_id=facts.parent_run_id,
        )
        if facts.messages is None:
            return self._frames(started)
        return self._frames(started, wire.MessagesSnapshot(messages=facts.messages))

    def before(self, sequence: int, event: RunEvent) -> None:
        """Note what an earlier answer of the run has shown."""
        match event:
            case StateChanged(update=update) if self._is_shown(update.scope, update.key):
                self._changed[update.key] = update.value
            case Asked(key=str(key), request=request) if request.kind == "client_tool":
                self._by_client.add(key)

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Write an event."""
        return [*self._state_shown(), *self._frames(*self._events_of(sequence, event))]

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """Close what is open, and say how the answer ended."""
        return [*self._state_shown(), *self._frames(*self._closing(ending, usage))]

    def refuse(self, problem: Problem) -> list[bytes]:
        """Say why the stream ends early. Without an id: the run goes on, and a client may continue it."""
        return [wire.frame(error_of(problem))]

    def _frames(self, *events: wire.Event) -> list[bytes]:
        frames = []
        for event in events:
            self._number += 1
            frames.append(wire.frame(event, f"{self._facts.mark}{self._number}"))
        return frames

    def _state_shown(self) -> list[bytes]:
        """Tell the state where the answer begins, before anything else of it.

        What the client sent stays; keys that it does not have are those of the agent.
        """
        if self._state is not None:
            return []
        stored = {key: value for key, value in self._facts.stored.items() if self._is_shown(STATE_SCOPE, key)}
        self._state = {**stored, **self._facts.sent, **self._changed}
        return self._frames(wire.StateSnapshot(snapshot=self._state))

    @staticmethod
    def _is_shown(scope: str, key: str) -> bool:
        return scope == STATE_SCOPE and not key.startswith(HIDDEN_KEYS)

    # -- events -------------------------------------------------------------------------------------------

    def _events_of(self, sequence: int, event: RunEvent) -> list[wire.Event]:
        match event:
            case TextAdded() | MessageStarted() | MessageEnded():
                return [self._text_event(event)]
            case ReasoningAdded() | ReasoningEnded():
                return self._reasoning_events(event)
            case ToolCalled() | ToolReturned() | ToolDropped():
                return self._call_events(event)
            case StateChanged(update=update) if self._is_shown(update.scope, update.key):
                path = "/" + update.key.replace("~", "~0").replace("/", "~1")
                return [wire.StateDelta(delta=[{"op": "add", "path": path, "value": update.value}])]
            case ContentAdded() | FileMade():
                return self._file_events(sequence, event)
            case _:
                return self._custom_events(event)

    @staticmethod
    def _custom_events(event: RunEvent) -> list[wire.Event]:
        if isinstance(event, ActionWanted):
            return [wire.Custom(name=ACTION_EVENT, value=msgspec.to_builtins(event.action))]
        return []

    def _text_event(self, event: TextAdded | MessageStarted | MessageEnded) -> wire.Event:
        match event:
            case TextAdded(key=key, text=text):
                return wire.TextMessageContent(message_id=self._open[key], delta=text)
            case MessageStarted(key=key):
                self._open[key] = f"{answer_id('msg', Answer(self._answer.run_id))}_{key}"
                return wire.TextMessageStart(message_id=self._open[key])
            case MessageEnded(key=key, incomplete=incomplete):
                metadata = _INCOMPLETE if incomplete else None
                return wire.TextMessageEnd(message_id=self._open.pop(key), metadata=metadata)

    def _reasoning_events(self, event: ReasoningAdded | ReasoningEnded) -> list[wire.Event]:
        if isinstance(event, ReasoningEnded):
            ended, self._thinking = self._thinking or "", None
            return [wire.ReasoningMessageEnd(message_id=ended), wire.ReasoningEnd(message_id=ended)]
        begun: list[wire.Event] = []
        if self._thinking is None:
            self._spans += 1
            message_id = f"{answer_id('reasoning', self._answer)}_{event.key}_{self._spans}"
            self._thinking = message_id
            begun = [
                wire.ReasoningStart(message_id=message_id),
                wire.ReasoningMessageStart(message_id=message_id),
            ]
        return [*begun, wire.ReasoningMessageContent(message_id=self._thinking, delta=event.text)]

    def _call_events(self, event: ToolCalled | ToolReturned | ToolDropped) -> list[wire.Event]:
        call_id = call_id_of(self._answer, event.key)
        match event:
            case ToolCalled(name=name, arguments=arguments):
                self._unreturned[event.key] = name
                text = msgspec.json.encode({} if arguments is None else arguments).decode()
                return [
                    wire.ToolCallStart(tool_call_id=call_id, tool_call_name=name),
                    wire.ToolCallArgs(tool_call_id=call_id, delta=text),
                    wire.ToolCallEnd(tool_call_id=call_id),
                ]
            case ToolReturned(result=result, error=error):
                self._unreturned.pop(event.key, None)
                if event.key in self._by_client:
                    return []  # the client said it, and has it among its messages
                metadata = None if error is None else {"hostler": {"error": error}}
                return [self._result(call_id, _text_of(result if error is None else error), metadata)]
            case _:
                self._unreturned.pop(event.key, None)
                return [self._result(call_id, "", _UNRETURNED)]

    @staticmethod
    def _result(call_id: str, content: str, metadata: dict[str, Any] | None) -> wire.ToolCallResult:
        return wire.ToolCallResult(
            message_id=f"{call_id}_result", tool_call_id=call_id, content=content, metadata=metadata
        )

    def _file_events(self, sequence: int, event: ContentAdded | FileMade) -> list[wire.Event]:
        file = shown_file(event)
        own_id = f"file_{self._answer.run_id}_{sequence}"
        if isinstance(event, ContentAdded):
            own_id += f"_{self._number}"
        content = {
            "artifact_id": file.artifact_id,
            "name": file.name,
            "mime_type": file.mime_type,
            "size_bytes": file.size_bytes,
            "url": file.url,
        }
        known = {name: value for name, value in content.items() if value is not None}
        return [wire.ActivitySnapshot(message_id=own_id, activity_type=FILE_ACTIVITY, content=known)]

    # -- the end ------------------------------------------------------------------------------------------

    def _closing(self, ending: Ending, usage: Usage | None) -> list[wire.Event]:
        closed: list[wire.Event] = [
            wire.TextMessageEnd(message_id=message_id) for message_id in self._open.values()
        ]
        self._open.clear()
        match ending:
            case Waiting(asked=asked):
                return [*closed, self._finished(self._waiting(asked))]
            case Completed():
                # a client takes a call without a result for one that it has to carry out
                closed += [
                    self._result(call_id_of(self._answer, key), "", _UNRETURNED) for key in self._unreturned
                ]
                return [*closed, self._finished(wire.Success(), usage)]
            case Failed(code="cancelled") if self._facts.current:
                return [*closed, self._finished(wire.Cancelled(), usage)]
            case Failed(code=code, error=error, retryable=retryable):
                metadata = {"hostler": {"retryable": retryable}}
                return [
                    *closed,
                    wire.RunError(message=error, code=code, usage=_usage_of(usage), metadata=metadata),
                ]

    def _waiting(self, asked: tuple[Asked, ...]) -> wire.Outcome:
        run_id = self._answer.run_id
        people = [interrupt_of(run_id, one) for one in asked if one.request.kind != "client_tool"]
        if people:
            return wire.Interrupted(interrupts=people)
        if not self._facts.current:
            return wire.Success()  # an older client knows no more of it, and looks at the calls themselves
        return wire.Success(
            pending_tool_call_ids=[call_id_of(self._answer, one.key) for one in asked if one.key is not None]
        )

    def _finished(self, outcome: wire.Outcome, usage: Usage | None = None) -> wire.RunFinished:
        """Close the run. Usage is that of all its answers, so only the last one tells it."""
        return wire.RunFinished(
            thread_id=self._facts.thread_id,
            run_id=self._facts.run_id,
            outcome=outcome,
            usage=_usage_of(usage),
        )


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _usage_of(usage: Usage | None) -> list[wire.TokenUsage]:
    if usage is None:
        return []
    found = wire.TokenUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cached_input_tokens=usage.cached_tokens,
    )
    return [] if found == wire.TokenUsage() else [found]
