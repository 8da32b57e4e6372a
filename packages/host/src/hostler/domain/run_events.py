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

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """A message begins. `key` counts the messages of the run from 1; it is the same in every reading."""

    key: int
    message_id: str | None


@dataclass(frozen=True, slots=True)
class TextAdded:
    """More text of a message."""

    key: int
    text: str


@dataclass(frozen=True, slots=True)
class MessageRetracted:
    """A message has only `text` again: its attempt was superseded. Only for dialects that ask for it."""

    key: int
    text: str


@dataclass(frozen=True, slots=True)
class ContentAdded:
    """A complete message has an image or a file."""

    key: int
    element: ContentElement


@dataclass(frozen=True, slots=True)
class MessageEnded:
    """A message is over.

    `incomplete`: its attempt was superseded, or the run ended before it was complete; it is in no transcript.
    """

    key: int
    text: str
    message: Message | None = None
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool is called. `key` is the model's id of the call, made unique in the run."""

    key: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """The outcome of a call; `error` None if it succeeded."""

    key: str
    name: str
    result: Any
    error: Any


@dataclass(frozen=True, slots=True)
class ToolDropped:
    """A call of a superseded attempt, which no attempt made again."""

    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A call waits for people or for the client. `key`: that of its `ToolCalled`; None for a question.

    `again`: it replaces an earlier request for the same `call_id`.
    """

    key: str | None
    request: InteractionRequested
    again: bool = False


@dataclass(frozen=True, slots=True)
class FileMade:
    """The run made a file."""

    file: ArtifactCreated


@dataclass(frozen=True, slots=True)
class StateChanged:
    """A state value was written."""

    update: StateUpdated


@dataclass(frozen=True, slots=True)
class ActionWanted:
    """The runner asked its platform for an action."""

    action: ActionRequested


@dataclass(frozen=True, slots=True)
class AttemptBegan:
    """A new attempt works on the run."""

    attempt: int
    cause: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The run waits without a process."""

    pause: RunPaused


@dataclass(frozen=True, slots=True)
class Completed:
    """The run succeeded."""

    finish_reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed, was cancelled (`cancelled`) or out of time (`runner.timeout`)."""

    code: str
    error: str
    retryable: bool


RunEvent = (
    MessageStarted
    | TextAdded
    | MessageRetracted
    | ContentAdded
    | MessageEnded
    | ToolCalled
    | ToolReturned
    | ToolDropped
    | Asked
    | FileMade
    | StateChanged
    | ActionWanted
    | AttemptBegan
    | Paused
    | Completed
    | Failed
)

_AS_IT_IS: dict[type[ResultData], Callable[[Any], RunEvent]] = {
    ArtifactCreated: FileMade,
    StateUpdated: StateChanged,
    ActionRequested: ActionWanted,
    RunPaused: Paused,
}


@dataclass(slots=True)
class _OpenMessage:
    """A message under way.

    `pieces`: its raw text so far, with the sequence of each piece's result. `blanks`: the end of that, not
    shown yet. `unrepeated`: what was shown beyond it, by an attempt that was superseded.
    """

    key: int
    message_id: str | None
    pieces: list[str] = field(default_factory=list)
    sequences: array[int] = field(default_factory=lambda: array("q"))
    blanks: str = ""
    unrepeated: str = ""

    @property
    def raw(self) -> str:
        return "".join(self.pieces)

    @property
    def shown(self) -> str:
        raw = self.raw
        return raw[: len(raw) - len(self.blanks)] + self.unrepeated

    def add(self, text: str, sequence: int) -> str | None:
        """Add raw text; return what is to be shown of it, None if it differs from what was shown."""
        self.pieces.append(text)
        self.sequences.append(sequence)
        if self.unrepeated:
            if self.unrepeated.startswith(text):
                self.unrepeated = self.unrepeated[len(text) :]
                return ""
            if not text.startswith(self.unrepeated):
                return None
            text, self.unrepeated = text[len(self.unrepeated) :], ""
        text = self.blanks + text
        shown = text.rstrip()
        self.blanks = text[len(shown) :]
        return shown

    def supersede(self, after: int) -> None:
        """Drop the pieces that came after a sequence; what they showed waits to be repeated."""
        shown = self.shown
        kept = sum(1 for sequence in self.sequences if sequence <= after)
        del self.pieces[kept:], self.sequences[kept:]
        raw = self.raw
        self.unrepeated = shown[len(raw) :]
        self.blanks = raw[len(shown) :]

    def retract(self) -> bool:
        """Drop what waits to be repeated; return whether something did."""
        retracted, self.unrepeated = bool(self.unrepeated), ""
        return retracted


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
        self._open: dict[str | None, _OpenMessage] = {}
        self._complete: set[str] = set()
        self._calls: dict[str, list[_Call]] = {}
        """Model's id -> the calls with it, in order."""
        self._asked: dict[str, str | None] = {}
        """Call id of the host -> key of the call."""

    def take(self, sequence: int, data: ResultData) -> Iterator[RunEvent]:
        """Yield the events of one result."""
        match data:
            case MessageDelta(chunk=chunk):
                if chunk.role == SHOWN_ROLE:
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
            yield self._abandon(message)
        for call in self._all_calls():
            if call.lost:
                yield ToolDropped(call.key, call.name)
        if isinstance(data, RunCompleted):
            yield Completed(data.finish_reason)
        else:
            yield Failed(data.code, data.error, data.retryable)

    # -- messages ---------------------------------------------------------------------------------------

    def _begin(self, message_id: str | None) -> tuple[_OpenMessage, MessageStarted]:
        self._keys += 1
        message = self._open[message_id] = _OpenMessage(self._keys, message_id)
        return message, MessageStarted(self._keys, message_id)

    def _delta(self, sequence: int, message_id: str | None, text: str) -> Iterator[RunEvent]:
        if not text or message_id in self._complete:
            return
        message = self._open.get(message_id)
        if message is None:
            message, started = self._begin(message_id)
            yield started
        before = message.shown if message.unrepeated else ""
        shown = message.add(text, sequence)
        if shown is None:  # the new attempt says something else
            self._open.pop(message_id)
            yield MessageEnded(message.key, before, incomplete=True)
            other, started = self._begin(message_id)
            yield started
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
                yield self._abandon(message)
                message = None
        if message is None:
            message, started = self._begin(said.message_id)
            yield started
        if rest := text[len(message.shown) :]:
            yield TextAdded(message.key, rest)
        for element in _contents(said):
            yield ContentAdded(message.key, element)
        self._open.pop(message.message_id, None)
        yield MessageEnded(message.key, text, said)

    def _abandon(self, message: _OpenMessage) -> MessageEnded:
        self._open.pop(message.message_id, None)
        return MessageEnded(message.key, message.shown, incomplete=True)

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
            if self._retracts and message.retract():
                yield MessageRetracted(message.key, message.shown)
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
