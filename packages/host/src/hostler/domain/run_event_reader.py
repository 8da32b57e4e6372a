"""A run's stored results as events without dialect: one algebra for all standard interfaces.

`RunEvents` reads results in order and yields events: a message begins, grows and ends, a tool is called and
returns, somebody is asked, the run ends. It is pure, so that a live stream, a resumed one and the replay of a
run that ended long ago give the same events. Dialects (http/dialects) write each event in their own words.

It settles once what each dialect would have to settle for itself:

- deltas without a message id belong to the message that is completed next;
- blanks at the end of a delta wait for more text, since the complete message may not have them;
- the text of a superseded attempt goes on if the new attempt repeats it, else its message ends as incomplete
  and a new one begins (or it is retracted, for dialects that can);
- an id that a model uses again names another call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hostler.domain.open_messages import OpenMessage
from hostler.domain.run_events import (
    ActionWanted,
    Asked,
    AttemptBegan,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageRetracted,
    MessageStarted,
    Paused,
    ReasoningAdded,
    ReasoningEnded,
    RunEvent,
    StateChanged,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler_protocol.content import (
    ArtifactElement,
    ArtifactRef,
    ContentElement,
    Message,
    TextElement,
    text_of,
)
from hostler_protocol.results import (
    ActionRequested,
    ArtifactCreated,
    AttemptStarted,
    InteractionRequested,
    MessageCompleted,
    MessageDelta,
    ResultData,
    RunCompleted,
    RunFailed,
    RunPaused,
    StateUpdated,
    ToolCallCompleted,
    ToolCallStarted,
)

SHOWN_ROLE = "assistant"
"""Messages of other roles are the runner's notes to itself: no dialect shows them as an answer."""
_BESIDE_REASONING = (MessageRetracted, StateChanged, ActionWanted, AttemptBegan, Paused)
"""Events that do not end a piece of reasoning."""
_AS_IT_IS: dict[type[ResultData], Callable[[Any], RunEvent]] = {
    ArtifactCreated: FileMade,
    StateUpdated: StateChanged,
    ActionRequested: ActionWanted,
    RunPaused: Paused,
}


@dataclass(slots=True)
class _Call:
    """A tool call. `since`: the sequence of its start; `lost`: its attempt was superseded meanwhile."""

    key: str
    name: str
    arguments: Any
    since: int
    returned: bool = False
    lost: bool = False

    def is_same(self, name: str, arguments: Any) -> bool:
        return (self.name, self.arguments) == (name, arguments)


