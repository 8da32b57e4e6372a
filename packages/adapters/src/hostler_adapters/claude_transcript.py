"""The conversation of an agent of the Claude Agent SDK: as kept, and as its program reads it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hostler_adapters.conversation import Turn

Message = dict[str, Any]
"""A message in Anthropic's form: `role` and `content`."""
_NAMES = uuid.UUID("6c1f5d1e-7f54-5d0b-9a57-3d1a4f0e6d2b")
"""Namespace of the ids that the program wants: they follow from the run, and are the same in each attempt."""


def id_of(*parts: object) -> str:
    """Return an id that follows from its parts."""
    return str(uuid.uuid5(_NAMES, "/".join(map(str, parts))))


def user_content(turns: Sequence[Turn]) -> str | list[dict[str, Any]]:
    """Return what people said, as the content of one message."""
    blocks = [block for turn in turns for block in _blocks(turn)]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return str(blocks[0]["text"])
    return blocks


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    for url in turn.images:
        if url.startswith("data:"):
            head, _, data = url.partition(",")
            kind = head[5:].partition(";")[0]
            blocks.append({"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}})
        else:
            blocks.append({"type": "image", "source": {"type": "url", "url": url}})
    return blocks


def message_of(turn: Turn) -> Message:
    """Return an earlier turn."""
    if turn.role == "assistant":
        return {"role": "assistant", "content": [{"type": "text", "text": turn.text}]}
    return {"role": "user", "content": user_content([turn])}


def begins_turn(message: Message) -> bool:
    """Whether a message is one of the user's, not the result of a tool."""
    content = message["content"]
    if message["role"] != "user":
        return False
    return isinstance(content, str) or all(block["type"] != "tool_result" for block in content)


class Transcript:
    """The messages of a run, in order, those of earlier ones first."""

    def __init__(self, earlier: Sequence[Message]) -> None:
        self.messages: list[Message] = list(earlier)
        self._answer: str | None = None
        self._late: list[Message] = []

    def ask(self, content: str | list[dict[str, Any]]) -> None:
        """Add what people said."""
        self.messages.append({"role": "user", "content": content})
        self._answer = None

    def steer(self, content: str | list[dict[str, Any]]) -> None:
        """Add what people said meanwhile: the model reads it after the results of its tools."""
        self._late.append({"role": "user", "content": content})

    def answer(self, message_id: str | None, blocks: Sequence[dict[str, Any]]) -> None:
        """Add blocks of an answer, which the program sends one at a time."""
        if self._late:
            self.messages += self._late
            self._late = []
        if message_id is not None and message_id == self._answer:
            self.messages[-1]["content"] += blocks
        elif blocks:
            self.messages.append({"role": "assistant", "content": list(blocks)})
            self._answer = message_id

    def result(self, block: dict[str, Any]) -> None:
        """Add the result of a tool."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "user" and not begins_turn(last):
            last["content"].append(block)
        else:
            self.messages.append({"role": "user", "content": [block]})
        self._answer = None


def entries_of(
    messages: Sequence[Message], session_id: str, began_at: float, folder: str
) -> list[dict[str, Any]]:
    """Return messages as the entries of a transcript that the program can resume."""
    entries: list[dict[str, Any]] = []
    before: str | None = None
    at = datetime.fromtimestamp(began_at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for number, message in enumerate(messages):
        own = id_of(session_id, number)
        entries.append(
            {
                "type": message["role"],
                "uuid": own,
                "parentUuid": before,
                "sessionId": session_id,
                "timestamp": at,
                "cwd": folder,
                "version": "1",
                "userType": "external",
                "isSidechain": False,
                "message": _written(message, session_id, number),
            }
        )
        before = own
    return entries


def _written(message: Mapping[str, Any], session_id: str, number: int) -> dict[str, Any]:
    if message["role"] == "user":
        return {"role": "user", "content": message["content"]}
    return {
        "id": f"msg_{id_of(session_id, number, 'answer')}",
        "type": "message",
        "role": "assistant",
        "model": "default",
        "content": message["content"],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
