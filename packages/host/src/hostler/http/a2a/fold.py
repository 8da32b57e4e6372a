"""A run as a task of A2A: the events of a stream, and the whole task.

Each message of the agent is an artifact, whose text comes in chunks; each file is one, too. A chunk is a part
of its artifact, so the whole task has the text of an artifact in one part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.domain.run_events import (
    Asked,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageStarted,
    Paused,
    ReasoningAdded,
    ReasoningEnded,
    RunEvent,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.http.a2a.extensions import REQUESTS, TOOLS, request_parts
from hostler.http.a2a.wire import (
    Artifact,
    Message,
    Part,
    StreamEvent,
    Task,
    TaskArtifactUpdate,
    TaskState,
    TaskStatus,
    TaskStatusUpdate,
)
from hostler.http.dialects.files import UNKNOWN_TYPE, ShownFile, shown_file
from hostler.http.dialects.fold import Ending, Fold, Waiting
from hostler.http.dialects.requests import ALL_REQUESTS
from hostler.http.problems import Problem
from hostler_protocol.content import Usage

OWN = "hostler"
"""The member of metadata that holds what the host adds."""
_INCOMPLETE = {OWN: {"incomplete": True}}
_THOUGHT = {OWN: {"thought": True}}


class TaskFacts(Record):
    """What a task is folded with besides results.

    `base`: the address of the host. `at`: when the status was reached, in RFC 3339, where that is known.
    `tools`: the client is told of calls of tools.
    """

    run_id: str
    context_id: str | None
    base: str = ""
    at: str | None = None
    tools: bool = False


class Binding(Record):
    """How events become frames of a stream, and errors that end one. No two have a name in common."""

    name: str
    event: Callable[[StreamEvent], bytes]
    error: Callable[[Problem], bytes]


@dataclass(slots=True)
class _Made:
    """An artifact so far."""

    artifact_id: str
    name: str
    texts: list[str] = field(default_factory=list)
    files: list[Part] = field(default_factory=list)
    chunks: int = 0

    def whole(self) -> Artifact:
        text = "".join(self.texts)
        parts = [Part(text=text)] if text else []
        return Artifact(artifact_id=self.artifact_id, name=self.name, parts=[*parts, *self.files])


class TaskFold(Fold):
    """Writes an answer as events of A2A, and keeps the whole task unless it is a stream's.

    `opening`: the task that the stream begins with. `decided`: calls that are asked no more. `stays`: the
    stream goes on where the run waits, and says so whenever something more is asked.
    """

    def __init__(
        self,
        facts: TaskFacts,
        binding: Binding,
        *,
        opening: Task | None = None,
        decided: Collection[str] = (),
        stays: bool = False,
    ) -> None:
        self.ends_at = frozenset() if stays else ALL_REQUESTS
        self.ended: Ending | None = None
        self._facts = facts
        self._binding = binding
        self._opening = opening
        self._decided = decided
        self._stays = stays
        self._state: TaskState = "TASK_STATE_SUBMITTED"
        self._said: Message | None = None
        self._metadata: dict[str, Any] | None = None
        self._made: dict[str, _Made] = {}
        self._files: set[str] = set()
        self._file_count = 0
        self._thought: list[str] = []
        self._asked: dict[str, Asked] = {}

    # -- the whole task ------------------------------------------------------------------------------------

    def task(self, *, artifacts: bool = True, history: Sequence[Message] = ()) -> Task:
        """Return the task as it is now; of a stream, without the messages that are over."""
        made = [one.whole() for one in self._made.values()] if artifacts else []
        return Task(
            id=self._facts.run_id,
            context_id=self._facts.context_id,
            status=TaskStatus(state=self._state, message=self._said, timestamp=self._facts.at),
            artifacts=[one for one in made if one.parts],
            history=list(history),
            metadata=self._metadata,
        )

    # -- a stream ------------------------------------------------------------------------------------------

    def begin(self) -> list[bytes]:
        """Return the task where the stream begins."""
        return [] if self._opening is None else self._frames([StreamEvent(task=self._opening)])

    def before(self, sequence: int, event: RunEvent) -> None:
        """Keep what an earlier answer of the run has shown."""
        self._events_of(sequence, event)

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Write an event."""
        return self._frames(self._events_of(sequence, event))

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """Write the last status."""
        self.ended = ending
        own: dict[str, Any] = {}
        state: TaskState
        said: Message | None
        match ending:
            case Waiting(asked=asked):
                left = [one for one in asked if one.request.call_id not in self._decided]
                state, said = self._waiting(left)
            case Completed():
                state, said = "TASK_STATE_COMPLETED", None
            case Failed(code=code, error=error, retryable=retryable):
                state = "TASK_STATE_CANCELED" if code == "cancelled" else "TASK_STATE_FAILED"
                said = self._message("end", [Part(text=error)])
                own = {"code": code, "retryable": retryable}
        if usage is not None and not isinstance(ending, Waiting):
            own["usage"] = msgspec.to_builtins(usage)
        self._metadata = {OWN: own} if own else None
        return self._frames([self._status(state, said)])

    def refuse(self, problem: Problem) -> list[bytes]:
        """Say why the stream ends early; the task goes on."""
        return [self._binding.error(problem)]

    def _frames(self, events: Sequence[StreamEvent]) -> list[bytes]:
        return [self._binding.event(event) for event in events]

    # -- events --------------------------------------------------------------------------------------------

    def _events_of(self, sequence: int, event: RunEvent) -> list[StreamEvent]:
        if isinstance(event, Paused):
            return []  # it waits for what was asked before
        if isinstance(event, Asked):
            return self._at_work([]) if not self._stays else self._also_asked(event)
        if isinstance(event, ToolReturned | ToolDropped):
            self._asked = {name: one for name, one in self._asked.items() if one.key != event.key}
        elif not isinstance(event, ToolCalled):
            self._asked.clear()
        events = self._content_events(event)
        if not events:
            events = self._status_events(sequence, event)
        return events if self._asked else self._at_work(events)

    def _at_work(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Say first that the task is at work, if that is new."""
        if self._state == "TASK_STATE_WORKING":
            return events
        return [self._status("TASK_STATE_WORKING"), *events]

    def _also_asked(self, asked: Asked) -> list[StreamEvent]:
        self._asked[asked.request.call_id] = asked
        return [self._status(*self._waiting(tuple(self._asked.values())))]

    def _content_events(self, event: RunEvent) -> list[StreamEvent]:
        match event:
            case MessageStarted(key=key):
                self._made.setdefault(f"message-{key}", _Made(f"message-{key}", "message"))
            case TextAdded(key=key, text=text):
                made = self._made[f"message-{key}"]
                if self._opening is None:  # a stream keeps nothing of what it has told
                    made.texts.append(text)
                return [self._chunk(made, Part(text=text))]
            case MessageEnded(key=key, incomplete=incomplete):
                made = self._made[f"message-{key}"]
                if incomplete or not made.chunks or self._opening is not None:
                    del self._made[f"message-{key}"]
                if made.chunks:
                    return [self._chunk(made, Part(text=""), last=True, incomplete=incomplete)]
            case ContentAdded(key=key):
                file = shown_file(event)
                if file.identity not in self._files:
                    self._files.add(file.identity)
                    made = self._made[f"message-{key}"]
                    made.files.append(self._part(file))
                    return [self._chunk(made, made.files[-1])]
            case FileMade():
                return self._file_events(shown_file(event))
            case _:
                pass
        return []

    def _file_events(self, file: ShownFile) -> list[StreamEvent]:
        if file.identity in self._files:
            return []
        self._files.add(file.identity)
        self._file_count += 1
        made = _Made(f"file-{self._file_count}", file.name or "file")
        self._made[made.artifact_id] = made
        made.files.append(self._part(file))
        return [self._chunk(made, made.files[0], last=True)]

    def _chunk(self, made: _Made, part: Part, *, last: bool = False, incomplete: bool = False) -> StreamEvent:
        is_more = made.chunks > 0
        made.chunks += 1
        artifact = Artifact(
            artifact_id=made.artifact_id,
            name=None if is_more else made.name,
            parts=[part],
            metadata=_INCOMPLETE if incomplete else None,
        )
        return StreamEvent(
            artifact_update=TaskArtifactUpdate(
                task_id=self._facts.run_id,
                context_id=self._facts.context_id,
                artifact=artifact,
                append=is_more,
                last_chunk=last,
                metadata=_INCOMPLETE if incomplete else None,
            )
        )

    def _part(self, file: ShownFile) -> Part:
        if file.url.startswith("data:"):
            head, _, data = file.url.partition(";base64,")
            return Part(raw=data, filename=file.name, media_type=head.removeprefix("data:"))
        url = file.url if file.artifact_id is None else self._facts.base + file.url
        return Part(
            url=url,
            filename=file.name,
            media_type=None if file.mime_type == UNKNOWN_TYPE else file.mime_type,
        )

    # -- statuses ------------------------------------------------------------------------------------------

    def _status_events(self, sequence: int, event: RunEvent) -> list[StreamEvent]:
        match event:
            case ReasoningAdded(text=text):
                self._thought.append(text)
            case ReasoningEnded() if self._thought:
                text, self._thought = "".join(self._thought), []
                part = Part(text=text, metadata=_THOUGHT)
                return [self._passing(self._message(f"{sequence}", [part], metadata=_THOUGHT))]
            case ToolCalled(key=key, name=name, arguments=arguments) if self._facts.tools:
                return [self._activity(sequence, {"call": key, "name": name, "arguments": arguments})]
            case ToolReturned(key=key, name=name, result=result, error=error) if self._facts.tools:
                outcome = {"result": result} if error is None else {"error": error}
                return [self._activity(sequence, {"call": key, "name": name, **outcome})]
            case _:
                pass
        return []

    def _activity(self, sequence: int, data: dict[str, Any]) -> StreamEvent:
        message = self._message(f"{sequence}-{data['call']}", [Part(data=data)], extension=TOOLS)
        return self._passing(message)

    def _waiting(self, asked: Sequence[Asked]) -> tuple[TaskState, Message]:
        numbers = "-".join(one.request.call_id for one in asked)
        parts = request_parts(self._facts.run_id, asked)
        return "TASK_STATE_INPUT_REQUIRED", self._message(numbers, parts, extension=REQUESTS)

    def _status(self, state: TaskState, said: Message | None = None) -> StreamEvent:
        self._state, self._said = state, said
        return self._update(TaskStatus(state=state, message=said))

    def _passing(self, said: Message) -> StreamEvent:
        """Say something about the work, which is no part of the task."""
        if not self._asked:
            self._state, self._said = "TASK_STATE_WORKING", None
        return self._update(TaskStatus(state=self._state, message=said))

    def _update(self, status: TaskStatus) -> StreamEvent:
        return StreamEvent(
            status_update=TaskStatusUpdate(
                task_id=self._facts.run_id,
                context_id=self._facts.context_id,
                status=status,
                metadata=self._metadata,
            )
        )

    def _message(
        self,
        number: str,
        parts: list[Part],
        *,
        metadata: dict[str, Any] | None = None,
        extension: str | None = None,
    ) -> Message:
        return Message(
            message_id=f"msg_{self._facts.run_id}_{number}",
            role="ROLE_AGENT",
            parts=parts,
            task_id=self._facts.run_id,
            context_id=self._facts.context_id,
            metadata=metadata,
            extensions=[] if extension is None else [extension],
        )