class RunEvents:
    """Reads the results of one run from the first one on, in order.

    `retracts`: the dialect can take text back; else a superseded text goes on or ends as incomplete.
    """

    def __init__(self, *, retracts: bool = False) -> None:
        self._retracts = retracts
        self._keys = 0
        self._open: dict[str | None, OpenMessage] = {}
        self._complete: set[str] = set()
        self._reasoning: int | None = None
        """The message whose reasoning is under way."""
        self._calls: dict[str, list[_Call]] = {}
        """Model's id -> the calls with it, in order."""
        self._asked: dict[str, str | None] = {}
        """Call id of the host -> key of the call."""

    def take(self, sequence: int, data: ResultData) -> Iterator[RunEvent]:
        """Yield the events of one result."""
        for event in self._take(sequence, data):
            if isinstance(event, ReasoningAdded):
                if self._reasoning not in (None, event.key):
                    yield ReasoningEnded(self._reasoning)
                self._reasoning = event.key
            elif self._reasoning is not None and not isinstance(event, _BESIDE_REASONING):
                yield ReasoningEnded(self._reasoning)
                self._reasoning = None
            yield event

    def _take(self, sequence: int, data: ResultData) -> Iterator[RunEvent]:
        match data:
            case MessageDelta(chunk=chunk):
                if chunk.role == SHOWN_ROLE:
                    if chunk.reasoning:
                        yield from self._reasoned(sequence, chunk.message_id, chunk.reasoning)
                    yield from self._delta(sequence, chunk.message_id, text_of(chunk.content))
            case MessageCompleted(message=message):
                yield from self._completed(message)
            case ToolCallStarted() | ToolCallCompleted() | InteractionRequested():
                yield from self._take_call(sequence, data)
            case AttemptStarted():
                yield from self._superseded(data)
            case RunCompleted() | RunFailed():
                yield from self._take_end(data)
            case _:
                if type(data) in _AS_IT_IS:
                    yield _AS_IT_IS[type(data)](data)

    def _take_call(
        self, sequence: int, data: ToolCallStarted | ToolCallCompleted | InteractionRequested
    ) -> Iterator[RunEvent]:
        match data:
            case ToolCallStarted():
                yield from self._called(sequence, data)
            case ToolCallCompleted():
                yield from self._returned(data)
            case InteractionRequested():
                yield from self._requested(sequence, data)

    def _take_end(self, data: RunCompleted | RunFailed) -> Iterator[RunEvent]:
        if isinstance(data, RunCompleted) and data.message is not None:
            yield from self._completed(data.message)
        for message in list(self._open.values()):
            yield from self._abandon(message)
        for call in self._all_calls():
            if call.lost:
                yield ToolDropped(call.key, call.name)
        if isinstance(data, RunCompleted):
            yield Completed(data.finish_reason)
        else:
            yield Failed(data.code, data.error, data.retryable)

    # -- messages ---------------------------------------------------------------------------------------

    def _find(self, message_id: str | None) -> OpenMessage:
        """Return an open message, or a new one."""
        message = self._open.get(message_id)
        if message is None:
            self._keys += 1
            message = self._open[message_id] = OpenMessage(self._keys, message_id)
        return message

    def _start(self, message: OpenMessage) -> Iterator[RunEvent]:
        if not message.started:
            message.started = True
            yield MessageStarted(message.key, message.message_id)

    def _reasoned(self, sequence: int, message_id: str | None, reasoning: str) -> Iterator[RunEvent]:
        if message_id is not None and message_id in self._complete:
            return
        message = self._find(message_id)
        if shown := message.thoughts.add(reasoning, sequence):
            yield ReasoningAdded(message.key, shown)

    def _delta(self, sequence: int, message_id: str | None, text: str) -> Iterator[RunEvent]:
        if not text or message_id in self._complete:
            return
        message = self._find(message_id)
        yield from self._start(message)
        before = message.shown if message.unrepeated else ""
        shown = message.add(text, sequence)
        if shown is None:  # the new attempt says something else
            self._open.pop(message_id)
            yield MessageEnded(message.key, before, incomplete=True)
            other = self._find(message_id)
            yield from self._start(other)
            shown = ""
            for piece, at in zip(message.pieces, message.sequences, strict=True):
                shown += other.add(piece, at) or ""
            message = other
        if shown:
            yield TextAdded(message.key, shown)

    def _completed(self, said: Message) -> Iterator[RunEvent]:
        if said.role != SHOWN_ROLE or (said.message_id is not None and said.message_id in self._complete):
            return
        if said.message_id is not None:
            self._complete.add(said.message_id)
        message = self._open.get(said.message_id) or self._open.get(None)
        text = text_of(said.content)
        if message is not None and not text.startswith(message.shown):
            if message.shown.startswith(text) and not message.shown[len(text) :].strip():
                text = message.shown  # only blanks are missing: nobody sees the difference
            else:
                yield from self._abandon(message)
                message = None
        if message is None:
            message = self._find(said.message_id)
        reasoning, thought = said.reasoning or "", message.thoughts.shown
        if reasoning.startswith(thought) and len(reasoning) > len(thought):
            yield ReasoningAdded(message.key, reasoning[len(thought) :])
        yield from self._start(message)
        if rest := text[len(message.shown) :]:
            yield TextAdded(message.key, rest)
        for element in _contents(said):
            yield ContentAdded(message.key, element)
        self._open.pop(message.message_id, None)
        yield MessageEnded(message.key, text, said)

    def _abandon(self, message: OpenMessage) -> Iterator[RunEvent]:
        self._open.pop(message.message_id, None)
        if message.started:
            yield MessageEnded(message.key, message.shown, incomplete=True)

    # -- calls -------------------------------------------------------------------------------------------

    def _called(self, sequence: int, data: ToolCallStarted) -> Iterator[RunEvent]:
        model_id = data.tool_call_id or f"call{sequence}"
        for call in self._under_way(model_id):
            if call.is_same(data.tool_name, data.parameters):
                call.lost, call.since = False, sequence  # a new attempt repeats it
                return
        yield self._new_call(sequence, model_id, data.tool_name, data.parameters)

    def _all_calls(self) -> list[_Call]:
        return [call for calls in self._calls.values() for call in calls]

    def _under_way(self, model_id: str) -> list[_Call]:
        return [call for call in self._calls.get(model_id, ()) if not call.returned]

    def _new_call(self, sequence: int, model_id: str, name: str, arguments: Any) -> ToolCalled:
        calls = self._calls.setdefault(model_id, [])
        key = f"{model_id}.{len(calls) + 1}" if calls else model_id
        calls.append(_Call(key, name, arguments, sequence))
        return ToolCalled(key, name, arguments)

    def _returned(self, data: ToolCallCompleted) -> Iterator[RunEvent]:
        call = next(iter(self._under_way(data.tool_call_id or "")), None)
        if call is None:
            return  # it was never announced, or a new attempt repeats what is known
        call.returned, call.lost = True, False
        yield ToolReturned(call.key, call.name, data.result, data.error)

    def _requested(self, sequence: int, data: InteractionRequested) -> Iterator[RunEvent]:
        if data.call_id in self._asked:
            yield Asked(self._asked[data.call_id], data, again=True)
            return
        key: str | None = None
        if data.tool_name is not None:
            model_id = data.tool_call_id or data.call_id
            key = self._not_asked(model_id, data)
            if key is None:
                called = self._new_call(sequence, model_id, data.tool_name, data.arguments)
                yield called
                key = called.key
        self._asked[data.call_id] = key
        yield Asked(key, data)

    def _not_asked(self, model_id: str, data: InteractionRequested) -> str | None:
        """Return the key of the call that a request is about, by its arguments if several have its id."""
        asked = set(self._asked.values())
        open_ = [call for call in self._under_way(model_id) if call.key not in asked]
        exact = [call for call in open_ if call.is_same(data.tool_name or "", data.arguments)]
        return next((call.key for call in exact + open_), None)

    # -- attempts and the end ----------------------------------------------------------------------------

    def _superseded(self, data: AttemptStarted) -> Iterator[RunEvent]:
        for message in self._open.values():
            message.supersede(data.discard_after)
            message.thoughts.supersede(data.discard_after)
            if self._retracts and (message.retract() | message.thoughts.retract()):
                yield MessageRetracted(message.key, message.shown, message.thoughts.shown)
        for call in self._all_calls():
            if not call.returned and call.since > data.discard_after and call.key not in self._asked.values():
                call.lost = True
        yield AttemptBegan(data.attempt, data.cause)


def _contents(message: Message) -> Iterator[ContentElement]:
    """Yield what a message has besides text."""
    named: set[str] = set()
    if not isinstance(message.content, str):
        for element in message.content:
            if isinstance(element, TextElement):
                continue
            if isinstance(element, ArtifactElement):
                named.add(element.artifact_id)
            yield element
    for ref in message.artifact_refs:
        if ref.artifact_id not in named:
            yield _element_of(ref)


def _element_of(ref: ArtifactRef) -> ArtifactElement:
    return ArtifactElement(
        artifact_id=ref.artifact_id, mime_type=ref.mime_type, file_name=ref.name, size_bytes=ref.size_bytes
    )
