"""A dialect for tests, and results to fold."""

from __future__ import annotations

import msgspec

from hostler.domain.run_events import (
    MessageEnded,
    MessageRetracted,
    MessageStarted,
    RunEvent,
    TextAdded,
)
from hostler.http.dialects.fold import Ending, Fold
from hostler.journal.feed import StoredResult
from hostler_protocol.content import Message, MessageChunk, Usage
from hostler_protocol.results import (
    TYPE_OF,
    InteractionKind,
    InteractionRequested,
    MessageCompleted,
    MessageDelta,
    ResultData,
)


class Plain(Fold):
    """Says each event as one line, and adds up the messages as a client would."""

    def __init__(self, *, retracts: bool = False) -> None:
        self.retracts = retracts
        self.texts: dict[int, str] = {}
        self.transcript: list[str] = []
        self.incomplete: list[str] = []
        self.ending: Ending | None = None
        self.mark = b""
        """What each event begins with."""

    def begin(self) -> list[bytes]:
        return [b"begin"]

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        match event:
            case MessageStarted(key=key):
                assert key not in self.texts
                self.texts[key] = ""
            case TextAdded(key=key, text=text):
                assert text
                self.texts[key] += text
            case MessageRetracted(key=key, text=text):
                assert self.retracts
                if key in self.texts:
                    self.texts[key] = text
            case MessageEnded(key=key, incomplete=incomplete):
                (self.incomplete if incomplete else self.transcript).append(self.texts[key])
        return [self.mark + repr(event).encode()]

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        self.ending = ending
        return [b"end", repr(ending).encode()]


def stored(*data: ResultData, first: int = 1) -> list[StoredResult]:
    return [
        StoredResult.of("r", number, TYPE_OF[type(one)], msgspec.json.encode({"data": one}))
        for number, one in enumerate(data, first)
    ]


def delta(text: str, message_id: str | None = None) -> MessageDelta:
    return MessageDelta(chunk=MessageChunk(role="assistant", content=text, message_id=message_id))


def said(text: str, message_id: str = "m1") -> MessageCompleted:
    return MessageCompleted(message=Message(role="assistant", content=text, message_id=message_id))


def asked(
    call_id: str, kind: InteractionKind = "client_tool", tool_call_id: str | None = None
) -> InteractionRequested:
    return InteractionRequested(
        call_id=call_id,
        kind=kind,
        title="?",
        tool_name="scan",
        tool_call_id=tool_call_id,
    )
