"""The answers of `/responses` in one run, which later requests may continue by their ids."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hostler_protocol.content import ModelMessage
from hostler_sdk.model_door.limits import MAX_RESPONSES, MAX_RESPONSES_BYTES
from hostler_sdk.model_door.problems import DoorError
from hostler_sdk.model_door.reading import Json


class _Stored(NamedTuple):
    previous: str | None
    messages: list[ModelMessage]
    """What this answer adds to the one before: the new messages, and the answer."""
    response: Json
    size: int


class ResponseStore:
    """At most 256 answers of 32 MiB; the oldest go first."""

    def __init__(self) -> None:
        self._stored: OrderedDict[str, _Stored] = OrderedDict()
        self._items: dict[str, Json] = {}
        self._bytes = 0

    def add(
        self, response: Json, previous: str | None, given: Sequence[ModelMessage], answer: ModelMessage
    ) -> None:
        """Keep an answer."""
        messages = [*given, answer]
        size = len(msgspec.json.encode(messages)) + len(msgspec.json.encode(response))
        self._stored[response["id"]] = _Stored(previous, messages, response, size)
        self._items.update((item["id"], item) for item in response["output"])
        self._bytes += size
        while len(self._stored) > MAX_RESPONSES or self._bytes > MAX_RESPONSES_BYTES:
            _, gone = self._stored.popitem(last=False)
            self._bytes -= gone.size
            for item in gone.response["output"]:
                self._items.pop(item["id"], None)

    def get(self, response_id: str) -> Json:
        """Return an answer. DoorError if there is none of this id."""
        found = self._stored.get(response_id)
        if found is None:
            raise DoorError(404, _unknown(response_id), "response_not_found")
        return found.response

    def item(self, item_id: str) -> Json | None:
        """Return an item of an answer, or None."""
        return self._items.get(item_id)

    def messages(self, response_id: str | None) -> list[ModelMessage]:
        """Return all messages of a conversation, up to and with this answer."""
        parts: list[list[ModelMessage]] = []
        while response_id is not None:
            found = self._stored.get(response_id)
            if found is None:
                raise DoorError(
                    400, _unknown(response_id), "previous_response_not_found", param="previous_response_id"
                )
            parts.append(found.messages)
            response_id = found.previous
        return [message for part in reversed(parts) for message in part]


def _unknown(response_id: str) -> str:
    return (
        f"{response_id!r:.80} is no answer that this run still has; it keeps its last {MAX_RESPONSES}, and "
        "none of other runs: send the messages instead"
    )
