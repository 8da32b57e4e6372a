"""What a run's stored results say, as events without dialect.

A message begins, grows and ends, a tool is called and returns, somebody is asked, the run ends.
`run_event_reader` makes them of results.
"""

from __future__ import annotations

from typing import Any

from hostler.domain.record import Record
from hostler_protocol.content import ContentElement, Message
from hostler_protocol.results import (
    ActionRequested,
    ArtifactCreated,
    InteractionRequested,
    RunPaused,
    StateUpdated,
)


class MessageStarted(Record):
    """A message begins. `key` counts the messages of the run from 1; it is the same in every reading."""

    key: int
    message_id: str | None


class TextAdded(Record):
    """More text of a message."""

    key: int
    text: str


class ReasoningAdded(Record):
    """More of how the model came to a message. The message may begin later, or never; it is no part of it."""

    key: int
    text: str


class ReasoningEnded(Record):
    """The reasoning beside a message is over for now: something else comes."""

    key: int


class MessageRetracted(Record):
    """A message has only `text` and `reasoning` again: its attempt was superseded.

    Only for dialects that ask for it.
    """

    key: int
    text: str
    reasoning: str = ""


class ContentAdded(Record):
    """A complete message has an image or a file."""

    key: int
    element: ContentElement


class MessageEnded(Record):
    """A message is over.

    `incomplete`: its attempt was superseded, or the run ended before it was complete; it is in no transcript.
    """

    key: int
    text: str
    message: Message | None = None
    incomplete: bool = False


class ToolCalled(Record):
    """A tool is called. `key` is the model's id of the call, made unique in the run."""

    key: str
    name: str
    arguments: Any


class ToolReturned(Record):
    """The outcome of a call; `error` None if it succeeded."""

    key: str
    name: str
    result: Any
    error: Any


class ToolDropped(Record):
    """A call of a superseded attempt, which no attempt made again."""

    key: str
    name: str


class Asked(Record):
    """A call waits for people or for the client. `key`: that of its `ToolCalled`; None for a question.

    `again`: it replaces an earlier request for the same `call_id`.
    """

    key: str | None
    request: InteractionRequested
    again: bool = False


class FileMade(Record):
    """The run made a file."""

    file: ArtifactCreated


class StateChanged(Record):
    """A state value was written."""

    update: StateUpdated


class ActionWanted(Record):
    """The runner asked its platform for an action."""

    action: ActionRequested


class AttemptBegan(Record):
    """A new attempt works on the run."""

    attempt: int
    cause: str


class Paused(Record):
    """The run waits without a process."""

    pause: RunPaused


class Completed(Record):
    """The run succeeded."""

    finish_reason: str


class Failed(Record):
    """The run failed, was cancelled (`cancelled`) or out of time (`runner.timeout`)."""

    code: str
    error: str
    retryable: bool


RunEvent = (
    MessageStarted
    | TextAdded
    | ReasoningAdded
    | ReasoningEnded
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
